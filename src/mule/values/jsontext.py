"""JSON as text: what may stand in it, how it is written, how it is read.

Two things set this apart from `json`: text is written compact and unescaped, as the reference
does, and half a surrogate pair (which JSON can spell and UTF-8 cannot) survives both ways, so a
transcript that holds one is still a transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

if TYPE_CHECKING:
    JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"
    """Plain JSON data."""
    JsonObject: TypeAlias = Mapping[str, JsonValue]
    """A JSON object."""
else:
    # What pydantic checks at run time: the outer shape. The leaves came out of a JSON parser, and
    # walking them again for every message would cost more than it could find.
    JsonValue = Any
    JsonObject = dict[str, Any]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def dump_json(value: JsonValue) -> bytes:
    """Write a JSON value as compact UTF-8, keys in the order given.

    Half of a surrogate pair is written as the JSON escape `\\udXXX`. NaN and the infinities, which
    JSON cannot spell, become null.

    >>> dump_json({"a": [1, "é"]}).decode()
    '{"a":[1,"é"]}'
    >>> dump_json("\\ud83d")
    b'"\\\\ud83d"'
    """
    try:
        return to_json(value)
    except (PydanticSerializationError, UnicodeError):
        return encode_text(_dump_leniently(value))


def _dump_leniently(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), ensure_ascii=False, separators=(",", ":"))


def _without_nan(value: JsonValue) -> JsonValue:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(item) for item in value]
    return value


def encode_text(text: str) -> bytes:
    """JSON text as UTF-8; half surrogates, legal only inside strings, as their escapes."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub(lambda m: f"\\u{ord(m.group()):04x}", text).encode()


def load_json(text: str | bytes) -> JsonValue:
    """Read one JSON value.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return cast(JsonValue, from_json(text, allow_inf_nan=False))  # from_json returns Any
    except (ValueError, TypeError):
        # Half surrogates, and the exact error for what is not JSON at all.
        return cast(JsonValue, json.loads(text, parse_constant=_refuse_constant))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def join_surrogates(text: str) -> str:
    """Join surrogate halves that arrived in two pieces into the character they spell.

    Python keeps them apart when it concatenates the pieces.
    """
    if text.isascii() or not _LONE_SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_lone_surrogates(text: str) -> str:
    """Text without surrogate halves that have no partner, which UTF-8 cannot carry.

    >>> without_lone_surrogates("a\\ud83db")
    'ab'
    """
    if text.isascii() or not _LONE_SURROGATE.search(text):
        return text
    return _LONE_SURROGATE.sub("", join_surrogates(text))


def utf16_length(text: str) -> int:
    """How many UTF-16 code units a text has: the unit in which the reference counts.

    >>> utf16_length("aé😀")
    4
    """
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_utf16(text: str, units: int) -> str:
    """The first so many UTF-16 code units of a text; may end in half a pair.

    >>> cut_utf16("abc", 2)
    'ab'
    """
    if text.isascii():
        return text[:units]
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "surrogatepass")
