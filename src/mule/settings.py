"""The input of a run: settings, tools, hooks; and whether it can be run at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from mule.ports import (
    Clock,
    GetMessages,
    Ids,
    MuleStreamFunction,
    MuleTool,
    OnRetry,
    PrepareNextTurn,
    PrepareSystemPrompt,
    ResolveApiKey,
    ShouldStopAfterTurn,
)
from mule.values.errors import InvalidInput, NotSupported, Reason
from mule.values.messages import AssistantMessage, Message, SystemMessage
from mule.values.model import Model, ModelThinkingLevel
from mule.values.request import SimpleStreamOptions
from mule.values.run import MuleResume, RetryPolicy
from mule.values.telemetry import TelemetryContext


@dataclass(frozen=True, kw_only=True)
class MuleRunSettings:
    """What a run is about and how it is done. `dataclasses.replace` makes a changed copy.

    Attributes:
        model: which model answers.
        messages: the transcript so far.
        prompts: messages that start this run; may be empty where the transcript ends in a user or
            tool-result message.
        system_prompt: shorthand for a leading system message; ignored where the transcript has one.
        tool_execution: how the calls of one answer run: side by side, or one after the other.
        max_parallel_tools: how many calls of a batch may run at once; None is no bound.
        reasoning: how much the model should think.
        options: for every provider request. Its `signal` concerns the requests, not the run.
        retry: when to make a failed assistant call again; None is never.
        model_stream_idle_timeout_ms: longest silence between two provider events; None is no limit.
        cancel_grace_ms: how long the listener may take with the last event of a cancelled run.
        stream: how the model is called; None is `stream_model`, over connections of the run's own.
        resume: what to go on from.
        telemetry: parent of the run's spans.
        clock, ids: where time stamps and identities come from; None are the real ones.
    """

    model: Model[Any]
    messages: tuple[Message, ...] = field(default=(), repr=False)
    prompts: tuple[Message, ...] = ()
    system_prompt: str | None = field(default=None, repr=False)
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    max_parallel_tools: int | None = None
    reasoning: ModelThinkingLevel = "off"
    options: SimpleStreamOptions = SimpleStreamOptions()  # frozen, so shared safely
    retry: RetryPolicy | None = None
    model_stream_idle_timeout_ms: float | None = None
    cancel_grace_ms: float = 2_000
    stream: MuleStreamFunction | None = None
    resume: MuleResume | None = None
    telemetry: TelemetryContext | None = None
    clock: Clock | None = None
    ids: Ids | None = None


@dataclass(frozen=True, kw_only=True)
class MuleRunInput(MuleRunSettings):
    """Settings, tools and hooks of a run.

    Each hook returns a `FutureResult`; one that fails or raises ends the run with `HookFailed`.

    Attributes:
        tools: what the model may call.
        prepare_system_prompt: before each request; replaces the leading system text in it.
        resolve_api_key: after it, given the provider; None falls back to `options.api_key`.
        get_steering_messages: messages for the running conversation, polled at the start, after each
            turn, and once more after `prepare_next_turn` where the poll before gave nothing.
        get_follow_up_messages: polled when the run would otherwise finish.
        prepare_next_turn: after a turn that another follows; may replace the transcript.
        should_stop_after_turn: after `turn_end`; true ends the run, and nothing more is polled.
        on_retry: for each retry scheduled, started, finished.
    """

    tools: tuple[MuleTool, ...] = ()
    prepare_system_prompt: PrepareSystemPrompt | None = None
    resolve_api_key: ResolveApiKey | None = None
    get_steering_messages: GetMessages | None = None
    get_follow_up_messages: GetMessages | None = None
    prepare_next_turn: PrepareNextTurn | None = None
    should_stop_after_turn: ShouldStopAfterTurn | None = None
    on_retry: OnRetry | None = None


def problem_of(input: MuleRunInput) -> Reason | None:
    """Why an input cannot be run; None where it can.

    The first problem that is found: the types of what a host may have got wrong first, since hosts need
    not be type-checked.
    """
    return next(_problems(input), None)


def thinking_level(reasoning: ModelThinkingLevel, options: SimpleStreamOptions) -> ModelThinkingLevel:
    """How much the model should think: `reasoning`, or where that is off what the options say."""
    return (options.reasoning or "off") if reasoning == "off" else reasoning


def _problems(input: MuleRunInput) -> Iterator[Reason]:
    yield from _wrong_types(input)
    yield from _wrong_numbers(input)
    for name in ("retry", "resume", "model_stream_idle_timeout_ms"):
        if getattr(input, name) is not None:
            yield NotSupported(f"the setting {name}")
    names = [tool.descriptor.name for tool in input.tools]
    for doubled in sorted({name for name in names if names.count(name) > 1}):
        yield InvalidInput("tools", f"two tools are named {doubled}; a name must be unique")
    yield from _nothing_to_answer((*input.messages, *input.prompts))


def _wrong_types(input: MuleRunInput) -> Iterator[InvalidInput]:
    # As plain objects: a host's code may not be type-checked.
    model: object = input.model
    options: object = input.options
    if not isinstance(model, Model):
        yield InvalidInput("model", "must be a Model; normalize_model makes one of plain data")
    if not isinstance(options, SimpleStreamOptions):
        yield InvalidInput("options", "must be SimpleStreamOptions")
    for name in ("messages", "prompts"):
        yield from _wrong_items(name, getattr(input, name), get_args(Message), "messages")
    yield from _wrong_items("tools", input.tools, (MuleTool,), "MuleTools")
    choices = (("tool_execution", ("parallel", "sequential")), ("reasoning", get_args(ModelThinkingLevel)))
    for name, allowed in choices:
        if getattr(input, name) not in allowed:
            yield InvalidInput(name, f"must be one of {', '.join(allowed)}")


def _wrong_items(
    name: str, items: object, kinds: tuple[type[Any], ...], words: str
) -> Iterator[InvalidInput]:
    if not isinstance(items, Sequence) or isinstance(items, str):
        yield InvalidInput(name, f"must be a tuple of {words}, not {type(items).__name__}")
        return
    for index, item in enumerate(items):
        if not isinstance(item, kinds):
            yield InvalidInput(f"{name}.{index}", f"expected {words}, found {type(item).__name__}")


def _wrong_numbers(input: MuleRunInput) -> Iterator[InvalidInput]:
    limit: object = input.max_parallel_tools
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        yield InvalidInput("max_parallel_tools", "must be at least 1, or None for no bound")
    grace: object = input.cancel_grace_ms
    if not isinstance(grace, int | float) or not math.isfinite(grace) or grace < 0:
        yield InvalidInput("cancel_grace_ms", "must be a number of milliseconds, 0 or more")


def _nothing_to_answer(messages: Sequence[Message]) -> Iterator[InvalidInput]:
    last = next((m for m in reversed(messages) if not isinstance(m, SystemMessage)), None)
    if last is None:
        yield InvalidInput("prompts", "there is nothing to answer: neither they nor the transcript ask")
    elif isinstance(last, AssistantMessage):
        yield InvalidInput("prompts", "there is nothing to answer: the last message is an answer")
