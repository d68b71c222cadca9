"""What does JSON say that was cut off, or that a model wrote slightly wrong?

Three readings, each more lenient than the one before: as it is; with the strings in it mended; and as
far as it can be read, with what is open closed. The lenient one follows the reference value by value,
odd ends included, since its answers are in the goldens.
"""

from __future__ import annotations

import re
from typing import Final, cast

from pydantic_core import from_json

from mule.values.jsontext import JsonObject, JsonValue, load_json

_REST_OF_STRING: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*(?P<end>"|\\?\Z)', re.DOTALL)
"""What follows an opening quote: up to the closing one, or to the end of the text and half an escape."""
_STRING: Final = re.compile(f'"{_REST_OF_STRING.pattern}', re.DOTALL)
_MENDABLE: Final = re.compile(r'[\x00-\x1f]|\\(?:u[0-9a-fA-F]{4}|["\\/bfnrtu]|(?P<stray>))')
"""In a string: a raw control character, an escape that is one, or a backslash that begins none."""
_SHORT_ESCAPES: Final = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_BLANKS: Final = " \n\r\t"
_TRIMMED: Final = " \n\r\t\v\f\u00a0\ufeff\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What is cut off both ends of a text before its lenient reading: JavaScript's blanks."""

_LITERALS: Final[dict[str, JsonValue]] = {
    "null": None,
    "true": True,
    "false": False,
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "NaN": float("nan"),
}
_LAST_WORD: Final = re.compile(r"(?:^|[\[:,\s])(?P<word>[-+.\w]+)\Z", re.ASCII)
_MAX_DEPTH: Final = 128
"""Deeper nesting is not read: no tool's arguments are like that, and it would exhaust the stack."""


class _Unreadable(ValueError):
    """The lenient reading ends here; what is open keeps what it has."""


def repair_json(text: str) -> str:
    """The text with its strings mended, whether or not it then is JSON.

    Raw control characters become escapes, and a backslash that begins no escape is doubled.

    >>> repair_json('{"path": "C:\\\\dir"}') == '{"path": "C:\\\\\\\\dir"}'
    True
    """
    return _STRING.sub(_mended_string, text)


def _mended_string(match: re.Match[str]) -> str:
    return _MENDABLE.sub(_mended, match.group())


def _mended(match: re.Match[str]) -> str:
    found = match.group()
    if match["stray"] is not None:
        return "\\\\"
    if found[0] == "\\":
        return found
    return _SHORT_ESCAPES.get(found) or f"\\u{ord(found):04x}"


def parse_json_with_repair(text: str) -> JsonValue:
    """Read JSON, with its strings mended where it cannot be read as it is.

    Raises:
        ValueError: it is no JSON either way.
    """
    try:
        return load_json(text)
    except ValueError:
        mended = repair_json(text)
        if mended == text:
            raise
        return load_json(mended)


def parse_streaming_json(text: str) -> JsonValue:
    """The best reading of JSON whose end may not have come yet; `{}` where there is nothing to read.

    Never raises. May be something else than an object where the text is: `parse_streaming_object`.

    >>> parse_streaming_json('{"path": "src/ma')
    {'path': 'src/ma'}
    """
    try:
        return _quick_reading(text)
    except (ValueError, TypeError):  # the latter for half surrogates
        pass
    try:
        return parse_json_with_repair(text)
    except (ValueError, RecursionError):
        pass
    for source in (text, repair_json(text)):
        try:
            value = _Lenient(source.strip(_TRIMMED)).value()
        except (_Unreadable, RecursionError):
            continue
        return {} if value is None else value
    return {}


def parse_streaming_object(text: str) -> JsonObject:
    """The same for the arguments of a tool call, which are an object: `{}` for anything else."""
    value = parse_streaming_json(text)
    return value if isinstance(value, dict) else {}


def _quick_reading(text: str) -> JsonValue:
    """What the parser in pydantic makes of the text, where the readings below would say the same.

    Raises:
        ValueError: they might not: it drops a literal or number that is cut, and reads on over mistakes.
    """
    try:
        return cast(JsonValue, from_json(text, allow_inf_nan=False))  # from_json returns Any
    except ValueError as problem:
        if not str(problem).startswith("EOF") or _is_cut_in_a_token(text):
            raise
    # A blank at the end of a string that is still open is lost, as in the lenient reading.
    trimmed = text.strip(_TRIMMED)
    return cast(JsonValue, from_json(trimmed, allow_inf_nan=False, allow_partial="trailing-strings"))


def _is_cut_in_a_token(text: str) -> bool:
    word = _LAST_WORD.search(text, max(0, len(text) - 64))
    return "\\" in text[-12:] or (word is not None and _may_be_literal(word["word"]))


def _may_be_literal(word: str) -> bool:
    return word[0] in "-+.0123456789" or any(literal.startswith(word) for literal in _LITERALS)


class _Lenient:
    """One lenient reading of one text, front to back."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self, depth: int = 0) -> JsonValue:
        """The value that begins here; what follows it is left. Raises `_Unreadable`."""
        head = self.skip_blanks()
        if not head or depth > _MAX_DEPTH:
            raise _Unreadable
        if head == '"':
            return self.string()
        if head == "{":
            return self.object(depth)
        if head == "[":
            return self.list(depth)
        return self.literal(head)

    def skip_blanks(self) -> str:
        """Go to the next character that is no blank, and say which it is."""
        text, at = self.text, self.at
        while at < len(text) and text[at] in _BLANKS:
            at += 1
        self.at = at
        return text[at : at + 1]

    def object(self, depth: int) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        self.at += 1
        self.skip_blanks()
        try:
            while self.goes_on("}"):
                if not self.skip_blanks():
                    return found
                key = self.string()
                self.skip_blanks()
                self.at += 1  # the colon, or what stands in its place
                found[key] = self.value(depth + 1)
                self.skip_comma()
        except _Unreadable:
            return found
        self.at += 1
        return found

    def list(self, depth: int) -> list[JsonValue]:
        found: list[JsonValue] = []
        self.at += 1
        self.skip_blanks()
        try:
            while self.goes_on("]"):
                found.append(self.value(depth + 1))
                self.skip_comma()
        except _Unreadable:
            return found
        self.at += 1
        return found

    def goes_on(self, closing: str) -> bool:
        return self.text[self.at : self.at + 1] != closing

    def skip_comma(self) -> None:
        if self.skip_blanks() == ",":
            self.at += 1

    def string(self) -> str:
        """A string; where its end is missing, what there is of it, without half an escape."""
        start = self.at
        match = _REST_OF_STRING.match(self.text, start + 1)
        self.at = len(self.text) if match is None else match.end()
        # Anything here is taken for a quote and read to the next one: where the text goes wrong, that is
        # how far it is skipped.
        if match is None or self.text[start] != '"':
            raise _Unreadable
        body = self.text[start : self.at]
        if match["end"] == '"':
            return _text(body)
        body = body.removesuffix(match["end"])
        try:
            return _text(body + '"')
        except _Unreadable:
            cut = body.rfind("\\")
            if cut < 0 or match["end"]:
                raise
            return _text(body[:cut] + '"')

    def literal(self, head: str) -> JsonValue:
        rest = self.text[self.at : self.at + len("-Infinity")]
        for name, value in _LITERALS.items():
            if head == name[0] and (rest.startswith(name) or self.is_cut(name, rest)):
                self.at += len(name)
                return value
        return self.number()

    def is_cut(self, name: str, rest: str) -> bool:
        """Whether the text ends inside this literal. A lone minus is the start of a number too."""
        return self.at + len(rest) == len(self.text) and name.startswith(rest) and rest != "-"

    def number(self) -> JsonValue:
        text, start = self.text, self.at
        end = start
        if start == 0:
            end = len(text)
        else:
            while end < len(text) and text[end] not in ",]}":
                end += 1
        self.at = end  # even where it is none: that is how far the text is skipped
        try:
            return _loaded(text[start:end])
        except _Unreadable:
            # Perhaps cut in its exponent.
            return _loaded(text[start : max(start, text.rfind("e"))])


def _text(quoted: str) -> str:
    return cast(str, _loaded(quoted))  # it begins with a quote, so it is a text


def _loaded(text: str) -> JsonValue:
    try:
        return load_json(text)
    except (ValueError, RecursionError):
        raise _Unreadable from None


__all__ = [
    "parse_json_with_repair",
    "parse_streaming_json",
    "parse_streaming_object",
    "repair_json",
]
