"""Should a refused or unreachable request be sent again, and when?

This is about one HTTP request before its body began, not about whole answers (`mule.transcript.retry`).
The rules are those of the OpenAI and Anthropic clients, which servers are built for. Reading
`Retry-After` follows RFC 9110, and what cannot be read asks for nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Final, TypeAlias

from mule.transcript.retry import AskedTooLong

DEFAULT_MAX_RETRY_DELAY_MS: Final = 60_000
"""Longest wait that a server may ask for, where the options name none."""

_FIRST_DELAY_MS: Final = 500
_LONGEST_DELAY_MS: Final = 8_000
_JITTER: Final = 0.25
"""A wait of our own is up to this part shorter, so that many clients do not come back together."""

_SECONDS: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Wait:
    """Send it again after some time in `[min_ms, max_ms]`."""

    min_ms: float
    max_ms: float

    def delay_ms(self, unit: float) -> float:
        """A wait, for `unit` in [0, 1): the one random number."""
        return self.max_ms - (self.max_ms - self.min_ms) * unit


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The failure stands as it is."""


RequestRetry: TypeAlias = Wait | GiveUp | AskedTooLong


def plan_request_retry(
    status: int | None,
    headers: Mapping[str, str] | None,
    *,
    retries: int,
    max_retries: int,
    max_retry_delay_ms: float | None = None,
    now_ms: float,
) -> RequestRetry:
    """What to do after a request failed.

    Args:
        status, headers: of the refusal; None where there was no response at all.
        retries: how often it was sent again already.
        max_retry_delay_ms: the longest wait that the server may ask for; None is
            `DEFAULT_MAX_RETRY_DELAY_MS`, 0 is no cap.
        now_ms: the time, in ms since the epoch, for servers that name a date.
    """
    if retries >= max_retries or not is_retryable_status(status, headers):
        return GiveUp()
    asked = retry_after_ms(headers, now_ms)
    if asked is None:
        longest = min(_FIRST_DELAY_MS * 2 ** min(retries, 10), _LONGEST_DELAY_MS)
        return Wait(longest * (1 - _JITTER), longest)
    cap = DEFAULT_MAX_RETRY_DELAY_MS if max_retry_delay_ms is None else max_retry_delay_ms
    return AskedTooLong(asked, cap) if 0 < cap < asked else Wait(asked, asked)


def is_retryable_status(status: int | None, headers: Mapping[str, str] | None = None) -> bool:
    """Whether a response like this says that the same request may succeed later. None: no response.

    The header `x-should-retry` decides where there is one.
    """
    told = _header(headers, "x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    return status is None or status in (408, 409, 429) or status >= 500


def retry_after_ms(headers: Mapping[str, str] | None, now_ms: float) -> float | None:
    """How long a server asks to wait, in ms, at least 0; None where it does not, or not readably.

    >>> retry_after_ms({"Retry-After": " 3 "}, 0), retry_after_ms({"retry-after": "soon"}, 0)
    (3000.0, None)
    """
    exact = _number(_header(headers, "retry-after-ms"))
    if exact is not None:
        return exact
    text = _header(headers, "retry-after")
    seconds = _number(text)
    if seconds is not None:
        return seconds * 1000
    at_ms = _date_ms(text)
    return None if at_ms is None else max(0.0, at_ms - now_ms)


def _header(headers: Mapping[str, str] | None, name: str) -> str:
    for key, value in (headers or {}).items():
        if key.lower() == name:
            return value.strip()
    return ""


def _number(text: str) -> float | None:
    if not _SECONDS.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value * 1000) else None


def _date_ms(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # not cheap, and dates are rare

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    try:
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):  # beyond what a date can be
        return None


__all__ = [
    "DEFAULT_MAX_RETRY_DELAY_MS",
    "AskedTooLong",
    "GiveUp",
    "RequestRetry",
    "Wait",
    "is_retryable_status",
    "plan_request_retry",
    "retry_after_ms",
]
