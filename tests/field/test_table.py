"""Every field case is run by a test, or is listed with what it waits for."""

from __future__ import annotations

from dataclasses import replace

from field.reported import BUILT_IN, read_cases
from field.table import IN_PLACE_OF, LATER, TABLE, is_built, run_by


def test_the_table_lists_every_case_and_nothing_else() -> None:
    assert sorted(TABLE) == sorted(case.id for case in read_cases([BUILT_IN]))


def test_what_is_put_off_is_not_built_yet() -> None:
    put_off = {case: entry.removeprefix(LATER) for case, entry in TABLE.items() if entry.startswith(LATER)}
    assert {case: feature for case, feature in put_off.items() if is_built(feature)} == {}


def test_a_case_waits_for_its_own_api_or_for_the_loop() -> None:
    for case in read_cases([BUILT_IN]):
        if TABLE[case.id].startswith(LATER):
            wanted = {"timing": "the idle limit", "loop": "the Agent"}.get(case.kind, case.api)
            assert TABLE[case.id] == f"{LATER}{wanted}"


def test_a_case_that_nobody_here_has_seen_is_run_by_its_kind() -> None:
    for case in read_cases([BUILT_IN]):
        entry = run_by(replace(case, id=f"new-{case.id}"))
        assert entry == TABLE[case.id] or TABLE[case.id].startswith(LATER)


def test_stand_ins_are_for_cases_that_are_put_off() -> None:
    assert all(TABLE[case].startswith(LATER) for case in IN_PLACE_OF)
