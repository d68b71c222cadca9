"""What an endpoint that speaks chat completions is like, where its model's description does not say.

Many servers speak this API, each with its own gaps. What is known of the public ones is told here, by
provider name and host, from the reference and the providers' own documentation; a field of
`OpenAICompletionsCompat` overrides it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, cast

from mule.values.jsontext import JsonObject
from mule.values.model import (
    Model,
    OpenAICompletionsCompat,
    SessionAffinityFormat,
    ThinkingFormat,
    ThinkingTokenBudgetField,
)

_MEMO: Final = "openai-completions endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`OpenAICompletionsCompat` with every question answered."""

    supports_store: bool = True
    supports_developer_role: bool = True
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_finish_reason: bool = True
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_thinking_as_text: bool = False
    requires_reasoning_content_on_assistant_messages: bool = False
    thinking_format: ThinkingFormat = "openai"
    chat_template_kwargs: JsonObject | None = None
    chat_template_args: JsonObject | None = None
    open_router_routing: JsonObject | None = None
    vercel_gateway_routing: JsonObject | None = None
    zai_tool_stream: bool = False
    thinking_token_budget_field: ThinkingTokenBudgetField | None = None
    supports_thinking_token_budget: bool = False
    supports_open_ai_grammar_tools: bool = False
    supports_mid_convo_system_messages: bool = False
    supports_mid_convo_tool_additions: bool = False
    supports_strict_mode: bool = False
    cache_control_format: Literal["anthropic"] | None = None
    send_session_affinity_headers: bool = False
    session_affinity_format: SessionAffinityFormat = "openai"
    supports_long_cache_retention: bool = True
    vllm_priority: int | None = None

    @property
    def anchors_tool_additions(self) -> bool:
        """Whether tools that come later can be announced where they come."""
        return self.supports_mid_convo_system_messages and self.supports_mid_convo_tool_additions

    @property
    def budget_field(self) -> ThinkingTokenBudgetField | None:
        """The field that caps reasoning tokens, where there is one."""
        if self.thinking_token_budget_field is not None:
            return self.thinking_token_budget_field
        return "thinking_token_budget" if self.supports_thinking_token_budget else None


def endpoint_of(model: Model[Any]) -> Endpoint:
    """What a model's endpoint is like: detected, and overridden by what its description says."""
    known = model.memo.get(_MEMO)
    if isinstance(known, Endpoint):
        return known
    endpoint = detect(model)
    told = model.compat
    if isinstance(told, OpenAICompletionsCompat):
        said = {f.name: getattr(told, f.name) for f in fields(Endpoint)}
        endpoint = replace(endpoint, **{name: value for name, value in said.items() if value is not None})
    model.memo[_MEMO] = endpoint
    return endpoint


def detect(model: Model[Any]) -> Endpoint:
    """What is known of an endpoint by its provider's name and its address."""
    at = _Whose(model.provider, model.base_url)
    zai = at.is_one_of("zai", "zai-coding-cn", hosts=("api.z.ai", "open.bigmodel.cn"))
    together = at.is_one_of("together", hosts=("api.together.ai", "api.together.xyz"))
    moonshot = at.is_one_of("moonshotai", "moonshotai-cn", hosts=("api.moonshot.",))
    open_router = at.is_one_of("openrouter", hosts=("openrouter.ai",))
    workers_ai = at.is_one_of("cloudflare-workers-ai", hosts=("api.cloudflare.com",))
    ai_gateway = at.is_one_of("cloudflare-ai-gateway", hosts=("gateway.ai.cloudflare.com",))
    nvidia = at.is_one_of("nvidia", hosts=("integrate.api.nvidia.com",))
    ant_ling = at.is_one_of("ant-ling", hosts=("api.ant-ling.com",))
    cerebras = at.is_one_of("cerebras", hosts=("cerebras.ai",))
    deepseek = at.is_one_of("deepseek", hosts=("deepseek.com",))
    grok = at.is_one_of("xai", hosts=("api.x.ai",))
    chutes = at.is_one_of(hosts=("chutes.ai",))
    opencode = at.is_one_of("opencode", hosts=("opencode.ai",))
    # Fields and roles that OpenAI added over the years are refused or ignored there.
    plain = any((nvidia, cerebras, grok, together, chutes, deepseek, zai, moonshot, opencode))
    plain = plain or any((workers_ai, ai_gateway, ant_ling))
    old_limit = any((chutes, deepseek, moonshot, ai_gateway, together, nvidia, ant_ling, zai))
    forwards_roles = open_router and model.id.startswith(("anthropic/", "openai/"))
    for_claude = model.provider == "openrouter" and model.id.startswith("anthropic/")
    formats: tuple[tuple[bool, ThinkingFormat], ...] = (
        (deepseek, "deepseek"),
        (zai, "zai"),
        (together, "together"),
        (ant_ling, "ant-ling"),
        (open_router, "openrouter"),
    )
    return Endpoint(
        supports_store=not plain,
        supports_developer_role=forwards_roles or not (plain or open_router),
        supports_reasoning_effort=not any((grok, zai, moonshot, together, ai_gateway, nvidia, ant_ling)),
        max_tokens_field="max_tokens" if old_limit else "max_completion_tokens",
        requires_reasoning_content_on_assistant_messages=deepseek,
        thinking_format=next((name for here, name in formats if here), "openai"),
        cache_control_format="anthropic" if for_claude else None,
        send_session_affinity_headers=open_router,
        session_affinity_format="openrouter" if open_router else "openai",
        supports_long_cache_retention=not any((together, workers_ai, ai_gateway, nvidia, ant_ling)),
    )


@dataclass(frozen=True, slots=True)
class _Whose:
    provider: str
    base_url: str

    def is_one_of(self, *providers: str, hosts: tuple[str, ...]) -> bool:
        address = self.base_url.lower()
        return self.provider in providers or any(host in address for host in hosts)


def routing_of(
    model: Model[Any], name: Literal["open_router_routing", "vercel_gateway_routing"]
) -> JsonObject:
    """Routing wishes, which only a model's own description can hold."""
    told = model.compat
    wish = getattr(told, name) if isinstance(told, OpenAICompletionsCompat) else None
    return cast(JsonObject, wish or {})
