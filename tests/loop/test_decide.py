"""What comes next: the whole table, as a pure function of the last step and of how things stand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from mule.loop.decide import Standing, Step, decide

ASKED = Standing(calls=True)
UNANSWERED = Standing(calls=True, unanswered=True)
PENDING = Standing(pending=True)
FAILED = Standing(failed=True)
STOPPED = Standing(verdict="end")
ONE_MORE = Standing(verdict="continue")
ABORTED = Standing(aborted=True)
CUT_SHORT = Standing(calls=True, unanswered=True, aborted=True)

TABLE: list[tuple[Step, Standing, Step]] = [
    (Step.OPEN, Standing(), Step.POLL_AT_START),
    (Step.POLL_AT_START, Standing(), Step.ADD_MESSAGES),
    (Step.ADD_MESSAGES, Standing(), Step.CALL_MODEL),
    (Step.CALL_MODEL, Standing(), Step.END_TURN),
    (Step.CALL_MODEL, ASKED, Step.RUN_TOOLS),
    (Step.RUN_TOOLS, UNANSWERED, Step.END_TURN),
    (Step.END_TURN, Standing(), Step.POLL_STEERING),
    (Step.END_TURN, UNANSWERED, Step.POLL_STEERING),
    (Step.END_TURN, ABORTED, Step.FINISH),
    (Step.END_TURN, CUT_SHORT, Step.PREPARE_TURN),
    (Step.END_TURN, replace(ONE_MORE, aborted=True), Step.PREPARE_TURN),
    (Step.POLL_STEERING, Standing(), Step.POLL_FOLLOW_UPS),
    (Step.POLL_STEERING, ABORTED, Step.FINISH),
    (Step.POLL_STEERING, CUT_SHORT, Step.PREPARE_TURN),
    (Step.POLL_STEERING, replace(PENDING, aborted=True), Step.PREPARE_TURN),
    (Step.POLL_STEERING, UNANSWERED, Step.PREPARE_TURN),
    (Step.POLL_STEERING, PENDING, Step.PREPARE_TURN),
    (Step.POLL_FOLLOW_UPS, Standing(), Step.FINISH),
    (Step.POLL_FOLLOW_UPS, PENDING, Step.PREPARE_TURN),
    (Step.POLL_FOLLOW_UPS, ONE_MORE, Step.PREPARE_TURN),
    (Step.PREPARE_TURN, Standing(), Step.POLL_AGAIN),
    (Step.PREPARE_TURN, PENDING, Step.START_TURN),
    (Step.PREPARE_TURN, CUT_SHORT, Step.START_TURN),
    (Step.POLL_AGAIN, Standing(), Step.START_TURN),
    (Step.POLL_AGAIN, PENDING, Step.START_TURN),
    (Step.START_TURN, Standing(), Step.ADD_MESSAGES),
    (Step.FINISH, Standing(), Step.FINISH),
]


@pytest.mark.parametrize(
    ("last", "now", "then"), TABLE, ids=[f"{last.name}-{to.name}" for last, _, to in TABLE]
)
def test_each_step_follows_from_the_last_one(last: Step, now: Standing, then: Step) -> None:
    assert decide(last, now) is then


def test_the_table_names_every_step() -> None:
    assert {last for last, _, _ in TABLE} == set(Step)


def test_a_failed_answer_runs_no_tools_and_is_the_last() -> None:
    for calls, unanswered, pending in product([False, True], repeat=3):
        now = Standing(failed=True, calls=calls, unanswered=unanswered, pending=pending)
        assert decide(Step.CALL_MODEL, now) is Step.END_TURN
        assert decide(Step.END_TURN, now) is Step.FINISH


def test_a_verdict_to_end_comes_before_every_poll() -> None:
    for unanswered, pending in product([False, True], repeat=2):
        now = Standing(verdict="end", unanswered=unanswered, pending=pending)
        assert decide(Step.END_TURN, now) is Step.FINISH


def test_messages_that_wait_win_over_a_batch_that_terminates() -> None:
    terminated = Standing(calls=True, unanswered=False)
    assert decide(Step.POLL_STEERING, terminated) is Step.POLL_FOLLOW_UPS
    assert decide(Step.POLL_STEERING, Standing(calls=True, pending=True)) is Step.PREPARE_TURN
    assert decide(Step.POLL_FOLLOW_UPS, Standing(calls=True, pending=True)) is Step.PREPARE_TURN


def test_steering_is_polled_again_only_where_the_poll_before_gave_nothing() -> None:
    again = {now: decide(Step.PREPARE_TURN, now) for now in (Standing(), UNANSWERED, ONE_MORE, PENDING)}
    assert [step is Step.POLL_AGAIN for step in again.values()] == [True, True, True, False]


def test_once_aborted_no_queue_is_asked() -> None:
    for last, unanswered, pending, verdict in product(
        set(Step) - {Step.OPEN}, [False, True], [False, True], [None, "continue"]
    ):
        now = Standing(unanswered=unanswered, pending=pending, verdict=verdict, aborted=True)  # type: ignore[arg-type]  # product widens
        polls = {Step.POLL_AT_START, Step.POLL_STEERING, Step.POLL_FOLLOW_UPS, Step.POLL_AGAIN}
        assert decide(last, now) not in polls


def test_no_way_through_the_table_skips_the_end_of_a_turn() -> None:
    """From every step and standing, the next model call lies behind END_TURN, or the run has just begun."""
    standings = [
        Standing(failed=f, calls=c, unanswered=u, pending=p, verdict=v)
        for f, c, u, p in product([False, True], repeat=4)
        for v in (None, "end", "continue")
    ]
    for now in standings:
        step, ended = Step.CALL_MODEL, False
        for _ in range(len(Step)):
            step = decide(step, now)
            ended = ended or step is Step.END_TURN
            if step in (Step.CALL_MODEL, Step.FINISH):
                break
        assert step in (Step.CALL_MODEL, Step.FINISH), now
        assert ended, now
