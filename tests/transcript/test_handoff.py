"""A model gets its own words back unchanged, and another's in a form that it can take."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from mule.transcript.handoff import answer_text, hand_off, transform_messages
from mule.transcript.wording import USER_IMAGE_LEFT_OUT
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from mule.values.model import Model
from transcript.transcripts import BLIND, OWN, answer, call, result, transcripts, user


def _plain(id_: str, _model: Model[Any], _source: AssistantMessage) -> str:
    return id_.partition("|")[0][:4]


@given(transcripts)
def test_handing_off_twice_changes_nothing(transcript: tuple[Message, ...]) -> None:
    for model in (OWN, BLIND):
        # What was another's is text by now, but still says whose it was; so it is handed on once more.
        once = transform_messages(transcript, model)
        assert transform_messages(once, model) == once


@given(transcripts)
def test_the_transcript_itself_stays_as_it_was(transcript: tuple[Message, ...]) -> None:
    before = [message.to_json() for message in transcript]
    transform_messages(transcript, BLIND, _plain)
    assert [message.to_json() for message in transcript] == before


@given(transcripts)
def test_what_was_made_for_one_request_is_there_for_the_next(transcript: tuple[Message, ...]) -> None:
    for model, normalize in ((OWN, None), (BLIND, _plain)):
        made = [m for m in transform_messages(transcript, model, normalize) if _is_kept(m)]
        again = [m for m in transform_messages(transcript, model, normalize) if _is_kept(m)]
        assert list(map(id, made)) == list(map(id, again))


def _is_kept(message: Message) -> bool:
    return not (isinstance(message, ToolResultMessage) and message.is_error)


def test_a_models_own_answer_is_the_very_object() -> None:
    transcript = (
        user(),
        answer(
            ThinkingContent(thinking="", thinking_signature="sealed"),
            ThinkingContent(thinking="x", redacted=True, thinking_signature="r"),
            TextContent(text="t", text_signature="s"),
            call("1").with_(thought_signature="z"),
        ),
        result("1"),
    )
    sent = hand_off(transcript, OWN, _plain)
    assert [one is other for one, other in zip(sent.messages, transcript, strict=True)] == [True] * 3


def test_what_another_model_signed_means_nothing_here() -> None:
    theirs = answer(
        ThinkingContent(thinking="why", thinking_signature="sealed"),
        ThinkingContent(thinking="", thinking_signature="only sealed"),
        ThinkingContent(thinking="hidden", redacted=True, thinking_signature="r"),
        TextContent(text="t", text_signature="s"),
        call("1").with_(thought_signature="z"),
        model="lake-9",
    )
    (sent, _) = transform_messages([theirs, result("1")], OWN)
    text = str(sent.to_json())
    assert not any(word in text for word in ("sealed", "hidden", "'s'", "'z'"))
    assert "why" in text


def test_reasoning_turned_into_text_does_not_run_into_the_answer() -> None:
    theirs = answer(ThinkingContent(thinking="let me think"), "Looking.", "Found.", model="lake-9")
    (sent,) = transform_messages([theirs], OWN)
    assert isinstance(sent, AssistantMessage)
    texts = [block for block in sent.content if isinstance(block, TextContent)]
    assert [block.text for block in texts] == ["let me think", "Looking.", "Found."]
    assert answer_text(texts) == "let me think\n\nLooking.Found."


def test_ids_that_become_one_are_told_apart_and_results_follow() -> None:
    long = [f"call_{'z' * 80}|fc_{'A' * 300}{n}" for n in range(3)]
    transcript: list[Message] = [answer(*map(call, long), model="lake-9"), *map(result, long)]
    first, *results = transform_messages(transcript, OWN, _plain)
    assert isinstance(first, AssistantMessage)
    sent_ids = [block.id for block in first.content if isinstance(block, ToolCall)]
    assert len(set(sent_ids)) == 3
    assert all(len(id_) <= 4 for id_ in sent_ids)
    assert [r.tool_call_id for r in results if isinstance(r, ToolResultMessage)] == sent_ids


def test_another_models_id_does_not_become_one_of_the_models_own() -> None:
    transcript: list[Message] = [
        answer(call("abcd")),
        result("abcd"),
        answer(call("abcd|fc"), model="lake-9"),
        result("abcd|fc", "other"),
    ]
    sent = transform_messages(transcript, OWN, _plain)
    answered = [m.tool_call_id for m in sent if isinstance(m, ToolResultMessage)]
    assert answered[0] == "abcd"
    assert answered[1] != "abcd"


def test_a_row_of_images_becomes_one_short_text_for_a_model_that_sees_none() -> None:
    image = ImageContent(data="QQ==", mime_type="image/png")
    message = UserMessage(content=(TextContent(text="see"), image, image, TextContent(text="and"), image))
    (sent,) = transform_messages([message], BLIND)
    assert isinstance(sent, UserMessage)
    assert [block.text for block in sent.content if isinstance(block, TextContent)] == [
        "see",
        USER_IMAGE_LEFT_OUT,
        "and",
        USER_IMAGE_LEFT_OUT,
    ]
    assert transform_messages([message], OWN)[0] is message
