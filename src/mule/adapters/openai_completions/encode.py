"""From a context to the request of chat completions. Pure.

The format is that of OpenAI's API reference for chat completions; what other servers do differently is a
field of `Endpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from mule.adapters._constrained import grammar_properties
from mule.adapters._failing import CallFailed, secrets_of
from mule.adapters._names import names_by_wire_name
from mule.adapters._request import (
    USER_AGENT,
    Request,
    endpoint,
    has_header,
    header_safe,
    merge_headers,
    provider_env,
)
from mule.adapters.openai_completions.compat import Endpoint, endpoint_of, routing_of
from mule.adapters.openai_completions.groups import encode_messages
from mule.adapters.openai_completions.options import OpenAICompletionsOptions
from mule.adapters.openai_completions.thinking import thinking_fields
from mule.adapters.openai_completions.tools import encode_tools
from mule.adapters.openai_completions.wire import Wire
from mule.transcript.tooling import (
    declared_tools,
    resolve_transcript,
    resolve_transcript_tools,
    system_messages,
)
from mule.values.content import ImageContent, ToolCall
from mule.values.jsontext import JsonObject, JsonValue, dump_json, load_json
from mule.values.messages import (
    Context,
    Message,
    ToolResultMessage,
    UserMessage,
)
from mule.values.model import CacheRetention, Model

MAX_CACHE_KEY: Final = 64
"""OpenAI's limit on a prompt cache key, in characters."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A request, and what the decoder must know of it.

    `grammar_properties`: by tool name, the one argument that a grammar holds. `own_names`: the tools' own
    names, by those under which they were sent; tools that go by their own are left out.
    """

    request: Request
    grammar_properties: dict[str, str]
    own_names: dict[str, str]


def encode(model: Model[Any], context: Context, options: OpenAICompletionsOptions) -> Encoded:
    """The request for a context.

    Raises:
        CallFailed: it cannot be made: no key, no base URL, a tool that demands what is not there.
    """
    at = endpoint_of(model)
    messages = resolve_transcript(
        context, supports_mid_conversation=at.supports_mid_convo_system_messages
    ).messages
    # Tools are declared by system messages alone; the leading one is told by being first.
    declaring = (*messages[:1], *system_messages(messages[1:]))
    tools = resolve_transcript_tools(declaring, supports_tool_additions=at.anchors_tool_additions)
    known = declared_tools(declaring)
    properties = grammar_properties(known, supported=at.supports_open_ai_grammar_tools)
    wire = Wire.of(model, at, anchors_additions=tools.anchors_additions, grammar_properties=properties)
    retention = _retention(options)
    headers = _headers(model, messages, at, options, retention)
    url = endpoint(model.base_url, "/chat/completions")
    marks = at.cache_control_format == "anthropic" and retention != "none"
    encoded = encode_messages(messages, model, wire, one_by_one=marks)
    encoded_tools = encode_tools(tools.request_tools, wire)
    if marks:
        _mark_for_cache(encoded, encoded_tools, _cache_control(at, retention))
    fields = _fields(model, at, options, retention)
    if encoded_tools and at.zai_tool_stream:
        fields["tool_stream"] = True
    spliced = {"messages": b"[" + b",".join(encoded) + b"]"}
    if encoded_tools or _has_tool_history(messages):
        # Servers with Anthropic behind them want the field wherever the transcript speaks of tools.
        spliced["tools"] = b"[" + b",".join(encoded_tools) + b"]"
    sampling = {**(model.sampling_params or {}), **(options.sampling_params or {})}
    body = _body(fields, spliced, sampling)
    request = Request(url, headers, body, secrets_of(headers, options.api_key))
    return Encoded(request, properties, names_by_wire_name(known))


def _body(fields: dict[str, JsonValue], spliced: dict[str, bytes], sampling: JsonObject) -> bytes:
    """The body: what is encoded already is spliced in, and sampling parameters override every field."""
    plain = {**{key: value for key, value in fields.items() if value is not None}, **sampling}
    parts = [dump_json(key) + b":" + text for key, text in spliced.items() if key not in sampling]
    rest = dump_json(plain)[1:-1]
    return b"{" + b",".join([*parts, rest] if rest else parts) + b"}"


def _fields(
    model: Model[Any], at: Endpoint, options: OpenAICompletionsOptions, retention: CacheRetention
) -> dict[str, JsonValue]:
    long = retention == "long" and at.supports_long_cache_retention
    cached = long or ("api.openai.com" in model.base_url and retention != "none")
    session = options.session_id
    fields: dict[str, JsonValue] = {
        "model": model.id,
        "stream": True,
        "stream_options": {"include_usage": True} if at.supports_usage_in_streaming else None,
        "store": False if at.supports_store else None,
        "prompt_cache_key": session[:MAX_CACHE_KEY] if cached and session is not None else None,
        "prompt_cache_retention": "24h" if long else None,
        at.max_tokens_field: options.max_tokens or None,
        "temperature": options.temperature,
        "tool_choice": options.tool_choice,
        "priority": at.vllm_priority,
        **thinking_fields(model, at, options),
    }
    fields["provider"] = routing_of(model, "open_router_routing") or None
    gateway = routing_of(model, "vercel_gateway_routing")
    wishes = {key: gateway[key] for key in ("only", "order") if gateway.get(key)}
    fields["providerOptions"] = {"gateway": wishes} if wishes else None
    return fields


def _retention(options: OpenAICompletionsOptions) -> CacheRetention:
    if options.cache_retention is not None:
        return options.cache_retention
    return "long" if provider_env(options.env, "PI_CACHE_RETENTION") == "long" else "short"


def _headers(
    model: Model[Any],
    messages: Sequence[Message],
    at: Endpoint,
    options: OpenAICompletionsOptions,
    retention: CacheRetention,
) -> dict[str, str]:
    own = {"content-type": "application/json", "accept": "application/json", "user-agent": USER_AGENT}
    if options.api_key:
        own["authorization"] = f"Bearer {options.api_key}"
    elif not has_header(options.headers, "authorization", "cf-aig-authorization"):
        raise CallFailed(
            "authentication",
            f"No API key for the provider {model.provider!r}: give `api_key` in the options, "
            "or a resolve_api_key hook.",
            is_final=True,
        )
    session = options.session_id if retention != "none" else None
    affinity = _affinity(at, session) if session else {}
    copilot = _copilot(messages) if model.provider == "github-copilot" else {}
    return merge_headers(own, model.headers, copilot, affinity, options.headers)


def _affinity(at: Endpoint, session: str) -> dict[str, str]:
    """Headers that bring the requests of one session to one machine, where its prompt is cached."""
    if not at.send_session_affinity_headers:
        return {}
    session = header_safe(session)
    if at.session_affinity_format == "openrouter":
        return {"x-session-id": session}
    headers = {"x-client-request-id": session, "x-session-affinity": session}
    return {"session_id": session, **headers} if at.session_affinity_format == "openai" else headers


def _copilot(messages: Sequence[Message]) -> dict[str, str]:
    """GitHub Copilot counts requests by who began them, and asks to be told of images."""
    by_user = not messages or isinstance(messages[-1], UserMessage)
    headers = {"x-initiator": "user" if by_user else "agent", "openai-intent": "conversation-edits"}
    if any(_has_image(message) for message in messages):
        headers["copilot-vision-request"] = "true"
    return headers


def _has_image(message: Message) -> bool:
    if not isinstance(message, UserMessage | ToolResultMessage) or isinstance(message.content, str):
        return False
    return any(isinstance(block, ImageContent) for block in message.content)


def _has_tool_history(messages: Sequence[Message]) -> bool:
    for message in messages:
        if message.role == "toolResult":
            return True
        if message.role == "assistant" and any(isinstance(b, ToolCall) for b in message.content):
            return True
    return False


def _cache_control(at: Endpoint, retention: CacheRetention) -> JsonObject:
    long = retention == "long" and at.supports_long_cache_retention
    return {"type": "ephemeral", "ttl": "1h"} if long else {"type": "ephemeral"}


def _mark_for_cache(messages: list[bytes], tools: list[bytes], mark: JsonObject) -> None:
    """Anthropic's cache marks: on the prompt, on the last tool, on the last message that has text."""
    for index, encoded in enumerate(messages):
        form = _object(encoded)
        if form.get("role") in ("system", "developer"):
            messages[index] = _marked(form, mark) or encoded
            break
    if tools:
        tools[-1] = dump_json({**_object(tools[-1]), "cache_control": mark})
    for index in range(len(messages) - 1, -1, -1):
        form = _object(messages[index])
        if form.get("role") in ("user", "assistant", "tool"):
            marked = _marked(form, mark)
            if marked is not None:
                messages[index] = marked
                return


def _object(encoded: bytes) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", load_json(encoded))  # we wrote it: an object


def _marked(form: dict[str, JsonValue], mark: JsonObject) -> bytes | None:
    """A message with the mark on its last text; None where it has none."""
    content = form.get("content")
    if isinstance(content, str):
        if not content:
            return None
        return dump_json({**form, "content": [{"type": "text", "text": content, "cache_control": mark}]})
    if not isinstance(content, list):
        return None
    for index in range(len(content) - 1, -1, -1):
        part = content[index]
        if isinstance(part, dict) and part.get("type") == "text":
            parts = [*content[:index], {**part, "cache_control": mark}, *content[index + 1 :]]
            return dump_json({**form, "content": parts})
    return None
