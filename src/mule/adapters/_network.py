"""What went wrong on the network, in words that help, and as one of our endings."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import httpx

from mule.adapters._failing import CallFailed


def host_of(request: httpx.Request) -> str:
    """Where a request goes, for people: host and port, without a login."""
    return request.url.netloc.decode("ascii", "replace").rpartition("@")[2]


def words_of(exc: BaseException) -> str:
    """An exception in words: its type, since httpx's timeouts often have no text, and its text.

    On trio httpx's errors have none at all; it is found in what they come from.
    """
    said: BaseException | None = exc
    while said is not None and not str(said).strip():
        said = said.__cause__ or said.__context__
    text = "" if said is None else str(said).strip()
    return f"{text} ({type(exc).__name__})" if text else type(exc).__name__


class Handshake:
    """Knows a connection from when it stands until TLS does, to close it when the request ends in between.

    httpcore forgets it there when it is cancelled (httpcore 1.0); httpx's `trace` extension shows it.
    """

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream: Any = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that nobody else knows."""
        return self._stream is not None

    async def trace(self, name: str, info: Mapping[str, Any]) -> None:
        """Follow what httpcore does for a request."""
        if name.endswith(".connect_tcp.complete"):
            self._stream = info["return_value"]
        elif not name.endswith((".start_tls.started", ".start_tls.failed")):
            self._stream = None

    async def close(self) -> None:
        """Close the connection."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(Exception):
                await stream.aclose()


def unreachable(exc: Exception, host: str) -> CallFailed:
    """Why no answer came."""
    words = words_of(exc)
    if "certificate" in words.lower():
        text = (
            f"The certificate of {host} is not trusted: {words}. Name the authority's certificate in"
            " SSL_CERT_FILE, or give a client that trusts it as `fetch`."
        )
        return CallFailed("network", text, is_final=True)
    match exc:
        case httpx.ConnectTimeout():
            return CallFailed("network", f"No connection to {host}: timed out: {words}.")
        case httpx.TimeoutException():
            return CallFailed("stalled", f"No answer from {host}: timed out: {words}.")
        case httpx.ProxyError():
            return CallFailed("network", f"The proxy on the way to {host} failed: {words}.")
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError() | httpx.InvalidURL():
            return CallFailed(
                "invalid_request", f"No request to {host} can be made: {words}.", is_final=True
            )
        case httpx.ConnectError():
            text = f"No connection to {host}: {words}. Is the server running, and the base URL right?"
            return CallFailed("network", text)
        case _:
            return CallFailed("network", f"The connection to {host} was lost: {words}.")


def broken(exc: Exception) -> CallFailed:
    """Why an answer stopped coming."""
    words = words_of(exc)
    if isinstance(exc, httpx.TimeoutException):
        return CallFailed("stalled", f"The answer stopped coming: timed out: {words}.")
    if isinstance(exc, zlib.error):
        return CallFailed("network", f"The answer arrived damaged: {words}.")
    return CallFailed("network", f"The connection was lost in the middle of the answer: {words}.")
