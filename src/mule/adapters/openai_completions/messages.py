"""From messages to those of chat completions, each encoded once and kept with the message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from mule.adapters._constrained import grammar_of, parameters_on_wire
from mule.adapters._failing import CallFailed
from mule.adapters.openai_completions.compat import Endpoint
from mule.transcript import wording
from mule.transcript.handoff import answer_text, transform_messages
from mule.transcript.hashing import short_hash
from mule.transcript.text import render_system_update, system_message_text
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.jsontext import (
    JsonObject,
    JsonValue,
    cut_utf16,
    dump_json,
    load_json,
    utf16_length,
    without_lone_surrogates,
)
from mule.values.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from mule.values.model import Model
from mule.values.tools import Tool

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning, in the order in which they are looked at."""
MAX_ID: Final = 40
"""OpenAI's limit on the length of a tool call's id."""

_NOT_IN_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NOTHING: Final = b""


@dataclass(frozen=True, slots=True)
class Wire:
    """What the form of a message depends on, beside the message.

    `key` names it: two of the same key give every message the same form.
    """

    endpoint: Endpoint
    provider: str
    reasoning: bool
    takes_images: bool
    anchors_additions: bool
    grammar_properties: Mapping[str, str]
    key: str

    @classmethod
    def of(
        cls,
        model: Model[Any],
        endpoint: Endpoint,
        *,
        anchors_additions: bool,
        grammar_properties: Mapping[str, str],
    ) -> Wire:
        """The wire of one request."""
        shape = (
            "openai-completions",
            model.provider == "opencode-go",
            model.reasoning,
            "image" in model.input,
            anchors_additions,
            tuple(grammar_properties.items()),
            endpoint.supports_developer_role,
            endpoint.requires_tool_result_name,
            endpoint.requires_assistant_after_tool_result,
            endpoint.requires_thinking_as_text,
            endpoint.requires_reasoning_content_on_assistant_messages,
            endpoint.supports_strict_mode,
            endpoint.supports_open_ai_grammar_tools,
        )
        return cls(
            endpoint,
            model.provider,
            model.reasoning,
            "image" in model.input,
            anchors_additions,
            grammar_properties,
            repr(shape),
        )


def encode_messages(messages: Sequence[Message], model: Model[Any], wire: Wire) -> list[bytes]:
    """The messages as JSON objects, in order, ready to be joined."""
    sendable = transform_messages(messages, model, _normal_id)
    encoded: list[bytes] = []
    key = wire.key
    bridges = wire.endpoint.requires_assistant_after_tool_result
    after_results = False
    images: list[JsonObject] = []
    for index, message in enumerate(sendable):
        role = message.role
        if images and role != "toolResult":
            _add_images(encoded, images, bridges=bridges)
            after_results = False
        if role == "system":
            encoded.extend(_system(cast(SystemMessage, message), wire, leads=index == 0))
        else:
            if bridges and after_results and role == "user":
                encoded.append(_BRIDGE)
            known = message.memo.get(key)
            form = known if isinstance(known, bytes) else _encode(message, wire)
            if form:
                encoded.append(form)
            if role == "toolResult" and wire.takes_images:
                images += _images(message)
        after_results = role == "toolResult" if role != "system" else False
    if images:
        _add_images(encoded, images, bridges=bridges)
    return encoded


_BRIDGE: Final = dump_json({"role": "assistant", "content": wording.BRIDGE_AFTER_TOOL_RESULTS})


def _add_images(encoded: list[bytes], images: list[JsonObject], *, bridges: bool) -> None:
    """What tools gave to look at follows their results: a tool message itself holds text only."""
    if bridges:
        encoded.append(_BRIDGE)
    lead: JsonObject = {"type": "text", "text": wording.TOOL_RESULT_IMAGE_FOLLOWS}
    encoded.append(dump_json({"role": "user", "content": [lead, *images]}))
    images.clear()


def _encode(message: Message, wire: Wire) -> bytes:
    match message:
        case UserMessage():
            form = _user(message)
        case AssistantMessage():
            form = _assistant(message, wire)
        case ToolResultMessage():
            form = _tool_result(message, wire)
        case _:
            raise AssertionError("the form of a system message depends on its place")
    encoded = _NOTHING if form is None else dump_json(form)
    message.memo[wire.key] = encoded
    return encoded


