"""Which tool declarations a request must announce: the transcript's, brought up to the tools at hand.

What the model may call is the replay of the transcript's system messages; what can be run is the tools
of the run. The difference is announced before each request, so the two are always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from mule.transcript.tooling import tool_state_changes
from mule.values.base import Number
from mule.values.messages import Message, SystemMessage
from mule.values.tools import Tool, ToolReference

M = TypeVar("M", default=Message)


class Declarations(Generic[M]):
    """The tools that a transcript declares, kept up to date as it grows."""

    __slots__ = ("_declared",)

    def __init__(self, transcript: Sequence[M]) -> None:
        self._declared: dict[str, Tool[Any]] = {}
        for message in transcript:
            self.add(message)

    def add(self, message: M) -> None:
        """A message was appended to the transcript."""
        if isinstance(message, SystemMessage):
            _replay(self._declared, message)

    def with_announcement(
        self, pending: Sequence[M], tools: Sequence[Tool[Any]], now: Number
    ) -> tuple[M, ...]:
        """The messages to append, so that the transcript then declares exactly `tools`.

        The difference goes into the last pending system message, whose own tool fields are an
        intent and are replaced; where none is pending, into an empty one before the first message
        that is not a system message.
        """
        place = _last_system(pending)
        declared = dict(self._declared)
        for index, message in enumerate(pending):
            if isinstance(message, SystemMessage) and index != place:
                _replay(declared, message)
        previous = tuple(declared.values())
        added: tuple[Tool[Any], ...] = ()
        removed: tuple[ToolReference, ...] = ()
        if len(previous) != len(tools) or any(a is not b for a, b in zip(previous, tools, strict=False)):
            changes = tool_state_changes(previous, tools)
            added, removed = changes.tools_added, changes.tools_removed
        if place is not None:
            return _announced_in(pending, place, added, removed)
        if not added and not removed:
            return tuple(pending)
        update = _with_tools(SystemMessage(timestamp=now), added, removed)
        first = next(
            (i for i, message in enumerate(pending) if not isinstance(message, SystemMessage)), len(pending)
        )
        return (*pending[:first], cast(M, update), *pending[first:])  # every M can hold a system message


def _replay(declared: dict[str, Tool[Any]], message: SystemMessage) -> None:
    for gone in message.tools_removed or ():
        declared.pop(gone.name, None)
    for tool in message.tools_added or ():
        declared[tool.name] = tool


def _last_system(pending: Sequence[M]) -> int | None:
    for index in range(len(pending) - 1, -1, -1):
        if isinstance(pending[index], SystemMessage):
            return index
    return None


def _announced_in(
    pending: Sequence[M], place: int, added: tuple[Tool[Any], ...], removed: tuple[ToolReference, ...]
) -> tuple[M, ...]:
    message = pending[place]
    assert isinstance(message, SystemMessage)
    if not (added or removed or message.tools_added or message.tools_removed):
        return tuple(pending)
    return (*pending[:place], cast(M, _with_tools(message, added, removed)), *pending[place + 1 :])


def _with_tools(
    message: SystemMessage, added: tuple[Tool[Any], ...], removed: tuple[ToolReference, ...]
) -> SystemMessage:
    changes: dict[str, Any] = {}
    if added:
        changes["tools_added"] = added
    if removed:
        changes["tools_removed"] = removed
    return message.without("tools_added", "tools_removed").with_(**changes)
