"""One HTTP request, as bytes that come: sent, sent again where the options ask for it, read, given back.

What httpx raises becomes a `CallFailed` here. Limits are ours, not httpx's: its default of five seconds
would cut off a model that thinks.
"""

from __future__ import annotations

import random
import ssl
import time
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress
from functools import cache, partial
from types import TracebackType
from typing import Any, Final, cast

import anyio
import httpx

from mule.adapters._cancel import cancelled_once
from mule.adapters._failing import CallFailed, aborted, failure_of_rejection, rejection_of
from mule.adapters._network import Handshake, broken, host_of, unreachable, words_of
from mule.adapters._request import Request
from mule.transcript.request_retry import AskedTooLong, GiveUp, plan_request_retry
from mule.values.provider import ProviderRejection
from mule.values.request import FetchFunction, ProviderRequestOptions
from mule.values.signal import AbortSignal
from mule.waiting import protected

DEFAULT_TIMEOUT_MS: Final = 600_000
"""Longest wait for response headers, as in the providers' own clients."""
_TIMEOUT: Final = httpx.Timeout(None, connect=15.0)
"""A connection and its handshake take no time at all, or never come about."""

_REFUSAL_TIMEOUT_S: Final = 5.0
"""Longest wait for the body of a refusal: its status says the most already."""
_REFUSAL_BYTES: Final = 65_536
_DRAIN_S: Final = 0.2
"""How long a body is read on after the answer's last event, so that its connection can serve again."""
_DRAIN_BYTES: Final = 65_536
_UNWIND_PIECES: Final = 100_000
CLOSE_GRACE_S: Final = 5.0
"""How long giving a connection back may take when it is cancelled meanwhile."""
_HTTPX_DEFAULT_TIMEOUT: Final = httpx.Timeout(5.0)


class OwnClient(httpx.AsyncClient):
    """A client of `mule`'s own: all that it holds is closed with it, and nobody else waits for it."""


def new_client() -> OwnClient:
    """A client with no limits but ours, over the process's one SSL context.

    Raises:
        CallFailed: the proxy settings of the environment cannot be used.
    """
    try:
        # httpcore loses connections for good once requests queue for one (encode/httpcore#1093).
        limits = httpx.Limits(max_connections=None)
        return OwnClient(verify=_ssl_context(), timeout=_TIMEOUT, limits=limits)
    except (ImportError, ValueError, OSError) as exc:
        text = f"No HTTP client could be made: {words_of(exc)}."
        raise CallFailed("invalid_request", text, is_final=True) from exc


@cache
def _ssl_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # reads all certificates: 20 ms and more, so once


