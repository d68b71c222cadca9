"""Which messages of a transcript can be sent, and what must be put right first?

APIs refuse a tool call without its result right after it, and a result without its call right before
it. Transcripts hold both after an abort, a crash, or a host's own editing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

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

_FAILED: Final = frozenset({"error", "aborted"})
_CALL_IDS: Final = "call ids"
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
    work = _Repair(messages)
    work.run()
    return Repaired(tuple(work.sent), tuple(work.repairs))


def call_ids(answer: AssistantMessage) -> tuple[str, ...]:
    """The ids of an answer's tool calls, in order; found once for each answer."""
    known = answer.memo.get(_CALL_IDS)
    if known is None:
        known = tuple(block.id for block in answer.content if isinstance(block, ToolCall))
        answer.memo[_CALL_IDS] = known
    return cast("tuple[str, ...]", known)


class _Repair:
    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.sent: list[Message] = []
        self.repairs: list[Repair] = []
        # The last answer, and those of its calls that have no result yet. A list: providers repeat ids.
        self.answer: AssistantMessage | None = None
        self.open_ids: list[str] = []
        self.held: list[SystemMessage] = []
        self.moved: set[int] = set()
        self.results: dict[str, deque[int]] | None = None

    def run(self) -> None:
        # Over every message, before each request: what is not rare stands in this loop.
        for at, message in enumerate(self.messages):
            if message.role == "toolResult":
                if message.tool_call_id in self.open_ids:
                    self.open_ids.remove(message.tool_call_id)
                    self.sent.append(message)
                elif at not in self.moved:
                    orphan = Repair("orphaned_tool_result", message.tool_call_id, message.tool_name)
                    self.repairs.append(orphan)
                continue
            if self.open_ids and message.role == "system":
                self.held.append(message)
                continue
            if self.open_ids or self.held:
                self.close(at)
            if message.role == "assistant":
                if message.stop_reason in _FAILED:
                    # Half an answer: reasoning without what it led to, calls cut off. APIs refuse it.
                    continue
                self.answer = message
                self.open_ids = list(call_ids(message))
            self.sent.append(message)
        self.close(None)

    def close(self, at: int | None) -> None:
        """Answer what is open, since something else than a result comes next (at `at`; None: the end)."""
        if self.answer is not None:
            for id_ in self.open_ids:
                self.sent.append(self.late_result(id_, at) or self.unanswered(id_, self.answer))
        self.sent += self.held
        self.open_ids, self.held = [], []

    def unanswered(self, id_: str, answer: AssistantMessage) -> ToolResultMessage:
        name = next(b.name for b in answer.content if isinstance(b, ToolCall) and b.id == id_)
        self.repairs.append(Repair("unanswered_tool_call", id_, name))
        return ToolResultMessage(
            tool_call_id=id_,
            tool_name=name,
            content=_UNANSWERED,
            is_error=True,
            timestamp=answer.timestamp,
        )

    def late_result(self, id_: str, at: int | None) -> ToolResultMessage | None:
        """The real result of a call where it stands too late: what happened beats a made-up error."""
        if at is None:
            return None
        if self.results is None:
            self.results = _late_results(self.messages, at)
        late = self.results.get(id_)
        while late and late[0] < at:
            late.popleft()
        result = self.messages[late[0]] if late else None
        if not late or not isinstance(result, ToolResultMessage):
            return None
        self.moved.add(late.popleft())
        self.repairs.append(Repair("moved_tool_result", id_, result.tool_name))
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
