"""One call of an agent's tool: shimmed, checked, hooked, run, hooked again.

The same steps for a call of the model and for a call that another tool makes (`run_tool_call`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import anyio
from typing_extensions import TypeVar as DefaultTypeVar

from mule.agent import wording
from mule.agent.hooks import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCallContext,
)
from mule.agent.tools import AgentTool, AgentToolResult
from mule.loop.batch import error_result, text_of
from mule.loop.program import CallSite, PartSink, Prepared
from mule.loop.wording import ABORTED, NO_RESULT
from mule.transcript.arguments import validate_tool_arguments
from mule.values.base import copy_json
from mule.values.content import ToolCall
from mule.values.messages import Message
from mule.values.signal import AbortSignal
from mule.values.tools import MuleToolProgress, MuleToolResult
from mule.waiting import is_their_failure

M = DefaultTypeVar("M", default=Message)
T = TypeVar("T")

ABORT_GRACE_MS = 100
"""How long a tool may take to settle after an abort before it is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress(MuleToolProgress):
    """A part that remembers the partial result it was made from."""

    partial: AgentToolResult[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _AgentResult(MuleToolResult):
    """A result that remembers what the tool and the hooks made of it, field by field."""

    origin: AgentToolResult[Any]


def result_of(result: MuleToolResult) -> AgentToolResult[Any]:
    """A result as the agent's listeners see it."""
    if isinstance(result, _AgentResult):
        return result.origin
    return AgentToolResult(
        content=result.content, details=result.details, terminate=result.terminate or None
    )


async def maybe_await(value: T | Awaitable[T]) -> T:
    """The value of a hook that may be sync or async."""
    if inspect.isawaitable(value):
        return await value
    return value


@dataclass(frozen=True)
class Calls(Generic[M]):
    """How the calls of one run are prepared and executed."""

    config: AgentLoopConfig[M]
    signal: AbortSignal | None
    tools: Callable[[], tuple[AgentTool[Any, Any], ...]]

    def aborted(self) -> bool:
        """Whether the signal was given."""
        return self.signal is not None and self.signal.aborted

    async def prepare(
        self, tool: AgentTool[Any, Any], call: ToolCall, site: CallSite[M]
    ) -> Prepared | MuleToolResult:
        """Make a call ready to run, or refuse it. An exception is a refusal with its text."""
        args: Any = copy_json(call.arguments)
        if tool.prepare_arguments is not None:
            args = tool.prepare_arguments(args)
        args = validate_tool_arguments(tool.declaration(), args)
        before = self.config.before_tool_call
        if before is not None:
            context = BeforeToolCallContext(
                assistant_message=site.message, tool_call=call, args=args, context=self._context(site)
            )
            decision = await maybe_await(before(context, self.signal))
            if decision is not None and decision.block and not self.aborted():
                refused = error_result(decision.reason or wording.BLOCKED)
                return replace(refused, terminate=decision.terminate)
        if self.aborted():
            return error_result(ABORTED)
        return Prepared(lambda sink: self._execute(tool, call, args, site, sink))

    def _context(self, site: CallSite[M]) -> AgentContext[M]:
        return AgentContext(messages=site.messages, tools=self.tools())

    async def _execute(
        self, tool: AgentTool[Any, Any], call: ToolCall, args: Any, site: CallSite[M], sink: PartSink
    ) -> MuleToolResult:
        result, is_error = await self._run(tool, call, args, sink)
        await sink.heard()
        after = self.config.after_tool_call
        if after is not None:
            context = AfterToolCallContext(
                assistant_message=site.message,
                tool_call=call,
                args=args,
                result=result,
                is_error=is_error,
                context=self._context(site),
            )
            try:
                change = await maybe_await(after(context, self.signal))
            except BaseException as exc:
                if not is_their_failure(exc):
                    raise
                result, is_error = _failed(text_of(exc)), True
            else:
                if change is not None:
                    result = _changed(result, change)
                    is_error = is_error if change.is_error is None else change.is_error
        return _as_mule_result(result, is_error)

    async def _run(
        self, tool: AgentTool[Any, Any], call: ToolCall, args: Any, sink: PartSink
    ) -> tuple[AgentToolResult[Any], bool]:
        """Run the tool itself. One that has not settled soon after an abort is cancelled."""
        settled = False

        def on_update(partial: AgentToolResult[Any]) -> None:
            if not settled:
                sink.put(_progress(partial))

        release: Callable[[], None] = lambda: None  # noqa: E731
        try:
            with anyio.CancelScope() as scope:
                if self.signal is not None:
                    release = self.signal.on_abort(lambda: _expire(scope))
                result: object = await tool.execute(call.id, args, self.signal, on_update)
                if not isinstance(result, AgentToolResult):  # a host's code may not be type-checked
                    return _failed(NO_RESULT), True
                return result, result.is_error is True
            return _failed(ABORTED), True
        except BaseException as exc:
            if not is_their_failure(exc):
                raise
            return _failed(text_of(exc)), True
        finally:
            settled = True
            release()


def _expire(scope: anyio.CancelScope) -> None:
    scope.deadline = anyio.current_time() + ABORT_GRACE_MS / 1000


def _progress(partial: AgentToolResult[Any]) -> AgentProgress:
    return AgentProgress(content=partial.content or (), details=partial.details, partial=partial)


def _failed(text: str) -> AgentToolResult[Any]:
    return result_of(error_result(text))


def _changed(result: AgentToolResult[Any], change: AfterToolCallResult) -> AgentToolResult[Any]:
    structured = change.structured_content
    if structured is None and change.content is None:
        structured = result.structured_content
    return replace(
        result,
        content=result.content if change.content is None else change.content,
        details=result.details if change.details is None else change.details,
        structured_content=structured,
        usage=result.usage if change.usage is None else change.usage,
        terminate=result.terminate if change.terminate is None else change.terminate,
    )


def _as_mule_result(result: AgentToolResult[Any], is_error: bool) -> MuleToolResult:
    return _AgentResult(
        content=tuple(result.content or ()),
        details=cast(Any, result.details),
        structured_content=result.structured_content,
        usage=result.usage,
        is_error=is_error,
        terminate=result.terminate is True,
        origin=result,
    )
