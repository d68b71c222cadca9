"""Both type checkers understand the public interface as its users will."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
USES: Final = sorted(str(path) for path in (ROOT / "tests" / "typing").glob("*.py"))


def run_module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_mypy_has_no_complaint_but_the_expected_ones(tmp_path: Path) -> None:
    checked = run_module("mypy", "--cache-dir", str(tmp_path), *USES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pyright_has_no_complaint_but_the_expected_ones() -> None:
    # The package brings pyright itself; without a node on the path it would go and fetch one.
    node = {"PYRIGHT_PYTHON_GLOBAL_NODE": "1"} if shutil.which("node") else {}
    checked = run_module(
        "pyright",
        "--project",
        str(ROOT / "tests" / "typing"),
        "--pythonpath",
        sys.executable,
        PYRIGHT_PYTHON_IGNORE_WARNINGS="1",
        **node,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
