"""Numbers are read and written as JavaScript does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mule.transcript.js_numbers import number_text, read_number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.25, "1.25"),
        (100.0, "100"),
        (-350.0, "-350"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1.5e300, "1.5e+300"),
        (0.000001, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
        (7, "7"),
    ],
)
def test_a_number_is_written_as_javascript_writes_it(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_was_written_is_read_back(value: float) -> None:
    read = read_number(number_text(value))
    assert read is not None
    assert float(read) == value
    assert float(json.loads(number_text(value))) == value


@pytest.mark.parametrize("text", ["", " ", "abc", "1_000", "Infinity", "NaN", "0x", "-0x10", "1e400", "１"])
def test_what_spells_no_finite_number_is_none(text: str) -> None:
    assert read_number(text) is None
