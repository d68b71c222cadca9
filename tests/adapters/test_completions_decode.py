"""Chunks of chat completions, as servers really send them, become one answer or one typed failure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mule.adapters._failing import CallFailed
from mule.adapters._sse import SseFrame
from mule.adapters.openai_completions.compat import endpoint_of
from mule.adapters.openai_completions.decode import Decoder
from mule.transcript.assemble import AnswerBuilder
from mule.values.content import ToolCall
from mule.values.messages import AssistantMessage
from mule.values.model import Model, OpenAICompletionsCompat
from mule.values.stream import AssistantDone, AssistantError, AssistantMessageEvent

MODEL: Final = Model(
    id="heron", name="Heron", api="openai-completions", provider="marsh", base_url="http://pond.test"
)


def decode(
    *chunks: object,
    model: Model[Any] = MODEL,
    grammars: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    marked: bool = True,
) -> tuple[AssistantMessage, list[AssistantMessageEvent]]:
    """The message and the events of an answer; `marked`: `[DONE]` comes at its end."""
    builder = AnswerBuilder(model, timestamp=1)
    made_up = itertools.count()
    decoder = Decoder(
        builder,
        model,
        endpoint_of(model),
        grammar_properties=grammars or {},
        own_names=names or {},
        new_id=lambda: f"made up {next(made_up)}",
    )
    events: list[AssistantMessageEvent] = [builder.start()]
    for chunk in chunks:
        events += decoder.take(decoder.parse(SseFrame(json.dumps(chunk).encode())))
    if marked:
        assert decoder.is_end(SseFrame(b"[DONE]"))
    events += decoder.close_blocks()
    done = decoder.outcome()
    return done.message, [*events, done]


def chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    """One chunk with this delta."""
    return {"id": "cc-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = None, id: object = None, name: str | None = None, text: object = None
) -> object:
    """One entry of `tool_calls`; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    entry = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in entry.items() if value is not None}


def calls(*deltas: object, finish: str = "tool_calls", **how: Any) -> list[tuple[str, str, object]]:
    """The calls that come of these entries, one a chunk: id, name, arguments or why they are bad."""
    message, _ = decode(*(chunk(tool_calls=[delta]) for delta in deltas), chunk(finish), **how)
    return [
        (block.id, block.name, block.arguments_error or block.arguments)
        for block in message.content
        if isinstance(block, ToolCall)
    ]


# --- which call a delta belongs to


def test_deltas_belong_together_by_their_index() -> None:
    assert calls(
        call(0, "a", "tide", '{"x"'),
        call(1, "b", "bell", '{"y"'),
        call(0, text=":1}"),
        call(1, text=":2}"),
    ) == [("a", "tide", {"x": 1}), ("b", "bell", {"y": 2})]


def test_two_whole_calls_under_one_index_are_two() -> None:
    assert calls(call(0, "a", "tide", '{"x":1}'), call(0, "b", "tide", '{"x":2}')) == [
        ("a", "tide", {"x": 1}),
        ("b", "tide", {"x": 2}),
    ]
    assert calls(call(0, "a", "bell", ""), call(0, "b", "tide", '{"x"'), call(0, text=":2}")) == [
        ("a", "bell", {}),
        ("b", "tide", {"x": 2}),
    ]


def test_two_whole_calls_without_any_id_under_one_index_are_two() -> None:
    assert calls(call(0, name="tide", text='{"x":1}'), call(0, name="tide", text='{"x":2}')) == [
        ("made up 0", "tide", {"x": 1}),
        ("made up 1", "tide", {"x": 2}),
    ]


def test_an_id_that_changes_under_way_is_still_one_call() -> None:
    assert calls(
        call(0, "a", "tide", '{"x"'),
        call(0, "b", "", ":"),
        call(0, "c", text="1"),
        call(0, "d", "tide", "}"),
    ) == [("a", "tide", {"x": 1})]


def test_id_and_name_may_be_repeated_with_each_delta() -> None:
    assert calls(call(0, "a", "tide", '{"x"'), call(0, "a", "tide", ":1}"), call(0, "a", "tide", "")) == [
        ("a", "tide", {"x": 1})
    ]
    assert calls(
        call(0, name="tide", text=""), call(0, name="tide", text='{"x"'), call(0, name="tide", text=":1}")
    ) == [("made up 0", "tide", {"x": 1})]


def test_calls_without_an_index_go_by_their_id() -> None:
    assert calls(
        call(None, "a", "tide", '{"x"'),
        call(None, "b", "bell", "{"),
        call(None, "a", text=":1}"),
        call(None, "b", text="}"),
    ) == [("a", "tide", {"x": 1}), ("b", "bell", {})]


def test_a_delta_with_neither_goes_on_with_the_last_call() -> None:
    assert calls(call(name="tide", text='{"x"'), call(text=":1}"), call(name="bell", text="{}")) == [
        ("made up 0", "tide", {"x": 1}),
        ("made up 1", "bell", {}),
    ]


