"""What may a model send to a function? Its parameters as a JSON schema, and as a check of arguments.

One mechanism does both: pydantic's lax mode, which turns what models commonly write (`"3"` for an
integer, `7` for a text, an ISO date) into the annotated type, and nothing else. The coercion that
the reference does on the schema (`mule.transcript.arguments`) is not run before it: it knows JSON
types only, while the annotations of a function know dates, enums and models, and two coercions with
rules of their own would change an argument twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails
from returns.result import Failure, Result, Success

from mule.toolkit._docstring import argument_docs
from mule.values.content import ToolCall
from mule.values.errors import MuleToolRejection
from mule.values.jsontext import JsonObject, JsonValue, dump_json

MAX_SHOWN = 200
"""Longest text of a wrong argument that is shown to the model again, in characters."""


@dataclass(frozen=True, slots=True)
class BoundArguments:
    """Checked arguments of one call, as their annotated types."""

    positional: Sequence[Any]
    keyword: Mapping[str, Any]


class Parameters:
    """The parameters of one function.

    Raises:
        TypeError: a parameter has no annotation, or there is `*args` or `**kwargs`.
    """

    def __init__(self, function: Callable[..., object], docstring: str) -> None:
        self._parameters = _parameters(function)
        self._fields = {f"p{at}": parameter for at, parameter in enumerate(self._parameters)}
        self._model = _arguments_model(self._fields, argument_docs(docstring))

    def json_schema(self) -> JsonObject:
        """The JSON schema of the arguments, an object."""
        schema = self._model.model_json_schema(schema_generator=_Schema)
        del schema["title"]
        schema.setdefault("properties", {})
        return schema

    def check(self, call: ToolCall) -> Result[BoundArguments, MuleToolRejection]:
        """Read the arguments of a call, or say to the model what is wrong with them."""
        try:
            arguments = self._model.model_validate(call.arguments)
        except ValidationError as exc:
            names = [info.alias or name for name, info in self._model.model_fields.items()]
            return Failure(_rejection(call, exc, names))
        return Success(self._bind(arguments))

    def _bind(self, arguments: BaseModel) -> BoundArguments:
        positional: list[Any] = []
        keyword: dict[str, Any] = {}
        for name, parameter in self._fields.items():
            value = getattr(arguments, name)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value)
            elif name in arguments.model_fields_set or parameter.default is parameter.empty:
                keyword[parameter.name] = value
        return BoundArguments(positional, keyword)


class _Schema(GenerateJsonSchema):
    # A default without a JSON form is simply not told to the model.
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012  # the base's own

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False  # a title says the name again, and costs tokens


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"a tool cannot take {parameter}: a model needs to know each argument")
        if parameter.annotation is parameter.empty:
            raise TypeError(f"the parameter {parameter.name} of a tool needs a type")
    return parameters


def _arguments_model(fields: Mapping[str, inspect.Parameter], docs: Mapping[str, str]) -> type[BaseModel]:
    # Fields have names of their own: a parameter may be called `model_config` or `_x`, a field may not.
    config = ConfigDict(
        extra="forbid",
        coerce_numbers_to_str=True,
        alias_generator=lambda field: fields[field].name if field in fields else field,
    )
    definitions = {name: _definition(parameter, docs) for name, parameter in fields.items()}
    return create_model("Arguments", __config__=config, **cast(dict[str, Any], definitions))


def _definition(parameter: inspect.Parameter, docs: Mapping[str, str]) -> tuple[Any, Any]:
    # What stands in the annotation (`Annotated[int, Field(...)]`) goes before what the docstring says.
    given: dict[str, Any] = {}
    if parameter.default is not parameter.empty:
        given["default"] = parameter.default
    if FieldInfo.from_annotation(parameter.annotation).description is None:
        given["description"] = docs.get(parameter.name)
    return parameter.annotation, Field(**given)


def _rejection(call: ToolCall, exc: ValidationError, names: Sequence[str]) -> MuleToolRejection:
    problems: list[JsonValue] = []
    lines = [f"{call.name} was not run, its arguments are not valid:"]
    for error in exc.errors(include_url=False, include_context=False):
        path = _path(error, call.arguments)
        problem = _problem(error, names)
        problems.append({"path": path, "problem": problem})
        lines.append(f"- {path}: {problem}" if path else f"- {problem}")
    return MuleToolRejection("invalid_arguments", "\n".join(lines), details=problems)


def _problem(error: ErrorDetails, names: Sequence[str]) -> str:
    match error["type"]:
        case "missing":
            return "required, but it is missing"
        case "extra_forbidden" if len(error["loc"]) == 1:
            return f"there is no such argument (there are: {', '.join(names) or 'none'})"
        case _:
            return f"{error['msg']}; got {_shown(error['input'])}"


def _shown(value: JsonValue) -> str:
    text = dump_json(value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}... ({len(text)} characters)"


def _path(error: ErrorDetails, arguments: JsonValue) -> str:
    """The place of an error, such as `places[0].city`.

    pydantic's location also names the branches of unions, which are nowhere in the arguments.
    """
    path = ""
    here = arguments
    for part in error["loc"]:
        if isinstance(part, int) and isinstance(here, list | tuple) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
        elif isinstance(part, str) and isinstance(here, Mapping) and part in here:
            path, here = f"{path}.{part}", here[part]
    if error["type"] == "missing":
        path = f"{path}.{error['loc'][-1]}"
    return path.removeprefix(".")
