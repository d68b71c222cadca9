"""From a message to that of chat completions, encoded once and kept with the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from mule.adapters._failing import CallFailed
from mule.adapters._names import wire_name
from mule.adapters.openai_completions.reasoning import reasoning_details, reasoning_field
from mule.adapters.openai_completions.tools import encode_tools
from mule.adapters.openai_completions.wire import Wire
from mule.transcript import wording
from mule.transcript.handoff import answer_text
from mule.transcript.text import render_system_update, system_message_text
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.jsontext import (
    JsonObject,
    JsonValue,
    dump_json,
    without_lone_surrogates,
)
from mule.values.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)

_NOTHING: Final = b""


def encode_sendable(messages: Sequence[Message], wire: Wire) -> list[bytes]:
    encoded: list[bytes] = []
    key = wire.key
    bridges = wire.endpoint.requires_assistant_after_tool_result
    after_results = False
    images: list[JsonObject] = []
    for index, message in enumerate(messages):
        role = message.role
        if images and role != "toolResult":
            _add_images(encoded, images, bridges=bridges)
            after_results = False
        if role == "system":
            encoded.extend(encode_system(cast(SystemMessage, message), wire, leads=index == 0))
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


def encode_system(message: SystemMessage, wire: Wire, *, leads: bool) -> list[bytes]:
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
        form["name"] = wire_name(message.tool_name)
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
    details = reasoning_details(thinking, calls)
    spoken = [block for block in thinking if block.thinking.strip()]
    if spoken and wire.endpoint.requires_thinking_as_text:
        said = "\n\n".join(without_lone_surrogates(block.thinking) for block in spoken)
        content = [{"type": "text", "text": said}, *map(_part, texts)]
    elif spoken and not details:
        field = reasoning_field(spoken[0].thinking_signature, wire.provider)
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


def _call(call: ToolCall, wire: Wire) -> JsonObject:
    name = wire.grammar_properties.get(call.name)
    if name is not None:
        given = call.arguments.get(name)
        if not isinstance(given, str):
            problem = (
                f"The call of {call.name!r} has no text as {name!r}, the argument that its grammar is for."
            )
            raise CallFailed("invalid_request", problem, is_final=True)
        custom: JsonObject = {"name": wire_name(call.name), "input": without_lone_surrogates(given)}
        return {"id": call.id, "type": "custom", "custom": custom}
    arguments = dump_json(call.arguments).decode()
    function = {"name": wire_name(call.name), "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function}
