"""What does an answer look like so far, and what is it in the end?

Adapters tell a builder what came; it gives them the events, and makes the message as it stood at any of
them when somebody asks. Work for a delta does not grow with the answer: pieces are kept as they came,
and joined when read (`mule.transcript.growth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from typing_extensions import Unpack

from mule.transcript.growth import Fields, Growth
from mule.transcript.partial_json import parse_json_with_repair, parse_streaming_object
from mule.values.base import Number
from mule.values.content import TextContent, ThinkingContent, ToolCall
from mule.values.errors import Ending, ModelFailed
from mule.values.jsontext import JsonObject, join_surrogates
from mule.values.messages import AssistantMessage, AssistantMessageDiagnostic, DeferredHandle
from mule.values.model import Model
from mule.values.stream import (
    AssistantDone,
    AssistantError,
    AssistantStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from mule.values.usage import Usage


class AnswerFields(TypedDict, total=False):
    """What is told of an answer beside its content."""

    usage: Usage
    response_id: str
    response_model: str
    raw_stop_reason: str
    provider_thinking_level: str
    end_turn: bool
    deferred: DeferredHandle
    diagnostics: tuple[AssistantMessageDiagnostic, ...]


class AnswerBuilder:
    """An answer as it grows: the source of its events' partial messages.

    Blocks may grow side by side, in any order. What is told between two events shows from the next
    event on, so a partial message never changes once its event is out.

    Args:
        timestamp: of the request, in ms since the epoch.
    """

    __slots__ = ("_blocks", "_fields", "_memo", "revision")

    def __init__(self, model: Model[Any], *, timestamp: Number) -> None:
        self.revision = 0
        """Of the last event."""
        self._blocks: list[TextBuilder | ThinkingBuilder | ToolCallBuilder] = []
        about = {"api": model.api, "provider": model.provider, "model": model.id, "timestamp": timestamp}
        self._fields = Fields(about)
        self._memo: tuple[int, AssistantMessage] | None = None

    def next_revision(self) -> int:
        """Count one event."""
        self.revision += 1
        return self.revision

    def start(self) -> AssistantStart:
        """The answer begins."""
        return AssistantStart(self, self.next_revision())

    def tell(self, **fields: Unpack[AnswerFields]) -> None:
        """Note what is known beside the content; it replaces what was told of the same field before."""
        self._fields.tell(self.revision + 1, fields)

    def begin_text(self) -> TextBuilder:
        """A text block begins; its event is `.started`."""
        block = TextBuilder(self, len(self._blocks))
        self._blocks.append(block)
        return block

    def begin_thinking(self) -> ThinkingBuilder:
        """A thinking block begins; its event is `.started`."""
        block = ThinkingBuilder(self, len(self._blocks))
        self._blocks.append(block)
        return block

    def begin_tool_call(self, id: str, name: str) -> ToolCallBuilder:
        """A tool call begins; its event is `.started`. Id and name may be told later, then empty here."""
        block = ToolCallBuilder(self, len(self._blocks), id, name)
        self._blocks.append(block)
        return block

    def partial(self, revision: int, /) -> AssistantMessage:
        """The answer as it stood at that event, `stop_reason` pending. The same for ever."""
        memo = self._memo
        if memo is not None and memo[0] == revision:
            return memo[1]
        content = tuple(block.at(revision) for block in self._blocks if block.started.revision <= revision)
        fields = {**self._fields.at(revision), "content": content, "stop_reason": "pending"}
        message = AssistantMessage(**fields)
        self._memo = revision, message
        return message

    def done(self, reason: Literal["stop", "length", "toolUse", "deferred"]) -> AssistantDone:
        """The answer is complete."""
        return AssistantDone(reason, self._message({"stop_reason": reason}))

    def failed(
        self,
        ending: Ending,
        error_message: str,
        *,
        provider_error: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after_ms: float | None = None,
    ) -> AssistantError:
        """The answer failed, or was aborted, with what had come.

        Args:
            error_message: what went wrong; never empty.
            provider_error: the provider's own words, where it said any.
            status, headers, retry_after_ms: of the response, where there was one.
        """
        reason: Literal["error", "aborted"] = "aborted" if ending == "aborted" else "error"
        fields = {"stop_reason": reason, "error_message": error_message}
        if provider_error is not None:
            fields["provider_error"] = provider_error
        message = self._message(fields)
        failure = ModelFailed(ending, message, status, headers, retry_after_ms)
        return AssistantError(reason, message, failure)

    def _message(self, fields: Mapping[str, str]) -> AssistantMessage:
        content = tuple(block.whole() for block in self._blocks)
        return AssistantMessage(**{**self._fields.last(), "content": content, **fields})


class TextBuilder:
    """A text block as it grows."""

    __slots__ = ("_append", "_builder", "_growth", "_mark", "at", "index", "started")

    def __init__(self, builder: AnswerBuilder, index: int) -> None:
        self._builder = builder
        self._growth = growth = Growth(_read_text, {})
        self._append = growth.pieces.texts.append
        self._mark = growth.pieces.revisions.append
        self.at = growth.at
        """The block as it stood at a revision."""
        self.index = index
        self.started = TextStart(index, builder, builder.next_revision())

    def add(self, delta: str) -> TextDelta:
        """Text came."""
        builder = self._builder
        revision = builder.revision = builder.revision + 1
        self._append(delta)
        self._mark(revision)
        return TextDelta(self.index, delta, builder, revision)

    def sign(self, signature: str) -> None:
        """The provider gave what it needs back with this text."""
        self._growth.fields.tell(self._builder.revision + 1, {"text_signature": signature})

    def end(self, text: str | None = None) -> TextEnd:
        """The block is whole. A `text` given here is what it is, whatever its deltas were."""
        whole = self.text if text is None else join_surrogates(text)
        content = _read_text(whole, self._growth.fields.last())
        revision = self._builder.next_revision()
        self._growth.end(revision, content)
        return TextEnd(self.index, content.text, self._builder, revision)

    @property
    def ended(self) -> bool:
        """Whether the block is whole."""
        return self._growth.ended is not None

    @property
    def text(self) -> str:
        """All that came."""
        return self._growth.pieces.all()

    def whole(self) -> TextContent:
        """The block as it stands."""
        return self._growth.ended or _read_text(self.text, self._growth.fields.last())


class ThinkingBuilder:
    """A thinking block as it grows."""

    __slots__ = ("_append", "_builder", "_growth", "_mark", "at", "index", "started")

    def __init__(self, builder: AnswerBuilder, index: int) -> None:
        self._builder = builder
        self._growth = growth = Growth(_read_thinking, {})
        self._append = growth.pieces.texts.append
        self._mark = growth.pieces.revisions.append
        self.at = growth.at
        """The block as it stood at a revision."""
        self.index = index
        self.started = ThinkingStart(index, builder, builder.next_revision())

    def add(self, delta: str) -> ThinkingDelta:
        """Thinking came."""
        builder = self._builder
        revision = builder.revision = builder.revision + 1
        self._append(delta)
        self._mark(revision)
        return ThinkingDelta(self.index, delta, builder, revision)

    def sign(self, signature: str, *, redacted: bool = False) -> None:
        """The provider gave what it needs back with this block. `redacted`: in place of its text."""
        told = {"thinking_signature": signature, **({"redacted": True} if redacted else {})}
        self._growth.fields.tell(self._builder.revision + 1, told)

    def end(self, thinking: str | None = None) -> ThinkingEnd:
        """The block is whole. A text given here is what it is, whatever its deltas were."""
        whole = self.text if thinking is None else join_surrogates(thinking)
        content = _read_thinking(whole, self._growth.fields.last())
        revision = self._builder.next_revision()
        self._growth.end(revision, content)
        return ThinkingEnd(self.index, content.thinking, self._builder, revision)

    @property
    def ended(self) -> bool:
        """Whether the block is whole."""
        return self._growth.ended is not None

    @property
    def text(self) -> str:
        """All that came."""
        return self._growth.pieces.all()

    def whole(self) -> ThinkingContent:
        """The block as it stands."""
        return self._growth.ended or _read_thinking(self.text, self._growth.fields.last())


class ToolCallBuilder:
    """A tool call as it grows. Its deltas are JSON text, read when somebody asks, and at the end.

    In a partial message, arguments of more than 32,768 characters may lag behind by one part in 32.
    """

    __slots__ = ("_append", "_builder", "_growth", "_mark", "at", "index", "started")

    def __init__(self, builder: AnswerBuilder, index: int, id: str, name: str) -> None:
        self._builder = builder
        self._growth = growth = Growth(_read_call, {"id": id, "name": name}, in_steps=True)
        self._append = growth.pieces.texts.append
        self._mark = growth.pieces.revisions.append
        self.at = growth.at
        """The call as it stood at a revision."""
        self.index = index
        self.started = ToolCallStart(index, builder, builder.next_revision())

    def add(self, delta: str) -> ToolCallDelta:
        """JSON text of the arguments came; may be empty."""
        builder = self._builder
        revision = builder.revision = builder.revision + 1
        self._append(delta)
        self._mark(revision)
        return ToolCallDelta(self.index, delta, builder, revision)

    def tell(
        self,
        *,
        id: str | None = None,
        name: str | None = None,
        thought_signature: str | None = None,
        namespace: str | None = None,
    ) -> None:
        """Note what is known now of the call."""
        told = {"id": id, "name": name, "thought_signature": thought_signature, "namespace": namespace}
        given = {field: value for field, value in told.items() if value is not None}
        self._growth.fields.tell(self._builder.revision + 1, given)

    def end(self, arguments: JsonObject | None = None) -> ToolCallEnd:
        """The call is whole. Arguments given here are what they are, whatever its deltas were."""
        if arguments is None:
            call = self.whole()
        else:
            call = ToolCall(**self._growth.fields.last(), arguments=arguments)
        revision = self._builder.next_revision()
        self._growth.end(revision, call)
        return ToolCallEnd(self.index, call, self._builder, revision)

    @property
    def ended(self) -> bool:
        """Whether the call is whole."""
        return self._growth.ended is not None

    @property
    def text(self) -> str:
        """All JSON text that came."""
        return self._growth.pieces.all()

    @property
    def id(self) -> str:
        """Its id; empty as long as none was told."""
        return str(self._growth.fields.last()["id"])

    @property
    def name(self) -> str:
        """The tool's name; empty as long as none was told."""
        return str(self._growth.fields.last()["name"])

    def whole(self) -> ToolCall:
        """The call as it stands, its arguments read in full."""
        if self._growth.ended is not None:
            return self._growth.ended
        arguments, error = read_tool_arguments(self.text)
        told = {} if error is None else {"arguments_error": error}
        return ToolCall(**{**self._growth.fields.last(), "arguments": arguments, **told})


