"""The little language in which field cases ask things of a request body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from field.checks import find, problems

BODY: Any = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": " "}, {"type": "image"}]},
        {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "tool", "tool_call_id": "b"},
        {"role": "tool", "tool_call_id": "a"},
    ],
    "tools": [{"parameters": {"$defs": {"Knot": {}}, "properties": {"k": {"$ref": "#/$defs/Knot"}}}}],
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", [BODY]),
        ("$.messages[?role=='user'].content[?type=='text'].text", [" "]),
        ("$.messages[*].tool_calls[*].id", ["a", "b"]),
        ("$..id", ["a", "b"]),
        ("$.messages[1].role", ["assistant"]),
        ("$.nowhere[*].at", []),
    ],
)
def test_a_path_names_values(path: str, values: list[Any]) -> None:
    assert find(BODY, path) == values


def test_what_is_no_path_is_refused() -> None:
    for path in ("messages", "$.a[", "$.a[?b>1]"):
        with pytest.raises(ValueError, match="not a path"):
            find(BODY, path)


@pytest.mark.parametrize(
    "check",
    [
        {"path": "$..text", "op": "nonblank"},
        {"path": "$..role", "op": "unique"},
        {"path": "$..role", "op": "max_len", "value": 4},
        {"path": "$.tools", "op": "absent"},
        {"path": "$.tools", "op": "absent_key", "value": "$ref"},
        {"path": "$..id", "op": "equals", "value": "a"},
        {"path": "$.nothing", "op": "no such check"},
    ],
)
def test_a_check_finds_what_is_wrong(check: dict[str, Any]) -> None:
    assert problems(json.dumps(BODY).encode(), [check])


@pytest.mark.parametrize(
    "check",
    [
        {"path": "$.nothing", "op": "nonblank"},
        {"path": "$..id", "op": "unique"},
        {"path": "$..role", "op": "max_len", "value": 9},
        {"path": "$.nothing", "op": "absent"},
        {"path": "$.tools", "op": "absent_key", "value": "const"},
        {"path": "$..k", "op": "equals", "value": {"$ref": "#/$defs/Knot"}},
        {"path": "$.messages", "op": "paired"},
        {"path": "$.tools", "op": "refs_resolve"},
        {"path": "$", "op": "utf8"},
    ],
)
def test_a_check_passes_what_is_right(check: dict[str, Any]) -> None:
    assert problems(json.dumps(BODY).encode(), [check]) == []


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "tool_calls": [{"id": "a"}]}],
        [
            {"role": "assistant", "tool_calls": [{"id": "a"}]},
            {"role": "user"},
            {"role": "tool", "tool_call_id": "a"},
        ],
        [{"role": "tool", "tool_call_id": "a"}],
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            {"role": "user", "content": [{"type": "text"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ],
        [{"type": "function_call_output", "call_id": "a"}, {"type": "function_call", "call_id": "a"}],
        [
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a"}}]},
            {"role": "user", "content": []},
        ],
    ],
)
def test_calls_and_results_out_of_step_are_seen(messages: Any) -> None:
    assert problems(json.dumps(messages).encode(), [{"path": "$", "op": "paired"}])


def test_a_reference_to_nowhere_is_seen() -> None:
    body = {
        "tools": [{"parameters": {"properties": {"k": {"$ref": "#/$defs/Knot"}}}}],
        "$defs": {"Knot": {}},
    }
    assert problems(json.dumps(body).encode(), [{"path": "$..tools", "op": "refs_resolve"}])


def test_bytes_that_are_not_utf8_are_seen() -> None:
    assert problems(b'"\xff"', [])
    assert problems(b'"\\ud83d"', [{"path": "$", "op": "utf8"}])
