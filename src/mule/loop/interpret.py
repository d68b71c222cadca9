"""The only `while`: ask `decide` for the next step, perform it, until the run is over.

And the frame around it: one `run_end`, last, whatever happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Generic, assert_never

from returns.result import Failure, Result, Success
from typing_extensions import TypeVar

from mule.loop.answer import Answer, Answering
from mule.loop.batch import Batch
from mule.loop.decide import Standing, Step, decide
from mule.loop.declare import Declarations
from mule.loop.program import (
    CallSite,
    LoopTool,
    ModelRequest,
    Poll,
    Program,
    RunFailed,
    Update,
    Verdict,
)
from mule.loop.report import Reporter
from mule.values.content import ToolCall
from mule.values.errors import Defect, MuleError
from mule.values.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage
from mule.values.model import Model, ModelThinkingLevel
from mule.values.run import Ended, MuleCompletedTurn, MuleRunOutcome, RunEnd
from mule.values.usage import NO_USAGE, add_usage
from mule.waiting import is_cancellation, protected

M = TypeVar("M", default=Message)


async def interpret(program: Program[M]) -> Result[MuleRunOutcome[M], MuleError]:
    """Run a program to its end.

    A cancellation goes on after the listener has seen the run's end, and is never made a value. A bug
    of ours is raised as the exception it is.
    """
    run = Interpretation(program)
    try:
        ended = await run.perform()
    except RunFailed as stop:
        return await run.fail(stop)
    except BaseException as exc:
        if isinstance(exc, GeneratorExit):  # a closed coroutine must not await
            raise
        await run.go_down(exc)
        raise
    return await run.complete(ended)


class Interpretation(Generic[M]):
    """One run on its way: the state, and how each step changes it."""

    def __init__(self, program: Program[M]) -> None:
        self.program = program
        self.report = Reporter(program)
        self.transcript: list[M] = list(program.transcript)
        self.new: list[M] = []
        self.declarations = Declarations(program.transcript)
        self.tools: Sequence[LoopTool[M]] = program.tools
        self.model: Model[Any] = program.model
        self.level: ModelThinkingLevel = program.thinking_level
        self.pending: tuple[M, ...] = ()
        self.added: tuple[M, ...] = ()
        self.turns = 0
        self.usage = NO_USAGE
        self.answer: Answer | None = None
        self.results: tuple[ToolResultMessage, ...] = ()
        self.terminated = False
        self.completed: MuleCompletedTurn[M] | None = None
        self.verdict: Verdict | None = None

    async def perform(self) -> Ended:
        """Step after step. Gives how the run ended; raises `RunFailed`."""
        await self._open()
        step = Step.OPEN
        while True:
            step = decide(step, self._standing())
            if step is Step.FINISH:
                return self._finish()
            await self._perform(step)

    def _standing(self) -> Standing:
        answer = self.answer
        if answer is None:
            return Standing(pending=bool(self.pending))
        return Standing(
            failed=_has_failed(answer.message),
            calls=any(isinstance(block, ToolCall) for block in answer.message.content),
            unanswered=bool(self.results) and not self.terminated,
            pending=bool(self.pending),
            verdict=self.verdict,
            aborted=self.program.aborted(),
        )

    async def _perform(self, step: Step) -> None:
        match step:
            case Step.POLL_AT_START | Step.POLL_STEERING | Step.POLL_AGAIN:
                await self._poll(self.program.poll_steering)
            case Step.POLL_FOLLOW_UPS:
                await self._poll(self.program.poll_follow_ups)
            case Step.ADD_MESSAGES:
                await self._add_messages()
            case Step.CALL_MODEL:
                await self._call_model()
            case Step.RUN_TOOLS:
                await self._run_tools()
            case Step.END_TURN:
                await self._end_turn()
            case Step.PREPARE_TURN:
                await self._prepare_turn()
            case Step.START_TURN:
                await self._start_turn()
            case Step.OPEN | Step.FINISH:
                raise AssertionError("decided once, outside of the loop")
            case other:
                assert_never(other)

    async def _open(self) -> None:
        await self.report.run_start()
        await self._start_turn()
        await self._announce(self.program.prompts)

    async def _start_turn(self) -> None:
        index = self.turns
        self.turns += 1
        await self.report.turn_start(index)

    async def _poll(self, poll: Poll[M] | None) -> None:
        if poll is not None:
            self.pending = (*self.pending, *await poll())

    async def _add_messages(self) -> None:
        waiting = (*self.added, *self.pending)
        self.added, self.pending = (), waiting
        await self._announce(waiting)

    async def _announce(self, messages: tuple[M, ...]) -> None:
        declared = [tool.declaration for tool in self.tools]
        for message in self.declarations.with_announcement(messages, declared, self.report.now()):
            await self.report.whole_message(message)
            self._append(message)
            # A made-up announcement of tools stands before the first message that is not a system
            # message; everything else takes what was polled off the list of what is owed.
            owed = self.pending
            if owed and (not isinstance(message, SystemMessage) or isinstance(owed[0], SystemMessage)):
                self.pending = owed[1:]

    def _append(self, message: Any) -> None:
        self.transcript.append(message)
        self.new.append(message)
        self.declarations.add(message)

    async def _call_model(self) -> None:
        self.results, self.terminated = (), False
        if self.program.prepare_request is not None:
            self._apply(await self.program.prepare_request(self._request()))
        call = await self.program.prepare_call(self._request())
        answering = Answering(self.program, self.report, call, self.level)
        self.answer = await answering.perform()
        self.usage = add_usage(self.usage, self.answer.message.usage)
        self._append(self.answer.message)

    def _request(self) -> ModelRequest[M]:
        return ModelRequest(self.model, self.level, tuple(self.transcript))

    def _apply(self, update: Update[M] | None) -> None:
        if update is None:
            return
        if update.messages is not None:
            self.transcript = list(update.messages)
            self.declarations = Declarations(self.transcript)
        if update.tools is not None:
            self.tools = update.tools
        self.added = tuple(update.added)
        self.model = update.model or self.model
        self.level = update.thinking_level or self.level

    async def _run_tools(self) -> None:
        answer = self._answered()
        site = CallSite(answer.message, tuple(self.transcript))
        batch = Batch(self.program, self.report, self.tools, site, answer.identity)
        try:
            self.terminated = await batch.perform()
        finally:
            # What a tool has done is done: its result is kept, however the batch ended.
            self.results = batch.settled()
            for message in self.results:
                self._append(message)

    async def _end_turn(self) -> None:
        answer = self._answered()
        completed = MuleCompletedTurn(
            turn=self.report.turn,
            index=self.turns - 1,
            message=answer.message,
            tool_results=self.results,
            messages=tuple(self.transcript),
            new_messages=tuple(self.new),
        )
        self.completed = completed
        self.verdict = None
        if self.program.finish_turn is not None:
            self.verdict = await self.program.finish_turn(completed)
        await self.report.turn_end(completed)
        stop = self.program.stop_after_turn
        if stop is not None and not _has_failed(answer.message) and await stop(completed):
            self.verdict = "end"

    async def _prepare_turn(self) -> None:
        if self.program.prepare_next_turn is not None and self.completed is not None:
            self._apply(await self.program.prepare_next_turn(self.completed))

    def _answered(self) -> Answer:
        if self.answer is None:
            raise AssertionError("a turn ends and tools run only after an answer")
        return self.answer

    def _finish(self) -> Ended:
        answer = self._answered()
        if answer.failure is not None and self.program.model_failure_fails:
            raise RunFailed(MuleError(answer.failure, answer.identity).because(answer.cause))
        if self.verdict == "end":
            return "stopped"
        if self.terminated:
            return "terminated"
        return "deferred" if answer.message.stop_reason == "deferred" else "answered"

    def outcome(self, ended: Ended | None) -> MuleRunOutcome[M]:
        """What the run has reached by now."""
        return MuleRunOutcome(
            run=self.report.run,
            messages=tuple(self.transcript),
            new_messages=tuple(self.new),
            final=self.answer.message if self.answer is not None else None,
            ended=ended,
            turns=self.turns,
            usage=self.usage,
            undelivered=(*self.added, *self.pending),
        )

    async def complete(self, ended: Ended) -> Result[MuleRunOutcome[M], MuleError]:
        """The end of a run that went well."""
        outcome = self.outcome(ended)
        try:
            await self.report.emit(self._run_end("completed", outcome))
        except RunFailed as stop:
            return Failure(self._with_outcome(stop.error))
        return Success(outcome)

    async def fail(self, stop: RunFailed) -> Result[MuleRunOutcome[M], MuleError]:
        """The end of a run that failed; a listener that failed is not told."""
        error = self._with_outcome(stop.error)
        try:
            await self.report.emit(self._run_end("failed", self.outcome(None), error))
        except RunFailed as again:
            return Failure(self._with_outcome(again.error))
        return Failure(error)

    async def go_down(self, exc: BaseException) -> None:
        """The end of a run that was cancelled, or that met a bug of ours."""
        if not self.report.opened:
            return
        if is_cancellation(exc):
            await protected(self._end_cancelled, self.program.grace)
            return
        error = MuleError(Defect(f"{type(exc).__name__}: {exc}"), self.report.run).because(exc)
        with contextlib.suppress(RunFailed):  # the bug matters more
            await self.report.emit(self._run_end("failed", self.outcome(None), error))

    async def _end_cancelled(self) -> None:
        with contextlib.suppress(RunFailed):  # nobody is left to be told: the cancellation goes on
            await self.report.emit(self._run_end("cancelled", self.outcome(None)))

    def _with_outcome(self, error: MuleError) -> MuleError:
        error.at = error.at or self.report.turn
        error.outcome = self.outcome(None)
        return error

    def _run_end(
        self, status: Any, outcome: MuleRunOutcome[M], error: MuleError | None = None
    ) -> RunEnd[M]:
        return RunEnd(
            timestamp=self.report.last_now(),
            sequence=self.report.number(),
            run=self.report.run,
            status=status,
            outcome=outcome,
            error=error,
        )


def _has_failed(message: AssistantMessage) -> bool:
    return message.stop_reason in ("error", "aborted")
