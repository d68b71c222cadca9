"""The comparer lets through what the golden README lets through, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from golden.compare import MISSING, Rules, compare, report, rules_of

_ANY = Rules()


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ({"a": None}, {}),
        ({}, {"a": None}),
        ({"n": 1}, {"n": 1.0}),
        ({"n": -0.0}, {"n": 0}),
        ({"n": float("nan")}, {"n": float("nan")}),
        ({"cost": {"input": 0.3}}, {"cost": {"input": 0.1 + 0.2}}),
        ({}, {"timestamp": 5, "argumentsError": "no"}),
        ({"list": [1, 2]}, {"list": (1, 2)}),
        ({"arguments": '{"a":1e-06,"b":"é"}'}, {"arguments": '{"a": 0.000001, "b": "\\u00e9"}'}),
        ({"details": None}, {}),
    ],
)
def test_what_may_differ_is_equal(expected: Any, got: Any) -> None:
    assert compare(expected, got, _ANY) == []


@pytest.mark.parametrize(
    ("expected", "got", "path"),
    [
        ({"a": 1}, {"a": 2}, "a"),
        ({"a": 1}, {}, "a"),
        ({}, {"a": 1}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": "1"}, {"a": 1}, "a"),
        ({"a": []}, {}, "a"),
        ({"a": []}, {"a": {}}, "a"),
        ({"a": [1, 2]}, {"a": [1]}, "a"),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, "a.0.b"),
        ({"arguments": {"a": None}}, {"arguments": {}}, "arguments.a"),
        ({"details": {"l": [{"timestamp": 1}]}}, {"details": {"l": [{}]}}, "details.l.0.timestamp"),
        ({"arguments": '{"a":1,"b":2}'}, {"arguments": '{"b":2,"a":1}'}, "arguments"),
        ({"text": '{"a":1}'}, {"text": '{"a": 1}'}, "text"),
        ({"rate": 0.3}, {"rate": 0.1 + 0.2}, "rate"),
    ],
)
def test_what_must_be_equal_is_found_where_it_differs(expected: Any, got: Any, path: str) -> None:
    assert [difference.path for difference in compare(expected, got, _ANY)] == [path]


def test_null_and_absent_differ_in_a_request_body() -> None:
    rules = rules_of({})
    expected = {"exchanges": [{"request": {"body": {"a": None}}}]}
    differences = compare(expected, {"exchanges": [{"request": {"body": {}}}]}, rules)
    assert [(found.path, found.got) for found in differences] == [("exchanges.0.request.body.a", MISSING)]


def test_what_is_free_may_be_anything_or_absent_here_and_in_the_last_event() -> None:
    case: dict[str, Any] = {
        "events": [{"type": "start"}, {"type": "error", "error": {"errorMessage": "a", "content": []}}],
        "result": {"errorMessage": "a", "content": []},
        "free": ["result.errorMessage"],
    }
    got = {
        "events": [{"type": "start"}, {"type": "error", "error": {"errorMessage": "b", "content": []}}],
        "result": {"content": []},
    }
    expected = {key: case[key] for key in ("events", "result")}
    assert compare(expected, got, rules_of(case)) == []


def test_the_pieces_of_contains_bind_where_the_wording_is_free() -> None:
    case = {"free": ["result.errorMessage"], "contains": {"result.errorMessage": ["429", "Slow Down"]}}
    expected = {"result": {"errorMessage": "429: slow down"}}
    assert compare(expected, {"result": {"errorMessage": "slow down (429)"}}, rules_of(case)) == []
    found = compare(expected, {"result": {"errorMessage": "wait (429)"}}, rules_of(case))
    assert "Slow Down" in report(found)
    assert compare(expected, {"result": {}}, rules_of(case)) != []


def test_a_free_text_is_the_same_in_all_places() -> None:
    case = {"freeTexts": [{"text": "Tool x not found", "contains": ["x"]}]}
    expected = {"a": "Tool x not found", "b": ["Tool x not found"]}
    assert compare(expected, {"a": "there is no x", "b": ["there is no x"]}, rules_of(case)) == []
    assert compare(expected, {"a": "there is no x", "b": ["no x"]}, rules_of(case)) != []
    assert compare(expected, {"a": "no such tool", "b": ["no such tool"]}, rules_of(case)) != []


def test_a_report_names_the_place_and_both_values() -> None:
    text = report(compare({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, _ANY))
    assert "a.0.b" in text
    assert "expected 1" in text
    assert "got      2" in text


def test_a_missing_event_is_seen_by_its_type() -> None:
    text = report(compare([{"type": "start"}, {"type": "done"}], [{"type": "start"}], _ANY))
    assert "expected 2 entries, got 1" in text
    assert '["start", "done"]' in text
