"""How the tests of the loop run it: inputs, a listener that keeps what it hears, short names for events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Result, Success

from loop.scenes import future
from mule.effect import (
    AssistantMessageEvent,
    Message,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    MuleError,
    MuleEvent,
    MuleListener,
    MulePreparedTool,
    MuleRunInput,
    MuleRunOutcome,
    MuleTool,
    MuleToolExecutionPart,
    MuleToolRejection,
    RunEnd,
    Tool,
    ToolCall,
    ToolCheckpointed,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResultMessage,
    UserMessage,
    done,
    no_listener,
    ready,
    run,
    settle,
)
from mule.testing import SCRIPTED_MODEL, Scripted, ScriptedModel

T = TypeVar("T")
Parts: TypeAlias = AsyncIterator[Result[MuleToolExecutionPart, MuleError]]
React: TypeAlias = "Callable[[MuleEvent], Awaitable[object] | None]"


def said(text: str) -> UserMessage:
    """A user message."""
    return UserMessage(content=text, timestamp=1)


ASK = (said("Is the bridge open?"),)


def asked(script: Sequence[Scripted] | ScriptedModel, *tools: MuleTool, **settings: Any) -> MuleRunInput:
    """An input with one question; `stream` in the settings takes the place of the script."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    given = {"model": SCRIPTED_MODEL, "prompts": ASK, "stream": model, "tools": tools, **settings}
    return MuleRunInput(**given)


class Ear:
    """A listener that keeps what it hears. `react` may give something to wait for, and may raise."""

    def __init__(self, react: React = lambda _event: None) -> None:
        self.heard: list[MuleEvent] = []
        self._react = react

    def __call__(self, event: MuleEvent) -> FutureResult[None, MuleError]:
        self.heard.append(event)
        waited = self._react(event)
        return done if waited is None else future(lambda: waited)

    @property
    def story(self) -> list[str]:
        """What was heard, in short."""
        return [told(event) for event in self.heard]

    @property
    def kinds(self) -> list[str]:
        """The types of what was heard."""
        return [event.type for event in self.heard]

    @property
    def end(self) -> RunEnd:
        """The one `run_end`, which must be the last event."""
        assert self.kinds.count("run_end") == 1
        last = self.heard[-1]
        assert isinstance(last, RunEnd)
        return last


async def outcome_of(input: MuleRunInput, listener: MuleListener = no_listener) -> MuleRunOutcome:
    """Run it; it must go well."""
    result = await settle(run(input, listener))
    assert is_successful(result), f"failed with {result}"
    return result.unwrap()


async def error_of(input: MuleRunInput, listener: MuleListener = no_listener) -> MuleError:
    """Run it; it must fail."""
    result = await settle(run(input, listener))
    assert not is_successful(result), f"went well: {result}"
    return result.failure()


def told(event: MuleEvent) -> str:
    """An event in short."""
    match event:
        case MessageStart(value=ToolResultMessage(tool_call_id=id)):
            return f"message_start result {id}"
        case MessageEnd(value=ToolResultMessage(tool_call_id=id)):
            return f"message_end result {id}"
        case MessageStart(value=value) | MessageEnd(value=value):
            return f"{event.type} {value.role}"
        case MessageUpdate(event=growth):
            return growth.type
        case ToolExecutionStart(call=call) | ToolExecutionUpdate(call=call) | ToolExecutionEnd(call=call):
            return f"{event.type} {call.id}"
        case ToolCheckpointed(checkpoint=checkpoint):
            return f"{checkpoint.type} {checkpoint.call.id}"
        case RunEnd(status=status):
            return f"run_end {status}"
        case _:
            return event.type


def results_of(messages: Iterable[Message]) -> list[tuple[str, bool, str]]:
    """The tool results in a transcript: call id, whether it is an error, text."""
    return [(m.tool_call_id, m.is_error, m.text) for m in messages if isinstance(m, ToolResultMessage)]


def call(name: str, id: str | None = None, **arguments: Any) -> ToolCall:
    """A call; its id is the name where none is given."""
    return ToolCall(id=id or name, name=name, arguments=arguments)


def tool_of(name: str, execute: Callable[[], Any], **settings: Any) -> MuleTool:
    """A tool around a raw `execute`, which may be as wrong as a host's."""

    def prepare(_call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
        async def go() -> Result[MulePreparedTool, MuleToolRejection]:
            return Success(MulePreparedTool(execute))

        return FutureResult(go())

    descriptor: Tool = Tool(name=name, description="", parameters={"type": "object", "properties": {}})
    return MuleTool(descriptor=descriptor, prepare=prepare, **settings)


def noted(log: list[str], name: str, value: T) -> FutureResult[T, MuleError]:
    """What a hook gives, and that it was called."""
    log.append(name)
    return ready(value)


class FakeStream:
    """A stream that gives these events, each as it is or out of a function; an exception is raised.

    Attributes:
        reads: how many events were asked for.
        closed: how often it was closed.
    """

    def __init__(self, events: Sequence[Any] = (), result: Any = None, aclose: Any = None) -> None:
        self._events = iter(events)
        self._result = result
        self._aclose = aclose
        self.reads = 0
        self.closed = 0

    def __aiter__(self) -> FakeStream:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        self.reads += 1
        for event in self._events:
            given = event() if callable(event) else event
            if isinstance(given, BaseException):
                raise given
            return given  # type: ignore[no-any-return]  # as wrong as the test wants it
        raise StopAsyncIteration

    async def result(self) -> Any:
        """What was given as the result; an exception is raised."""
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    async def aclose(self) -> None:
        """Count, and do what was asked for."""
        self.closed += 1
        if self._aclose is not None:
            await self._aclose()
