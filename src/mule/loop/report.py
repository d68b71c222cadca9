"""Telling the listener what happens: identities, sequence numbers, one event at a time."""

from __future__ import annotations

import contextlib
from typing import Any, Generic, cast

from returns.pipeline import is_successful
from typing_extensions import TypeVar

from mule.loop.program import Program, RunFailed, cause_of
from mule.values.content import ToolCall
from mule.values.errors import ListenerFailed, MuleError
from mule.values.messages import AssistantMessage, Message
from mule.values.run import (
    AnyEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    MuleCompletedTurn,
    MuleIdentity,
    MuleIdentityKind,
    MuleToolCheckpoint,
    RunStart,
    ToolCheckpointed,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from mule.values.stream import AssistantMessageEvent
from mule.values.tools import MuleToolProgress, MuleToolResult
from mule.waiting import is_cancellation, is_their_failure

M = TypeVar("M", default=Message)


class Reporter(Generic[M]):
    """Makes the events of one run and waits until the listener is done with each."""

    __slots__ = ("_clock", "_ids", "_last", "_listen", "_sequence", "gone", "opened", "run", "turn")

    def __init__(self, program: Program[M]) -> None:
        self._clock = program.clock
        self._last = 0
        self._ids = program.ids
        self._listen = program.listen
        self._sequence = -1
        self.opened = False
        self.gone = False  # the listener has failed: it gets nothing more, the run's end included
        self.run = self.identify("run")
        self.turn = self.run  # until the first turn_start

    def now(self) -> int:
        """The time, in milliseconds since the epoch."""
        self._last = self._clock()
        return self._last

    def last_now(self) -> int:
        """The time as far as it is known: for the run's end, which a broken clock must not take away."""
        with contextlib.suppress(Exception):
            return self.now()
        return self._last

    def identify(self, kind: MuleIdentityKind) -> MuleIdentity:
        """A new identity."""
        return MuleIdentity(kind, self._ids(kind))

    def number(self) -> int:
        """The sequence number of the next event. Taken last: a clock that raises must leave no gap."""
        self._sequence += 1
        return self._sequence

    async def emit(self, event: AnyEvent[M]) -> None:
        """Give one event to the listener. Where it fails, the run ends and it gets no more."""
        if self.gone:
            return
        cause: BaseException | None = None
        try:
            heard = self._listen(event)
            if heard is not None:
                result = await heard
                cause = None if is_successful(result) else cause_of(result.failure())
        except BaseException as exc:
            theirs = is_their_failure(exc)
            self.gone = theirs or not is_cancellation(exc)
            if not theirs:
                raise
            cause = exc
        if cause is not None:
            self.gone = True
            failed: ListenerFailed = ListenerFailed(cast(Any, event))  # an event of any M
            raise RunFailed(MuleError(failed, self.run).because(cause)) from cause

    async def run_start(self) -> None:
        """The run begins; from here on it owes a run_end."""
        event = RunStart(timestamp=self.now(), sequence=self.number(), run=self.run)
        self.opened = True
        await self.emit(event)

    async def turn_start(self, index: int) -> None:
        """A turn begins."""
        self.turn = self.identify("turn")
        await self.emit(
            TurnStart(
                timestamp=self.now(), sequence=self.number(), run=self.run, turn=self.turn, index=index
            )
        )

    async def message_start(
        self, value: M | AssistantMessage, message: MuleIdentity, tool: MuleIdentity | None = None
    ) -> None:
        """A message enters the transcript."""
        event: MessageStart[Any] = MessageStart(
            timestamp=self.now(),
            sequence=self.number(),
            run=self.run,
            turn=self.turn,
            message=message,
            tool=tool,
            value=value,
        )
        await self.emit(event)

    async def message_update(self, event: AssistantMessageEvent, message: MuleIdentity) -> None:
        """An answer has grown."""
        await self.emit(
            MessageUpdate(
                timestamp=self.now(),
                sequence=self.number(),
                run=self.run,
                turn=self.turn,
                message=message,
                event=event,
            )
        )

    async def message_end(
        self, value: M | AssistantMessage, message: MuleIdentity, tool: MuleIdentity | None = None
    ) -> None:
        """A message is final."""
        event: MessageEnd[Any] = MessageEnd(
            timestamp=self.now(),
            sequence=self.number(),
            run=self.run,
            turn=self.turn,
            message=message,
            tool=tool,
            value=value,
        )
        await self.emit(event)

    async def whole_message(self, value: M, tool: MuleIdentity | None = None) -> None:
        """A message that does not stream: its start and its end."""
        message = self.identify("message")
        await self.message_start(value, message, tool)
        await self.message_end(value, message, tool)

    async def turn_end(self, completed: MuleCompletedTurn[M]) -> None:
        """A turn is over."""
        await self.emit(
            TurnEnd(
                timestamp=self.now(),
                sequence=self.number(),
                run=self.run,
                turn=self.turn,
                completed=completed,
            )
        )

    def about(self, answer: MuleIdentity, call: ToolCall) -> ToolReporter:
        """A reporter for one call of an answer."""
        return ToolReporter(self, answer, self.identify("tool"), call)


class ToolReporter:
    """Tells what happens to one tool call."""

    __slots__ = ("_answer", "_reporter", "call", "tool")

    def __init__(
        self, reporter: Reporter[Any], answer: MuleIdentity, tool: MuleIdentity, call: ToolCall
    ) -> None:
        self._reporter = reporter
        self._answer = answer
        self.tool = tool
        self.call = call

    async def start(self) -> None:
        """The call is taken up."""
        r = self._reporter
        await r.emit(
            ToolExecutionStart(
                timestamp=r.now(),
                sequence=r.number(),
                run=r.run,
                turn=r.turn,
                message=self._answer,
                tool=self.tool,
                call=self.call,
            )
        )

    async def checkpoint(self, checkpoint: MuleToolCheckpoint) -> None:
        """What the host persists of it."""
        r = self._reporter
        await r.emit(
            ToolCheckpointed(
                timestamp=r.now(),
                sequence=r.number(),
                run=r.run,
                turn=r.turn,
                message=self._answer,
                tool=self.tool,
                checkpoint=checkpoint,
            )
        )

    async def update(self, part: MuleToolProgress) -> None:
        """It gave a part."""
        r = self._reporter
        await r.emit(
            ToolExecutionUpdate(
                timestamp=r.now(),
                sequence=r.number(),
                run=r.run,
                turn=r.turn,
                message=self._answer,
                tool=self.tool,
                call=self.call,
                part=part,
            )
        )

    async def end(self, result: MuleToolResult) -> None:
        """It has its result."""
        r = self._reporter
        await r.emit(
            ToolExecutionEnd(
                timestamp=r.now(),
                sequence=r.number(),
                run=r.run,
                turn=r.turn,
                message=self._answer,
                tool=self.tool,
                call=self.call,
                result=result,
            )
        )
