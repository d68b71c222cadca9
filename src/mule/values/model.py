"""A model's description: who serves it, what it takes, what it costs, what its endpoint is like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias

from pydantic import Field, ValidationInfo, ValidatorFunctionWrapHandler, field_validator
from typing_extensions import TypeVar

from mule.values.base import Number, Value
from mule.values.jsontext import JsonObject, JsonValue

KnownApi: TypeAlias = Literal[
    "openai-completions",
    "mistral-conversations",
    "openai-responses",
    "azure-openai-responses",
    "openai-codex-responses",
    "anthropic-messages",
    "bedrock-converse-stream",
    "google-generative-ai",
    "google-vertex",
    "pi-messages",
]
"""The wire protocols that `mule` brings an adapter for."""
Api: TypeAlias = KnownApi | str
"""The wire protocol of a model: one of the ten, or the name under which a host registered its own."""
ProviderId: TypeAlias = str
ToolChoice: TypeAlias = Literal["auto", "none"]
"""Whether the model may call tools: as it likes, or none."""
ThinkingLevel: TypeAlias = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model should think, for a model that does."""
ModelThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model should think; "off" is not at all."""
ThinkingLevelMap: TypeAlias = Mapping[ModelThinkingLevel, str | None]
"""A model's own word for a level; None marks a level that it has not."""
CacheRetention: TypeAlias = Literal["none", "short", "long"]
"""How long a provider should keep a prompt; each provider has its own times for short and long."""
Transport: TypeAlias = Literal["sse", "websocket", "websocket-cached", "auto"]
"""How a request travels, where an API knows more than one way."""
SessionAffinityFormat: TypeAlias = Literal["openai", "openai-nosession", "openrouter"]
"""The form of the header that keeps the requests of a session on one server."""
SamplingParams: TypeAlias = JsonObject
"""Fields for the request body, named as the endpoint names them."""
SamplingParamsByThinkingLevel: TypeAlias = Mapping[ModelThinkingLevel, SamplingParams]
"""Other sampling for other levels of thinking."""
ThinkingFormat: TypeAlias = Literal[
    "openai",
    "openrouter",
    "deepseek",
    "together",
    "baseten",
    "zai",
    "qwen",
    "chat-template",
    "qwen-chat-template",
    "string-thinking",
    "ant-ling",
]
ThinkingTokenBudgetField: TypeAlias = Literal[
    "thinking_token_budget", "thinking_budget", "thinking_budget_tokens"
]


class ThinkingBudgets(Value):
    """Reasoning tokens for each level, for providers that count them. None: the default."""

    minimal: int | None = None
    low: int | None = None
    medium: int | None = None
    high: int | None = None


class ModelCostRates(Value):
    """US dollars for a million tokens."""

    input: Number = 0
    output: Number = 0
    cache_read: Number = 0
    cache_write: Number = 0


class ModelCostTier(ModelCostRates):
    """Rates for requests whose input is larger than so many tokens; they price the whole request."""

    input_tokens_above: Number


class ModelCost(ModelCostRates):
    """Rates of a model; the tier with the highest threshold that was passed wins."""

    tiers: tuple[ModelCostTier, ...] | None = None


class ModelImageResizeOptions(Value):
    """How to shrink an image before it enters a transcript. Pixels, and bytes of base64."""

    max_width: int | None = None
    max_height: int | None = None
    max_bytes: int | None = None
    jpeg_quality: int | None = None


class ModelImageInputLimits(Value):
    """Limits on images in one message and in one request."""

    resize: ModelImageResizeOptions | None = None
    max_per_message: int | None = None
    max_per_request: int | None = None


class ModelInputLimits(Value):
    """Limits on what a request may hold. `max_request_bytes` counts the serialized request."""

    max_request_bytes: int | None = None
    images: ModelImageInputLimits | None = None


class OpenAICompletionsCompat(Value):
    """What an OpenAI-compatible chat-completions endpoint is like.

    A field that is None is detected from provider and base URL, see
    `mule.adapters.openai_completions`.
    """

    supports_store: bool | None = None
    supports_developer_role: bool | None = None
    supports_reasoning_effort: bool | None = None
    supports_usage_in_streaming: bool | None = None
    supports_finish_reason: bool | None = None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] | None = None
    requires_tool_result_name: bool | None = None
    requires_assistant_after_tool_result: bool | None = None
    requires_thinking_as_text: bool | None = None
    requires_reasoning_content_on_assistant_messages: bool | None = None
    thinking_format: ThinkingFormat | None = None
    chat_template_kwargs: Mapping[str, JsonValue] | None = None
    chat_template_args: Mapping[str, JsonValue] | None = None
    open_router_routing: JsonObject | None = None
    vercel_gateway_routing: JsonObject | None = None
    zai_tool_stream: bool | None = None
    thinking_token_budget_field: ThinkingTokenBudgetField | None = None
    supports_thinking_token_budget: bool | None = None
    supports_open_ai_grammar_tools: bool | None = Field(default=None, alias="supportsOpenAIGrammarTools")
    supports_mid_convo_system_messages: bool | None = None
    supports_mid_convo_tool_additions: bool | None = None
    supports_strict_mode: bool | None = None
    cache_control_format: Literal["anthropic"] | None = None
    send_session_affinity_headers: bool | None = None
    session_affinity_format: SessionAffinityFormat | None = None
    supports_long_cache_retention: bool | None = None
    vllm_priority: int | None = None


