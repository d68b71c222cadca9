"""Which function of ours has the meaning of which table: from the table's JSON to ours and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from mule.transcript import (
    arguments,
    cost,
    diagnostics,
    estimate,
    handoff,
    hashing,
    overflow,
    partial_json,
    request_retry,
    retry,
    text,
    thinking,
    tooling,
)
from mule.values.base import Value
from mule.values.content import TextContent
from mule.values.jsontext import cut_utf16, without_lone_surrogates
from mule.values.messages import (
    AssistantMessage,
    AssistantMessageDiagnostic,
    Context,
    Message,
    SystemMessage,
    TaggedMessage,
    UserMessage,
)
from mule.values.model import Model, ThinkingBudgets
from mule.values.run import RetryPolicy
from mule.values.tools import Tool
from mule.values.usage import Usage

Json = Any

_MESSAGE: Final[TypeAdapter[Message]] = TypeAdapter(TaggedMessage)
_NO_MODEL: Final = {"api": "", "provider": "", "model": "", "stopReason": "stop", "content": []}


def _message(value: Json) -> Message:
    return _MESSAGE.validate_python(value)


def _messages(value: Json) -> tuple[Message, ...]:
    return tuple(map(_message, value))


def _context(value: Json) -> Context:
    return Context.from_json(value)


def _tool(value: Json) -> Tool:
    sampling = value.get("constrainedSampling")
    if isinstance(sampling, dict) and "type" not in sampling:
        # A made-up one that stands for any: carried along as it is.
        plain = Tool.from_json({k: v for k, v in value.items() if k != "constrainedSampling"})
        return plain.with_(constrained_sampling=Value.from_json(sampling))
    return Tool.from_json(value)


def _tools(value: Json) -> list[Tool]:
    return [_tool(item) for item in value or ()]


def _model(value: Json) -> Model:
    return Model.from_json(value)


def _answer(value: Json) -> AssistantMessage:
    return AssistantMessage.from_json({**_NO_MODEL, **value})


def _json(value: object) -> Json:
    """What a function of ours gave, as JSON."""
    if isinstance(value, Value):
        return value.to_json()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {to_camel(f.name): _json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json(item) for item in value]
    return value


def _over_messages(function: Callable[[tuple[Message, ...]], object]) -> Callable[[Json], Json]:
    return lambda messages: _json(function(_messages(messages)))


def _append_diagnostic(message: Json, diagnostic: Json) -> Json:
    added = diagnostics.with_diagnostics(
        _answer(message), AssistantMessageDiagnostic.from_json(diagnostic)
    ).to_json()
    return {key: added[key] for key in ("role", "diagnostics")}


def _clamp_max_tokens(model: Json, context: Json, max_tokens: Json) -> Json:
    return estimate.clamp_max_tokens(_model(model), _context(context), max_tokens)


def _estimate_context(value: Json) -> Json:
    return _json(estimate.estimate_context(_context(value) if "messages" in value else _messages(value)))


def _content_tokens(content: Json) -> Json:
    message = UserMessage.from_json({"role": "user", "content": content})
    return estimate.content_tokens(message.content)


def _content_text(content: Json, separator: str = "\n") -> Json:
    if isinstance(content, str):
        return text.content_text(content)
    blocks = [TextContent(text=b["text"]) for b in content if b["type"] == "text"]
    return text.content_text(blocks, separator)


def _thinking_budget(level: Json, custom: Json = None) -> Json:
    return thinking.thinking_budget(level, None if custom is None else ThinkingBudgets.from_json(custom))


def _thinking_room(asked: Json, most: Json, level: Json, custom: Json = None) -> Json:
    budgets = None if custom is None else ThinkingBudgets.from_json(custom)
    return _json(thinking.thinking_room(asked, most, level, budgets))


def _create_diagnostic(type_: Json, error: Json, details: Json = None) -> Json:
    return diagnostics.make_diagnostic(type_, error, details, now_ms=0).to_json()


def _normalizer(name: str | None) -> handoff.NormalizeToolCallId | None:
    def sanitize(id_: str) -> str:
        allowed = (c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in id_)
        return cut_utf16("".join(allowed), 64)

    match name:
        case None | "none":
            return None
        case "sanitize64":
            return lambda id_, _model, _source: sanitize(id_)
        case "alnum9":
            return lambda id_, _m, _s: "".join(c for c in id_ if c.isascii() and c.isalnum())[:9]
        case "hash":
            return lambda id_, _model, _source: f"call_{hashing.short_hash(id_)}"
        case "source":
            return lambda id_, model, source: f"{model.id}.{source.model}.{id_}"
        case other:
            raise AssertionError(f"no normalizer {other}")


def _transform(messages: Json, model: Json, normalizer: Json = None) -> Json:
    return _json(handoff.transform_messages(_messages(messages), _model(model), _normalizer(normalizer)))


def _policy(value: Json) -> RetryPolicy:
    return RetryPolicy(
        enabled=value["enabled"],
        max_retries=value["maxRetries"],
        base_delay_ms=value["baseDelayMs"],
        max_agent_delay_ms=value.get("maxAgentDelayMs"),
    )


def _retry_request(failures: Json, options: Json = None) -> Json:
    """Perform the plan as an adapter does, without waiting."""
    options = options or {}
    delays: list[list[float]] = []
    for failure in failures:
        message = failure.get("message", "boom")
        ours = {"calls": len(delays) + 1, "outcome": "error", "delaysMs": delays}
        if failure.get("plain") or options.get("abortBefore"):
            # No failure of the request, or nobody who still wants it: it is not planned for.
            return ours
        plan = request_retry.plan_request_retry(
            failure["status"],
            failure.get("headers"),
            retries=len(delays),
            max_retries=options.get("maxRetries", 0),
            max_retry_delay_ms=options.get("maxRetryDelayMs"),
            now_ms=options.get("nowMs", 0),
        )
        match plan:
            case request_retry.GiveUp():
                return ours
            case request_retry.AskedTooLong():
                assert str(plan)
                assert message
                return ours
            case request_retry.Wait(min_ms=least, max_ms=most):
                delays.append([least, most])
    return {"calls": len(delays) + 1, "outcome": "answer", "delaysMs": delays}


def _validate_call(tools: Json, call: Json) -> Json:
    tool = next((tool for tool in _tools(tools) if tool.name == call["name"]), None)
    if tool is None:
        # The loop's own rejection; the table only wants the name in it.
        raise ValueError(f"there is no tool {call['name']}")
    return arguments.validate_tool_arguments(tool, call["arguments"])


FUNCTIONS: Final[Mapping[str, Callable[..., Json]]] = {
    "adjustMaxTokensForThinking": _thinking_room,
    "appendAssistantMessageDiagnostic": _append_diagnostic,
    "calculateContextTokens": lambda usage: estimate.context_tokens(Usage.from_json(usage)),
    "calculateCost": lambda model, usage: _json(
        cost.calculate_cost(_model(model), Usage.from_json(usage)).cost
    ),
    "clampMaxTokensToContext": _clamp_max_tokens,
    "clampReasoning": thinking.clamp_reasoning,
    "clampThinkingBudgetToAnswerRoom": thinking.clamp_thinking_budget,
    "clampThinkingLevel": lambda model, level: thinking.clamp_thinking_level(_model(model), level),
    "collapseSystemMessages": lambda c: _json(tooling.collapse_system_messages(_context(c))),
    "contentText": _content_text,
    "createAssistantMessageDiagnostic": _create_diagnostic,
    "createInitialSystemMessage": lambda prompt=None, tools=None: _json(
        tooling.create_initial_system_message(prompt, _tools(tools))
    ),
    "declarationsEqual": lambda left, right: tooling.declarations_equal(_tool(left), _tool(right)),
    "estimateContextTokens": _estimate_context,
    "estimateMessageTokens": lambda message: estimate.message_tokens(_message(message)),
    "estimateTextAndImageContentTokens": _content_tokens,
    "estimateTextTokens": estimate.text_tokens,
    "extractDiagnosticError": lambda error: diagnostics.diagnostic_error(error).to_json(),
    "formatThrownValue": diagnostics.error_text,
    "getCurrentSystemMessage": _over_messages(tooling.current_system_message),
    "getCurrentSystemPrompt": _over_messages(tooling.current_system_prompt),
    "getCurrentTools": _over_messages(tooling.current_tools),
    "getDeclaredTools": _over_messages(tooling.declared_tools),
    "getInitialSystemMessage": _over_messages(tooling.initial_system_message),
    "getSupportedThinkingLevels": lambda model: _json(thinking.supported_thinking_levels(_model(model))),
    "getSystemMessageText": lambda m: text.system_message_text(SystemMessage.from_json(m)),
    "getToolStateChanges": lambda before, after: _json(
        tooling.tool_state_changes(_tools(before), _tools(after))
    ),
    "hasNonAdditiveToolChanges": _over_messages(tooling.has_non_additive_tool_changes),
    "hasToolRedefinitions": _over_messages(tooling.has_tool_redefinitions),
    "isContextOverflow": lambda message, window=None: overflow.is_context_overflow(
        _answer(message), window
    ),
    "isRecoverableLength": lambda message, wanted: overflow.is_recoverable_length(_answer(message), wanted),
    "isRetryableAssistantError": lambda message: retry.is_retryable_assistant_error(_answer(message)),
    "normalizeContext": lambda context: _json(tooling.normalize_context(_context(context))),
    "parseJsonWithRepair": partial_json.parse_json_with_repair,
    "parseStreamingJson": partial_json.parse_streaming_json,
    "renderSystemMessageUpdate": lambda m: text.render_system_update(SystemMessage.from_json(m)),
    "repairJson": partial_json.repair_json,
    "resolveTranscript": lambda context, keeps: _json(
        tooling.resolve_transcript(_context(context), supports_mid_conversation=keeps)
    ),
    "resolveTranscriptTools": lambda messages, adds: _json(
        tooling.resolve_transcript_tools(_messages(messages), supports_tool_additions=adds)
    ),
    "retryDelayMs": lambda policy, attempt: retry.retry_delay_ms(_policy(policy), attempt),
    "retryProviderRequest": _retry_request,
    "sanitizeSurrogates": without_lone_surrogates,
    "shortHash": hashing.short_hash,
    "thinkingBudgetForLevel": _thinking_budget,
    "toToolDeclaration": lambda tool: tooling.to_tool_declaration(_tool(tool)).to_json(),
    "transformMessages": _transform,
    "validateToolArguments": lambda tool, call: arguments.validate_tool_arguments(
        _tool(tool), call["arguments"]
    ),
    "validateToolCall": _validate_call,
    "withoutInitialSystemMessage": _over_messages(tooling.without_initial_system_message),
}
