"""Which messages of a transcript can be sent, and what must be put right first?

APIs refuse a tool call without its result right after it, and a result without its call right before
it. Transcripts hold both after an abort, a crash, or a host's own editing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from mule.transcript.diagnostics import make_diagnostic
from mule.transcript.wording import UNANSWERED_TOOL_CALL
from mule.values.base import Number
from mule.values.content import TextContent, ToolCall
from mule.values.messages import (
    AssistantMessage,
    AssistantMessageDiagnostic,
    Message,
    SystemMessage,
    ToolResultMessage,
)

RepairKind: TypeAlias = Literal["unanswered_tool_call", "moved_tool_result", "orphaned_tool_result"]

_UNANSWERED: Final = (TextContent(text=UNANSWERED_TOOL_CALL),)


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was put right.

    `unanswered_tool_call`: the call was given a result that says so. `moved_tool_result`: its result
    stood further on and was moved behind it. `orphaned_tool_result`: there is no open call that it could
    answer, so it is not sent.
    """

    kind: RepairKind
    tool_call_id: str
    tool_name: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """A transcript that can be sent, and what was put right to make it so."""

    messages: tuple[Message, ...]
    repairs: tuple[Repair, ...] = ()


def repair(messages: Sequence[Message]) -> Repaired:
    """Leave out failed and aborted answers, and give each call exactly one result, right after it.

    A system message between a call and its results goes behind them. Repairing twice changes nothing.
    """
    work = _Repair(tuple(messages))
    for at, message in enumerate(work.messages):
        work.take(at, message)
    work.close()
    return Repaired(tuple(work.sent), tuple(work.repairs))


class _Repair:
    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages = messages
        self.sent: list[Message] = []
        self.repairs: list[Repair] = []
        # The calls of the last answer that have no result yet. A list, since providers repeat ids.
        self.open: list[ToolCall] = []
        self.opened_at: AssistantMessage | None = None
        self.held: list[SystemMessage] = []
        self.moved: set[int] = set()
        self.results: dict[str, deque[int]] | None = None

    def take(self, at: int, message: Message) -> None:
        match message.role:
            case "toolResult":
                self.take_result(at, message)
            case "system":
                (self.sent if self.opened_at is None else self.held).append(message)
            case "assistant":
                self.take_answer(at, message)
            case _:
                self.close(at)
                self.sent.append(message)

    def take_answer(self, at: int, answer: AssistantMessage) -> None:
        self.close(at)
        if answer.stop_reason in ("error", "aborted"):
            # Half an answer: reasoning without what it led to, calls cut off. APIs refuse it.
            return
        self.sent.append(answer)
        self.open = [block for block in answer.content if isinstance(block, ToolCall)]
        self.opened_at = answer if self.open else None

    def take_result(self, at: int, result: ToolResultMessage) -> None:
        for index, call in enumerate(self.open):
            if call.id == result.tool_call_id:
                del self.open[index]
                self.sent.append(result)
                return
        if at not in self.moved:
            self.repairs.append(Repair("orphaned_tool_result", result.tool_call_id, result.tool_name))

    def close(self, at: int | None = None) -> None:
        """Answer what is open, since something else than a result comes next (at `at`; None: the end)."""
        answer = self.opened_at
        if answer is None:
            return
        for call in self.open:
            self.sent.append(self.late_result(call, at) or self.unanswered(call, answer))
        self.sent += self.held
        self.open, self.opened_at, self.held = [], None, []

    def unanswered(self, call: ToolCall, answer: AssistantMessage) -> ToolResultMessage:
        self.repairs.append(Repair("unanswered_tool_call", call.id, call.name))
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=_UNANSWERED,
            is_error=True,
            timestamp=answer.timestamp,
        )

    def late_result(self, call: ToolCall, at: int | None) -> ToolResultMessage | None:
        """The real result of a call where it stands too late: what happened beats a made-up error."""
        if at is None:
            return None
        if self.results is None:
            self.results = _late_results(self.messages, at)
        late = self.results.get(call.id)
        while late and late[0] < at:
            late.popleft()
        if not late:
            return None
        index = late.popleft()
        result = self.messages[index]
        if not isinstance(result, ToolResultMessage):
            return None
        self.moved.add(index)
        self.repairs.append(Repair("moved_tool_result", call.id, call.name))
        return result


def _late_results(messages: Sequence[Message], start: int) -> dict[str, deque[int]]:
    """Where results stand, from `start` on, that no answer between them and their call could claim."""
    late: dict[str, deque[int]] = {}
    claimed: set[str] = set()
    for at in range(start, len(messages)):
        message = messages[at]
        if message.role == "toolResult":
            if message.tool_call_id not in claimed:
                late.setdefault(message.tool_call_id, deque()).append(at)
        elif message.role == "assistant":
            claimed.update(block.id for block in message.content if isinstance(block, ToolCall))
    return late


def repair_diagnostics(
    repairs: Sequence[Repair], *, now_ms: Number
) -> tuple[AssistantMessageDiagnostic, ...]:
    """What a host should hear of: results that were dropped or moved. An open call is no news to it."""
    return tuple(
        make_diagnostic(
            "transcript_repair",
            details={"kind": found.kind, "toolCallId": found.tool_call_id, "toolName": found.tool_name},
            now_ms=now_ms,
        )
        for found in repairs
        if found.kind != "unanswered_tool_call"
    )
