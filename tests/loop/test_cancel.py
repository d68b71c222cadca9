"""Law 3, by the ways in which people cancel: the run ends once, and the cancel is still theirs afterwards.

`test_cancel_sweep.py` has every moment; here are the ways, the limits, and what a run waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from returns.result import Success

from loop.runs import Ear, FakeStream, asked, call, outcome_of, tool_of
from mule.effect import (
    AssistantStart,
    MuleEvent,
    MuleRunInput,
    MuleToolResult,
    Whole,
    run,
)
from mule.testing import ScriptedAnswer, ScriptedTool, answer, hang, progress, tool_call_answer

Way = Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]


def endless() -> tuple[MuleRunInput, ScriptedTool]:
    """A run whose tool never ends."""
    look = ScriptedTool("look", [progress("half"), hang])
    return asked([tool_call_answer(call("look"))], look.tool), look


def on_asyncio() -> bool:
    return anyio.get_cancelled_exc_class() is asyncio.CancelledError


async def move_on(work: Callable[[], Awaitable[object]]) -> None:
    with anyio.move_on_after(1) as scope:
        await work()
    assert scope.cancelled_caught


async def fail_after(work: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(1):
        await work()


async def _fail() -> None:
    await anyio.sleep(1)
    raise ValueError("sibling")


async def sibling_fails(work: Callable[[], Awaitable[object]]) -> None:
    async def group() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_fail)
            await work()

    with pytest.raises(ExceptionGroup) as raised:
        await group()
    assert [str(exc) for exc in raised.value.exceptions] == ["sibling"]


async def wait_for(work: Callable[[], Awaitable[object]]) -> None:
    if not on_asyncio():
        return await move_on(work)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work(), 1)
    return None


async def timeout(work: Callable[[], Awaitable[object]]) -> None:
    if not on_asyncio():
        return await move_on(work)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await work()
    return None


async def native_group(work: Callable[[], Awaitable[object]]) -> None:
    if not on_asyncio():
        return await sibling_fails(work)

    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_fail())
            await work()

    with pytest.raises(ExceptionGroup) as raised:
        await group()
    assert [str(exc) for exc in raised.value.exceptions] == ["sibling"]
    return None


WAYS: list[Way] = [move_on, fail_after, sibling_fails, wait_for, timeout, native_group]


@pytest.mark.parametrize("way", WAYS)
async def test_whoever_cancels_finds_the_cancel_as_it_should_be(way: Way) -> None:
    input, look = endless()
    ear = Ear()

    async def work() -> object:
        return await run(input, ear)

    await way(work)
    assert ear.end.status == "cancelled"
    assert [(run.ended, run.cleaned_up) for run in look.runs] == [("cancelled", True)]
    assert anyio.current_time() == pytest.approx(1)
    # Nothing of the cancel is left on this task: it can wait, and be cancelled again.
    await anyio.sleep(1)
    if on_asyncio():
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
    assert (await outcome_of(asked(["Yes."]))).ended == "answered"


@pytest.mark.parametrize("grace_ms", [0, 500, 2_000])
async def test_the_listener_has_its_grace_for_the_last_event(grace_ms: float) -> None:
    finished: list[str] = []

    def react(event: MuleEvent) -> Awaitable[None] | None:
        if event.type != "run_end":
            return None

        async def slowly() -> None:
            await anyio.sleep(1)
            finished.append("yes")

        return slowly()

    ear = Ear(react)
    input = asked([ScriptedAnswer(answer("x"), delay_ms=10_000)], cancel_grace_ms=grace_ms)
    with anyio.move_on_after(1):
        await run(input, ear)
    assert ear.end.status == "cancelled"  # it is told in any case
    assert finished == (["yes"] if grace_ms > 1_000 else [])
    assert anyio.current_time() == pytest.approx(1 + min(grace_ms / 1000, 1))


async def test_the_grace_of_the_listener_is_not_that_of_the_stream() -> None:
    closed: list[str] = []

    async def slowly() -> None:
        await anyio.sleep(0.5)
        closed.append("to the end")

    start = AssistantStart(Whole(answer("x").with_(stop_reason="pending")))

    class Hanging(FakeStream):
        async def __anext__(self) -> Any:
            if self.reads:
                await anyio.sleep_forever()
            return await super().__anext__()

    stream = Hanging([start], aclose=slowly)
    ear = Ear()
    with anyio.move_on_after(1):
        await run(asked([], stream=lambda *_request: stream, cancel_grace_ms=0), ear)
    assert closed == ["to the end"]
    assert ear.end.status == "cancelled"


async def test_a_stream_that_does_not_close_is_given_up() -> None:
    start = AssistantStart(Whole(answer("x").with_(stop_reason="pending")))

    class Stuck(FakeStream):
        async def __anext__(self) -> Any:
            await anyio.sleep_forever()

    stream = Stuck([start], aclose=anyio.sleep_forever)
    ear = Ear()
    with anyio.move_on_after(1):
        await run(asked([], stream=lambda *_request: stream), ear)
    assert ear.end.status == "cancelled"
    assert anyio.current_time() <= 5


async def test_a_run_waits_for_a_tool_that_ignores_the_cancel() -> None:
    log: list[str] = []

    async def execute() -> Any:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(60)
        log.append("the tool is done")
        yield Success(MuleToolResult.text("done all the same"))

    ear = Ear(lambda event: log.append(event.type) if event.type == "run_end" else None)
    with anyio.move_on_after(1):
        await run(asked([tool_call_answer(call("look"))], tool_of("look", execute)), ear)
    assert log == ["the tool is done", "run_end"]
    assert anyio.current_time() == pytest.approx(60)
    assert "tool_execution_end look" not in ear.story  # no result is invented


async def test_what_a_tool_raises_while_it_is_cancelled_does_not_replace_the_cancel() -> None:
    async def execute() -> Any:
        try:
            await anyio.sleep_forever()
            yield None
        finally:
            raise RuntimeError("could not clean up")

    ear = Ear()
    with anyio.move_on_after(1) as scope:
        await run(asked([tool_call_answer(call("look"))], tool_of("look", execute)), ear)
    assert scope.cancelled_caught
    assert ear.end.status == "cancelled"


async def test_a_cancel_that_a_tool_swallows_is_not_lost() -> None:
    async def execute() -> Any:
        with contextlib.suppress(BaseException):  # as wrong as can be
            await anyio.sleep_forever()
        yield Success(MuleToolResult.text("never mind"))

    ear = Ear()
    with anyio.move_on_after(1) as scope:
        await run(asked([tool_call_answer(call("look")), "Done."], tool_of("look", execute)), ear)
    assert scope.cancelled_caught
    assert ear.end.status == "cancelled"


async def test_a_cancelled_run_says_how_far_it_had_got() -> None:
    ear = Ear()
    quick = ScriptedTool("quick")
    slow = ScriptedTool("slow", [hang])
    asks = tool_call_answer(call("quick"), call("slow"))
    with anyio.move_on_after(1):
        await run(asked([asks], quick.tool, slow.tool), ear)
    reached = ear.end.outcome
    assert [m.role for m in reached.new_messages] == ["system", "user", "assistant", "toolResult"]
    assert (reached.turns, reached.ended) == (1, None)
    assert ear.end.error is None


async def test_a_run_that_is_cancelled_before_it_begins_tells_nothing() -> None:
    ear = Ear()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        await run(asked(["Yes."]), ear)
    assert ear.heard == []
