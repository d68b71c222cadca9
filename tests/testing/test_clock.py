"""Virtual time jumps over every wait, on both back ends alike, and still serves real files."""

from __future__ import annotations

import socket
import threading
import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mule.testing.clock import AutojumpLoop, run_virtually, virtual_backends


async def test_a_long_sleep_takes_no_time() -> None:
    real, virtual = time.monotonic(), anyio.current_time()
    await anyio.sleep(7 * 24 * 3600)
    assert anyio.current_time() - virtual == 7 * 24 * 3600
    assert time.monotonic() - real < 5


async def test_time_stands_still_while_somebody_works() -> None:
    start = anyio.current_time()
    for _ in range(1_000):
        await checkpoint()
    assert anyio.current_time() == start


async def test_deadlines_come_in_order() -> None:
    seen: list[float] = []

    async def at(seconds: float) -> None:
        await anyio.sleep(seconds)
        seen.append(anyio.current_time())

    start = anyio.current_time()
    async with anyio.create_task_group() as tg:
        for seconds in (3.3, 0.1, 1e-6, 86_400.25, 3.3):
            tg.start_soon(at, seconds)
    assert [moment - start for moment in seen] == pytest.approx([1e-6, 0.1, 3.3, 3.3, 86_400.25])


async def test_a_time_limit_fires_at_its_time() -> None:
    start = anyio.current_time()
    with anyio.move_on_after(30) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert anyio.current_time() - start == 30


async def test_a_file_that_is_ready_comes_before_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(b"x")
        with anyio.fail_after(0.001):
            await anyio.wait_readable(ours)
        assert ours.recv(1) == b"x"


@pytest.mark.real_io
async def test_a_test_of_real_io_has_real_time() -> None:
    start = time.monotonic()
    await anyio.sleep(0.02)
    assert time.monotonic() - start >= 0.015


async def test_a_thread_can_wake_a_loop_that_has_no_deadline() -> None:
    assert await anyio.to_thread.run_sync(threading.get_ident) != threading.get_ident()


def test_time_begins_at_nothing_for_every_back_end() -> None:
    async def now() -> float:
        return anyio.current_time()

    for name, options in virtual_backends():
        assert anyio.run(now, backend=name, backend_options=options) == 0
        assert run_virtually(now, backend=name) == 0


def test_a_deadlock_is_told_and_does_not_hang() -> None:
    async def wait_for_ever() -> None:
        await anyio.Event().wait()

    class Impatient(AutojumpLoop):
        patience_s = 0.01

    with pytest.raises(RuntimeError, match="deadlock"):
        anyio.run(wait_for_ever, backend_options={"loop_factory": Impatient})
