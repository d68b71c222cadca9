"""Law 5: what a tool does wrong is a result that the model reads; the run goes on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from loop.runs import Ear, Parts, asked, call, outcome_of, results_of, tool_of
from mule.effect import (
    InvalidInput,
    MuleError,
    MuleEvent,
    MuleTool,
    MuleToolExecutionPart,
    MuleToolProgress,
    MuleToolRejection,
    MuleToolResult,
    NestedToolCallRecord,
    NestedToolCalls,
    TextContent,
    Tool,
    ToolCall,
    ToolFailed,
    ToolResultMessage,
    Usage,
    failed,
    ready,
    run,
    settle,
)
from mule.testing import (
    Fail,
    ScriptedModel,
    ScriptedTool,
    answer,
    hang,
    pause,
    progress,
    tool_call_answer,
)

LOOK = tool_call_answer(call("look"))
RESULT: Result[MuleToolExecutionPart, MuleError] = Success(MuleToolResult.text("open"))
PART: Result[MuleToolExecutionPart, MuleError] = Success(MuleToolProgress(details="half"))


async def result_of(tool: MuleTool, ear: Ear | None = None) -> tuple[bool, str]:
    """Let the model call the tool once. The run goes on, and tells the model: is it an error, the text."""
    model = ScriptedModel([LOOK, "Done."])
    outcome = await outcome_of(asked(model, tool), ear or Ear())
    assert outcome.ended == "answered"
    ((_, is_error, text),) = results_of(outcome.messages)
    assert results_of(model.requests[1].context.messages) == [("look", is_error, text)]
    return is_error, text


def prepared_by(prepare: Callable[[ToolCall], Any]) -> MuleTool:
    descriptor: Tool = Tool(name="look", description="", parameters={"type": "object"})
    return MuleTool(descriptor=descriptor, prepare=prepare)


def raising(exc: BaseException) -> Any:
    def raise_it(*_: object) -> Any:
        raise exc

    return raise_it


# --- before it runs


async def test_the_model_is_told_that_there_is_no_such_tool() -> None:
    is_error, text = await result_of(ScriptedTool("other").tool)
    assert is_error
    assert "look" in text


async def test_a_call_whose_arguments_are_not_json_is_not_prepared() -> None:
    look = ScriptedTool("look")
    broken = call("look").with_(arguments_error="Unterminated string at column 7")
    outcome = await outcome_of(asked([tool_call_answer(broken), "Done."], look.tool))
    ((_, is_error, text),) = results_of(outcome.messages)
    assert is_error
    assert "Unterminated string at column 7" in text
    assert look.prepared == []


async def test_a_rejection_is_told_in_its_own_words_and_details() -> None:
    rejection = MuleToolRejection("not_authorized", "Ask the harbour master.", {"form": 7})
    look = ScriptedTool("look", reject=lambda _call: rejection)
    outcome = await outcome_of(asked([LOOK, "Done."], look.tool))
    (result,) = (m for m in outcome.messages if isinstance(m, ToolResultMessage))
    assert (result.is_error, result.text, result.details) == (True, "Ask the harbour master.", {"form": 7})
    assert look.runs == []
    assert outcome.turns == 2


async def test_a_rejection_may_end_the_run() -> None:
    look = ScriptedTool("look", reject=lambda _c: MuleToolRejection("unavailable", "No.", terminate=True))
    outcome = await outcome_of(asked([LOOK], look.tool))
    assert outcome.ended == "terminated"
    assert results_of(outcome.messages) == [("look", True, "No.")]


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (raising(RuntimeError("no ladder")), "no ladder"),
        (raising(RuntimeError()), "RuntimeError"),
        (lambda _call: FutureResult.from_failure(MuleError(ToolFailed("look", "no ladder"))), "no ladder"),
        (lambda _call: failed(MuleError(InvalidInput("rung", "too high"))), "rung"),
        (lambda _call: FutureResult.from_failure("no ladder"), ""),
        (lambda _call: ready("a text is no prepared tool"), ""),
        (lambda _call: None, ""),
    ],
    ids=[
        "raises",
        "raises without a text",
        "fails",
        "fails otherwise",
        "a text",
        "no tool",
        "no container",
    ],
)
async def test_a_prepare_that_goes_wrong_is_an_error_result(prepare: Any, told: str) -> None:
    is_error, text = await result_of(prepared_by(prepare))
    assert is_error
    assert told in text
    assert text


# --- while it runs


async def broken_by(exc: BaseException, *before: Any) -> Parts:
    for part in before:
        yield part
    raise exc


async def giving(*parts: Any) -> Parts:
    for part in parts:
        yield part


FAILURE: Result[MuleToolExecutionPart, MuleError] = Failure(MuleError(ToolFailed("look", "fog")))
GROUP = ExceptionGroup(
    "unhandled errors in a TaskGroup", [ValueError("fog"), OSError("tide"), ValueError("fog")]
)


@pytest.mark.parametrize(
    ("execute", "told"),
    [
        (lambda: giving(FAILURE), "fog"),
        (lambda: giving(PART, FAILURE, RESULT), "fog"),
        (lambda: giving(Failure(MuleError(InvalidInput("where", "no such bridge")))), "no such bridge"),
        (lambda: broken_by(RuntimeError("fog")), "fog"),
        (lambda: broken_by(RuntimeError("fog"), PART), "fog"),
        (lambda: broken_by(RuntimeError()), "RuntimeError"),
        (lambda: broken_by(GROUP), "fog; tide"),
        (raising(RuntimeError("fog")), "fog"),
        (lambda: giving(), "without giving a result"),
        (lambda: giving(PART), "without giving a result"),
        (lambda: giving("open"), "neither progress nor a result"),
        (lambda: giving(MuleToolResult.text("open")), "neither progress nor a result"),
        (lambda: giving(Success("open")), "neither progress nor a result"),
        (lambda: giving(Success(MuleToolResult(content="open"))), "not made of texts"),  # type: ignore[arg-type]  # a host's
        (lambda: giving(Success(MuleToolResult(content=None))), "not made of texts"),  # type: ignore[arg-type]  # a host's
        (lambda: giving(Success(MuleToolResult(content=(7,)))), "not made of texts"),  # type: ignore[arg-type]  # a host's
        (lambda: None, ""),
        (lambda: 7, ""),
    ],
)
async def test_a_tool_that_goes_wrong_is_an_error_result(execute: Any, told: str) -> None:
    ear = Ear()
    is_error, text = await result_of(tool_of("look", execute), ear)
    assert is_error
    assert told in text
    assert text
    end = next(event for event in ear.heard if event.type == "tool_execution_end")
    assert end.result.is_error


async def test_what_follows_a_result_is_ignored() -> None:
    ear = Ear()
    assert await result_of(tool_of("look", lambda: giving(RESULT, PART, FAILURE)), ear) == (False, "open")
    assert "tool_execution_update look" not in ear.story


async def test_what_follows_a_failure_is_ignored() -> None:
    is_error, text = await result_of(tool_of("look", lambda: giving(FAILURE, RESULT)))
    assert (is_error, text) == (True, "fog")


async def test_one_of_three_that_raises_does_not_stop_the_others() -> None:
    tools = [
        ScriptedTool("a", [pause(50), MuleToolResult.text("a done")]),
        ScriptedTool("b", RuntimeError("broke")),
        ScriptedTool("c", [pause(50), MuleToolResult.text("c done")]),
    ]
    calls = tool_call_answer(*(call(tool.name) for tool in tools))
    outcome = await outcome_of(asked([calls, "Done."], *(tool.tool for tool in tools)))
    assert results_of(outcome.messages) == [
        ("a", False, "a done"),
        ("b", True, "broke"),
        ("c", False, "c done"),
    ]
    assert [run.cleaned_up for tool in tools for run in tool.runs] == [True] * 3


# --- closing it


class Closing:
    """A tool's stream that notes when it is closed, and may object."""

    def __init__(self, *parts: Any, error: BaseException | None = None) -> None:
        self._parts = iter(parts)
        self._error = error
        self.closed = 0

    def __aiter__(self) -> Closing:
        return self

    async def __anext__(self) -> Any:
        for part in self._parts:
            return part
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed += 1
        await anyio.lowlevel.checkpoint()
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    "parts", [(RESULT, PART), (FAILURE, RESULT), (PART, RESULT), (PART,), ("garbage",), ()]
)
async def test_a_stream_is_closed_however_it_was_left(parts: tuple[Any, ...]) -> None:
    stream = Closing(*parts)
    await result_of(tool_of("look", lambda: stream))
    assert stream.closed == 1


