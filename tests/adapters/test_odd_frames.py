"""A frame that holds something else than it should ends the answer in a typed way, or changes nothing.

Recorded streams, one value of one frame replaced by another: what gateways do to fields they do not know.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from adapters.sweeping import Recorded, recorded_streams, run_with
from mule.values.jsontext import dump_json
from mule.values.messages import AssistantMessage

MUTANTS: Final = 12
"""How many changed streams are tried of each recorded one."""
JUNK: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "",
    " ",
    "text",
    "\ud83d",
    [],
    [None],
    [[]],
    {},
    {"message": None},
    {"0": []},
    "x" * 5_000,
)


@pytest.mark.parametrize("recorded", recorded_streams(), ids=lambda recorded: recorded.name)
async def test_an_odd_value_is_an_answer_or_a_typed_failure(recorded: Recorded) -> None:
    for mutant in _mutants(recorded):
        made = await run_with(recorded, [mutant])
        assert made.problems == [], mutant
        again = AssistantMessage.from_json(json.loads(dump_json(made.result.to_json())))
        assert again.to_json() == made.result.to_json()


def _mutants(recorded: Recorded) -> Iterator[bytes]:
    chance = random.Random(recorded.name)
    blocks = recorded.body.split(b"\n\n")
    frames = [at for at, block in enumerate(blocks) if _json_of(block) is not None]
    for _ in range(MUTANTS if frames else 0):
        at = chance.choice(frames)
        frame = _json_of(blocks[at])
        path = chance.choice(list(_paths(frame)))
        changed = b"data: " + dump_json(_replaced(frame, path, chance.choice(JUNK)))
        yield b"\n\n".join([*blocks[:at], changed, *blocks[at + 1 :]])


def _json_of(block: bytes) -> Any:
    try:
        return json.loads(block.removeprefix(b"data:"))
    except ValueError:
        return None


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if not isinstance(value, dict | list):
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _paths(item, (*path, key))


def _replaced(value: Any, path: Sequence[Any], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy
