"""`mule` behaves at its borders as was recorded, but for the listed deviations."""

from __future__ import annotations

import pytest

from golden import loop_cases, provider_cases, pure_cases
from golden.cases import GoldenCase
from golden.compare import Case, Difference, report
from golden.deviations import expected_of_mule, read_deviations
from golden.texts import with_our_texts


def test_pure_functions_answer_as_recorded(pure_case: GoldenCase) -> None:
    _expect_none(pure_cases.run_case(_expected(pure_case)))


async def test_a_case_goes_as_recorded(async_case: GoldenCase) -> None:
    run = loop_cases.run_case if async_case.kind == "loop" else provider_cases.run_case
    _expect_none(await run(_expected(async_case)))


def _expected(golden: GoldenCase) -> Case:
    return with_our_texts(golden.kind, expected_of_mule(golden, read_deviations()))


def _expect_none(differences: list[Difference]) -> None:
    if differences:
        pytest.fail(report(differences), pytrace=False)