async def test_the_result_stands_whatever_closing_the_stream_raises() -> None:
    for error in (RuntimeError("door stuck"), BaseExceptionGroup("", [GeneratorExit()])):
        streams = [Closing(RESULT, error=error)]
        assert await result_of(tool_of("look", lambda: streams[-1])) == (False, "open")  # noqa: B023  # at once
        assert streams[-1].closed == 1


async def test_an_iterator_that_cannot_be_closed_is_fine() -> None:
    class Bare:
        def __init__(self) -> None:
            self._parts = iter([PART, RESULT])

        def __aiter__(self) -> AsyncIterator[Any]:
            return self

        async def __anext__(self) -> Any:
            return next(self._parts)

    assert await result_of(tool_of("look", Bare)) == (False, "open")


async def test_what_is_iterated_is_closed_where_that_is_another_object() -> None:
    closed = []

    class Parts:
        async def __aiter__(self) -> Any:
            try:
                yield RESULT
                yield PART
            finally:
                await anyio.lowlevel.checkpoint()
                closed.append("iterator")

    assert await result_of(tool_of("look", Parts)) == (False, "open")
    gc.collect()
    assert closed == ["iterator"]


async def test_a_tool_may_catch_its_own_close_and_clean_up() -> None:
    log = []

    async def execute() -> Parts:
        try:
            yield RESULT
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            log.append("cleaned up")

    assert await result_of(tool_of("look", execute)) == (False, "open")
    assert log == ["cleaned up"]


