"""The tools of these tests see what they are for: a stream that misbehaves does not pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import httpx
import pytest

from adapters.calling import Abort, call, options_of, simple, snake
from adapters.serving import Answer, Hang, NoAnswer, Piece, Repeat, Reset, ScriptedTransport, Wait, cut
from mule.values.content import TextContent
from mule.values.errors import ModelFailed
from mule.values.messages import AssistantMessage, Context
from mule.values.model import Model, ThinkingBudgets
from mule.values.request import SimpleStreamOptions
from mule.values.stream import (
    AssistantDone,
    AssistantError,
    AssistantMessageEvent,
    AssistantStart,
    TextDelta,
    TextEnd,
    TextStart,
    Whole,
)

MODEL: Model[Any] = Model(id="m", name="m", api="a", provider="p", base_url="http://pond.test")


def message(text: str, **more: Any) -> AssistantMessage:
    """An answer."""
    content = (TextContent(text=text),)
    return AssistantMessage(
        **{"api": "a", "provider": "p", "model": "m", "stop_reason": "stop", "content": content} | more
    )


class Fake:
    """A stream of these events."""

    def __init__(self, events: Sequence[AssistantMessageEvent], result: AssistantMessage) -> None:
        self._events = iter(events)
        self._result = result

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        for event in self._events:
            return event
        raise StopAsyncIteration

    async def result(self) -> AssistantMessage:
        return self._result

    async def aclose(self) -> None:
        pass


def _part(text: str) -> Whole:
    return Whole(message(text, stop_reason="pending"))


class Changing:
    """A message so far that does not stay as it was."""

    def __init__(self) -> None:
        self.asked = 0

    def partial(self, _revision: int, /) -> AssistantMessage:
        self.asked += 1
        return message("a" * self.asked, stop_reason="pending")


DONE = AssistantDone("stop", message("ab"))
GOOD = (
    AssistantStart(_part("")),
    TextStart(0, _part("")),
    TextDelta(0, "a", _part("a")),
    TextDelta(0, "b", _part("ab")),
    TextEnd(0, "ab", _part("ab")),
    DONE,
)
FAILED = message("", stop_reason="error")


async def _problems(*events: AssistantMessageEvent, result: AssistantMessage | None = None) -> list[str]:
    stream = Fake(events, result or message("ab"))
    made = await call(
        lambda _model, _context, _options: stream,
        MODEL,
        Context(),
        SimpleStreamOptions(),
        read_partials=True,
    )
    return made.problems


async def test_a_good_stream_has_no_problems() -> None:
    assert await _problems(*GOOD) == []


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "terminal"),
        (GOOD[:-1], "terminal"),
        ((*GOOD, DONE), "terminal"),
        ((GOOD[1], GOOD[0], *GOOD[2:]), "start must come first"),
        ((*GOOD[:1], *GOOD[2:]), "not open"),
        ((*GOOD[:4], DONE), "never end"),
        ((*GOOD[:2], *GOOD[1:]), "starts twice"),
        ((*GOOD[:5], *GOOD[4:]), "without being open"),
        ((*GOOD[:3], TextDelta(0, "b", _part("a")), *GOOD[4:]), "its partial holds"),
        ((*GOOD[:3], TextDelta(0, "b", Whole(message("ab"))), *GOOD[4:]), "stop reason"),
        ((AssistantStart(Changing()), *GOOD[1:]), "changed later"),
        ((AssistantError("error", message("ab", stop_reason="error", error_message="x")),), "evidence"),
        ((AssistantError("error", FAILED, ModelFailed("unknown", FAILED)),), "say what went wrong"),
        ((AssistantError("error", FAILED, ModelFailed("unknown", message("x"))),), "another message"),
    ],
)
async def test_a_stream_that_misbehaves_is_seen(events: Sequence[AssistantMessageEvent], said: str) -> None:
    result = events[-1].error if events and isinstance(events[-1], AssistantError) else None
    assert any(said in problem for problem in await _problems(*events, result=result))


async def test_a_listener_left_on_the_signal_is_seen() -> None:
    def stream(_model: Model[Any], _context: Context, options: SimpleStreamOptions) -> Fake:
        assert options.signal is not None
        options.signal.on_abort(lambda: None)
        options.signal.on_abort(lambda: None)()
        return Fake(GOOD, message("ab"))

    made = await call(stream, MODEL, Context(), SimpleStreamOptions())
    assert made.problems == ["1 listeners were left on the signal"]


async def test_an_abort_comes_when_it_is_due() -> None:
    class Waiting(Fake):
        async def __anext__(self) -> AssistantMessageEvent:
            assert options[0].signal is not None
            await options[0].signal.wait()
            return await super().__anext__()

    options: list[SimpleStreamOptions] = []

    def stream(_model: Model[Any], _context: Context, given: SimpleStreamOptions) -> Fake:
        options.append(given)
        return Waiting(GOOD, message("ab"))

    await call(stream, MODEL, Context(), SimpleStreamOptions(), abort=Abort(after_ms=60))
    assert anyio.current_time() == pytest.approx(0.06)


def test_options_are_read_from_their_json_names() -> None:
    options = simple({"maxRetryDelayMs": 5, "thinkingBudgets": {"low": 7}, "headers": {"x-Y": None}})
    assert options.max_retry_delay_ms == 5
    assert options.thinking_budgets == ThinkingBudgets(low=7)
    assert options.headers == {"x-Y": None}
    assert snake("supportsOpenAIGrammarTools") == "supports_open_ai_grammar_tools"
    with pytest.raises(TypeError, match="no field for debug"):
        options_of(SimpleStreamOptions, {"debug": True})


# --- the scripted transport


async def _get(transport: ScriptedTransport, timeout: float | None = None) -> bytes:
    async with httpx.AsyncClient(transport=transport, timeout=timeout) as client:
        return (await client.get("http://pond.test/a")).content


async def test_pieces_come_as_they_are_told() -> None:
    body: list[Piece] = [b"a", Wait(500), Repeat(b"b", times=3, every_ms=100), *cut(b"cde", [1, 1])]
    transport = ScriptedTransport([Answer(body=body)])
    assert await _get(transport) == b"abbbcde"
    assert anyio.current_time() == pytest.approx(0.8)
    assert (transport.left_open, len(transport.requests)) == (0, 1)


@pytest.mark.parametrize(
    ("exchange", "error"),
    [
        (NoAnswer("ECONNREFUSED"), httpx.ConnectError),
        (NoAnswer("ECONNRESET"), httpx.ReadError),
        (NoAnswer("hold"), httpx.ReadTimeout),
        (Answer(body=[b"a", Reset()]), httpx.ReadError),
        (Answer(body=[b"a", Hang()]), httpx.ReadTimeout),
        (Answer(body=[b"a", Wait(60_000)]), httpx.ReadTimeout),
    ],
)
async def test_what_goes_wrong_is_what_httpx_would_raise(
    exchange: Answer | NoAnswer, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await _get(ScriptedTransport([exchange]), timeout=30)


async def test_a_request_too_many_is_counted() -> None:
    transport = ScriptedTransport([])
    with pytest.raises(AssertionError):
        await _get(transport)
    assert transport.refused == 1