class OpenAIResponsesCompat(Value):
    """What a responses endpoint (OpenAI, Azure, Codex) is like."""

    supports_developer_role: bool | None = None
    supports_mid_convo_system_messages: bool | None = None
    session_affinity_format: SessionAffinityFormat | None = None
    supports_long_cache_retention: bool | None = None
    supports_strict_mode: bool | None = None
    supports_open_ai_grammar_tools: bool | None = Field(default=None, alias="supportsOpenAIGrammarTools")
    supports_additional_tools: bool | None = None
    supports_tool_search: bool | None = None
    supports_explicit_prompt_cache_mode: bool | None = None
    supports_max_output_tokens: bool | None = None


class AnthropicAllowedFallbackModel(Value):
    """A model that Anthropic may answer with after a refusal, and its prices."""

    provider: str
    model: str
    cost: ModelCost


class AnthropicMessagesCompat(Value):
    """What an Anthropic-compatible messages endpoint is like."""

    supports_eager_tool_input_streaming: bool | None = None
    supports_long_cache_retention: bool | None = None
    send_session_affinity_headers: bool | None = None
    session_affinity_format: Literal["openrouter"] | None = None
    supports_cache_control_on_tools: bool | None = None
    supports_temperature: bool | None = None
    force_adaptive_thinking: bool | None = None
    allow_empty_signature: bool | None = None
    supports_strict_tools: bool | None = None
    supports_mid_convo_effort: bool | None = None
    supports_mid_convo_system_messages: bool | None = None
    supports_mid_convo_tool_changes: bool | None = None
    allowed_fallback_models: tuple[AnthropicAllowedFallbackModel, ...] | None = None


class BedrockCompat(Value):
    """What a Bedrock model is like."""

    supports_strict_mode: bool | None = None


class MistralConversationsCompat(Value):
    """What a Mistral chat model is like."""

    supports_mid_convo_system_messages: bool | None = None


Compat: TypeAlias = (
    OpenAICompletionsCompat
    | OpenAIResponsesCompat
    | AnthropicMessagesCompat
    | BedrockCompat
    | MistralConversationsCompat
)
"""What an endpoint is like, for each API that has such a description."""

COMPAT_OF_API: Mapping[str, type[Compat]] = {
    "openai-completions": OpenAICompletionsCompat,
    "openai-responses": OpenAIResponsesCompat,
    "azure-openai-responses": OpenAIResponsesCompat,
    "openai-codex-responses": OpenAIResponsesCompat,
    "anthropic-messages": AnthropicMessagesCompat,
    "bedrock-converse-stream": BedrockCompat,
    "mistral-conversations": MistralConversationsCompat,
}

CompatT = TypeVar("CompatT", default=Compat | JsonObject)


class BaseModel(Value):
    """What every catalog entry has, whatever it is for.

    `base_url` is where its API is served. `cost` is in US dollars for a million tokens. `headers` go
    out with every request.
    """

    id: str
    name: str
    api: str
    provider: str
    base_url: str
    input: tuple[Literal["text", "image"], ...] = ("text",)
    input_limits: ModelInputLimits | None = None
    cost: ModelCost = ModelCost()
    headers: Mapping[str, str] | None = Field(default=None, repr=False)


class Model(BaseModel, Generic[CompatT]):
    """A chat model. `context_window` and `max_tokens` in tokens; a window of 0 is unknown.

    `compat` is typed by the API: `Model[OpenAICompletionsCompat]` is a model of `openai-completions`.
    An API that `mule` does not know keeps the plain JSON object.
    """

    type: Literal["chat"] | None = None
    reasoning: bool = False
    thinking_level_map: ThinkingLevelMap | None = None
    prompt_cache: Mapping[Literal["short", "long"], Number] | None = None
    context_window: Number = 0
    max_tokens: Number = 0
    sampling_params: SamplingParams | None = None
    compat: CompatT | None = None

    @field_validator("compat", mode="wrap")
    @classmethod
    def _compat_of_api(cls, value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        known = COMPAT_OF_API.get(info.data.get("api", ""))
        if known is None:
            # Left to itself, pydantic would take the JSON of a host's own API for the first of ours.
            return value if isinstance(value, Mapping) else read(value)
        return value if value is None or isinstance(value, known) else known.model_validate(value)
