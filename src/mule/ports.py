"""What `mule` is given: streams of answers, tools, hooks, a listener, a clock, ids.

Protocols and callables only. A parameter is positional, so a host may call its own what it likes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from returns.future import FutureResult
from returns.result import Result

from mule.values.content import ToolCall
from mule.values.errors import MuleError, MuleToolRejection
from mule.values.messages import AssistantMessage, Context, Message
from mule.values.model import Model
from mule.values.request import SimpleStreamOptions
from mule.values.run import (
    MuleCompletedTurn,
    MuleEvent,
    MuleIdentityKind,
    MuleRetryObservation,
)
from mule.values.stream import AssistantMessageEvent
from mule.values.tools import MuleToolExecutionPart, Tool


class AssistantMessageEventStream(Protocol):
    """One answer as it comes. Iterate it once; close it however it was left.

    It never raises for a failure of the request or the model: that is its last event. It gives no event
    from inside a timeout or task group of its own, which would then hold, and cancel, who listens to it.
    """

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        """The events, in order, the last one `done` or `error`."""
        ...

    async def result(self) -> AssistantMessage:
        """The final message; reads the rest of the stream where it was not read yet."""
        ...

    async def aclose(self) -> None:
        """Stop, and give back what was held. Harmless twice."""
        ...


MuleStreamFunction: TypeAlias = Callable[
    [Model[Any], Context, SimpleStreamOptions],
    "AssistantMessageEventStream | Awaitable[AssistantMessageEventStream]",
]
"""Calls a model. It is given a normalized context: prompt and tools stand in system messages."""

MuleListener: TypeAlias = Callable[[MuleEvent], FutureResult[None, MuleError]]
"""Is told everything that happens, in order; the run waits for it. May watch, not change."""

Clock: TypeAlias = Callable[[], int]
"""Milliseconds since the epoch, for time stamps."""
Ids: TypeAlias = Callable[[MuleIdentityKind], str]
"""A new id: unique, and later ones sort after earlier ones."""

PrepareSystemPrompt: TypeAlias = Callable[[], FutureResult[str, MuleError]]
ResolveApiKey: TypeAlias = Callable[[str], "FutureResult[str | None, MuleError]"]
GetMessages: TypeAlias = Callable[[], "FutureResult[Sequence[Message], MuleError]"]
PrepareNextTurn: TypeAlias = Callable[
    [MuleCompletedTurn], "FutureResult[Sequence[Message] | None, MuleError]"
]
ShouldStopAfterTurn: TypeAlias = Callable[[MuleCompletedTurn], FutureResult[bool, MuleError]]
OnRetry: TypeAlias = Callable[[MuleRetryObservation], FutureResult[None, MuleError]]


@dataclass(frozen=True, slots=True)
class MulePreparedTool:
    """One exact call, decoded and authorized.

    `execute` gives any number of progress parts and then one result. A `Failure`, an exception, or an
    end without a result is a failure of the tool. The stream is advanced and closed in a task of its
    own; clean-up in it that awaits needs its own shield, since a cancel may find it there.
    """

    execute: Callable[[], AsyncIterator[Result[MuleToolExecutionPart, MuleError]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MuleTool:
    """A tool: what the model sees, and how one call of it is decoded, authorized and run.

    Attributes:
        prepare: decodes and authorizes a call before it can run; checking the arguments is its work.
        replay: `safe` claims that running a call again does no harm. It does not make it so.
        execution_mode: `sequential` makes every batch with a call of this tool sequential.
    """

    descriptor: Tool[Any]
    prepare: Callable[[ToolCall], FutureResult[MulePreparedTool, MuleToolRejection]]
    replay: Literal["safe", "unsafe"] = "unsafe"
    execution_mode: Literal["parallel", "sequential"] | None = None
