"""All that `mule` adds to anyio: clean-up that a cancel cannot cut short, and telling cancels apart.

The patterns and the reasons are those of trio's and anyio's own documentation; what had to be
added is named where it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio


def is_cancellation(exc: BaseException) -> bool:
    """Whether an exception ends the program or the scope rather than being about the work.

    The back end's cancelled class, a group that holds one, and Ctrl-C: on trio that arrives in the
    main task as a bare KeyboardInterrupt.
    """
    if isinstance(exc, BaseExceptionGroup):
        return any(is_cancellation(inner) for inner in exc.exceptions)
    return isinstance(exc, (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit))


def being_cancelled() -> bool:
    """Whether somebody has cancelled the current task, by a scope around it or natively."""
    if anyio.current_effective_deadline() == float("-inf"):
        return True
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_their_failure(exc: BaseException) -> bool:
    """Whether what came out of somebody else's code is a failure of that code.

    An Exception is. So is a cancelled exception that nobody ordered: it came from a scope or task of
    theirs. A real cancellation is not, nor is what is meant for the program as a whole: Ctrl-C,
    SystemExit, and whatever else is no Exception, alone or in a group.
    """
    if not is_of_the_work(exc):
        return False
    return not (is_cancellation(exc) and being_cancelled())


def is_of_the_work(exc: BaseException) -> bool:
    """Whether an exception is an Exception or a cancellation, or a group of nothing else.

    A cancelled exception of asyncio counts on every back end: on trio it comes out of foreign futures.
    """
    if isinstance(exc, BaseExceptionGroup):
        return all(is_of_the_work(inner) for inner in exc.exceptions)
    return isinstance(exc, (Exception, asyncio.CancelledError, anyio.get_cancelled_exc_class()))


async def protected(work: Callable[[], Awaitable[object]], grace: float) -> None:
    """Run clean-up to its end whatever is cancelled meanwhile, for at most `grace` seconds.

    A shield stops scopes, not asyncio's own `Task.cancel()`: there the work gets a task of its own,
    and a native cancel that arrives is remembered, and raised once the work is done.
    """
    with anyio.move_on_after(grace, shield=True) as scope:
        if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
            await work()
            return
        task = asyncio.ensure_future(_as_coroutine(work))
        hit: asyncio.CancelledError | None = None
        try:
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError as exc:
                    if scope.cancel_called:
                        break
                    hit = hit or exc
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        if hit is not None:
            raise hit


async def _as_coroutine(work: Callable[[], Awaitable[object]]) -> None:
    await work()
