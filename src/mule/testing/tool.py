"""A tool that does what it was told: give parts, fail, raise, wait, hang; and knows how each run ended."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from mule.ports import MulePreparedTool, MuleTool
from mule.values.content import TextContent, ToolCall
from mule.values.errors import MuleError, MuleToolRejection, ToolFailed
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.tools import MuleToolExecutionPart, MuleToolProgress, MuleToolResult, Tool

ANY_OBJECT: JsonObject = {"type": "object", "properties": {}}
"""The parameters of a tool that takes anything."""


@dataclass(frozen=True, slots=True)
class Fail:
    """A step that fails the tool with this text."""

    text: str


ToolStep: TypeAlias = MuleToolExecutionPart | Fail | Exception | Callable[[], object]
"""What a scripted tool does next: give a part, fail, raise, or call something and await it where it can be
awaited, such as `gate.wait`, `gate.set`, `hang` or `pause(50)`."""
ToolScript: TypeAlias = str | MuleToolExecutionPart | Fail | Exception | Sequence[ToolStep]
"""One step, or a list of them; a text is a result of that text."""
ToolFunction: TypeAlias = Callable[
    [ToolCall], "ToolScript | Awaitable[ToolScript] | AsyncIterator[ToolStep]"
]
"""What a tool does with a call, decided when it is made; may be async, or an async generator of steps."""

RunEnded: TypeAlias = Literal["running", "finished", "failed", "raised", "cancelled", "closed"]
"""Finished: it gave its result, or all it had. Closed: its reader left before that."""


async def hang() -> None:
    """A step that never ends, except by being cancelled."""
    await anyio.sleep_forever()


def pause(delay_ms: float) -> Callable[[], Awaitable[None]]:
    """A step that waits so long."""

    async def wait() -> None:
        await anyio.sleep(delay_ms / 1000)

    return wait


def progress(*texts: str, details: JsonValue = None) -> MuleToolProgress:
    """A part of texts that is not the end.

    >>> progress("halfway", details={"done": 5}).content[0].text
    'halfway'
    """
    return MuleToolProgress(content=tuple(TextContent(text=text) for text in texts), details=details)


@dataclass(slots=True)
class ScriptedToolRun:
    """One execution: the call, how it ended, and whether its clean-up was done to the end."""

    call: ToolCall
    ended: RunEnded = "running"
    cleaned_up: bool = False


class ScriptedTool:
    """A tool for tests. `tool` is what a run is given.

    Args:
        name: what the model calls it.
        script: what each run does, or a function from the call to that. The function may be async, and may
            be an async generator of steps. A list in which no step is a result ends without one.
        parameters: JSON schema of its arguments. They are not checked: say `reject` for that.
        reject: refuses a call before it runs; None lets it run.
        clean_up: awaited at the end of each run, however it ended, under a shield.

    Attributes:
        prepared: the calls that were prepared, in order, the refused ones included.
        runs: the executions, in order.

    >>> weigh = ScriptedTool("weigh", [progress("on the scale"), MuleToolResult.text("12 kg")])
    >>> weigh.tool.descriptor.name, weigh.calls
    ('weigh', [])
    >>> echo = ScriptedTool("echo", lambda call: str(call.arguments["text"]))
    """

    def __init__(
        self,
        name: str,
        script: ToolScript | ToolFunction = "ok",
        *,
        description: str = "",
        parameters: JsonObject = ANY_OBJECT,
        replay: Literal["safe", "unsafe"] = "unsafe",
        execution_mode: Literal["parallel", "sequential"] | None = None,
        reject: Callable[[ToolCall], MuleToolRejection | None] | None = None,
        clean_up: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self.name = name
        self._script = script
        self._reject = reject
        self._clean_up = clean_up
        self.prepared: list[ToolCall] = []
        self.runs: list[ScriptedToolRun] = []
        self.tool = MuleTool(
            descriptor=Tool[Any](name=name, description=description, parameters=parameters),
            prepare=self._prepare,
            replay=replay,
            execution_mode=execution_mode,
        )

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that were run, in order."""
        return [run.call for run in self.runs]

    def _prepare(self, call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
        async def prepare() -> Result[MulePreparedTool, MuleToolRejection]:
            self.prepared.append(call)
            rejection = self._reject(call) if self._reject is not None else None
            if rejection is not None:
                return Failure(rejection)
            return Success(MulePreparedTool(execute=lambda: self._execute(call)))

        return FutureResult(prepare())

    async def _execute(self, call: ToolCall) -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
        run = ScriptedToolRun(call)
        self.runs.append(run)
        try:
            async with aclosing(self._steps(call)) as steps:
                async for step in steps:
                    part = await self._perform(step)
                    if part is None:
                        continue
                    if not isinstance(step, MuleToolProgress):
                        run.ended = "failed" if isinstance(step, Fail) else "finished"
                    yield part
            run.ended = "finished" if run.ended == "running" else run.ended
        except BaseException as exc:
            run.ended = _ended_by(exc, run.ended)
            raise
        finally:
            if self._clean_up is not None:
                with anyio.CancelScope(shield=True):
                    await self._clean_up()
            run.cleaned_up = True

    async def _steps(self, call: ToolCall) -> AsyncGenerator[ToolStep, None]:
        script = self._script(call) if callable(self._script) else self._script
        if isinstance(script, AsyncIterator):
            try:
                async for step in script:
                    yield step
            finally:
                await _close(script)
            return
        if inspect.isawaitable(script):
            script = await script
        for step in _as_list(script):
            yield step

    async def _perform(self, step: ToolStep) -> Result[MuleToolExecutionPart, MuleError] | None:
        match step:
            case MuleToolProgress() | MuleToolResult():
                return Success(step)
            case Fail(text):
                return Failure(MuleError(ToolFailed(self.name, text)))
            case Exception():
                raise step
            case _:
                waited = step()
                if inspect.isawaitable(waited):
                    await waited
                return None


def _as_list(script: ToolScript) -> Sequence[ToolStep]:
    match script:
        case str():
            return (MuleToolResult.text(script),)
        case MuleToolProgress() | MuleToolResult() | Fail() | Exception():
            return (script,)
        case _:
            return script


def _ended_by(exc: BaseException, before: RunEnded) -> RunEnded:
    if isinstance(exc, GeneratorExit):
        return "closed" if before == "running" else before
    return "cancelled" if isinstance(exc, anyio.get_cancelled_exc_class()) else "raised"


async def _close(steps: AsyncIterator[ToolStep]) -> None:
    close = getattr(steps, "aclose", None)
    if close is not None:
        with anyio.CancelScope(shield=True):
            await close()
