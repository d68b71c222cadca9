"""An answer that grows: its events, what each saw, and the message that comes of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mule.transcript.assemble import AnswerBuilder, read_tool_arguments
from mule.transcript.growth import EXACT_LENGTH
from mule.values.content import TextContent, ThinkingContent, ToolCall
from mule.values.jsontext import JsonObject
from mule.values.messages import AssistantMessage
from mule.values.model import Model
from mule.values.stream import GrowthEvent
from mule.values.usage import Usage

MODEL: Final = Model(
    id="heron", name="Heron", api="some-api", provider="marsh", base_url="http://pond.test"
)


def builder() -> AnswerBuilder:
    """A builder of an answer that nothing has come of."""
    return AnswerBuilder(MODEL, timestamp=7)


def texts(message: AssistantMessage) -> list[str]:
    """The texts of a message's blocks, in order."""
    found = []
    for block in message.content:
        match block:
            case TextContent(text=text) | ThinkingContent(thinking=text):
                found.append(text)
            case ToolCall(arguments=arguments):
                found.append(json.dumps(arguments))
    return found


# --- partial messages


def test_a_partial_message_is_what_had_come_at_its_event() -> None:
    answer = builder()
    start = answer.start()
    block = answer.begin_text()
    one, two = block.add("High "), block.add("water")
    end = block.end()
    assert [texts(e.partial) for e in (start, block.started, one, two, end)] == [
        [],
        [""],
        ["High "],
        ["High water"],
        ["High water"],
    ]
    assert {e.partial.stop_reason for e in (start, one, end)} == {"pending"}


def test_blocks_grow_side_by_side() -> None:
    answer = builder()
    thinking, text = answer.begin_thinking(), answer.begin_text()
    seen = [thinking.add("a"), text.add("b"), thinking.add("c"), text.add("d")]
    assert [texts(event.partial) for event in seen] == [["a", ""], ["a", "b"], ["ac", "b"], ["ac", "bd"]]
    assert [event.content_index for event in seen] == [0, 1, 0, 1]


def test_what_is_told_shows_from_the_next_event_on() -> None:
    answer = builder()
    block = answer.begin_text()
    before = block.add("a")
    answer.tell(response_id="r-1")
    answer.tell(usage=Usage(input=3))
    assert before.partial.response_id is None
    after = block.add("b")
    assert (after.partial.response_id, after.partial.usage.input) == ("r-1", 3)
    assert (before.partial.response_id, before.partial.usage.input) == (None, 0)


def test_what_nobody_told_is_not_in_the_json() -> None:
    answer = builder()
    answer.begin_text().add("a")
    message = answer.done("stop").message
    assert set(message.to_json()) == {
        "role",
        "content",
        "api",
        "provider",
        "model",
        "usage",
        "stopReason",
        "timestamp",
    }
    assert message.content[0].to_json() == {"type": "text", "text": "a"}


def test_the_end_may_say_otherwise_than_the_deltas_and_changes_nothing_before_it() -> None:
    answer = builder()
    text, thinking = answer.begin_text(), answer.begin_thinking()
    delta, thought = text.add("hal"), thinking.add("wel")
    assert text.end("Hello").content == "Hello"
    assert thinking.end("Well").content == "Well"
    assert texts(delta.partial) == ["hal", ""]
    assert texts(thought.partial) == ["hal", "wel"]
    assert texts(answer.done("stop").message) == ["Hello", "Well"]


def test_signatures_come_with_their_block() -> None:
    answer = builder()
    text, thinking = answer.begin_text(), answer.begin_thinking()
    text.sign("t-sig")
    thinking.sign("sealed", redacted=True)
    text.end()
    thinking.end()
    one, two = answer.done("stop").message.content
    assert isinstance(one, TextContent)
    assert isinstance(two, ThinkingContent)
    assert (one.text_signature, two.thinking_signature, two.redacted) == ("t-sig", "sealed", True)


def test_a_failed_answer_keeps_what_had_come() -> None:
    answer = builder()
    answer.begin_text().add("So ")
    answer.begin_tool_call("c1", "tide").add('{"harbour": "N')
    event = answer.failed("network", "gone", status=200, headers={"a": "b"}, retry_after_ms=5)
    assert (event.reason, event.error.stop_reason, event.error.error_message) == ("error", "error", "gone")
    assert texts(event.error) == ["So ", '{"harbour": "N"}']
    assert event.failure is not None
    assert (event.failure.ending, event.failure.status, event.failure.retry_after_ms) == ("network", 200, 5)
    assert event.failure.message is event.error


def test_an_aborted_answer_says_so() -> None:
    event = builder().failed("aborted", "The request was aborted.")
    assert (event.reason, event.error.stop_reason) == ("aborted", "aborted")


# --- characters that come in two halves


def test_halves_of_a_character_are_joined_where_they_meet() -> None:
    answer = builder()
    text = answer.begin_text()
    first, second = text.add("a\ud83d"), text.add("\ude00b")
    assert texts(first.partial) == ["a\ud83d"]
    assert texts(second.partial) == ["a😀b"]
    assert text.end().content == "a😀b"
    assert texts(answer.done("stop").message) == ["a😀b"]


def test_halves_are_joined_in_arguments_too() -> None:
    call = builder().begin_tool_call("c", "t")
    call.add('{"a":"\ud83d')
    call.add('\ude00"}')
    assert call.end().tool_call.arguments == {"a": "😀"}


def test_a_half_that_stays_alone_stays() -> None:
    text = builder().begin_text()
    text.add("a\ud83d")
    assert text.end().content == "a\ud83d"


