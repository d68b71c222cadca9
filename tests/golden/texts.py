"""Our own sentences in the place of the reference's, in what a case expects, and in what a table gives.

`cases/texts.json` lists them; ours stand in `mule.transcript.wording` under the same names, in capitals.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from golden.compare import Case
from golden.recorded import BUILT_IN, Kind
from mule.transcript import wording

_WHOLE_VALUES = frozenset({"codex_originator_header"})
_EXPECTED = {
    "providers": ("exchanges", "events", "result", "observed"),
    "loop": ("events", "calls", "requests", "result"),
    "pure": ("args", "returns"),
}

Replace = Callable[[str], str]


def with_our_texts(kind: Kind, case: Case) -> Case:
    """The case with each sentence of the reference in its expected parts replaced by ours."""
    changed = dict(case)
    if kind == "pure":
        changed["cases"] = [_in_parts(row, _EXPECTED[kind], "") for row in case["cases"]]
        return changed
    return _in_parts(changed, _EXPECTED[kind], "")


def _in_parts(case: Case, parts: tuple[str, ...], key: str) -> Case:
    return {name: _replaced(value, key) if name in parts else value for name, value in case.items()}


def _replaced(value: Any, key: str) -> Any:
    if isinstance(value, str):
        return _ours(value, key)
    if isinstance(value, Mapping):
        return {name: _replaced(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, key) for item in value]
    return value


def _ours(text: str, key: str) -> str:
    if key == "originator":
        return wording.CODEX_ORIGINATOR_HEADER if text == _theirs()["codex_originator_header"] else text
    for pattern, replacement in _patterns():
        text = pattern.sub(replacement, text)
    return text


@cache
def _theirs() -> dict[str, str]:
    texts: dict[str, str] = json.loads((BUILT_IN / "texts.json").read_text("utf-8"))
    return {name: text for name, text in texts.items() if name != "_"}


@cache
def _patterns() -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    longest_first = sorted(_theirs().items(), key=lambda item: -len(item[1]))
    return [
        (_pattern(theirs), _template(getattr(wording, name.upper())))
        for name, theirs in longest_first
        if name not in _WHOLE_VALUES
    ]


def _pattern(theirs: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(name|text)\\\}", r"(?P<\1>.*?)", re.escape(theirs)), re.DOTALL)


def _template(ours: str) -> Callable[[re.Match[str]], str]:
    def fill(match: re.Match[str]) -> str:
        filled = ours
        for name, value in match.groupdict().items():
            filled = filled.replace("{" + name + "}", value)
        return filled

    return fill
