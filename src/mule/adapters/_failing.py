"""A call of a model that cannot go on, and what a provider said about it.

Providers wrap their errors in many ways; what a person and a retry decision need is dug out here: the
words, the codes, the status. Pages of proxies are named by their title, not repeated.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mule.transcript.endings import ending_of
from mule.transcript.request_retry import retry_after_ms
from mule.values.errors import Ending
from mule.values.jsontext import JsonValue, dump_json, load_json
from mule.values.provider import ProviderRejection

MAX_ERROR_TEXT: Final = 4_000
"""Characters of a provider's error text that are kept."""
_MIN_SECRET: Final = 8
"""Shorter values are no secrets (local servers take any key) and stand in ordinary words."""


class CallFailed(Exception):
    """Ends a call. The stream makes it its last event; it never leaves the adapter.

    Attributes:
        ending: how the call ended.
        text: what went wrong, for people; the provider's words in it where it said any.
        provider_error: the provider's own words alone.
        status, headers, retry_after_ms: of the response, where there was one.
        is_final: sending the same request again cannot help.
    """

    def __init__(
        self,
        ending: Ending,
        text: str,
        *,
        provider_error: str | None = None,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after_ms: float | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(text)
        self.ending: Ending = ending
        self.text = text
        self.provider_error = provider_error
        self.status = status
        self.headers = headers
        self.retry_after_ms = retry_after_ms
        self.is_final = is_final


ABORTED: Final = "The request was aborted."


def aborted() -> CallFailed:
    """The caller's signal was aborted."""
    return CallFailed("aborted", ABORTED, is_final=True)


@dataclass(frozen=True, slots=True)
class ProviderError:
    """What a provider said went wrong.

    Attributes:
        message: its words, cut to `MAX_ERROR_TEXT`; never empty.
        codes: its codes and types, the most exact one first.
        status: the HTTP status that it gave as a code, of an error inside a good response.
    """

    message: str
    codes: tuple[str, ...] = ()
    status: int | None = None


def read_provider_error(value: JsonValue) -> ProviderError | None:
    """The error in a JSON value; None where it holds none.

    Known shapes: `{"error": {...}}`, `{"error": "..."}`, `{"message": ...}`, `{"detail": ...}`,
    `{"errors": [...]}`, and lists of these.
    """
    if isinstance(value, str):
        return ProviderError(cut_text(value.strip())) if value.strip() else None
    if isinstance(value, Mapping):
        return _read_error_object(value)
    if isinstance(value, Sequence):
        return next((error for error in map(read_provider_error, value) if error), None)
    return None


def _read_error_object(value: Mapping[str, JsonValue]) -> ProviderError | None:
    inner = value.get("error") or value.get("errors")
    if isinstance(inner, Mapping | Sequence) and not isinstance(inner, str):
        return read_provider_error(inner) or ProviderError(_as_text(inner))
    message = next((value[key] for key in ("message", "detail", "msg", "error") if value.get(key)), None)
    if message is None:
        return None
    text = _as_text(message) or dump_json(value).decode()  # a blank one says less than the whole
    raw = _raw_metadata(value)
    if raw and raw not in text:
        text = f"{text}\n{raw}"
    codes = [value[key] for key in ("code", "status", "type") if key in value]
    return ProviderError(
        cut_text(text),
        tuple(code for code in codes if isinstance(code, str)),
        next((code for code in map(_as_status, codes) if code is not None), None),
    )


def _raw_metadata(value: Mapping[str, JsonValue]) -> str:
    """What a router was told by the provider behind it (OpenRouter)."""
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    return "" if raw is None else _as_text(raw)


def _as_text(value: JsonValue) -> str:
    return value.strip() if isinstance(value, str) else dump_json(value).decode()


def _as_status(code: JsonValue) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code <= 599:
        return code
    return None


def failure_of_error(error: ProviderError, provider: str) -> CallFailed:
    """The failure that an error inside a good response is."""
    ending = ending_of(status=error.status, codes=error.codes, text=error.message, provider=provider)
    shown = [str(error.status)] if error.status and str(error.status) not in error.message else []
    shown += [code for code in error.codes[:1] if code not in error.message]
    text = f"{' '.join(shown)}: {error.message}" if shown else error.message
    return CallFailed(ending, text, provider_error=error.message)


def failure_of_rejection(rejection: ProviderRejection, provider: str) -> CallFailed:
    """The failure that an HTTP answer that refused is."""
    status, headers = rejection.status, rejection.headers
    if 300 <= status < 400:
        return _redirected(rejection)
    error = _read_body(rejection.body_text)
    text = f"{status} (no body)" if error is None else f"{status}: {error.message}"
    return CallFailed(
        ending_of(status=status, codes=error.codes if error else (), text=text, provider=provider),
        text,
        provider_error=None if error is None else error.message,
        status=status,
        headers=headers,
        retry_after_ms=rejection.retry_after_ms,
    )


def _redirected(rejection: ProviderRejection) -> CallFailed:
    # Not followed: the key and the transcript would go to an address that nobody has chosen.
    to = next((v for k, v in rejection.headers.items() if k.lower() == "location"), "another address")
    return CallFailed(
        "invalid_request",
        f"{rejection.status}: the server redirects to {cut_text(to)}, which is not followed."
        " If that is right, change the base URL of the model.",
        status=rejection.status,
        headers=rejection.headers,
        is_final=True,
    )


def _read_body(text: str) -> ProviderError | None:
    text = text.strip()
    if not text:
        return None
    if is_html(text):
        return ProviderError(describe_page(text))
    try:
        value = load_json(text)
    except (ValueError, RecursionError):
        return ProviderError(cut_text(text))
    return read_provider_error(value) or ProviderError(cut_text(text))


def rejection_of(
    status: int, headers: Mapping[str, str], body_text: str, *, now_ms: float
) -> ProviderRejection:
    """What an HTTP answer that refused said."""
    return ProviderRejection(status, headers, body_text, retry_after_ms(headers, now_ms))


def is_html(text: str) -> bool:
    """Whether a text is a page for people rather than an answer for programs."""
    return bool(_PAGE.match(text))


_ANY_CASE: Final = re.IGNORECASE | re.DOTALL
_PAGE: Final = re.compile(
    r"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|title|h1|p|center)\b", _ANY_CASE
)
_HEADINGS: Final = tuple(
    re.compile(rf"<{tag}\b[^>]*>(.*?)</{tag}\s*>", _ANY_CASE) for tag in ("title", "h1")
)
_NOT_TEXT: Final = re.compile(r"<(?:script|style)\b.*?</(?:script|style)\s*>|<[^>]*>", _ANY_CASE)


def describe_page(text: str) -> str:
    """A page in a few words: that it is HTML, and its title.

    >>> describe_page("<html><title>502 Bad Gateway</title>...")
    'an HTML page: 502 Bad Gateway'
    """
    page = text[:65_536]
    found = next((match.group(1) for heading in _HEADINGS if (match := heading.search(page))), page)
    words = " ".join(html.unescape(_NOT_TEXT.sub(" ", found)).split())
    return f"an HTML page: {words[:200]}" if words else "an HTML page without a title"


def cut_text(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """A text of at most so many characters, and a note of what was left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text) - limit} more characters)"


_SECRET_NAME: Final = re.compile(
    r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE
)


def secrets_of(headers: Mapping[str, str], *more: str | None) -> tuple[str, ...]:
    """What of a request must not be shown: the values of headers that say so by name, and these."""
    values = [value for name, value in headers.items() if _SECRET_NAME.search(name)]
    # "Bearer <key>": the key alone is the secret, and the longer text goes first.
    parts = [value.split(" ", 1)[1] for value in values if " " in value]
    found = {text.strip() for text in (*values, *parts, *more) if text}
    return tuple(sorted((text for text in found if len(text) >= _MIN_SECRET), key=len, reverse=True))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text with every secret in it replaced."""
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return text