def _system(message: SystemMessage, wire: Wire, *, leads: bool) -> list[bytes]:
    forms: list[bytes] = []
    if not leads and wire.anchors_additions and message.tools_added:
        # Kimi's form: a system message that holds tools and nothing else.
        tools = b",".join(encode_tools(message.tools_added, wire))
        forms.append(b'{"role":"system","tools":[' + tools + b"]}")
    text = system_message_text(message) if leads else render_system_update(message)
    if text:
        role = "developer" if wire.reasoning and wire.endpoint.supports_developer_role else "system"
        forms.append(dump_json({"role": role, "content": without_lone_surrogates(text)}))
    return forms


def _user(message: UserMessage) -> JsonObject | None:
    if isinstance(message.content, str):
        return {"role": "user", "content": without_lone_surrogates(message.content)}
    parts = [_part(block) for block in message.content if not isinstance(block, TextContent) or block.text]
    return {"role": "user", "content": parts} if parts else None


def _part(block: TextContent | ImageContent) -> JsonObject:
    if isinstance(block, TextContent):
        return {"type": "text", "text": without_lone_surrogates(block.text)}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _images(message: Message) -> list[JsonObject]:
    if not isinstance(message, ToolResultMessage):
        return []
    return [_part(block) for block in message.content if isinstance(block, ImageContent)]


def _tool_result(message: ToolResultMessage, wire: Wire) -> JsonObject:
    text = message.text
    if not text:
        has_images = any(isinstance(block, ImageContent) for block in message.content)
        text = wording.TOOL_RESULT_IS_AN_IMAGE if has_images else wording.EMPTY_TOOL_OUTPUT
    form: dict[str, JsonValue] = {
        "role": "tool",
        "content": without_lone_surrogates(text),
        "tool_call_id": message.tool_call_id,
    }
    if wire.endpoint.requires_tool_result_name and message.tool_name:
        form["name"] = message.tool_name
    return form


def _assistant(message: AssistantMessage, wire: Wire) -> JsonObject | None:
    """An answer of the past; None where nothing of it can be said again.

    Text goes out as one string, not as parts: models that are shown parts begin to write them.
    """
    texts = [b for b in message.content if isinstance(b, TextContent) and b.text.strip()]
    calls = [b for b in message.content if isinstance(b, ToolCall)]
    content: JsonValue = without_lone_surrogates(answer_text(texts)) or None
    form: dict[str, JsonValue] = {"role": "assistant"}
    thinking = [b for b in message.content if isinstance(b, ThinkingContent)]
    details = _reasoning_details(thinking, calls)
    spoken = [block for block in thinking if block.thinking.strip()]
    if spoken and wire.endpoint.requires_thinking_as_text:
        said = "\n\n".join(without_lone_surrogates(block.thinking) for block in spoken)
        content = [{"type": "text", "text": said}, *map(_part, texts)]
    elif spoken and not details:
        field = _reasoning_field(spoken[0].thinking_signature, wire)
        if field is not None:
            form[field] = "\n".join(block.thinking for block in spoken)
    if calls:
        form["tool_calls"] = [_call(call, wire) for call in calls]
    if details:
        form["reasoning_details"] = details
    if wire.endpoint.requires_reasoning_content_on_assistant_messages and wire.reasoning:
        form.setdefault("reasoning_content", "")
    if not content and not calls:
        return None
    empty = "" if wire.endpoint.requires_assistant_after_tool_result else None
    form["content"] = content or empty
    return form


def _reasoning_field(signature: str | None, wire: Wire) -> str | None:
    """The field in which a server wants its reasoning back: the one in which it gave it."""
    if signature == "reasoning" and wire.provider == "opencode-go":
        return "reasoning_content"
    return signature if signature in REASONING_FIELDS else None


