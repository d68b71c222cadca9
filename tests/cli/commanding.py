"""How the tests run the command: in this process where output is what matters, else as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mule.cli.main import main

HERE = Path(__file__).parent
COMMAND: Sequence[str] = (sys.executable, "-m", "mule.cli")


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


class Mule:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Said:
        try:
            status = main(arguments)
        except SystemExit as exc:  # argparse's way out
            status = int(exc.code or 0)
        captured = self._capsys.readouterr()
        return Said(status, captured.out, captured.err)


def start(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command as a process in a group of its own, where `tools.py` can be found."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=HERE,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
