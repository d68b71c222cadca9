"""The clock and the ids of a run for which the host brought none."""

from __future__ import annotations

import itertools
import os
import time

from mule.values.run import MuleIdentityKind


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SortableIds:
    """Ids that are unique and sort by the time they were made, within one process exactly.

    Milliseconds, a counter, and 40 random bits drawn once a process; `run_01939c2d5e8a-000001-…`.
    """

    __slots__ = ("_counter", "_last", "_suffix")

    def __init__(self) -> None:
        self._counter = itertools.count()
        self._last = 0
        self._suffix = os.urandom(5).hex()

    def __call__(self, kind: MuleIdentityKind) -> str:
        # A clock that is set back must not put later ids before earlier ones.
        self._last = now = max(self._last, wall_clock())
        return f"{kind}_{now:012x}-{next(self._counter):08x}-{self._suffix}"


sortable_ids = SortableIds()
