"""A run as values: identities, events, turns, outcome, and what a host persists to resume it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from mule.values.content import ToolCall
from mule.values.errors import MuleError
from mule.values.messages import AssistantMessage, Message, ToolResultMessage
from mule.values.record import Record, left_out, name_later
from mule.values.stream import AssistantMessageEvent
from mule.values.tools import MuleToolProgress, MuleToolResult
from mule.values.usage import NO_USAGE, Usage

MuleIdentityKind: TypeAlias = Literal["run", "turn", "message", "tool"]
"""What an identity names; "tool" is one call of a tool."""
Ended: TypeAlias = Literal["answered", "terminated", "stopped", "deferred", "needs_approval"]
"""How a run ended: the model had nothing more to ask; every result of a batch said terminate;
`should_stop_after_turn` said so; the provider answers later; a person must decide."""


@dataclass(frozen=True, slots=True)
class MuleIdentity(Record):
    """What an event is about. Ids are unique and sort by the time they were made."""

    kind: MuleIdentityKind
    id: str


M = TypeVar("M", default=Message)


# Generic values have no slots: Python 3.11 cannot make a frozen one that has them as `Value[M](...)`.
@dataclass(frozen=True, kw_only=True)
class MuleRunOutcome(Record, Generic[M]):
    """What a run reached.

    Attributes:
        messages: the transcript to continue from.
        new_messages: all that this run added, in order.
        final: the last answer, where there was one.
        ended: see `Ended`; None in the outcome of a run that failed or was cancelled.
        turns: turns begun. usage: summed over all attempts, failed ones included.
        undelivered: steering and follow-ups that were polled but not put into the transcript.
    """

    run: MuleIdentity
    messages: tuple[M, ...] = field(repr=False, metadata=left_out(()))
    new_messages: tuple[M, ...] = field(metadata=left_out(()))
    final: AssistantMessage | None
    ended: Ended | None
    turns: int
    usage: Usage = NO_USAGE
    undelivered: tuple[M, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MuleCompletedTurn(Record, Generic[M]):
    """One assistant message with its tool results, and the transcript after them."""

    turn: MuleIdentity
    index: int
    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    messages: tuple[M, ...] = field(repr=False, metadata=left_out(()))
    new_messages: tuple[M, ...] = field(repr=False, metadata=left_out(()))


@dataclass(frozen=True, slots=True)
class Started(Record):
    """A prepared call is about to run. `index` is its place among the calls of its message."""

    type: ClassVar[Literal["started"]] = "started"
    tool: MuleIdentity
    call: ToolCall
    index: int


@dataclass(frozen=True, slots=True)
class Settled(Record):
    """A call has its result."""

    type: ClassVar[Literal["settled"]] = "settled"
    tool: MuleIdentity
    call: ToolCall
    index: int
    result: ToolResultMessage
    terminate: bool


MuleToolCheckpoint: TypeAlias = Started | Settled
"""What a host persists of a call so that the run can be resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MuleResume(Record):
    """What a host hands back of an interrupted turn: its assistant message and its checkpoints."""

    message: AssistantMessage
    checkpoints: tuple[MuleToolCheckpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy(Record):
    """When to make a failed assistant call again.

    The wait before retry n is `base_delay_ms * 2 ** (n - 1)`, at most `max_agent_delay_ms` (None:
    60,000).
    """

    enabled: bool = True
    max_retries: int
    base_delay_ms: float
    max_agent_delay_ms: float | None = None


PI_CODING_AGENT_RETRY_DEFAULTS = RetryPolicy(max_retries=3, base_delay_ms=2_000, max_agent_delay_ms=60_000)
"""What Pi's coding agent retries: three times, after 2, 4 and 8 seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MuleRetryObservation(Record):
    """Something that happened to the retries of one assistant call. `attempt` counts retries from 1."""

    type: Literal["retry_scheduled", "retry_attempt_started", "retry_finished"]
    attempt: int
    max_attempts: int
    delay_ms: float | None = None
    success: bool | None = None
    error: MuleError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart(Record):
    """The run has begun. `resumed`: it goes on from an interrupted turn."""

    type: ClassVar[Literal["run_start"]] = "run_start"
    sequence: int
    timestamp: int
    run: MuleIdentity
    resumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart(Record):
    """A turn has begun; `index` counts from 0."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    index: int


@dataclass(frozen=True, kw_only=True)
class MessageStart(Record, Generic[M]):
    """A message enters the transcript; an answer still streams. `tool`: whose result it is."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity | None = None
    value: M


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUpdate(Record):
    """An answer has grown; `event.partial` is the answer so far."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    event: AssistantMessageEvent


@dataclass(frozen=True, kw_only=True)
class MessageEnd(Record, Generic[M]):
    """A message is final."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity | None = None
    value: M


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStart(Record):
    """A call of the answer `message` is taken up: prepared next, then run or refused."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCheckpointed(Record):
    """What to persist of a call. The tool waits until the listener is done with it."""

    type: ClassVar[Literal["tool_checkpoint"]] = "tool_checkpoint"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity
    checkpoint: MuleToolCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionUpdate(Record):
    """A running tool gave a part."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity
    call: ToolCall
    part: MuleToolProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionEnd(Record):
    """A call has its result, an error result included."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    message: MuleIdentity
    tool: MuleIdentity
    call: ToolCall
    result: MuleToolResult


@dataclass(frozen=True, kw_only=True)
class TurnEnd(Record, Generic[M]):
    """A turn is over."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    sequence: int
    timestamp: int
    run: MuleIdentity
    turn: MuleIdentity
    completed: MuleCompletedTurn[M]


@dataclass(frozen=True, kw_only=True)
class RunEnd(Record, Generic[M]):
    """The one end of a run, always its last event. `outcome`: what it had reached, even so."""

    type: ClassVar[Literal["run_end"]] = "run_end"
    sequence: int
    timestamp: int
    run: MuleIdentity
    status: Literal["completed", "failed", "cancelled"]
    outcome: MuleRunOutcome[M]
    error: MuleError | None = None


AnyEvent: TypeAlias = (
    RunStart
    | TurnStart
    | MessageStart[M]
    | MessageUpdate
    | MessageEnd[M]
    | ToolExecutionStart
    | ToolCheckpointed
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd[M]
    | RunEnd[M]
)
"""The events of a run whose transcript holds messages of type M."""

MuleEvent: TypeAlias = AnyEvent[Message]
"""Everything that a listener is told; `type` is the tag."""

EVENT_TYPES: Mapping[str, type[Any]] = {
    cls.type: cls
    for cls in (
        RunStart,
        TurnStart,
        MessageStart,
        MessageUpdate,
        MessageEnd,
        ToolExecutionStart,
        ToolCheckpointed,
        ToolExecutionUpdate,
        ToolExecutionEnd,
        TurnEnd,
        RunEnd,
    )
}

name_later(MuleIdentity=MuleIdentity, MuleEvent=MuleEvent)
