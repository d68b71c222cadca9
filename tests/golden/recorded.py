"""Which golden cases are there, and of which kind is each?

A folder is searched to its bottom, and the kind is told by what a file holds, so that a whole golden
folder, its `pure` or `providers` alone, or a single API's can be handed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from golden.compare import Case

Kind: TypeAlias = Literal["pure", "loop", "providers"]
BUILT_IN: Final = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class GoldenCase:
    """One recorded case. `id` is its path below the folder; `name` is the same wherever it lies."""

    id: str
    kind: Kind
    name: str
    case: Case = field(repr=False, compare=False)


def read_cases(folders: Iterable[Path]) -> list[GoldenCase]:
    """All cases of these folders, sorted within each.

    Raises:
        ValueError: a folder holds no case.
    """
    cases: list[GoldenCase] = []
    for folder in folders:
        found = list(_read_folder(folder))
        if not found:
            raise ValueError(f"no golden case in {folder}")
        cases += found
    return cases


def _read_folder(folder: Path) -> Iterator[GoldenCase]:
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text("utf-8"))
        kind = _kind_of(content)
        if kind is not None:
            relative = path.relative_to(folder).with_suffix("").as_posix()
            yield GoldenCase(relative, kind, _name_of(kind, path.stem, content), content)


def _kind_of(content: Any) -> Kind | None:
    if not isinstance(content, dict):
        return None
    if "exchanges" in content and "api" in content:
        return "providers"
    if "model_script" in content and "input" in content:
        return "loop"
    if "function" in content and "cases" in content and "kind" not in content:
        return "pure"
    return None


def _name_of(kind: Kind, stem: str, content: Case) -> str:
    if kind == "providers":
        return f"providers/{content['api']}/{stem}"
    return f"{kind}/{content['function'] if kind == 'pure' else stem}"
