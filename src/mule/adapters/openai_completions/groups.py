"""A transcript as the messages of chat completions: what was encoded for one request serves the next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mule.adapters.openai_completions.messages import encode_sendable, encode_system
from mule.adapters.openai_completions.wire import Wire
from mule.transcript.handoff import hand_off, transform_messages
from mule.transcript.hashing import short_hash
from mule.values.content import ToolCall
from mule.values.jsontext import cut_utf16, utf16_length
from mule.values.messages import AssistantMessage, Message, ToolResultMessage
from mule.values.model import Model

MAX_ID: Final = 40
"""OpenAI's limit on the length of a tool call's id."""

_NOT_IN_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")


def encode_messages(
    messages: Sequence[Message], model: Model[Any], wire: Wire, *, one_by_one: bool = False
) -> list[bytes]:
    """The messages as JSON objects, in order, ready to be joined with commas.

    Args:
        one_by_one: each object apart; else some are joined already.
    """
    grouped = None if one_by_one else _encode_by_group(messages, model, wire)
    if grouped is not None:
        return grouped
    return encode_sendable(transform_messages(messages, model, _normal_id), wire)


def _encode_by_group(messages: Sequence[Message], model: Model[Any], wire: Wire) -> list[bytes] | None:
    """The same, group by group: a user message, or an answer with its results.

    The form of a group is kept with its first message, so a long transcript costs one look a group. That
    holds while groups do not depend on each other. None where they do: a result that stands too late,
    ids that are rewritten, system messages in the middle.
    """
    if wire.endpoint.requires_assistant_after_tool_result:
        return None
    encoded: list[bytes] = []
    key = wire.group_key
    size = len(messages)
    at = 0
    if size and messages[0].role == "system":
        encoded.extend(encode_system(messages[0], wire, leads=True))
        at = 1
    while at < size:
        first = messages[at]
        group = first.memo.get(key)
        if not isinstance(group, _Group) or not group.stands_at(messages, at):
            made = _make_group(messages, at, model, wire)
            if made is None:
                return None
            group = made
        if group.encoded:
            encoded.append(group.encoded)
        at += 1 + len(group.results)
    return encoded


@dataclass(frozen=True, slots=True)
class _Group:
    """The encoded form of a message and the results that follow it."""

    results: tuple[Message, ...]
    encoded: bytes

    def stands_at(self, messages: Sequence[Message], at: int) -> bool:
        """Whether the messages from there on are this group, and no further result belongs to it."""
        end = at + 1 + len(self.results)
        if end < len(messages) and messages[end].role == "toolResult":
            return False
        return not self.results or tuple(messages[at + 1 : end]) == self.results


def _make_group(messages: Sequence[Message], at: int, model: Model[Any], wire: Wire) -> _Group | None:
    first = messages[at]
    if first.role not in ("user", "assistant"):
        return None
    end = at + 1
    while end < len(messages) and messages[end].role == "toolResult":
        end += 1
    originals = tuple(messages[at:end])
    handed = hand_off(originals, model, _normal_id)
    if handed.repairs and end < len(messages):
        return None  # what is missing here may stand further on
    if not _ids_of_results(handed.messages) <= _ids_of_calls(originals[0]):
        return None  # rewritten ids must be told apart over the whole transcript
    group = _Group(originals[1:], b",".join(encode_sendable(handed.messages, wire)))
    if not handed.repairs:
        first.memo[wire.group_key] = group
    return group


def _ids_of_results(messages: Sequence[Message]) -> set[str]:
    return {message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)}


def _ids_of_calls(message: Message) -> set[str]:
    content = message.content if isinstance(message, AssistantMessage) else ()
    return {block.id for block in content if isinstance(block, ToolCall)}


def _normal_id(id: str, model: Model[Any], _source: AssistantMessage) -> str:
    """Another API's call id as one that chat completions take.

    The responses API joins two ids with a bar, and only both together are unique.
    """
    if "|" not in id:
        return cut_utf16(id, MAX_ID) if model.provider == "openai" else id
    call, _, item = id.partition("|")
    call, item = _NOT_IN_AN_ID.sub("_", call), _NOT_IN_AN_ID.sub("_", item)
    joined = f"{call}_{item}" if item else call
    if utf16_length(joined) <= MAX_ID:
        return joined
    mark = short_hash(id)[:8]
    return f"{call[: max(1, MAX_ID - len(mark) - 1)]}_{mark}"
