"""The public interface as users write against it. Checked by mypy and pyright, never run.

What must be refused stands here too, under the complaint that is expected; a complaint that does not come
is an error as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never, assert_type

from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.effect import (
    AbortController,
    AbortSignal,
    AssistantDone,
    AssistantError,
    AssistantMessage,
    AssistantMessageEvent,
    AssistantMessageEventStream,
    AssistantStart,
    BudgetExceeded,
    Context,
    Defect,
    HookFailed,
    InvalidInput,
    ListenerFailed,
    Message,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Model,
    ModelFailed,
    MuleCompletedTurn,
    MuleError,
    MuleEvent,
    MuleListener,
    MulePreparedTool,
    MuleRetryObservation,
    MuleRunInput,
    MuleRunOutcome,
    MuleStreamFunction,
    MuleTool,
    MuleToolCheckpoint,
    MuleToolExecutionPart,
    MuleToolProgress,
    MuleToolRejection,
    MuleToolResult,
    NotSupported,
    OpenAICompletionsCompat,
    Rejected,
    ResumeMismatch,
    RunEnd,
    RunStart,
    SchemaMismatch,
    Settled,
    SimpleStreamOptions,
    Started,
    SystemMessage,
    TextContent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolCheckpointed,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolFailed,
    ToolResultMessage,
    TurnEnd,
    TurnStart,
    UserMessage,
    decode_event,
    decode_messages,
    done,
    mule_effect,
    run,
    settle,
    stream_model,
    then,
)
from mule.testing import ScriptedModel, ScriptedTool


@dataclass(frozen=True)
class StoreFailed:
    """An error of a host's own."""

    path: str


def save(outcome: MuleRunOutcome) -> FutureResult[int, StoreFailed]:
    return FutureResult.from_value(len(outcome.messages))


# Runs compose.


def runs_compose(
    first: MuleRunInput, following: Callable[[MuleRunOutcome], MuleRunInput]
) -> Sequence[object]:
    twice = run(first).bind(lambda outcome: run(following(outcome)))
    return [
        assert_type(run(first), FutureResult[MuleRunOutcome, MuleError]),
        assert_type(mule_effect.run(first), FutureResult[MuleRunOutcome, MuleError]),
        assert_type(twice, FutureResult[MuleRunOutcome, MuleError]),
        assert_type(twice.map(lambda outcome: outcome.turns), FutureResult[int, MuleError]),
    ]


def error_types_are_joined(first: MuleRunInput) -> object:
    return assert_type(then(run(first), save), FutureResult[int, MuleError | StoreFailed])


async def a_result_is_asked(first: MuleRunInput) -> str:
    result = await settle(run(first))
    assert_type(result, Result[MuleRunOutcome, MuleError])
    if is_successful(result):
        outcome = result.unwrap()
        assert_type(outcome.final, AssistantMessage | None)
        assert_type(outcome.messages, tuple[Message, ...])
        return str(outcome.turns)
    return advice(result.failure())


def an_input_is_changed_by_replace(first: MuleRunInput, message: UserMessage) -> MuleRunInput:
    return replace(first, prompts=(message,), reasoning="high")


def a_run_that_nobody_awaits(first: MuleRunInput) -> None:
    run(first)  # type: ignore[unused-awaitable]


def inputs_are_keywords(model: Model[Any]) -> None:
    MuleRunInput(model)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    MuleRunInput(model=model, tool_execution="random")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# A reason is matched, exhaustively.


def advice(error: MuleError) -> str:
    match error.reason:
        case ModelFailed(ending="rate_limited", retry_after_ms=wait_ms):
            return f"try again in {wait_ms} ms"
        case ModelFailed(ending=ending):
            return ending
        case InvalidInput(field=field, problem=problem):
            return f"{field}: {problem}"
        case NotSupported(what=what, install=install):
            return f"{what} {install}"
        case HookFailed(hook=hook):
            return hook
        case ListenerFailed(event=event):
            assert_type(event, MuleEvent)
            return event.type
        case ToolFailed(text=text) | Rejected(text=text) | Defect(text=text):
            return text
        case ResumeMismatch(problem=problem) | SchemaMismatch(problem=problem):
            return problem
        case BudgetExceeded(limit=limit, used=used):
            return f"{limit} {used}"
        case other:
            assert_never(other)


