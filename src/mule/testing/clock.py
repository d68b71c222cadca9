"""How tests wait without waiting: both back ends on a clock that jumps to the next deadline.

Where every task waits and no file descriptor is ready, virtual time leaps to the next deadline at once.
A back-off of a minute takes no time, and it takes none on any machine, so a test may say exactly what
happens when. Trio brings such a clock (`trio.testing.MockClock`); `AutojumpLoop` is its twin for asyncio.

With anyio's pytest plugin, name the back ends in a fixture::

    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request):
        return virtual_backend(request.param)

Not for tests that use sockets, child processes or threads in earnest: while the other side thinks, the
clock would jump over every time limit. Those want the plain back ends.
"""

from __future__ import annotations

import asyncio
import importlib.util
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, TypeVarTuple

import anyio

BackendName: TypeAlias = Literal["asyncio", "trio"]
"""The event loops that anyio runs on."""
Backend: TypeAlias = tuple[BackendName, dict[str, Any]]
"""A back end of anyio and its options, as anyio's pytest plugin takes them."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class JumpingSelector(selectors.BaseSelector):
    """A selector that asks which files are ready and, where none is, moves time in place of waiting."""

    def __init__(self, patience_s: float) -> None:
        self._files = selectors.DefaultSelector()
        self._patience_s = patience_s
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._files.select(0)
        if ready:
            return ready
        if timeout is not None:
            self.now += max(0.0, timeout)
            return ready
        # There is no deadline to jump to: only another thread or process can wake us now.
        ready = self._files.select(self._patience_s)
        if not ready:
            raise RuntimeError("deadlock: every task waits, and nothing came to wake one")
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files.get_map()

    def close(self) -> None:
        self._files.close()


class AutojumpLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop in virtual time, which begins at 0 and is what `time()` tells.

    Files that are ready are served before time moves. Where every task waits and no deadline is left, only
    another thread can wake the loop: if none does within `patience_s` real seconds, the loop stops with a
    RuntimeError, so a test that deadlocks fails and does not hang.

    >>> async def main():
    ...     await anyio.sleep(3600)
    ...     return anyio.current_time()
    >>> anyio.run(main, backend_options={"loop_factory": AutojumpLoop})
    3600.0
    """

    patience_s: ClassVar[float] = 30.0

    def __init__(self, selector: JumpingSelector | None = None) -> None:
        self._jumping = selector or JumpingSelector(self.patience_s)
        super().__init__(self._jumping)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumping.now


def virtual_backend(name: BackendName) -> Backend:
    """One back end of anyio with a virtual clock of its own: for one test, or one `anyio.run`.

    Raises:
        ImportError: `trio` was asked for and is not installed.
    """
    if name == "trio":
        from trio.testing import MockClock  # optional, so imported where it is asked for

        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio", {"loop_factory": AutojumpLoop}


def virtual_backends() -> tuple[Backend, ...]:
    """Every back end that is installed, each with a virtual clock of its own.

    >>> async def main():
    ...     with anyio.move_on_after(90):
    ...         await anyio.sleep_forever()
    ...     return anyio.current_time()
    >>> {anyio.run(main, backend=name, backend_options=options) for name, options in virtual_backends()}
    {90.0}
    """
    names: list[BackendName] = ["asyncio"]
    if importlib.util.find_spec("trio") is not None:
        names.append("trio")
    return tuple(virtual_backend(name) for name in names)


def run_virtually(work: Callable[[*Ts], Awaitable[T]], *args: *Ts, backend: BackendName = "asyncio") -> T:
    """`anyio.run` in virtual time: for examples, and for tests that are plain functions.

    >>> async def nap(seconds):
    ...     await anyio.sleep(seconds)
    ...     return anyio.current_time()
    >>> run_virtually(nap, 60, backend="trio")
    60.0
    """
    name, options = virtual_backend(backend)
    return anyio.run(work, *args, backend=name, backend_options=options)
