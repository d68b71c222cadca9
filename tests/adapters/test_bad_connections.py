"""Bad servers, as only a real socket shows them: none, no HTTP, no trusted certificate, a lying length."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import pytest

from adapters.asking import CONTEXT, KEY, STOP, WHOLE, delta, model_at
from adapters.calling import Call, call, is_worth_a_retry, simple
from adapters.serving import (
    Connection,
    Handler,
    bare_environment,
    raw_chunk,
    raw_response,
    raw_stream_head,
    serving,
    sse,
)
from mule.adapters.registry import stream_model
from mule.values.signal import AbortController

pytestmark = pytest.mark.real_io

_CERTIFICATE: Final = Path(__file__).parent / "data" / "self-signed.pem"
_PATIENCE_S: Final = 5.0


async def _ask(url: str, **options: object) -> Call:
    with bare_environment(), anyio.fail_after(_PATIENCE_S):
        made = await call(stream_model, model_at(f"{url}/v1"), CONTEXT, simple({"apiKey": KEY, **options}))
    assert made.problems == []
    return made


async def _ask_server(handle: Handler) -> Call:
    """Ask a server of our own; it must see its connection closed."""
    async with serving(handle) as server:
        made = await _ask(server.url)
        with anyio.fail_after(_PATIENCE_S):
            for connection in server.connections:
                await connection.over.wait()
    return made


async def test_a_good_answer_comes_through() -> None:
    async def handle(connection: Connection) -> None:
        await connection.send(raw_stream_head(), raw_chunk(WHOLE), raw_chunk(b""))

    assert (await _ask_server(handle)).text == "Still here."


async def test_no_server_says_where_it_was_looked_for() -> None:
    async with serving(_say_nothing) as server:
        url = server.url
    made = await _ask(url)
    assert made.ending == "network"
    assert url.removeprefix("http://") in str(made.result.error_message)
    assert is_worth_a_retry(made)


async def test_a_certificate_that_nobody_trusts_is_named() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_CERTIFICATE)
    async with serving(_say_nothing, tls=context) as server:
        made = await _ask(server.url)
    assert made.ending == "network"
    assert "certificate" in str(made.result.error_message).lower()
    assert not is_worth_a_retry(made)


async def test_a_server_that_speaks_no_tls_is_no_server() -> None:
    async with serving(_say_nothing) as server:
        made = await _ask(server.url.replace("http://", "https://"))
    assert made.ending == "network"


async def test_a_server_that_speaks_no_http_is_no_server() -> None:
    async def handle(connection: Connection) -> None:
        await connection.send(b"SSH-2.0-OpenSSH_9.6\r\n")

    made = await _ask_server(handle)
    assert made.ending in ("network", "malformed")
    assert made.result.error_message


async def test_a_server_that_hangs_up_without_a_word_may_be_asked_again() -> None:
    made = await _ask_server(_say_nothing)
    assert made.ending == "network"
    assert is_worth_a_retry(made)


async def test_an_answer_shorter_than_announced_is_no_success() -> None:
    async def handle(connection: Connection) -> None:
        body = sse(delta("So far "))
        head = raw_response(body, headers=["Content-Type: text/event-stream"], length=len(body) + 100)
        await connection.send(head)

    made = await _ask_server(handle)
    assert made.result.stop_reason == "error"
    assert made.ending in ("network", "truncated")
    assert made.text == "So far "
    assert is_worth_a_retry(made)


async def test_an_answer_that_was_whole_before_the_drop_is_whole() -> None:
    async def handle(connection: Connection) -> None:
        await connection.send(raw_stream_head(), raw_chunk(WHOLE))  # and no last chunk

    made = await _ask_server(handle)
    assert made.text == "Still here."
    assert made.result.stop_reason == "stop"


async def test_a_connection_that_stays_open_after_the_answer_is_closed_by_us() -> None:
    async def handle(connection: Connection) -> None:
        await connection.send(raw_stream_head(), raw_chunk(sse(delta("So "), STOP, "[DONE]")))
        await connection.wait_gone()

    made = await _ask_server(handle)
    assert made.text == "So "


async def test_headers_that_never_come_end_the_call() -> None:
    async def handle(connection: Connection) -> None:
        await connection.wait_gone()

    async with serving(handle) as server:
        made = await _ask(server.url, timeoutMs=150)
        (connection,) = server.connections
        with anyio.fail_after(_PATIENCE_S):
            await connection.over.wait()
    assert made.ending in ("stalled", "network")
    assert is_worth_a_retry(made)


async def _say_nothing(_connection: Connection) -> None:
    """Hang up."""


# --- leaving a server that does not get on with it


async def _nothing_more(connection: Connection) -> None:
    await connection.wait_gone()


async def _a_head_and_no_more(connection: Connection) -> None:
    await connection.send(raw_stream_head())
    await connection.wait_gone()


async def _half_an_answer(connection: Connection) -> None:
    await connection.send(raw_stream_head(), raw_chunk(sse(delta("So "))))
    await connection.wait_gone()


async def _half_a_refusal(connection: Connection) -> None:
    await connection.send(raw_response(b'{"error":', status="503 Busy", length=1_000))
    await connection.wait_gone()


_STALLS: Final[Mapping[str, Handler]] = {
    "before the head": _nothing_more,
    "after the head": _a_head_and_no_more,
    "in the answer": _half_an_answer,
    "in a refusal": _half_a_refusal,
}


@pytest.mark.parametrize("stall", _STALLS)
@pytest.mark.parametrize("leave", ["cancel", "abort"])
async def test_leaving_a_server_that_stalls_closes_its_connection(stall: str, leave: str) -> None:
    async with serving(_STALLS[stall]) as server:
        await _leave(f"{server.url}/v1", server.connections, leave)
        (connection,) = server.connections
        with anyio.fail_after(1):
            await connection.over.wait()


@pytest.mark.parametrize("leave", ["cancel", "abort"])
async def test_leaving_in_mid_handshake_closes_the_connection(leave: str) -> None:
    # httpcore forgets a connection that is cancelled there: a socket would stay open until it is collected.
    over = anyio.Event()
    accepted: list[object] = []

    async def say_nothing(stream: anyio.abc.SocketStream) -> None:
        accepted.append(stream)
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    await stream.receive()
            over.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, say_nothing)
        await _leave(f"https://127.0.0.1:{port}", accepted, leave)
        with anyio.fail_after(1):
            await over.wait()
        tasks.cancel_scope.cancel()


async def _leave(url: str, connections: Sequence[object], leave: str) -> None:
    """Begin a call, and leave it once it has a connection and has come as far as it comes."""
    controller = AbortController()

    async def read() -> None:
        stream = stream_model(model_at(url), CONTEXT, simple({"apiKey": KEY}, signal=controller.signal))
        try:
            assert (await stream.result()).stop_reason == "aborted"
        finally:
            await stream.aclose()

    with bare_environment():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with anyio.fail_after(_PATIENCE_S):
                while not connections:  # noqa: ASYNC110  # nobody tells us
                    await anyio.sleep(0.01)
            await anyio.sleep(0.05)
            if leave == "abort":
                controller.abort()
            else:
                tasks.cancel_scope.cancel()
