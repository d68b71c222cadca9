"""The tool calls of one answer: prepared, run, settled; one by one or side by side.

Each call that is announced gets exactly one result. Tools run in other tasks than the run's own and put
what they have to say into one relay; the run's own tells the listener, so there is one event at a time.
"""

from __future__ import annotations

import contextvars
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from typing_extensions import TypeVar

from mule.loop import wording
from mule.loop.program import CallSite, LoopTool, Prepared, Program
from mule.loop.report import Reporter, ToolReporter
from mule.values.content import TextContent, ToolCall
from mule.values.messages import Message, ToolResultMessage
from mule.values.run import MuleIdentity, Settled, Started
from mule.values.tools import MuleToolProgress, MuleToolResult
from mule.waiting import is_cancellation, is_of_the_work, is_their_failure

M = TypeVar("M", default=Message)


@dataclass(slots=True)
class _Entry:
    """One call on its way. `result` and `message` are there once it has settled."""

    index: int
    report: ToolReporter
    began: int
    prepared: Prepared | None = None
    result: MuleToolResult | None = None
    message: ToolResultMessage | None = None
    fatal: BaseException | None = None


class _Relay:
    """What running tools have to say, in the order in which they said it."""

    __slots__ = ("_arrived", "_items")

    def __init__(self) -> None:
        self._items: deque[tuple[_Entry, MuleToolProgress | None, _Sink]] = deque()
        self._arrived = anyio.Event()

    def put(self, entry: _Entry, part: MuleToolProgress | None, sink: _Sink) -> None:
        self._items.append((entry, part, sink))
        self._arrived.set()

    async def get(self) -> tuple[_Entry, MuleToolProgress | None, _Sink]:
        while not self._items:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._items.popleft()


class _Sink:
    """A tool's end of the relay."""

    __slots__ = ("_entry", "_heard", "_relay", "_unheard")

    def __init__(self, relay: _Relay, entry: _Entry) -> None:
        self._relay = relay
        self._entry = entry
        self._unheard = 0
        self._heard: anyio.Event | None = None

    def put(self, part: MuleToolProgress, /) -> None:
        self._unheard += 1
        self._relay.put(self._entry, part, self)

    async def heard(self) -> None:
        while self._unheard:
            self._heard = anyio.Event()
            await self._heard.wait()

    def was_heard(self) -> None:
        self._unheard -= 1
        if not self._unheard and self._heard is not None:
            self._heard.set()


