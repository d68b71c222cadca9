"""The list of deviations says what differs and why, and holds nothing that is no longer so."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.deviations import Deviation, expected_of_mule, is_needed, read_deviations, unused
from golden.recorded import BUILT_IN, GoldenCase, read_cases


def test_every_entry_is_about_a_case_we_have_or_a_kind_it_names() -> None:
    assert unused(read_deviations(), read_cases([BUILT_IN])) == []


def test_every_function_an_entry_names_is_there() -> None:
    for entry in read_deviations():
        for name in (entry.predicate, entry.change):
            assert name is None or callable(entry.function(name))


@pytest.mark.parametrize(
    "entry",
    [
        'path = "result"\nvalue = 1\nreason = "it is much better"',
        'cases = "x"\npath = "result"\nvalue = 1\nreason = "better"',
        'cases = "x"\nreason = "it is much better"',
        'cases = "x"\npath = "result"\nreason = "it is much better"',
        'cases = "x"\npath = "result"\nvalue = 1\nchange = "f"\nreason = "it is much better"',
        'cases = "x"\nskip = true\npath = "result"\nvalue = 1\nreason = "it is much better"',
    ],
    ids=["no case", "no reason", "no difference", "no value", "two differences", "unknown key"],
)
def test_an_entry_that_is_not_whole_is_refused(entry: str, tmp_path: Path) -> None:
    path = tmp_path / "deviations.toml"
    path.write_text(f"[[loop]]\n{entry}\n", "utf-8")
    with pytest.raises(ValueError, match="deviation"):
        read_deviations(path)


def test_a_path_puts_our_value_into_a_copy() -> None:
    golden = GoldenCase("a", "loop", "loop/a", {"events": [{"type": "x", "gone": 1}]})
    changes = [
        Deviation(kind="loop", cases="loop/*", path="events.0.type", value="y", reason="for a test"),
        Deviation(kind="loop", cases="loop/*", path="events.0.gone", absent=True, reason="for a test"),
        Deviation(kind="loop", cases="loop/b", path="events", value=[], reason="for a test"),
    ]
    assert expected_of_mule(golden, changes) == {"events": [{"type": "y"}]}
    assert golden.case == {"events": [{"type": "x", "gone": 1}]}


def test_a_table_we_have_no_function_for_is_not_run() -> None:
    golden = GoldenCase("a", "pure", "pure/a", {})
    entry = Deviation(kind="pure", cases="pure/a", not_needed=True, reason="for a test")
    assert not is_needed(golden, [entry])
    assert is_needed(golden, [])
