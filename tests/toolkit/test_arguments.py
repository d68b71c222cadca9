"""What a model sends: turned into the annotated types, or refused in words that help it."""

from __future__ import annotations

import datetime
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field
from returns.pipeline import is_successful

from mule.results import settle
from mule.toolkit import tool
from toolkit.calling import call_of, rejection_of, result_of, text_of


class Stop(BaseModel):
    city: str
    nights: int | None = None


def not_the_moon(city: str) -> str:
    if city == "Moon":
        raise ValueError("no weather on the moon")
    return city


@tool
def travel(
    stops: list[Stop], start: datetime.date, budget: float = 1.5, note: str = "", quick: bool = False
) -> str:
    """Travel."""
    return repr((stops, start, budget, note, quick))


async def test_arguments_arrive_as_their_annotated_types() -> None:
    result = await result_of(travel, stops=[{"city": "Oslo", "nights": 2}], start="2026-05-01", budget=3)

    assert text_of(result) == repr(
        ([Stop(city="Oslo", nights=2)], datetime.date(2026, 5, 1), 3.0, "", False)
    )


async def test_what_models_commonly_write_is_understood() -> None:
    result = await result_of(travel, stops=[], start="2026-05-01", budget="3.5", note=7, quick="true")

    assert text_of(result) == repr(([], datetime.date(2026, 5, 1), 3.5, "7", True))


async def test_positional_only_parameters_and_defaults_are_the_functions_own() -> None:
    marker = object()

    @tool
    def same(a: int, b: int = 2, /, *, c: object = marker) -> str:
        """Same."""
        return f"{a} {b} {c is marker}"

    assert text_of(await result_of(same, a=1)) == "1 2 True"
    assert text_of(await result_of(same, a=1, b=5)) == "1 5 True"


async def test_a_default_in_the_annotation_counts() -> None:
    @tool
    def search(limit: Annotated[int, Field(default=5)]) -> str:
        """Search."""
        return str(limit)

    assert text_of(await result_of(search)) == "5"


async def test_an_alias_and_odd_names_reach_their_parameters() -> None:
    @tool
    def between(from_: Annotated[int, Field(alias="from")], p0: int, model_config: int) -> str:
        """Between."""
        return f"{from_} {p0} {model_config}"

    arguments = {"from": 1, "p0": 2, "model_config": 3}

    assert text_of(await result_of(between, **arguments)) == "1 2 3"


async def test_a_rejection_says_where_what_was_expected_and_what_came() -> None:
    rejected = await rejection_of(travel, {"stops": [{"city": "Oslo"}, {"city": [1]}], "quick": "perhaps"})

    assert rejected.kind == "invalid_arguments"
    assert rejected.text.splitlines() == [
        "travel was not run, its arguments are not valid:",
        "- stops[1].city: Input should be a valid string; got [1]",
        "- start: required, but it is missing",
        '- quick: Input should be a valid boolean, unable to interpret input; got "perhaps"',
    ]
    assert rejected.details == [
        {"path": "stops[1].city", "problem": "Input should be a valid string; got [1]"},
        {"path": "start", "problem": "required, but it is missing"},
        {
            "path": "quick",
            "problem": 'Input should be a valid boolean, unable to interpret input; got "perhaps"',
        },
    ]


async def test_an_unknown_argument_is_refused_with_the_names_that_there_are() -> None:
    rejected = await rejection_of(travel, {"stops": [], "start": "2026-05-01", "speed": 3})

    assert "- speed: there is no such argument" in rejected.text
    assert "(there are: stops, start, budget, note, quick)" in rejected.text


async def test_the_branches_of_a_union_are_no_part_of_the_path() -> None:
    @tool
    def pick(choice: int | list[int]) -> str:
        """Pick."""
        return str(choice)

    rejected = await rejection_of(pick, {"choice": {}})

    assert [line.split(":")[0] for line in rejected.text.splitlines()[1:]] == ["- choice", "- choice"]


async def test_a_validator_of_the_users_own_is_heard() -> None:
    @tool
    def weather(city: Annotated[str, AfterValidator(not_the_moon)]) -> str:
        """Weather."""
        return city

    rejected = await rejection_of(weather, {"city": "Moon"})

    assert "no weather on the moon" in rejected.text


async def test_a_huge_wrong_argument_is_not_told_back_in_full() -> None:
    @tool
    def weather(city: int) -> str:
        """Weather."""
        return str(city)

    rejected = await rejection_of(weather, {"city": "x" * 100_000})

    assert len(rejected.text) < 500
    assert "(100002 characters)" in rejected.text


@pytest.mark.parametrize("text", ["half \ud83d", "line\u2028separator"])
async def test_any_json_text_can_be_an_argument(text: str) -> None:
    @tool
    def say(text: object, mood: int = 0) -> str:
        """Say."""
        return repr(text)

    assert text_of(await result_of(say, text=text)) == repr(text)
    assert (await rejection_of(say, {"text": text, "mood": text})).kind == "invalid_arguments"


async def test_preparing_a_call_does_not_run_it() -> None:
    ran: list[str] = []

    @tool
    def weather(city: str) -> None:
        """Weather."""
        ran.append(city)

    prepared = await settle(weather.prepare(call_of(weather, city="Oslo")))

    assert is_successful(prepared)
    assert ran == []
