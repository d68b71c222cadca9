"""The agent loop without state: a run on a context, a run that continues one, a single tool call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, TypeAlias, get_args

from returns.pipeline import is_successful
from returns.result import Result, Success
from typing_extensions import TypeVar

from mule.adapters.registry import ProviderSession
from mule.agent.calls import AgentProgress, Calls, maybe_await, result_of
from mule.agent.checking import check_config, check_tools
from mule.agent.events import AgentEvent, agent_event
from mule.agent.hooks import (
    AgentContext,
    AgentLoopConfig,
    AgentRequestUpdate,
    AgentTurnContext,
    PrepareRequestContext,
)
from mule.agent.tools import AgentTool, AgentToolCallOutcome, AgentToolUpdateCallback
from mule.loop.batch import error_result, text_of
from mule.loop.defaults import sortable_ids, wall_clock
from mule.loop.interpret import interpret
from mule.loop.program import (
    CallSite,
    LoopTool,
    ModelCall,
    ModelRequest,
    Program,
    RunFailed,
    Update,
    Verdict,
)
from mule.loop.wording import unknown_tool
from mule.ports import MuleStreamFunction
from mule.settings import thinking_level
from mule.values.content import ToolCall
from mule.values.errors import HookFailed, InvalidInput, MuleError
from mule.values.messages import (
    AssistantMessage,
    Context,
    Message,
)
from mule.values.run import AnyEvent, MuleCompletedTurn
from mule.values.signal import AbortSignal
from mule.values.tools import MuleToolProgress, MuleToolResult
from mule.waiting import is_their_failure

M = TypeVar("M", default=Message)
T = TypeVar("T")
U = TypeVar("U")

AgentListener: TypeAlias = Callable[[AgentEvent[M]], "Awaitable[None] | None"]


async def run_agent_loop(
    prompts: Sequence[M],
    context: AgentContext[M],
    config: AgentLoopConfig[M],
    emit: AgentListener[M],
    signal: AbortSignal | None = None,
    stream_fn: MuleStreamFunction | None = None,
) -> tuple[M, ...]:
    """Run the loop with new prompts on a context.

    An `error` or `aborted` answer settles the loop. Aborting the signal is cooperative: tools and the
    stream function are given it; every call that was announced gets exactly one result.

    Returns: the messages that were added, prompts included. The context is left as it was.

    Raises:
        MuleError: a hook or the listener failed; `outcome` on it says how far the loop had got. Before
            any event: `InvalidInput`.
    """
    return await _AgentRun(prompts, context, config, emit, signal).perform(stream_fn)


async def run_agent_loop_continue(
    context: AgentContext[M],
    config: AgentLoopConfig[M],
    emit: AgentListener[M],
    signal: AbortSignal | None = None,
    stream_fn: MuleStreamFunction | None = None,
) -> tuple[M, ...]:
    """Run the loop on a context as it is: it ends in a user message or a tool result.

    Raises:
        MuleError: as `run_agent_loop`; and `InvalidInput`, before any event, where there is nothing
            to answer.
    """
    if not context.messages:
        raise MuleError(InvalidInput("context.messages", "there are no messages to continue from"))
    if isinstance(context.messages[-1], AssistantMessage):
        raise MuleError(
            InvalidInput("context.messages", "the last one is an assistant message: nothing to answer")
        )
    run: _AgentRun[M] = _AgentRun((), context, config, emit, signal)
    return await run.perform(stream_fn)


async def run_tool_call(
    tool_call: ToolCall,
    *,
    assistant_message: AssistantMessage,
    context: AgentContext[M],
    config: AgentLoopConfig[M],
    signal: AbortSignal | None = None,
    on_update: AgentToolUpdateCallback | None = None,
) -> AgentToolCallOutcome:
    """Run one call through the same steps as a call of the model, outside of a turn.

    For tools that call other tools: the hooks see those calls too. No events, no messages. A failure
    of the tool is an outcome with `is_error`.
    """
    tools = tuple(context.tools)
    tool = _find(tools, tool_call.name)
    if tool is None:
        return _outcome(tool_call, error_result(unknown_tool(tool_call.name)))
    calls = Calls(config, signal, lambda: tools)
    try:
        prepared = await calls.prepare(
            tool, tool_call, CallSite(assistant_message, tuple(context.messages))
        )
        if not isinstance(prepared, MuleToolResult):
            prepared = await prepared.execute(_DirectSink(on_update))
    except BaseException as exc:
        if not is_their_failure(exc):
            raise
        prepared = error_result(text_of(exc))
    return _outcome(tool_call, prepared)


class _DirectSink:
    """Hands partial results straight to a callback: there is no listener to wait for."""

    def __init__(self, on_update: AgentToolUpdateCallback | None) -> None:
        self._on_update = on_update

    def put(self, part: MuleToolProgress, /) -> None:
        if self._on_update is not None and isinstance(part, AgentProgress):
            self._on_update(part.partial)

    async def heard(self) -> None:
        return


def _outcome(call: ToolCall, result: MuleToolResult) -> AgentToolCallOutcome:
    return AgentToolCallOutcome(tool_call=call, result=result_of(result), is_error=result.is_error)


def _find(tools: Sequence[AgentTool[Any, Any]], name: str) -> AgentTool[Any, Any] | None:
    return next((tool for tool in tools if tool.name == name), None)


class _AgentRun(Generic[M]):
    """One agent loop as a program."""

    def __init__(
        self,
        prompts: Sequence[M],
        context: AgentContext[M],
        config: AgentLoopConfig[M],
        emit: AgentListener[M],
        signal: AbortSignal | None,
    ) -> None:
        self._prompts = tuple(prompts)
        check_config(config)
        check_tools(context.tools)
        self._context = context
        self._config = config
        self._emit = emit
        self._signal = signal
        self._tools = tuple(context.tools)
        self._calls = Calls(config, signal, lambda: self._tools)

    async def perform(self, stream_fn: MuleStreamFunction | None) -> tuple[M, ...]:
        if stream_fn is not None:
            return await self._interpret(stream_fn)
        async with ProviderSession() as session:
            return await self._interpret(session.stream)

    async def _interpret(self, stream_fn: MuleStreamFunction) -> tuple[M, ...]:
        result = await interpret(self._program(stream_fn))
        if is_successful(result):
            return result.unwrap().new_messages
        raise result.failure()

    def _program(self, stream_fn: MuleStreamFunction) -> Program[M]:
        config = self._config
        return Program(
            model=config.model,
            thinking_level=thinking_level(config.reasoning, config.options),
            transcript=tuple(self._context.messages),
            prompts=self._prompts,
            tools=self._loop_tools(),
            stream=stream_fn,
            prepare_call=self._prepare_call,
            listen=self._listen,
            clock=wall_clock,
            ids=sortable_ids,
            poll_steering=self._poll("get_steering_messages", config.get_steering_messages),
            poll_follow_ups=self._poll("get_follow_up_messages", config.get_follow_up_messages),
            prepare_next_turn=self._prepare_next_turn if config.prepare_next_turn else None,
            prepare_request=self._prepare_request if config.prepare_request else None,
            finish_turn=self._finish_turn if config.finish_turn else None,
            stop_after_turn=self._stop_after_turn if config.should_stop_after_turn else None,
            aborted=self._calls.aborted,
            model_failure_fails=False,
            sequential=config.tool_execution == "sequential",
            max_parallel=config.max_parallel_tools,
        )

    def _loop_tools(self) -> tuple[LoopTool[M], ...]:
        calls = self._calls
        return tuple(
            LoopTool(
                tool.declaration(),
                partial(calls.prepare, tool),
                tool.execution_mode == "sequential",
            )
            for tool in self._tools
        )

    def _listen(self, event: AnyEvent[M]) -> Awaitable[Result[None, MuleError]] | None:
        translated = agent_event(event)
        if translated is None:
            return None
        heard: object = self._emit(translated)  # a sync listener may give anything, as `file.write` does
        return _succeed(heard) if isawaitable(heard) else None

    def _poll(
        self, name: str, hook: Callable[[], Any] | None
    ) -> Callable[[], Awaitable[Sequence[M]]] | None:
        if hook is None:
            return None

        return lambda: _ask(name, hook, lambda messages: tuple(messages or ()))

    async def _prepare_call(self, request: ModelRequest[M]) -> ModelCall:
        config, signal = self._config, self._signal
        messages: Sequence[M] = request.messages
        if config.transform_context is not None:
            transform, before = config.transform_context, messages
            messages = await _ask("transform_context", lambda: transform(before, signal), _listed)
        if config.convert_to_llm is not None:
            convert, after = config.convert_to_llm, messages
            known = await _ask("convert_to_llm", lambda: convert(after), _all_known)
        else:
            known = known_messages(messages)
        key = None
        if config.get_api_key is not None:
            get, provider = config.get_api_key, request.model.provider
            key = await _ask("get_api_key", lambda: get(provider), _key)
        level = request.thinking_level
        options = replace(
            config.options,
            api_key=key or config.options.api_key,
            reasoning=None if level == "off" else level,
            signal=config.options.signal if signal is None else signal,
        )
        return ModelCall(request.model, Context.model_construct(messages=known), options)

    async def _prepare_request(self, request: ModelRequest[M]) -> Update[M] | None:
        hook = self._config.prepare_request
        assert hook is not None
        context = PrepareRequestContext(
            context=AgentContext(messages=request.messages, tools=self._tools),
            model=request.model,
            thinking_level=request.thinking_level,
        )
        return await _ask(
            "prepare_request", lambda: hook(context, self._signal), lambda given: self._update(given, ())
        )

    async def _prepare_next_turn(self, turn: MuleCompletedTurn[M]) -> Update[M] | None:
        hook = self._config.prepare_next_turn
        assert hook is not None
        return await _ask(
            "prepare_next_turn",
            lambda: hook(self._turn(turn)),
            lambda given: self._update(given, given.messages if given is not None else ()),
        )

    def _update(self, update: AgentRequestUpdate[M] | None, added: Sequence[M]) -> Update[M] | None:
        if update is None:
            return None
        messages = tools = None
        if update.context is not None:
            messages = tuple(update.context.messages)
            check_tools(update.context.tools)
            self._tools = tuple(update.context.tools)
            tools = self._loop_tools()
        return Update(
            messages=messages,
            added=tuple(added),
            tools=tools,
            model=update.model,
            thinking_level=update.thinking_level,
        )

    async def _finish_turn(self, turn: MuleCompletedTurn[M]) -> Verdict | None:
        hook = self._config.finish_turn
        assert hook is not None
        return await _ask(
            "finish_turn",
            lambda: hook(self._turn(turn), self._signal),
            lambda decision: None if decision is None else decision.action,
        )

    async def _stop_after_turn(self, turn: MuleCompletedTurn[M]) -> bool:
        hook = self._config.should_stop_after_turn
        assert hook is not None
        return await _ask("should_stop_after_turn", lambda: hook(self._turn(turn)), bool)

    def _turn(self, turn: MuleCompletedTurn[M]) -> AgentTurnContext[M]:
        return AgentTurnContext(
            message=turn.message,
            tool_results=turn.tool_results,
            context=AgentContext(messages=turn.messages, tools=self._tools),
            new_messages=turn.new_messages,
        )


def known_messages(messages: Sequence[Any]) -> tuple[Message, ...]:
    """The messages of the four known kinds; what a model cannot be told is left out."""
    return tuple(message for message in messages if isinstance(message, _KNOWN))


_KNOWN = get_args(Message)


def _all_known(messages: Sequence[Message]) -> tuple[Message, ...]:
    for message in messages:
        if not isinstance(message, _KNOWN):
            raise TypeError(f"a model cannot be told a {type(message).__name__}")
    return tuple(messages)


def _listed(messages: Sequence[M]) -> tuple[M, ...]:
    return tuple(messages)


def _key(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"expected a key or None, not {type(value).__name__}")
    return value


async def _succeed(heard: Awaitable[object]) -> Result[None, MuleError]:
    await heard
    return Success(None)


async def _ask(name: str, call: Callable[[], T | Awaitable[T]], read: Callable[[T], U]) -> U:
    """Call a hook and read what it gives. An exception out of it, and a value that is none of those it may
    give, fail the run."""
    try:
        return read(await maybe_await(call()))
    except BaseException as exc:
        if is_their_failure(exc):
            raise RunFailed(MuleError(HookFailed(name)).because(exc)) from exc
        raise