# --- cancelled exceptions of its own


async def scope_cancelled() -> Parts:
    """The cancelled exception of an inner scope, kept and raised outside of it."""
    kept: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep(1)
        except BaseException as exc:
            kept = exc
            raise
    if kept is not None:
        raise kept
    yield PART


async def task_cancelled() -> Parts:
    """On asyncio: awaiting a task that somebody else has cancelled. On trio: a foreign future's."""
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        task = asyncio.ensure_future(asyncio.sleep(10))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task
    else:
        raise asyncio.CancelledError
    yield PART


async def own_task_cancelled() -> Parts:
    """On asyncio: the tool cancels the very task that it runs in, as a library's timeout may."""
    task = asyncio.current_task() if anyio.get_cancelled_exc_class() is asyncio.CancelledError else None
    if task is None:
        raise asyncio.CancelledError
    task.cancel()
    await anyio.sleep(1)
    yield PART


async def cancelled_in_a_group() -> Parts:
    async for part in scope_cancelled():
        try:
            yield part
        except BaseException as exc:
            raise BaseExceptionGroup("", [exc, ValueError("fog")]) from None


@pytest.mark.parametrize(
    "execute", [scope_cancelled, task_cancelled, own_task_cancelled, cancelled_in_a_group]
)
async def test_a_cancel_that_nobody_ordered_is_a_failure_of_the_tool(execute: Any) -> None:
    ok = ScriptedTool("ok", [pause(30), MuleToolResult.text("ok 2")])
    calls = tool_call_answer(call("odd"), call("ok"))
    with anyio.fail_after(1):
        outcome = await outcome_of(asked([calls, "Done."], tool_of("odd", execute), ok.tool))
    (odd, good) = results_of(outcome.messages)
    assert odd[:2] == ("odd", True)
    assert odd[2]
    assert "scope" not in odd[2]  # the model has no use for what the library says of its scopes
    assert good == ("ok", False, "ok 2")
    assert outcome.ended == "answered"


