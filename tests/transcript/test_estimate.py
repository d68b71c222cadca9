"""The estimate trusts the last count that is about what stands before it now."""

from __future__ import annotations

from hypothesis import given

from mule.transcript.estimate import clamp_max_tokens, estimate_context, message_tokens
from mule.values.messages import AssistantMessage, Message
from mule.values.usage import Usage
from transcript.transcripts import OWN, answer, transcripts, user


def _counted(tokens: int, timestamp: int) -> AssistantMessage:
    return answer("x", timestamp=timestamp).with_(usage=Usage(total_tokens=tokens))


@given(transcripts)
def test_asking_twice_gives_the_same(transcript: tuple[Message, ...]) -> None:
    assert estimate_context(transcript) == estimate_context(transcript)
    assert estimate_context(transcript).tokens == sum(map(message_tokens, transcript))


def test_only_what_follows_the_last_count_is_estimated() -> None:
    estimate = estimate_context([user("a" * 400), _counted(1000, 1), user("abcdefgh")])
    assert (estimate.tokens, estimate.usage_tokens, estimate.trailing_tokens) == (1002, 1000, 2)
    assert estimate.last_usage_index == 1


def test_a_count_from_before_a_later_summary_is_no_use() -> None:
    summary = user("summary").with_(timestamp=5)
    assert estimate_context([summary, _counted(1000, 1)]).usage_tokens == 0
    assert estimate_context([_counted(700, 1), summary, _counted(1000, 2)]).last_usage_index == 0
    assert estimate_context([summary, _counted(700, 5), _counted(1000, 2)]).last_usage_index == 1


def test_failed_answers_count_nothing() -> None:
    failed = _counted(1000, 1).with_(stop_reason="error")
    assert estimate_context([failed]).usage_tokens == 0


def test_an_answer_is_cut_to_what_the_window_has_left() -> None:
    model = OWN.with_(context_window=10_000)
    assert clamp_max_tokens(model, [_counted(1000, 1)], 8_000) == 10_000 - 1_000 - 4_096
    assert clamp_max_tokens(model, [_counted(9_000, 1)], 8_000) == 1
    assert clamp_max_tokens(OWN, [_counted(9_000, 1)], 8_000) == 8_000
