"""A server in a child process: started, found dead, stopped, and never left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

import anyio
import pytest

from mule.cli._child import serving
from mule.values.errors import MuleError, NotSupported

pytestmark = pytest.mark.real_io

SERVES = "import sys; print('http://somewhere', flush=True); sys.stdin.read()"
DEAF = "import time; print('http://somewhere', flush=True); time.sleep(1000)"

PARENT = f"""
import sys, anyio
from mule.cli._child import serving
async def main():
    async with serving("it", [sys.executable, "-c", {SERVES!r}]) as child:
        print(child.pid, flush=True)
        await anyio.sleep_forever()
anyio.run(main, backend=sys.argv[1])
"""


def python(code: str) -> Sequence[str]:
    return [sys.executable, "-c", code]


def is_gone(pid: int) -> bool:
    """Whether a process ends within ten seconds. Not a child of ours, so nobody tells us but the kernel."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


async def start_problem(code: str, **limits: float) -> str:
    with pytest.raises(MuleError) as caught:
        async with serving("the server", python(code), **limits):
            raise AssertionError("it served")
    assert isinstance(caught.value.reason, NotSupported)
    return caught.value.reason.what


async def test_it_serves_until_the_context_is_left() -> None:
    async with serving("it", python(SERVES)) as child:
        assert child.address == "http://somewhere"
        assert await child.death(0) is None

    assert is_gone(child.pid)


async def test_it_is_stopped_when_the_body_fails() -> None:
    with pytest.raises(LookupError):
        async with serving("it", python(SERVES)) as child:
            raise LookupError

    assert is_gone(child.pid)


async def test_it_is_stopped_when_the_task_is_cancelled() -> None:
    with anyio.CancelScope() as scope:
        async with serving("it", python(SERVES)) as child:
            scope.cancel()
            await anyio.sleep_forever()

    assert is_gone(child.pid)


async def test_one_that_does_not_leave_is_killed() -> None:
    async with serving("it", python(DEAF), stop_patience_s=0.1) as child:
        pass

    assert is_gone(child.pid)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(3)", "the server died: it left with exit status 3"),
        ("import sys; sys.exit('no such file')", "exit status 1; it said: no such file"),
        ("import os; os.kill(os.getpid(), 4)", "signal SIGILL: this processor lacks an instruction"),
        ("import os; os.kill(os.getpid(), 9)", "signal SIGKILL: something else ended it"),
        ("print('half a line', end='')", "it left with exit status 0"),
    ],
)
async def test_one_that_dies_before_it_serves_says_how(code: str, said: str) -> None:
    assert said in await start_problem(code)


async def test_one_that_never_serves_is_given_up() -> None:
    problem = await start_problem("import time; time.sleep(1000)", start_limit_s=0.1)

    assert problem == "the server did not start within 0.1 s"


async def test_one_that_dies_while_it_serves_says_how() -> None:
    async with serving("the server", python(SERVES)) as child:
        os.kill(child.pid, signal.SIGABRT)

        assert await child.death(10) == "the server died: signal SIGABRT"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_it_leaves_when_its_parent_is_gone(sign: signal.Signals, backend: str) -> None:
    with subprocess.Popen(
        [*python(PARENT), backend], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(sign)

        try:
            assert is_gone(pid)
        finally:
            parent.kill()  # one that did not heed the signal would keep the test waiting for ever
