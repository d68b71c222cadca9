"""Is a failed answer worth another try, and how long until then?

The type of a failure decides where it is known (see `mule.transcript.endings`); its text is the last
resort, for messages that come out of a transcript or from a stream of a host's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mule.transcript.overflow import is_context_overflow
from mule.values.messages import AssistantMessage
from mule.values.run import RetryPolicy

DEFAULT_MAX_AGENT_DELAY_MS: Final = 60_000
"""Longest wait before a retry where a policy names none."""

_TRANSIENT: Final = re.compile(
    "|".join(
        (
            # Load, and the status codes of servers and proxies that say: later. Not as part of a number.
            r"(?<![0-9.])(?:429|500|502|503|504|520|522|524|529)(?![0-9])",
            r"overloaded",
            r"experiencing high demand",
            r"rate.?limit",
            r"too many requests",
            r"server.?busy|servers? (?:is|are) (?:currently )?busy",
            r"at capacity",
            r"resourceexhausted",
            r"service.?unavailable",
            r"server.?error|internal.?error",
            r"provider.?returned.?(?:an.?)?error",
            r"exceeded request buffer limit while retrying upstream",
            r"subscription_sharing_us(?:age|er)_unavailable",
            # Connections that failed or broke, in the words of Node, Bun, httpx and proxies.
            r"network.?error|connection.?error|all connection attempts failed",
            r"connection.?(?:refused|lost|reset|closed|aborted)|connection was closed",
            r"econn(?:reset|refused|aborted)|epipe|etimedout|enotfound|eai_again|getaddrinfo",
            r"e(?:host|net)unreach|(?:name or service not known)|name resolution",
            r"other side closed|socket hang up|fetch failed|server disconnected",
            r"upstream.?connect|reset before headers|http2 request did not get a response",
            r"peer closed connection|incomplete (?:chunked|message)",
            r"timed? out|timeout",
            r"terminated",
            r"websocket.?(?:closed|error)",
            # Streams that stopped before their end.
            r"ended without|ended before (?:message_stop|a terminal response event)",
            # What a provider, or our own refusal of a long wait, says about trying again.
            r"retry delay",
            r"(?:you can retry|try|please retry) your request(?: again)?",
        )
    ),
    re.IGNORECASE,
)
_LASTING: Final = re.compile(
    "|".join(
        (
            # Accounts that are used up come as 429 too. They do not recover within a run.
            r"insufficient.?(?:quota|credits?|balance|funds)",
            r"quota exceeded|exceeded your (?:current |monthly )?quota",
            r"billing",
            r"out of budget",
            r"available balance",
            r"usage.?limit.?(?:reached|exceeded|error)",
            r"resets? in [0-9]+ (?:hour|day|week)",
        )
    ),
    re.IGNORECASE,
)


def is_transient_text(text: str) -> bool:
    """Whether an error text speaks of something that passes: load, a broken connection, a time-out."""
    return bool(_TRANSIENT.search(text)) and not _LASTING.search(text)


def is_retryable_assistant_error(message: AssistantMessage) -> bool:
    """Whether a failed answer may well succeed when asked for again as it is.

    A context overflow is not one of these: the same request overflows again.
    """
    text = message.error_message
    if message.stop_reason != "error" or not text:
        return False
    return is_transient_text(text) and not is_context_overflow(message)


def retry_delay_ms(policy: RetryPolicy, attempt: int) -> float:
    """How long to wait before retry `attempt` (1 before the first), in ms. No jitter.

    >>> retry_delay_ms(RetryPolicy(max_retries=3, base_delay_ms=2_000), 3)
    8000
    """
    cap = _cap_ms(policy)
    doublings = max(0, attempt - 1)
    # Beyond this every base but 0 is over every cap, and a float would overflow.
    if doublings > 60:
        return cap if policy.base_delay_ms > 0 else 0
    return min(policy.base_delay_ms * (1 << doublings), cap)


def _cap_ms(policy: RetryPolicy) -> float:
    cap = policy.max_agent_delay_ms
    return DEFAULT_MAX_AGENT_DELAY_MS if cap is None else cap


@dataclass(frozen=True, slots=True)
class AskedTooLong:
    """A provider asked for a longer wait than is allowed, so there is no other try. Milliseconds."""

    asked_ms: float
    cap_ms: float

    def __str__(self) -> str:
        asked, cap = -(-self.asked_ms // 1000), -(-self.cap_ms // 1000)
        return f"The provider asked for a retry delay of {asked:.0f} s; at most {cap:.0f} s are waited for."


def plan_assistant_retry(
    policy: RetryPolicy, attempt: int, asked_ms: float | None = None
) -> float | AskedTooLong:
    """How long to wait before retry `attempt`, in ms, given what the provider asked for, if anything.

    What it asked for is waited for where it is longer than the policy's own delay.
    """
    own = retry_delay_ms(policy, attempt)
    if asked_ms is None or asked_ms <= own:
        return own
    cap = _cap_ms(policy)
    return AskedTooLong(asked_ms, cap) if asked_ms > cap else asked_ms