async def test_a_cancel_that_nobody_ordered_out_of_prepare_is_a_failure_too() -> None:
    def prepare(_call: ToolCall) -> Any:
        async def go() -> Any:
            return await anext(aiter(scope_cancelled()))

        return FutureResult(go())

    is_error, text = await result_of(prepared_by(prepare))
    assert is_error
    assert text


# --- what is not the tool's failure


class Unheard(BaseException):
    """What a test framework or a host raises past every `except Exception`."""


@pytest.mark.parametrize(
    ("exc", "status"),
    [
        (KeyboardInterrupt(), "cancelled"),
        (SystemExit(3), "cancelled"),
        (BaseExceptionGroup("", [KeyboardInterrupt()]), "cancelled"),
        (BaseExceptionGroup("", [ValueError("fog"), KeyboardInterrupt()]), "cancelled"),
        (Unheard("fog"), "failed"),
        (BaseExceptionGroup("", [Unheard("fog")]), "failed"),
    ],
)
async def test_what_ends_the_program_is_not_a_failure_of_the_tool(exc: BaseException, status: str) -> None:
    ear = Ear()
    slow = ScriptedTool("slow", [hang])
    odd = tool_of("odd", lambda: broken_by(exc))
    calls = tool_call_answer(call("slow"), call("odd"))
    with pytest.raises(type(exc)) as raised, anyio.fail_after(1):
        await run(asked([calls, "Done."], slow.tool, odd), ear)
    assert raised.value is exc
    assert ear.story[-1] == f"run_end {status}"
    assert [(run.ended, run.cleaned_up) for run in slow.runs] == [("cancelled", True)]


@pytest.mark.parametrize("exc", [KeyboardInterrupt(), Unheard("fog")])
async def test_nor_out_of_prepare(exc: BaseException) -> None:
    ear = Ear()
    with pytest.raises(type(exc)):
        await run(asked([LOOK, "Done."], prepared_by(raising(exc))), ear)
    assert ear.kinds.count("run_end") == 1


# --- a tool that yields inside its own scopes


def slow_updates(event: MuleEvent) -> Any:
    """A listener that takes longer over an update than the tools below have."""
    return anyio.sleep(1) if event.type == "tool_execution_update" else None


async def yields_in_a_timeout() -> Parts:
    with anyio.move_on_after(0.05):
        yield PART
        await anyio.sleep(10)
    yield Success(MuleToolResult.text("timed out by itself"))


async def catches_its_timeout() -> Parts:
    try:
        with anyio.fail_after(0.05):
            yield PART
            await anyio.sleep(10)
    except TimeoutError:
        yield Success(MuleToolResult.text("timed out by itself"))


async def yields_in_a_group() -> Parts:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 0.01)
        yield PART
        yield Success(MuleToolResult.text("timed out by itself"))


async def yields_in_a_shield() -> Parts:
    with anyio.CancelScope(shield=True):
        yield PART
        await anyio.sleep(0.01)
        yield Success(MuleToolResult.text("timed out by itself"))


@pytest.mark.parametrize(
    "react", [lambda _event: None, slow_updates], ids=["quick listener", "slow listener"]
)
@pytest.mark.parametrize(
    "execute", [yields_in_a_timeout, catches_its_timeout, yields_in_a_group, yields_in_a_shield]
)
async def test_a_tool_may_yield_inside_its_own_scopes(execute: Any, react: Any) -> None:
    assert await result_of(tool_of("look", execute), Ear(react)) == (False, "timed out by itself")


