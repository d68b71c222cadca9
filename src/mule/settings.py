"""The input of a run: settings, tools, hooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
from mule.values.messages import Message
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
    options: SimpleStreamOptions = SimpleStreamOptions()  # noqa: RUF009  # frozen, so shared safely
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
