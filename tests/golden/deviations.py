"""Where does `mule` do better than what was recorded, and what is expected of it there instead?

`deviations.toml` is the list; its entries name functions of `pure_deviations.py`, `loop_deviations.py` and
`provider_deviations.py`, one module for each kind of case.
"""

from __future__ import annotations

import copy
import fnmatch
import importlib
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from golden.compare import Case
from golden.recorded import GoldenCase, Kind

_MODULES: dict[Kind, str] = {
    "pure": "golden.pure_deviations",
    "loop": "golden.loop_deviations",
    "providers": "golden.provider_deviations",
}
_LIST = Path(__file__).with_suffix(".toml")
_KEYS = frozenset({"cases", "predicate", "path", "value", "absent", "change", "not_needed", "reason"})


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """One entry of the list. Exactly one of `path`, `change`, `not_needed` says what differs.

    Attributes:
        cases: pattern over case names (`pure/isRetryable*`), None where only `predicate` decides.
        predicate: name of a function `(case) -> bool`; holds for cases that nobody has seen yet.
        path, value, absent: dotted path into the case, and what is expected there; `absent`: nothing.
        change: name of a function `(case) -> case`, given a copy that it may change.
        not_needed: our design has no such function; the table is not run. Pure tables only.
        reason: why a user is better off.
    """

    kind: Kind
    cases: str | None = None
    predicate: str | None = None
    path: str | None = None
    value: Any = None
    absent: bool = False
    change: str | None = None
    not_needed: bool = False
    reason: str

    def fits(self, golden: GoldenCase) -> bool:
        """Does this entry concern the case?"""
        if golden.kind != self.kind:
            return False
        if self.cases is not None and not fnmatch.fnmatchcase(golden.name, self.cases):
            return False
        return self.predicate is None or bool(self.function(self.predicate)(golden.case))

    def function(self, name: str) -> Callable[[Case], Any]:
        """A function that the entry names."""
        return cast("Callable[[Case], Any]", getattr(importlib.import_module(_MODULES[self.kind]), name))

    def applied(self, case: Case) -> Case:
        """The case as `mule` is expected to answer it."""
        if self.change is not None:
            return cast(Case, self.function(self.change)(case))
        if self.path is not None:
            _put(case, self.path.split("."), self.value, absent=self.absent)
        return case


def read_deviations(path: Path = _LIST) -> list[Deviation]:
    """The list.

    Raises:
        ValueError: an entry does not say what differs, where, and why.
    """
    document = tomllib.loads(path.read_text("utf-8"))
    return [_entry(kind, raw) for kind in _MODULES for raw in document.get(kind, ())]


def _entry(kind: Kind, raw: dict[str, Any]) -> Deviation:
    unknown = raw.keys() - _KEYS
    if unknown:
        raise ValueError(f"a deviation has unknown keys {sorted(unknown)}: {raw}")
    if len(str(raw.get("reason", "")).split()) < 3:
        raise ValueError(f"a deviation gives no reason: {raw}")
    if "cases" not in raw and "predicate" not in raw:
        raise ValueError(f"a deviation does not say which cases it is about: {raw}")
    if sum(key in raw for key in ("path", "change", "not_needed")) != 1:
        raise ValueError(f"a deviation must have one of path, change, not_needed: {raw}")
    if "path" in raw and ("value" in raw) == bool(raw.get("absent")):
        raise ValueError(f"a deviation with a path needs a value or absent = true: {raw}")
    return Deviation(kind=kind, **raw)


def _put(value: Any, path: list[str], new: Any, *, absent: bool) -> None:
    for key in path[:-1]:
        value = value[int(key)] if isinstance(value, list) else value[key]
    last: Any = int(path[-1]) if isinstance(value, list) else path[-1]
    if absent:
        del value[last]
    else:
        value[last] = new


def is_needed(golden: GoldenCase, deviations: Iterable[Deviation]) -> bool:
    """Does `mule` have what this case is about?"""
    return not any(entry.not_needed and entry.fits(golden) for entry in deviations)


def expected_of_mule(golden: GoldenCase, deviations: Iterable[Deviation]) -> Case:
    """The case with every deviation that fits it applied, in the order of the list; a copy."""
    case = copy.deepcopy(golden.case)
    for entry in deviations:
        if entry.fits(golden):
            case = entry.applied(case)
    return case


def unused(deviations: Iterable[Deviation], cases: Iterable[GoldenCase]) -> list[Deviation]:
    """Entries that fit none of these cases, apart from those that a predicate keeps for others."""
    known = list(cases)
    return [
        entry
        for entry in deviations
        if entry.predicate is None and not any(entry.fits(golden) for golden in known)
    ]
