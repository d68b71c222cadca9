"""A stream that breaks at any byte is never taken for a whole one, and reads change nothing.

Every recorded stream of the API, cut and split: at every byte below the transport
(`test_decoding_sweep.py`), at some through the whole stack here. `scripts/fault_sweep.py` does the rest.
"""

from __future__ import annotations

from typing import Final

import pytest

from adapters.sweeping import (
    ENDINGS,
    Recorded,
    cut_at,
    marks_of,
    problems_of_a_cut,
    recorded_streams,
    run_with,
    split_at,
)

POSITIONS: Final = 30
"""How many bytes of each stream are tried, each with a cut of either kind or a split in the default run."""
STREAMS: Final = recorded_streams()


def test_there_are_streams_to_break() -> None:
    assert len(STREAMS) > 40


@pytest.mark.parametrize("recorded", STREAMS, ids=lambda recorded: recorded.name)
async def test_a_stream_cut_anywhere_is_no_whole_answer(recorded: Recorded) -> None:
    whole = (await run_with(recorded, [recorded.body])).events_json
    wrong: dict[str, list[str]] = {}
    for number, position in enumerate(recorded.positions(POSITIONS)):
        ending = ENDINGS[number % len(ENDINGS)]
        made = await run_with(recorded, cut_at(recorded.body, position, ending))
        said = (
            problems_of_a_cut(whole, made.events_json, marks_of(recorded.body, ending), position)
            + made.problems
        )
        if said:
            wrong[f"byte {position} of {len(recorded.body)}, {ending}"] = said
    assert wrong == {}


@pytest.mark.parametrize("recorded", STREAMS, ids=lambda recorded: recorded.name)
async def test_a_stream_split_anywhere_gives_the_same_events(recorded: Recorded) -> None:
    whole = (await run_with(recorded, [recorded.body])).events_json
    wrong = [
        position
        for position in recorded.positions(POSITIONS)
        if (await run_with(recorded, split_at(recorded.body, position))).events_json != whole
    ]
    assert wrong == []