@pytest.mark.parametrize(
    "react", [lambda _event: None, slow_updates], ids=["quick listener", "slow listener"]
)
async def test_a_failure_in_a_tools_own_group_is_told_whole(react: Any) -> None:
    """Also while the listener has a part, and it is our wait that the group of the tool cancels."""

    async def fail_soon() -> None:
        await anyio.sleep(0.01)
        raise ValueError("fog")

    async def execute() -> Parts:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail_soon)
            yield PART
            await anyio.sleep(10)

    with anyio.fail_after(5):
        assert await result_of(tool_of("look", execute), Ear(react)) == (True, "fog")


async def test_a_tool_that_times_out_while_the_listener_is_slow_tells_every_part() -> None:
    ear = Ear(slow_updates)

    async def execute() -> Parts:
        with anyio.move_on_after(0.05):
            yield PART
            await anyio.sleep(10)
        yield PART
        yield RESULT

    assert await result_of(tool_of("look", execute), ear) == (False, "open")
    assert ear.story.count("tool_execution_update look") == 2


# --- which calls run, and what they are given


async def test_an_answer_cut_off_by_its_token_limit_runs_nothing() -> None:
    look = ScriptedTool("look")
    cut = answer("I will look.", call("look", "a"), call("none", "b"), stop_reason="length")
    model = ScriptedModel([cut, "Sorry."])
    ear = Ear()
    outcome = await outcome_of(asked(model, look.tool), ear)
    assert look.prepared == []
    assert [(id, is_error) for id, is_error, _ in results_of(outcome.messages)] == [
        ("a", True),
        ("b", True),
    ]
    assert all("token limit" in text for _, _, text in results_of(outcome.messages))
    assert not any(entry.startswith("started") for entry in ear.story)
    assert len(model.requests) == 2


async def test_two_calls_of_one_id_both_run_and_are_told_apart_by_index() -> None:
    ear = Ear()
    look = ScriptedTool("look", lambda call: str(call.arguments["where"]))
    calls = tool_call_answer(call("look", "same", where="north"), call("look", "same", where="south"))
    outcome = await outcome_of(asked([calls, "Done."], look.tool), ear)
    assert results_of(outcome.messages) == [("same", False, "north"), ("same", False, "south")]
    settled = [e for e in ear.heard if e.type == "tool_checkpoint" and e.checkpoint.type == "settled"]
    assert {e.checkpoint.index: e.checkpoint.call.arguments["where"] for e in settled} == {
        0: "north",
        1: "south",
    }
    assert len({e.tool for e in settled}) == 2


async def test_one_tool_that_must_be_alone_makes_its_batch_sequential() -> None:
    log: list[str] = []

    def noting(name: str, **settings: Any) -> ScriptedTool:
        script = [lambda: log.append(f"{name} begins"), pause(10), lambda: log.append(f"{name} ends")]
        return ScriptedTool(name, [*script, MuleToolResult.text("done")], **settings)

    look, ring = noting("look"), noting("ring", execution_mode="sequential")
    calls = tool_call_answer(call("look", "1"), call("ring"), call("look", "2"))
    await outcome_of(asked([calls, "Done."], look.tool, ring.tool))
    names = ["look", "ring", "look"]
    assert log == [f"{name} {what}" for name in names for what in ("begins", "ends")]


async def test_a_tool_that_is_not_called_does_not_make_a_batch_sequential() -> None:
    look = ScriptedTool("look", [pause(10), MuleToolResult.text("done")])
    ring = ScriptedTool("ring", execution_mode="sequential")
    calls = tool_call_answer(call("look", "1"), call("look", "2"))
    await outcome_of(asked([calls, "Done."], look.tool, ring.tool))
    assert anyio.current_time() == pytest.approx(0.01)


