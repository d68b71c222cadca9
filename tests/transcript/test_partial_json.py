"""JSON that was cut off anywhere still says what it said up to there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mule.transcript import partial_json
from mule.transcript.partial_json import (
    parse_json_with_repair,
    parse_streaming_json,
    parse_streaming_object,
    repair_json,
)
from mule.values.jsontext import dump_json
from values.strategies import json_objects, texts


@st.composite
def cut_objects(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A JSON object, and its text cut somewhere; escaped and spaced in one of several ways."""
    value = draw(json_objects)
    ascii_, indent = draw(st.booleans()), draw(st.sampled_from([None, 1]))
    text = json.dumps(value, ensure_ascii=ascii_, indent=indent)
    return value, text[: draw(st.integers(0, len(text)))]


@given(cut_objects())
def test_a_cut_object_is_a_prefix_of_the_whole(drawn: tuple[dict[str, Any], str]) -> None:
    whole, text = drawn
    assert _is_prefix(parse_streaming_json(text), whole), text


def _is_prefix(part: Any, whole: Any) -> bool:
    """Is `part` what one has seen of `whole`, its last piece perhaps not to the end?"""
    if isinstance(part, dict) and isinstance(whole, dict):
        seen = list(whole)[: len(part)]
        return list(part) == seen and _are_prefix(list(part.values()), [whole[key] for key in seen])
    if isinstance(part, list) and isinstance(whole, list):
        return _are_prefix(part, whole[: len(part)])
    if isinstance(part, str) and isinstance(whole, str):
        # Half a pair of surrogates is what one has seen of a character.
        return _units(whole).startswith(_units(part))
    if _is_number(part) and _is_number(whole):
        return True  # the digits seen make some other number
    return bool(part == whole)


def _are_prefix(parts: list[Any], wholes: list[Any]) -> bool:
    return len(parts) == len(wholes) and (
        not parts or (parts[:-1] == wholes[:-1] and _is_prefix(parts[-1], wholes[-1]))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


@given(st.text() | cut_objects().map(lambda drawn: drawn[1] + "}") | texts)
def test_nothing_makes_it_raise(text: str) -> None:
    parse_streaming_json(text)
    assert isinstance(parse_streaming_object(text), dict)


@given(cut_objects())
def test_the_quick_reading_says_what_the_lenient_one_says(drawn: tuple[dict[str, Any], str]) -> None:
    text = drawn[1]
    try:
        quick = partial_json._quick_reading(text)
    except (ValueError, TypeError):
        return
    slow = partial_json._Lenient(text.strip(partial_json._TRIMMED)).value()
    assert json.dumps(quick) == json.dumps(slow)


@given(json_objects)
def test_whole_json_is_read_as_it_is_and_mending_leaves_it_alone(value: dict[str, Any]) -> None:
    text = dump_json(value).decode()
    assert parse_json_with_repair(text) == value
    assert parse_streaming_json(text) == value
    assert json.loads(repair_json(text)) == value


@given(st.text(st.sampled_from('"\\u0041abn\n\t\x01\ud83d{}:')))
def test_mended_text_needs_no_mending(text: str) -> None:
    assert repair_json(repair_json(text)) == repair_json(text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 150 + "1.", '{"a":"' + "\\" * 99_999]
)
def test_deep_or_long_nonsense_is_read_in_reasonable_time(text: str) -> None:
    parse_streaming_json(text)


def test_arguments_are_an_object_whatever_was_sent() -> None:
    assert parse_streaming_object("[1, 2]") == {}
    assert parse_streaming_object("5") == {}
    assert parse_streaming_object('{"a": 1} trailing') == {"a": 1}
