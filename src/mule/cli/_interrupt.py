"""How does Ctrl-C end the command? As a cancellation of the run: cleanly, with one last event."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio import CancelScope
from anyio.abc import TaskStatus

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def until_interrupted(work: Callable[[], Awaitable[int]]) -> int:
    """Run `work`, which gives an exit status, unless a signal comes first.

    SIGINT and SIGTERM cancel it; the exit status is then 128 and the signal's number, as shells have it.
    A second one ends the process at once, for work that does not let itself be cancelled.
    """
    caught: list[signal.Signals] = []
    status: int | None = None
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with CancelScope() as scope:
            await tasks.start(_watch, scope, caught)
            try:
                status = await work()
            except Exception as exc:
                failure = exc  # raised below, outside of the group: it stays bare
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return 128 + caught[0] if status is None else status


async def _watch(
    scope: CancelScope,
    caught: list[signal.Signals],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(*_SIGNALS) as signals:
        task_status.started()
        async for sign in signals:
            if caught:
                os._exit(128 + sign)
            caught.append(sign)
            scope.cancel()
