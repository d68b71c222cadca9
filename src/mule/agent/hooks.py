"""What an agent loop is configured with: its context, its hooks, and what they are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from mule.agent.tools import AgentTool, AgentToolResult
from mule.values.content import ImageContent, TextContent, ToolCall
from mule.values.jsontext import JsonValue
from mule.values.messages import AssistantMessage, Message, ToolResultMessage
from mule.values.model import Model, ModelThinkingLevel
from mule.values.request import SimpleStreamOptions
from mule.values.signal import AbortSignal
from mule.values.usage import Usage

M = TypeVar("M", default=Message)
T = TypeVar("T")
# Generic values have no slots: Python 3.11 cannot make a frozen one that has them as `Value[M](...)`.
MaybeAwaitable: TypeAlias = T | Awaitable[T]


@dataclass(frozen=True, kw_only=True)
class AgentContext(Generic[M]):
    """The transcript that the model sees, and the tools that can be run."""

    messages: Sequence[M] = ()
    tools: Sequence[AgentTool[Any, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class BeforeToolCallContext(Generic[M]):
    """A call that is about to run. `args` may be changed in place; they are not checked again."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: Any
    context: AgentContext[M]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeToolCallResult:
    """A decision about a call. `reason` is what the model is told of a block."""

    block: bool = False
    reason: str | None = None
    terminate: bool = False


@dataclass(frozen=True, kw_only=True)
class AfterToolCallContext(Generic[M]):
    """A call that has run, and what it gave."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: Any
    result: AgentToolResult[Any]
    is_error: bool
    context: AgentContext[M]


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterToolCallResult:
    """What replaces parts of a result, field by field; None leaves a field as it is.

    New `content` without `structured_content` drops the old structured content, which may no longer
    match.
    """

    content: Sequence[TextContent | ImageContent] | None = None
    details: Any = None
    structured_content: JsonValue = None
    is_error: bool | None = None
    usage: Usage | None = None
    terminate: bool | None = None


@dataclass(frozen=True, kw_only=True)
class AgentTurnContext(Generic[M]):
    """A completed turn."""

    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]
    context: AgentContext[M]
    new_messages: Sequence[M]


@dataclass(frozen=True, slots=True)
class AgentTurnDecision:
    """`end` ends the run after this turn; `continue` gives one more where nothing else asks for it."""

    action: Literal["continue", "end"]


@dataclass(frozen=True, kw_only=True)
class AgentRequestUpdate(Generic[M]):
    """What changes for this request and those after it; None leaves a thing as it is."""

    context: AgentContext[M] | None = None
    model: Model[Any] | None = None
    thinking_level: ModelThinkingLevel | None = None


@dataclass(frozen=True, kw_only=True)
class AgentLoopTurnUpdate(AgentRequestUpdate[M], Generic[M]):
    """Like `AgentRequestUpdate`, and messages to add before the next request."""

    messages: Sequence[M] = ()


@dataclass(frozen=True, kw_only=True)
class PrepareRequestContext(Generic[M]):
    """How things stand immediately before a model call."""

    context: AgentContext[M]
    model: Model[Any]
    thinking_level: ModelThinkingLevel


@dataclass(frozen=True, kw_only=True)
class AgentLoopConfig(Generic[M]):
    """Settings and hooks of an agent loop. Hooks may be sync or async.

    Attributes:
        convert_to_llm: from the messages of the transcript to those a model understands. Without it
            the four known kinds pass and others are left out.
        transform_context: changes what is sent, not the transcript.
        options: for every model call; `api_key` is the fall-back of `get_api_key`.
        max_parallel_tools: how many calls of a batch run at once; None is no bound.
    """

    model: Model[Any]
    reasoning: ModelThinkingLevel = "off"
    options: SimpleStreamOptions = field(default=SimpleStreamOptions())
    tool_execution: Literal["parallel", "sequential"] = "parallel"
    max_parallel_tools: int | None = None
    convert_to_llm: Callable[[Sequence[M]], MaybeAwaitable[Sequence[Message]]] | None = None
    transform_context: Callable[[Sequence[M], AbortSignal | None], MaybeAwaitable[Sequence[M]]] | None = (
        None
    )
    get_api_key: Callable[[str], MaybeAwaitable[str | None]] | None = None
    get_steering_messages: Callable[[], MaybeAwaitable[Sequence[M]]] | None = None
    get_follow_up_messages: Callable[[], MaybeAwaitable[Sequence[M]]] | None = None
    prepare_next_turn: (
        Callable[[AgentTurnContext[M]], MaybeAwaitable[AgentLoopTurnUpdate[M] | None]] | None
    ) = None
    prepare_request: (
        Callable[
            [PrepareRequestContext[M], AbortSignal | None],
            MaybeAwaitable[AgentRequestUpdate[M] | None],
        ]
        | None
    ) = None
    finish_turn: (
        Callable[[AgentTurnContext[M], AbortSignal | None], MaybeAwaitable[AgentTurnDecision | None]] | None
    ) = None
    should_stop_after_turn: Callable[[AgentTurnContext[M]], MaybeAwaitable[bool]] | None = None
    before_tool_call: (
        Callable[
            [BeforeToolCallContext[M], AbortSignal | None], MaybeAwaitable[BeforeToolCallResult | None]
        ]
        | None
    ) = None
    after_tool_call: (
        Callable[[AfterToolCallContext[M], AbortSignal | None], MaybeAwaitable[AfterToolCallResult | None]]
        | None
    ) = None
