"""What the model is told about a function."""

from __future__ import annotations

import datetime
import enum
import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mule.ports import MuleTool
from mule.toolkit import tool


class Place(BaseModel):
    city: str
    country: str | None = None


class Unit(enum.Enum):
    CELSIUS = "C"
    FAHRENHEIT = "F"


class Window(TypedDict):
    start: datetime.date
    days: int


class Forecast:
    """Forecasts."""

    async def __call__(self, city: str) -> str:
        return city

    def of(self, city: str) -> str:
        """Of a city."""
        return city


def parameters(made: MuleTool) -> dict[str, Any]:
    schema = made.descriptor.parameters
    assert isinstance(schema, Mapping)
    Draft202012Validator.check_schema(schema)
    return dict(schema)


def test_name_and_description_come_from_the_function() -> None:
    @tool
    def weather(city: str) -> str:
        """Tell the weather
        of a city.

        It asks a service that may be slow.
        """
        return city

    assert weather.descriptor.name == "weather"
    assert weather.descriptor.description == "Tell the weather of a city."
    assert weather.replay == "unsafe"
    assert weather.execution_mode is None


def test_what_is_given_goes_before_what_the_function_says() -> None:
    @tool(name="get_weather", description="Weather.", replay="safe", execution_mode="sequential")
    def weather(city: str) -> str:
        """Tell the weather."""
        return city

    assert weather.descriptor.name == "get_weather"
    assert weather.descriptor.description == "Weather."
    assert weather.replay == "safe"
    assert weather.execution_mode == "sequential"


def test_a_function_can_stay_a_function() -> None:
    def weather(city: str) -> str:
        return f"sunny in {city}"

    made = tool(weather, description="Weather.")

    assert weather("Oslo") == "sunny in Oslo"
    assert made.descriptor.description == "Weather."


def test_the_signature_is_the_schema() -> None:
    @tool
    def search(
        query: str, limit: int = 10, order: Literal["new", "old"] = "new", tag: str | None = None
    ) -> str:
        """Search."""
        return query

    assert parameters(search) == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
            "order": {"type": "string", "enum": ["new", "old"], "default": "new"},
            "tag": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        """Tell the time."""
        return "12:00"

    assert parameters(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_models_enums_dates_and_typed_dicts_are_described() -> None:
    @tool
    def plan(place: Place, unit: Unit, window: Window) -> str:
        """Plan."""
        return place.city

    schema = parameters(plan)

    assert schema["required"] == ["place", "unit", "window"]
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert schema["$defs"]["Unit"]["enum"] == ["C", "F"]
    assert schema["$defs"]["Window"]["properties"]["start"] == {"type": "string", "format": "date"}


def test_argument_docs_come_from_the_args_section() -> None:
    @tool
    def move(source: str, target: str, force: bool = False, depth: int = 1) -> str:
        """Move a file.

        Args:
            source, target: A path,
                relative to the root.
            force (bool): Overwrite what is there:
                even if it is newer.

        Returns:
            depth: not about the argument.
        """
        return source

    properties = parameters(move)["properties"]

    assert properties["source"]["description"] == "A path, relative to the root."
    assert properties["target"]["description"] == "A path, relative to the root."
    assert properties["force"]["description"] == "Overwrite what is there: even if it is newer."
    assert "description" not in properties["depth"]


def test_what_an_annotation_says_goes_before_the_docstring() -> None:
    @tool
    def search(limit: Annotated[int, Field(ge=1, description="How many.")] = 5) -> str:
        """Search.

        Args:
            limit: Ignored.
        """
        return str(limit)

    assert parameters(search)["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "default": 5,
        "description": "How many.",
    }


def test_an_alias_is_the_name_that_the_model_sees() -> None:
    @tool
    def between(from_: Annotated[int, Field(alias="from")]) -> str:
        """Between."""
        return str(from_)

    assert list(parameters(between)["properties"]) == ["from"]


def test_any_parameter_name_will_do() -> None:
    @tool
    def odd(model_config: str, _hidden: int, schema: str, p0: str, title: str) -> str:
        """Odd names."""
        return model_config

    assert list(parameters(odd)["properties"]) == ["model_config", "_hidden", "schema", "p0", "title"]


def test_a_default_without_a_json_form_is_not_told() -> None:
    @tool
    def pick(unit: object = object) -> str:
        """Pick."""
        return str(unit)

    assert parameters(pick)["properties"] == {"unit": {}}


def test_methods_callable_objects_and_partials_are_functions_too() -> None:
    def weather(city: str, unit: str) -> str:
        return city + unit

    of = tool(Forecast().of)
    whole = tool(Forecast(), name="forecast")
    part = tool(functools.partial(weather, unit="C"), name="weather", description="Weather.")

    assert (of.descriptor.name, of.descriptor.description) == ("of", "Of a city.")
    assert parameters(whole)["required"] == ["city"]
    assert parameters(part)["required"] == ["city"]


def untyped(city):  # type: ignore[no-untyped-def]  # what this is about
    return city


def starred(*cities: str) -> str:
    return "".join(cities)


def double_starred(**cities: str) -> str:
    return "".join(cities)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (untyped, "city"),
        (starred, r"\*cities"),
        (double_starred, r"\*\*cities"),
        (lambda: "x", "name"),
    ],
)
def test_a_function_that_a_model_could_not_call_is_refused_when_it_is_made_a_tool(
    function: Any, problem: str
) -> None:
    with pytest.raises(TypeError, match=problem):
        tool(function)
