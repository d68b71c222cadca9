"""The canonical interface of `mule`: a model/tool loop as a typed effect.

`run` takes a `MuleRunInput` (model, transcript, tools, hooks) and a listener, and gives a lazy
`FutureResult` of a `MuleRunOutcome` or a `MuleError`. Everything that a host needs to build the one and
to read the other is exported here.

A name is loaded from the module that defines it when it is first asked for, so a program pays at start-up
for what it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mule.adapters.observe import is_retryable_provider_rejection, observe_provider_status
    from mule.adapters.registry import ProviderSession, register_api, stream_model
    from mule.decoding import decode_event, decode_message, decode_messages
    from mule.normalize import decode_provider_data, normalize_model
    from mule.ports import (
        AssistantMessageEventStream,
        Clock,
        Ids,
        MuleListener,
        MulePreparedTool,
        MuleStreamFunction,
        MuleTool,
    )
    from mule.results import done, failed, ready, settle, then
    from mule.running import MuleEffect, mule_effect, no_listener, run
    from mule.settings import MuleRunInput, MuleRunSettings
    from mule.transcript.overflow import is_context_overflow
    from mule.values.base import Value
    from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
    from mule.values.errors import (
        BudgetExceeded,
        Defect,
        Ending,
        HookFailed,
        InvalidInput,
        ListenerFailed,
        ModelFailed,
        MuleError,
        MuleToolRejection,
        NotSupported,
        Reason,
        Rejected,
        RejectionKind,
        ResumeMismatch,
        SchemaMismatch,
        ToolFailed,
        describe,
    )
    from mule.values.jsontext import JsonObject, JsonValue
    from mule.values.messages import (
        AssistantMessage,
        AssistantMessageDiagnostic,
        Context,
        DeferredHandle,
        DiagnosticErrorInfo,
        Message,
        SystemMessage,
        ToolResultMessage,
        UserMessage,
    )
    from mule.values.model import (
        AnthropicAllowedFallbackModel,
        AnthropicMessagesCompat,
        Api,
        BaseModel,
        BedrockCompat,
        CacheRetention,
        Compat,
        KnownApi,
        MistralConversationsCompat,
        Model,
        ModelCost,
        ModelCostRates,
        ModelCostTier,
        ModelImageInputLimits,
        ModelImageResizeOptions,
        ModelInputLimits,
        ModelThinkingLevel,
        OpenAICompletionsCompat,
        OpenAIResponsesCompat,
        ProviderId,
        SamplingParams,
        SamplingParamsByThinkingLevel,
        SessionAffinityFormat,
        ThinkingBudgets,
        ThinkingLevel,
        ThinkingLevelMap,
        ToolChoice,
        Transport,
    )
    from mule.values.provider import ProviderData, ProviderRejection, ProviderStatusRecorder, ProviderValue
    from mule.values.request import (
        FetchFunction,
        ProviderEnv,
        ProviderHeaders,
        ProviderRequestOptions,
        ProviderResponse,
        SimpleStreamOptions,
        StreamOptions,
    )
    from mule.values.run import (
        PI_CODING_AGENT_RETRY_DEFAULTS,
        Ended,
        MessageEnd,
        MessageStart,
        MessageUpdate,
        MuleCompletedTurn,
        MuleEvent,
        MuleIdentity,
        MuleIdentityKind,
        MuleResume,
        MuleRetryObservation,
        MuleRunOutcome,
        MuleToolCheckpoint,
        RetryPolicy,
        RunEnd,
        RunStart,
        Settled,
        Started,
        ToolCheckpointed,
        ToolExecutionEnd,
        ToolExecutionStart,
        ToolExecutionUpdate,
        TurnEnd,
        TurnStart,
    )
    from mule.values.signal import AbortController, AbortSignal
    from mule.values.stream import (
        AssistantDone,
        AssistantError,
        AssistantMessageEvent,
        AssistantStart,
        GrowthEvent,
        PartialSource,
        TextDelta,
        TextEnd,
        TextStart,
        ThinkingDelta,
        ThinkingEnd,
        ThinkingStart,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
        Whole,
    )
    from mule.values.telemetry import (
        AttributeValue,
        SpanAttributes,
        SpanOptions,
        SpanStatus,
        TelemetryContext,
        TelemetrySpan,
    )
    from mule.values.tools import (
        ConstrainedSamplingConfig,
        GrammarFormat,
        GrammarSampling,
        GrammarVariants,
        JsonSchemaSampling,
        MuleToolExecutionPart,
        MuleToolProgress,
        MuleToolResult,
        NestedToolCallRecord,
        NestedToolCalls,
        Tool,
        ToolReference,
    )
    from mule.values.usage import StopReason, Usage, UsageCost

__all__ = [
    "PI_CODING_AGENT_RETRY_DEFAULTS",
    "AbortController",
    "AbortSignal",
    "AnthropicAllowedFallbackModel",
    "AnthropicMessagesCompat",
    "Api",
    "AssistantDone",
    "AssistantError",
    "AssistantMessage",
    "AssistantMessageDiagnostic",
    "AssistantMessageEvent",
    "AssistantMessageEventStream",
    "AssistantStart",
    "AttributeValue",
    "BaseModel",
    "BedrockCompat",
    "BudgetExceeded",
    "CacheRetention",
    "Clock",
    "Compat",
    "ConstrainedSamplingConfig",
    "Context",
    "Defect",
    "DeferredHandle",
    "DiagnosticErrorInfo",
    "Ended",
    "Ending",
    "FetchFunction",
    "GrammarFormat",
    "GrammarSampling",
    "GrammarVariants",
    "GrowthEvent",
    "HookFailed",
    "Ids",
    "ImageContent",
    "InvalidInput",
    "JsonObject",
    "JsonSchemaSampling",
    "JsonValue",
    "KnownApi",
    "ListenerFailed",
    "Message",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "MistralConversationsCompat",
    "Model",
    "ModelCost",
    "ModelCostRates",
    "ModelCostTier",
    "ModelFailed",
    "ModelImageInputLimits",
    "ModelImageResizeOptions",
    "ModelInputLimits",
    "ModelThinkingLevel",
    "MuleCompletedTurn",
    "MuleEffect",
    "MuleError",
    "MuleEvent",
    "MuleIdentity",
    "MuleIdentityKind",
    "MuleListener",
    "MulePreparedTool",
    "MuleResume",
    "MuleRetryObservation",
    "MuleRunInput",
    "MuleRunOutcome",
    "MuleRunSettings",
    "MuleStreamFunction",
    "MuleTool",
    "MuleToolCheckpoint",
    "MuleToolExecutionPart",
    "MuleToolProgress",
    "MuleToolRejection",
    "MuleToolResult",
    "NestedToolCallRecord",
    "NestedToolCalls",
    "NotSupported",
    "OpenAICompletionsCompat",
    "OpenAIResponsesCompat",
    "PartialSource",
    "ProviderData",
    "ProviderEnv",
    "ProviderHeaders",
    "ProviderId",
    "ProviderRejection",
    "ProviderRequestOptions",
    "ProviderResponse",
    "ProviderSession",
    "ProviderStatusRecorder",
    "ProviderValue",
    "Reason",
    "Rejected",
    "RejectionKind",
    "ResumeMismatch",
    "RetryPolicy",
    "RunEnd",
    "RunStart",
    "SamplingParams",
    "SamplingParamsByThinkingLevel",
    "SchemaMismatch",
    "SessionAffinityFormat",
    "Settled",
    "SimpleStreamOptions",
    "SpanAttributes",
    "SpanOptions",
    "SpanStatus",
    "Started",
    "StopReason",
    "StreamOptions",
    "SystemMessage",
    "TelemetryContext",
    "TelemetrySpan",
    "TextContent",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingBudgets",
    "ThinkingContent",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingLevel",
    "ThinkingLevelMap",
    "ThinkingStart",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolCheckpointed",
    "ToolChoice",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "ToolFailed",
    "ToolReference",
    "ToolResultMessage",
    "Transport",
    "TurnEnd",
    "TurnStart",
    "Usage",
    "UsageCost",
    "UserMessage",
    "Value",
    "Whole",
    "decode_event",
    "decode_message",
    "decode_messages",
    "decode_provider_data",
    "describe",
    "done",
    "failed",
    "is_context_overflow",
    "is_retryable_provider_rejection",
    "mule_effect",
    "no_listener",
    "normalize_model",
    "observe_provider_status",
    "ready",
    "register_api",
    "run",
    "settle",
    "stream_model",
    "then",
]

_NAMES_OF = {
    "mule.adapters.observe": "is_retryable_provider_rejection observe_provider_status",
    "mule.adapters.registry": "ProviderSession register_api stream_model",
    "mule.decoding": "decode_event decode_message decode_messages",
    "mule.normalize": "decode_provider_data normalize_model",
    "mule.ports": (
        "AssistantMessageEventStream Clock Ids MuleListener MulePreparedTool MuleStreamFunction MuleTool"
    ),
    "mule.results": "done failed ready settle then",
    "mule.running": "MuleEffect mule_effect no_listener run",
    "mule.settings": "MuleRunInput MuleRunSettings",
    "mule.transcript.overflow": "is_context_overflow",
    "mule.values.base": "Value",
    "mule.values.content": "ImageContent TextContent ThinkingContent ToolCall",
    "mule.values.errors": (
        "BudgetExceeded Defect Ending HookFailed InvalidInput ListenerFailed ModelFailed MuleError "
        "MuleToolRejection NotSupported Reason Rejected RejectionKind ResumeMismatch SchemaMismatch "
        "ToolFailed describe"
    ),
    "mule.values.jsontext": "JsonObject JsonValue",
    "mule.values.messages": (
        "AssistantMessage AssistantMessageDiagnostic Context DeferredHandle DiagnosticErrorInfo Message "
        "SystemMessage ToolResultMessage UserMessage"
    ),
    "mule.values.model": (
        "AnthropicAllowedFallbackModel AnthropicMessagesCompat Api BaseModel BedrockCompat CacheRetention "
        "Compat KnownApi MistralConversationsCompat Model ModelCost ModelCostRates ModelCostTier "
        "ModelImageInputLimits ModelImageResizeOptions ModelInputLimits ModelThinkingLevel "
        "OpenAICompletionsCompat OpenAIResponsesCompat ProviderId SamplingParams "
        "SamplingParamsByThinkingLevel SessionAffinityFormat ThinkingBudgets ThinkingLevel "
        "ThinkingLevelMap ToolChoice Transport"
    ),
    "mule.values.provider": "ProviderData ProviderRejection ProviderStatusRecorder ProviderValue",
    "mule.values.request": (
        "FetchFunction ProviderEnv ProviderHeaders ProviderRequestOptions ProviderResponse "
        "SimpleStreamOptions StreamOptions"
    ),
    "mule.values.run": (
        "Ended MessageEnd MessageStart MessageUpdate MuleCompletedTurn MuleEvent MuleIdentity "
        "MuleIdentityKind MuleResume MuleRetryObservation MuleRunOutcome MuleToolCheckpoint "
        "PI_CODING_AGENT_RETRY_DEFAULTS RetryPolicy RunEnd RunStart Settled Started ToolCheckpointed "
        "ToolExecutionEnd ToolExecutionStart ToolExecutionUpdate TurnEnd TurnStart"
    ),
    "mule.values.signal": "AbortController AbortSignal",
    "mule.values.stream": (
        "AssistantDone AssistantError AssistantMessageEvent AssistantStart GrowthEvent PartialSource "
        "TextDelta TextEnd TextStart ThinkingDelta ThinkingEnd ThinkingStart ToolCallDelta ToolCallEnd "
        "ToolCallStart Whole"
    ),
    "mule.values.telemetry": (
        "AttributeValue SpanAttributes SpanOptions SpanStatus TelemetryContext TelemetrySpan"
    ),
    "mule.values.tools": (
        "ConstrainedSamplingConfig GrammarFormat GrammarSampling GrammarVariants JsonSchemaSampling "
        "MuleToolExecutionPart MuleToolProgress MuleToolResult NestedToolCallRecord NestedToolCalls Tool "
        "ToolReference"
    ),
    "mule.values.usage": "StopReason Usage UsageCost",
}
_HOME = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(module), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
