"""Waits are finite, never negative and never longer than allowed, whatever a server says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mule.transcript.request_retry import (
    AskedTooLong,
    GiveUp,
    RequestRetry,
    Wait,
    plan_request_retry,
    retry_after_ms,
)
from mule.transcript.retry import is_transient_text, plan_assistant_retry, retry_delay_ms
from mule.values.run import RetryPolicy

_POLICY = RetryPolicy(max_retries=3, base_delay_ms=2_000)

values = st.one_of(
    st.text(max_size=12),
    st.floats().map(str),
    st.integers().map(str),
    st.datetimes().map(lambda date: date.strftime("%a, %d %b %Y %H:%M:%S GMT")),
    st.sampled_from(["Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 01 Jan 0001 00:00:00 +2359", "1e400", "nan"]),
)


def _plan(value: str, name: str = "retry-after", cap_ms: float | None = None) -> RequestRetry:
    return plan_request_retry(
        429, {name: value}, retries=0, max_retries=1, max_retry_delay_ms=cap_ms, now_ms=1_893_456_000_000
    )


@given(values, st.sampled_from(["retry-after", "Retry-After-Ms"]))
def test_no_header_makes_a_wait_that_is_no_wait(value: str, name: str) -> None:
    match _plan(value, name):
        case Wait(min_ms=least, max_ms=most):
            assert 0 <= least <= most <= 60_000
        case AskedTooLong(asked_ms=asked, cap_ms=cap):
            assert cap < asked < float("inf")
        case GiveUp():
            raise AssertionError("a 429 is worth another try")


@given(values)
def test_what_cannot_be_read_asks_for_nothing(value: str) -> None:
    asked = retry_after_ms({"Retry-After": value}, 0)
    assert asked is None or 0 <= asked < float("inf")


def test_a_wait_without_a_cap_is_waited_for() -> None:
    assert _plan("3600", cap_ms=0) == Wait(3_600_000, 3_600_000)


def test_a_wait_above_the_cap_says_how_long_was_asked() -> None:
    plan = _plan("90.5")
    assert plan == AskedTooLong(90_500, 60_000)
    assert "91 s" in str(plan)
    assert "60 s" in str(plan)


@given(st.integers(-3, 10_000), st.floats(0, 1e308), st.floats(0, 1e308))
def test_a_policys_own_delay_stays_below_its_cap(attempt: int, base: float, cap: float) -> None:
    policy = RetryPolicy(max_retries=1, base_delay_ms=base, max_agent_delay_ms=cap)
    assert 0 <= retry_delay_ms(policy, attempt) <= cap


def test_the_longer_of_both_waits_is_waited() -> None:
    assert plan_assistant_retry(_POLICY, 1) == 2_000
    assert plan_assistant_retry(_POLICY, 1, 500) == 2_000
    assert plan_assistant_retry(_POLICY, 1, 7_000) == 7_000
    assert plan_assistant_retry(_POLICY, 1, 60_001) == AskedTooLong(60_001, 60_000)


def test_jitter_makes_a_wait_shorter_and_never_longer() -> None:
    wait = Wait(375, 500)
    assert wait.delay_ms(0.0) == 500
    assert 375 <= wait.delay_ms(0.999) < 376


def test_a_number_that_contains_a_status_code_is_none() -> None:
    assert is_transient_text("HTTP 503")
    assert is_transient_text('{"code":429}')
    assert not is_transient_text("400 max_tokens must be at most 50000")
    assert not is_transient_text("order 5003 shipped")
