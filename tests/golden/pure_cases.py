"""Runs a pure table: each row through our function of that meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from golden.compare import Case, Difference, Path, Rules, compare
from golden.pure_functions import FUNCTIONS

_EXACT: Final = frozenset(
    {"parseJsonWithRepair", "parseStreamingJson", "repairJson", "validateToolArguments", "validateToolCall"}
)
"""Functions that give JSON: null and absent differ, nothing is left out."""
_LEFT_OUT: Final = Rules().left_out | {"stack", "errorText"}
"""Beside times: stacks, and error texts whose wording is free."""
_COSTS: Final = frozenset({"input", "output", "cacheRead", "cacheWrite", "total"})


def run_case(case: Case) -> list[Difference]:
    """See `golden.compare`."""
    name = case["function"]
    function = FUNCTIONS.get(name)
    if function is None:
        return [Difference("function", note=f"no function of ours stands for {name}")]
    rules = Rules(
        nulls_count=_everywhere if name in _EXACT else _nowhere,
        left_out=frozenset() if name in _EXACT else _LEFT_OUT,
        near=_COSTS if name == "calculateCost" else frozenset({"cost"}),
    )
    differences: list[Difference] = []
    for number, row in enumerate(case["cases"]):
        differences += _run_row(function, row, rules, f"cases.{number}")
    return differences


def _everywhere(_path: Path) -> bool:
    return True


def _nowhere(_path: Path) -> bool:
    return False


@dataclass(frozen=True)
class _Raised:
    """A failure that the call is meant to be able to have."""

    error: ValueError


def _run_row(
    function: Callable[..., Any], row: Mapping[str, Any], rules: Rules, at: str
) -> list[Difference]:
    args = [_read_marks(arg) for arg in row["args"]]
    try:
        got = function(*args)
    except ValueError as error:
        got = _Raised(error)
    if "throws" not in row:
        if isinstance(got, _Raised):
            return [Difference(at, row["returns"], note=f"{row['args']} raised {got.error!r}")]
        expected = _read_marks(row["returns"])
        found = compare(expected, got, rules, at=at) + _misordered_sections(expected, got, at)
        return [Difference(at, note=f"for {row['args']}"), *found] if found else []
    if not isinstance(got, _Raised):
        return [Difference(at, row["throws"], got, note=f"{row['args']} must fail")]
    text = str(got.error).casefold()
    missing = [piece for piece in row["throws"].get("contains", ()) if piece.casefold() not in text]
    return [Difference(at, missing, str(got.error), note="must contain")] if missing else []


def _misordered_sections(expected: object, got: object, at: str) -> list[Difference]:
    """Where `sections` stand in another order, which is the order in which a model reads them."""
    if isinstance(expected, dict) and isinstance(got, dict):
        found: list[Difference] = []
        for key, value in expected.items():
            if key == "sections" and isinstance(value, dict) and list(value) != list(got.get(key) or ()):
                found.append(Difference(f"{at}.sections", list(value), list(got.get(key) or ())))
            found += _misordered_sections(value, got.get(key), f"{at}.{key}")
        return found
    if isinstance(expected, list) and isinstance(got, list):
        pairs = enumerate(zip(expected, got, strict=False))
        return [f for i, (one, other) in pairs for f in _misordered_sections(one, other, f"{at}.{i}")]
    return []


def _read_marks(value: Any) -> Any:
    """JSON of a table with its marks read: absent values, odd numbers, errors."""
    if isinstance(value, list):
        return [_read_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$undefined" in value:
        return None
    if "$number" in value:
        return float(value["$number"])
    if "$error" in value:
        return _error(value["$error"])
    return {key: _read_marks(item) for key, item in value.items()}


def _error(fields: Mapping[str, Any]) -> Exception:
    error: Exception = type(fields.get("name", "Error"), (Exception,), {})(fields["message"])
    for key, value in fields.items():
        if key not in ("name", "message"):
            setattr(error, key, _read_marks(value))
    return error
