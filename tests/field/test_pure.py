"""Tables of input and output: what a Retry-After means, and which failures are worth another try."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from field.reported import FieldCase
from mule.transcript.overflow import is_context_overflow
from mule.transcript.request_retry import AskedTooLong, Wait, plan_request_retry
from mule.transcript.retry import is_retryable_assistant_error
from mule.values.messages import AssistantMessage


def test_every_row_of_a_table_holds(pure_case: FieldCase) -> None:
    check = _CHECKS[pure_case.content["function"]]
    wrong = {
        str(row): said for row in pure_case.content["cases"] if (said := check(row, pure_case.content))
    }
    assert wrong == {}


def test_a_context_overflow_is_not_retried_as_it_is() -> None:
    assert not is_retryable_assistant_error(
        _failed("429 prompt is too long: 212000 tokens > 200000 maximum")
    )
    assert not is_retryable_assistant_error(_failed("503 this exceeds the context window of the model"))


def _check_delay(row: Mapping[str, Any], table: Mapping[str, Any]) -> str | None:
    """What is wrong with the delay that one response's headers give."""
    now_ms = datetime.fromisoformat(table["now"]).timestamp() * 1000
    cap_ms = table["cap"] * 1000
    plan = plan_request_retry(
        429, row["headers"], retries=0, max_retries=1, max_retry_delay_ms=cap_ms, now_ms=now_ms
    )
    own = plan_request_retry(429, {}, retries=0, max_retries=1, max_retry_delay_ms=cap_ms, now_ms=now_ms)
    if isinstance(plan, Wait) and not 0 <= plan.min_ms <= plan.max_ms <= cap_ms:
        return f"no wait may be {plan}"
    return None if _fits(row["want"], plan, own) else f"{plan}"


def _fits(want: Any, plan: object, own: object) -> bool:
    if isinstance(want, int | float):
        seconds = plan.max_ms / 1000 if isinstance(plan, Wait) and plan.min_ms == plan.max_ms else math.nan
        return math.isclose(seconds, want, abs_tol=1e-9)
    allowed = str(want).partition(",")[0].split(" or ")  # "null or fail, never a wait"
    return (
        (plan == own and ("None" in allowed or "null" in allowed))
        or (isinstance(plan, AskedTooLong) and "fail" in allowed)
        or (plan == Wait(0, 0) and "0" in allowed)
    )


def _check_retryable(row: Mapping[str, Any], _table: Mapping[str, Any]) -> str | None:
    got = is_retryable_assistant_error(_failed(row["error"]))
    return None if got == row["want"] else f"{got}"


def _failed(text: str) -> AssistantMessage:
    return AssistantMessage(
        api="openai-completions",
        provider="pondworks",
        model="pond-1",
        stop_reason="error",
        error_message=text,
    )


def _check_overflow(row: Mapping[str, Any], _table: Mapping[str, Any]) -> str | None:
    got = is_context_overflow(_failed(row["error"]))
    return None if got == row["want"] else f"{got}"


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str | None]]] = {
    "retry_delay_seconds": _check_delay,
    "is_retryable": _check_retryable,
    "is_context_overflow": _check_overflow,
}
