"""The scripted model streams exactly as it was told, event by event, and can be stopped anywhere."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mule.testing import (
    SCRIPTED_MODEL,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedStream,
    answer,
    error_answer,
    run_virtually,
    tool_call_answer,
)
from mule.testing.model import ABORT_TEXT, Scripted
from mule.values.content import TextContent, ThinkingContent, ToolCall
from mule.values.errors import ModelFailed
from mule.values.jsontext import join_surrogates, utf16_length
from mule.values.messages import AssistantMessage, Context, UserMessage
from mule.values.request import SimpleStreamOptions
from mule.values.signal import AbortController
from mule.values.stream import (
    AssistantDone,
    AssistantError,
    AssistantMessageEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)

CALL = ToolCall(id="c1", name="weigh", arguments={"shelf": "nine", "n": None}, thought_signature="s")
FULL = answer(
    ThinkingContent(thinking="hm, hm", thinking_signature="sig"),
    TextContent(text="a😀b", text_signature="t"),
    CALL,
    stop_reason="toolUse",
)


def start(entry: Scripted, options: SimpleStreamOptions | None = None) -> ScriptedStream:
    return ScriptedModel([entry])(SCRIPTED_MODEL, Context(), options or SimpleStreamOptions())


async def read(entry: Scripted, options: SimpleStreamOptions | None = None) -> list[AssistantMessageEvent]:
    return [event async for event in start(entry, options)]


async def test_a_text_is_streamed_in_one_piece() -> None:
    events = await read("Hello")
    assert [event.type for event in events] == ["start", "text_start", "text_delta", "text_end", "done"]
    assert events[-1] == AssistantDone("stop", answer("Hello"))


async def test_each_block_has_its_start_its_deltas_and_its_end() -> None:
    events = await read(ScriptedAnswer(FULL, chunk=4))
    assert [event.type.removeprefix("thinking_") for event in events[:5]] == (
        ["start", "start", "delta", "delta", "end"]
    )
    arguments = [event.delta for event in events if isinstance(event, ToolCallDelta)]
    assert "".join(arguments) == '{"shelf":"nine","n":null}'
    assert {len(piece) for piece in arguments[:-1]} == {4}
    assert events[-1] == AssistantDone("toolUse", FULL)


async def test_an_empty_text_has_one_empty_delta() -> None:
    assert [event.delta for event in await read("") if isinstance(event, TextDelta)] == [""]
    chunked = await read(ScriptedAnswer(answer(""), chunk=3))
    assert [event.delta for event in chunked if isinstance(event, TextDelta)] == [""]


async def test_deltas_are_cut_by_utf16_units_even_inside_a_character() -> None:
    events = await read(ScriptedAnswer(answer("a😀b"), chunk=2))
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [event.delta for event in deltas] == ["a\ud83d", "\ude00b"]
    assert [text_of(event.partial) for event in deltas] == ["a\ud83d", "a😀b"]


async def test_a_partial_is_pending_and_has_the_blocks_so_far() -> None:
    events = await read(ScriptedAnswer(FULL, chunk=100))
    grown = [event for event in events if not isinstance(event, AssistantDone | AssistantError)]
    partials = {event.type: event.partial for event in grown}
    assert {partial.stop_reason for partial in partials.values()} == {"pending"}
    assert partials["start"].content == ()
    assert partials["thinking_delta"].content == (ThinkingContent(thinking="hm, hm"),)
    assert partials["thinking_end"].content == FULL.content[:1]
    assert partials["text_start"].content == (*FULL.content[:1], TextContent(text=""))
    assert partials["toolcall_delta"].content[-1] == ToolCall(id="c1", name="weigh", arguments={})
    assert partials["toolcall_end"].content == FULL.content


async def test_a_partial_has_no_error_text() -> None:
    failed = answer("Once", stop_reason="error", error_message="it broke")
    first, *_, last = await read(failed)
    assert not isinstance(first, AssistantDone | AssistantError)
    assert "errorMessage" not in first.partial.to_json()
    assert last == AssistantError("error", failed)


async def test_a_partial_never_changes() -> None:
    events = await read(ScriptedAnswer(FULL, chunk=1))
    grown = [event for event in events if not isinstance(event, AssistantDone | AssistantError)]
    assert [event.partial for event in grown] == [event.partial for event in reversed(grown)][::-1]


async def test_the_start_can_be_left_out() -> None:
    assert (await read(ScriptedAnswer(answer("x"), start=False)))[0].type == "text_start"


async def test_the_last_event_can_stand_alone() -> None:
    assert [event.type for event in await read(ScriptedAnswer(answer("x"), events=False))] == ["done"]
    assert [event.type for event in await read(ScriptedAnswer(error_answer("x"), events=False))] == [
        "error"
    ]


async def test_without_a_last_event_the_message_is_the_result() -> None:
    stream = start(ScriptedAnswer(answer("x"), terminal=False))
    assert [event.type async for event in stream][-1] == "text_end"
    assert await stream.result() == answer("x")


async def test_the_result_reads_what_was_not_read() -> None:
    stream = start("x")
    await anext(stream)
    assert await stream.result() == answer("x")
    assert [event async for event in stream] == []


async def test_the_events_before_the_last_can_be_cut() -> None:
    events = await read(ScriptedAnswer(answer("abc", stop_reason="error"), chunk=1, cut_after=3))
    assert [event.type for event in events] == ["start", "text_start", "text_delta", "error"]


async def test_an_abort_shows_in_the_next_event() -> None:
    controller = AbortController()
    stream = start(
        ScriptedAnswer(answer("Once upon"), chunk=4), SimpleStreamOptions(signal=controller.signal)
    )
    for _ in range(3):
        await anext(stream)
    controller.abort()
    last = await anext(stream)
    assert isinstance(last, AssistantError)
    assert last.reason == last.error.stop_reason == "aborted"
    assert last.error.error_message == ABORT_TEXT
    assert text_of(last.error) == "Once"
    assert [event async for event in stream] == []
    assert await stream.result() == last.error


async def test_an_aborted_request_is_answered_even_past_the_script() -> None:
    controller = AbortController()
    controller.abort()
    model = ScriptedModel([])
    stream = model(SCRIPTED_MODEL, Context(), SimpleStreamOptions(signal=controller.signal))
    assert (await stream.result()).stop_reason == "aborted"


async def test_a_hanging_answer_waits_for_the_abort() -> None:
    controller = AbortController()
    entry = ScriptedAnswer(answer("abc"), chunk=1, cut_after=3, hang_until_aborted=True)
    stream = start(entry, SimpleStreamOptions(signal=controller.signal))
    began = anyio.current_time()

    async def abort_later() -> None:
        await anyio.sleep(60)
        controller.abort()

    async with anyio.create_task_group() as tg:
        tg.start_soon(abort_later)
        events = [event async for event in stream]
    assert anyio.current_time() - began == 60
    assert [event.type for event in events] == ["start", "text_start", "text_delta", "error"]
    assert text_of(await stream.result()) == "a"


async def test_closing_ends_a_stream_that_hangs() -> None:
    stream = start(ScriptedAnswer(answer("abc"), cut_after=0, hang_until_aborted=True))
    events: list[AssistantMessageEvent] = []

    async def read_all() -> None:
        events.extend([event async for event in stream])

    async with anyio.create_task_group() as tg:
        tg.start_soon(read_all)
        await anyio.wait_all_tasks_blocked()
        assert not stream.closed
        await stream.aclose()
        await stream.aclose()
    assert stream.closed
    assert events == []
    assert (await stream.result()).stop_reason == "aborted"


async def test_silence_takes_its_time() -> None:
    began = anyio.current_time()
    await read(ScriptedAnswer(answer("x"), delay_ms=1_500))
    assert anyio.current_time() - began == pytest.approx(5 * 1.5)


async def test_a_cancelled_read_loses_no_event() -> None:
    stream = start(ScriptedAnswer(answer("x"), delay_ms=1_000))
    with anyio.move_on_after(0.5):
        await anext(stream)
    assert (await anext(stream)).type == "start"


async def test_a_stream_can_break() -> None:
    stream = start(ScriptedAnswer(answer("x"), cut_after=1, raises=OSError("cut")))
    assert (await anext(stream)).type == "start"
    with pytest.raises(OSError, match="cut"):
        await anext(stream)


def test_a_call_can_raise() -> None:
    with pytest.raises(OSError, match="no"):
        start(OSError("no"))


async def test_a_script_that_is_used_up_says_so() -> None:
    model = ScriptedModel(["one"])
    model(SCRIPTED_MODEL, Context(), SimpleStreamOptions())
    stream = model(SCRIPTED_MODEL, Context(), SimpleStreamOptions())
    [event] = [event async for event in stream]
    assert isinstance(event, AssistantError)
    assert "used up" in (event.error.error_message or "")
    assert isinstance(event.failure, ModelFailed)
    assert event.failure.ending == "invalid_request"
    assert model.left == 0


async def test_what_was_asked_is_kept() -> None:
    model = ScriptedModel(lambda context: f"{len(context.messages)} messages")
    options = SimpleStreamOptions(api_key="secret", temperature=0.5)
    context = Context(messages=(UserMessage(content="Hi"),))
    stream = model(SCRIPTED_MODEL, context, options)
    assert text_of(await stream.result()) == "1 messages"
    [request] = model.requests
    assert (request.model, request.context, request.options) == (SCRIPTED_MODEL, context, options)
    assert "secret" not in repr(request)


def test_evidence_rides_on_an_error() -> None:
    async def main() -> AssistantMessageEvent:
        failed = error_answer("429")
        evidence = ModelFailed("rate_limited", failed, status=429)
        return (await read(ScriptedAnswer(failed, events=False, failure=evidence)))[0]

    event = run_virtually(main)
    assert isinstance(event, AssistantError)
    assert event.failure is not None
    assert event.failure.status == 429


@pytest.mark.parametrize(
    ("stream", "types"),
    [
        (None, ["start", "text_start", "text_delta", "text_end", "done"]),
        ({"chunk": 1, "start": False}, ["text_start", "text_delta", "text_delta", "text_end", "done"]),
        ({"cutAfter": 1, "terminal": False}, ["start"]),
        ({"events": False}, ["done"]),
    ],
)
async def test_an_answer_can_be_written_as_json(stream: Any, types: list[str]) -> None:
    entry = ScriptedAnswer.from_json({**answer("ab").to_json(), "stream": stream})
    assert [event.type for event in await read(entry)] == types


def test_a_manner_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="stream"):
        ScriptedAnswer.from_json({**answer("ab").to_json(), "stream": {"speed": 1}})
    with pytest.raises(ValueError, match="chunk"):
        ScriptedAnswer(answer(""), chunk=0)
    with pytest.raises(ValueError, match="pending"):
        ScriptedAnswer(answer("", stop_reason="pending"))


texts = st.text(st.characters(codec=None) | st.sampled_from("a\ud83d\ude00😀é"), max_size=12)
blocks = st.one_of(
    texts.map(lambda text: TextContent(text=text)),
    texts.map(lambda text: ThinkingContent(thinking=text)),
    st.dictionaries(texts, texts, max_size=3).map(lambda a: ToolCall(id="c", name="t", arguments=a)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(blocks, max_size=4), st.none() | st.integers(1, 5))
def test_deltas_add_up_and_the_last_partial_is_the_whole(content: list[Any], chunk: int | None) -> None:
    message = answer(*content)
    events = run_virtually(read, ScriptedAnswer(message, chunk=chunk))
    grown = [event for event in events if not isinstance(event, AssistantDone | AssistantError)]
    assert grown[-1].partial.content == message.content
    for index, block in enumerate(message.content):
        deltas = [
            event.delta
            for event in grown
            if isinstance(event, TextDelta | ThinkingDelta) and event.content_index == index
        ]
        if isinstance(block, TextContent):
            assert join_surrogates("".join(deltas)) == join_surrogates(block.text)
        assert all(chunk is None or utf16_length(delta) <= chunk for delta in deltas)


def test_a_call_answer_may_say_something_first() -> None:
    message = tool_call_answer(CALL, text="Let me look.")
    assert [type(block) for block in message.content] == [TextContent, ToolCall]


def text_of(message: AssistantMessage) -> str:
    return "".join(block.text for block in message.content if isinstance(block, TextContent))
