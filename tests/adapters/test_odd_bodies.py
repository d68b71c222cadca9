"""Bodies of any size, packing and content are read, or told for what they are."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import pytest

from adapters.asking import HTML, JSON, STOP, STREAM, WHOLE, ask, delta, refusal
from adapters.serving import Answer, Piece, Repeat, sse


async def test_a_long_error_page_does_not_flood_the_error_text() -> None:
    made, _ = await ask(refusal(502, b"<p>" + b"pond " * 2_000_000, HTML))
    assert made.ending in ("server_error", "overloaded")
    assert len(str(made.result.error_message)) <= 5_000


async def test_an_endless_error_page_is_not_read_to_its_end() -> None:
    made, _ = await ask(Answer(status=500, headers=HTML, body=[Repeat(b"pond " * 10_000)]))
    assert made.ending == "server_error"
    assert len(str(made.result.error_message)) <= 5_000


@pytest.mark.parametrize("size", [1, 13, 10_000])
async def test_a_compressed_stream_is_read_as_it_comes(size: int) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(
        packer.compress(frame) + packer.flush(zlib.Z_SYNC_FLUSH)
        for frame in (sse(delta("Still ")), sse(delta("here.")), sse(STOP, "[DONE]"))
    )
    packed += packer.flush()
    body: list[Piece] = [packed[at : at + size] for at in range(0, len(packed), size)]
    made, _ = await ask(Answer(headers={**STREAM, "content-encoding": "gzip"}, body=body))
    assert made.result.stop_reason == "stop", made.result.error_message
    assert made.text == "Still here."


async def test_a_compressed_refusal_is_read() -> None:
    packed = gzip.compress(b'{"error":{"message":"no such pond"}}')
    made, _ = await ask(Answer(status=404, headers={**JSON, "content-encoding": "gzip"}, body=[packed]))
    assert made.ending == "invalid_request"
    assert "no such pond" in str(made.result.error_message)


@pytest.mark.parametrize(
    "content_type", ["text/event-stream; charset=utf-8", "text/plain", "application/octet-stream", None]
)
async def test_a_stream_is_told_by_what_it_holds(content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    made, _ = await ask(Answer(headers=headers, body=[WHOLE]))
    assert made.text == "Still here."
    assert made.result.stop_reason == "stop"


async def test_a_frame_that_is_no_object_ends_the_answer_as_malformed() -> None:
    made, _ = await ask(Answer(body=[sse(delta("So "), '"just a text"', '{"cut', STOP, "[DONE]")]))
    assert made.ending == "malformed"
    assert made.text == "So "


# --- JSON that is not what it should be

ODD_BODIES: Final = (
    b"null",
    b"true",
    b"7",
    b'""',
    b'" "',
    b"[]",
    b"[null]",
    b"{}",
    b'{"error":null}',
    b'{"error":""}',
    b'{"error":" "}',
    b'{"error":7}',
    b'{"error":[]}',
    b'{"error":{}}',
    b'{"error":[[{"message":null}]]}',
    b'{"error":{"message":{"text":"deep"}}}',
    b'{"error":{"message":"half \\ud83d","code":["a"]}}',
    b'{"message":7,"type":{}}',
    b'{"errors":{"a":["b"]}}',
    b'{"choices":null}',
    b'{"choices":[]}',
    b'{"choices":[{}]}',
    b'{"choices":[{"message":null,"finish_reason":"stop"}]}',
    b"[" * 5_000,
    b'{"error":' * 5_000,
    b"\xef\xbb\xbf{}",
)


@pytest.mark.parametrize("body", ODD_BODIES, ids=lambda body: body[:40].decode("utf-8", "replace"))
async def test_an_odd_refusal_is_told_by_its_status(body: bytes) -> None:
    made, _ = await ask(refusal(400, body, JSON))
    assert made.ending == "invalid_request"
    assert "400" in str(made.result.error_message)
    assert len(str(made.result.error_message)) <= 5_000


@pytest.mark.parametrize("body", ODD_BODIES, ids=lambda body: body[:40].decode("utf-8", "replace"))
async def test_an_odd_body_is_no_answer(body: bytes) -> None:
    for headers in (JSON, STREAM):
        made, _ = await ask(Answer(headers=headers, body=[body]))
        assert made.result.stop_reason == "error" or body.endswith(b'"finish_reason":"stop"}]}')
        assert len(str(made.result.error_message)) <= 5_000
