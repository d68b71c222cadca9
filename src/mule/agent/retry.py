"""The retry wrapper around one assistant call, in Pi's manner."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from mule.transcript.retry import is_retryable_assistant_error, retry_delay_ms
from mule.values.messages import AssistantMessage
from mule.values.run import RetryPolicy
from mule.values.signal import AbortSignal


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryCallbacks:
    """What is told of the retries of a call. Each may be sync or async; the wrapper waits for it.

    Attributes:
        on_retry_scheduled: `(attempt, max_attempts, delay_ms, error_message)`, before the wait.
        on_retry_attempt_start: `()`, after the wait.
        on_retry_finished: `(success, attempt, final_error)`, once, where a retry was scheduled.
    """

    on_retry_scheduled: Callable[[int, int, float, str], Any] | None = None
    on_retry_attempt_start: Callable[[], Any] | None = None
    on_retry_finished: Callable[[bool, int, str | None], Any] | None = None


async def retry_assistant_call(
    produce: Callable[[], Awaitable[AssistantMessage]],
    policy: RetryPolicy | None,
    signal: AbortSignal | None = None,
    callbacks: RetryCallbacks = RetryCallbacks(),
) -> AssistantMessage:
    """Make a call again while it fails transiently and the policy allows.

    An aborted answer is final. An abort during a wait gives the last failed message as aborted,
    without its error text. Look for a context overflow first: its text may look transient.
    """
    allowed = policy.max_retries if policy is not None and policy.enabled else 0
    attempt = 0
    while True:
        answer = await produce()
        failed = answer.stop_reason == "error"
        retryable = failed and attempt < allowed and is_retryable_assistant_error(answer)
        if policy is None or not retryable:
            await _finished(callbacks, answer, attempt)
            return answer
        attempt += 1
        text = answer.error_message or "unknown error"
        delay = retry_delay_ms(policy, attempt)
        await _tell(callbacks.on_retry_scheduled, attempt, allowed, delay, text)
        if not await _slept(delay, signal):
            await _tell(callbacks.on_retry_finished, False, attempt, text)
            return answer.with_(stop_reason="aborted", error_message=None)
        await _tell(callbacks.on_retry_attempt_start)


async def _finished(callbacks: RetryCallbacks, answer: AssistantMessage, attempt: int) -> None:
    if not attempt:
        return
    failed = answer.stop_reason in ("error", "aborted")
    error = answer.error_message if answer.stop_reason == "error" else None
    await _tell(callbacks.on_retry_finished, not failed, attempt, error)


async def _slept(delay_ms: float, signal: AbortSignal | None) -> bool:
    """Wait. False where the signal was aborted first; its registration does not outlive the wait."""
    if signal is None:
        await anyio.sleep(delay_ms / 1000)
        return True
    with anyio.move_on_after(delay_ms / 1000):
        await signal.wait()
    return not signal.aborted


async def _tell(callback: Callable[..., Any] | None, *args: object) -> None:
    if callback is not None:
        told = callback(*args)
        if inspect.isawaitable(told):
            await told
