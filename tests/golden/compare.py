"""Does what happened equal what a golden case recorded, and if not, where does it differ?

The interface of the runners. `test_golden.py` finds the cases, applies `deviations.toml` and puts our
sentences in the place of the reference's (`texts.py`); what is left goes to the runner of its kind:

    pure_cases.run_case(case: Case) -> list[Difference]         # plain function, run once
    loop_cases.run_case(case: Case) -> list[Difference]         # async, run on asyncio and on trio
    provider_cases.run_case(case: Case) -> list[Difference]     # async, run on asyncio and on trio

A runner performs the case, builds an outcome with the case's own keys (`events`, `result`, `calls`,
`requests`; for a provider also `exchanges`, so that the dotted paths of `free` and `contains` fit) and
returns `compare(expected, outcome, rules_of(case))`, where `expected` is the same part of the case. An
empty list is a pass. A runner that finds something else wrong (a response left open, an answer not
used) adds a `Difference` of its own with a `note`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias, TypeGuard

Case: TypeAlias = "dict[str, Any]"
"""A golden case as it was read from its file; the runner's own copy."""
Path: TypeAlias = "tuple[str, ...]"
"""Where a value stands: keys, and positions in lists as text."""


class _Missing(Enum):
    MISSING = "nothing"


MISSING: Final = _Missing.MISSING
"""Stands for a value that is not there, which is not the same as null."""

FREE_FORM: Final = frozenset({"arguments", "args", "params", "details"})
"""Keys under which data is a tool's own: null and absent differ there, and nothing is left out."""
OURS_ALONE: Final = frozenset({"timestamp", "durationMs", "argumentsError", "providerError"})
"""Keys that are left out wherever they stand: times, and fields that the reference does not have."""
JSON_TEXTS: Final = frozenset({"arguments", "thinkingSignature"})
"""Keys whose value may be JSON as text, of which spelling is free and key order is not."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where what happened is not what was recorded."""

    path: str
    expected: object = MISSING
    got: object = MISSING
    note: str = ""

    def __str__(self) -> str:
        head = f"{self.path or '(whole)'}: {self.note}" if self.note else self.path or "(whole)"
        if self.expected is MISSING and self.got is MISSING:
            return head
        return f"{head}\n    expected {_shown(self.expected)}\n    got      {_shown(self.got)}"


def report(differences: Sequence[Difference]) -> str:
    """The first differences as text, for people."""
    shown = [str(difference) for difference in differences[:12]]
    if len(differences) > len(shown):
        shown.append(f"... and {len(differences) - len(shown)} more")
    return "\n".join(shown)