class HttpCall:
    """One request and the body of its answer: `open` it, `read` until None, `close` it, in one task.

    Cancelling any of them is safe; `close` then still gives back what is held.
    """

    def __init__(self, request: Request, options: ProviderRequestOptions, provider: str) -> None:
        self._request = request
        self._options = options
        self._provider = provider
        self._signal = options.signal
        self._client: httpx.AsyncClient | None = None
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None
        self._ended = False
        self._inflate: Callable[[bytes], bytes] | None = None
        self._wait: _Wait | None = None
        self._handshake = Handshake()
        self._interrupted = False
        self.status: int | None = None
        """Of the answer that is read."""
        self.headers: dict[str, str] = {}
        """Of the answer that is read; names in lower case."""

    async def open(self) -> None:
        """Send the request until an answer is there that can be read.

        Raises:
            CallFailed: there is none, after as many retries as the options allow, or the signal was
                aborted.
        """
        self._client = client = _client_for(self._options.fetch)
        request = self._build(client)
        retries = 0
        while True:
            _check(self._signal)
            failure = await self._attempt(client, request)
            if failure is None:
                return
            _check(self._signal)
            if failure.is_final or self._interrupted:
                raise failure
            await self._wait_to_retry(failure, retries)
            retries += 1

    async def read(self) -> bytes | None:
        """The next bytes of the body; None at its end.

        Raises:
            CallFailed: the connection broke, or the signal was aborted.
        """
        pieces = self._pieces
        if pieces is None or self._ended:
            return None
        try:
            if self._signal is None:
                piece = await pieces.__anext__()
            else:
                piece = await self._read_abortably(pieces, self._signal)
            return piece if self._inflate is None else self._inflate(piece)
        except StopAsyncIteration:
            self._ended = True
            return None
        except CallFailed:
            raise
        except Exception as exc:
            raise broken(exc) from exc

    async def interrupt(self) -> None:
        """From another task: whatever is waited for ends at once, and nothing is tried again."""
        self._interrupted = True
        if self._wait is not None:
            self._wait.scope.cancel()
        elif self._response is not None:
            with suppress(Exception):
                await self._response.aclose()

    async def close(self, *, drain: bool = False) -> None:
        """Give back the connection, and the client where it is our own. Harmless twice.

        Args:
            drain: the answer is whole: read on a little, so that the connection can be used again.
        """
        try:
            await self._close(drain=drain)
        except BaseException:
            await protected(self._close, CLOSE_GRACE_S)
            raise

    # --- opening

    def _build(self, client: httpx.AsyncClient) -> httpx.Request:
        request = self._request
        # Uncompressed: events are small, and none should wait for a block to fill.
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity"}
        headers.update(request.headers)
        # As bytes, since httpx encodes header texts as ASCII.
        encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
        chosen = client.timeout != _HTTPX_DEFAULT_TIMEOUT  # the default is nobody's choice
        timeout: Any = httpx.USE_CLIENT_DEFAULT if chosen else _TIMEOUT
        try:
            return client.build_request(
                request.method,
                request.url,
                headers=encoded,
                content=request.body,
                timeout=timeout,
                extensions={"trace": self._handshake.trace},
            )
        except (httpx.InvalidURL, ValueError) as exc:
            text = f"The base URL of the model cannot be used: {words_of(exc)}."
            raise CallFailed("invalid_request", text, is_final=True) from exc

    async def _attempt(self, client: httpx.AsyncClient, request: httpx.Request) -> CallFailed | None:
        try:
            response = await self._send(client, request)
        except CallFailed as failure:
            return failure
        self._response, self._ended = response, False
        # `aiter_bytes` is the same through three more generators, some of which an error leaves behind.
        # The stream of an AsyncClient is never a synchronous one.
        self._pieces = aiter(cast("AsyncIterable[bytes]", response.stream))
        headers = {name.lower(): value for name, value in response.headers.items()}
        self._inflate = _inflater(headers.get("content-encoding", ""))
        recorder = self._options.status_recorder
        if 200 <= response.status_code < 300:
            self.status, self.headers = response.status_code, headers
            if recorder is not None:
                recorder.saw(response.status_code, headers)
            return None
        rejection = await self._read_rejection(response, headers)
        if recorder is not None:
            recorder.saw_rejection(rejection)
        return failure_of_rejection(rejection, self._provider)

    async def _send(self, client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        asked_ms = self._options.timeout_ms
        limit_ms = DEFAULT_TIMEOUT_MS if asked_ms is None else asked_ms
        with self._waiting(anyio.current_time() + limit_ms / 1000):
            try:
                if isinstance(client, OwnClient):
                    return await client.send(request, stream=True)
                # Cut off in its clean-up, httpcore never gives the connection's place in the pool back.
                send = partial(client.send, request, stream=True)
                return await cancelled_once(send, httpx.Response.aclose, CLOSE_GRACE_S)
            except Exception as exc:
                raise unreachable(exc, host_of(request)) from exc
            finally:
                if self._handshake.is_open:
                    await protected(self._handshake.close, CLOSE_GRACE_S)
        _check(self._signal)
        raise CallFailed("stalled", f"No answer from {host_of(request)} within {limit_ms:g} ms: timed out.")

    async def _read_rejection(self, response: httpx.Response, headers: dict[str, str]) -> ProviderRejection:
        read = b""
        with anyio.move_on_after(_REFUSAL_TIMEOUT_S), suppress(CallFailed):
            while len(read) < _REFUSAL_BYTES and (piece := await self.read()) is not None:
                read += piece
        await self._close_response(drain=False)
        text = read[:_REFUSAL_BYTES].decode("utf-8", "replace")
        return rejection_of(response.status_code, headers, text, now_ms=time.time() * 1000)

    async def _wait_to_retry(self, failure: CallFailed, retries: int) -> None:
        plan = plan_request_retry(
            failure.status,
            failure.headers,
            retries=retries,
            max_retries=self._options.max_retries or 0,
            max_retry_delay_ms=self._options.max_retry_delay_ms,
            now_ms=time.time() * 1000,
        )
        if isinstance(plan, AskedTooLong):
            failure.text = f"{plan} {failure.text}"
            raise failure
        if isinstance(plan, GiveUp):
            raise failure
        with self._waiting():
            await anyio.sleep(plan.delay_ms(random.random()) / 1000)
        _check(self._signal)
        if self._interrupted:
            raise failure

    # --- waiting

    def _waiting(self, deadline: float = float("inf")) -> _Wait:
        self._wait = _Wait(self, self._signal, deadline)
        return self._wait

    def done_waiting(self) -> None:
        """The wait is over."""
        self._wait = None

    async def _read_abortably(self, pieces: AsyncIterator[bytes], signal: AbortSignal) -> bytes:
        _check(signal)
        with self._waiting():
            return await pieces.__anext__()
        raise aborted()

    # --- closing

    async def _close(self, *, drain: bool = False) -> None:
        await self._close_response(drain=drain)
        client, self._client = self._client, None
        if client is not None and self._options.fetch is None:
            # From the start: httpx takes a client for closed once it has begun to close it.
            await protected(client.aclose, CLOSE_GRACE_S)

    async def _close_response(self, *, drain: bool) -> None:
        response, pieces = self._response, self._pieces
        if response is None:
            return
        if drain and not self._ended:
            await self._drain()
        if self._ended or pieces is None:
            await response.aclose()
        else:
            await _unwind(pieces)
            with suppress(Exception):
                await response.aclose()
            await _hang_up(response)
        self._response = self._pieces = None

    async def _drain(self) -> None:
        read = 0
        with anyio.move_on_after(_DRAIN_S), suppress(CallFailed):
            while read < _DRAIN_BYTES and (piece := await self.read()) is not None:
                read += len(piece)


class _Wait:
    """A wait that ends at its deadline, and when the signal is aborted. Never held across an event."""

    __slots__ = ("_call", "_release", "_signal", "scope")

    def __init__(self, call: HttpCall, signal: AbortSignal | None, deadline: float) -> None:
        self._call = call
        self._signal = signal
        self.scope = anyio.CancelScope(deadline=deadline)

    def __enter__(self) -> None:
        self.scope.__enter__()
        self._release: Callable[[], None] = (
            _nothing if self._signal is None else self._signal.on_abort(self.scope.cancel)
        )

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None
    ) -> bool:
        self._release()
        self._call.done_waiting()
        return bool(self.scope.__exit__(kind, exc, at))


