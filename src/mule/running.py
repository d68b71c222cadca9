"""From a `MuleRunInput` to a program, and its run as a lazy value.

Nothing of the loop is here: hooks and tools that return containers become the plain async functions
that the interpreter calls, and what cannot be run is refused before anything happens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result

from mule.adapters.registry import ProviderSession
from mule.loop.batch import error_result
from mule.loop.defaults import sortable_ids, wall_clock
from mule.loop.interpret import interpret
from mule.loop.program import (
    CallSite,
    LoopTool,
    ModelCall,
    ModelRequest,
    PartSink,
    Poll,
    Prepared,
    Program,
    RunFailed,
    Update,
)
from mule.loop.wording import NO_RESULT
from mule.ports import GetMessages, MuleListener, MulePreparedTool, MuleStreamFunction, MuleTool
from mule.results import done, settle
from mule.settings import MuleRunInput
from mule.transcript.repair import repair, repair_diagnostics
from mule.transcript.tooling import create_initial_system_message, initial_system_message
from mule.values.base import copy_json
from mule.values.content import ToolCall
from mule.values.errors import (
    HookFailed,
    InvalidInput,
    MuleError,
    NotSupported,
    Reason,
    Rejected,
    ToolFailed,
)
from mule.values.messages import (
    AssistantMessage,
    AssistantMessageDiagnostic,
    Context,
    Message,
    SystemMessage,
)
from mule.values.run import MuleCompletedTurn, MuleEvent, MuleRunOutcome
from mule.values.tools import MuleToolExecutionPart, MuleToolResult
from mule.waiting import is_their_failure

T = TypeVar("T")


def no_listener(_event: MuleEvent, /) -> FutureResult[None, MuleError]:
    """A listener with nothing to say."""
    return done


def run(
    input: MuleRunInput, listener: MuleListener = no_listener
) -> FutureResult[MuleRunOutcome, MuleError]:
    """Run the model/tool loop.

    Lazy: nothing happens until the value is awaited, and awaiting it again gives the same outcome. It
    composes: `run(first).bind(lambda outcome: run(after(outcome)))`.

    Args:
        input: what to run. One that cannot run is an `InvalidInput`, with no event.
        listener: is told everything that happens, in order; the run waits for it.

    Fails with: `InvalidInput` and `NotSupported` before the first event; `ModelFailed` when the last
    answer is an error; `HookFailed`; `ListenerFailed`. A tool that fails does not fail the run: the
    model is told.

    Cancelling the scope or task that awaits the run closes the provider's stream, cancels running
    tools, tells the listener one `run_end` (cancelled), and goes on; it never becomes a value.
    """
    return FutureResult(_run(input, listener))


class MuleEffect(Protocol):
    """The loop as a value, for hosts that want to be given one."""

    def run(
        self, input: MuleRunInput, listener: MuleListener = ...
    ) -> FutureResult[MuleRunOutcome, MuleError]:
        """See `mule.effect.run`."""
        ...


class _MuleEffect:
    def run(
        self, input: MuleRunInput, listener: MuleListener = no_listener
    ) -> FutureResult[MuleRunOutcome, MuleError]:
        return run(input, listener)


mule_effect: MuleEffect = _MuleEffect()
"""The loop, as a value."""


async def _run(input: MuleRunInput, listener: MuleListener) -> Result[MuleRunOutcome, MuleError]:
    problem = _problem(input)
    if problem is not None:
        return Failure(MuleError(problem))
    if input.stream is not None:
        return await interpret(_Translation(input, listener, input.stream).program())
    async with ProviderSession() as session:
        return await interpret(_Translation(input, listener, session.stream).program())


def _problem(input: MuleRunInput) -> Reason | None:
    """Why an input cannot be run; None where it can."""
    for name in ("retry", "resume", "model_stream_idle_timeout_ms"):
        if getattr(input, name) is not None:
            return NotSupported(f"the setting {name}")
    names = [tool.descriptor.name for tool in input.tools]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        return InvalidInput("tools", f"two tools are named {doubled[0]}; a name must be unique")
    if input.max_parallel_tools is not None and input.max_parallel_tools < 1:
        return InvalidInput("max_parallel_tools", "must be at least 1, or None for no bound")
    if not (math.isfinite(input.cancel_grace_ms) and input.cancel_grace_ms >= 0):
        return InvalidInput("cancel_grace_ms", "must be a number of milliseconds, 0 or more")
    if not input.prompts:
        return _problem_of_continuing(input.messages)
    return None


def _problem_of_continuing(messages: Sequence[Message]) -> InvalidInput | None:
    last = next((m for m in reversed(messages) if not isinstance(m, SystemMessage)), None)
    if last is None:
        return InvalidInput("prompts", "there is nothing to answer: no prompts, and an empty transcript")
    if isinstance(last, AssistantMessage):
        return InvalidInput(
            "prompts", "there is nothing to answer: no prompts, and the transcript ends in an answer"
        )
    return None


class _Translation:
    """One input, hook by hook."""

    def __init__(self, input: MuleRunInput, listener: MuleListener, stream: MuleStreamFunction) -> None:
        self._input = input
        self._listener = listener
        self._stream = stream
        self._clock = input.clock or wall_clock
        self._brought = 0
        self._repaired: tuple[Message, ...] | None = None
        self._diagnostics: tuple[AssistantMessageDiagnostic, ...] = ()

    def program(self) -> Program[Message]:
        """The program of this input."""
        input = self._input
        transcript = self._transcript()
        self._repair(transcript)
        return Program(
            model=input.model,
            thinking_level=input.reasoning,
            transcript=transcript,
            prompts=tuple(input.prompts),
            tools=tuple(_loop_tool(tool) for tool in input.tools),
            stream=self._stream,
            prepare_call=self._prepare_call,
            listen=self._listen,
            clock=self._clock,
            ids=input.ids or sortable_ids,
            poll_steering=_poll("get_steering_messages", input.get_steering_messages),
            poll_follow_ups=_poll("get_follow_up_messages", input.get_follow_up_messages),
            prepare_next_turn=self._prepare_next_turn if input.prepare_next_turn else None,
            stop_after_turn=self._stop_after_turn if input.should_stop_after_turn else None,
            sequential=input.tool_execution == "sequential",
            max_parallel=input.max_parallel_tools,
            grace=input.cancel_grace_ms / 1000,
        )

    def _transcript(self) -> tuple[Message, ...]:
        messages = tuple(self._input.messages)
        if initial_system_message(messages) is not None:
            return messages
        tools = tuple(tool.descriptor for tool in self._input.tools)
        prompt = self._input.system_prompt
        if not prompt:
            return messages  # tools alone are announced, in front of the first prompt
        leading = create_initial_system_message(prompt, tools)
        return messages if leading is None else (leading, *messages)

    def _listen(self, event: MuleEvent) -> Awaitable[Result[None, MuleError]] | None:
        heard = self._listener(event)
        return None if heard is done else settle(heard)

    async def _prepare_call(self, request: ModelRequest[Message]) -> ModelCall:
        input = self._input
        messages = self._sendable(request.messages)
        diagnostics, self._diagnostics = self._diagnostics, ()
        if input.prepare_system_prompt is not None:
            text = await _ask("prepare_system_prompt", input.prepare_system_prompt)
            messages = _with_system_prompt(messages, text, self._clock())
        key = input.options.api_key
        if input.resolve_api_key is not None:
            resolve, provider = input.resolve_api_key, request.model.provider
            key = await _ask("resolve_api_key", lambda: resolve(provider)) or key
        level = request.thinking_level
        options = dataclasses.replace(
            input.options,
            api_key=key,
            reasoning=None if level == "off" else level,
            telemetry_context=input.options.telemetry_context or input.telemetry,
        )
        # The messages are values already; checking thousands of them again for every call is what
        # makes long transcripts slow elsewhere.
        context = Context.model_construct(messages=messages)
        return ModelCall(request.model, context, options, diagnostics)

    def _repair(self, messages: Sequence[Message]) -> None:
        """Look at a transcript that the host brought for results that no call asked for.

        What the loop adds by itself is sound, so this looks once, not before every call.
        """
        repaired = repair(messages)
        self._diagnostics = repair_diagnostics(repaired.repairs, now_ms=self._clock())
        self._brought = len(messages)
        self._repaired = repaired.messages if self._diagnostics else None

    def _sendable(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return messages if self._repaired is None else (*self._repaired, *messages[self._brought :])

    async def _prepare_next_turn(self, turn: MuleCompletedTurn) -> Update[Message] | None:
        hook = self._input.prepare_next_turn
        assert hook is not None
        replacement = await _ask("prepare_next_turn", lambda: hook(turn))
        if replacement is None:
            return None
        self._repair(replacement)
        return Update(messages=tuple(replacement))

    async def _stop_after_turn(self, turn: MuleCompletedTurn) -> bool:
        hook = self._input.should_stop_after_turn
        assert hook is not None
        return await _ask("should_stop_after_turn", lambda: hook(turn))


def _poll(name: str, hook: GetMessages | None) -> Poll[Message] | None:
    if hook is None:
        return None
    return lambda: _ask(name, hook)


async def _ask(name: str, call: Callable[[], FutureResult[T, MuleError]]) -> T:
    """Call a hook; its failure, or an exception out of it, fails the run."""
    try:
        result = await settle(call())
    except BaseException as exc:
        if is_their_failure(exc):
            raise RunFailed(MuleError(HookFailed(name)).because(exc)) from exc
        raise
    if is_successful(result):
        return result.unwrap()
    raise RunFailed(MuleError(HookFailed(name)).because(result.failure()))


def _with_system_prompt(messages: tuple[Message, ...], text: str, now: int) -> tuple[Message, ...]:
    leading = initial_system_message(messages)
    if leading is None:
        return (SystemMessage(content=text, timestamp=now), *messages)
    return (leading.with_(content=text), *messages[1:])


def _loop_tool(tool: MuleTool) -> LoopTool[Message]:
    async def prepare(call: ToolCall, _site: CallSite[Message]) -> Prepared | MuleToolResult:
        # The tool gets a copy of the arguments: what it does to them is not done to the transcript.
        own = call.with_(arguments=copy_json(call.arguments))
        result = await settle(tool.prepare(own))
        if not is_successful(result):
            return _refusal(result.failure())
        prepared = result.unwrap()
        return Prepared(lambda sink: _execute(prepared, sink))

    return LoopTool(tool.descriptor, prepare, tool.execution_mode == "sequential")


def _refusal(error: MuleError) -> MuleToolResult:
    reason = error.reason
    if not isinstance(reason, Rejected):
        return error_result(_told(error))
    refused = error_result(reason.text)
    details = refused.details if reason.details is None else reason.details
    return dataclasses.replace(refused, details=details, terminate=reason.terminate)


def _told(error: MuleError) -> str:
    """What the model is told about a failure of a tool."""
    return error.reason.text if isinstance(error.reason, (ToolFailed, Rejected)) else str(error)


async def _execute(prepared: MulePreparedTool, sink: PartSink) -> MuleToolResult:
    """Advance a tool's stream part by part, never ahead of the listener, and close it here too."""
    parts = prepared.execute()
    try:
        async for result in parts:
            if not is_successful(result):
                return error_result(_told(result.failure()))
            part = result.unwrap()
            if isinstance(part, MuleToolResult):
                return part
            sink.put(part)
            await sink.heard()
    finally:
        await _close(parts)
    return error_result(NO_RESULT)


async def _close(parts: AsyncIterator[Result[MuleToolExecutionPart, MuleError]]) -> None:
    """Close a tool's stream where it can be closed. Its result stands, whatever closing it raises.

    A generator that yields inside a task group of its own gives its GeneratorExit back in a group.
    """
    aclose = getattr(parts, "aclose", None)
    if aclose is None:
        return
    try:
        await aclose()
    except BaseException as exc:
        exits = isinstance(exc, BaseExceptionGroup) and exc.split(GeneratorExit)[1] is None
        if not exits and not is_their_failure(exc):
            raise
