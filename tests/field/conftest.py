"""Which field cases does this session run? `--field DIR` (repeatable) runs those of DIR in place of ours.

A test that takes `exchange_case` is run once for every case of the table entry `exchange`, and so on.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from field.reported import BUILT_IN, FieldCase, as_of, read_cases
from field.table import IN_PLACE_OF, run_by

_RUN_BY: Final = {
    "exchange_case": "exchange",
    "abort_case": "abort",
    "give_back_case": "give-back",
    "pure_case": "pure",
    "timing_case": "timing",
    "secret_case": "secret",
    "load_case": "load",
    "loop_case": "loop",
}
_CASES = pytest.StashKey[list[FieldCase]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    with suppress(ValueError):  # the conftest above may have it already
        parser.addoption(
            "--field",
            action="append",
            default=[],
            metavar="DIR",
            help="run the field cases of this folder instead",
        )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, entry in _RUN_BY.items():
        if argument in metafunc.fixturenames:
            cases = _cases(metafunc.config)
            chosen = [case for case in cases if run_by(case) == entry] + _stand_ins(cases, entry)
            metafunc.parametrize(argument, chosen, ids=[case.id for case in chosen])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that no case asks for does not run; pytest would call it skipped."""
    idle = [item for item in items if item.path.parent == Path(__file__).parent and "NOTSET" in item.name]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item in items if item not in idle]


def _stand_ins(cases: list[FieldCase], entry: str) -> list[FieldCase]:
    """Cases of an API that is not built, put to one that is."""
    return [
        as_of(case, "openai-completions", provider="pondworks")
        for case in cases
        if case.id in IN_PLACE_OF and case.kind == entry
    ]


def _cases(config: pytest.Config) -> list[FieldCase]:
    if _CASES not in config.stash:
        folders = [Path(name) for name in config.getoption("--field", default=[])]
        try:
            config.stash[_CASES] = read_cases(folders or [BUILT_IN])
        except ValueError as exc:
            raise pytest.UsageError(str(exc)) from exc
    return config.stash[_CASES]
