"""The pieces inside a message: text, thinking, images, tool calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mule.values.base import Value
from mule.values.jsontext import JsonObject


class TextContent(Value):
    """Text. `text_signature` is what the provider needs back with it."""

    type: Literal["text"] = "text"
    text: str
    text_signature: str | None = None


class ThinkingContent(Value):
    """Reasoning of a model.

    `thinking_signature` is what the provider needs back with it. When `redacted`, the text was
    withheld by a safety filter and the signature holds its encrypted form.
    """

    type: Literal["thinking"] = "thinking"
    thinking: str
    thinking_signature: str | None = None
    redacted: bool | None = None


class ImageContent(Value):
    """An image: base64 `data` and its MIME type, such as `image/png`."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str


class ToolCall(Value):
    """What a model asks a tool to do.

    `arguments_error` says why the model's arguments could not be read as JSON; such a call is never
    run, and its error result tells the model. `arguments` then holds what could be read.
    """

    type: Literal["toolCall"] = "toolCall"
    id: str
    name: str
    arguments: JsonObject
    thought_signature: str | None = None
    namespace: str | None = None
    arguments_error: str | None = None


UserContent = Annotated[TextContent | ImageContent, Field(discriminator="type")]
AssistantContent = Annotated[TextContent | ThinkingContent | ToolCall, Field(discriminator="type")]
