"""How are long ids shortened, so that equal ids stay equal?"""

from __future__ import annotations

from typing import Final

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_MASK: Final = 0xFFFF_FFFF


def short_hash(text: str) -> str:
    """A short text of letters and digits that stands for a long one. Not for security.

    It shows in ids on the wire, so it is the reference's: two 32-bit lanes of multiply and xor over
    UTF-16 code units, in base 36.

    >>> short_hash("a")
    'm8735310ae7sx'
    """
    one, other = 0xDEAD_BEEF, 0x41C6_CE57
    for unit in _code_units(text):
        one = (one ^ unit) * 2_654_435_761 & _MASK
        other = (other ^ unit) * 1_597_334_677 & _MASK
    one = ((one ^ one >> 16) * 2_246_822_507 ^ (other ^ other >> 13) * 3_266_489_909) & _MASK
    other = ((other ^ other >> 16) * 2_246_822_507 ^ (one ^ one >> 13) * 3_266_489_909) & _MASK
    return _base36(other) + _base36(one)


def _code_units(text: str) -> bytes | memoryview:
    if text.isascii():
        return text.encode()
    return memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
