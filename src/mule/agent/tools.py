"""Tools in Pi's manner: one async function that may report partial results as it goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeAlias

from typing_extensions import TypeVar

from mule.values.content import ImageContent, TextContent, ToolCall
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.signal import AbortSignal
from mule.values.tools import ConstrainedSamplingConfig, Tool
from mule.values.usage import Usage

ParamsT = TypeVar("ParamsT", default=Any)
ParamsT_contra = TypeVar("ParamsT_contra", contravariant=True, default=Any)
DetailsT = TypeVar("DetailsT", default=Any)


@dataclass(frozen=True, kw_only=True)
class AgentToolResult(Generic[DetailsT]):
    """What a tool gives, whole or partial. None in an optional field means that it was not given."""

    content: Sequence[TextContent | ImageContent] | None = None
    details: DetailsT | None = None
    structured_content: JsonValue = None
    usage: Usage | None = None
    is_error: bool | None = None
    terminate: bool | None = None


AgentToolUpdateCallback: TypeAlias = Callable[[AgentToolResult[Any]], None]
"""Reports a partial result. Does not wait; ignored once the tool has settled."""


class AgentToolExecute(Protocol[ParamsT_contra]):
    """Runs one call. Raises to fail; the text of the exception is what the model is told."""

    def __call__(
        self,
        tool_call_id: str,
        params: ParamsT_contra,
        signal: AbortSignal | None,
        on_update: AgentToolUpdateCallback,
        /,
    ) -> Awaitable[AgentToolResult[Any]]: ...


@dataclass(frozen=True, kw_only=True)
class AgentTool(Generic[ParamsT, DetailsT]):
    """A tool of an agent.

    Attributes:
        parameters: the JSON schema of its arguments; they are coerced to it and checked.
        label: its name for people.
        prepare_arguments: reshapes the raw arguments before they are checked.
        replay: `never` (Pi's word for unsafe) or `safe`, see `MuleTool.replay`.
    """

    name: str
    description: str
    parameters: JsonObject
    execute: AgentToolExecute[ParamsT]
    label: str = ""
    prepare_arguments: Callable[[Any], Any] | None = None
    output_schema: JsonObject | None = None
    replay: Literal["never", "safe"] = "never"
    execution_mode: Literal["parallel", "sequential"] | None = None
    constrained_sampling: Literal[False] | ConstrainedSamplingConfig | None = None

    def declaration(self) -> Tool:
        """What the model is told about it."""
        if self.constrained_sampling is None:
            return Tool(name=self.name, description=self.description, parameters=self.parameters)
        return Tool(
            name=self.name,
            description=self.description,
            parameters=self.parameters,
            constrained_sampling=self.constrained_sampling,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCallOutcome:
    """What became of one call, after the hooks."""

    tool_call: ToolCall
    result: AgentToolResult[Any]
    is_error: bool
