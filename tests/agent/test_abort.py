"""The cooperative abort: whenever it comes, the loop settles soon; each announced call has one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from agent.agents import Ear, call, perform, results_of, said, text_result, tool
from mule.agent import (
    AbortController,
    AbortSignal,
    AgentTool,
    AgentToolResult,
    AgentToolUpdateCallback,
)
from mule.effect import AssistantMessage, SimpleStreamOptions
from mule.loop.wording import ABORTED
from mule.testing import (
    BackendName,
    ScriptedAnswer,
    ScriptedModel,
    answer,
    run_virtually,
    tool_call_answer,
)

GRACE = 0.1
"""Seconds that a tool has to settle after an abort."""


async def quick(*_: object) -> AgentToolResult[Any]:
    await anyio.sleep(0.01)
    return text_result("quick done")


async def heeding(
    _id: str, _params: Any, signal: AbortSignal | None, _update: AgentToolUpdateCallback
) -> AgentToolResult[Any]:
    """Stops by itself as it sees the signal."""
    assert signal is not None
    with anyio.move_on_after(0.2):
        await signal.wait()
    return text_result("stopped halfway" if signal.aborted else "heeding done")


async def deaf(*_: object) -> AgentToolResult[Any]:
    """Knows nothing of signals."""
    await anyio.sleep(0.3)
    return text_result("deaf done")


# --- at any moment


@dataclass
class Scene:
    """A world with something of everything in it, whose signal is given at some moment."""

    mode: str
    limit: int | None
    controller: AbortController = field(default_factory=AbortController)
    aborted_at: float | None = None
    ended_at: float = 0
    new: tuple[Any, ...] = ()
    model: ScriptedModel = field(
        default_factory=lambda: ScriptedModel(
            [
                ScriptedAnswer(
                    tool_call_answer(
                        call("quick", "a"),
                        call("deaf", "b"),
                        call("none", "c"),
                        call("heeding", "d"),
                        call("quick", "e"),
                        text="I look.",
                    ),
                    delay_ms=1,
                ),
                ScriptedAnswer(answer("Open."), delay_ms=5, chunk=2),
            ]
        )
    )
    called_aborted: int = 0

    def abort(self) -> None:
        if not self.controller.signal.aborted:
            self.aborted_at = anyio.current_time()
            self.controller.abort()

    async def perform_until(self, ear: Ear, nth: int) -> None:
        """Perform, and abort at the nth event."""
        ear.react = lambda _event: self.abort() if len(ear.heard) == nth else None
        await self.perform(ear)

    async def perform(self, ear: Ear) -> None:
        async def hook(*_: object) -> None:
            await anyio.sleep(0.002)

        def stream(*request: Any) -> Any:
            self.called_aborted += self.controller.signal.aborted
            return self.model(*request)

        self.new = await perform(
            self.model,
            tool("quick", quick),
            tool("deaf", deaf),
            tool("heeding", heeding),
            ear=ear,
            controller=self.controller,
            stream_fn=stream,
            tool_execution=self.mode,
            max_parallel_tools=self.limit,
            before_tool_call=hook,
            after_tool_call=hook,
            get_api_key=hook,
            prepare_request=hook,
        )
        self.ended_at = anyio.current_time()


def check(scene: Scene, ear: Ear) -> None:
    kinds = ear.kinds
    assert kinds[0] == "agent_start"
    assert kinds[-1] == "agent_end"
    assert kinds.count("agent_end") == 1
    assert kinds.count("turn_start") == kinds.count("turn_end")
    announced = Counter(ear.calls("tool_execution_start"))
    assert Counter(ear.calls("tool_execution_end")) == announced
    assert Counter(id for id, _, _ in results_of(scene.new)) == announced
    assert scene.called_aborted <= 1
    assert all(stream.closed for stream in scene.model.streams)
    if scene.aborted_at is None:
        assert list(announced) == list("abcde")
        return
    # The slowest thing is a tool that has its grace; then come hooks of a few milliseconds.
    assert scene.ended_at - scene.aborted_at <= GRACE + 0.02
    answers = [m for m in scene.new if isinstance(m, AssistantMessage)]
    if scene.called_aborted:
        assert answers[-1].stop_reason == "aborted"
    aborted = [m for m in answers if m.stop_reason == "aborted"]
    assert aborted == answers[-1:] or not aborted
    for id, is_error, text in results_of(scene.new):
        assert (
            text
            in {
                "a": {"quick done", ABORTED},
                "b": {"deaf done", ABORTED},
                "c": {"There is no tool named none."},
                "d": {"stopped halfway", "heeding done", ABORTED},
                "e": {"quick done", ABORTED},
            }[id]
        )
        assert is_error == (text == ABORTED or id == "c")


MODES = [("parallel", None), ("parallel", 2), ("sequential", None)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("mode", "limit"), MODES, ids=["parallel", "two at once", "sequential"])
def test_an_abort_at_any_event_settles_the_loop(mode: str, limit: int | None, backend: BackendName) -> None:
    for nth in range(1, 100):
        scene, ear = Scene(mode, limit), Ear()
        run_virtually(scene.perform_until, ear, nth, backend=backend)
        check(scene, ear)
        if scene.aborted_at is None:
            assert nth > 40
            return
    raise AssertionError("the scene has no end")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("mode", "limit"), MODES, ids=["parallel", "two at once", "sequential"])
def test_an_abort_at_any_time_settles_the_loop(mode: str, limit: int | None, backend: BackendName) -> None:
    fired = 0
    for at_ms in range(0, 700, 17):
        scene, ear = Scene(mode, limit), Ear()

        async def both(scene: Scene = scene, ear: Ear = ear, at_ms: int = at_ms) -> None:
            async def later() -> None:
                await anyio.sleep(at_ms / 1000)
                scene.abort()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(later)
                await scene.perform(ear)
                tasks.cancel_scope.cancel()

        run_virtually(both, backend=backend)
        check(scene, ear)
        fired += scene.aborted_at is not None
    assert fired > 15


# --- in each phase


async def aborted_during(
    tool_: AgentTool[Any, Any], **settings: Any
) -> tuple[tuple[Any, ...], ScriptedModel]:
    """Abort 20 ms after the tool was called."""
    controller = AbortController()
    model = ScriptedModel([tool_call_answer(call(tool_.name))])
    new: tuple[Any, ...] = ()
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(0.02)
            controller.abort()

        tasks.start_soon(later)
        new = await perform(model, tool_, controller=controller, **settings)
    return new, model


async def test_before_the_start_the_prompt_is_told_and_the_model_called_once() -> None:
    controller = AbortController()
    controller.abort()
    model, ear = ScriptedModel([]), Ear()
    new = await perform(model, ear=ear, controller=controller)
    assert [m.role for m in new] == ["user", "assistant"]
    assert new[-1].stop_reason == "aborted"
    (request,) = model.requests
    assert request.options.signal is controller.signal
    assert ear.kinds[-1] == "agent_end"


async def test_in_mid_answer_what_had_arrived_is_kept() -> None:
    controller = AbortController()
    ear = Ear(lambda event: controller.abort() if len(ear.heard) == 8 else None)
    new = await perform([ScriptedAnswer(answer("A long story."), chunk=2)], ear=ear, controller=controller)
    assert new[-1].stop_reason == "aborted"
    assert "A long story.".startswith(new[-1].text)
    assert new[-1].text not in ("", "A long story.")


async def test_a_tool_that_settles_within_its_grace_has_its_own_result() -> None:
    async def last_words(
        _id: str, _params: Any, signal: AbortSignal | None, _update: AgentToolUpdateCallback
    ) -> AgentToolResult[Any]:
        assert signal is not None
        await signal.wait()
        await anyio.sleep(GRACE - 0.01)
        return text_result("half a bridge")

    new, model = await aborted_during(tool("look", last_words))
    assert results_of(new) == [("look", False, "half a bridge")]
    assert new[-1].stop_reason == "aborted"
    assert len(model.requests) == 2
    assert anyio.current_time() == pytest.approx(0.02 + GRACE - 0.01)


async def test_a_tool_that_is_deaf_is_cancelled_after_its_grace() -> None:
    log: list[str] = []

    async def deaf(*_: object) -> AgentToolResult[Any]:
        try:
            await anyio.sleep(100)
        finally:
            log.append(f"cancelled at {anyio.current_time():.2f}")
        return text_result("never")

    new, _ = await aborted_during(tool("look", deaf))
    assert results_of(new) == [("look", True, ABORTED)]
    assert log == ["cancelled at 0.12"]
    assert new[-1].stop_reason == "aborted"


async def test_a_tool_that_ignores_the_cancel_as_well_is_waited_for_and_its_result_is_kept() -> None:
    async def stubborn(*_: object) -> AgentToolResult[Any]:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
        return text_result("done all the same")

    new, _ = await aborted_during(tool("look", stubborn))
    assert results_of(new) == [("look", False, "done all the same")]
    assert anyio.current_time() == pytest.approx(1)


async def test_a_tool_that_raises_because_of_the_abort_has_failed() -> None:
    async def raising(
        _id: str, _params: Any, signal: AbortSignal | None, _update: AgentToolUpdateCallback
    ) -> AgentToolResult[Any]:
        assert signal is not None
        await signal.wait()
        raise RuntimeError("stopped by hand")

    new, _ = await aborted_during(tool("look", raising))
    assert results_of(new) == [("look", True, "stopped by hand")]


async def test_a_tool_that_ends_well_leaves_nothing_on_the_signal() -> None:
    controller = AbortController()
    model = ScriptedModel([tool_call_answer(*(call("look", id) for id in "abc")), "Done."])
    await perform(model, tool("look"), controller=controller)
    assert not controller.signal._listeners  # a long session would gather one a call


async def test_calls_that_were_not_announced_have_no_result() -> None:
    controller = AbortController()
    ear = Ear(lambda event: controller.abort() if event.type == "tool_execution_start" else None)
    asks = tool_call_answer(call("look", "a"), call("look", "b"))
    new = await perform([asks], tool("look"), ear=ear, controller=controller, tool_execution="sequential")
    assert results_of(new) == [("a", True, ABORTED)]
    assert ear.calls("tool_execution_start") == ["a"]


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_call_that_waits_for_its_place_does_not_begin_once_aborted(limit: int) -> None:
    began: list[str] = []

    async def look(id: str, *_: object) -> AgentToolResult[Any]:
        began.append(id)
        return await deaf()

    controller = AbortController()
    asks = tool_call_answer(*(call("look", id) for id in "abcd"))
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(0.02)
            controller.abort()

        tasks.start_soon(later)
        new = await perform([asks], tool("look", look), controller=controller, max_parallel_tools=limit)
    assert sorted(began) == list("abcd")[:limit]
    assert results_of(new) == [(id, True, ABORTED) for id in "abcd"]


async def test_an_abort_as_a_batch_is_announced_lets_none_of_it_begin() -> None:
    began: list[str] = []

    async def look(id: str, *_: object) -> Any:
        began.append(id)

    controller = AbortController()
    ear = Ear(lambda _e: controller.abort() if ear.kinds.count("tool_execution_start") == 2 else None)
    asks = tool_call_answer(*(call("look", id) for id in "abc"))
    new = await perform([asks], tool("look", look), ear=ear, controller=controller)
    assert began == []
    assert results_of(new) == [("a", True, ABORTED), ("b", True, ABORTED)]


async def test_a_block_that_comes_with_the_abort_is_an_abort() -> None:
    controller = AbortController()

    def before(*_: object) -> Any:
        controller.abort()

    ran: list[str] = []

    async def look(*_: object) -> Any:
        ran.append("look")

    new = await perform(
        [tool_call_answer(call("look"))], tool("look", look), controller=controller, before_tool_call=before
    )
    assert results_of(new) == [("look", True, ABORTED)]
    assert ran == []


# --- the call of the model after it


async def test_a_stream_function_that_ignores_the_signal_does_not_keep_the_run_going() -> None:
    """Its answer counts as aborted: the tools that it asks for do not run, and it is not asked again."""
    controller = AbortController()
    model = ScriptedModel([tool_call_answer(call("look"), text="I look.")] * 4)
    ran: list[str] = []

    def ignoring(asked: Any, context: Any, _options: SimpleStreamOptions) -> Any:
        return model(asked, context, SimpleStreamOptions())

    async def look(*_: object) -> Any:
        ran.append("look")
        controller.abort()
        return text_result("open")

    with anyio.fail_after(1):
        new = await perform(model, tool("look", look), controller=controller, stream_fn=ignoring)
    assert ran == ["look"]
    assert [m.stop_reason for m in new if m.role == "assistant"] == ["toolUse", "aborted"]
    assert new[-1].text == "I look."
    assert len(model.requests) == 2


async def test_a_stream_that_raises_on_an_abort_is_an_aborted_answer() -> None:
    controller = AbortController()

    class Breaking:
        def __init__(self) -> None:
            self._events = aiter(ScriptedModel([answer("Half")])(None, None, SimpleStreamOptions()))  # type: ignore[arg-type]  # not looked at

        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> Any:
            if controller.signal.aborted:
                raise ConnectionError("closed by the signal")
            return await anext(self._events)

        async def aclose(self) -> None: ...

    ear = Ear(lambda event: controller.abort() if event.type == "message_update" else None)
    new = await perform([], ear=ear, controller=controller, stream_fn=lambda *_request: Breaking())
    assert new[-1].stop_reason == "aborted"
    assert ear.kinds[-2:] == ["turn_end", "agent_end"]


async def test_a_batch_that_terminates_needs_no_aborted_answer() -> None:
    async def last(
        _id: str, _params: Any, signal: AbortSignal | None, _update: AgentToolUpdateCallback
    ) -> AgentToolResult[Any]:
        assert signal is not None
        await signal.wait()
        return text_result("closed", terminate=True)

    new, model = await aborted_during(tool("look", last))
    assert results_of(new) == [("look", False, "closed")]
    assert len(model.requests) == 1


# --- queues


@pytest.mark.parametrize("queue", ["get_steering_messages", "get_follow_up_messages"])
async def test_what_is_queued_stays_queued(queue: str) -> None:
    waiting = [said("and then?")]
    started = False

    def take() -> Any:
        if not started:  # at the start, before anything was aborted
            return []
        taken, waiting[:] = waiting[:], []
        return taken

    async def begin(*args: Any) -> AgentToolResult[Any]:
        nonlocal started
        started = True
        return await deaf(*args)

    new, model = await aborted_during(tool("look", begin), **{queue: take})
    assert [m.content for m in waiting] == ["and then?"]
    assert [m.role for m in new] == ["system", "user", "assistant", "toolResult", "assistant"]
    assert len(model.requests) == 2


async def test_an_abort_as_the_last_turn_ends_asks_no_queue() -> None:
    controller = AbortController()
    asked: list[str] = []

    def take(name: str) -> Callable[[], Any]:
        return lambda: asked.append(name)

    ear = Ear(lambda event: controller.abort() if event.type == "turn_end" else None)
    await perform(
        ["Yes."],
        ear=ear,
        controller=controller,
        get_steering_messages=take("steering"),
        get_follow_up_messages=take("follow-ups"),
    )
    assert asked == ["steering"]  # the poll at the start
    assert ear.kinds[-1] == "agent_end"


async def test_what_was_polled_before_the_abort_is_told() -> None:
    controller = AbortController()
    polls = iter([[], [said("left")]])

    def prepare(_turn: object) -> None:
        controller.abort()

    new = await perform(
        [tool_call_answer(call("look"))],
        tool("look"),
        controller=controller,
        get_steering_messages=lambda: next(polls),
        prepare_next_turn=prepare,
    )
    assert [m.role for m in new][-2:] == ["user", "assistant"]
    assert new[-1].stop_reason == "aborted"


# --- cancelling is another thing


async def test_cancelling_the_task_is_no_abort() -> None:
    controller = AbortController()
    ear = Ear()
    with anyio.move_on_after(0.05) as scope:
        await perform([tool_call_answer(call("look"))], tool("look", deaf), ear=ear, controller=controller)
    assert scope.cancelled_caught
    assert not controller.signal.aborted
    assert ear.calls("tool_execution_end") == []  # no result is invented
    assert ear.kinds[-1] == "agent_end"
    assert anyio.current_time() == pytest.approx(0.05)
