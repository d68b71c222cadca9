"""What the interpreter is given: a program.

Each door (`mule.effect`, `mule.agent`) fills one in. It knows more hooks than either of them, and is
generic in the message type: messages of a host's own pass through, and `prepare_call` turns them into
what a model understands.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias

from returns.result import Result
from typing_extensions import TypeVar

from mule.ports import Clock, Ids, MuleStreamFunction
from mule.values.content import ToolCall
from mule.values.errors import MuleError
from mule.values.messages import AssistantMessage, AssistantMessageDiagnostic, Context, Message
from mule.values.model import Model, ModelThinkingLevel
from mule.values.request import SimpleStreamOptions
from mule.values.run import AnyEvent, MuleCompletedTurn
from mule.values.tools import MuleToolProgress, MuleToolResult, Tool

M = TypeVar("M", default=Message)


class RunFailed(Exception):
    """Ends a run from wherever it is; never leaves the loop."""

    def __init__(self, error: MuleError) -> None:
        super().__init__(error)
        self.error = error


def cause_of(failure: object) -> BaseException:
    """What a hook or listener failed with, as a cause; a host's code may fail with anything."""
    if isinstance(failure, BaseException):
        return failure
    return TypeError(f"failed with a {type(failure).__name__}, not with a MuleError")


class PartSink(Protocol):
    """Where a running tool puts its parts."""

    def put(self, part: MuleToolProgress, /) -> None:
        """Hand over a part without waiting; not after `execute` has given its result."""
        ...

    async def heard(self) -> None:
        """Wait until the listener is done with every part that was put."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that may run. `execute` runs in a task of its own and gives the result."""

    execute: Callable[[PartSink], Awaitable[MuleToolResult]]


@dataclass(frozen=True)
class CallSite(Generic[M]):
    """Where a call stands: the answer that asked for it, the transcript that ends in that answer."""

    message: AssistantMessage
    messages: tuple[M, ...]


@dataclass(frozen=True)
class LoopTool(Generic[M]):
    """A tool as the loop sees it. `prepare` gives a call that may run, or the result that refuses it.

    An exception out of `prepare` or `execute` is a failure of the tool.
    """

    declaration: Tool[Any]
    prepare: Callable[[ToolCall, CallSite[M]], Awaitable[Prepared | MuleToolResult]]
    sequential: bool = False


@dataclass(frozen=True)
class ModelRequest(Generic[M]):
    """What the next model call is made from."""

    model: Model[Any]
    thinking_level: ModelThinkingLevel
    messages: tuple[M, ...]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One model call, ready to be made. `diagnostics` go onto its answer."""

    model: Model[Any]
    context: Context
    options: SimpleStreamOptions
    diagnostics: tuple[AssistantMessageDiagnostic, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Update(Generic[M]):
    """What a hook changes before the next request; None leaves a thing as it is.

    `messages` replaces the transcript, `added` is announced after it.
    """

    messages: Sequence[M] | None = None
    added: Sequence[M] = ()
    tools: Sequence[LoopTool[M]] | None = None
    model: Model[Any] | None = None
    thinking_level: ModelThinkingLevel | None = None


Poll: TypeAlias = Callable[[], Awaitable[Sequence[M]]]
Verdict: TypeAlias = Literal["end", "continue"]


@dataclass(frozen=True, kw_only=True)
class Program(Generic[M]):
    """A run, as the interpreter needs it.

    Hooks are plain async functions; a door wraps the host's so that their failure is a `RunFailed`.

    Attributes:
        listen: is given each event; None means that it has nothing to say.
        transcript, prompts: where the run starts.
        prepare_call: from transcript to model call, its hooks included.
        poll_steering, poll_follow_ups: more messages.
        prepare_next_turn: after a completed turn that another follows.
        prepare_request: immediately before each model call.
        finish_turn: after a turn's results, before `turn_end`; its verdict binds after good answers.
        stop_after_turn: after `turn_end` of a good answer.
        aborted: whether the cooperative signal was given.
        model_failure_fails: whether a failed answer fails the run, or merely ends it.
        max_parallel: how many calls of a batch run at once.
        grace: seconds that the listener may take with the last event of a cancelled run.
    """

    model: Model[Any]
    thinking_level: ModelThinkingLevel
    transcript: tuple[M, ...]
    prompts: tuple[M, ...]
    tools: tuple[LoopTool[M], ...]
    stream: MuleStreamFunction
    prepare_call: Callable[[ModelRequest[M]], Awaitable[ModelCall]]
    listen: Callable[[AnyEvent[M]], Awaitable[Result[None, MuleError]] | None]
    clock: Clock
    ids: Ids
    poll_steering: Poll[M] | None = None
    poll_follow_ups: Poll[M] | None = None
    prepare_next_turn: Callable[[MuleCompletedTurn[M]], Awaitable[Update[M] | None]] | None = None
    prepare_request: Callable[[ModelRequest[M]], Awaitable[Update[M] | None]] | None = None
    finish_turn: Callable[[MuleCompletedTurn[M]], Awaitable[Verdict | None]] | None = None
    stop_after_turn: Callable[[MuleCompletedTurn[M]], Awaitable[bool]] | None = None
    aborted: Callable[[], bool] = lambda: False
    model_failure_fails: bool = True
    sequential: bool = False
    max_parallel: int | None = None
    grace: float = 2.0
