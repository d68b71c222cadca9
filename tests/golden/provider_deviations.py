"""Functions that the entries of `deviations.toml` about provider cases name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from golden.compare import Case


def leaves_a_call_without_id(case: Case) -> bool:
    """A call of the answer has an empty id."""
    return any(True for _ in _calls_without_id(case.get("result", {}).get("content", ())))


def with_an_id_for_each_call(case: Case) -> Case:
    """Ids are made up, so any will do in the message; the events show them by one name."""
    free = [f"result.content.{index}.id" for index, _ in _calls_without_id(case["result"]["content"])]
    for event in case["events"]:
        if event.get("toolCall", {}).get("id") == "":
            event["toolCall"]["id"] = "made up"
        for message in (event.get("message"), event.get("error")):
            for _, call in _calls_without_id((message or {}).get("content", ())):
                call["id"] = "made up"
    return {**case, "free": [*case.get("free", ()), *free]}


def _calls_without_id(content: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for index, block in enumerate(content):
        if block.get("type") == "toolCall" and not block.get("id"):
            yield index, block
