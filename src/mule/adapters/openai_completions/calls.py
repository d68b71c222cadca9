"""To which tool call does a delta belong?

By its index, says the API. Servers in the field give every call index 0, change the id of a call under
way, repeat id and name with each delta, or send no id or no index at all. So a delta that begins another
whole call is told by its name, once the call before it is whole. Where that is not enough deltas stay
together: the arguments that come of it are no JSON, and nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mule.adapters._grammar_input import GrammarInput
from mule.transcript.assemble import AnswerBuilder, ToolCallBuilder
from mule.values.jsontext import JsonValue, dump_json, load_json
from mule.values.stream import AssistantMessageEvent


class Calls:
    """The tool calls of one answer.

    Args:
        grammar_properties: for tools with a grammar, by name: the argument that its text is.
        own_names: tools' own names, by the names under which they were sent.
        new_id: makes an id for a call that came without one.
    """

    def __init__(
        self,
        builder: AnswerBuilder,
        grammar_properties: Mapping[str, str],
        own_names: Mapping[str, str],
        new_id: Callable[[], str],
    ) -> None:
        self.all: list[Call] = []
        self._builder = builder
        self._grammar_properties = grammar_properties
        self._own_names = own_names
        self._new_id = new_id
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}

    def take(self, raw: Mapping[str, Any], events: list[AssistantMessageEvent]) -> None:
        """Append the events of one entry of `tool_calls`."""
        index = raw.get("index")
        call = self._by_index.get(index) if index.__class__ is int else None
        if call is not None and not raw.get("id"):
            function = raw.get("function")
            if isinstance(function, dict) and not function.get("name"):
                text = function.get("arguments")
                if text and text.__class__ is str:
                    # What nearly all of them are like: more text for a call that is known.
                    call.last_text = text
                    events.append(call.block.add(text))
                    return
        self._take(_Delta(raw), events)

    def _take(self, delta: _Delta, events: list[AssistantMessageEvent]) -> None:
        call = self._continued(delta)
        if call is None:
            call = self._begin(delta)
            events.append(call.block.started)
        else:
            self._learn(call, delta)
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id:
            self._by_id.setdefault(delta.id, call)
        events.append(call.block.add(call.read(delta, self._grammar_properties)))

    def _continued(self, delta: _Delta) -> Call | None:
        """The call that a delta goes on with; None where it begins one."""
        call = self._by_index.get(delta.index) if delta.index is not None else None
        if call is None and delta.id:
            call = self._by_id.get(delta.id)
            if call is not None and delta.index is not None and call.index is not None and delta.name:
                return None if call.is_whole() else call
        if call is None and delta.index is None and not delta.id and not delta.name and self.all:
            return self.all[-1]
        return None if call is None or _begins_another(delta, call) else call

    def _begin(self, delta: _Delta) -> Call:
        # Answers find their call by its id, so another call with the same one gets one of its own.
        id = "" if delta.id in self._by_id else delta.id
        name = self._own_names.get(delta.name, delta.name)
        call = Call(self._builder.begin_tool_call(id, name), delta.index, self._new_id)
        self.all.append(call)
        return call

    def _learn(self, call: Call, delta: _Delta) -> None:
        """Take what a later delta is the first to say."""
        if call.index is None:
            call.index = delta.index
        if delta.name and not call.block.name:
            call.block.tell(name=self._own_names.get(delta.name, delta.name))
        if delta.id and not call.block.id and delta.id not in self._by_id:
            call.block.tell(id=delta.id)


class _Delta:
    """One entry of `tool_calls`, read leniently. `text` is JSON text, or plain text for a grammar."""

    __slots__ = ("id", "index", "is_custom", "name", "text")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        function, custom = raw.get("function"), raw.get("custom")
        self.is_custom = isinstance(custom, Mapping) and not isinstance(function, Mapping)
        inner = custom if self.is_custom else function
        inner = inner if isinstance(inner, Mapping) else {}
        index, id, name = raw.get("index"), raw.get("id"), inner.get("name")
        self.index = index if isinstance(index, int) else None
        self.id = str(id) if isinstance(id, str | int) else ""
        self.name = name if isinstance(name, str) else ""
        text = inner.get("input" if self.is_custom else "arguments")
        self.text = _as_json_text(text)


def _as_json_text(value: JsonValue) -> str:
    """Arguments as JSON text; some servers send them as the object that they are."""
    if value is None or isinstance(value, str):
        return value or ""
    return dump_json(value).decode()


class Call:
    """One call as it comes."""

    __slots__ = ("_grammar", "_is_custom", "_new_id", "_properties", "block", "index", "last_text")

    def __init__(self, block: ToolCallBuilder, index: int | None, new_id: Callable[[], str]) -> None:
        self.block = block
        self.index = index
        self.last_text = ""
        """Its last piece of arguments that was not empty."""
        self._new_id = new_id
        self._is_custom = False
        self._grammar: GrammarInput | None = None
        self._properties: Mapping[str, str] = {}

    def read(self, delta: _Delta, grammar_properties: Mapping[str, str]) -> str:
        """The JSON text that a delta adds to the arguments."""
        self.last_text = delta.text or self.last_text
        if delta.is_custom:
            self._is_custom, self._properties = True, grammar_properties
        return self._input().add(delta.text) if self._is_custom else delta.text

    def is_whole(self) -> bool:
        """Whether its arguments are complete JSON, or there are none."""
        if not self.last_text:
            return True
        if not self.last_text.rstrip().endswith("}"):
            return False
        try:
            return isinstance(load_json(self.block.text), dict)
        except (ValueError, RecursionError):
            return False

    def close(self) -> list[AssistantMessageEvent]:
        """The events that end it."""
        events: list[AssistantMessageEvent] = []
        if self._is_custom:
            events.append(self.block.add(self._input().close()))
        if not self.block.id:
            self.block.tell(id=self._new_id())
        events.append(self.block.end())
        return events

    def _input(self) -> GrammarInput:
        # The property goes by the name, which may come late. A tool that nobody declared has "input".
        if self._grammar is None:
            self._grammar = GrammarInput(self._properties.get(self.block.name, "input"))
        return self._grammar


def _begins_another(delta: _Delta, call: Call) -> bool:
    """Whether a delta under the index or id of a call begins another one all the same."""
    if not delta.name or not call.block.name:
        return False
    if delta.id and call.block.id and delta.id != call.block.id:
        return call.is_whole()
    # Without an id: where a whole object would be followed by another one.
    return not delta.id and delta.text.lstrip().startswith("{") and bool(call.last_text) and call.is_whole()