def _nothing() -> None:
    pass


def _check(signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise aborted()


def _client_for(fetch: FetchFunction | None) -> httpx.AsyncClient:
    if fetch is None:
        return new_client()
    if not isinstance(fetch, httpx.AsyncClient):
        # Never closed, since that would close the transport, which is the host's.
        return httpx.AsyncClient(transport=fetch, timeout=_TIMEOUT, trust_env=False)
    if fetch.is_closed:
        raise CallFailed("invalid_request", "The httpx client given as `fetch` is closed.", is_final=True)
    return fetch


def _inflater(encoding: str) -> Callable[[bytes], bytes] | None:
    """Undoes the compression of a body that we asked not to compress."""
    names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
    names = [name for name in names if name != "identity"]
    if not names:
        return None
    if names not in (["gzip"], ["x-gzip"], ["deflate"]):
        return _cannot_inflate(encoding)
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # by its header, gzip or zlib
    return inflater.decompress


def _cannot_inflate(encoding: str) -> Callable[[bytes], bytes]:
    def refuse(_piece: bytes) -> bytes:
        raise CallFailed("malformed", f"The answer is compressed as {encoding}, which was not asked for.")

    return refuse


async def _unwind(pieces: AsyncIterator[bytes]) -> None:
    """End httpx's and httpcore's generators from within.

    Closing the outer one leaves the inner ones to the garbage collector, of which trio complains, and
    which keeps their connection open. A cancellation ends them all.
    """
    with anyio.CancelScope() as scope, suppress(Exception):
        scope.cancel()
        for _ in range(_UNWIND_PIECES):
            await pieces.__anext__()


async def _hang_up(response: httpx.Response) -> None:
    """Make sure that a connection that was left in mid-answer is closed, and known to be.

    When a task is cancelled natively while httpcore closes a connection, the connection counts as in use
    for ever, and takes its place in the pool with it (httpcore 1.0). There is no public way to it.
    """
    if response.extensions.get("http_version") == b"HTTP/2":
        return  # a connection that other answers share
    held: Any = response.stream
    for name in ("_stream", "_httpcore_stream", "_stream", "_connection"):
        held = getattr(held, name, None)
    for closable in (held, response.extensions.get("network_stream")):
        if closable is not None and hasattr(closable, "aclose"):
            with suppress(Exception):
                await closable.aclose()
