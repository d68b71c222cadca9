"""The wrapper that makes a failed assistant call again: when, after how long, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from mule.agent import AbortController, RetryCallbacks, retry_assistant_call
from mule.effect import AssistantMessage, RetryPolicy
from mule.testing import answer, error_answer

BUSY = error_answer("503 overloaded")
POLICY = RetryPolicy(max_retries=3, base_delay_ms=2_000, max_agent_delay_ms=60_000)


class Calls:
    """Answers in turn; notes when it was asked."""

    def __init__(self, answers: Sequence[AssistantMessage | Exception]) -> None:
        self._answers = list(answers)
        self.at: list[float] = []

    async def __call__(self) -> AssistantMessage:
        self.at.append(anyio.current_time())
        given = self._answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given


def telling(log: list[Any], *, later: bool = False) -> RetryCallbacks:
    def note(name: str) -> Any:
        async def async_note(*args: object) -> None:
            await anyio.sleep(0.5)
            log.append((name, *args))

        return async_note if later else lambda *args: log.append((name, *args))

    return RetryCallbacks(
        on_retry_scheduled=note("scheduled"),
        on_retry_attempt_start=note("attempt"),
        on_retry_finished=note("finished"),
    )


async def test_a_good_answer_is_returned_and_nothing_is_told() -> None:
    log: list[Any] = []
    calls = Calls([answer("Yes.")])
    result = await retry_assistant_call(calls, POLICY, None, telling(log))
    assert (result.text, log, len(calls.at)) == ("Yes.", [], 1)


async def test_the_waits_double_and_each_step_is_told() -> None:
    log: list[Any] = []
    calls = Calls([BUSY, BUSY, answer("Yes.")])
    result = await retry_assistant_call(calls, POLICY, None, telling(log))
    assert result.text == "Yes."
    assert calls.at == pytest.approx([0, 2, 6])
    assert log == [
        ("scheduled", 1, 3, 2_000, "503 overloaded"),
        ("attempt",),
        ("scheduled", 2, 3, 4_000, "503 overloaded"),
        ("attempt",),
        ("finished", True, 2, None),
    ]


async def test_callbacks_may_be_async_and_are_waited_for() -> None:
    log: list[Any] = []
    calls = Calls([BUSY, answer("Yes.")])
    await retry_assistant_call(calls, POLICY, None, telling(log, later=True))
    assert [entry[0] for entry in log] == ["scheduled", "attempt", "finished"]
    assert calls.at == pytest.approx([0, 3])


async def test_a_wait_is_no_longer_than_the_cap() -> None:
    policy = RetryPolicy(max_retries=3, base_delay_ms=2_000, max_agent_delay_ms=3_000)
    calls = Calls([BUSY, BUSY, BUSY, answer("Yes.")])
    await retry_assistant_call(calls, policy)
    assert calls.at == pytest.approx([0, 2, 5, 8])


async def test_after_the_last_retry_the_failure_is_returned() -> None:
    log: list[Any] = []
    calls = Calls([BUSY] * 4)
    result = await retry_assistant_call(calls, POLICY, None, telling(log))
    assert result is BUSY
    assert len(calls.at) == 4
    assert log[-1] == ("finished", False, 3, "503 overloaded")


@pytest.mark.parametrize(
    "policy",
    [
        None,
        RetryPolicy(enabled=False, max_retries=3, base_delay_ms=1),
        RetryPolicy(max_retries=0, base_delay_ms=1),
    ],
)
async def test_without_a_policy_that_allows_it_nothing_is_retried(policy: RetryPolicy | None) -> None:
    log: list[Any] = []
    calls = Calls([BUSY])
    assert await retry_assistant_call(calls, policy, None, telling(log)) is BUSY
    assert log == []


@pytest.mark.parametrize(
    "final",
    [
        error_answer("401 invalid api key"),
        answer(stop_reason="aborted", error_message="503 overloaded"),
        answer("cut", stop_reason="length"),
    ],
)
async def test_what_will_not_pass_by_itself_is_final(final: AssistantMessage) -> None:
    log: list[Any] = []
    assert await retry_assistant_call(Calls([final]), POLICY, None, telling(log)) is final
    assert log == []


async def test_a_failure_of_another_kind_after_a_retry_is_told() -> None:
    log: list[Any] = []
    refused = error_answer("401 invalid api key")
    assert await retry_assistant_call(Calls([BUSY, refused]), POLICY, None, telling(log)) is refused
    assert log[-1] == ("finished", False, 1, "401 invalid api key")


async def test_an_abort_after_a_retry_is_told_without_a_text() -> None:
    log: list[Any] = []
    aborted = answer(stop_reason="aborted", error_message="Request was aborted")
    assert await retry_assistant_call(Calls([BUSY, aborted]), POLICY, None, telling(log)) is aborted
    assert log[-1] == ("finished", False, 1, None)


async def test_an_abort_in_the_wait_ends_it_at_once() -> None:
    log: list[Any] = []
    controller = AbortController()
    calls = Calls([BUSY])
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(1)
            controller.abort()

        tasks.start_soon(later)
        result = await retry_assistant_call(calls, POLICY, controller.signal, telling(log))
    assert anyio.current_time() == pytest.approx(1)
    assert (result.stop_reason, result.error_message) == ("aborted", None)
    assert len(calls.at) == 1
    assert log[-1] == ("finished", False, 1, "503 overloaded")


async def test_an_abort_before_the_wait_ends_it_too() -> None:
    controller = AbortController()
    controller.abort()
    result = await retry_assistant_call(Calls([BUSY]), POLICY, controller.signal)
    assert result.stop_reason == "aborted"
    assert anyio.current_time() == pytest.approx(0)


async def test_waits_leave_nothing_on_the_signal() -> None:
    controller = AbortController()
    calls = Calls([BUSY, BUSY, BUSY, answer("Yes.")])
    await retry_assistant_call(calls, POLICY, controller.signal)
    assert calls.at == pytest.approx([0, 2, 6, 14])
    assert not controller.signal._listeners


async def test_a_cancel_in_the_wait_goes_through() -> None:
    log: list[Any] = []
    controller = AbortController()
    with anyio.move_on_after(1) as scope:
        await retry_assistant_call(Calls([BUSY]), POLICY, controller.signal, telling(log))
    assert scope.cancelled_caught
    assert [entry[0] for entry in log] == ["scheduled"]
    assert not controller.signal._listeners


async def test_what_the_call_raises_goes_through() -> None:
    with pytest.raises(RuntimeError, match="fog"):
        await retry_assistant_call(Calls([RuntimeError("fog")]), POLICY)