async def test_what_a_tool_does_to_its_arguments_is_not_done_to_the_transcript() -> None:
    def spoil(call: ToolCall) -> str:
        arguments: Any = call.arguments
        arguments["where"]["name"] = "spoiled"
        arguments["list"].append("spoiled")
        arguments.clear()
        return "done"

    look = ScriptedTool("look", spoil)
    ear = Ear()
    asks = tool_call_answer(call("look", where={"name": "north"}, list=[{"deep": 1}]))
    outcome = await outcome_of(asked([asks, "Done."], look.tool), ear)
    kept = {"where": {"name": "north"}, "list": [{"deep": 1}]}
    told = [e.call.arguments for e in ear.heard if e.type == "tool_execution_end"]
    assert told == [kept]
    assert [
        b.arguments
        for m in outcome.messages
        if m.role == "assistant"
        for b in m.content
        if b.type == "toolCall"
    ] == [kept]


async def test_text_before_a_call_does_not_end_the_run() -> None:
    outcome = await outcome_of(
        asked([tool_call_answer(call("look"), text="I look."), "Open."], ScriptedTool("look").tool)
    )
    assert outcome.final is not None
    assert (outcome.turns, outcome.final.text) == (2, "Open.")


async def test_calls_decide_and_not_the_stop_reason() -> None:
    look = ScriptedTool("look")
    outcome = await outcome_of(asked([answer(call("look"), stop_reason="stop"), "Open."], look.tool))
    assert (outcome.turns, len(look.runs)) == (2, 1)


# --- what the model is told


async def test_a_result_message_holds_what_the_tool_gave_and_how_long_it_took() -> None:
    nested = NestedToolCalls(calls=(NestedToolCallRecord(id="n", name="ring", status="ok"),), complete=True)
    given = MuleToolResult(
        content=(TextContent(text="open"),),
        details={"since": 9},
        structured_content={"open": True},
        usage=Usage(output=5),
        nested_calls=nested,
    )
    look = ScriptedTool("look", [pause(25), given])
    ear = Ear()
    input = asked([LOOK, "Done."], look.tool, clock=lambda: round(anyio.current_time() * 1000))
    outcome = await outcome_of(input, ear)
    (message,) = (m for m in outcome.messages if isinstance(m, ToolResultMessage))
    assert (message.content, message.details, message.usage) == (given.content, given.details, given.usage)
    assert message.nested_calls == nested
    assert "structuredContent" not in message.to_json()
    assert message.duration_ms == 25
    assert outcome.usage.output == 0  # what a tool uses is the tool's
    assert [e.result for e in ear.heard if e.type == "tool_execution_end"] == [given]


async def test_the_time_that_a_call_waits_for_its_place_is_not_its_own() -> None:
    look = ScriptedTool("look", [pause(25), MuleToolResult.text("open")])
    calls = tool_call_answer(call("look", "a"), call("look", "b"))
    clock = lambda: round(anyio.current_time() * 1000)  # noqa: E731
    outcome = await outcome_of(asked([calls, "Done."], look.tool, clock=clock, max_parallel_tools=1))
    assert [m.duration_ms for m in outcome.messages if isinstance(m, ToolResultMessage)] == [25, 25]


async def test_progress_is_told_as_it_was_given() -> None:
    ear = Ear()
    part = progress("half", details={"done": 1})
    await result_of(ScriptedTool("look", [part, MuleToolResult.text("open")]).tool, ear)
    assert [e.part for e in ear.heard if e.type == "tool_execution_update"] == [part]


async def test_a_failure_after_progress_keeps_the_progress() -> None:
    ear = Ear()
    assert await result_of(ScriptedTool("look", [progress("half"), Fail("fog")]).tool, ear) == (True, "fog")
    assert ear.story.count("tool_execution_update look") == 1


async def test_a_run_inside_a_tool_is_a_run_of_its_own() -> None:
    inner_ear = Ear()

    async def execute() -> Parts:
        inner = await settle(run(asked(["Inner answer."]), inner_ear))
        final = inner.unwrap().final
        assert final is not None
        yield Success(MuleToolResult.text(final.text))

    ear = Ear()
    assert await result_of(tool_of("look", execute), ear) == (False, "Inner answer.")
    assert inner_ear.story[-1] == ear.story[-1] == "run_end completed"
    assert inner_ear.end.run != ear.end.run
