"""Every async test runs on asyncio and on trio, in virtual time, and leaves no task behind.

A test marked `real_io` uses sockets or processes in earnest, so it gets the plain back ends.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any, Final, TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, settings

from mule.testing.clock import Backend, virtual_backend

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process that a
# test starts, the ones that are there to be interrupted among them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

AsyncTest: TypeAlias = Callable[..., Awaitable[None]]

_REAL_PATIENCE_S: Final = 1.0
"""How long the tasks of a `real_io` test may take to end: a socket's other side needs a moment."""


# How long an example takes says more about the machine than about us.
settings.register_profile(
    "mule", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("mule")


def pytest_addoption(parser: pytest.Parser) -> None:
    for name in ("golden", "field"):
        with suppress(ValueError):  # the conftest of those cases, which reads it, may have been first
            parser.addoption(
                f"--{name}",
                action="append",
                default=[],
                metavar="DIR",
                help=f"run the {name} cases of this folder instead",
            )


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    if request.node.get_closest_marker("real_io"):
        return request.param, {}
    return virtual_backend(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    test = pyfuncitem.obj
    patience = _REAL_PATIENCE_S if pyfuncitem.get_closest_marker("real_io") else 0.0
    if iscoroutinefunction(test):
        pyfuncitem.obj = _leaving_no_task(test, patience)
    elif hasattr(test, "hypothesis") and iscoroutinefunction(test.hypothesis.inner_test):
        test.hypothesis.inner_test = _leaving_no_task(test.hypothesis.inner_test, patience)
    return (yield)


def _leaving_no_task(test: AsyncTest, patience: float) -> AsyncTest:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = {task.id for task in anyio.get_running_tasks()}
        await test(*args, **kwargs)
        deadline = anyio.current_time() + patience
        while _started_since(before) and anyio.current_time() < deadline:  # noqa: ASYNC110
            await anyio.sleep(0.01)  # nobody tells us that a task has ended
        left = _started_since(before)
        assert not left, f"the test left tasks running: {', '.join(left)}"

    return checked


def _started_since(before: set[int]) -> list[str]:
    return [task.name or "unnamed" for task in anyio.get_running_tasks() if task.id not in before]
