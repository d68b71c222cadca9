"""What llama.cpp's server sent, byte for byte, is read for what it is.

Status line, headers and chunk framing are as received; a socket serves them, so httpx reads the framing in
earnest.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from adapters.calling import Call, call, is_worth_a_retry, simple
from adapters.serving import Connection, ScriptedTransport, bare_environment, serving
from mule.adapters.registry import stream_model
from mule.values.messages import Context, UserMessage
from mule.values.model import Model
from wire.expected import EXPECTED, Expected
from wire.recordings import answer_of

RECORDINGS: Final = Path(__file__).parent / "llama_cpp"
NAMES: Final = sorted(path.stem for path in RECORDINGS.glob("*.http"))


def test_every_recording_has_an_expectation() -> None:
    assert sorted(EXPECTED) == NAMES


@pytest.mark.real_io
@pytest.mark.parametrize("name", NAMES)
async def test_a_recording_is_read_for_what_it_is(name: str) -> None:
    data = (RECORDINGS / f"{name}.http").read_bytes()

    async def replay(connection: Connection) -> None:
        await connection.send(data)

    async with serving(replay) as server:
        with bare_environment():
            made = await call(
                stream_model,
                _model(f"{server.url}/v1"),
                _CONTEXT,
                simple({"apiKey": "none"}),
                read_partials=True,
            )
    (connection,) = server.connections
    assert connection.request is not None
    assert connection.request.url == "/v1/chat/completions"
    _check(EXPECTED[name], made)


@pytest.mark.parametrize("name", NAMES)
async def test_how_a_recording_is_cut_changes_nothing(name: str) -> None:
    answer = answer_of((RECORDINGS / f"{name}.http").read_bytes())
    runs = []
    for size in (1, 7, 100_000):
        transport = ScriptedTransport([answer.in_pieces_of(size)])
        with bare_environment():
            runs.append(
                await call(
                    stream_model,
                    _model("http://pond.test/v1"),
                    _CONTEXT,
                    simple({"apiKey": "none"}, fetch=transport),
                )
            )
        assert transport.left_open == 0
    _check(EXPECTED[name], runs[0])
    assert runs[0].events_json == runs[1].events_json == runs[2].events_json


_CONTEXT: Final = Context(messages=(UserMessage(content="Go on.", timestamp=1),))


def _model(base_url: str) -> Model:
    return Model(
        id="smollm2-135m",
        name="SmolLM2",
        api="openai-completions",
        provider="llama.cpp",
        base_url=base_url,
        context_window=2048,
        max_tokens=512,
    )


def _check(expected: Expected, made: Call) -> None:
    message = made.result
    assert made.problems == []
    assert message.stop_reason == expected.stop, message.error_message
    if expected.text is not None:
        assert made.text == expected.text
    assert made.text.startswith(expected.begins)
    if expected.ending is None:
        calls = [(block.name, block.arguments) for block in message.content if block.type == "toolCall"]
        assert calls == list(expected.calls)
    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read) == (expected.usage or (0, 0, 0))
    assert made.ending == expected.ending
    assert [piece for piece in expected.says if piece not in (message.error_message or "")] == []
    assert is_worth_a_retry(made) == expected.retry


def test_a_recording_is_whole() -> None:
    for name in NAMES:
        described = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))
        assert len((RECORDINGS / f"{name}.http").read_bytes()) == described["bytes"]
