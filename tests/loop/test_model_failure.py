"""Law 4: however a model call fails, there is an answer that says so, and the run ends failed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from loop.runs import Ear, FakeStream, asked, call, error_of, noted, outcome_of
from loop.test_tools import scope_cancelled
from mule.effect import (
    AssistantDone,
    AssistantError,
    AssistantMessage,
    AssistantStart,
    MessageEnd,
    ModelFailed,
    MuleError,
    RunEnd,
    SimpleStreamOptions,
    TextContent,
    TextDelta,
    TurnEnd,
    Usage,
    Whole,
    run,
)
from mule.testing import (
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    answer,
    error_answer,
    tool_call_answer,
)

WHOLE = answer("Half an answer.")
PENDING = WHOLE.with_(stop_reason="pending", content=(TextContent(text="Half an"),))
START = AssistantStart(Whole(PENDING))
DELTA = TextDelta(0, "Half an", Whole(PENDING))


class Broken:
    """A source of partials that has none."""

    def partial(self, _revision: int, /) -> AssistantMessage:
        raise LookupError("the buffer is gone")


def streaming(*events: Any, **settings: Any) -> Callable[..., FakeStream]:
    stream = FakeStream(events, **settings)
    return lambda *_request: stream


async def failed_with(stream: Any, ear: Ear | None = None, **settings: Any) -> ModelFailed:
    """Run on this stream function. The run must fail, and tell everything that it owes."""
    ear = ear or Ear()
    error = await error_of(asked([], stream=stream, **settings), ear)
    reason = error.reason
    assert isinstance(reason, ModelFailed)
    assert ear.story[-3:] == ["message_end assistant", "turn_end", "run_end failed"]
    message_end, turn_end, run_end = ear.heard[-3:]
    assert isinstance(message_end, MessageEnd)
    assert isinstance(turn_end, TurnEnd)
    assert isinstance(run_end, RunEnd)
    assert reason.message is message_end.value is turn_end.completed.message
    assert run_end.error is error
    assert error.at == message_end.message
    assert error.outcome is not None
    assert error.outcome.final is reason.message is error.outcome.messages[-1]
    return reason


async def _raising_later(*_request: object) -> Any:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError("no route")


async def _giving_later(*_request: object) -> Any:
    return 7


def _raising(*_request: object) -> Any:
    raise RuntimeError("no route")


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (_raising, "no route"),
        (_raising_later, "no route"),
        (_giving_later, "int"),
        (lambda *_request: None, "NoneType"),
        (lambda *_request: [DELTA], "list"),
        (lambda: None, "argument"),
    ],
)
async def test_a_stream_function_that_gives_no_stream_is_a_malformed_answer(stream: Any, told: str) -> None:
    reason = await failed_with(stream)
    assert reason.ending == "malformed"
    message = reason.message
    assert (message.stop_reason, message.content) == ("error", ())
    assert told in str(message.error_message)
    assert (message.api, message.provider, message.model) == ("scripted", "scripted", "scripted-1")


@pytest.mark.parametrize(
    "events",
    [
        (RuntimeError("wire cut"),),
        (START, RuntimeError("wire cut")),
        (START, DELTA, RuntimeError("wire cut")),
    ],
)
async def test_a_stream_that_raises_keeps_what_had_arrived(events: tuple[Any, ...]) -> None:
    ear = Ear()
    stream = FakeStream(events)
    reason = await failed_with(lambda *_request: stream, ear)
    assert reason.ending == "malformed"
    assert "wire cut" in str(reason.message.error_message)
    assert reason.message.stop_reason == "error"
    assert reason.message.text == ("Half an" if len(events) > 1 else "")
    assert ear.story.count("message_start assistant") == 1
    assert stream.closed == 1
    assert ear.end.error is not None
    assert ear.end.error.__cause__ is events[-1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: FakeStream([START, DELTA], result=RuntimeError("no result")),
        lambda: FakeStream([START, DELTA], result=None),
        lambda: FakeStream([START, DELTA], result=PENDING),
        lambda: FakeStream([START, DELTA, "garbage"]),
        lambda: FakeStream([START, DELTA, None]),
        lambda: FakeStream([START, DELTA, AssistantDone("stop", None)]),  # type: ignore[arg-type]  # a host's
        lambda: FakeStream([START, DELTA, AssistantDone("stop", PENDING)]),
        lambda: FakeStream([START, DELTA, AssistantError("error", "503")]),  # type: ignore[arg-type]  # a host's
    ],
)
async def test_a_stream_that_ends_in_nonsense_is_a_malformed_answer(make: Callable[[], FakeStream]) -> None:
    stream = make()
    reason = await failed_with(lambda *_request: stream)
    assert reason.ending == "malformed"
    assert reason.message.text == "Half an"
    assert stream.closed == 1


@pytest.mark.parametrize(
    "events", [(AssistantStart(Broken()),), (START, TextDelta(0, "x", Broken()), RuntimeError("wire cut"))]
)
async def test_a_stream_whose_partials_are_broken_is_a_malformed_answer(events: tuple[Any, ...]) -> None:
    reason = await failed_with(streaming(*events))
    assert reason.ending == "malformed"
    assert reason.message.text == ""


async def test_a_stream_without_a_terminal_event_is_decided_by_its_result() -> None:
    good = await outcome_of(asked([], stream=streaming(START, DELTA, result=WHOLE)))
    assert good.final is not None
    assert good.final.text == "Half an answer."
    bad = await failed_with(streaming(START, DELTA, result=error_answer("503 overloaded")))
    assert bad.ending == "overloaded"


async def test_events_after_the_last_one_are_not_read() -> None:
    stream = FakeStream([START, AssistantDone("stop", WHOLE), DELTA])
    ear = Ear()
    await outcome_of(asked([], stream=lambda *_request: stream), ear)
    assert stream.reads == 2
    assert stream.closed == 1
    assert "text_delta" not in ear.story


@pytest.mark.parametrize(
    "ending", [AssistantDone("stop", WHOLE), AssistantError("error", error_answer("503"))]
)
async def test_what_closing_the_stream_raises_does_not_matter(ending: Any) -> None:
    async def stuck() -> None:
        raise RuntimeError("door stuck")

    input = asked([], stream=streaming(START, ending, aclose=stuck))
    ear = Ear()
    await run(input, ear)
    assert ear.end.status == ("completed" if isinstance(ending, AssistantDone) else "failed")


async def test_an_iterator_of_the_stream_is_closed_with_it() -> None:
    """A stream whose `__aiter__` is a generator leaves one behind where its last event is not its end."""
    closed = []

    class Generating:
        async def __aiter__(self) -> Any:
            try:
                yield START
                yield AssistantDone("stop", WHOLE)
                yield DELTA
            finally:
                await anyio.lowlevel.checkpoint()
                closed.append("iterator")

        async def result(self) -> AssistantMessage:
            return WHOLE

        async def aclose(self) -> None:
            closed.append("stream")

    await outcome_of(asked([], stream=lambda *_request: Generating()))
    assert closed == ["iterator", "stream"]


# --- answers that say themselves that they failed


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
@pytest.mark.parametrize("manner", [{}, {"start": False}, {"events": False}, {"terminal": False}])
async def test_an_answer_that_failed_fails_the_run(stop_reason: Any, manner: dict[str, Any]) -> None:
    failed = answer("Half", stop_reason=stop_reason, error_message="503 overloaded")
    reason = await failed_with(ScriptedModel([ScriptedAnswer(failed, **manner)]))
    assert reason.ending == ("aborted" if stop_reason == "aborted" else "overloaded")
    assert reason.message.text == "Half"
    assert reason.message.error_message == "503 overloaded"


async def test_the_evidence_of_the_provider_is_handed_on() -> None:
    failed = error_answer("come back later")
    headers = {"x-request-id": "7"}
    evidence = ModelFailed("rate_limited", failed, 429, headers, 30_000)
    reason = await failed_with(ScriptedModel([ScriptedAnswer(failed, failure=evidence)]))
    assert (reason.ending, reason.status, reason.headers) == ("rate_limited", 429, headers)
    assert reason.retry_after_ms == 30_000
    assert reason.message.error_message == "come back later"


async def test_without_evidence_the_text_is_asked() -> None:
    reason = await failed_with(
        ScriptedModel([error_answer("prompt is too long: 213 tokens > 200 maximum")])
    )
    assert reason.ending == "context_overflow"


@pytest.mark.parametrize(
    ("event", "stop_reason"),
    [
        (AssistantError("error", WHOLE), "error"),
        (AssistantError("aborted", WHOLE), "aborted"),
        (AssistantDone("stop", error_answer("503")), "error"),
    ],
)
async def test_event_and_message_need_not_agree_that_it_failed(event: Any, stop_reason: str) -> None:
    reason = await failed_with(streaming(START, event))
    assert reason.message.stop_reason == stop_reason


async def test_the_tools_of_a_failed_answer_do_not_run_and_nothing_is_polled_after_it() -> None:
    polls: list[str] = []
    look = ScriptedTool("look")
    failed = tool_call_answer(call("look")).with_(stop_reason="error", error_message="503")
    input = asked(
        [failed],
        look.tool,
        get_steering_messages=lambda: noted(polls, "steering", []),
        get_follow_up_messages=lambda: noted(polls, "follow-ups", []),
        should_stop_after_turn=lambda _turn: noted(polls, "stop?", False),
    )
    ear = Ear()
    await error_of(input, ear)
    assert look.prepared == []
    assert polls == ["steering"]
    assert "tool_execution_start look" not in ear.story


async def test_the_error_keeps_what_was_reached_before_the_failure() -> None:
    usage = Usage(input=3, output=5)
    look = ScriptedTool("look")
    script = [tool_call_answer(call("look"), usage=usage), error_answer("503", usage=usage)]
    error = await error_of(asked(script, look.tool))
    reached = error.outcome
    assert reached is not None
    assert [m.role for m in reached.new_messages] == [
        "system",
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert (reached.turns, reached.ended) == (2, None)
    assert (reached.usage.input, reached.usage.output) == (6, 10)


# --- not the model's failure


async def test_a_cancel_that_nobody_ordered_out_of_the_stream_is_its_failure() -> None:
    async def odd(*_request: object) -> Any:
        return await anext(aiter(scope_cancelled()))

    class Odd(FakeStream):
        async def __anext__(self) -> Any:
            return await anext(aiter(scope_cancelled()))

    for stream in (odd, lambda *_request: Odd()):
        reason = await failed_with(stream)
        assert reason.ending == "malformed"


@pytest.mark.parametrize("where", ["call", "read", "result"])
async def test_ctrl_c_out_of_the_stream_is_none(where: str) -> None:
    stop = KeyboardInterrupt()

    def interrupted(*_request: object) -> Any:
        raise stop

    streams = {
        "call": interrupted,
        "read": streaming(START, stop),
        "result": streaming(START, result=stop),
    }
    ear = Ear()
    with pytest.raises(KeyboardInterrupt):
        await run(asked([], stream=streams[where]), ear)
    assert ear.end.status == "cancelled"


async def test_a_key_in_the_text_of_an_exception_is_not_repeated() -> None:
    key = "sk-pond-0123456789"

    def refuse(_model: object, _context: object, options: SimpleStreamOptions) -> Any:
        raise RuntimeError(f"401 for https://pond.test/?key={options.api_key} {options.headers}")

    options = SimpleStreamOptions(api_key=key, headers={"x-api-key": "hk-0123456789"})
    ear = Ear()
    error = await error_of(asked([], stream=refuse, options=options), ear)
    shown = f"{error} {error!r} {ear.heard!r} {[event.to_json() for event in ear.heard]}"
    assert "401 for https://pond.test/" in shown
    assert key not in shown
    assert "hk-0123456789" not in shown


async def test_an_error_of_the_stream_function_may_be_a_mule_error() -> None:
    """One that calls another run, say. It is no failure of this run's hooks or listener."""

    def refuse(*_request: object) -> Any:
        raise MuleError(ModelFailed("quota", error_answer("no more")))

    reason = await failed_with(refuse)
    assert reason.ending == "malformed"