def test_an_index_may_come_late() -> None:
    assert calls(call(None, "a", "tide", '{"x"'), call(0, "a", text=":1}"), call(0, text=" ")) == [
        ("a", "tide", {"x": 1})
    ]


def test_an_id_that_comes_twice_is_two_calls_where_two_are_whole() -> None:
    assert calls(call(0, "a", "tide", '{"x":1}'), call(1, "a", "tide", '{"x":2}')) == [
        ("a", "tide", {"x": 1}),
        ("made up 0", "tide", {"x": 2}),
    ]
    # An index that counts deltas instead of calls.
    assert calls(call(0, "a", "tide", '{"x"'), call(1, "a", text=":1"), call(2, "a", text="}")) == [
        ("a", "tide", {"x": 1})
    ]


def test_calls_that_cannot_be_told_apart_do_not_run() -> None:
    ((_, _, problem),) = calls(call(0, "a", "tide", '{"x":1}'), call(0, "a", "tide", '{"x":2}'))
    assert "more text behind" in str(problem)


def test_an_id_or_name_that_comes_late_is_kept() -> None:
    assert calls(call(0, text="{"), call(0, "late", text="}"), call(0, name="tide", text="")) == [
        ("late", "tide", {})
    ]


def test_arguments_may_come_as_the_object_that_they_are() -> None:
    assert calls(call(0, "a", "tide", {"x": [1, None]})) == [("a", "tide", {"x": [1, None]})]


def test_an_id_may_be_a_number() -> None:
    assert calls(call(0, 17, "tide", "{}")) == [("17", "tide", {})]


def test_a_tool_has_its_own_name_again() -> None:
    assert calls(call(0, "a", "files_read_x1", "{}"), names={"files_read_x1": "files.read"}) == [
        ("a", "files.read", {})
    ]


def test_text_under_a_grammar_is_the_tool_s_one_argument() -> None:
    deltas = [
        {"index": 0, "id": "k", "type": "custom", "custom": {"name": "knot", "input": 'over "'}},
        {"index": 0, "custom": {"input": "\nunder\ud83d"}},
        {"index": 0, "custom": {"input": "\ude00"}},
    ]
    assert calls(*deltas, grammars={"knot": "script"}) == [("k", "knot", {"script": 'over "\nunder😀'})]


def test_a_custom_call_without_input_has_an_empty_one() -> None:
    delta = {"index": 0, "id": "k", "custom": {"name": "knot"}}
    assert calls(delta, grammars={"knot": "script"}) == [("k", "knot", {"script": ""})]


# --- texts


def test_text_and_reasoning_are_one_block_each() -> None:
    message, _ = decode(
        chunk(reasoning_content="h"),
        chunk(content="a"),
        chunk(reasoning_content="m"),
        chunk(content="b"),
        chunk("stop"),
    )
    assert [block.to_json() for block in message.content] == [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
        {"type": "text", "text": "ab"},
    ]


def test_text_may_come_in_parts() -> None:
    message, _ = decode(chunk(content=[{"type": "text", "text": "a"}, {"type": "odd"}, 5]), chunk("stop"))
    assert message.text == "a"


def test_a_refusal_is_said() -> None:
    message, _ = decode(chunk(refusal="I will not."), chunk("stop"))
    assert message.text == "I will not."


def test_a_whole_answer_instead_of_deltas_is_read() -> None:
    whole = {"role": "assistant", "content": "Aye.", "tool_calls": [call(None, "a", "tide", "{}")]}
    message, _ = decode({"choices": [{"message": whole, "finish_reason": "tool_calls"}]})
    assert message.text == "Aye."
    assert message.stop_reason == "toolUse"
    assert len(message.content) == 2


# --- the end


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "toolUse"),
    ],
)
def test_reasons_by_other_names_are_known(reason: str, stop: str) -> None:
    message, _ = decode(chunk(content="a"), chunk(reason))
    assert (message.stop_reason, message.raw_stop_reason) == (stop, reason)


def test_an_unknown_reason_with_whole_calls_lets_them_run() -> None:
    assert calls(call(0, "a", "tide", "{}"), finish="kraken") == [("a", "tide", {})]


@pytest.mark.parametrize(
    ("chunks", "ending"),
    [
        ([chunk(content="a")], "truncated"),
        ([], "truncated"),
        ([chunk("kraken", content="a")], "unknown"),
        ([chunk("kraken", tool_calls=[call(0, "a", "tide", '{"x"')])], "unknown"),
        ([chunk("content_filter")], "content_filtered"),
        ([chunk("SAFETY")], "content_filtered"),
        ([chunk("network_error")], "network"),
    ],
)
def test_an_end_that_is_none_is_a_failure(chunks: list[object], ending: str) -> None:
    with pytest.raises(CallFailed) as caught:
        decode(*chunks)
    assert caught.value.ending == ending


