"""Which golden cases does this session run? `--golden DIR` (repeatable): those of DIR in place of ours."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from golden.deviations import is_needed, read_deviations
from golden.recorded import BUILT_IN, GoldenCase, read_cases

_KINDS = {"pure_case": ("pure",), "async_case": ("loop", "providers")}
_CASES = pytest.StashKey[list[GoldenCase]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    with suppress(ValueError):  # the conftest above may have it already
        parser.addoption(
            "--golden",
            action="append",
            default=[],
            metavar="DIR",
            help="run the golden cases of this folder instead",
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, kinds in _KINDS.items():
        if argument in metafunc.fixturenames:
            chosen = [golden for golden in _cases(metafunc.config) if golden.kind in kinds]
            metafunc.parametrize(argument, chosen, ids=[golden.id for golden in chosen])


def _cases(config: pytest.Config) -> list[GoldenCase]:
    if _CASES not in config.stash:
        folders = [Path(name) for name in config.getoption("--golden", default=[])]
        try:
            cases = read_cases(folders or [BUILT_IN])
        except ValueError as exc:
            raise pytest.UsageError(str(exc)) from exc
        deviations = read_deviations()
        config.stash[_CASES] = [golden for golden in cases if is_needed(golden, deviations)]
    return config.stash[_CASES]