def _read_text(text: str, fields: Mapping[str, Any]) -> TextContent:
    return TextContent(text=text, **fields)


def _read_thinking(text: str, fields: Mapping[str, Any]) -> ThinkingContent:
    return ThinkingContent(thinking=text, **fields)


def _read_call(text: str, fields: Mapping[str, Any]) -> ToolCall:
    return ToolCall(**fields, arguments=parse_streaming_object(text))


def read_tool_arguments(text: str) -> tuple[JsonObject, str | None]:
    """The arguments of a whole tool call, from the JSON text that a model wrote.

    Slips inside strings are mended. Nothing at all, blanks, and `null` are no arguments.

    Returns: the arguments, and why they could not be read in full, for `ToolCall.arguments_error`; they
    then hold what could be read.

    >>> read_tool_arguments('{"a": 1')
    ({'a': 1}, 'the JSON of the arguments breaks off before its end')
    """
    if not text or text.isspace():
        return {}, None
    try:
        value = parse_json_with_repair(text)
    except (ValueError, RecursionError) as exc:
        return parse_streaming_object(text), _problem(text, exc)
    if value is None:
        return {}, None
    if isinstance(value, dict):
        return value, None
    return {}, f"the arguments are not a JSON object but a {_KINDS.get(type(value), 'number')}"


_KINDS: Final = {list: "list", str: "string", bool: "boolean"}


def _problem(text: str, exc: Exception) -> str:
    at = getattr(exc, "pos", None)
    if at is None:
        return "the arguments are not JSON: they are nested too deeply"
    if at >= len(text.rstrip()) or str(exc).startswith("Unterminated string"):
        return "the JSON of the arguments breaks off before its end"
    if str(exc).startswith("Extra data"):
        return f"there is more text behind the JSON of the arguments, from character {at} on"
    return f"the arguments are not JSON: {getattr(exc, 'msg', exc)} at character {at}"
