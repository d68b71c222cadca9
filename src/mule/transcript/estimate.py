"""How many tokens does a context hold, roughly?

The reference's rule, since it decides how long an answer may be: the last usable answer's own count, and
four characters a token for what came after it. Characters are UTF-16 code units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from mule.transcript.text import system_message_text
from mule.values.base import Number, to_jsonable
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.jsontext import JsonValue, dump_json, utf16_length
from mule.values.messages import AssistantMessage, Context, Message
from mule.values.model import Model
from mule.values.tools import Tool, ToolReference
from mule.values.usage import Usage

CHARACTERS_PER_TOKEN: Final = 4
CHARACTERS_PER_IMAGE: Final = 4_800
CONTEXT_SAFETY_TOKENS: Final = 4_096
"""Tokens of the window that are left unused, since the estimate is one."""

_TOKENS: Final = "estimated tokens"


@dataclass(frozen=True, slots=True)
class ContextEstimate:
    """Tokens of a context.

    `usage_tokens` were counted by the provider, up to the answer at `last_usage_index` (None: no answer
    could be used); `trailing_tokens` are the estimate for the messages after it.
    """

    tokens: Number
    usage_tokens: Number
    trailing_tokens: Number
    last_usage_index: int | None


def context_tokens(usage: Usage) -> Number:
    """All tokens of one answer and what it was given."""
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def text_tokens(text: str) -> int:
    """An estimate for one text.

    >>> text_tokens("hello")
    2
    """
    return _tokens(utf16_length(text))


def content_tokens(content: str | Sequence[TextContent | ImageContent]) -> int:
    """An estimate for the content of a user message or a tool result."""
    if isinstance(content, str):
        return text_tokens(content)
    return _tokens(
        sum(utf16_length(b.text) if isinstance(b, TextContent) else CHARACTERS_PER_IMAGE for b in content)
    )


def _messages_tokens(messages: Sequence[Message]) -> int:
    try:  # over thousands of messages, a call for each would be most of the time
        return sum([cast(int, message.memo[_TOKENS]) for message in messages])
    except KeyError:
        return sum(map(message_tokens, messages))


def message_tokens(message: Message) -> int:
    """An estimate for one message; worked out once for each."""
    known = message.memo.get(_TOKENS)
    if isinstance(known, int):
        return known
    tokens = _message_tokens(message)
    message.memo[_TOKENS] = tokens
    return tokens


def _message_tokens(message: Message) -> int:
    match message.role:
        case "system":
            tools = _tools_tokens(message.tools_added) + _tools_tokens(message.tools_removed)
            return text_tokens(system_message_text(message)) + tools
        case "assistant":
            return _tokens(sum(_characters(block) for block in message.content))
        case _:
            return content_tokens(message.content)


def _characters(block: TextContent | ThinkingContent | ToolCall) -> int:
    match block:
        case TextContent(text=text) | ThinkingContent(thinking=text):
            return utf16_length(text)
        case ToolCall(name=name, arguments=arguments):
            return utf16_length(name) + _json_length(arguments)


def _tools_tokens(tools: Sequence[Tool] | Sequence[ToolReference] | None) -> int:
    return _tokens(_json_length([to_jsonable(tool) for tool in tools])) if tools else 0


def _json_length(value: JsonValue) -> int:
    try:
        encoded = dump_json(value)
    except (ValueError, TypeError, RecursionError):  # what a host put there need not be JSON
        return utf16_length(repr(value))
    return len(encoded) if encoded.isascii() else utf16_length(encoded.decode())


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimate_context(messages: Sequence[Message] | Context) -> ContextEstimate:
    """How many tokens these messages are."""
    if isinstance(messages, Context):
        messages = messages.messages
    at = _last_usage(messages)
    if at is None:
        tokens = _messages_tokens(messages)
        return ContextEstimate(tokens, 0, tokens, None)
    answer = messages[at]
    used = context_tokens(answer.usage) if isinstance(answer, AssistantMessage) else 0
    trailing = _messages_tokens(messages[at + 1 :])
    return ContextEstimate(used + trailing, used, trailing, at)


def _last_usage(messages: Sequence[Message]) -> int | None:
    """Where the last answer stands whose count is about what now stands before it.

    A message with a later time stamp before it (a summary that was put in) says that it is not.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "assistant" and _is_counted(message):
            latest = max([earlier.timestamp for earlier in messages[:at]], default=message.timestamp)
            # Nearly always so; where not, one pass over the rest does for all answers in it.
            return at if message.timestamp >= latest else _last_usage_before(messages[:at])
    return None


def _last_usage_before(messages: Sequence[Message]) -> int | None:
    found: int | None = None
    latest: Number = float("-inf")
    for at, message in enumerate(messages):
        if message.role == "assistant" and message.timestamp >= latest and _is_counted(message):
            found = at
        latest = max(latest, message.timestamp)
    return found


def _is_counted(answer: AssistantMessage) -> bool:
    return answer.stop_reason not in ("error", "aborted") and context_tokens(answer.usage) > 0


def clamp_max_tokens(model: Model[Any], context: Sequence[Message] | Context, max_tokens: Number) -> Number:
    """The longest answer that still fits the window beside the context; at least 1. Tokens."""
    if model.context_window <= 0:
        return max(1, max_tokens)
    available = model.context_window - estimate_context(context).tokens - CONTEXT_SAFETY_TOKENS
    return min(max_tokens, max(1, available))
