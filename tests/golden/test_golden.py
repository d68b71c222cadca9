"""`mule` behaves at its borders as was recorded, but for the listed deviations."""

from __future__ import annotations

import importlib

import pytest

from golden import pure_cases
from golden.compare import Case, Difference, report
from golden.deviations import expected_of_mule, read_deviations
from golden.recorded import GoldenCase
from golden.texts import with_our_texts


def test_pure_functions_answer_as_recorded(pure_case: GoldenCase) -> None:
    _expect_none(pure_cases.run_case(_expected(pure_case)))


async def test_a_case_goes_as_recorded(async_case: GoldenCase) -> None:
    # Each on its own, so that what breaks one kind leaves the others running.
    name = "golden.loop_cases" if async_case.kind == "loop" else "golden.provider_cases"
    _expect_none(await importlib.import_module(name).run_case(_expected(async_case)))


def _expected(golden: GoldenCase) -> Case:
    return with_our_texts(golden.kind, expected_of_mule(golden, read_deviations()))


def _expect_none(differences: list[Difference]) -> None:
    if differences:
        pytest.fail(report(differences), pytrace=False)
