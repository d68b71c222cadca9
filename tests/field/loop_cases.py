"""How is a field case about the loop played, and what became of it?

Tools, the model and what happens from outside are data. A case is played through one of the doors: the
agent loop knows what a case may ask for; `mule.effect` has no cooperative abort and no retry yet.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import anyio
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from field.reported import FieldCase, Json
from mule.agent import (
    AbortController,
    AgentContext,
    AgentLoopConfig,
    AgentTool,
    AgentToolResult,
    retry_assistant_call,
    run_agent_loop,
)
from mule.effect import (
    AssistantMessage,
    Context,
    Message,
    Model,
    MulePreparedTool,
    MuleRunInput,
    MuleTool,
    MuleToolExecutionPart,
    MuleToolRejection,
    MuleToolResult,
    RetryPolicy,
    SimpleStreamOptions,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    done,
    ready,
    run,
    settle,
)
from mule.testing import SCRIPTED_MODEL, ScriptedAnswer, ScriptedModel
from mule.transcript.arguments import validate_tool_arguments

Door = Literal["agent", "effect"]
_ANSWER: Final = {"role": "assistant", "api": "scripted", "provider": "scripted", "model": "scripted-1"}


@dataclass
class ToolRun:
    """One run of a tool function."""

    tool: str
    params: Any
    ended: str = "running"


@dataclass
class Played:
    """A case on its way, and what became of it.

    Attributes:
        requests: what each model call was given; one with a signal that is aborted already is not counted.
        new: the messages that the run added.
        cancelled: the run was cancelled, by the case.
        at: seconds from the first action to the end of the run.
    """

    case: FieldCase
    requests: list[Context] = field(default_factory=list)
    runs: list[ToolRun] = field(default_factory=list)
    new: tuple[Message, ...] = ()
    cancelled: bool = False
    at: float = 0
    steering: list[UserMessage] = field(default_factory=list)
    follow_ups: list[UserMessage] = field(default_factory=list)
    controller: AbortController = field(default_factory=AbortController)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    heard: list[Any] = field(default_factory=list)
    acted: dict[int, float] = field(default_factory=dict)

    @property
    def results(self) -> list[tuple[str, bool, str]]:
        """The tool results, in the order of the transcript."""
        found = [m for m in self.new if isinstance(m, ToolResultMessage)]
        return [(m.tool_call_id, m.is_error, m.text) for m in found]

    @property
    def answers(self) -> list[AssistantMessage]:
        """The answers of the model."""
        return [m for m in self.new if isinstance(m, AssistantMessage)]

    def hear(self, event: Any) -> None:
        """Keep an event, and do what the case wants done on it."""
        self.heard.append(event)
        for index, action in enumerate(self.case.content.get("actions", ())):
            fits = event.type == action.get("onEvent") or len(self.heard) == action.get("afterEvents")
            if fits and not (action.get("once") and index in self.acted):
                self.act(index, action)

    def act(self, index: int, action: Json) -> None:
        """Do something from outside."""
        self.acted.setdefault(index, anyio.current_time())
        message = UserMessage(content=action.get("text", ""), timestamp=1)
        match action["do"]:
            case "abort":
                self.controller.abort()
            case "steer":
                self.steering.append(message)
            case "follow_up":
                self.follow_ups.append(message)
            case "cancel" | "stop_consuming":
                self.scope.cancel()
            case other:
                raise ValueError(f"nobody has said how to {other}")


def doors(case: FieldCase) -> list[Door]:
    """The doors that a case can be played through."""
    given = {action["do"] for action in case.content.get("actions", ())}
    needs_agent = "abort" in given or "retry" in case.content["input"].get("config", {})
    return ["agent"] if needs_agent else ["agent", "effect"]


async def play(case: FieldCase, door: Door) -> Played:
    """Play a case. What the run raises is raised; a cancel that the case asked for is not."""
    played = Played(case)
    script = ScriptedModel([_answer(entry) for entry in case.content["model_script"]])

    def stream(model: Model[Any], context: Context, options: SimpleStreamOptions) -> Any:
        if options.signal is None or not options.signal.aborted:
            played.requests.append(context)
        return script(model, context, options)

    async with anyio.create_task_group() as outside:
        for index, action in enumerate(case.content.get("actions", ())):
            if "atMs" in action:
                outside.start_soon(_act_later, played, index, action)
        with played.scope:
            await (_through_agent if door == "agent" else _through_effect)(played, stream)
        played.cancelled = played.scope.cancelled_caught
        played.at = anyio.current_time() - min(played.acted.values(), default=0)
        outside.cancel_scope.cancel()
    return played


async def _act_later(played: Played, index: int, action: Json) -> None:
    await anyio.sleep(action["atMs"] / 1000)
    played.act(index, action)


def _answer(entry: Json) -> ScriptedAnswer:
    return ScriptedAnswer.from_json({**_ANSWER, "timestamp": 1, **entry})


def _prompts(case: FieldCase) -> tuple[UserMessage, ...]:
    return tuple(UserMessage(content=text, timestamp=1) for text in case.content["input"]["prompts"])


def _take(queue: list[UserMessage]) -> list[UserMessage]:
    taken, queue[:] = queue[:], []
    return taken


# --- the doors


async def _through_agent(played: Played, stream: Any) -> None:
    input: Json = played.case.content["input"]
    config: Json = input.get("config", {})
    played.new = await run_agent_loop(
        _prompts(played.case),
        AgentContext[Message](tools=[_agent_tool(tool, played) for tool in input["tools"]]),
        AgentLoopConfig[Message](
            model=SCRIPTED_MODEL,
            tool_execution=config.get("toolExecution", "parallel"),
            max_parallel_tools=config.get("parallelLimit"),
            get_steering_messages=lambda: _take(played.steering),
            get_follow_up_messages=lambda: _take(played.follow_ups),
        ),
        played.hear,
        played.controller.signal,
        _retrying(stream, config["retry"], played) if "retry" in config else stream,
    )


def _retrying(stream: Any, retry: Json, played: Played) -> Any:
    """The stream function of a host that wraps its calls, as Pi's does."""
    policy = RetryPolicy(max_retries=retry["attempts"], base_delay_ms=retry["baseDelayMs"])

    async def retried(*request: Any) -> Any:
        async def produce() -> AssistantMessage:
            message: AssistantMessage = await stream(*request).result()
            return message

        message = await retry_assistant_call(produce, policy, played.controller.signal)
        return ScriptedModel([ScriptedAnswer(message, events=False)])(*request)

    return retried


