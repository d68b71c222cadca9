"""Chunks of chat completions to the events of an answer. No I/O; constant work for each chunk."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json

from mule.adapters._failing import CallFailed, ProviderError, failure_of_error, read_provider_error
from mule.adapters._sse import SseFrame
from mule.adapters.openai_completions.calls import Calls
from mule.adapters.openai_completions.compat import Endpoint
from mule.adapters.openai_completions.reasoning import REASONING_FIELDS, ReasoningDetails
from mule.adapters.openai_completions.usage import read_usage
from mule.transcript.assemble import AnswerBuilder, TextBuilder, ThinkingBuilder
from mule.values.errors import Ending
from mule.values.jsontext import JsonValue
from mule.values.model import Model
from mule.values.stream import AssistantDone, AssistantMessageEvent

GoodStop: TypeAlias = Literal["stop", "length", "toolUse"]

_GOOD: Final[Mapping[str, GoodStop]] = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}
"""What a finish reason means. Beside OpenAI's there are those of local servers and of routers."""
_BAD: Final[Mapping[str, Ending]] = {
    "content_filter": "content_filtered",
    "safety": "content_filtered",
    "recitation": "content_filtered",
    "network_error": "network",
    "insufficient_system_resource": "overloaded",
    "error": "server_error",
    "abort": "server_error",
}


CALL_ID_PREFIX: Final = "call_mule_"


def new_call_id() -> str:
    """An id for a tool call that came without one; unlike any other."""
    return f"{CALL_ID_PREFIX}{secrets.token_hex(12)}"


