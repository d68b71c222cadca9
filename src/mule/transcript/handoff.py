"""What of a transcript is sent to this model, and in which form?

What a model wrote itself goes back to it unchanged. Another model's reasoning becomes plain text, its
signatures mean nothing elsewhere and go, and its call ids are rewritten where the API takes other ones.
Images become a short text for a model that sees none. Then `mule.transcript.repair` makes it sendable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

from mule.transcript.hashing import short_hash
from mule.transcript.repair import Repaired, repair
from mule.transcript.wording import TOOL_IMAGE_LEFT_OUT, USER_IMAGE_LEFT_OUT
from mule.values.base import NullList
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from mule.values.model import Model

NormalizeToolCallId: TypeAlias = Callable[[str, Model[Any], AssistantMessage], str]
"""Another model's call id as this model's API takes it; given the id, the model, the answer it is from."""

_BLANK_LINE: Final = "\n\n"
_FOR_ANOTHER: Final = "for another model"
_WITHOUT_IMAGES: Final = "without images"
_ID: Final = "with the call id"


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
    takes_images = "image" in model.input
    target = (model.provider, model.api, model.id)
    has_foreign_calls = False
    prepared: list[Message] = []
    for message in messages:
        # This loop runs over every message before each request, so it only looks things up.
        if message.role != "assistant":
            if not takes_images or message.content.__class__ is NullList:
                message = _with_plain_content(message, takes_images=takes_images)
        else:
            known = message.memo.get(target)
            message, is_foreign = cast(_Form, known) if known else _for_model(message, target)
            has_foreign_calls = has_foreign_calls or is_foreign
        prepared.append(message)
    if has_foreign_calls and normalize_tool_call_id is not None:
        prepared = _with_normal_ids(messages, prepared, model, normalize_tool_call_id)
    return repair(prepared)


_Form: TypeAlias = "tuple[AssistantMessage, bool]"
"""An answer as a model gets it, and whether it is another model's with calls in it."""


def _for_model(answer: AssistantMessage, target: tuple[str, str, str]) -> _Form:
    is_own = (answer.provider, answer.api, answer.model) == target
    made = _for_itself(answer) if is_own else _for_another(answer)
    has_calls = any(isinstance(block, ToolCall) for block in made.content)
    answer.memo[target] = found = (made, has_calls and not is_own)
    return found


def _for_itself(answer: AssistantMessage) -> AssistantMessage:
    """An answer for the model that wrote it: all of it but thinking that says nothing."""
    return _with_content(answer, tuple(block for block in answer.content if _is_kept(block)))


def _is_kept(block: TextContent | ThinkingContent | ToolCall) -> bool:
    # Where the text is empty, the signature may hold reasoning in encrypted form.
    return (
        not isinstance(block, ThinkingContent)
        or bool(block.redacted or block.thinking_signature)
        or not _is_blank(block.thinking)
    )


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _for_another(answer: AssistantMessage) -> AssistantMessage:
    """An answer for a model that did not write it; the same one for each of these."""
    known = answer.memo.get(_FOR_ANOTHER)
    if isinstance(known, AssistantMessage):
        return known
    blocks = map(_foreign, answer.content)
    made = _with_content(answer, tuple(block for block in blocks if block is not None))
    answer.memo[_FOR_ANOTHER] = made
    return made


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


def _with_content(
    answer: AssistantMessage, content: tuple[TextContent | ThinkingContent | ToolCall, ...]
) -> AssistantMessage:
    """The answer with that content; the very answer where that is its content already."""
    same = len(content) == len(answer.content) and all(map(_is, content, answer.content))
    return answer if same and type(answer.content) is tuple else answer.with_(content=content)


def _is(one: object, other: object) -> bool:
    return one is other


