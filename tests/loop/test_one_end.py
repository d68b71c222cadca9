"""Laws 2, 6 and 7: whatever fails, a run that began ends once, and says how far it had got."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from returns.future import FutureResult
from returns.pipeline import is_successful

from loop.runs import Ear, asked, call, error_of, noted, outcome_of, results_of, said
from loop.scenes import future, pause
from loop.test_cancel_sweep import WAYS
from loop.test_tools import scope_cancelled
from mule.effect import (
    Defect,
    HookFailed,
    InvalidInput,
    ListenerFailed,
    ModelFailed,
    MuleError,
    MuleEvent,
    MuleRunInput,
    MuleToolResult,
    RunEnd,
    failed,
    ready,
    run,
    settle,
)
from mule.testing import (
    BackendName,
    CancelHow,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedStream,
    ScriptedTool,
    answer,
    error_answer,
    hang,
    progress,
    run_virtually,
    sweep,
    tool_call_answer,
)

HOOKS = (
    "prepare_system_prompt",
    "resolve_api_key",
    "get_steering_messages",
    "get_follow_up_messages",
    "prepare_next_turn",
    "should_stop_after_turn",
)
CAUSE = MuleError(InvalidInput("weather", "too much of it"))


async def _raised_when_awaited() -> Any:
    raise RuntimeError("when awaited")


FAULTS: dict[str, Callable[..., Any]] = {
    "fails": lambda *_: failed(CAUSE),
    "fails with a text": lambda *_: FutureResult.from_failure("too much weather"),
    "raises": lambda *_: _raise(RuntimeError("at once")),
    "raises when awaited": lambda *_: FutureResult(_raised_when_awaited()),
    "is cancelled from within": lambda *_: FutureResult(anext(aiter(scope_cancelled()))),
    "gives no container": lambda *_: None,
    "gives nonsense": lambda *_: ready(object()),
}
NONSENSE_IS_FINE = {"should_stop_after_turn"}  # anything is true or false


def _raise(exc: BaseException) -> Any:
    raise exc


def two_turns(**settings: Any) -> MuleRunInput:
    """A run that calls every hook."""
    follow_ups = iter([[said("And now?")], []])
    given = {"get_follow_up_messages": lambda: ready(next(follow_ups)), **settings}
    return asked([tool_call_answer(call("look")), "Open.", "Still."], ScriptedTool("look").tool, **given)


# --- hooks


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_that_goes_wrong_fails_the_run(name: str, fault: str) -> None:
    ear = Ear()
    input = two_turns(**{name: FAULTS[fault]})
    if name in NONSENSE_IS_FINE and fault == "gives nonsense":
        assert (await outcome_of(input, ear)).ended == "stopped"
        return
    error = await error_of(input, ear)
    assert error.reason == HookFailed(name)
    assert error.__cause__ is CAUSE if fault == "fails" else error.__cause__ is not None
    assert ear.end.status == "failed"
    assert ear.end.error is error
    assert [event.sequence for event in ear.heard] == list(range(len(ear.heard)))
    turns = [event.turn for event in ear.heard if event.type == "turn_start"]
    assert error.at == turns[-1]
    assert error.outcome is not None
    assert error.outcome.turns == len(turns)
    assert error.outcome.new_messages == ear.end.outcome.new_messages
    assert (error.outcome.ended, ear.end.outcome.ended) == (None, None)


@pytest.mark.parametrize("name", HOOKS)
async def test_an_exception_of_a_hook_is_kept_as_the_cause(name: str) -> None:
    fault = RuntimeError("the weather")
    error = await error_of(two_turns(**{name: lambda *_: _raise(fault)}))
    assert error.__cause__ is fault


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
async def test_what_ends_the_program_is_not_a_failure_of_a_hook(name: str, stop: BaseException) -> None:
    ear = Ear()
    with pytest.raises(type(stop)) as raised:
        await run(two_turns(**{name: lambda *_: _raise(stop)}), ear)
    assert raised.value is stop
    assert ear.end.status == "cancelled"


async def test_no_event_is_invented_to_close_what_is_open() -> None:
    ear = Ear()
    await error_of(two_turns(resolve_api_key=FAULTS["fails"]), ear)
    assert ear.story[-2:] == ["message_end user", "run_end failed"]
    assert "turn_end" not in ear.story


# --- what was polled and did not come into the transcript is handed back

STEERING = (said("left"), said("right"), said("stop"))


@pytest.mark.parametrize("hook", ["prepare_next_turn", "get_steering_messages"])
async def test_messages_that_were_polled_for_a_turn_that_never_came_are_handed_back(hook: str) -> None:
    polls = iter([[], STEERING])
    settings: dict[str, Any] = {"get_steering_messages": lambda: ready(next(polls))}
    if hook == "prepare_next_turn":
        settings["prepare_next_turn"] = FAULTS["fails"]
    else:
        settings["get_steering_messages"] = lambda: ready(STEERING)
        settings["prepare_system_prompt"] = lambda: ready("Watch.")
        settings["stream"] = ScriptedModel([error_answer("503")])
    error = await error_of(two_turns(**settings))
    assert error.outcome is not None
    undelivered = error.outcome.undelivered
    if hook == "prepare_next_turn":
        assert undelivered == STEERING
    else:
        assert undelivered == ()
        assert error.outcome.new_messages[-4:-1] == STEERING


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
async def test_what_the_listener_did_not_let_in_is_handed_back(kept: int) -> None:
    """The listener fails on the start of one of three; those before it are in the transcript."""
    polls = iter([STEERING])
    count = 0

    def react(event: MuleEvent) -> None:
        nonlocal count
        if event.type == "message_start" and event.value in STEERING:
            count += 1
            if count == kept + 1:
                raise RuntimeError("full")
        elif event.type == "message_start" and event.value.role == "assistant":
            raise RuntimeError("full")

    input = asked(["Yes."], ScriptedTool("look").tool, get_steering_messages=lambda: ready(next(polls)))
    error = await error_of(input, Ear(react))
    reached = error.outcome
    assert reached is not None
    assert reached.undelivered == STEERING[kept:]
    assert [m for m in reached.new_messages if m in STEERING] == list(STEERING[:kept])


async def test_a_cancelled_run_hands_back_what_was_not_delivered() -> None:
    polls = iter([[], STEERING])
    ear = Ear()
    input = two_turns(
        get_steering_messages=lambda: ready(next(polls)), prepare_next_turn=lambda _turn: future(hang)
    )
    with anyio.move_on_after(1):
        await run(input, ear)
    assert ear.end.status == "cancelled"
    assert ear.end.outcome.undelivered == STEERING


# --- the listener

EVENTS = (
    "run_start",
    "turn_start",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_checkpoint",
    "tool_execution_update",
    "tool_execution_end",
    "turn_end",
    "run_end",
)


class Failing(Ear):
    """A listener that fails on the nth event of a type, and keeps what it hears, also after that."""

    def __init__(self, kind: str, fault: str, nth: int = 1) -> None:
        super().__init__()
        self._kind, self._fault, self._nth = kind, FAULTS[fault], nth

    def __call__(self, event: MuleEvent) -> FutureResult[None, MuleError]:
        self.heard.append(event)
        if event.type == self._kind and self.kinds.count(self._kind) == self._nth:
            given: FutureResult[None, MuleError] = self._fault()
            return given
        return ready(None)


@pytest.mark.parametrize("fault", [name for name in FAULTS if name != "gives nonsense"])
@pytest.mark.parametrize("kind", EVENTS)
async def test_a_listener_that_fails_ends_the_run_and_hears_no_more(kind: str, fault: str) -> None:
    ear = Failing(kind, fault)
    look = ScriptedTool("look", [progress("half"), MuleToolResult.text("open")])
    slow = ScriptedTool("slow", [progress("half"), hang]) if kind.startswith("tool_execution_u") else look
    model = ScriptedModel([tool_call_answer(call("look"), call(slow.name, "b")), "Open."])
    tools = {tool.name: tool.tool for tool in (look, slow)}
    error = await error_of(asked(model, *tools.values()), ear)
    assert ear.kinds[-1] == kind
    assert ear.kinds.count(kind) == 1
    assert error.reason == ListenerFailed(ear.heard[-1])
    assert error.at == ear.heard[0].run
    assert error.__cause__ is CAUSE if fault == "fails" else error.__cause__ is not None
    assert all(stream.closed for stream in model.streams)
    assert all(run.ended != "running" and run.cleaned_up for run in (*look.runs, *slow.runs))
    assert error.outcome is not None


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_what_tools_have_done_is_in_the_outcome_of_a_listener_that_failed(nth: int) -> None:
    look = ScriptedTool("look")
    calls = tool_call_answer(*(call("look", id) for id in "abc"))
    ear = Failing("tool_execution_end", "fails", nth)
    error = await error_of(asked([calls, "Done."], look.tool, tool_execution="sequential"), ear)
    assert error.outcome is not None
    assert [id for id, _, _ in results_of(error.outcome.new_messages)] == list("abc")[:nth]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_listener_may_fail_on_the_end_of_a_run_that_went_wrong(status: str) -> None:
    ear = Failing("run_end", "raises")
    if status == "failed":
        error = await error_of(asked([error_answer("503")]), ear)
        assert isinstance(error.reason, ListenerFailed)
        assert error.outcome is not None
    else:
        with anyio.move_on_after(1) as scope:
            await run(asked([ScriptedAnswer(answer("x"), delay_ms=10_000)]), ear)
        assert scope.cancelled_caught
    assert ear.end.status == status


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
async def test_ctrl_c_in_the_listener_is_no_failure_of_it_and_it_hears_the_end(stop: BaseException) -> None:
    ear = Ear(lambda event: _raise(stop) if event.type == "turn_start" else None)
    with pytest.raises(type(stop)):
        await run(asked(["Yes."]), ear)
    assert ear.end.status == "cancelled"


async def test_a_listener_that_raises_past_exception_hears_no_more() -> None:
    class Unheard(BaseException):
        pass

    ear = Ear(lambda event: _raise(Unheard()) if event.type == "turn_start" else None)
    with pytest.raises(Unheard):
        await run(asked(["Yes."]), ear)
    assert ear.kinds == ["run_start", "turn_start"]


class SlowToClose:
    """A stream that takes its time to close."""

    def __init__(self, stream: ScriptedStream) -> None:
        self._stream = stream
        self.result = stream.result

    def __aiter__(self) -> ScriptedStream:
        return self._stream

    async def aclose(self) -> None:
        await pause()
        await self._stream.aclose()


@pytest.mark.parametrize(("backend", "how"), WAYS, ids=[f"{b}-{h}" for b, h in WAYS])
@pytest.mark.parametrize("kind", ["message_update", "tool_execution_update"])
def test_a_listener_that_failed_does_not_hear_of_a_cancel_either(
    kind: str, backend: BackendName, how: CancelHow
) -> None:
    """Law 7 before law 3: while the run closes its stream or waits for its tools, it is cancelled."""
    ears: list[Failing] = []

    def make() -> Callable[[], Any]:
        ear = Failing(kind, "raises")
        ears.append(ear)
        # One tool, so that what is waited for is the same in every try, also where trio shuffles tasks.
        slow = ScriptedTool("slow", [progress("half"), hang], clean_up=pause)
        model = ScriptedModel([tool_call_answer(call("slow"))])
        stream = lambda *request: SlowToClose(model(*request))  # noqa: E731
        input = asked([], slow.tool, stream=stream)

        async def work() -> object:
            return await run(input, ear)

        return work

    reached = 0
    gc.collect()
    gc.freeze()
    for outcome in sweep(make, backend=backend, how=how):
        heard = ears[-1].kinds
        assert outcome.left == ()
        assert outcome.ended != "raised", outcome.error
        failed_there = kind in heard and heard[-1] == kind
        reached += failed_there and outcome.fired
        assert failed_there or heard == [] or heard[-1] == "run_end", f"{outcome.moment}: {heard}"
    gc.unfreeze()
    assert reached > 1, "the run was never cancelled on its way down"


# --- bugs


@pytest.mark.parametrize("what", ["clock", "ids"])
def test_a_bug_is_raised_as_it_is_and_the_run_has_its_one_end(what: str) -> None:
    """A clock or an id that raises, at its nth use: nothing in the loop is made for that."""
    ends = set()
    for nth in range(1, 60):
        ear = Ear()
        bug = ZeroDivisionError("of the clock")
        uses = 0

        def use(*_: object, bug: BaseException = bug, nth: int = nth) -> Any:
            nonlocal uses
            uses += 1
            if uses >= nth:
                raise bug
            return uses if what == "clock" else f"id {uses}"

        input = two_turns(**{what: use})
        raised = run_virtually(_catch, input, ear)
        if ear.heard:
            assert ear.kinds[0] == "run_start"
            assert [event.sequence for event in ear.heard] == list(range(len(ear.heard)))
            ends.add(ear.end.status)
        if raised is None:
            assert ear.end.status == "completed"
            break
        assert raised is bug
        if ear.heard and ear.end.error is not None:
            reason = ear.end.error.reason
            assert reason == Defect("ZeroDivisionError: of the clock")
            assert ear.end.error.__cause__ is bug
    else:
        raise AssertionError("the run never got through")
    assert ends == {"failed", "completed"}


async def _catch(input: MuleRunInput, ear: Ear) -> BaseException | None:
    try:
        await run(input, ear)
    except ZeroDivisionError as exc:
        return exc
    return None


async def test_the_end_of_a_defect_may_not_hide_it() -> None:
    times = iter([1, 2, 3])
    ear = Failing("run_end", "raises")
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run(asked(["Yes."], clock=lambda: next(times)), ear)
    assert ear.end.status == "failed"


# --- the end of a run that went well


async def test_the_run_returns_only_after_the_listener_has_finished_with_its_end() -> None:
    log: list[str] = []

    async def slowly() -> None:
        await anyio.sleep(100)  # longer than any grace: this end is not under one
        log.append("heard")

    ear = Ear(lambda event: slowly() if event.type == "run_end" else None)
    await outcome_of(asked(["Yes."]), ear)
    log.append("returned")
    assert log == ["heard", "returned"]


async def test_an_input_that_cannot_run_has_no_end() -> None:
    ear = Ear()
    error = await error_of(asked([], prompts=()), ear)
    assert ear.heard == []
    assert (error.outcome, error.at) == (None, None)


async def test_a_failed_run_of_the_model_says_so_in_its_end() -> None:
    ear = Ear()
    error = await error_of(asked([error_answer("503")]), ear)
    assert isinstance(error.reason, ModelFailed)
    assert (ear.end.status, ear.end.error) == ("failed", error)


async def test_the_end_tells_what_the_result_holds() -> None:
    ear = Ear()
    outcome = await outcome_of(two_turns(), ear)
    assert ear.end.outcome is outcome
    assert (ear.end.status, ear.end.error) == ("completed", None)


async def test_hooks_are_not_called_after_one_failed() -> None:
    log: list[str] = []
    input = two_turns(
        prepare_system_prompt=FAULTS["fails"],
        resolve_api_key=lambda _p: noted(log, "key", None),
        should_stop_after_turn=lambda _t: noted(log, "stop?", False),
    )
    error = await error_of(input)
    assert (log, error.reason) == ([], HookFailed("prepare_system_prompt"))


async def test_failures_of_a_run_can_be_told_from_those_of_a_hook_by_type() -> None:
    result = await settle(run(two_turns(get_follow_up_messages=FAULTS["fails"])))
    assert not is_successful(result)
    match result.failure().reason:
        case HookFailed(hook=name):
            assert name == "get_follow_up_messages"
        case other:
            raise AssertionError(other)


async def test_the_last_event_of_a_cancelled_run_has_its_grace_and_no_more() -> None:
    ear = Ear(lambda event: anyio.sleep(60) if isinstance(event, RunEnd) else None)
    began = anyio.current_time()
    with anyio.move_on_after(1):
        await run(asked([ScriptedAnswer(answer("x"), delay_ms=10_000)], cancel_grace_ms=500), ear)
    assert ear.end.status == "cancelled"
    assert anyio.current_time() - began == pytest.approx(1.5)
