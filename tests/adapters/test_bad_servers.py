"""Whatever a server does, a call ends: typed, with a text that helps, what had come kept, nothing open.

The answers here are those of proxies, gateways and wrong addresses rather than of models. In memory and in
virtual time; what only a real connection shows is in `test_bad_connections.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import anyio
import pytest

from adapters.asking import CONTEXT, HTML, JSON, KEY, STREAM, WHOLE, ask, delta, model_at, refusal
from adapters.calling import call, is_worth_a_retry, simple
from adapters.serving import (
    Answer,
    Exchange,
    Hang,
    NoAnswer,
    Piece,
    Repeat,
    Reset,
    ScriptedTransport,
    bare_environment,
    sse,
)
from mule.adapters.registry import stream_model
from mule.values.errors import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """One answer, and what becomes of it. `says`: pieces of the error text, whatever their case."""

    answer: Exchange
    endings: tuple[Ending, ...]
    says: tuple[str, ...] = ()
    retry: bool
    text: str = ""
    status: int | None = None


_GATEWAY_PAGE: Final = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"

BAD: Final[Mapping[str, Bad]] = {
    "nobody listens": Bad(
        answer=NoAnswer("ECONNREFUSED"), endings=("network",), says=("pond.test",), retry=True
    ),
    "the connection is reset at once": Bad(
        answer=NoAnswer("ECONNRESET"), endings=("network",), says=("pond.test",), retry=True
    ),
    "a page that says too large": Bad(
        answer=refusal(413, b"<html><h1>Request Entity Too Large</h1></html>", HTML),
        endings=("context_overflow", "invalid_request"),
        says=("413", "Request Entity Too Large"),
        retry=False,
        status=413,
    ),
    "a gateway's page": Bad(
        answer=refusal(502, _GATEWAY_PAGE, HTML),
        endings=("server_error", "overloaded"),
        says=("502", "Bad Gateway"),
        retry=True,
        status=502,
    ),
    "a proxy's plain text": Bad(
        answer=refusal(
            503,
            b"upstream connect error or disconnect/reset before headers",
            {"content-type": "text/plain"},
        ),
        endings=("overloaded", "server_error"),
        says=("503", "upstream connect error"),
        retry=True,
        status=503,
    ),
    "a refusal without a body": Bad(
        answer=refusal(500, b"", {}), endings=("server_error",), says=("500",), retry=True, status=500
    ),
    "a refusal whose body breaks off": Bad(
        answer=Answer(status=503, headers=JSON, body=[b'{"error":{"message":"too ma', Reset()]),
        endings=("overloaded", "server_error"),
        says=("503",),
        retry=True,
        status=503,
    ),
    "a key that is not known": Bad(
        answer=refusal(401, b'{"error":{"message":"no such key"}}', JSON),
        endings=("authentication",),
        says=("401", "no such key"),
        retry=False,
        status=401,
    ),
    "a refusal in bytes that are no text": Bad(
        answer=refusal(400, b"\xff\xfe\x00 no", JSON),
        endings=("invalid_request",),
        says=("400",),
        retry=False,
        status=400,
    ),
    "200 with an error as JSON": Bad(
        answer=Answer(
            headers=JSON, body=[b'{"error":{"message":"the pond is dry","type":"server_error","code":503}}']
        ),
        endings=("server_error", "overloaded"),
        says=("the pond is dry",),
        retry=True,
        status=200,
    ),
    "200 with an error of another make": Bad(
        answer=Answer(headers=JSON, body=[b'{"detail":"Not Found"}']),
        endings=("malformed",),
        says=("Not Found",),
        retry=False,
        status=200,
    ),
    "200 with an error as JSON that claims to be a stream": Bad(
        answer=Answer(body=[b'{"error":{"message":"the pond is dry","type":"server_error"}}']),
        endings=("server_error",),
        says=("the pond is dry",),
        retry=True,
        status=200,
    ),
    "200 with a page": Bad(
        answer=Answer(headers=HTML, body=[b"<!doctype html><title>Log in to Pond</title>"]),
        endings=("malformed",),
        says=("HTML", "Log in to Pond"),
        retry=False,
        status=200,
    ),
    "200 with nothing": Bad(
        answer=Answer(body=[]), endings=("truncated", "malformed"), retry=True, status=200
    ),
    "200 with comments alone": Bad(
        answer=Answer(body=[b": hello\n\n: still here\n\n"]),
        endings=("truncated", "malformed"),
        retry=True,
        status=200,
    ),
    "no content": Bad(
        answer=Answer(status=204, headers={}),
        endings=("truncated", "malformed"),
        says=("204",),
        retry=False,
        status=204,
    ),
    "dropped in mid body": Bad(
        answer=Answer(body=[sse(delta("So far ")), Reset()]),
        endings=("network", "truncated"),
        retry=True,
        text="So far ",
        status=200,
    ),
    "dropped in mid frame": Bad(
        answer=Answer(body=[sse(delta("So far "), delta("good"))[:-20], Reset()]),
        endings=("network", "truncated"),
        retry=True,
        text="So far ",
        status=200,
    ),
    "ended cleanly in mid answer": Bad(
        answer=Answer(body=[sse(delta("So far "))]),
        endings=("truncated",),
        retry=True,
        text="So far ",
        status=200,
    ),
    "broken compression": Bad(
        answer=Answer(headers={**STREAM, "content-encoding": "gzip"}, body=[b"this is not gzip"]),
        endings=("malformed", "network"),
        retry=True,
        status=200,
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_answer_ends_typed_and_explained(name: str) -> None:
    bad = BAD[name]
    made, transport = await ask(bad.answer)
    error_text = made.result.error_message or ""
    assert made.result.stop_reason == "error"
    assert made.ending in bad.endings, error_text
    assert [piece for piece in bad.says if piece.casefold() not in error_text.casefold()] == []
    assert is_worth_a_retry(made) == bad.retry, made.ending
    assert made.text == bad.text
    assert made.failure is not None
    assert made.failure.status == bad.status
    assert len(transport.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_with_the_key(status: int) -> None:
    # Whoever answers with another address would be handed the key and the transcript.
    moved = Answer(status=status, headers={"location": "http://elsewhere.test/v1/chat/completions"})
    made, transport = await ask(moved, Answer(body=[WHOLE]))
    assert len(transport.requests) == 1
    assert made.ending == "invalid_request"
    assert str(status) in str(made.result.error_message)
    assert "http://elsewhere.test/v1/chat/completions" in str(made.result.error_message)
    assert not is_worth_a_retry(made)


@pytest.mark.parametrize(
    "base_url",
    ["", " ", "pond.test/v1", "ftp://pond.test", "http://", "http://[pond", "http://pond.test:port"],
)
async def test_a_model_without_an_address_is_refused_before_any_request(base_url: str) -> None:
    made, transport = await ask(Answer(body=[WHOLE]), base_url=base_url)
    assert transport.requests == []
    assert made.ending == "invalid_request"
    assert "base url" in str(made.result.error_message).lower()
    assert not is_worth_a_retry(made)


@pytest.mark.parametrize("headers", [{"x-pond": "Ω"}, {"x-pond": "a\r\nb: c"}, {"x pond": "a"}, {"": "a"}])
async def test_a_header_that_http_cannot_carry_is_refused_before_any_request(
    headers: dict[str, str],
) -> None:
    made, transport = await ask(Answer(body=[WHOLE]), headers=headers)
    assert transport.requests == []
    assert made.ending == "invalid_request"
    assert "header" in str(made.result.error_message).lower()


@pytest.mark.parametrize("key", ["pond\nkey-0123456789", "pond-key-Ω-0123456789"])
async def test_a_key_that_http_cannot_carry_is_refused_and_not_shown(key: str) -> None:
    made, transport = await ask(Answer(body=[WHOLE]), apiKey=key)
    assert transport.requests == []
    assert made.ending in ("invalid_request", "authentication")
    assert "0123456789" not in str(made.result.error_message)


# --- time


async def test_headers_that_never_come_end_the_call_at_its_time_limit() -> None:
    began = anyio.current_time()
    made, _ = await ask(NoAnswer("hold"), timeoutMs=2_500)
    assert anyio.current_time() - began == pytest.approx(2.5, abs=0.1)
    assert made.ending in ("stalled", "network")
    assert is_worth_a_retry(made)
    assert (
        "2.5" in str(made.result.error_message)
        or "2,500" in str(made.result.error_message)
        or "2500" in str(made.result.error_message)
    )


async def test_the_wait_for_headers_has_a_limit_by_default() -> None:
    began = anyio.current_time()
    made, _ = await ask(NoAnswer("hold"))
    assert anyio.current_time() - began == pytest.approx(600, abs=1)
    assert made.ending in ("stalled", "network")


async def test_a_slow_answer_is_not_cut_by_the_limit_for_headers() -> None:
    slow = Answer(body=[Repeat(b": still thinking\n\n", times=20, every_ms=1_000), WHOLE])
    made, _ = await ask(slow, timeoutMs=2_500)
    assert made.text == "Still here."
    assert made.result.stop_reason == "stop"


async def test_a_refusal_whose_body_never_ends_is_not_waited_for() -> None:
    made, _ = await ask(Answer(status=503, headers=JSON, body=[b'{"error":', Hang()]))
    assert made.ending in ("overloaded", "server_error")
    assert anyio.current_time() < 120


@pytest.mark.parametrize(
    "rest",
    [[Hang()], [Repeat(b": ping\n\n", every_ms=10)], [Repeat(b"x" * 1024, every_ms=1)], [Reset()]],
    ids=["silence", "comments", "rubbish", "reset"],
)
async def test_a_body_that_does_not_end_after_done_is_left(rest: list[Piece]) -> None:
    began = anyio.current_time()
    made, _ = await ask(Answer(body=[WHOLE, *rest]))
    assert made.result.stop_reason == "stop"
    assert made.text == "Still here."
    assert anyio.current_time() - began <= 1


async def test_a_body_that_does_not_end_after_an_error_frame_is_left() -> None:
    began = anyio.current_time()
    frames = sse(delta("So "), {"error": {"message": "the pond froze", "type": "server_error"}})
    made, _ = await ask(Answer(body=[frames, Repeat(b": ping\n\n", every_ms=10)]))
    assert made.ending == "server_error"
    assert made.text == "So "
    assert anyio.current_time() - began <= 1


# --- retries of the request


async def test_a_refused_connection_is_tried_again_as_often_as_asked() -> None:
    made, transport = await ask(
        NoAnswer("ECONNREFUSED"), NoAnswer("ECONNRESET"), Answer(body=[WHOLE]), maxRetries=2
    )
    assert made.text == "Still here."
    assert len(transport.requests) == 3


async def test_nothing_is_tried_again_once_a_body_began() -> None:
    made, transport = await ask(
        Answer(body=[sse(delta("So far ")), Reset()]), Answer(body=[WHOLE]), maxRetries=2
    )
    assert len(transport.requests) == 1
    assert made.text == "So far "
    assert made.result.stop_reason == "error"


async def test_each_refusal_is_closed_before_the_next_try() -> None:
    transport = ScriptedTransport([refusal(503, b"busy", HTML)] * 3 + [Answer(body=[WHOLE])])
    with bare_environment():
        made = await call(
            stream_model,
            model_at("http://pond.test"),
            CONTEXT,
            simple({"apiKey": KEY, "maxRetries": 3}, fetch=transport),
        )
    assert made.text == "Still here."
    assert (transport.opened, transport.closed) == (4, 4)
