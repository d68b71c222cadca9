"""An error is a value: equal by reason and place, hashable, picklable, told in one sentence."""

from __future__ import annotations

import copy
import pickle
from typing import get_args

import pytest
from hypothesis import given

from mule.testing import error_answer
from mule.values.errors import (
    BudgetExceeded,
    Defect,
    HookFailed,
    InvalidInput,
    ListenerFailed,
    ModelFailed,
    MuleError,
    MuleToolRejection,
    NotSupported,
    Reason,
    Rejected,
    ResumeMismatch,
    SchemaMismatch,
    ToolFailed,
    describe,
)
from mule.values.run import MuleIdentity, MuleRunOutcome, RunStart
from values import strategies

RUN = MuleIdentity("run", "r-1")
TOOL = MuleIdentity("tool", "c-1")
START = RunStart(sequence=0, timestamp=5, run=RUN)


def test_errors_are_equal_by_reason_and_place() -> None:
    outcome = MuleRunOutcome(run=RUN, messages=(), new_messages=(), final=None, ended=None, turns=0)
    error = MuleError(HookFailed("on_retry"), RUN)
    assert error == MuleError(HookFailed("on_retry"), RUN, outcome).because(OSError())
    assert error != MuleError(HookFailed("on_retry"), TOOL)
    assert error != MuleError(HookFailed("get_steering_messages"), RUN)
    assert error != MuleError(ToolFailed("on_retry", ""), RUN)
    assert error != HookFailed("on_retry")


@given(strategies.errors)
def test_every_error_can_be_hashed_and_equal_ones_alike(error: MuleError) -> None:
    same = MuleError.from_json(error.to_json())
    assert hash(error) == hash(same)
    assert len({error, same}) == 1


def test_the_hash_looks_at_the_kind_of_reason_and_the_place() -> None:
    one, other = MuleError(Defect("a"), RUN), MuleError(Defect("b"), RUN)
    assert hash(one) == hash(other)
    assert hash(one) != hash(MuleError(Defect("a"), TOOL))
    assert hash(one) != hash(MuleError(HookFailed("a"), RUN))


def test_the_cause_is_the_exception_behind_it() -> None:
    cause = OSError("gone")
    error = MuleError(HookFailed("on_retry")).because(cause)
    assert error.__cause__ is cause


def test_an_error_can_be_raised_and_caught() -> None:
    with pytest.raises(MuleError, match="on_retry"):
        raise MuleError(HookFailed("on_retry"))


@pytest.mark.parametrize(
    "error",
    [MuleError(HookFailed("h"), RUN), MuleToolRejection("unavailable", "later", {"a": [1]}, True, TOOL)],
)
def test_an_error_survives_a_pickle_and_a_copy(error: MuleError) -> None:
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(same) is type(error)
        assert same == error


def test_a_rejection_is_an_error_whose_reason_says_what_the_model_is_told() -> None:
    rejection = MuleToolRejection("invalid_arguments", "n must be a number")
    assert rejection == MuleError(Rejected("invalid_arguments", "n must be a number"))
    assert rejection.reason.text == "n must be a number"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (InvalidInput("tools.1.name", "used twice"), ["tools.1.name", "used twice"]),
        (NotSupported("voice", "pip install mule[voice]"), ["voice", "pip install mule[voice]"]),
        (NotSupported("voice"), ["voice"]),
        (ModelFailed("rate_limited", error_answer("429: slow down")), ["rate_limited", "429: slow down"]),
        (HookFailed("on_retry"), ["hook", "on_retry"]),
        (ListenerFailed(START), ["listener", "run_start"]),
        (ToolFailed("weigh", "no scale"), ["weigh", "no scale"]),
        (Rejected("not_authorized", "ask first"), ["not_authorized", "ask first"]),
        (ResumeMismatch("unknown call c9"), ["unknown call c9"]),
        (BudgetExceeded("turns", 12.0), ["turns", "12"]),
        (SchemaMismatch("{}", "name is missing"), ["name is missing"]),
        (Defect("KeyError"), ["KeyError"]),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_an_error_is_told_in_one_sentence(reason: Reason, words: list[str]) -> None:
    text = describe(reason)
    assert str(MuleError(reason)) == text
    assert "\n" not in text
    for word in words:
        assert word in text


def test_every_reason_is_in_the_list_above_and_has_its_own_tag() -> None:
    told = test_an_error_is_told_in_one_sentence.pytestmark[0].args[1]  # type: ignore[attr-defined]  # pytest's
    members = get_args(Reason)
    assert {type(reason) for reason, _ in told} == set(members)
    assert len({member.type for member in members}) == len(members)


def test_a_model_failure_shows_no_header() -> None:
    headers = {"set-cookie": "s3cret"}
    error = MuleError(ModelFailed("server_error", error_answer("500"), 500, headers))
    assert "s3cret" not in f"{error!r} {error}"


def test_a_listener_failure_does_not_spill_the_event() -> None:
    assert "r-1" not in repr(ListenerFailed(START))
