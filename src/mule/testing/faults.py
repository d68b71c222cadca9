"""Fault injection: cancel a piece of work at its n-th moment, for every n.

A moment is a step of any task, each time that the event loop goes on with something, and each time that
everything waits. So `sweep` stops the work in every place where a cancellation can reach it, its tools and
its clean-up included.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio

from mule.testing.clock import AutojumpLoop, BackendName, JumpingSelector

CancelHow: TypeAlias = Literal["scope", "native", "native_twice"]
"""By a cancel scope around the work; by asyncio's own `Task.cancel()`; by two of these in a row."""


@dataclass(frozen=True, slots=True)
class CancelOutcome:
    """What became of work that was cancelled at one moment.

    Attributes:
        fired: the moment came before the work was over.
        ended: whether the work gave a value, was cancelled, or raised something else.
        value, error: what it gave or raised.
        left: descriptions of what was left behind: tasks, generators that nobody closed.
    """

    moment: int
    fired: bool
    ended: Literal["completed", "cancelled", "raised"]
    value: object = None
    error: BaseException | None = None
    left: tuple[str, ...] = ()


class _Moments:
    """Counts moments, and acts at one of them."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0
        self.action: Callable[[], None] | None = None
        self.fired = False

    def step(self) -> None:
        if self.action is None:
            return
        self.seen += 1
        if self.seen == self.at:
            self.fired = True
            self.action()

    def just_fired(self) -> bool:
        return self.seen == self.at and self.fired


class _WatchedSelector(JumpingSelector):
    """Counts each time that everything waits, before time moves."""

    def __init__(self, moments: _Moments, patience_s: float) -> None:
        self._moments = moments
        super().__init__(patience_s)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._moments.step()
            if self._moments.just_fired():
                return super().select(0)  # something can go on now: no time has passed
        return super().select(timeout)


class _SteppedLoop(AutojumpLoop):
    """An asyncio loop in virtual time that counts what it goes on with."""

    def __init__(self, moments: _Moments) -> None:
        self._moments = moments
        super().__init__(_WatchedSelector(moments, self.patience_s))

    def call_soon(  # type: ignore[override]  # typeshed's type variables, which say nothing here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        def step() -> None:
            self._moments.step()
            callback(*args)

        return super().call_soon(step, context=context)


def cancel_at(
    moment: int,
    work: Callable[[], Awaitable[object]],
    *,
    backend: BackendName = "asyncio",
    how: CancelHow = "scope",
) -> CancelOutcome:
    """Run work in an event loop of its own, in virtual time, and cancel it at its n-th moment.

    Args:
        moment: 1 is the first. One that never comes lets the work complete: see `fired`.
        how: `native` and `native_twice` exist on asyncio only.

    Raises:
        ValueError: a native cancel on trio.

    >>> async def work():
    ...     await anyio.sleep(1)
    ...     return "whole"
    >>> cancel_at(1, work).ended, cancel_at(1_000, work).value
    ('cancelled', 'whole')
    """
    moments = _Moments(moment)
    if backend == "trio":
        if how != "scope":
            raise ValueError("trio knows no native cancel")
        return _on_trio(moments, work)

    async def main() -> CancelOutcome:
        if how == "scope":
            outcome = await _in_a_scope(moments, work)
        else:
            outcome = await _natively(moments, work, twice=how == "native_twice")
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        return _with_left(outcome, left, getattr(asyncio.get_running_loop(), "_asyncgens", ()))

    options = {"loop_factory": lambda: _SteppedLoop(moments)}
    return anyio.run(main, backend="asyncio", backend_options=options)


def _on_trio(moments: _Moments, work: Callable[[], Awaitable[object]]) -> CancelOutcome:
    import trio
    from trio.testing import MockClock

    class Stepper(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            moments.step()

        def before_io_wait(self, timeout: float) -> None:
            if timeout > 0:
                moments.step()

    async def main() -> CancelOutcome:
        outcome = await _in_a_scope(moments, work)
        root = trio.lowlevel.current_root_task()
        here = trio.lowlevel.current_task()
        nurseries = [nursery for task in (here, root) if task for nursery in task.child_nurseries]
        left = [t.name for nursery in nurseries for t in nursery.child_tasks if t is not here]
        return _with_left(outcome, [name for name in left if not name.startswith("<TrioToken")], ())

    options = {"clock": MockClock(autojump_threshold=0), "instruments": [Stepper()]}
    return anyio.run(main, backend="trio", backend_options=options)


async def _in_a_scope(moments: _Moments, work: Callable[[], Awaitable[object]]) -> CancelOutcome:
    with anyio.CancelScope() as scope:
        moments.action = scope.cancel
        try:
            value = await work()
        except Exception as exc:
            return CancelOutcome(moments.at, moments.fired, "raised", error=exc)
        finally:
            moments.action = None
        return CancelOutcome(moments.at, moments.fired, "completed", value)
    return CancelOutcome(moments.at, moments.fired, "cancelled")


async def _natively(
    moments: _Moments, work: Callable[[], Awaitable[object]], *, twice: bool
) -> CancelOutcome:
    async def run() -> object:
        return await work()

    task = asyncio.ensure_future(run())

    def cancel() -> None:
        task.cancel()
        if twice:
            asyncio.get_running_loop().call_later(0, task.cancel)

    moments.action = cancel
    await asyncio.wait([task])
    moments.action = None
    if task.cancelled():
        return CancelOutcome(moments.at, moments.fired, "cancelled")
    error = task.exception()
    if error is not None:
        return CancelOutcome(moments.at, moments.fired, "raised", error=error)
    return CancelOutcome(moments.at, moments.fired, "completed", task.result())


def _with_left(outcome: CancelOutcome, tasks: list[str], generators: Any) -> CancelOutcome:
    gc.collect()
    open_ones = [f"generator {g.__qualname__}" for g in generators if g.ag_frame is not None]
    left = (*(f"task {name}" for name in tasks), *open_ones)
    return CancelOutcome(outcome.moment, outcome.fired, outcome.ended, outcome.value, outcome.error, left)


def sweep(
    make: Callable[[], Callable[[], Awaitable[object]]],
    *,
    backend: BackendName = "asyncio",
    how: CancelHow = "scope",
    limit: int = 5_000,
) -> Iterator[CancelOutcome]:
    """Cancel work at its 1st moment, its 2nd, … until it completes before the moment comes.

    Args:
        make: gives the work anew for each moment.
        limit: how many moments at the most.

    Raises:
        RuntimeError: the work was still going on after `limit` moments.
    """
    for moment in range(1, limit + 1):
        outcome = cancel_at(moment, make(), backend=backend, how=how)
        yield outcome
        if not outcome.fired:
            return
    raise RuntimeError(f"the work was still going on after {limit} moments")
