"""The options of a provider request: credentials, transport, observers, and what is asked of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mule.values.jsontext import JsonObject
from mule.values.model import (
    CacheRetention,
    Model,
    SamplingParams,
    ThinkingBudgets,
    ThinkingLevel,
    ToolChoice,
    Transport,
)
from mule.values.signal import AbortSignal

if TYPE_CHECKING:
    import httpx
    from returns.future import FutureResult

    from mule.values.errors import MuleError
    from mule.values.provider import ProviderStatusRecorder
    from mule.values.telemetry import TelemetryContext

ProviderEnv: TypeAlias = Mapping[str, str]
"""Environment variables for one request; they win over the process's own. Empty counts as unset."""
ProviderHeaders: TypeAlias = Mapping[str, str | None]
"""Headers to send; None removes one that would be sent otherwise. Names are case-insensitive."""
FetchFunction: TypeAlias = "httpx.AsyncBaseTransport | httpx.AsyncClient"
"""How HTTP is done: a transport, or a client of the host's. `mule` closes neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderResponse:
    """Status and headers of an HTTP answer."""

    status: int
    headers: Mapping[str, str] = field(repr=False)


OnPayload: TypeAlias = "Callable[[JsonObject, Model[Any]], FutureResult[JsonObject | None, MuleError]]"
OnResponse: TypeAlias = "Callable[[ProviderResponse, Model[Any]], FutureResult[None, MuleError]]"
OnProviderStreamEvent: TypeAlias = "Callable[[object, Model[Any]], FutureResult[None, MuleError]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequestOptions:
    """What every provider request shares. Nothing that may hold a secret shows in the repr.

    Attributes:
        api_key: the credential; adapters never read a key from the environment.
        signal: stops this request cooperatively: the stream then ends in an `aborted` message.
        fetch: an httpx transport or client to send with; None is a client of `mule`'s own.
        env: see `ProviderEnv`.
        headers: see `ProviderHeaders`; they win over the model's and the adapter's.
        timeout_ms: longest wait for the response headers, each attempt; None is 600,000. A body that
            streams is not limited by it.
        max_retries: how often a refused or unreachable request is sent again before its body began;
            0 by default. The loop's own retries are another thing (`RetryPolicy`).
        max_retry_delay_ms: a longer wait that the server asks for is a failure at once; None is
            60,000, 0 is no cap.
        on_payload: sees the request body before it is sent, and may return another in its place.
        on_response: sees status and headers of the response that is going to be read.
        status_recorder: see `observe_provider_status`.
    """

    api_key: str | None = field(default=None, repr=False)
    signal: AbortSignal | None = None
    telemetry_context: TelemetryContext | None = field(default=None, repr=False)
    fetch: FetchFunction | None = field(default=None, repr=False)
    env: ProviderEnv | None = field(default=None, repr=False)
    headers: ProviderHeaders | None = field(default=None, repr=False)
    timeout_ms: float | None = None
    max_retries: int | None = None
    max_retry_delay_ms: float | None = None
    on_payload: OnPayload | None = field(default=None, repr=False)
    on_response: OnResponse | None = field(default=None, repr=False)
    status_recorder: ProviderStatusRecorder | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(ProviderRequestOptions):
    """Options of a streamed model call, whatever the API. Each API subclasses this for its own.

    Attributes:
        on_provider_stream_event: sees each event of the wire, parsed, before the adapter does.
        temperature: as the provider defines it.
        sampling_params: merged into the request body last, over the model's own and over every named
            field. OpenAI-compatible APIs only.
        max_tokens: longest answer, in tokens.
        cache_retention: how long the provider should keep the prompt; None is `short`.
        session_id: for providers that cache or route by session.
    """

    on_provider_stream_event: OnProviderStreamEvent | None = field(default=None, repr=False)
    temperature: float | None = None
    sampling_params: SamplingParams | None = None
    max_tokens: int | None = None
    transport: Transport | None = None
    cache_retention: CacheRetention | None = None
    session_id: str | None = None
    websocket_connect_timeout_ms: float | None = None
    metadata: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleStreamOptions(StreamOptions):
    """Options that mean the same for every API.

    Attributes:
        tool_choice: None leaves it to the provider.
        reasoning: how much to think; lowered or raised to what the model has. None is off.
        deferred: ask for a durable handle, optionally within a window.
        thinking_budgets: reasoning tokens by level, for providers that count them.
    """

    tool_choice: ToolChoice | None = None
    reasoning: ThinkingLevel | None = None
    deferred: bool | Literal["15m", "1h", "24h"] | None = None
    thinking_budgets: ThinkingBudgets | None = None