# --- tool calls


def test_arguments_can_be_read_while_they_come() -> None:
    answer = builder()
    call = answer.begin_tool_call("c1", "paint")
    seen = [call.add(piece) for piece in ('{"colour":', '"oc', 'hre","litres":2', ".5}")]
    assert [texts(event.partial) for event in seen] == [
        ["{}"],
        ['{"colour": "oc"}'],
        ['{"colour": "ochre", "litres": 2}'],
        ['{"colour": "ochre", "litres": 2.5}'],
    ]


def test_id_and_name_may_come_late() -> None:
    answer = builder()
    call = answer.begin_tool_call("", "")
    assert (call.id, call.name) == ("", "")
    call.tell(name="paint")
    call.tell(id="c1", thought_signature="s")
    assert (call.id, call.name) == ("c1", "paint")
    whole = call.end().tool_call
    assert (whole.id, whole.name, whole.thought_signature) == ("c1", "paint", "s")
    first = call.started.partial.content[0]
    assert isinstance(first, ToolCall)
    assert first.id == ""


def test_arguments_given_at_the_end_win() -> None:
    call = builder().begin_tool_call("c", "t")
    call.add("not json")
    assert call.end({"a": 1}).tool_call.to_json() == {
        "type": "toolCall",
        "id": "c",
        "name": "t",
        "arguments": {"a": 1},
    }


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ('{"a": [1, null]}', {"a": [1, None]}),
        ('{"line": "tab\there \\q"}', {"line": "tab\there \\q"}),
    ],
)
def test_good_arguments_are_read_without_a_complaint(text: str, arguments: JsonObject) -> None:
    assert read_tool_arguments(text) == (arguments, None)


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        ('{"a": 1', {"a": 1}, "breaks off"),
        ('{"a": "x', {"a": "x"}, "breaks off"),
        ('{"a": 1} and more', {"a": 1}, "more text behind"),
        ('{"a": 1}{"b": 2}', {"a": 1}, "more text behind"),
        ("[1, 2]", {}, "a list"),
        ('"text"', {}, "a string"),
        ("5", {}, "a number"),
        ("true", {}, "a boolean"),
        ("call the tool", {}, "not JSON"),
        ("[" * 100_000, {}, ""),
    ],
)
def test_bad_arguments_say_why_and_keep_what_can_be_read(
    text: str, arguments: JsonObject, problem: str
) -> None:
    read, error = read_tool_arguments(text)
    assert read == arguments
    assert error is not None
    assert problem in error


def test_a_call_with_bad_arguments_carries_the_reason() -> None:
    call = builder().begin_tool_call("c", "t")
    call.add('{"a": 1} x')
    assert "more text" in str(call.end().tool_call.arguments_error)


def test_long_arguments_lag_behind_by_a_little_at_most() -> None:
    call = builder().begin_tool_call("c", "t")
    events = [call.add('{"lines":["')] + [call.add("0123456789") for _ in range(20_000)]
    for at in random.Random(1).sample(range(len(events)), 200):
        partial = events[at].partial.content[0]
        assert isinstance(partial, ToolCall)
        come = 11 + 10 * at
        lines = partial.arguments.get("lines")
        assert isinstance(lines, list)
        shown = 11 + len(str(lines[0]))
        assert come - shown <= (0 if come <= EXACT_LENGTH else come / 32 + 10)


# --- the same for ever

_TEXT: Final = st.text(st.sampled_from('ab\n"\\{}[]:,1é😀\ud83d\ude00'), max_size=5)
_DEEDS: Final = st.lists(
    st.tuples(st.sampled_from(["text", "thinking", "call", "tell", "end"]), _TEXT), max_size=30
)


def _play(deeds: Sequence[tuple[str, str]]) -> tuple[AnswerBuilder, list[GrowthEvent]]:
    answer = builder()
    events: list[GrowthEvent] = [answer.start()]
    blocks: dict[str, Any] = {}
    begin: dict[str, Callable[[], Any]] = {
        "text": answer.begin_text,
        "thinking": answer.begin_thinking,
        "call": lambda: answer.begin_tool_call("c", "t"),
    }
    for deed, text in deeds:
        if deed == "tell":
            answer.tell(response_id=text)
        elif deed == "end":
            events += [block.end() for block in blocks.values()]
            blocks = {}
        else:
            if deed not in blocks:
                blocks[deed] = begin[deed]()
                events.append(blocks[deed].started)
            events.append(blocks[deed].add(text))
    return answer, events


@given(_DEEDS, st.randoms(use_true_random=False))
def test_partials_are_the_same_in_whatever_order_they_are_read(
    deeds: list[tuple[str, str]], order: random.Random
) -> None:
    _, events = _play(deeds)
    expected = [event.partial for event in events]
    answer, others = _play(deeds)
    again = list(enumerate(others))
    order.shuffle(again)
    for at, event in again:
        assert event.partial == expected[at]
    answer.done("stop")
    assert [event.partial for event in others] == expected


@given(_DEEDS)
def test_deltas_joined_are_the_text_of_their_block(deeds: list[tuple[str, str]]) -> None:
    answer, events = _play(deeds)
    joined: dict[int, str] = {}
    for event in events:
        if event.type in ("text_delta", "thinking_delta"):
            joined[event.content_index] = joined.get(event.content_index, "") + event.delta
    message = answer.done("stop").message
    for index, text in joined.items():
        block = message.content[index]
        whole = block.text if isinstance(block, TextContent) else getattr(block, "thinking", "")
        # Halves of a character that meet are joined; otherwise it is the same text.
        assert whole.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
