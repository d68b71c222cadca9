"""Every event, error and checkpoint can be written as JSON and read again; only what is old is left out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.pipeline import is_successful

from mule.decoding import decode_event, decode_message, decode_messages
from mule.testing import answer
from mule.values.content import TextContent, ToolCall
from mule.values.errors import InvalidInput, ModelFailed, MuleError, MuleToolRejection, NotSupported
from mule.values.event_json import checkpoint_from_json, event_from_json, event_to_json
from mule.values.jsontext import dump_json, load_json
from mule.values.messages import UserMessage
from mule.values.record import JsonMismatch
from mule.values.run import (
    EVENT_TYPES,
    MessageUpdate,
    MuleCompletedTurn,
    MuleEvent,
    MuleIdentity,
    MuleResume,
    MuleRetryObservation,
    MuleRunOutcome,
    MuleToolCheckpoint,
    RetryPolicy,
    RunEnd,
    RunStart,
    Started,
    ToolExecutionEnd,
    TurnEnd,
    TurnStart,
)
from mule.values.stream import AssistantMessageEvent, TextDelta, Whole, read_assistant_event
from mule.values.tools import MuleToolResult
from values import strategies

RUN, TURN = MuleIdentity("run", "r-1"), MuleIdentity("turn", "t-1")
MESSAGE, TOOL = MuleIdentity("message", "m-1"), MuleIdentity("tool", "c-1")
START = RunStart(sequence=0, timestamp=5, run=RUN)


def without_transcript(event: MuleEvent) -> MuleEvent:
    """What the documentation says is equal after a round trip."""
    match event:
        case TurnEnd(completed=completed):
            bare = dataclasses.replace(completed, messages=(), new_messages=())
            return dataclasses.replace(event, completed=bare)
        case RunEnd(outcome=outcome):
            return dataclasses.replace(
                event, outcome=dataclasses.replace(outcome, messages=(), new_messages=())
            )
        case _:
            return event


@pytest.mark.parametrize("kind", EVENT_TYPES)
@settings(max_examples=40)
@given(st.data())
def test_an_event_survives_json(kind: str, data: st.DataObject) -> None:
    event = data.draw(strategies.events_by_type[kind])
    text = dump_json(event_to_json(event))
    again = event_from_json(load_json(text))
    assert again == without_transcript(event)
    assert dump_json(again.to_json()) == text
    assert type(event).from_json(event.to_json()) == again


@given(strategies.errors)
def test_an_error_survives_json(error: MuleError) -> None:
    assert MuleError.from_json(load_json(dump_json(error.to_json()))) == error


@given(strategies.checkpoints)
def test_a_checkpoint_survives_json(checkpoint: MuleToolCheckpoint) -> None:
    assert checkpoint_from_json(load_json(dump_json(checkpoint.to_json()))) == checkpoint


@given(strategies.assistant_events)
def test_an_event_of_an_answer_survives_json(event: AssistantMessageEvent) -> None:
    written = load_json(dump_json(event.to_json()))
    assert isinstance(written, dict)
    assert read_assistant_event(written) == event


@given(strategies.assistant_messages, st.lists(strategies.checkpoints, max_size=2).map(tuple))
def test_a_resume_survives_json(message: Any, checkpoints: Any) -> None:
    resume = MuleResume(message=message, checkpoints=checkpoints)
    assert MuleResume.from_json(load_json(dump_json(resume.to_json()))) == resume


def test_what_is_not_an_event_survives_json_too() -> None:
    policy = RetryPolicy(max_retries=2, base_delay_ms=1.5)
    assert RetryPolicy.from_json(policy.to_json()) == policy
    seen = MuleRetryObservation(type="retry_finished", attempt=1, max_attempts=2, success=True)
    assert seen.to_json() == {"type": "retry_finished", "attempt": 1, "maxAttempts": 2, "success": True}
    assert MuleRetryObservation.from_json(seen.to_json()) == seen


def test_names_are_camel_case_and_identities_plain() -> None:
    event = ToolExecutionEnd(
        sequence=7,
        timestamp=9,
        run=RUN,
        turn=TURN,
        message=MESSAGE,
        tool=TOOL,
        call=ToolCall(id="c", name="weigh", arguments={"n": None}),
        result=MuleToolResult(content=(TextContent(text="12 kg"),), structured_content={"kg": 12}),
    )
    assert event.to_json() == {
        "type": "tool_execution_end",
        "sequence": 7,
        "timestamp": 9,
        "run": {"kind": "run", "id": "r-1"},
        "turn": {"kind": "turn", "id": "t-1"},
        "message": {"kind": "message", "id": "m-1"},
        "tool": {"kind": "tool", "id": "c-1"},
        "call": {"type": "toolCall", "id": "c", "name": "weigh", "arguments": {"n": None}},
        "result": {
            "type": "result",
            "content": [{"type": "text", "text": "12 kg"}],
            "structuredContent": {"kg": 12},
            "isError": False,
            "terminate": False,
        },
    }


def test_the_partial_is_left_out() -> None:
    grown = TextDelta(0, "Hi", Whole(answer("Hi")), 2)
    event = MessageUpdate(sequence=3, timestamp=1, run=RUN, turn=TURN, message=MESSAGE, event=grown)
    assert event.to_json()["event"] == {"type": "text_delta", "contentIndex": 0, "delta": "Hi"}
    again = event_from_json(event.to_json())
    assert again == event
    assert isinstance(again, MessageUpdate)
    assert isinstance(again.event, TextDelta)
    with pytest.raises(LookupError):
        _ = again.event.partial


def test_a_journal_grows_by_what_is_new() -> None:
    long = tuple(UserMessage(content=f"message {n}") for n in range(1_000))
    completed = MuleCompletedTurn(
        turn=TURN, index=3, message=answer("x"), tool_results=(), messages=long, new_messages=long
    )
    end = TurnEnd(sequence=1, timestamp=1, run=RUN, turn=TURN, completed=completed)
    outcome = MuleRunOutcome(
        run=RUN, messages=long, new_messages=long, final=answer("x"), ended="answered", turns=4
    )
    last = RunEnd(sequence=2, timestamp=1, run=RUN, status="completed", outcome=outcome)
    for event in (end, last):
        assert len(dump_json(event.to_json())) < 1_000


def test_credentials_in_headers_stay_out_of_a_journal() -> None:
    headers = {"Set-Cookie": "session=s3cret", "Authorization": "Bearer s3cret", "retry-after": "3"}
    error = MuleError(
        ModelFailed("rate_limited", answer("x", stop_reason="error"), 429, headers, 3_000), RUN
    )
    written = error.to_json()
    assert b"s3cret" not in dump_json(written)
    again = MuleError.from_json(written).reason
    assert isinstance(again, ModelFailed)
    assert again.headers == {"retry-after": "3"}


def test_a_rejection_is_read_as_one() -> None:
    rejection = MuleToolRejection("needs_approval", "ask first", {"who": "Ann"}, at=TOOL)
    again = MuleError.from_json(rejection.to_json())
    assert isinstance(again, MuleToolRejection)
    assert again == rejection


def test_fields_of_a_later_version_are_passed_over_outside_messages_and_kept_inside() -> None:
    assert event_from_json({**START.to_json(), "later": 1}) == START
    event = {
        "type": "message_end",
        "sequence": 1,
        "timestamp": 2,
        "run": RUN.to_json(),
        "turn": TURN.to_json(),
        "message": MESSAGE.to_json(),
        "value": {"role": "user", "content": "Hi", "later": {"a": None}},
    }
    assert event_from_json(event).to_json() == event


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"sequence": None}, "sequence"),
        ({"sequence": "1"}, "sequence"),
        ({"sequence": True}, "sequence"),
        ({"run": {"kind": "planet", "id": "x"}}, "run.kind"),
        ({"run": {"kind": "run"}}, "run.id"),
        ({"run": "r"}, "run"),
        ({"type": "run_stop"}, "type"),
        ({"type": "turn_start", "turn": TURN.to_json(), "index": 0.5}, "index"),
        ({"type": "message_start", "turn": TURN.to_json(), "message": {}}, "message.kind"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(change: dict[str, Any], field: str) -> None:
    wrong = {**START.to_json(), **change}
    with pytest.raises(JsonMismatch) as caught:
        event_from_json(wrong)
    assert caught.value.field == field
    reason = decode_event(wrong).failure().reason
    assert isinstance(reason, InvalidInput)
    assert reason.field == field


@pytest.mark.parametrize("value", [None, 3, "run_start", [], [START.to_json()], {}])
def test_what_is_no_event_at_all_is_a_failure(value: object) -> None:
    reason = decode_event(value).failure().reason
    assert isinstance(reason, InvalidInput)
    assert reason.field in ("event", "type")
    with pytest.raises(ValueError, match="expected"):
        event_from_json(value)


def test_one_class_does_not_read_the_event_of_another() -> None:
    with pytest.raises(ValueError, match="turn_start"):
        TurnStart.from_json(START.to_json())


@given(strategies.json_values)
def test_decoding_never_raises(value: object) -> None:
    for decode in (decode_event, decode_message, decode_messages):
        assert decode(value).map(lambda _: None) is not None


@given(strategies.events, st.data())
def test_decoding_a_damaged_event_never_raises(event: MuleEvent, data: st.DataObject) -> None:
    damaged = dict(event.to_json())
    damaged[data.draw(st.sampled_from(sorted(damaged)))] = data.draw(strategies.json_values)
    result = decode_event(damaged)
    if not is_successful(result):
        assert isinstance(result.failure().reason, InvalidInput)


def test_a_transcript_is_decoded_or_says_which_message_is_wrong() -> None:
    good: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
    assert decode_messages([good]).unwrap() == (UserMessage(content=(TextContent(text="Hi"),)),)
    assert decode_message(good).unwrap().to_json() == good
    for wrong, field in [
        ([good, {"role": "user", "content": 3}], "1.content"),
        ([{"role": "robot"}], "0.role"),
        ([3], "0"),
        ("text", "messages"),
    ]:
        reason = decode_messages(wrong).failure().reason
        assert isinstance(reason, InvalidInput)
        assert reason.field.startswith(field)


def test_a_problem_never_quotes_the_value() -> None:
    reason = decode_message({"role": "user", "content": {"key": "s3cret"}}).failure().reason
    assert "s3cret" not in repr(reason)


def test_a_started_call_has_its_place_in_the_message() -> None:
    started = Started(TOOL, ToolCall(id="same", name="weigh", arguments={}), 1)
    assert started.to_json()["index"] == 1
    assert started.to_json()["type"] == "started"


def test_facts_that_are_unknown_are_left_out() -> None:
    error = MuleError(NotSupported("mail"))
    assert error.to_json() == {"reason": {"type": "not_supported", "what": "mail"}}
