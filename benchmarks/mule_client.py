"""`mule` in the rig that plays the same work through its peers: one client, started by the rig's runner.

Scenarios S1 and S2 read `stream_model`; with the variant `run` they go through `run` with a listener that
returns `done`. S3, S4 and S7 are turns of the loop with a typed tool.

The rig's `common` module (arguments, measuring, expectations) must be importable; it is not part of this
project.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from common import PROMPT, Result, history, main  # type: ignore[import-not-found]  # the rig's own
from returns.future import FutureResult
from typing_extensions import TypedDict

from mule.adapters.registry import ProviderSession
from mule.effect import (
    AssistantMessage,
    AssistantMessageEvent,
    Context,
    Message,
    MessageUpdate,
    Model,
    MuleError,
    MuleEvent,
    MuleRunInput,
    SimpleStreamOptions,
    TextContent,
    Tool,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    done,
    normalize_model,
    run,
)
from mule.toolkit import tool


class Line(TypedDict):
    """One line of the file that S2 writes."""

    n: int
    text: str
    ok: bool


@tool
async def add(a: int, b: int) -> str:
    """Add two integers."""
    return str(a + b)


@tool
async def write(path: str, lines: list[Line]) -> str:
    """Write a file."""
    return str(len(lines))


def transcript() -> tuple[Message, ...]:
    """The neutral history of the rig as messages."""
    messages: list[Message] = []
    for entry in history():
        match entry[0]:
            case "user":
                messages.append(UserMessage(content=entry[1]))
            case "call":
                messages.append(_answer(ToolCall(id=entry[1], name=entry[2], arguments=entry[3])))
            case "result":
                content = (TextContent(text=entry[3]),)
                messages.append(
                    ToolResultMessage(tool_call_id=entry[1], tool_name=entry[2], content=content)
                )
            case _:
                messages.append(_answer(TextContent(text=entry[1])))
    return tuple(messages)


def _answer(block: TextContent | ToolCall) -> AssistantMessage:
    reason: Any = "toolUse" if isinstance(block, ToolCall) else "stop"
    return AssistantMessage(
        content=(block,), api="openai-completions", provider="bench", model="m", stop_reason=reason
    )


def build(scenario: str, url: str, wire: str, variant: str) -> Callable[[], Awaitable[Any]]:
    """What the rig asks of a client: a function that plays the scenario once."""
    described = {"id": "m", "api": "openai-completions", "provider": "bench", "baseUrl": url}
    model: Model[Any] = normalize_model(described).unwrap()
    options = SimpleStreamOptions(api_key="x")
    session = ProviderSession()
    streams = scenario.startswith(("S0", "S1", "S2"))
    if streams and variant != "run":
        return _stream_player(scenario, model, options, session)
    return _run_player(scenario, model, options, session)


def _stream_player(
    scenario: str, model: Model[Any], options: SimpleStreamOptions, session: ProviderSession
) -> Callable[[], Awaitable[Any]]:
    tools: tuple[Tool, ...] = (write.descriptor,) if scenario.startswith("S2") else ()
    context = Context(messages=(UserMessage(content=PROMPT),), tools=tools)

    async def play() -> Any:
        stream = session.stream(model, context, options)
        events = 0
        last: AssistantMessageEvent | None = None
        async for event in stream:
            events += 1
            last = event
        await stream.aclose()
        assert last is not None
        if last.type != "done":
            raise SystemExit(f"{last.type}: {last.error.error_message if last.type == 'error' else ''}")
        return _result(events, last.message, 0)

    return play


def _result(events: int, message: AssistantMessage, tools: int) -> Any:
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    lines = calls[0].arguments.get("lines") if calls else None
    size = len(lines) if isinstance(lines, list | tuple) else -1
    return Result(events, len(message.text), size, tools)


def _run_player(
    scenario: str, model: Model[Any], options: SimpleStreamOptions, session: ProviderSession
) -> Callable[[], Awaitable[Any]]:
    start = MuleRunInput(
        model=model,
        options=options,
        stream=session.stream,
        messages=transcript() if scenario == "S7" else (),
        prompts=(UserMessage(content=PROMPT),),
        tools=(write if scenario.startswith("S2") else add,),
    )

    async def play() -> Any:
        events = tools = 0
        lines = -1

        def listen(event: MuleEvent) -> FutureResult[None, MuleError]:
            nonlocal events, tools, lines
            events += 1
            if not isinstance(event, MessageUpdate) and event.type == "tool_execution_end":
                tools += 1
                if scenario.startswith("S2"):
                    block = event.result.content[0]
                    lines = int(block.text) if isinstance(block, TextContent) else -1
            return done

        outcome = (await run(dataclasses.replace(start), listen).awaitable())._inner_value.unwrap()
        assert outcome.final is not None
        return Result(events, len(outcome.final.text), lines, tools)

    return play


if __name__ == "__main__":
    main("mule", build)