@pytest.mark.parametrize(
    ("error", "ending", "text"),
    [
        ({"error": {"message": "deep", "type": "server_error", "code": 503}}, "overloaded", "deep"),
        ({"error": {"message": "deep", "code": 502, "metadata": {"raw": "dry"}}}, "server_error", "dry"),
        ({"error": "the pond is overloaded"}, "overloaded", "pond"),
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, "context_overflow", "x"),
        (
            {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400},
            "invalid_request",
            "bad",
        ),
        ({"id": "cc", "choices": [], "error": {"oops": 1}}, "unknown", "oops"),
    ],
)
def test_an_error_in_a_chunk_ends_the_answer(error: object, ending: str, text: str) -> None:
    with pytest.raises(CallFailed) as caught:
        decode(chunk(content="a"), error)
    assert caught.value.ending == ending
    assert text in caught.value.text


def test_an_event_named_error_is_one_whatever_it_holds() -> None:
    decoder = Decoder(
        AnswerBuilder(MODEL, timestamp=1), MODEL, endpoint_of(MODEL), grammar_properties={}, own_names={}
    )
    with pytest.raises(CallFailed, match="dry"):
        decoder.take(decoder.parse(SseFrame(b'{"message":"dry"}', "error")))


def test_no_error_is_no_error() -> None:
    assert decode({"error": None, **chunk(content="a")}, chunk("stop"))[0].text == "a"


def test_an_endpoint_without_finish_reasons_marks_its_end() -> None:
    model = MODEL.with_(compat=OpenAICompletionsCompat(supports_finish_reason=False))
    assert decode(chunk(content="a"), model=model)[0].stop_reason == "stop"
    assert decode(chunk(tool_calls=[call(0, "a", "t", "{}")]), model=model)[0].stop_reason == "toolUse"
    with pytest.raises(CallFailed, match="DONE"):
        decode(chunk(content="a"), model=model, marked=False)


# --- numbers


@pytest.mark.parametrize(
    ("raw", "counts"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5, 0, 0, 15)),
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1}},
            (5, 0, 4, 1, 10),
        ),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 3}, (7, 0, 3, 0, 10)),
        ({"prompt_tokens": 10, "cached_tokens": 2}, (8, 0, 2, 0, 10)),
        ({"prompt_tokens": 3, "cached_tokens": 5}, (0, 0, 5, 0, 5)),
        (
            {"prompt_tokens": None, "completion_tokens": "many", "prompt_tokens_details": []},
            (0, 0, 0, 0, 0),
        ),
        ({"prompt_tokens": -5, "completion_tokens": True}, (0, 0, 0, 0, 0)),
    ],
)
def test_tokens_are_counted_once(raw: dict[str, object], counts: tuple[int, ...]) -> None:
    usage = decode(chunk("stop"), {"choices": [], "usage": raw})[0].usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens) == counts


# --- anything at all

_KEYS: Final = (
    *("id", "index", "model", "error", "object", "message", "code", "choices", "delta", "usage"),
    *("finish_reason", "content", "refusal", "reasoning", "reasoning_details", "type", "text", "summary"),
    *("data", "tool_calls", "function", "custom", "name", "arguments", "input", "prompt_tokens"),
    *("prompt_tokens_details", "cached_tokens"),
)
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text('ab{}:"1,\ud83d', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
_INNER: Final = st.dictionaries(st.sampled_from(["name", "arguments", "input"]), _JSON, max_size=2)
_ENTRY: Final = st.fixed_dictionaries(
    {}, optional={"index": _JSON, "id": _JSON, "function": _INNER, "custom": _INNER}
)
_DELTA: Final = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("content", "reasoning", "refusal", "reasoning_details"), _JSON),
        "tool_calls": st.lists(_ENTRY, max_size=3),
    },
)
_CHUNK: Final = _JSON | st.builds(lambda delta: {"choices": [{"delta": delta}]}, _DELTA)


@given(st.lists(_CHUNK, max_size=6))
def test_whatever_comes_is_an_answer_or_a_typed_failure(chunks: list[Any]) -> None:
    builder = AnswerBuilder(MODEL, timestamp=1)
    decoder = Decoder(builder, MODEL, endpoint_of(MODEL), grammar_properties={}, own_names={})
    events: list[AssistantMessageEvent] = []
    try:
        for raw in chunks:
            events += decoder.take(raw)
    except CallFailed:
        pass
    decoder.seal()
    _check_blocks(events)
    for event in events:
        assert not isinstance(event, AssistantDone | AssistantError)
        assert event.partial.stop_reason == "pending"
    message = builder.failed("unknown", "over").error
    assert AssistantMessage.from_json(message.to_json()) == message


def _check_blocks(events: Iterable[AssistantMessageEvent]) -> None:
    begun: set[int] = set()
    for event in events:
        if event.type in ("text_start", "thinking_start", "toolcall_start"):
            assert event.content_index == len(begun)
            begun.add(event.content_index)
        elif event.type in ("text_delta", "thinking_delta", "toolcall_delta"):
            assert event.content_index in begun