class Decoder:
    """Decodes one answer.

    Args:
        grammar_properties: for tools with a grammar, by name: the argument that its text is.
        own_names: tools' own names, by the names under which they were sent.
        new_id: makes an id for a call that came without one.
    """

    def __init__(
        self,
        builder: AnswerBuilder,
        model: Model[Any],
        endpoint: Endpoint,
        *,
        grammar_properties: Mapping[str, str],
        own_names: Mapping[str, str],
        new_id: Callable[[], str] = new_call_id,
    ) -> None:
        self._builder = builder
        self._model = model
        self._endpoint = endpoint
        self._calls = Calls(builder, grammar_properties, own_names, new_id)
        self._text: TextBuilder | None = None
        self._thinking: ThinkingBuilder | None = None
        self._details: ReasoningDetails | None = None
        self._finish_reason = ""
        self._has_id = False
        self._has_model = False
        self._is_marked = False
        self._closed = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing more is to come but numbers."""
        return self._finish_reason.lower() in _GOOD

    def is_end(self, frame: SseFrame, /) -> bool:
        """Whether this is the marker at the end of a stream."""
        if frame.data != b"[DONE]":
            return False
        self._is_marked = True
        return True

    def knows(self, value: JsonValue, /) -> bool:
        """Whether a whole body is an answer or an error of this API."""
        return isinstance(value, dict) and ("choices" in value or _error_in(value) is not None)

    def parse(self, frame: SseFrame, /) -> object:
        """A frame's JSON. Raises ValueError where it is none."""
        data = frame.data
        try:
            chunk = from_json(data)
        except ValueError:
            if not data.strip():
                return None
            chunk = _parse_leniently(data)
        return {"error": chunk} if frame.name == "error" and not _error_in(chunk) else chunk

    def take(self, chunk: Any, /) -> list[AssistantMessageEvent]:
        """The events of one chunk. Raises CallFailed where it is an error."""
        if chunk.__class__ is not dict:
            return []
        if "error" in chunk or chunk.get("object") == "error":
            self._raise_error(chunk)
        if not (self._has_id and self._has_model):
            self._note(chunk)
        choices = chunk.get("choices")
        choice = choices[0] if choices.__class__ is list and choices else None
        if choice.__class__ is not dict:
            choice = {}
        usage = chunk.get("usage") or choice.get("usage")
        if usage.__class__ is dict:
            self._builder.tell(usage=read_usage(usage, self._model))
        reason = choice.get("finish_reason")
        if reason:
            self._finish_reason = str(reason)
            self._builder.tell(raw_stop_reason=self._finish_reason)
        events: list[AssistantMessageEvent] = []
        delta = choice.get("delta") or choice.get("message")  # the second: a server that does not stream
        if delta.__class__ is dict:
            self._take_delta(delta, events)
        return events

    def _take_delta(self, delta: dict[str, Any], events: list[AssistantMessageEvent]) -> None:
        content = delta.get("content")
        if content:
            self._add_text(content if content.__class__ is str else _text_of_parts(content), events)
            if len(delta) == 1:
                return
        if delta.get("refusal").__class__ is str:
            self._add_text(delta["refusal"], events)
        for field in REASONING_FIELDS:
            thinking = delta.get(field)
            if thinking.__class__ is str and thinking:
                self._add_thinking(field, thinking, events)
                break
        calls = delta.get("tool_calls")
        if calls.__class__ is list:
            for raw in calls:
                if raw.__class__ is dict:
                    self._calls.take(raw, events)
        details = delta.get("reasoning_details")
        if details.__class__ is list:
            self._add_details(details, events)

    def _add_text(self, text: str, events: list[AssistantMessageEvent]) -> None:
        if not text:
            return
        block = self._text
        if block is None:
            block = self._text = self._builder.begin_text()
            events.append(block.started)
        events.append(block.add(text))

    def _begin_thinking(self, events: list[AssistantMessageEvent], signature: str) -> ThinkingBuilder:
        if self._thinking is None:
            self._thinking = self._builder.begin_thinking()
            self._thinking.sign(signature)
            events.append(self._thinking.started)
        return self._thinking

    def _add_thinking(self, field: str, text: str, events: list[AssistantMessageEvent]) -> None:
        if field == "reasoning" and self._model.provider == "opencode-go":
            field = "reasoning_content"  # the name under which it wants it back
        events.append(self._begin_thinking(events, field).add(text))

    def _add_details(self, details: list[Any], events: list[AssistantMessageEvent]) -> None:
        for detail in details:
            kept = self._details or ReasoningDetails()
            if kept.add(detail):
                self._details = kept
                self._begin_thinking(events, "")

    def _note(self, chunk: dict[str, Any]) -> None:
        id, name = chunk.get("id"), chunk.get("model")
        if not self._has_id and isinstance(id, str) and id:
            self._has_id = True
            self._builder.tell(response_id=id)
        if not self._has_model and isinstance(name, str) and name and name != self._model.id:
            self._has_model = True
            self._builder.tell(response_model=name)

    def _raise_error(self, chunk: dict[str, Any]) -> None:
        error = _error_in(chunk)
        if error is not None:
            raise failure_of_error(error, self._model.provider)

    # --- the end

    def seal(self) -> None:
        """Put down what is known only once no more comes."""
        if self._thinking is not None and self._details is not None:
            self._thinking.sign(self._details.signature())

    def close_blocks(self) -> list[AssistantMessageEvent]:
        """The ends of all blocks, in their order; nothing the second time."""
        if self._closed:
            return []
        self._closed = True
        self.seal()
        ends = {call.block.index: call.close for call in self._calls.all}
        for block in (self._text, self._thinking):
            if block is not None:
                ends[block.index] = _ending(block)
        return [event for index in sorted(ends) for event in ends[index]()]

    def outcome(self) -> AssistantDone:
        """The last event, after `close_blocks`. Raises CallFailed where the answer is not a good one."""
        return self._builder.done(self._stop())

    def _stop(self) -> GoodStop:
        reason = self._finish_reason
        known = reason.lower()
        calls = self._calls.all
        if known in _GOOD:
            return _GOOD[known]
        if known in _BAD:
            raise CallFailed(_BAD[known], f"The provider ended the answer with finish_reason {reason}.")
        if not reason:
            # An endpoint that names no reasons still marks its end. A body that just ends may be cut.
            if self._endpoint.supports_finish_reason or not self._is_marked:
                missing = "a finish_reason" if self._endpoint.supports_finish_reason else "[DONE]"
                raise CallFailed("truncated", f"The stream ended without {missing}: it was cut off.")
            return "toolUse" if calls else "stop"
        if calls and all(call.block.whole().arguments_error is None for call in calls):
            return "toolUse"  # whatever it is called: there are whole calls, so they are what is wanted
        text = f"The provider ended the answer with finish_reason {reason}, which is not a known one."
        raise CallFailed("unknown", text)


def _ending(block: TextBuilder | ThinkingBuilder) -> Callable[[], list[AssistantMessageEvent]]:
    return lambda: [block.end()]


def _error_in(value: JsonValue) -> ProviderError | None:
    if isinstance(value, Mapping) and (value.get("error") or value.get("object") == "error"):
        return read_provider_error(value)
    return None


def _text_of_parts(content: object) -> str:
    """Text that comes as a list of parts, as some servers send it."""
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def _parse_leniently(data: bytes) -> JsonValue:
    """JSON with half surrogates, or with bytes that are no UTF-8, which become U+FFFD."""
    try:
        value: JsonValue = json.loads(data.decode("utf-8", "replace"))
    except RecursionError as exc:
        raise ValueError("JSON that is nested too deeply") from exc
    return value
