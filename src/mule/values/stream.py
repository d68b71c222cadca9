"""The events of one streamed answer, as every adapter gives them.

`start` comes first, then each block's `*_start`, deltas and `*_end`, and last `done` or `error`. A
request that fails before its answer began is a lone `error`. Their JSON is Pi's, without the partial.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias, cast, get_args

from mule.values.content import ToolCall
from mule.values.errors import ModelFailed
from mule.values.jsontext import JsonObject
from mule.values.messages import AssistantMessage
from mule.values.record import Record, left_out, tagged_reader


class PartialSource(Protocol):
    """Knows what an answer looked like at each moment of its stream."""

    def partial(self, revision: int, /) -> AssistantMessage:
        """The answer as it stood then, `stop_reason` pending. The same for ever."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A `PartialSource` for producers that hold the message itself."""

    message: AssistantMessage

    def partial(self, _revision: int, /) -> AssistantMessage:
        """The message."""
        return self.message


class _Forgotten:
    def partial(self, _revision: int, /) -> AssistantMessage:
        raise LookupError("this event was read from JSON, which leaves the partial message out")


FORGOTTEN: PartialSource = _Forgotten()


@dataclass(frozen=True, slots=True)
class AssistantStart(Record):
    """The answer has begun."""

    type: ClassVar[Literal["start"]] = "start"
    source: PartialSource = field(
        repr=False, compare=False, default=FORGOTTEN, metadata=left_out(FORGOTTEN)
    )
    revision: int = field(repr=False, compare=False, default=0, metadata=left_out(0))

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)


@dataclass(frozen=True, slots=True)
class _BlockStart(Record):
    type: ClassVar[str]
    content_index: int
    source: PartialSource = field(
        repr=False, compare=False, default=FORGOTTEN, metadata=left_out(FORGOTTEN)
    )
    revision: int = field(repr=False, compare=False, default=0, metadata=left_out(0))

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)


@dataclass(frozen=True, slots=True)
class _BlockDelta(Record):
    type: ClassVar[str]
    content_index: int
    delta: str
    source: PartialSource = field(
        repr=False, compare=False, default=FORGOTTEN, metadata=left_out(FORGOTTEN)
    )
    revision: int = field(repr=False, compare=False, default=0, metadata=left_out(0))

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)


@dataclass(frozen=True, slots=True)
class _BlockEnd(Record):
    type: ClassVar[str]
    content_index: int
    content: str
    source: PartialSource = field(
        repr=False, compare=False, default=FORGOTTEN, metadata=left_out(FORGOTTEN)
    )
    revision: int = field(repr=False, compare=False, default=0, metadata=left_out(0))

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)


@dataclass(frozen=True, slots=True)
class TextStart(_BlockStart):
    """A text block begins, empty."""

    type: ClassVar[Literal["text_start"]] = "text_start"


@dataclass(frozen=True, slots=True)
class TextDelta(_BlockDelta):
    """Text was added to a block."""

    type: ClassVar[Literal["text_delta"]] = "text_delta"


@dataclass(frozen=True, slots=True)
class TextEnd(_BlockEnd):
    """A text block is whole; `content` is its text."""

    type: ClassVar[Literal["text_end"]] = "text_end"


@dataclass(frozen=True, slots=True)
class ThinkingStart(_BlockStart):
    """A thinking block begins."""

    type: ClassVar[Literal["thinking_start"]] = "thinking_start"


@dataclass(frozen=True, slots=True)
class ThinkingDelta(_BlockDelta):
    """Thinking was added to a block."""

    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"


@dataclass(frozen=True, slots=True)
class ThinkingEnd(_BlockEnd):
    """A thinking block is whole; `content` is its text."""

    type: ClassVar[Literal["thinking_end"]] = "thinking_end"


@dataclass(frozen=True, slots=True)
class ToolCallStart(_BlockStart):
    """A tool call begins."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"


@dataclass(frozen=True, slots=True)
class ToolCallDelta(_BlockDelta):
    """JSON text was added to the arguments of a tool call; may be empty."""

    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"


@dataclass(frozen=True, slots=True)
class ToolCallEnd(Record):
    """A tool call is whole."""

    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    content_index: int
    tool_call: ToolCall
    source: PartialSource = field(
        repr=False, compare=False, default=FORGOTTEN, metadata=left_out(FORGOTTEN)
    )
    revision: int = field(repr=False, compare=False, default=0, metadata=left_out(0))

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)


@dataclass(frozen=True, slots=True)
class AssistantDone(Record):
    """The answer is complete."""

    type: ClassVar[Literal["done"]] = "done"
    reason: Literal["stop", "length", "toolUse", "deferred"]
    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class AssistantError(Record):
    """The answer failed or was aborted; `error` is the message with what had arrived.

    `failure` is the typed evidence (ending, status, headers, Retry-After); it is not part of the JSON.
    """

    type: ClassVar[Literal["error"]] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage
    failure: ModelFailed | None = field(default=None, compare=False, metadata=left_out(None))


GrowthEvent: TypeAlias = (
    AssistantStart
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
"""The events of an answer that is still growing: each has a `partial`."""

AssistantMessageEvent: TypeAlias = GrowthEvent | AssistantDone | AssistantError
"""One event of a streamed answer; `type` is the tag."""

_read = tagged_reader(get_args(AssistantMessageEvent))


def read_assistant_event(value: JsonObject) -> AssistantMessageEvent:
    """Read an event from its JSON. Its `partial` is gone, and so is the evidence of an `error`.

    Raises:
        ValueError: not the JSON of an event.
    """
    return cast(AssistantMessageEvent, _read(value))  # the reader picks a member of this very union