def a_reason_that_is_forgotten_is_found(error: MuleError) -> str:
    match error.reason:
        case (
            ModelFailed() | InvalidInput() | NotSupported() | HookFailed() | ListenerFailed() | ToolFailed()
        ):
            return "one"
        case Rejected() | ResumeMismatch() | BudgetExceeded() | SchemaMismatch():
            return "two"
        case other:
            assert_never(other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_rejection_has_one_reason(rejection: MuleToolRejection) -> str:
    assert_type(rejection.reason, Rejected)
    return rejection.reason.text


# So is everything else that is a union.


def where(event: MuleEvent) -> str:
    match event:
        case RunStart(run=run_id) | RunEnd(run=run_id):
            return run_id.id
        case TurnStart(turn=turn) | TurnEnd(turn=turn):
            return turn.id
        case MessageStart(value=value) | MessageEnd(value=value):
            assert_type(value, Message)
            return value.role
        case MessageUpdate(event=inner):
            return inner.type
        case ToolExecutionStart(call=call) | ToolExecutionUpdate(call=call) | ToolExecutionEnd(call=call):
            return call.name
        case ToolCheckpointed(checkpoint=checkpoint):
            return of_checkpoint(checkpoint)
        case other:
            assert_never(other)


def of_checkpoint(checkpoint: MuleToolCheckpoint) -> str:
    match checkpoint:
        case Started(call=call):
            return call.id
        case Settled(result=result):
            return result.tool_call_id
        case other:
            assert_never(other)


def of_message(message: Message) -> float:
    match message:
        case SystemMessage() | UserMessage() | AssistantMessage() | ToolResultMessage():
            return message.timestamp
        case other:
            assert_never(other)


def of_answer(event: AssistantMessageEvent) -> AssistantMessage:
    match event:
        case AssistantDone(message=message) | AssistantError(error=message):
            return message
        case AssistantStart() | TextStart() | ThinkingStart() | ToolCallStart() | ToolCallEnd():
            return event.partial
        case TextDelta(delta=text) | ThinkingDelta(delta=text) | ToolCallDelta(delta=text):
            assert_type(text, str)
            return event.partial
        case TextEnd(content=text) | ThinkingEnd(content=text):
            assert_type(text, str)
            return event.partial
        case other:
            assert_never(other)


def a_tag_is_enough(event: MuleEvent) -> None:
    if event.type == "turn_end":
        assert_type(event.completed.tool_results, tuple[ToolResultMessage, ...])


# Listeners and hooks.


def listen(anything: MuleEvent) -> FutureResult[None, MuleError]:
    """A listener may call its parameter what it likes."""
    if isinstance(anything, RunEnd):
        return FutureResult.from_failure(MuleError(Defect(anything.status)))
    return done


def listen_to_numbers(event: int) -> FutureResult[None, MuleError]:
    return done


async def listen_without_a_container(event: MuleEvent) -> None: ...


def listeners_are_typed(first: MuleRunInput) -> Sequence[object]:
    listener: MuleListener = listen
    quiet: MuleListener = lambda _event: done  # noqa: E731  # a lambda is what this is about
    return [
        assert_type(run(first, listener), FutureResult[MuleRunOutcome, MuleError]),
        assert_type(run(first, quiet), FutureResult[MuleRunOutcome, MuleError]),
        run(first, listen_to_numbers),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        run(first, listen_without_a_container),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ]


def stop(turn: MuleCompletedTurn) -> FutureResult[bool, MuleError]:
    return FutureResult.from_value(turn.index > 3)


def say(turn: MuleCompletedTurn) -> FutureResult[str, MuleError]:
    return FutureResult.from_value("no")


def steer() -> FutureResult[Sequence[Message], MuleError]:
    return FutureResult.from_value([UserMessage(content="Faster.")])


def replace_transcript(turn: MuleCompletedTurn) -> FutureResult[Sequence[Message] | None, MuleError]:
    return FutureResult.from_value(turn.messages[-4:])


def key_of(provider: str) -> FutureResult[str | None, MuleError]:
    return FutureResult.from_value(None)


def watch_retries(observation: MuleRetryObservation) -> FutureResult[None, MuleError]:
    assert_type(observation.error, MuleError | None)
    return done


def fail_in_its_own_way(observation: MuleRetryObservation) -> FutureResult[None, StoreFailed]:
    return FutureResult.from_failure(StoreFailed("x"))


def hooks_are_typed(model: Model[Any]) -> None:
    MuleRunInput(
        model=model,
        prepare_system_prompt=lambda: FutureResult.from_value("Be brief."),
        resolve_api_key=key_of,
        get_steering_messages=steer,
        get_follow_up_messages=steer,
        prepare_next_turn=replace_transcript,
        should_stop_after_turn=stop,
        on_retry=watch_retries,
    )
    MuleRunInput(model=model, should_stop_after_turn=say)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MuleRunInput(model=model, get_steering_messages=stop)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MuleRunInput(model=model, on_retry=fail_in_its_own_way)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Tools.


async def weigh() -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
    yield Success(MuleToolProgress(content=(TextContent(text="on the scale"),)))
    yield Failure(MuleError(ToolFailed("weigh", "no scale")))


async def weigh_in_numbers() -> AsyncIterator[Result[int, MuleError]]:
    yield Success(12)


def prepare(call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
    if "shelf" not in call.arguments:
        return FutureResult.from_failure(MuleToolRejection("invalid_arguments", "which shelf?"))
    return FutureResult.from_value(MulePreparedTool(execute=weigh))


def prepare_carelessly(call: ToolCall) -> FutureResult[MulePreparedTool, MuleError]:
    return FutureResult.from_failure(MuleError(Defect("any error")))


def tools_are_typed(model: Model[Any]) -> None:
    descriptor = Tool[Any](name="weigh", description="Weighs a parcel.", parameters={"type": "object"})
    tool = MuleTool(descriptor=descriptor, prepare=prepare, replay="safe")
    MuleRunInput(model=model, tools=(tool, ScriptedTool("echo").tool))
    MuleTool(descriptor=descriptor, prepare=prepare_carelessly)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MuleTool(descriptor=descriptor, prepare=prepare, replay="maybe")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MulePreparedTool(execute=weigh_in_numbers)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MuleToolRejection("no_mood", "later")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def of_part(part: MuleToolExecutionPart) -> bool:
    match part:
        case MuleToolProgress():
            return False
        case MuleToolResult(is_error=is_error):
            return is_error
        case other:
            assert_never(other)


# Models and streams.


def stream_functions_are_typed(model: Model[Any]) -> None:
    function: MuleStreamFunction = stream_model
    function = ScriptedModel(["Hello"])
    MuleRunInput(model=model, stream=function)
    MuleRunInput(model=model, stream=answer_at_once)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def answer_at_once(model: Model[Any], context: Context, options: SimpleStreamOptions) -> AssistantMessage:
    return AssistantMessage(api="a", provider="p", model=model.id, stop_reason="stop")


async def a_stream_is_read(stream: AssistantMessageEventStream) -> AssistantMessage:
    async for event in stream:
        assert_type(event, AssistantMessageEvent)
    await stream.aclose()
    return await stream.result()


def compat_is_typed_by_the_model(model: Model[OpenAICompletionsCompat]) -> bool | None:
    assert_type(model.compat, OpenAICompletionsCompat | None)
    return None if model.compat is None else model.compat.supports_store


def signals_are_asked(controller: AbortController) -> SimpleStreamOptions:
    assert_type(controller.signal, AbortSignal)
    controller.abort(TimeoutError())
    return SimpleStreamOptions(signal=controller.signal)


# What comes from outside, and what cannot be changed.


def json_is_decoded(value: object) -> None:
    assert_type(decode_event(value), Result[MuleEvent, MuleError])
    assert_type(decode_messages(value), Result[tuple[Message, ...], MuleError])
    assert_type(RunStart.from_json(value), RunStart)
    assert_type(UserMessage.from_json(value), UserMessage)


def values_are_frozen(event: RunStart, options: SimpleStreamOptions) -> None:
    event.sequence = 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    options.api_key = "k"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
