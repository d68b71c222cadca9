"""The transcript: system, user, assistant and tool-result messages, and what a model call is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator

from mule.values.base import NullList, Number, Value
from mule.values.content import AssistantContent, TextContent, UserContent
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.model import ModelThinkingLevel
from mule.values.tools import AnyTool, NestedToolCalls, ToolReference
from mule.values.usage import NO_USAGE, StopReason, Usage


def _null_is_empty(value: object, read: ValidatorFunctionWrapHandler) -> object:
    # Untyped tools and old session files hold null where the type asks for a list.
    return NullList() if value is None or isinstance(value, NullList) else read(value)


NullIsEmpty = WrapValidator(_null_is_empty)


class SystemMessage(Value):
    """Instructions and tool declarations from this point on.

    The leading one is the system prompt. A later one adds `content`, replaces or removes (null) named
    `sections`, and changes the set of tools; the state at any point is the replay of all before it.
    """

    role: Literal["system"] = "system"
    content: Annotated[str | tuple[TextContent, ...], NullIsEmpty] = ""
    sections: Mapping[str, str | None] | None = None
    tools_added: tuple[AnyTool, ...] | None = None
    tools_removed: tuple[ToolReference, ...] | None = None
    timestamp: Number = 0


class UserMessage(Value):
    """What a user says; a text or a list of texts and images. `timestamp` in ms."""

    role: Literal["user"] = "user"
    content: Annotated[str | tuple[UserContent, ...], NullIsEmpty]
    timestamp: Number = 0


class DiagnosticErrorInfo(Value):
    """An exception, as data."""

    name: str | None = None
    message: str
    stack: str | None = None
    code: str | Number | None = None


class AssistantMessageDiagnostic(Value):
    """Something worth knowing about how an answer came to be: a retry, a fall-back, a repair."""

    type: str
    timestamp: Number = 0
    error: DiagnosticErrorInfo | None = None
    details: JsonObject | None = None


class DeferredHandle(Value):
    """A durable handle on an answer that the provider will finish later."""

    provider: str
    model_id: str
    api: str
    id: str
    expires_at: Number | None = None
    poll_after_ms: Number | None = None
    data: JsonValue = None


class AssistantMessage(Value):
    """An answer of a model.

    Attributes:
        stop_reason: why it ended; `error` and `aborted` answers are not sent to a model again.
        error_message: what went wrong, with the provider's own words where it sent any.
        provider_error: the provider's own prose for a failed turn, never a diagnostic of ours.
        response_model: the model that answered, where it is not the one asked.
        raw_stop_reason: the provider's own word for `stop_reason`.
        duration_ms: from the request to the last event.
    """

    role: Literal["assistant"] = "assistant"
    content: Annotated[tuple[AssistantContent, ...], NullIsEmpty] = ()
    api: str
    provider: str
    model: str
    response_model: str | None = None
    response_id: str | None = None
    provider_thinking_level: str | None = None
    thinking_level: ModelThinkingLevel | None = None
    diagnostics: tuple[AssistantMessageDiagnostic, ...] | None = None
    usage: Usage = NO_USAGE
    stop_reason: StopReason
    deferred: DeferredHandle | None = None
    error_message: str | None = None
    provider_error: str | None = None
    raw_stop_reason: str | None = None
    end_turn: bool | None = None
    timestamp: Number = 0
    duration_ms: Number | None = None

    @property
    def text(self) -> str:
        """What it says: its text blocks, joined. Not its thinking, not its calls."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))


class ToolResultMessage(Value):
    """What the model is told about one of its tool calls. `details` stays with the host."""

    role: Literal["toolResult"] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: Annotated[tuple[UserContent, ...], NullIsEmpty] = ()
    details: JsonValue = None
    usage: Usage | None = None
    nested_calls: NestedToolCalls | None = None
    is_error: bool = False
    timestamp: Number = 0
    duration_ms: Number | None = None

    @property
    def text(self) -> str:
        """What it says: its text blocks, each on a line of its own."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage
"""One entry of a transcript; `role` is the tag."""
TaggedMessage: TypeAlias = Annotated[Message, Field(discriminator="role")]
"""`Message`, for pydantic: the role decides, so an error names the right type."""


class Context(Value):
    """What one model call is given.

    `system_prompt` and `tools` are shorthand for a leading system message.
    """

    system_prompt: str | None = None
    messages: tuple[TaggedMessage, ...] = ()
    tools: tuple[AnyTool, ...] | None = None
