"""How did an assistant call fail, and may it succeed when it is made again?

Every API words its failures in its own way. Here they become one closed set (`mule.values.errors.Ending`),
so that a host decides by type: by the provider's code first, by the HTTP status next, by the text last.
Whether a text alone speaks of something that passes is asked of `mule.transcript.retry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from mule.transcript.overflow import is_overflow_text
from mule.transcript.retry import is_transient_text
from mule.values.errors import Ending, ModelFailed
from mule.values.messages import AssistantMessage

_PASSING: Final = frozenset(
    {"rate_limited", "overloaded", "server_error", "network", "stalled", "truncated"}
)
"""Endings after which the same call may well succeed."""

_EXACT_CODES: Final[Mapping[str, Ending]] = {
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_context_window_exceeded": "context_overflow",
    "insufficient_quota": "quota",
    "insufficient_credits": "quota",
    "insufficient_balance": "quota",
    "quota_exceeded": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "usage_limit_reached": "quota",
    "usage_not_included": "quota",
    "gousagelimiterror": "quota",
    "freeusagelimiterror": "quota",
    "subscription_sharing_usage_limit_exceeded": "quota",
    "rate_limit_exceeded": "rate_limited",
    "rate_limit_error": "rate_limited",
    "rate_limit_reached": "rate_limited",
    "too_many_requests": "rate_limited",
    "throttling_error": "rate_limited",
    "throttlingexception": "rate_limited",
    "resource_exhausted": "rate_limited",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "engine_overloaded": "overloaded",
    "model_overloaded": "overloaded",
    "server_busy": "overloaded",
    "service_unavailable": "overloaded",
    "serviceunavailableexception": "overloaded",
    "slow_down": "overloaded",
    "unavailable": "overloaded",
    "invalid_api_key": "authentication",
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "permission_denied": "authentication",
    "unauthenticated": "authentication",
    "unauthorized": "authentication",
    "accessdeniedexception": "authentication",
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "responsibleaipolicyviolation": "content_filtered",
    "timeout_error": "stalled",
    "deadline_exceeded": "stalled",
    "gateway_timeout": "stalled",
}
"""What providers call their failures, in lower case. These say more than a status does."""

_GENERAL_CODES: Final[Mapping[str, Ending]] = {
    "invalid_request_error": "invalid_request",
    "invalid_argument": "invalid_request",
    "badrequesterror": "invalid_request",
    "bad_request": "invalid_request",
    "not_found_error": "invalid_request",
    "notfounderror": "invalid_request",
    "model_not_found": "invalid_request",
    "validationexception": "invalid_request",
    "server_error": "server_error",
    "api_error": "server_error",
    "internal_error": "server_error",
    "internal_server_error": "server_error",
    "internalserverexception": "server_error",
    "internal": "server_error",
}
"""The same for words that say less than a status does."""

_STATUSES: Final[Mapping[int, Ending]] = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    407: "authentication",
    408: "stalled",
    409: "server_error",  # a lock that was not given in time; the official clients try again
    425: "overloaded",
    429: "rate_limited",
    503: "overloaded",
    504: "stalled",
    524: "stalled",
    529: "overloaded",
}

_QUOTA: Final = re.compile(
    r"insufficient.?(?:quota|credits?|balance|funds)|quota exceeded"
    r"|exceeded your (?:current |monthly )?quota"
    r"|billing|out of budget|available balance|usage.?limit.?(?:reached|exceeded|error)"
    r"|resets? in [0-9]+ (?:hour|day|week)",
    re.IGNORECASE,
)
_WORDS: Final[tuple[tuple[str, Ending], ...]] = (
    (r"content.?filter|content.?policy|safety (?:filter|system)", "content_filtered"),
    (r"overloaded|high demand|at capacity|server.?busy|servers? (?:is|are) .*busy", "overloaded"),
    (r"service.?unavailable", "overloaded"),
    (r"rate.?limit|too many requests|throttl|resourceexhausted", "rate_limited"),
    (r"invalid.{0,12}api.?key|unauthori[sz]ed|unauthenticated|permission denied", "authentication"),
    (r"timed? out|timeout", "stalled"),
    (r"ended without|ended before", "truncated"),
    (r"connection|econn|enotfound|eai_again|getaddrinfo|name resolution|network", "network"),
    (r"socket hang up|fetch failed|terminated|server disconnected|peer closed", "network"),
    (r"server.?error|internal.?error|bad gateway", "server_error"),
)
_LEADING_STATUS: Final = re.compile(r"(?:error |http )?(?:code:? )?([45][0-9][0-9])\b", re.IGNORECASE)
_CERTIFICATE: Final = re.compile(r"certificate", re.IGNORECASE)


def ending_of(
    *, status: int | None = None, codes: Iterable[str] = (), text: str = "", provider: str = ""
) -> Ending:
    """What a failure is, from the evidence there is.

    Args:
        status: of the HTTP answer, or the number that a provider gave as its code.
        codes: the provider's codes and types, the most exact one first; in any case.
        text: the provider's words.
        provider: whose words they are; a few providers say an overflow in none at all.

    >>> ending_of(status=429, codes=("insufficient_quota",))
    'quota'
    >>> ending_of(text="529 Overloaded")
    'overloaded'
    """
    if is_overflow_text(text, provider):
        return "context_overflow"
    names = [code.strip().lower() for code in codes]
    return (
        _first(names, _EXACT_CODES)
        or ("quota" if _QUOTA.search(text) else None)
        or _ending_of_status(status)
        or _first(names, _GENERAL_CODES)
        or _ending_of_text(text)
    )


def _first(names: Iterable[str], table: Mapping[str, Ending]) -> Ending | None:
    return next((table[name] for name in names if name in table), None)


def _ending_of_status(status: int | None) -> Ending | None:
    if status is None or status < 400 or status > 599:
        return None
    known = _STATUSES.get(status)
    if known is not None:
        return known
    return "server_error" if status >= 500 else "invalid_request"


def _ending_of_text(text: str) -> Ending:
    leading = _LEADING_STATUS.match(text)
    told = _ending_of_status(int(leading.group(1))) if leading else None
    if told is not None:
        return told
    for words, ending in _WORDS:
        if re.search(words, text, re.IGNORECASE):
            return ending
    return "unknown"


def failure_of(message: AssistantMessage) -> ModelFailed:
    """The evidence for a failed answer of which nothing but the message is known."""
    if message.stop_reason == "aborted":
        return ModelFailed("aborted", message)
    return ModelFailed(ending_of(text=message.error_message or "", provider=message.provider), message)


def is_retryable_failure(failure: ModelFailed) -> bool:
    """Whether a failed call may well succeed when it is made again as it was.

    What the server said in `x-should-retry` decides, then the ending; the text only where the ending is
    not known, and for certificates, which do not mend by themselves.
    """
    told = _should_retry(failure.headers)
    if told is not None and failure.ending != "aborted":
        return told
    text = failure.message.error_message or ""
    if failure.ending == "unknown":
        return is_transient_text(text)
    if failure.ending == "network" and _CERTIFICATE.search(text):
        return False
    return failure.ending in _PASSING


def _should_retry(headers: Mapping[str, str] | None) -> bool | None:
    for name, value in (headers or {}).items():
        if name.lower() == "x-should-retry" and value.strip() in ("true", "false"):
            return value.strip() == "true"
    return None
