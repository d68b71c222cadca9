"""From a `MuleRunInput` to a program, and its run as a lazy value.

Nothing of the loop is here: hooks and tools that return containers become the plain async functions
that the interpreter calls, and what cannot be run is refused before anything happens.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar, get_args

import anyio
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
    cause_of,
)
from mule.loop.wording import NO_RESULT, UNUSABLE_PART
from mule.ports import GetMessages, MuleListener, MulePreparedTool, MuleStreamFunction, MuleTool
from mule.results import done, settle
from mule.settings import MuleRunInput, problem_of, thinking_level
from mule.transcript.repair import Repair, repair, repair_diagnostics
from mule.transcript.tooling import create_initial_system_message, initial_system_message
from mule.values.base import copy_json
from mule.values.content import ToolCall
from mule.values.errors import (
    HookFailed,
    MuleError,
    Rejected,
    ToolFailed,
)
from mule.values.messages import (
    AssistantMessageDiagnostic,
    Context,
    Message,
    SystemMessage,
    ToolResultMessage,
)
from mule.values.model import ModelThinkingLevel
from mule.values.request import SimpleStreamOptions
from mule.values.run import MuleCompletedTurn, MuleEvent, MuleRunOutcome
from mule.values.tools import MuleToolExecutionPart, MuleToolProgress, MuleToolResult
from mule.waiting import is_their_failure

T = TypeVar("T")
U = TypeVar("U")


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
    problem = problem_of(input)
    if problem is not None:
        return Failure(MuleError(problem))
    if input.stream is not None:
        return await interpret(_Translation(input, listener, input.stream).program())
    async with ProviderSession() as session:
        return await interpret(_Translation(input, listener, session.stream).program())


class _Translation:
    """One input, hook by hook."""

    def __init__(self, input: MuleRunInput, listener: MuleListener, stream: MuleStreamFunction) -> None:
        self._input = input
        self._listener = listener
        self._stream = stream
        self._clock = input.clock or wall_clock
        self._last_options: SimpleStreamOptions | None = None
        self._unsound = False
        self._told: Counter[Repair] = Counter()

    def program(self) -> Program[Message]:
        """The program of this input."""
        input = self._input
        transcript = self._transcript()
        self._look_at((*transcript, *input.prompts))
        return Program(
            model=input.model,
            thinking_level=thinking_level(input.reasoning, input.options),
            transcript=transcript,
            prompts=tuple(input.prompts),
            tools=tuple(_loop_tool(tool) for tool in input.tools),
            stream=self._stream,
            prepare_call=self._prepare_call,
            listen=self._listen,
            clock=self._clock,
            ids=input.ids or sortable_ids,
            poll_steering=self._polling("get_steering_messages", input.get_steering_messages),
            poll_follow_ups=self._polling("get_follow_up_messages", input.get_follow_up_messages),
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
        messages, diagnostics = self._sendable(request.messages)
        if input.prepare_system_prompt is not None:
            text = await _ask("prepare_system_prompt", input.prepare_system_prompt, _text)
            messages = _with_system_prompt(messages, text, self._clock())
        key = input.options.api_key
        if input.resolve_api_key is not None:
            resolve, provider = input.resolve_api_key, request.model.provider
            key = await _ask("resolve_api_key", lambda: resolve(provider), _text_or_none) or key
        options = self._options(key, request.thinking_level)
        # The messages are values already; checking thousands of them again for every call is what
        # makes long transcripts slow elsewhere.
        context = Context.model_construct(messages=messages)
        return ModelCall(request.model, context, options, diagnostics)

    def _options(self, key: str | None, level: ModelThinkingLevel) -> SimpleStreamOptions:
        """The options of a request; the same ones again where nothing in them has changed."""
        reasoning = None if level == "off" else level
        last = self._last_options
        if last is None or last.api_key != key or last.reasoning != reasoning:
            options, telemetry = self._input.options, self._input.telemetry
            self._last_options = last = dataclasses.replace(
                options,
                api_key=key,
                reasoning=reasoning,
                telemetry_context=options.telemetry_context or telemetry,
            )
        return last

    def _look_at(self, messages: Sequence[Message]) -> None:
        """Look at a transcript that the host brought for results that no call asked for.

        What the loop adds by itself is sound, so this looks once, not before every call.
        """
        self._unsound = bool(repair_diagnostics(repair(messages).repairs, now_ms=0))

    def _sendable(
        self, messages: tuple[Message, ...]
    ) -> tuple[tuple[Message, ...], tuple[AssistantMessageDiagnostic, ...]]:
        """What can be sent of a transcript, and what the host was not told about it yet."""
        if not self._unsound:
            return messages, ()
        repaired = repair(messages)
        found = Counter(repaired.repairs)
        untold = tuple((found - self._told).elements())
        self._told |= found
        return repaired.messages, repair_diagnostics(untold, now_ms=self._clock())

    def _polling(self, name: str, hook: GetMessages | None) -> Poll[Message] | None:
        if hook is None:
            return None

        async def poll() -> Sequence[Message]:
            messages = await _ask(name, hook, _messages)
            # Nobody steers with tool results, but who does may be wrong about the call.
            self._unsound = self._unsound or any(isinstance(m, ToolResultMessage) for m in messages)
            return messages

        return poll

    async def _prepare_next_turn(self, turn: MuleCompletedTurn) -> Update[Message] | None:
        hook = self._input.prepare_next_turn
        assert hook is not None
        replacement = await _ask("prepare_next_turn", lambda: hook(turn), _messages_or_none)
        if replacement is None:
            return None
        self._look_at(replacement)
        return Update(messages=replacement)

    async def _stop_after_turn(self, turn: MuleCompletedTurn) -> bool:
        hook = self._input.should_stop_after_turn
        assert hook is not None
        return await _ask("should_stop_after_turn", lambda: hook(turn), bool)


async def _ask(name: str, call: Callable[[], FutureResult[T, MuleError]], read: Callable[[T], U]) -> U:
    """Call a hook and read what it gives. Its failure, an exception out of it, and a value that is none
    of those it may give fail the run."""
    try:
        result = await settle(call())
        if is_successful(result):
            return read(result.unwrap())
        cause = cause_of(result.failure())
    except BaseException as exc:
        if not is_their_failure(exc):
            raise
        cause = exc
    raise RunFailed(MuleError(HookFailed(name)).because(cause)) from cause


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, not {type(value).__name__}")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _messages(value: Sequence[Message]) -> tuple[Message, ...]:
    messages = tuple(value)
    for message in messages:
        if not isinstance(message, get_args(Message)):
            raise TypeError(f"expected messages, not {type(message).__name__}")
    return messages


def _messages_or_none(value: Sequence[Message] | None) -> tuple[Message, ...] | None:
    return None if value is None else _messages(value)


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
    parts = aiter(prepared.execute())
    step: Awaitable[Result[MuleToolExecutionPart, MuleError]] = anext(parts)
    try:
        while True:
            part = _part(await step)
            if isinstance(part, MuleToolResult):
                return part
            sink.put(part)
            step = await _next(parts, sink)
    except StopAsyncIteration:
        return error_result(NO_RESULT)
    finally:
        await _close(parts)


_Parts: TypeAlias = AsyncIterator[Result[MuleToolExecutionPart, MuleError]]


async def _next(parts: _Parts, sink: PartSink) -> Awaitable[Result[MuleToolExecutionPart, MuleError]]:
    """The step to the next part, to be taken once the listener has heard the last one.

    A tool that yields inside a scope of its own lends us that scope. A cancel that finds us waiting is
    then for the tool to see, at its yield, as if it had waited there itself: it may be its own timeout.
    """
    try:
        await sink.heard()
    except anyio.get_cancelled_exc_class() as exc:
        if not isinstance(parts, AsyncGenerator):
            raise
        return parts.athrow(exc)
    return anext(parts)


def _part(result: object) -> MuleToolExecutionPart:
    """What a tool's stream gave; a failure, or what is no part at all, is the end of it."""
    if not isinstance(result, Result):  # a host's code may not be type-checked
        return error_result(UNUSABLE_PART)
    if not is_successful(result):
        return error_result(_told(result.failure()))
    part: object = result.unwrap()
    if not isinstance(part, (MuleToolProgress, MuleToolResult)):
        return error_result(UNUSABLE_PART)
    return part


async def _close(parts: _Parts) -> None:
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
