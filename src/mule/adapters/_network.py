"""What went wrong on the network, in words that help, and as one of our endings."""

from __future__ import annotations

import zlib

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
