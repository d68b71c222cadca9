"""What a model sees of a tool, and what a tool gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypeVar

from mule.values.base import Number, Value
from mule.values.content import ImageContent, TextContent
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.record import Record
from mule.values.usage import Usage

GrammarFormat: TypeAlias = Literal["openai_lark", "openai_regex"]
"""The languages in which a grammar may be written."""
GrammarVariants: TypeAlias = Mapping[GrammarFormat, str]
"""The same grammar in one or more languages; the provider takes the one it knows."""


class JsonSchemaSampling(Value):
    """Ask the provider to hold the arguments to their JSON schema ("strict" tools).

    `prefer` falls back to an unconstrained tool where that is not possible, `require` fails.
    """

    type: Literal["json_schema"] = "json_schema"
    strict: Literal["prefer", "require"]


class GrammarSampling(Value):
    """Ask the provider to hold the one string argument of a tool to a grammar."""

    type: Literal["grammar"] = "grammar"
    variants: GrammarVariants


ConstrainedSamplingConfig: TypeAlias = Annotated[
    JsonSchemaSampling | GrammarSampling, Field(discriminator="type")
]
"""How the provider should hold the arguments of a tool to a form."""

SchemaT = TypeVar("SchemaT", default=JsonObject)


class Tool(Value, Generic[SchemaT]):
    """What the model is told about a tool. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: SchemaT
    constrained_sampling: Literal[False] | ConstrainedSamplingConfig | None = None


if TYPE_CHECKING:
    AnyTool: TypeAlias = Tool[Any]
    """A tool, whatever the type of its schema: a list of tools holds different ones."""
else:
    AnyTool = Tool  # to pydantic, a parameterized model is another class


class ToolReference(Value):
    """A tool, by name."""

    name: str


class NestedToolCallRecord(Value):
    """A call that a tool made to another tool while it ran.

    `arguments` is left out where it is over the size limit; `arguments_bytes` then gives its size as
    UTF-8 JSON. `unfinished`: it was still running when the calling tool finished.
    """

    id: str
    name: str
    arguments: JsonObject | None = None
    arguments_bytes: int | None = None
    status: Literal["ok", "error", "unfinished"]
    duration_ms: Number | None = None
    error: str | None = None


class NestedToolCalls(Value):
    """A bounded record of nested calls; `complete` is false where anything was left out."""

    calls: tuple[NestedToolCallRecord, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MuleToolProgress(Record):
    """A part of a tool's stream that is not its end."""

    type: ClassVar[Literal["progress"]] = "progress"
    content: Sequence[TextContent | ImageContent] = ()
    details: JsonValue = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MuleToolResult(Record):
    """The end of a tool's stream.

    Attributes:
        content: what the model is told.
        details: for the host (logs, UI); it stays in the transcript and is not sent to the model.
        structured_content: the machine-readable form of `content`; not kept in the transcript.
        usage: tokens that the tool itself used; not part of the run's own usage.
        is_error: the tool failed, and `content` says how.
        terminate: no further model call is needed after this. A batch in which every result says so
            ends the run.
        nested_calls: what it called on its way.
    """

    type: ClassVar[Literal["result"]] = "result"
    content: Sequence[TextContent | ImageContent] = ()
    details: JsonValue = None
    structured_content: JsonValue = None
    usage: Usage | None = None
    is_error: bool = False
    terminate: bool = False
    nested_calls: NestedToolCalls | None = None

    @classmethod
    def text(cls, text: str, *, is_error: bool = False) -> MuleToolResult:
        """A result of one text."""
        return cls(content=(TextContent(text=text),), is_error=is_error)


MuleToolExecutionPart: TypeAlias = MuleToolProgress | MuleToolResult
"""What a running tool gives: any number of progress parts, then one result."""
