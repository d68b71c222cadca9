"""Every example in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n+```text\n(?P<shown>.*?)```)?", re.DOTALL)


def _blocks(page: Path) -> list[tuple[int, str, str | None]]:
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start()) + 2, found["code"], found["shown"])
        for found in _BLOCK.finditer(text)
    ]


def _with_examples() -> list[Any]:
    pages = [page for page in PAGES if _blocks(page)]
    return [
        # The embedded model is one server; pages that start it take turns.
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=pytest.mark.xdist_group("local"))
        for page in pages
    ]


@pytest.mark.real_io
@pytest.mark.parametrize("page", _with_examples())
def test_the_examples_of_a_page_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    name = f"example_{page.stem.replace('-', '_')}"
    namespace: dict[str, Any] = {"__name__": name}
    module = type(sys)(name)
    module.__dict__.update(namespace)
    monkeypatch.setitem(sys.modules, name, module)
    for line, code, shown in _blocks(page):
        printed = io.StringIO()
        # The line numbers of a failure are those of the page.
        compiled = compile("\n" * (line - 1) + code, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(compiled, module.__dict__)
        if shown is not None:
            assert printed.getvalue() == shown, f"{page.name}, line {line}"


def test_the_pages_have_examples() -> None:
    assert len(_with_examples()) >= 4
