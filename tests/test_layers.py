"""Imports point one way: down. What each layer may know of the world outside is held here too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parent.parent / "src"

LAYERS: Final = (
    {"values"},
    {"transcript"},
    {"results", "waiting", "ports", "decoding", "normalize"},
    {"settings"},
    {"adapters", "loop"},
    {"running"},
    {"effect"},
    {"", "agent", "language_model", "toolkit"},
    {"testing", "hosts"},
    {"cli"},
)
"""What stands directly in `mule` (the empty name: its `__init__`). A module imports from sets before its
own, and from its own folder; two names of one set do not know each other."""

LIBRARIES: Final = {
    "values": {"pydantic", "pydantic_core", "typing_extensions"},
    "transcript": {"pydantic", "pydantic_core", "typing_extensions", "jsonschema", "referencing"},
    "results": {"returns"},
    "waiting": {"anyio"},
    "ports": {"returns"},
    "decoding": {"returns"},
    "normalize": {"returns", "pydantic"},
    "settings": set[str](),
    "loop": {"returns", "anyio", "typing_extensions"},
    "running": {"returns", "anyio"},
    "effect": set[str](),
}
"""Which libraries these may import, beside the standard one. Not listed: any that we depend on."""

ALLOWED_ALL_THE_SAME: Final = {
    ("mule.values.request", "httpx", "typing"),  # the type of what a host may hand us
    ("mule.values.request", "returns", "typing"),  # the type of what the request hooks return
    ("mule.values.signal", "anyio", "lazy"),  # one method waits, on whichever event loop is running
}

IMPURE: Final = {
    "asyncio",
    "anyio",
    "io",
    "os",
    "random",
    "secrets",
    "socket",
    "threading",
    "time",
    "uuid",
}


@dataclass(frozen=True)
class Import:
    """One import of one module by another; `when` is "eager", "lazy" (in a function) or "typing"."""

    by: str
    of: str
    when: str
    line: int

    def __str__(self) -> str:
        return f"{self.by}:{self.line} imports {self.of} ({self.when})"


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted((SOURCE / "mule").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


@cache
def imports() -> list[Import]:
    return [one for name, tree in modules().items() for one in imports_in(name, tree, "eager")]


def imports_in(name: str, node: ast.AST, when: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inner = when
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and when == "eager":
            inner = "lazy"
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inner = "typing"
        if isinstance(child, ast.Import):
            yield from (Import(name, alias.name, inner, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{name}:{child.lineno}: imports name the whole path"
            yield from (Import(name, module, inner, child.lineno) for module in targets(child))
        else:
            yield from imports_in(name, child, inner)


def targets(node: ast.ImportFrom) -> set[str]:
    """The modules that a `from a import b` needs: `a.b` where that is one of ours, `a` otherwise."""
    base = node.module or ""
    if base == "mule" and [alias.name for alias in node.names] == ["__version__"]:
        return set()  # a constant of the package, which is loaded before any of its modules
    return {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base for alias in node.names}


def unit(module: str) -> str:
    """The name in `LAYERS` of one of our modules."""
    return module.split(".")[1] if "." in module else ""


def ours() -> list[Import]:
    return [one for one in imports() if one.of.split(".")[0] == "mule"]


def theirs() -> list[Import]:
    found = [one for one in imports() if one.of.split(".")[0] not in {"mule", "__future__"}]
    return [one for one in found if one.of.split(".")[0] not in sys.stdlib_module_names]


def told(wrong: list[Import]) -> str:
    return "\n".join(map(str, wrong))


def test_every_module_has_its_layer() -> None:
    placed = set().union(*LAYERS)
    assert {unit(name) for name in modules()} - placed == set()
    assert sum(map(len, LAYERS)) == len(placed)


def test_imports_point_down() -> None:
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    wrong = [
        one for one in ours() if unit(one.by) != unit(one.of) and level[unit(one.of)] >= level[unit(one.by)]
    ]
    assert not wrong, told(wrong)


def test_a_file_with_an_underscore_is_for_its_own_folder() -> None:
    wrong = []
    for one in ours():
        parts = one.of.split(".")
        for number, part in enumerate(parts):
            folder = ".".join(parts[:number])
            if part.startswith("_") and not f"{one.by}.".startswith(f"{folder}."):
                wrong.append(one)
    assert not wrong, told(wrong)


def test_no_import_goes_in_a_circle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for one in ours():
        if one.when != "typing":
            graph[one.by].add(one.of)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as exc:
        pytest.fail(" <- ".join(exc.args[1]))


def test_each_layer_knows_only_the_libraries_it_may() -> None:
    wrong = [
        one
        for one in theirs()
        if unit(one.by) in LIBRARIES
        and one.of.split(".")[0] not in LIBRARIES[unit(one.by)]
        and (one.by, one.of.split(".")[0], one.when) not in ALLOWED_ALL_THE_SAME
    ]
    assert not wrong, told(wrong)


def test_values_import_their_libraries_once_and_for_all() -> None:
    lazy = [one for one in [*ours(), *theirs()] if unit(one.by) == "values" and one.when == "lazy"]
    wrong = [one for one in lazy if (one.by, one.of, one.when) not in ALLOWED_ALL_THE_SAME]
    assert not wrong, told(wrong)


@pytest.mark.parametrize("layer", ["values", "transcript"])
def test_what_only_thinks_has_no_clock_no_chance_and_no_files(layer: str) -> None:
    allowed = ALLOWED_ALL_THE_SAME
    wrong = [
        one
        for one in imports()
        if unit(one.by) == layer
        and one.of.split(".")[0] in IMPURE
        and (one.by, one.of, one.when) not in allowed
    ]
    assert not wrong, told(wrong)


def test_the_transcript_waits_for_nothing_and_asks_no_clock() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        if unit(name) == "transcript"
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
        or (isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"))
    ]
    assert not found


def test_every_module_says_which_question_it_answers() -> None:
    assert [name for name, tree in modules().items() if not ast.get_docstring(tree)] == []
