"""Transcripts with all that goes wrong in them: few ids, so that they meet; answers of two models."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from mule.values.model import Model
from mule.values.usage import StopReason

OWN: Model[Any] = Model(
    id="pond-1", name="Pond 1", api="mock", provider="pond", base_url="", input=("text", "image")
)
BLIND = OWN.with_(input=("text",))


def user(text: str = "go") -> UserMessage:
    return UserMessage(content=text)


def call(id_: str, name: str = "look") -> ToolCall:
    return ToolCall(id=id_, name=name, arguments={})


def answer(
    *content: str | ToolCall | ThinkingContent | TextContent,
    model: str = "pond-1",
    stop_reason: StopReason = "stop",
    timestamp: int = 0,
) -> AssistantMessage:
    return AssistantMessage(
        api="mock",
        provider="pond",
        model=model,
        stop_reason=stop_reason,
        timestamp=timestamp,
        content=tuple(TextContent(text=block) if isinstance(block, str) else block for block in content),
    )


def result(id_: str, text: str = "seen", name: str = "look") -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=id_, tool_name=name, content=(TextContent(text=text),))


ids = st.sampled_from(["1", "2", "a|1", "a|2"])
blocks = st.one_of(
    st.builds(TextContent, text=st.sampled_from(["", "hello"])),
    st.builds(
        ThinkingContent,
        thinking=st.sampled_from(["", " ", "hm"]),
        thinking_signature=st.sampled_from([None, "sig"]),
        redacted=st.sampled_from([None, True]),
    ),
    ids.map(call),
)
answers = st.builds(
    answer,
    model=st.sampled_from(["pond-1", "lake-9"]),
    stop_reason=st.sampled_from(["stop", "toolUse", "error", "aborted"]),
).flatmap(lambda made: st.lists(blocks, max_size=3).map(lambda content: made.with_(content=tuple(content))))
pictures = st.lists(
    st.builds(TextContent, text=st.just("see")) | st.just(ImageContent(data="QQ==", mime_type="image/png")),
    max_size=3,
)
messages: st.SearchStrategy[Message] = st.one_of(
    answers,
    ids.map(result),
    st.just(user()),
    pictures.map(lambda content: UserMessage(content=tuple(content))),
    st.just(SystemMessage(content="note")),
)
transcripts = st.lists(messages, max_size=10).map(tuple)
