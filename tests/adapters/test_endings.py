"""How a call ended is one of a closed set, whatever the provider's words, and says whether to try again."""

from __future__ import annotations

import pytest

from mule.transcript.endings import ending_of, failure_of, is_retryable_failure
from mule.values.errors import Ending, ModelFailed
from mule.values.messages import AssistantMessage


def failed(text: str, *, aborted: bool = False, provider: str = "marsh") -> AssistantMessage:
    """A failed answer with this text."""
    return AssistantMessage(
        api="a",
        provider=provider,
        model="m",
        stop_reason="aborted" if aborted else "error",
        error_message=text,
    )


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (400, "invalid_request"),
        (401, "authentication"),
        (402, "quota"),
        (403, "authentication"),
        (404, "invalid_request"),
        (408, "stalled"),
        (413, "invalid_request"),
        (418, "invalid_request"),
        (422, "invalid_request"),
        (429, "rate_limited"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "overloaded"),
        (504, "stalled"),
        (520, "server_error"),
        (529, "overloaded"),
    ],
)
def test_a_status_alone_is_enough(status: int, ending: Ending) -> None:
    assert ending_of(status=status, text="something happened") == ending


@pytest.mark.parametrize(
    ("status", "codes", "text", "ending"),
    [
        (400, ("context_length_exceeded",), "", "context_overflow"),
        (400, ("exceed_context_size_error",), "", "context_overflow"),
        (400, (), "prompt is too long: 9 tokens > 8 maximum", "context_overflow"),
        (400, ("invalid_api_key", "invalid_request_error"), "no", "authentication"),
        (400, ("content_filter",), "no", "content_filtered"),
        (401, ("invalid_request_error",), "no", "authentication"),
        (429, ("insufficient_quota",), "You exceeded your current quota", "quota"),
        (429, (), "code 1308: usage limit reached, resets in 5 days", "quota"),
        (429, ("rate_limit_error",), "too many tokens, rate limit of 5 a minute", "rate_limited"),
        (None, ("Overloaded_Error",), "", "overloaded"),
        (None, ("server_error",), "", "server_error"),
        (200, ("server_error",), "", "server_error"),
        (503, ("rate_limit_exceeded",), "", "rate_limited"),
    ],
)
def test_what_a_provider_calls_it_says_more_than_a_status(
    status: int | None, codes: tuple[str, ...], text: str, ending: Ending
) -> None:
    assert ending_of(status=status, codes=codes, text=text) == ending


def test_a_provider_that_says_nothing_says_that_the_context_is_too_long() -> None:
    assert ending_of(status=413, text="413 (no body)", provider="cerebras") == "context_overflow"
    assert ending_of(status=413, text="413 (no body)", provider="marsh") == "invalid_request"


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("529 overloaded_error: Overloaded", "overloaded"),
        ("HTTP 401 no", "authentication"),
        ("Error code: 502 - oops", "server_error"),
        ("read ECONNRESET", "network"),
        ("fetch failed", "network"),
        ("Request timed out.", "stalled"),
        ("stream ended without a finish_reason", "truncated"),
        ("Provider finish_reason: content_filter", "content_filtered"),
        ("the dog ate it", "unknown"),
        ("5000 things went wrong", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_text_is_read_where_there_is_nothing_else(text: str, ending: Ending) -> None:
    assert failure_of(failed(text)).ending == ending


def test_an_aborted_answer_is_aborted_whatever_its_text() -> None:
    assert failure_of(failed("503 overloaded", aborted=True)).ending == "aborted"


@pytest.mark.parametrize(
    ("ending", "again"),
    [
        ("rate_limited", True),
        ("overloaded", True),
        ("server_error", True),
        ("network", True),
        ("stalled", True),
        ("truncated", True),
        ("context_overflow", False),
        ("content_filtered", False),
        ("refused", False),
        ("quota", False),
        ("authentication", False),
        ("invalid_request", False),
        ("malformed", False),
        ("aborted", False),
        ("unknown", False),
    ],
)
def test_the_ending_decides_whether_to_try_again(ending: Ending, again: bool) -> None:
    assert is_retryable_failure(ModelFailed(ending, failed("something"))) == again


def test_the_text_decides_where_the_ending_is_not_known() -> None:
    assert is_retryable_failure(ModelFailed("unknown", failed("Selected model is at capacity")))
    assert not is_retryable_failure(ModelFailed("unknown", failed("insufficient_quota, try again")))


def test_a_server_that_says_whether_to_try_again_is_believed() -> None:
    yes, no = {"X-Should-Retry": "true"}, {"x-should-retry": "false"}
    assert is_retryable_failure(ModelFailed("invalid_request", failed("no"), 400, yes))
    assert not is_retryable_failure(ModelFailed("overloaded", failed("no"), 503, no))
    assert not is_retryable_failure(ModelFailed("aborted", failed("no", aborted=True), 200, yes))


def test_a_certificate_does_not_mend_by_itself() -> None:
    text = "The certificate of pond.test is not trusted: [SSL: CERTIFICATE_VERIFY_FAILED]"
    assert not is_retryable_failure(ModelFailed("network", failed(text)))