@dataclass(slots=True)
class Batch(Generic[M]):
    """Performs the tool calls of one answer."""

    program: Program[M]
    reporter: Reporter[M]
    tools: Sequence[LoopTool[M]]
    site: CallSite[M]
    answer: MuleIdentity
    _done: list[_Entry] = field(default_factory=list)

    async def perform(self) -> bool:
        """Run the calls; where the answer was cut off by its token limit, run none of them.

        Returns: whether every result said terminate.
        """
        calls = [block for block in self.site.message.content if isinstance(block, ToolCall)]
        if self.site.message.stop_reason == "length":
            await self._refuse_all(calls)
        elif self.program.sequential or any(self._is_sequential(call) for call in calls):
            await self._one_by_one(calls)
        else:
            await self._side_by_side(calls)
        results = [entry.result for entry in self._done if entry.result is not None]
        return bool(results) and all(result.terminate for result in results)

    def settled(self) -> tuple[ToolResultMessage, ...]:
        """The results that there are by now, in the order of the calls."""
        return tuple(entry.message for entry in self._done if entry.message is not None)

    def _tool(self, name: str) -> LoopTool[M] | None:
        return next((tool for tool in self.tools if tool.declaration.name == name), None)

    def _is_sequential(self, call: ToolCall) -> bool:
        tool = self._tool(call.name)
        return tool is not None and tool.sequential

    async def _refuse_all(self, calls: Sequence[ToolCall]) -> None:
        for index, call in enumerate(calls):
            entry = await self._announce(index, call)
            await self._settle(entry, error_result(wording.cut_off(call.name)))
            await self._tell_result(entry)

    async def _one_by_one(self, calls: Sequence[ToolCall]) -> None:
        for index, call in enumerate(calls):
            entry = await self._announce(index, call)
            refusal = await self._prepare(entry)
            if refusal is not None:
                await self._settle(entry, refusal)
            else:
                await self._execute([entry])
            await self._tell_result(entry)
            if self.program.aborted():
                return

    async def _side_by_side(self, calls: Sequence[ToolCall]) -> None:
        for index, call in enumerate(calls):
            entry = await self._announce(index, call)
            refusal = await self._prepare(entry)
            if refusal is not None:
                await self._settle(entry, refusal)
            if self.program.aborted():
                break
        await self._execute([entry for entry in self._done if entry.prepared is not None])
        for entry in self._done:
            await self._tell_result(entry)

    async def _announce(self, index: int, call: ToolCall) -> _Entry:
        report = self.reporter.about(self.answer, call)
        await report.start()
        entry = _Entry(index, report, self.reporter.now())
        self._done.append(entry)
        return entry

    async def _prepare(self, entry: _Entry) -> MuleToolResult | None:
        """Prepare a call. Gives the result that refuses it, or None where it may run."""
        call = entry.report.call
        tool = self._tool(call.name)
        if tool is None:
            return error_result(wording.unknown_tool(call.name))
        if call.arguments_error is not None:
            return error_result(wording.not_json(call.name, call.arguments_error))
        try:
            prepared = await tool.prepare(call, self.site)
        except BaseException as exc:
            if is_their_failure(exc):
                return error_result(text_of(exc))
            raise
        if isinstance(prepared, MuleToolResult):
            return prepared
        entry.prepared = prepared
        return None

    async def _execute(self, entries: Sequence[_Entry]) -> None:
        """Run prepared calls, so many at once, and settle each as it ends."""
        waiting = deque(entries)
        limit = self.program.max_parallel or len(waiting)
        stop: BaseException | None = None
        async with anyio.create_task_group() as tools:
            try:
                await self._conduct(waiting, limit, tools)
            except BaseException as exc:
                if isinstance(exc, anyio.get_cancelled_exc_class()):
                    raise
                stop = exc  # raised below, outside of the group: it stays bare
                tools.cancel_scope.cancel()
        await checkpoint_if_cancelled()
        if stop is not None:
            raise stop

    async def _conduct(self, waiting: deque[_Entry], limit: int, tools: anyio.abc.TaskGroup) -> None:
        relay = _Relay()
        lanes = _Lanes(tools, relay, self.program.aborted)
        running = 0
        while waiting or running:
            while waiting and running < limit:
                entry = waiting.popleft()
                if self.program.aborted():
                    await self._settle(entry, error_result(wording.ABORTED))
                    continue
                await entry.report.checkpoint(Started(entry.report.tool, entry.report.call, entry.index))
                entry.began = self.reporter.now()  # what it waited for its place is not its own time
                lanes.take(entry)
                running += 1
            if not running:
                return
            await lanes.under_way()
            entry, part, sink = await relay.get()
            if part is not None:
                await entry.report.update(part)
                sink.was_heard()
                continue
            running -= 1
            if entry.fatal is not None:
                raise entry.fatal
            await self._settle(entry, entry.result or error_result(wording.NO_RESULT))

    async def _settle(self, entry: _Entry, result: MuleToolResult) -> None:
        report = entry.report
        result, entry.message = _told(report.call, result, entry.began, self.reporter.now())
        entry.result = result
        await report.checkpoint(
            Settled(report.tool, report.call, entry.index, entry.message, result.terminate)
        )
        await report.end(result)

    async def _tell_result(self, entry: _Entry) -> None:
        message: Any = entry.message  # a ToolResultMessage, which every M can be
        await self.reporter.whole_message(message, entry.report.tool)