async def _through_effect(played: Played, stream: Any) -> None:
    input: Json = played.case.content["input"]
    config: Json = input.get("config", {})

    def listen(event: Any) -> Any:
        played.hear(event)
        return done

    result = await settle(
        run(
            MuleRunInput(
                model=SCRIPTED_MODEL,
                prompts=_prompts(played.case),
                tools=tuple(_mule_tool(tool, played) for tool in input["tools"]),
                stream=stream,
                tool_execution=config.get("toolExecution", "parallel"),
                max_parallel_tools=config.get("parallelLimit"),
                get_steering_messages=lambda: ready(_take(played.steering)),
                get_follow_up_messages=lambda: ready(_take(played.follow_ups)),
            ),
            listen,
        )
    )
    played.new = result.unwrap().new_messages


# --- tools


def _agent_tool(given: Json, played: Played) -> AgentTool[Any, Any]:
    async def execute(_id: str, params: Any, *_: object) -> AgentToolResult[Any]:
        return AgentToolResult(content=(TextContent(text=await _behave(given, params, played)),))

    return AgentTool(
        name=given["name"],
        description=given["description"],
        parameters=given["parameters"],
        execute=execute,
    )


def _mule_tool(given: Json, played: Played) -> MuleTool:
    declaration = _agent_tool(given, played).declaration()

    def prepare(call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
        async def go() -> Result[MulePreparedTool, MuleToolRejection]:
            try:
                params = validate_tool_arguments(declaration, call.arguments)
            except ValueError as exc:
                return Failure(MuleToolRejection("invalid_arguments", str(exc)))

            async def execute() -> AsyncIterator[Result[MuleToolExecutionPart, Any]]:
                yield Success(MuleToolResult.text(await _behave(given, params, played)))

            return Success(MulePreparedTool(execute))

        return FutureResult(go())

    return MuleTool(descriptor=declaration, prepare=prepare)


async def _behave(given: Json, params: Any, played: Played) -> str:
    script: Json = given["script"]
    if unknown := set(script) - {"sleepMs", "return", "raise", "on_cancel"}:
        raise ValueError(f"no such behaviour of a tool: {unknown}")
    record = ToolRun(given["name"], params)
    played.runs.append(record)
    try:
        await anyio.sleep(script.get("sleepMs", 0) / 1000)
        if "raise" in script:
            await _raise(script["raise"])
        record.ended = "returned"
        return str(script["return"]).format(**params)
    except BaseException as exc:
        cancelled = isinstance(exc, anyio.get_cancelled_exc_class())
        record.ended = "cancelled" if cancelled else "raised"
        raise


async def _raise(what: str) -> None:
    if "cancel" not in what:
        raise RuntimeError(what.partition(": ")[2] or what)
    kept: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep(1)
        except BaseException as exc:
            kept = exc
            raise
    if kept is not None:
        raise kept


# --- what is compared


def misses(wanted: list[list[Any]], got: list[tuple[str, bool, str]]) -> list[str]:
    """Where results differ from `[call id, is error, text with *]`."""
    if len(wanted) != len(got):
        return [f"expected {len(wanted)} results: {got}"]
    return [
        f"expected {want}, got {have}"
        for want, have in zip(wanted, got, strict=True)
        if want[:2] != list(have[:2]) or not fnmatchcase(have[2], want[2].replace("[", "[[]"))
    ]


def seconds_allowed(demand: str) -> float | None:
    """How long the demand gives the run, in seconds."""
    found = re.search(r"within (\d+) (ms|s)\b", demand)
    return None if found is None else int(found[1]) / (1000 if found[2] == "ms" else 1)
