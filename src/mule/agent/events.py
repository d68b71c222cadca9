"""The ten events of an agent loop, and how they come out of the interpreter's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from mule.agent.calls import AgentProgress, result_of
from mule.agent.tools import AgentToolResult
from mule.values.jsontext import JsonObject
from mule.values.messages import AssistantMessage, Message, ToolResultMessage
from mule.values.run import (
    AnyEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEnd,
    RunStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from mule.values.stream import GrowthEvent

M = TypeVar("M", default=Message)


@dataclass(frozen=True, slots=True)
class AgentStart:
    """The loop has begun."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"


@dataclass(frozen=True)
class AgentEnd(Generic[M]):
    """The loop is over; `messages` are those that it added."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: Sequence[M]


@dataclass(frozen=True, slots=True)
class AgentTurnStart:
    """A turn has begun."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"


@dataclass(frozen=True, slots=True)
class AgentTurnEnd:
    """A turn is over."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    message: AssistantMessage
    tool_results: Sequence[ToolResultMessage]


@dataclass(frozen=True)
class AgentMessageStart(Generic[M]):
    """A message enters the transcript."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: M


@dataclass(frozen=True, slots=True)
class AgentMessageUpdate:
    """An answer has grown. `message` is the answer so far, made when asked for."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    assistant_message_event: GrowthEvent

    @property
    def message(self) -> AssistantMessage:
        """The answer so far."""
        return self.assistant_message_event.partial


@dataclass(frozen=True)
class AgentMessageEnd(Generic[M]):
    """A message is final."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: M


@dataclass(frozen=True, slots=True)
class AgentToolExecutionStart:
    """A call is taken up. `args` are the model's own, unchecked."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class AgentToolExecutionUpdate:
    """A running tool reported a partial result."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: JsonObject
    partial_result: AgentToolResult[Any]


@dataclass(frozen=True, slots=True)
class AgentToolExecutionEnd:
    """A call has its result."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: AgentToolResult[Any]
    is_error: bool


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd[M]
    | AgentTurnStart
    | AgentTurnEnd
    | AgentMessageStart[M]
    | AgentMessageUpdate
    | AgentMessageEnd[M]
    | AgentToolExecutionStart
    | AgentToolExecutionUpdate
    | AgentToolExecutionEnd
)


def agent_event(event: AnyEvent[M]) -> AgentEvent[M] | None:
    """The agent's event for one of the interpreter's; None for those that Pi has not."""
    match event:
        case MessageUpdate(event=growth):
            return AgentMessageUpdate(growth)  # type: ignore[arg-type]  # an update is never terminal
        case RunStart():
            return AgentStart()
        case TurnStart():
            return AgentTurnStart()
        case MessageStart(value=message):
            return AgentMessageStart(message)
        case MessageEnd(value=message):
            return AgentMessageEnd(message)
        case ToolExecutionStart(call=call):
            return AgentToolExecutionStart(call.id, call.name, call.arguments)
        case ToolExecutionUpdate(call=call, part=AgentProgress(partial=partial)):
            return AgentToolExecutionUpdate(call.id, call.name, call.arguments, partial)
        case ToolExecutionEnd(call=call, result=result):
            return AgentToolExecutionEnd(call.id, call.name, result_of(result), result.is_error)
        case TurnEnd(completed=completed):
            return AgentTurnEnd(completed.message, completed.tool_results)
        case RunEnd(outcome=outcome):
            return AgentEnd(outcome.new_messages)
        case _:
            return None
