"""How does JavaScript read and write a number?

Some wires carry JSON inside a text, and models are asked for numbers and answer with texts; the peers
of both are JavaScript's rules.
"""

from __future__ import annotations

import re
from typing import Final

from mule.values.base import Number

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_RADIX: Final = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")

_BEYOND: Final = 1 << 1024
"""Whole numbers from here on are no numbers to JavaScript. Python refuses to write very long ones."""


def read_number(text: str) -> Number | None:
    """The finite number that a text spells, None where it spells none.

    Blanks around it, a sign, an exponent and the prefixes 0x, 0o and 0b are read. A whole number is an
    int, and exact however long it is.

    >>> read_number(" 0x10 "), read_number("1e3"), read_number("2.5"), read_number("")
    (16, 1000, 2.5, None)
    """
    text = text.strip()
    if _WHOLE.fullmatch(text):
        return int(text)
    if _RADIX.fullmatch(text):
        return int(text, 0)
    if not _DECIMAL.fullmatch(text):
        return None
    value = float(text)
    if value - value != 0:
        return None
    return int(value) if value.is_integer() else value


def number_text(value: Number) -> str:
    """A number as JavaScript writes it.

    >>> number_text(1.0), number_text(1e21), number_text(1e16), number_text(1e-7), number_text(0.00001)
    ('1', '1e+21', '10000000000000000', '1e-7', '0.00001')
    """
    if isinstance(value, int) and abs(value) < _BEYOND:
        return str(value)
    if isinstance(value, int):
        value = float("inf") if value > 0 else float("-inf")
    if value - value != 0:
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    sign = "-" if value < 0 else ""
    mantissa, exponent = _digits(abs(value))
    return sign + _laid_out(mantissa, exponent)


def _digits(value: float) -> tuple[str, int]:
    """The shortest digits of a number, and the place of its point after the first of them."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0") or "0", point if digits.strip("0") else 1


def _laid_out(digits: str, point: int) -> str:
    if 0 < point <= 21:
        if len(digits) <= point:
            return digits.ljust(point, "0")
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"
