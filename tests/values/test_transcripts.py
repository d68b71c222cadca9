"""A transcript that is read and written again is the same JSON, half surrogates included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from mule.decoding import decode_message, decode_messages
from mule.values.jsontext import (
    cut_utf16,
    dump_json,
    join_surrogates,
    load_json,
    utf16_length,
    without_lone_surrogates,
)
from mule.values.messages import AssistantMessage, Context, UserMessage
from values import strategies

ROLES = ("user", "assistant", "system", "toolResult")
CASES = Path(__file__).parent.parent / "golden" / "cases"


def messages_in(value: Any) -> Iterator[dict[str, Any]]:
    """The messages of a recorded case: of its input, its script, its events and its result."""
    if isinstance(value, list):
        for item in value:
            yield from messages_in(item)
    elif isinstance(value, dict):
        if value.get("role") in ROLES and "content" in value:
            yield value
        for name, item in value.items():
            if name != "exchanges":  # those hold the messages of the wire
                yield from messages_in(item)


@pytest.mark.parametrize("folder", ["loop", "pure/transformMessages.json", "providers"])
def test_every_recorded_message_is_the_same_after_reading_and_writing(folder: str) -> None:
    root = CASES / folder
    files = [root] if root.is_file() else sorted(root.rglob("*.json"))
    found = [message for path in files for message in messages_in(json.loads(path.read_text("utf-8")))]
    assert len(found) > 20
    for value in found:
        if "api" in value or value["role"] != "assistant":
            message = decode_message(value).unwrap()
            assert message.to_json() == value
            assert decode_message(load_json(dump_json(message.to_json()))).unwrap() == message


def test_half_a_surrogate_pair_survives() -> None:
    text = rb'{"role":"user","content":"bad \ud83d half","later":{"\udc00":"\udfff"}}'
    message = UserMessage.from_json(load_json(text))
    assert message.content == "bad \ud83d half"
    assert dump_json(message.to_json()) == text


def test_the_whole_pair_is_written_as_its_character() -> None:
    assert dump_json(load_json(rb'"\ud83d\ude00"')) == '"😀"'.encode()


def test_an_order_of_keys_in_arguments_is_kept() -> None:
    text = b'{"type":"toolCall","id":"c","name":"n","arguments":{"z":1,"a":{"y":null,"b":[]}}}'
    value = {"role": "assistant", "content": [load_json(text)], "api": "a", "provider": "p", "model": "m"}
    message = decode_message({**value, "stopReason": "stop"}).unwrap()
    assert isinstance(message, AssistantMessage)
    assert dump_json(message.content[0].to_json()) == text


@given(strategies.lists(strategies.messages))
def test_a_whole_transcript_survives_json(transcript: Any) -> None:
    written = [message.to_json() for message in transcript]
    read = decode_messages(load_json(dump_json(written))).unwrap()
    assert read == transcript
    assert [message.to_json() for message in read] == written
    assert Context.from_json({"messages": written}).messages == transcript


@given(strategies.json_values)
def test_json_text_survives(value: Any) -> None:
    assert load_json(dump_json(value)) == load_json(json.dumps(value).encode("utf-8"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_json_cannot_spell_is_written_as_null_and_not_read(number: str) -> None:
    assert dump_json({"a": [float(number), "\ud83d"]}) == b'{"a":[null,"\\ud83d"]}'
    with pytest.raises(ValueError, match=r".+"):
        load_json(f'{{"a": {number}}}')


@pytest.mark.parametrize("text", ["", "{", "nul", '{"a":1}}', "\ud83d", b"\xff", "'a'"])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        load_json(text)


@given(strategies.texts)
def test_joined_surrogates_are_a_character(text: str) -> None:
    joined = join_surrogates(text)
    assert utf16_length(joined) == utf16_length(text)
    assert join_surrogates(joined) == joined
    assert join_surrogates("".join(pieces(text))) == joined


@given(strategies.texts)
def test_text_without_lone_surrogates_is_utf8(text: str) -> None:
    clean = without_lone_surrogates(text)
    clean.encode("utf-8")
    assert without_lone_surrogates(clean) == clean


@given(strategies.texts)
def test_a_cut_has_as_many_units_as_were_asked_for(text: str) -> None:
    length = utf16_length(text)
    for units in range(length + 2):
        assert utf16_length(cut_utf16(text, units)) == min(units, length)
    assert cut_utf16(text, length) == join_surrogates(text)


def pieces(text: str) -> list[str]:
    """A text in UTF-16 code units, as deltas may bring it."""
    units = text.encode("utf-16-le", "surrogatepass")
    return [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