def _reasoning_details(
    thinking: Sequence[ThinkingContent], calls: Sequence[ToolCall]
) -> list[JsonValue] | None:
    """Structured reasoning to hand back. Older transcripts kept it with the calls."""
    for block in thinking:
        details = _json_of(block.thinking_signature)
        if isinstance(details, list) and details and all(map(is_reasoning_detail, details)):
            return details
    legacy = [_json_of(call.thought_signature) for call in calls]
    kept = [detail for detail in legacy if _is_encrypted_detail(detail)]
    return kept or None


def _json_of(text: str | None) -> JsonValue:
    if not text or text[0] not in "[{":
        return None
    try:
        return load_json(text)
    except ValueError:
        return None


def is_reasoning_detail(detail: JsonValue) -> bool:
    """Whether this is an entry of `reasoning_details` that can be kept and handed back (OpenRouter)."""
    if not isinstance(detail, Mapping):
        return False
    shape = (
        isinstance(detail.get("id"), str | None)
        and isinstance(detail.get("format", ""), str)
        and isinstance(detail.get("index", 0), int | float)
    )
    match detail.get("type"):
        case "reasoning.summary":
            return shape and isinstance(detail.get("summary"), str)
        case "reasoning.encrypted":
            return shape and isinstance(detail.get("data"), str)
        case "reasoning.text":
            signed = isinstance(detail.get("signature"), str | None)
            return shape and signed and isinstance(detail.get("text"), str)
        case _:
            return False


def _is_encrypted_detail(detail: JsonValue) -> bool:
    return (
        isinstance(detail, Mapping)
        and detail.get("type") == "reasoning.encrypted"
        and is_reasoning_detail(detail)
        and bool(detail.get("id"))
        and bool(detail.get("data"))
    )


def _call(call: ToolCall, wire: Wire) -> JsonObject:
    name = wire.grammar_properties.get(call.name)
    if name is not None:
        given = call.arguments.get(name)
        if not isinstance(given, str):
            problem = (
                f"The call of {call.name!r} has no text as {name!r}, the argument that its grammar is for."
            )
            raise CallFailed("invalid_request", problem, is_final=True)
        custom: JsonObject = {"name": call.name, "input": without_lone_surrogates(given)}
        return {"id": call.id, "type": "custom", "custom": custom}
    arguments = dump_json(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _normal_id(id: str, model: Model[Any], _source: AssistantMessage) -> str:
    """Another API's call id as one that chat completions take.

    The responses API joins two ids with a bar, and only both together are unique.
    """
    if "|" not in id:
        return cut_utf16(id, MAX_ID) if model.provider == "openai" else id
    call, _, item = id.partition("|")
    call, item = _NOT_IN_AN_ID.sub("_", call), _NOT_IN_AN_ID.sub("_", item)
    joined = f"{call}_{item}" if item else call
    if utf16_length(joined) <= MAX_ID:
        return joined
    mark = short_hash(id)[:8]
    return f"{call[: max(1, MAX_ID - len(mark) - 1)]}_{mark}"


def encode_tools(tools: Sequence[Tool[Any]], wire: Wire) -> list[bytes]:
    """Tools as JSON objects, in order.

    Raises:
        CallFailed: one of them cannot be sent as it demands.
    """
    return [_encode_tool(tool, wire) for tool in tools]


def _encode_tool(tool: Tool[Any], wire: Wire) -> bytes:
    known = tool.memo.get(wire.key)
    if isinstance(known, bytes):
        return known
    encoded = dump_json(_tool(tool, wire.endpoint))
    tool.memo[wire.key] = encoded
    return encoded


def _tool(tool: Tool[Any], endpoint: Endpoint) -> JsonObject:
    grammar = grammar_of(tool, supported=endpoint.supports_open_ai_grammar_tools)
    if grammar is not None:
        rules = {"syntax": grammar.syntax, "definition": grammar.definition}
        return {
            "type": "custom",
            "custom": {
                "name": tool.name,
                "description": tool.description,
                "format": {"type": "grammar", "grammar": rules},
            },
        }
    supports_strict = endpoint.supports_strict_mode
    parameters, strict = parameters_on_wire(tool, supports_strict=supports_strict)
    function: dict[str, JsonValue] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }
    if supports_strict:  # some servers refuse fields that they do not know
        function["strict"] = strict
    return {"type": "function", "function": function}
