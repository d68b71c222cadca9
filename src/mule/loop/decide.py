"""What comes next in a run: a pure function of the last step and of how things stand.

The order is Pi's. At a turn's end: `turn_end`, steering, follow-ups, the preparation of the next turn,
steering once more, `turn_start`, messages, the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, assert_never


class Step(Enum):
    """One thing that the interpreter performs."""

    OPEN = auto()  # run_start, the first turn_start, the prompts
    POLL_AT_START = auto()
    ADD_MESSAGES = auto()
    CALL_MODEL = auto()
    RUN_TOOLS = auto()
    END_TURN = auto()
    POLL_STEERING = auto()
    POLL_FOLLOW_UPS = auto()
    PREPARE_TURN = auto()
    POLL_AGAIN = auto()
    START_TURN = auto()
    FINISH = auto()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands.

    Attributes:
        failed: the last answer is an error or was aborted.
        calls: it asks for tools.
        unanswered: its tool results wait for an answer (not all of them said terminate).
        pending: messages were polled that are not in the transcript yet.
        verdict: what the hooks at the turn's end asked for.
        aborted: the cooperative signal was given: what waits in a queue stays there.
    """

    failed: bool = False
    calls: bool = False
    unanswered: bool = False
    pending: bool = False
    verdict: Literal["end", "continue"] | None = None
    aborted: bool = False


def decide(last: Step, now: Standing) -> Step:
    """The step after `last`.

    A terminating batch only stops the automatic request: steering and follow-ups are still polled,
    and win. `continue` gives one turn with nothing new, and only where nothing else asked for one.
    """
    match last:
        case Step.OPEN:
            return Step.POLL_AT_START
        case Step.POLL_AT_START | Step.START_TURN:
            return Step.ADD_MESSAGES
        case Step.ADD_MESSAGES:
            return Step.CALL_MODEL
        case Step.CALL_MODEL:
            return Step.RUN_TOOLS if now.calls and not now.failed else Step.END_TURN
        case Step.RUN_TOOLS:
            return Step.END_TURN
        case Step.END_TURN:
            if now.failed or now.verdict == "end":
                return Step.FINISH
            return _unpolled(now) if now.aborted else Step.POLL_STEERING
        case Step.POLL_STEERING:
            if now.unanswered or now.pending:
                return Step.PREPARE_TURN
            return _unpolled(now) if now.aborted else Step.POLL_FOLLOW_UPS
        case Step.POLL_FOLLOW_UPS:
            return _unpolled(now)
        case Step.PREPARE_TURN:
            # Preparing may take long (a compaction): look once more, but only where the poll before
            # gave nothing, or a queue that gives one message at a time would give two.
            return Step.START_TURN if now.pending or now.aborted else Step.POLL_AGAIN
        case Step.POLL_AGAIN:
            return Step.START_TURN
        case Step.FINISH:
            return Step.FINISH
        case other:
            assert_never(other)


def _unpolled(now: Standing) -> Step:
    """The step after a turn where no queue is asked any more."""
    again = now.unanswered or now.pending or now.verdict == "continue"
    return Step.PREPARE_TURN if again else Step.FINISH
