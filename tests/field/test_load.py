"""A long answer costs in proportion to its length, in work and in memory.

Work is counted in calls of functions, which no busy machine can change.
"""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import pytest

from adapters.calling import simple
from adapters.serving import Answer, Piece, Repeat, ScriptedTransport, bare_environment
from field.reported import KEY, FieldCase, context_of, exchanges_of, model_of, options_json
from field.test_exchanges import mismatches
from mule.adapters.registry import stream_model
from mule.testing import run_virtually
from mule.values.content import TextContent, ThinkingContent, ToolCall
from mule.values.messages import AssistantMessage
from mule.values.stream import AssistantDone, AssistantError

MODEL: Final = FieldCase(
    "load",
    "load",
    "openai-completions",
    {
        "model": {"id": "pond-1", "name": "Pond 1", "api": "openai-completions", "provider": "pondworks"},
        "context": {"messages": [{"role": "user", "content": "hi", "timestamp": 1}]},
    },
)
SHORT: Final = 2_500
LONG: Final = 4 * SHORT
GROWTH: Final = 2.6**2
"""Twice the length may cost 2.6 times as much, so four times the length this. A square would be 16."""


async def test_a_hundred_thousand_deltas_come_to_one_call(load_case: FieldCase) -> None:
    transport = ScriptedTransport(exchanges_of(load_case))
    with bare_environment():
        options = simple(options_json(load_case), fetch=transport)
        message = await stream_model(model_of(load_case), context_of(load_case), options).result()
    assert mismatches(load_case.expect["result"], message) == []
    assert max(_lengths(message)) == _letters(load_case)


def _letters(case: FieldCase) -> int:
    return sum(int(piece["times"]) for piece in case.content["wire"] if "times" in piece)


def _lengths(message: AssistantMessage) -> Iterator[int]:
    """How long each text of a message is, those in arguments of calls among them."""
    for block in message.content:
        match block:
            case TextContent(text=text) | ThinkingContent(thinking=text):
                yield len(text)
            case ToolCall(arguments=arguments):
                yield from (len(value) for value in arguments.values() if isinstance(value, str))


async def test_a_hundred_thousand_deltas_of_a_completion_come_to_one_call() -> None:
    message = await _result(_calling(100_000))
    assert message.stop_reason == "toolUse"
    assert list(_lengths(message)) == [100_000]


@pytest.mark.parametrize("kind", ["call", "text"])
@pytest.mark.parametrize("reading", ["the result alone", "the events", "one partial in a thousand"])
def test_work_grows_with_the_length_and_not_faster(kind: str, reading: str) -> None:
    make = _calling if kind == "call" else _texting
    short, long = (_work(make(length), reading) for length in (SHORT, LONG))
    assert long <= GROWTH * short


@pytest.mark.parametrize("kind", ["call", "text"])
def test_memory_grows_with_the_length_and_not_faster(kind: str) -> None:
    make = _calling if kind == "call" else _texting
    run_virtually(_events, make(100))  # what is loaded once is not what is measured
    short, long = (_peak_bytes(make(length)) for length in (SHORT, LONG))
    assert long <= GROWTH * short


def _work(body: Sequence[Piece], reading: str) -> int:
    """How many functions are called, Python's and C's."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run_virtually(_READINGS[reading], body)
    finally:
        sys.setprofile(None)
    return calls


def _peak_bytes(body: Sequence[Piece]) -> int:
    tracemalloc.start()
    try:
        run_virtually(_events, body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def _result(body: Sequence[Piece]) -> AssistantMessage:
    with bare_environment():
        options = simple({"apiKey": KEY}, fetch=ScriptedTransport([Answer(body=body)]))
        return await stream_model(model_of(MODEL), context_of(MODEL), options).result()


async def _events(body: Sequence[Piece], look: int = 0) -> None:
    """Read and keep every event; look at the partial message of each `look`-th."""
    kept = []
    with bare_environment():
        options = simple({"apiKey": KEY}, fetch=ScriptedTransport([Answer(body=body)]))
        stream = stream_model(model_of(MODEL), context_of(MODEL), options)
        async for event in stream:
            kept.append(event)
            if look and len(kept) % look == 0 and not isinstance(event, AssistantDone | AssistantError):
                assert event.partial.stop_reason == "pending"
        await stream.aclose()
    assert kept[-1].type == "done"


async def _some_partials(body: Sequence[Piece]) -> None:
    await _events(body, look=1_000)


_READINGS: Final[Mapping[str, Callable[[Sequence[Piece]], Awaitable[object]]]] = {
    "the result alone": _result,
    "the events": _events,
    "one partial in a thousand": _some_partials,
}


def _frame(delta: object, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'cc-1', 'choices': [choice]})}\n\n".encode()


def _argument(text: str) -> object:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


def _calling(length: int) -> list[Piece]:
    opening = {
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "store", "arguments": '{"text":"'}}]
    }
    return [
        _frame(opening),
        Repeat(_frame(_argument("k")), length),
        _frame(_argument('"}')),
        _frame({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]


def _texting(length: int) -> list[Piece]:
    return [Repeat(_frame({"content": "k"}), length), _frame({}, "stop"), b"data: [DONE]\n\n"]
