"""How a request says how much to think: each endpoint has its own fields for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mule.adapters.openai_completions.compat import Endpoint
from mule.adapters.openai_completions.options import OpenAICompletionsOptions
from mule.transcript.thinking import clamp_thinking_budget, thinking_budget
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.model import Model, ModelThinkingLevel


def thinking_fields(
    model: Model[Any], endpoint: Endpoint, options: OpenAICompletionsOptions
) -> dict[str, JsonValue]:
    """The fields of a request that are about thinking; none for a model that does not."""
    if not model.reasoning:
        return {}
    asked = _Asked(model, endpoint, options)
    fields = asked.fields()
    budget_field = endpoint.budget_field
    if budget_field is not None and asked.budget is not None:
        # Thinking and the answer share one limit there: without a cap, thinking may leave no answer.
        fields[budget_field] = asked.budget
    return fields


class _Asked:
    """What was asked of one request."""

    def __init__(self, model: Model[Any], endpoint: Endpoint, options: OpenAICompletionsOptions) -> None:
        self.model = model
        self.endpoint = endpoint
        self.level = options.reasoning_effort
        self.names: Mapping[ModelThinkingLevel, str | None] = model.thinking_level_map or {}
        self.budget = _budget(model, options)

    @property
    def on(self) -> bool:
        return self.level is not None

    def effort(self) -> str | None:
        """The endpoint's word for the level, where it takes one; a level mapped to null keeps its name."""
        if self.level is None or not self.endpoint.supports_reasoning_effort:
            return None
        return self.names.get(self.level) or self.level

    def mapped(self) -> str | None:
        """The endpoint's word for the level; none for a level that is mapped to null."""
        return None if self.level is None else self.names.get(self.level, self.level)

    def fields(self) -> dict[str, JsonValue]:
        match self.endpoint.thinking_format:
            case "zai":
                return self._zai()
            case "qwen":
                return {"enable_thinking": self.on, **_given(reasoning_effort=self.effort())}
            case "qwen-chat-template":
                return {"chat_template_kwargs": {"enable_thinking": self.on, "preserve_thinking": True}}
            case "chat-template":
                return _given(chat_template_kwargs=self._template(self.endpoint.chat_template_kwargs))
            case "baseten":
                return self._baseten()
            case "deepseek":
                return self._deepseek()
            case "openrouter":
                return self._open_router()
            case "ant-ling":
                named = self.names.get(self.level) if self.level is not None else None
                return {"reasoning": {"effort": named}} if named else {}
            case "together":
                return {"reasoning": {"enabled": self.on}, **_given(reasoning_effort=self.effort())}
            case "string-thinking":
                return self._string()
            case "openai":
                return self._open_ai()

    def _may_be_off(self) -> bool:
        return "off" not in self.names or self.names["off"] is not None

    def _zai(self) -> dict[str, JsonValue]:
        if not self.on:
            return {"thinking": {"type": "disabled"}}
        fields: dict[str, JsonValue] = {"thinking": {"type": "enabled", "clear_thinking": False}}
        if self.endpoint.supports_reasoning_effort:
            fields |= _given(reasoning_effort=self.mapped())
        return fields

    def _baseten(self) -> dict[str, JsonValue]:
        fields = _given(chat_template_args=self._template(self.endpoint.chat_template_args))
        if self.endpoint.supports_reasoning_effort:
            effort = self.mapped() if self.on else self.names.get("off")
            fields |= _given(reasoning_effort=effort)
        return fields

    def _deepseek(self) -> dict[str, JsonValue]:
        if self.on:
            return {"thinking": {"type": "enabled"}, **_given(reasoning_effort=self.effort())}
        return {"thinking": {"type": "disabled"}} if self._may_be_off() else {}

    def _open_router(self) -> dict[str, JsonValue]:
        if self.level is not None:
            return {"reasoning": {"effort": self.names.get(self.level) or self.level}}
        return {"reasoning": {"effort": self.names.get("off") or "none"}} if self._may_be_off() else {}

    def _string(self) -> dict[str, JsonValue]:
        if self.level is not None:
            return {"thinking": self.names.get(self.level) or self.level}
        return {"thinking": self.names.get("off") or "none"} if self._may_be_off() else {}

    def _open_ai(self) -> dict[str, JsonValue]:
        if not self.endpoint.supports_reasoning_effort:
            return {}
        return _given(reasoning_effort=self.effort() if self.on else self.names.get("off"))

    def _template(self, values: JsonObject | None) -> JsonObject | None:
        """Arguments for a chat template; `{"$var": ...}` stands for what was asked."""
        resolved = {key: self._template_value(value) for key, value in (values or {}).items()}
        return {key: value for key, (given, value) in resolved.items() if given} or None

    def _template_value(self, value: JsonValue) -> tuple[bool, JsonValue]:
        if not isinstance(value, Mapping):
            return True, value
        if not self.on and value.get("omitWhenOff"):
            return False, None
        match value.get("$var"):
            case "thinking.enabled":
                return True, self.on
            case "thinking.budget":
                return self.budget is not None, self.budget
            case _:
                effort = self.mapped() if self.on else self.names.get("off")
                return effort is not None, effort


def _given(**fields: JsonValue) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if value is not None}


def _budget(model: Model[Any], options: OpenAICompletionsOptions) -> int | float | None:
    if options.reasoning_effort is None:
        return None
    asked = thinking_budget(options.reasoning_effort, options.thinking_budgets)
    if asked is None:
        return None
    budget = clamp_thinking_budget(asked, options.max_tokens or model.max_tokens)
    return budget if budget > 0 else None
