"""Break every recorded stream at every byte, through the whole stack, on both back ends.

    python scripts/fault_sweep.py                      all of it
    python scripts/fault_sweep.py --golden DIR         the streams of another folder
    python scripts/fault_sweep.py --only text-plain    the streams whose name holds this
    python scripts/fault_sweep.py --positions 200      so many bytes of each

The default test run does the same at a few bytes of each stream (`tests/adapters/test_fault_sweep.py`).
Exit code 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from adapters.sweeping import (  # noqa: E402  # the tests' own tools, found by the line above
    ENDINGS,
    Recorded,
    cut_at,
    marks_of,
    problems_of_a_cut,
    recorded_streams,
    run_with,
    split_at,
)
from golden.recorded import BUILT_IN  # noqa: E402
from mule.testing import run_virtually  # noqa: E402


def main() -> int:
    """Sweep, print what is wrong, say how long it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--golden", type=Path, default=BUILT_IN, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--positions", type=int, default=None, metavar="N")
    arguments = parser.parse_args()
    streams = [stream for stream in recorded_streams(arguments.golden) if arguments.only in stream.name]
    began = time.monotonic()
    wrong = runs = 0
    for stream in streams:
        for backend in ("asyncio", "trio"):
            said, count = run_virtually(sweep, stream, arguments.positions, backend=backend)
            runs += count
            wrong += len(said)
            for line in said[:10]:
                print(f"{stream.name} on {backend}: {line}", flush=True)
    print(
        f"{runs} runs of {len(streams)} streams in {time.monotonic() - began:.0f} s, {wrong} of them wrong"
    )
    return 1 if wrong or not streams else 0


async def sweep(recorded: Recorded, positions: int | None) -> tuple[list[str], int]:
    """Every cut and every split of one stream: what is wrong, and how many runs it took."""
    whole = (await run_with(recorded, [recorded.body])).events_json
    wrong: list[str] = []
    runs = 0
    for position in recorded.positions(positions):
        for ending in ENDINGS:
            made = await run_with(recorded, cut_at(recorded.body, position, ending))
            said = (
                problems_of_a_cut(whole, made.events_json, marks_of(recorded.body, ending), position)
                + made.problems
            )
            wrong += [f"cut {ending} at byte {position}: {problem}" for problem in said]
        split = await run_with(recorded, split_at(recorded.body, position))
        if split.events_json != whole:
            wrong.append(f"split at byte {position}: other events")
        runs += 1 + len(ENDINGS)
    return wrong, runs


if __name__ == "__main__":
    sys.exit(main())
