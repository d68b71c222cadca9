"""Slips of a model are mended where no doubt is left; of the rest it is told what to do better."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given

from mule.transcript.arguments import ArgumentProblem, ArgumentsError, validate_tool_arguments
from mule.transcript.schemas import InvalidSchema
from mule.values.tools import Tool
from values.strategies import json_objects


def _tool(schema: dict[str, Any]) -> Tool:
    return Tool(name="pack_box", description="Packs.", parameters=schema)


def _of(**properties: Any) -> Tool:
    return _tool({"type": "object", "properties": properties, "required": list(properties)})


def _problems(tool: Tool, arguments: Any) -> tuple[ArgumentProblem, ...]:
    with pytest.raises(ArgumentsError) as caught:
        validate_tool_arguments(tool, arguments)
    return caught.value.problems


@given(json_objects)
def test_arguments_given_stay_as_they_are_and_are_not_shared(arguments: dict[str, Any]) -> None:
    before = copy.deepcopy(arguments)
    checked = validate_tool_arguments(_tool({"type": "object"}), arguments)
    assert checked == before
    checked["new"] = 1
    for value in checked.values():
        if isinstance(value, dict | list):
            value.clear()
    assert arguments == before


def test_the_model_is_told_where_what_was_expected_and_what_came() -> None:
    tool = _of(shelf={"type": "string"}, copies={"type": "integer", "minimum": 1})
    with pytest.raises(ArgumentsError) as caught:
        validate_tool_arguments(tool, {"copies": "many"})
    assert caught.value.tool == "pack_box"
    assert str(caught.value) == (
        'The arguments for "pack_box" do not fit its parameters, so it was not run:\n'
        '- copies: expected integer, got string "many"\n'
        "- shelf: expected a value, since it is required\n"
        "Call it again with these mended."
    )


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"enum": ["a", 1]}, "b", 'v: expected one of "a", 1, got string "b"'),
        ({"const": 5}, 6, "v: expected 5, got number 6"),
        ({"type": "integer", "maximum": 9}, 10, "v: expected at most 9, got number 10"),
        ({"type": ["integer", "null"]}, [], "v: expected integer or null, got array []"),
        (
            {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
            "x",
            'v: expected number or boolean, got string "x"',
        ),
        (
            {"anyOf": [{"type": "object", "required": ["k"]}, {"type": "null"}]},
            {},
            "v.k: expected a value, since it is required",
        ),
        (
            {"type": "object", "properties": {"k": {}}, "additionalProperties": False},
            {"z": 1},
            "v.z: expected no such parameter (there are: k)",
        ),
        ({"not": {"type": "string"}}, "x", "v: expected a value that fits"),
    ],
)
def test_each_kind_of_mistake_has_its_words(schema: dict[str, Any], value: Any, expected: str) -> None:
    (problem,) = _problems(_of(v=schema), {"v": value})
    assert str(problem).startswith(expected)


def test_a_long_value_is_cut_and_many_problems_are_counted() -> None:
    tool = _of(l={"type": "array", "items": {"type": "integer"}}, t={"type": "integer"})
    with pytest.raises(ArgumentsError) as caught:
        validate_tool_arguments(tool, {"l": ["x"] * 50, "t": "y" * 5000})
    text = str(caught.value)
    assert "and 31 more" in text
    assert len(text) < 2000


def test_references_within_the_schema_are_followed() -> None:
    tool = _tool(
        {
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/Point"}, "to": {"$ref": "#/$defs/Point"}},
            "required": ["at"],
            "$defs": {
                "Point": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/Point"}},
                    "required": ["x"],
                }
            },
        }
    )
    arguments: Any = {"at": {"x": "1", "next": {"x": "2", "next": None}}, "to": None}
    assert validate_tool_arguments(tool, arguments) == {"at": {"x": 1, "next": {"x": 2}}}


def test_a_schema_that_goes_round_in_a_circle_ends() -> None:
    circle = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    nested = {
        "allOf": [{"$ref": "#/$defs/n"}],
        "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}},
    }
    for schema in ({**circle, "properties": {"v": {"type": "integer"}}}, nested):
        assert validate_tool_arguments(_tool(schema), {"v": 1}) == {"v": 1}


def test_a_whole_number_is_an_int_where_an_integer_is_asked_for() -> None:
    checked = validate_tool_arguments(_of(v={"type": "integer"}), {"v": 7.0})
    assert type(checked["v"]) is int


def test_long_whole_numbers_stay_exact() -> None:
    tool = _of(id={"type": "string"}, n={"type": "integer"})
    checked = validate_tool_arguments(tool, {"id": 123456789012345678901, "n": "12345678901234567891"})
    assert checked == {"id": "123456789012345678901", "n": 12345678901234567891}


def test_a_pattern_that_python_cannot_read_is_not_checked() -> None:
    assert validate_tool_arguments(_of(v={"pattern": r"^\p{L}+$"}), {"v": "1"}) == {"v": "1"}


def test_a_list_of_schemas_for_items_is_of_an_older_dialect() -> None:
    tool = _of(v={"type": "array", "items": [{"type": "integer"}, {"type": "string"}]})
    assert validate_tool_arguments(tool, {"v": ["1", 2]}) == {"v": [1, "2"]}


def test_what_is_no_schema_is_said_to_be_none() -> None:
    with pytest.raises(InvalidSchema, match=r"properties\.v\.type"):
        validate_tool_arguments(_of(v={"type": "text"}), {"v": 1})


@pytest.mark.parametrize("arguments", ["text", None, 5, [1]])
def test_arguments_that_are_no_object_are_refused_even_by_an_open_schema(arguments: Any) -> None:
    (problem,) = _problems(_tool({}), arguments)
    assert problem.path == ""
    assert problem.expected == "object"


def test_the_error_survives_a_process_boundary() -> None:
    error = ArgumentsError("pack_box", (ArgumentProblem("v", "integer", "null"),))
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.tool, copied.problems) == (error.tool, error.problems)
