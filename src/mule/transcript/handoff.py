"""What of a transcript is sent to this model, and in which form?

What a model wrote itself goes back to it unchanged. Another model's reasoning becomes plain text, its
signatures mean nothing elsewhere and go, and its call ids are rewritten where the API takes other ones.
Images become a short text for a model that sees none. Then `mule.transcript.repair` makes it sendable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from mule.transcript.hashing import short_hash
from mule.transcript.repair import Repair, Repaired, repair
from mule.transcript.wording import TOOL_IMAGE_LEFT_OUT, USER_IMAGE_LEFT_OUT
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from mule.values.model import Model

NormalizeToolCallId: TypeAlias = Callable[[str, Model[Any], AssistantMessage], str]
"""Another model's call id as this model's API takes it; given the id, the model, the answer it is from."""

_BLANK_LINE: Final = "\n\n"


class ThinkingAsText(TextContent):
    """Another model's reasoning, as text. It is no part of the answer that follows it."""


def answer_text(content: Iterable[TextContent]) -> str:
    """Texts of one answer as a single text, for APIs that take no list.

    They are joined as they are, except that reasoning is set off from the answer by a blank line.
    """
    joined = ""
    after_thinking = False
    for block in content:
        is_thinking = isinstance(block, ThinkingAsText)
        if joined and block.text and (after_thinking or is_thinking):
            joined += _BLANK_LINE
        joined += block.text
        after_thinking = is_thinking
    return joined


def transform_messages(
    messages: Sequence[Message],
    model: Model[Any],
    normalize_tool_call_id: NormalizeToolCallId | None = None,
) -> tuple[Message, ...]:
    """The messages that `model` is sent for this transcript, in order. See `hand_off`."""
    return hand_off(messages, model, normalize_tool_call_id).messages


def hand_off(
    messages: Sequence[Message],
    model: Model[Any],
    normalize_tool_call_id: NormalizeToolCallId | None = None,
) -> Repaired:
    """The messages that `model` is sent for this transcript, and what had to be put right.

    A message that needs no change is the very object, and the changed form of another is made once and
    kept with it, so that what an adapter keeps with a message outlives one request.

    Args:
        normalize_tool_call_id: for ids of other models' calls; None leaves them. Two ids that it makes
            one are told apart again.
    """
    if "image" not in model.input:
        messages = [_without_images(message) for message in messages]
    ids = _Ids(model, normalize_tool_call_id)
    return repair([_for_model(message, model, ids) for message in messages])


def _for_model(message: Message, model: Model[Any], ids: _Ids) -> Message:
    match message.role:
        case "assistant":
            if (
                message.model == model.id
                and message.provider == model.provider
                and message.api == model.api
            ):
                ids.keep(message)
                return _for_itself(message)
            return ids.rewritten(_for_another(message))
        case "toolResult":
            return ids.answering(message)
        case _:
            return message


def _for_itself(answer: AssistantMessage) -> AssistantMessage:
    """An answer for the model that wrote it: all of it but thinking that says nothing."""
    if all(_is_kept(block) for block in answer.content):
        return answer
    return _once(answer, "for itself", lambda: tuple(block for block in answer.content if _is_kept(block)))


def _is_kept(block: TextContent | ThinkingContent | ToolCall) -> bool:
    # An empty text may still carry reasoning, encrypted in its signature.
    return (
        not isinstance(block, ThinkingContent)
        or bool(block.redacted or block.thinking_signature)
        or not _is_blank(block.thinking)
    )


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _for_another(answer: AssistantMessage) -> AssistantMessage:
    """An answer for a model that did not write it."""
    return _once(answer, "for another", lambda: _foreign_content(answer))


def _foreign_content(answer: AssistantMessage) -> tuple[TextContent | ThinkingContent | ToolCall, ...]:
    return tuple(block for block in map(_foreign, answer.content) if block is not None)


def _foreign(
    block: TextContent | ThinkingContent | ToolCall,
) -> TextContent | ThinkingContent | ToolCall | None:
    match block:
        case TextContent(text=text):
            plain = block.text_signature is None and not block.__pydantic_extra__
            return block if plain else TextContent(text=text)
        case ThinkingContent(redacted=True):
            return None  # encrypted for the other model alone
        case ThinkingContent(thinking=thinking):
            return None if _is_blank(thinking) else ThinkingAsText(text=thinking)
        case ToolCall():
            return block.with_(thought_signature=None) if block.thought_signature else block


