"""Foreign code that survives one cancellation, and not a second one while it cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import anyio

from mule.waiting import protected

T = TypeVar("T")


async def cancelled_once(
    work: Callable[[], Coroutine[Any, Any, T]], give_back: Callable[[T], Awaitable[object]], grace: float
) -> T:
    """Await `work`; however often we are cancelled, it is cancelled once, and waited for.

    asyncio's own `Task.cancel()` may hit a task again while it cleans up, which no shield stops. So on
    asyncio the work gets a task of its own. On trio a shield holds, and there is nothing to do.

    Args:
        give_back: for what the work gave when it was done after all, and nobody is there to take it.
        grace: longest wait for work that was cancelled, in seconds.
    """
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return await work()
    task = asyncio.ensure_future(work())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await protected(lambda: _settle(task, give_back), grace)
        raise


async def _settle(task: asyncio.Task[T], give_back: Callable[[T], Awaitable[object]]) -> None:
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        with suppress(Exception):
            await give_back(task.result())