def _with_normal_ids(
    originals: Sequence[Message],
    prepared: Sequence[Message],
    model: Model[Any],
    normalize: NormalizeToolCallId,
) -> list[Message]:
    """The messages with call ids as the model's API takes them, unique, and results that follow them."""
    ids = _Ids(model, normalize)
    changed: list[Message] = []
    for original, message in zip(originals, prepared, strict=True):
        match message.role:
            case "assistant":
                assert original.role == "assistant"
                changed.append(ids.of_answer(original, message))
            case "toolResult":
                changed.append(ids.of_result(message))
            case _:
                changed.append(message)
    return changed


class _Ids:
    """Which id stands for which, up to here in the transcript."""

    def __init__(self, model: Model[Any], normalize: NormalizeToolCallId) -> None:
        self.model = model
        self.normalize = normalize
        self.new_of: dict[str, str] = {}
        self.old_of: dict[str, str] = {}

    def of_answer(self, original: AssistantMessage, answer: AssistantMessage) -> AssistantMessage:
        """Its calls with new ids; those of the model's own answers are kept."""
        is_own = original.model == self.model.id and (original.provider, original.api) == (
            self.model.provider,
            self.model.api,
        )
        old_ids = [block.id for block in answer.content if isinstance(block, ToolCall)]
        if is_own:
            for old in old_ids:
                self.new_of.pop(old, None)
                self.old_of[old] = old
            return answer
        new_ids = tuple(self.new_id(old, original) for old in old_ids)
        known = answer.memo.get(new_ids)
        if isinstance(known, AssistantMessage):
            return known
        answer.memo[new_ids] = made = _with_ids(answer, new_ids)
        return made

    def new_id(self, old: str, source: AssistantMessage) -> str:
        new = wanted = self.normalize(old, self.model, source)
        attempt = 0
        while self.old_of.setdefault(new, old) != old:
            attempt += 1
            new = _told_apart(wanted, f"{old}:{attempt}")
        self.new_of[old] = new
        return new

    def of_result(self, result: ToolResultMessage) -> ToolResultMessage:
        new = self.new_of.get(result.tool_call_id)
        if new is None or new == result.tool_call_id:
            return result
        key = (_ID, new)
        known = result.memo.get(key)
        if isinstance(known, ToolResultMessage):
            return known
        result.memo[key] = made = result.with_(tool_call_id=new)
        return made


def _told_apart(taken: str, source: str) -> str:
    """Another id, no longer than the one that is taken, and of letters and digits where that one was."""
    digits = short_hash(source)[:9]
    return taken[: max(0, len(taken) - len(digits))] + digits[: max(1, len(taken))]


def _with_ids(answer: AssistantMessage, new_ids: Sequence[str]) -> AssistantMessage:
    rest = iter(new_ids)
    content = [
        _with_id(block, next(rest)) if isinstance(block, ToolCall) else block for block in answer.content
    ]
    return _with_content(answer, tuple(content))


def _with_id(call: ToolCall, new: str) -> ToolCall:
    return call if call.id == new else call.with_(id=new)


def _with_plain_content(message: Message, *, takes_images: bool) -> Message:
    """A user message or tool result with nothing in it that the model cannot read; nothing for null."""
    match message:
        case UserMessage(content=tuple()):
            placeholder = USER_IMAGE_LEFT_OUT
        case ToolResultMessage():
            placeholder = TOOL_IMAGE_LEFT_OUT
        case _:
            return message
    if takes_images or not any(isinstance(block, ImageContent) for block in message.content):
        return message if type(message.content) is tuple else message.with_(content=())
    known = message.memo.get(_WITHOUT_IMAGES)
    if isinstance(known, UserMessage | ToolResultMessage):
        return known
    message.memo[_WITHOUT_IMAGES] = made = message.with_(content=_placeheld(message.content, placeholder))
    return made


def _placeheld(content: Iterable[object], placeholder: str) -> tuple[TextContent, ...]:
    texts: list[TextContent] = []
    for block in content:
        if isinstance(block, TextContent):
            texts.append(block)
        elif not texts or texts[-1].text != placeholder:
            # One placeholder for a row of images says as much as many.
            texts.append(TextContent(text=placeholder))
    return tuple(texts)
