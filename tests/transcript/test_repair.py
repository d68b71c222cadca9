"""Whatever a transcript holds, what is sent has each call answered once, right after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given

from mule.transcript.repair import Repair, repair, repair_diagnostics
from mule.transcript.wording import UNANSWERED_TOOL_CALL
from mule.values.content import TextContent, ToolCall
from mule.values.messages import Message, SystemMessage, ToolResultMessage
from transcript.transcripts import answer, call, result, transcripts, user


@given(transcripts)
def test_repairing_twice_changes_nothing(transcript: tuple[Message, ...]) -> None:
    once = repair(transcript)
    twice = repair(once.messages)
    assert twice.messages == once.messages
    assert twice.repairs == ()


@given(transcripts)
def test_each_call_has_one_result_right_after_it(transcript: tuple[Message, ...]) -> None:
    sent = repair(transcript).messages
    open_calls: Counter[str] = Counter()
    for message in sent:
        if message.role == "toolResult":
            assert open_calls[message.tool_call_id] > 0
            open_calls[message.tool_call_id] -= 1
            continue
        assert not +open_calls
        if message.role == "assistant":
            assert message.stop_reason not in ("error", "aborted")
            open_calls = Counter(block.id for block in message.content if isinstance(block, ToolCall))
    assert not +open_calls


@given(transcripts)
def test_nothing_else_is_lost_or_changed(transcript: tuple[Message, ...]) -> None:
    sent = repair(transcript).messages

    def others(messages: Sequence[Message]) -> list[Message]:
        return [m for m in messages if m.role == "user" or (m.role == "assistant" and not _failed(m))]

    assert list(map(id, others(sent))) == list(map(id, others(transcript)))
    prompts = [m for m in transcript if m.role == "system"]
    assert [m for m in sent if m.role == "system"] == prompts


def _failed(message: Message) -> bool:
    return message.role == "assistant" and message.stop_reason in ("error", "aborted")


def test_a_result_that_came_late_is_moved_to_its_call() -> None:
    repaired = repair([answer(call("1")), user("well?"), result("1", "rain"), answer("so it rains")])
    assert repaired.messages == (
        answer(call("1")),
        result("1", "rain"),
        user("well?"),
        answer("so it rains"),
    )
    assert repaired.repairs == (Repair("moved_tool_result", "1", "look"),)


def test_a_result_belongs_to_the_last_call_of_that_id() -> None:
    repaired = repair([answer(call("1")), user(), answer(call("1")), result("1")])
    first = repaired.messages[1]
    assert isinstance(first, ToolResultMessage)
    assert first.is_error
    assert first.content == (TextContent(text=UNANSWERED_TOOL_CALL),)
    assert repaired.messages[4] == result("1")


def test_two_calls_of_one_id_keep_both_results() -> None:
    transcript = (answer(call("1"), call("1")), result("1", "a"), result("1", "b"))
    assert repair(transcript).messages == transcript


def test_an_orphaned_result_is_not_sent_and_its_host_hears_of_it() -> None:
    repaired = repair([user(), result("gone"), answer("hello")])
    assert repaired.messages == (user(), answer("hello"))
    (diagnostic,) = repair_diagnostics(repaired.repairs, now_ms=7)
    assert diagnostic.to_json() == {
        "type": "transcript_repair",
        "timestamp": 7,
        "details": {"kind": "orphaned_tool_result", "toolCallId": "gone", "toolName": "look"},
    }


def test_an_open_call_is_answered_and_no_news() -> None:
    repaired = repair([answer(call("1"), timestamp=3)])
    made = repaired.messages[1]
    assert isinstance(made, ToolResultMessage)
    assert (made.tool_call_id, made.tool_name, made.is_error, made.timestamp) == ("1", "look", True, 3)
    assert repair_diagnostics(repaired.repairs, now_ms=7) == ()


def test_system_messages_wait_until_the_results_are_in() -> None:
    one, two = SystemMessage(content="one"), SystemMessage(content="two")
    transcript: list[Message] = [answer(call("1"), call("2")), one, result("2"), result("1"), two, user()]
    assert repair(transcript).messages == (
        answer(call("1"), call("2")),
        result("2"),
        result("1"),
        one,
        two,
        user(),
    )