def _shown(value: object, limit: int = 600) -> str:
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def _nowhere(_path: Path) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What is compared how.

    Attributes:
        free: paths whose value, subtree included, is not compared and may be absent.
        contains: path to the pieces of text that must be in the value there, whatever their case.
        free_texts: texts that may be any other text which holds the pieces, the same in all places.
        nulls_count: at which paths null and absent differ, apart from under `free_form` keys.
        free_form, left_out, json_texts: see `FREE_FORM`, `OURS_ALONE`, `JSON_TEXTS`.
        near: keys under which numbers are compared to 1e-9.
    """

    free: frozenset[Path] = frozenset()
    contains: Mapping[Path, Sequence[str]] = field(default_factory=dict)
    free_texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nulls_count: Callable[[Path], bool] = _nowhere
    free_form: frozenset[str] = FREE_FORM
    left_out: frozenset[str] = OURS_ALONE
    json_texts: frozenset[str] = JSON_TEXTS
    near: frozenset[str] = frozenset({"cost"})


def rules_of(case: Case) -> Rules:
    """The rules of a provider or loop case: its `free`, `contains` and `freeTexts`.

    What is free in `result` is free in the last event too. In request bodies nulls count.
    """
    last = str(len(case.get("events", ())) - 1)
    free: set[Path] = set()
    for dotted in case.get("free", ()):
        path = tuple(dotted.split("."))
        free.add(path)
        if path[0] == "result":
            free.update(("events", last, key, *path[1:]) for key in ("message", "error"))
    return Rules(
        free=frozenset(free),
        contains={tuple(dotted.split(".")): pieces for dotted, pieces in case.get("contains", {}).items()},
        free_texts={entry["text"]: entry["contains"] for entry in case.get("freeTexts", ())},
        nulls_count=is_in_request_body,
    )


def is_in_request_body(path: Path) -> bool:
    """Is this `exchanges.<n>.request.body` or below?"""
    return len(path) >= 4 and path[0] == "exchanges" and path[2:4] == ("request", "body")


def compare(expected: object, got: object, rules: Rules, at: str = "") -> list[Difference]:
    """Every place where `got` is not `expected`, in order. `at` is the dotted path of both values."""
    comparison = _Comparison(rules)
    path: Path = tuple(at.split(".")) if at else ()
    comparison.value(expected, got, path, whole=rules.nulls_count(path), open_=False)
    comparison.pieces(got, path)
    return comparison.differences


class _Comparison:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.differences: list[Difference] = []
        self.texts_seen: dict[str, str] = {}

    def differ(self, path: Path, expected: object, got: object, note: str = "") -> None:
        self.differences.append(Difference(".".join(path), expected, got, note))

    def value(self, expected: object, got: object, path: Path, *, whole: bool, open_: bool) -> None:
        """`whole`: null and absent differ here. `open_`: inside a tool's own data."""
        if path in self.rules.free:
            return
        if isinstance(expected, Mapping) and isinstance(got, Mapping):
            self.mapping(expected, got, path, whole=whole, open_=open_)
        elif _is_list(expected) and _is_list(got):
            self.items(expected, got, path, whole=whole, open_=open_)
        elif not self.same_leaf(expected, got, path, whole=whole):
            self.differ(path, expected, got)

    def mapping(
        self, expected: Mapping[str, Any], got: Mapping[str, Any], path: Path, *, whole: bool, open_: bool
    ) -> None:
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key in self.rules.left_out and not open_:
                continue
            below = (*path, key)
            free_form = open_ or key in self.rules.free_form
            self.value(
                expected.get(key, MISSING),
                got.get(key, MISSING),
                below,
                # A free-form key that is absent equals one that is null; only what is inside counts.
                whole=whole or open_ or self.rules.nulls_count(below),
                open_=free_form,
            )

    def items(
        self, expected: Sequence[Any], got: Sequence[Any], path: Path, *, whole: bool, open_: bool
    ) -> None:
        if len(expected) != len(got):
            note = f"expected {len(expected)} entries, got {len(got)}"
            self.differ(path, _outline(expected), _outline(got), note)
        for index, (one, other) in enumerate(zip(expected, got, strict=False)):
            self.value(one, other, (*path, str(index)), whole=True if open_ else whole, open_=open_)

    def same_leaf(self, expected: object, got: object, path: Path, *, whole: bool) -> bool:
        if not whole:
            expected = None if expected is MISSING else expected
            got = None if got is MISSING else got
        if expected is got:
            return True
        if _is_number(expected) and _is_number(got):
            near = not self.rules.near.isdisjoint(path)
            return same_number(expected, got, within=1e-9 if near else 0.0)
        if isinstance(expected, str) and isinstance(got, str):
            return expected == got or self.same_text(expected, got, path)
        return type(expected) is type(got) and expected == got

    def same_text(self, expected: str, got: str, path: Path) -> bool:
        if path and path[-1] in self.rules.json_texts and same_json_text(expected, got):
            return True
        if expected not in self.rules.free_texts:
            return False
        first = self.texts_seen.setdefault(expected, got)
        return first == got and _holds(got, self.rules.free_texts[expected])

    def pieces(self, got: object, at: Path) -> None:
        for path, pieces in self.rules.contains.items():
            if path[: len(at)] != at:
                continue
            value = value_at(got, path[len(at) :])
            text = value if isinstance(value, str) else _shown(value, limit=100_000)
            missing = [piece for piece in pieces if not _holds(text, [piece])]
            if missing:
                self.differ(path, pieces, value, f"must contain {missing}")


def value_at(value: object, path: Path) -> object:
    """What stands at a path, `MISSING` where nothing does."""
    for key in path:
        if isinstance(value, Mapping):
            value = value.get(key, MISSING)
        elif isinstance(value, Sequence) and not isinstance(value, str) and key.isdecimal():
            value = value[int(key)] if int(key) < len(value) else MISSING
        else:
            return MISSING
    return value


def same_number(expected: Any, got: Any, *, within: float = 0.0) -> bool:
    """Are two numbers the same double, or that near? Minus zero is zero, NaN is NaN."""
    try:
        one, other = float(expected), float(got)
    except OverflowError:
        return bool(expected == got)
    return one == other or (one != one and other != other) or abs(one - other) <= within


def same_json_text(expected: str, got: str) -> bool:
    """Do two texts hold the same JSON, keys in the same order?"""
    try:
        return _ordered(expected) == _ordered(got)
    except ValueError:
        return False


def _ordered(text: str) -> object:
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs), parse_int=_double)


def _double(digits: str) -> float:
    return float(digits)


def _holds(text: str, pieces: Sequence[str]) -> bool:
    folded = text.casefold()
    return all(piece.casefold() in folded for piece in pieces)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _outline(items: Sequence[Any]) -> list[object]:
    """A list with each mapping in it named by its kind, so that a missing event is seen at a glance."""
    kinds = ("type", "hook", "role", "name")
    return [
        next((item[kind] for kind in kinds if kind in item), item) if isinstance(item, Mapping) else item
        for item in items
    ]
