"""The events of one streamed answer, as every adapter gives them.

`start` comes first, then each block's `*_start`, deltas and `*_end`, and last `done` or `error`. A
request that fails before its answer began is a lone `error`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

from mule.values.content import ToolCall
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.messages import AssistantMessage

if TYPE_CHECKING:
    from mule.values.errors import ModelFailed


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
class AssistantStart:
    """The answer has begun."""

    type: ClassVar[Literal["start"]] = "start"
    source: PartialSource = field(repr=False, compare=False, default=FORGOTTEN)
    revision: int = field(repr=False, compare=False, default=0)

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)

    def to_json(self) -> JsonObject:
        """Pi's JSON, without the partial message."""
        return {"type": self.type}


@dataclass(frozen=True, slots=True)
class _BlockStart:
    type: ClassVar[str]
    content_index: int
    source: PartialSource = field(repr=False, compare=False, default=FORGOTTEN)
    revision: int = field(repr=False, compare=False, default=0)

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)

    def to_json(self) -> JsonObject:
        """Pi's JSON, without the partial message."""
        return {"type": self.type, "contentIndex": self.content_index}


@dataclass(frozen=True, slots=True)
class _BlockDelta:
    type: ClassVar[str]
    content_index: int
    delta: str
    source: PartialSource = field(repr=False, compare=False, default=FORGOTTEN)
    revision: int = field(repr=False, compare=False, default=0)

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)

    def to_json(self) -> JsonObject:
        """Pi's JSON, without the partial message."""
        return {"type": self.type, "contentIndex": self.content_index, "delta": self.delta}


@dataclass(frozen=True, slots=True)
class _BlockEnd:
    type: ClassVar[str]
    content_index: int
    content: str
    source: PartialSource = field(repr=False, compare=False, default=FORGOTTEN)
    revision: int = field(repr=False, compare=False, default=0)

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)

    def to_json(self) -> JsonObject:
        """Pi's JSON, without the partial message."""
        return {"type": self.type, "contentIndex": self.content_index, "content": self.content}


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
class ToolCallEnd:
    """A tool call is whole."""

    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    content_index: int
    tool_call: ToolCall
    source: PartialSource = field(repr=False, compare=False, default=FORGOTTEN)
    revision: int = field(repr=False, compare=False, default=0)

    @property
    def partial(self) -> AssistantMessage:
        """The answer so far, made when asked for. Raises LookupError on an event read from JSON."""
        return self.source.partial(self.revision)

    def to_json(self) -> JsonObject:
        """Pi's JSON, without the partial message."""
        return {
            "type": self.type,
            "contentIndex": self.content_index,
            "toolCall": self.tool_call.to_json(),
        }


@dataclass(frozen=True, slots=True)
class AssistantDone:
    """The answer is complete."""

    type: ClassVar[Literal["done"]] = "done"
    reason: Literal["stop", "length", "toolUse", "deferred"]
    message: AssistantMessage

    def to_json(self) -> JsonObject:
        """Pi's JSON."""
        return {"type": self.type, "reason": self.reason, "message": self.message.to_json()}


@dataclass(frozen=True, slots=True)
class AssistantError:
    """The answer failed or was aborted; `error` is the message with what had arrived.

    `failure` is the typed evidence (ending, status, headers, Retry-After); it is not part of the JSON.
    """

    type: ClassVar[Literal["error"]] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage
    failure: ModelFailed | None = field(default=None, compare=False)

    def to_json(self) -> JsonObject:
        """Pi's JSON."""
        return {"type": self.type, "reason": self.reason, "error": self.error.to_json()}


AssistantMessageEvent: TypeAlias = (
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
    | AssistantDone
    | AssistantError
)

_STARTS: dict[str, type[TextStart | ThinkingStart | ToolCallStart]] = {
    c.type: c for c in (TextStart, ThinkingStart, ToolCallStart)
}
_DELTAS: dict[str, type[TextDelta | ThinkingDelta | ToolCallDelta]] = {
    c.type: c for c in (TextDelta, ThinkingDelta, ToolCallDelta)
}
_ENDS: dict[str, type[TextEnd | ThinkingEnd]] = {c.type: c for c in (TextEnd, ThinkingEnd)}


def read_assistant_event(value: JsonObject) -> AssistantMessageEvent:
    """Read an event from its JSON. Its `partial` is gone.

    Raises:
        ValueError: not the JSON of an event.
    """
    try:
        return _read_assistant_event(value)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not the JSON of an assistant event: {exc!r}") from exc


def _read_assistant_event(value: JsonObject) -> AssistantMessageEvent:
    kind = value["type"]
    if kind == "start":
        return AssistantStart()
    if kind == "done":
        done = AssistantMessage.from_json(value["message"])
        return AssistantDone(
            _literal(value["reason"], "stop", "length", "toolUse", "deferred"), done
        )
    if kind == "error":
        failed = AssistantMessage.from_json(value["error"])
        return AssistantError(_literal(value["reason"], "error", "aborted"), failed)
    index = value["contentIndex"]
    if not isinstance(index, int) or not isinstance(kind, str):
        raise ValueError("contentIndex must be an integer")
    if kind == "toolcall_end":
        return ToolCallEnd(index, ToolCall.from_json(value["toolCall"]))
    if kind in _STARTS:
        return _STARTS[kind](index)
    if kind in _DELTAS:
        return _DELTAS[kind](index, _text(value["delta"]))
    return _ENDS[kind](index, _text(value["content"]))


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value


def _literal(value: JsonValue, *allowed: str):  # type: ignore[no-untyped-def]  # the literal type is the caller's
    if value not in allowed:
        raise ValueError(f"expected one of {', '.join(allowed)}")
    return value