def _once(
    answer: AssistantMessage,
    form: str,
    content: Callable[[], tuple[TextContent | ThinkingContent | ToolCall, ...]],
) -> AssistantMessage:
    """The answer with that content, made once; the very answer where that is its content."""
    known = answer.memo.get(form)
    if isinstance(known, AssistantMessage):
        return known
    changed = content()
    # By identity: blocks that were left alone are the same objects.
    same = len(changed) == len(answer.content) and all(map(_is, changed, answer.content))
    made = answer if same else answer.with_(content=changed)
    answer.memo[form] = made
    return made


def _is(one: object, other: object) -> bool:
    return one is other


class _Ids:
    """Call ids as the model's API takes them, unique, and results that follow their calls."""

    def __init__(self, model: Model[Any], normalize: NormalizeToolCallId | None) -> None:
        self.model = model
        self.normalize = normalize
        self.new_of: dict[str, str] = {}
        self.old_of: dict[str, str] = {}

    def keep(self, answer: AssistantMessage) -> None:
        if self.normalize is None:
            return
        for block in answer.content:
            if isinstance(block, ToolCall):
                self.new_of.pop(block.id, None)
                self.old_of[block.id] = block.id

    def rewritten(self, answer: AssistantMessage) -> AssistantMessage:
        if self.normalize is None:
            return answer
        new_ids = tuple(
            self.new_id(block.id, answer) for block in answer.content if isinstance(block, ToolCall)
        )
        if not new_ids:
            return answer
        known = answer.memo.get(new_ids)
        if isinstance(known, AssistantMessage):
            return known
        made = _with_ids(answer, new_ids)
        answer.memo[new_ids] = made
        return made

    def new_id(self, old: str, answer: AssistantMessage) -> str:
        assert self.normalize is not None
        new = wanted = self.normalize(old, self.model, answer)
        attempt = 0
        while self.old_of.setdefault(new, old) != old:
            attempt += 1
            new = _told_apart(wanted, f"{old}:{attempt}")
        self.new_of[old] = new
        return new

    def answering(self, result: ToolResultMessage) -> ToolResultMessage:
        new = self.new_of.get(result.tool_call_id)
        if new is None or new == result.tool_call_id:
            return result
        known = result.memo.get(new)
        if not isinstance(known, ToolResultMessage):
            known = result.memo[new] = result.with_(tool_call_id=new)
        return known


def _told_apart(taken: str, source: str) -> str:
    """Another id, no longer than the one that is taken, and of letters and digits where that one was."""
    digits = short_hash(source)[:9]
    return taken[: max(0, len(taken) - len(digits))] + digits[: max(1, len(taken))]


def _with_ids(answer: AssistantMessage, new_ids: Sequence[str]) -> AssistantMessage:
    rest = iter(new_ids)
    changed = [
        _with_id(block, next(rest)) if isinstance(block, ToolCall) else block for block in answer.content
    ]
    if all(map(_is, changed, answer.content)):
        return answer
    return answer.with_(content=tuple(changed))


def _with_id(call: ToolCall, new: str) -> ToolCall:
    return call if call.id == new else call.with_(id=new)


def _without_images(message: Message) -> Message:
    match message:
        case UserMessage(content=tuple()) if _has_image(message):
            return _placeheld(message, USER_IMAGE_LEFT_OUT)
        case ToolResultMessage() if _has_image(message):
            return _placeheld(message, TOOL_IMAGE_LEFT_OUT)
        case _:
            return message


def _has_image(message: UserMessage | ToolResultMessage) -> bool:
    return any(isinstance(block, ImageContent) for block in message.content)


def _placeheld(message: UserMessage | ToolResultMessage, placeholder: str) -> Message:
    known = message.memo.get(placeholder)
    if isinstance(known, UserMessage | ToolResultMessage):
        return known
    content: list[TextContent] = []
    for block in message.content:
        if isinstance(block, TextContent):
            content.append(block)
        elif not content or content[-1].text != placeholder:
            # One placeholder for a row of images says as much as many.
            content.append(TextContent(text=placeholder))
    made = message.with_(content=tuple(content))
    message.memo[placeholder] = made
    return made


__all__ = [
    "NormalizeToolCallId",
    "Repair",
    "ThinkingAsText",
    "answer_text",
    "hand_off",
    "transform_messages",
]
