"""How the tests of the agent loop run it: tools, a listener that keeps what it hears, short names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from mule.agent import (
    AbortController,
    AbortSignal,
    AgentContext,
    AgentEvent,
    AgentLoopConfig,
    AgentTool,
    AgentToolResult,
    AgentToolUpdateCallback,
    run_agent_loop,
)
from mule.effect import TextContent, ToolCall, ToolResultMessage, UserMessage
from mule.testing import SCRIPTED_MODEL, Scripted, ScriptedModel

Execute: TypeAlias = "Callable[[str, Any, AbortSignal | None, AgentToolUpdateCallback], Awaitable[Any]]"
ANYTHING = {"type": "object", "properties": {}}


def said(text: str) -> UserMessage:
    """A user message."""
    return UserMessage(content=text, timestamp=1)


ASK = (said("Is the bridge open?"),)


def text_result(text: str, **fields: Any) -> AgentToolResult[Any]:
    """A result of one text."""
    return AgentToolResult(content=(TextContent(text=text),), **fields)


def tool(name: str, execute: Execute | str = "ok", **settings: Any) -> AgentTool[Any, Any]:
    """A tool that does this, or gives this text."""

    async def say(*_: object) -> AgentToolResult[Any]:
        return text_result(str(execute))

    given = {"parameters": ANYTHING, "description": "", **settings}
    return AgentTool(name=name, execute=say if isinstance(execute, str) else execute, **given)


def call(name: str, id: str | None = None, **arguments: Any) -> ToolCall:
    """A call; its id is the name where none is given."""
    return ToolCall(id=id or name, name=name, arguments=arguments)


class Ear:
    """A listener that keeps what it hears. `react` may give something to wait for, and may raise."""

    def __init__(self, react: Callable[[AgentEvent[Any]], Any] = lambda _event: None) -> None:
        self.heard: list[AgentEvent[Any]] = []
        self.react = react

    def __call__(self, event: AgentEvent[Any]) -> Any:
        self.heard.append(event)
        return self.react(event)

    @property
    def kinds(self) -> list[str]:
        """The types of what was heard."""
        return [event.type for event in self.heard]

    def calls(self, kind: str) -> list[str]:
        """The ids of the calls that events of this type are about."""
        return [event.tool_call_id for event in self.heard if event.type == kind]  # type: ignore[union-attr]  # of tools


async def perform(
    script: Sequence[Scripted] | ScriptedModel,
    *tools: AgentTool[Any, Any],
    ear: Ear | None = None,
    controller: AbortController | None = None,
    messages: Sequence[Any] = (),
    prompts: Sequence[Any] = ASK,
    stream_fn: Any = None,
    **config: Any,
) -> tuple[Any, ...]:
    """Run the loop on a script. Gives the new messages."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    return await run_agent_loop(
        prompts,
        AgentContext(messages=messages, tools=tools),
        AgentLoopConfig(model=SCRIPTED_MODEL, **config),
        ear or Ear(),
        None if controller is None else controller.signal,
        stream_fn or model,
    )


def results_of(messages: Iterable[Any]) -> list[tuple[str, bool, str]]:
    """The tool results in a transcript: call id, whether it is an error, text."""
    return [(m.tool_call_id, m.is_error, m.text) for m in messages if isinstance(m, ToolResultMessage)]