class _Lanes:
    """The tasks that tools run in.

    A task costs more than many a tool. So a lane goes on with the next call where a tool came to its end
    without waiting for anything; as soon as one waits, its lane is its own, and the next call gets
    another.
    """

    __slots__ = ("_aborted", "_lane", "_ready", "_relay", "_tasks")

    def __init__(self, tasks: anyio.abc.TaskGroup, relay: _Relay, aborted: Callable[[], bool]) -> None:
        self._tasks = tasks
        self._relay = relay
        self._aborted = aborted
        self._ready: deque[_Entry] = deque()
        self._lane: _Lane | None = None

    def take(self, entry: _Entry) -> None:
        """Run a call as soon as the run's own task waits for something."""
        self._ready.append(entry)
        self._open()

    def _open(self) -> None:
        if self._lane is not None and not self._lane.started:
            return  # it has yet to look at what is ready
        if self._lane is not None:
            self._lane.open = False
        self._lane = _Lane()
        self._tasks.start_soon(self._run, self._lane)

    async def under_way(self) -> None:
        """Return once no call waits for a tool before it to stop waiting."""
        while len(self._ready) > 1 or (self._ready and self._lane is not None and self._lane.started):
            self._open()
            await checkpoint()

    async def _run(self, lane: _Lane) -> None:
        lane.started = True
        context = contextvars.copy_context()
        while self._ready and lane.open:
            if anyio.current_effective_deadline() == -math.inf:
                return  # the run goes down: what has not begun does not begin
            entry = self._ready.popleft()
            if self._aborted():
                entry.result = error_result(wording.ABORTED)
                self._relay.put(entry, None, _Sink(self._relay, entry))
                continue
            await _run_tool(entry, self._relay)
            if contextvars.copy_context() != context:
                # What a tool has set in its context is not for the next one.
                lane.open = False
        if self._ready and self._lane is lane:
            self._open()


@dataclass(slots=True)
class _Lane:
    """One task. `open`: it may go on with another call."""

    started: bool = False
    open: bool = True


async def _run_tool(entry: _Entry, relay: _Relay) -> None:
    """Run one tool. It never raises: a group would wrap it, and a cancel would be lost in it."""
    sink = _Sink(relay, entry)
    assert entry.prepared is not None
    try:
        result: object = await entry.prepared.execute(sink)
        if isinstance(result, MuleToolResult):  # a host's code may not be type-checked
            entry.result = result
    except BaseException as exc:
        # Always something to tell, a cancel too: it may be the tool's own doing, and then the run waits.
        # Where it is the run that goes down, nobody listens.
        if is_of_the_work(exc):
            entry.result = error_result(text_of(exc))
        else:
            entry.fatal = exc
    relay.put(entry, None, sink)


def error_result(text: str) -> MuleToolResult:
    """The result of a call that was refused or that failed. It holds nothing but the text."""
    return MuleToolResult(content=(TextContent(text=text),), details={}, is_error=True)


def text_of(exc: BaseException) -> str:
    """What the model is told about an exception of a tool: its text, or at least its type.

    Of a group, what is in it. Of a cancel, only that: its text is about scopes.
    """
    if isinstance(exc, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(text_of(inner) for inner in exc.exceptions))
    if is_cancellation(exc):
        return wording.CANCELLED_ITSELF
    return str(exc) or type(exc).__name__


def _told(
    call: ToolCall, result: MuleToolResult, began: int, now: int
) -> tuple[MuleToolResult, ToolResultMessage]:
    """A result and its message; an error result where a host's code gave one that no message can hold."""
    try:
        return result, _result_message(call, result, began, now)
    except (TypeError, ValueError):
        unusable = error_result(wording.UNUSABLE_RESULT)
        return unusable, _result_message(call, unusable, began, now)


def _result_message(call: ToolCall, result: MuleToolResult, began: int, now: int) -> ToolResultMessage:
    fields: dict[str, Any] = {"details": result.details} if result.details is not None else {}
    if result.usage is not None:
        fields["usage"] = result.usage
    if result.nested_calls is not None:
        fields["nested_calls"] = result.nested_calls
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=tuple(result.content),
        is_error=result.is_error,
        timestamp=now,
        duration_ms=now - began,
        **fields,
    )
