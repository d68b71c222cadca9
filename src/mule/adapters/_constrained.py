"""Tools whose arguments the provider holds to a schema or a grammar: what can be asked for, and how.

Shared by the APIs of the OpenAI family. The strict subset of JSON schema is OpenAI's, of its guide to
structured outputs: every property required, none beside them, no combinators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from mule.adapters._failing import CallFailed
from mule.values.base import copy_json
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.tools import GrammarSampling, JsonSchemaSampling, Tool

_NOT_STRICT: Final = (
    "$ref",
    "$defs",
    "definitions",
    "allOf",
    "oneOf",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "prefixItems",
    "not",
    "if",
    "then",
    "else",
)
"""Keywords that strict schemas do not have."""


class NotStrict(ValueError):
    """A schema that has no strict form; the text says why."""


def strict_schema(schema: JsonObject) -> JsonObject:
    """The strict form of a tool's schema: optional properties become required and nullable.

    Raises:
        NotStrict: it has none.
    """
    strict = copy_json(schema)
    if not isinstance(strict, dict) or strict.get("type") != "object":
        raise NotStrict("its root is not of type object")
    _make_strict(strict)
    return strict


def _make_strict(schema: JsonValue) -> None:
    if not isinstance(schema, dict):
        raise NotStrict("it has a schema that is no object")
    for keyword in _NOT_STRICT:
        if keyword in schema:
            raise NotStrict(f"it uses {keyword}")
    _check_union(schema)
    items = schema.get("items")
    if isinstance(items, list):
        raise NotStrict("it has a tuple")
    if items is not None:
        _make_strict(items)
    if schema.get("type") == "object":
        _close_object(schema)
    elif "properties" in schema:
        raise NotStrict("it has properties without the type object")


def _check_union(schema: dict[str, Any]) -> None:
    if "anyOf" not in schema:
        return
    members = schema["anyOf"]
    if not isinstance(members, list) or not members:
        raise NotStrict("it has an anyOf without members")
    for member in members:
        if _is_structured(member):
            raise NotStrict("it has a union of objects or lists")
        _make_strict(member)


def _is_structured(schema: JsonValue) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    named = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    return "object" in named or "array" in named or "properties" in schema or "items" in schema


def _close_object(schema: dict[str, Any]) -> None:
    if schema.get("additionalProperties", False) is not False:
        raise NotStrict("it takes further properties")
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict):
        raise NotStrict("its properties are no object")
    if not isinstance(required, list) or not all(isinstance(key, str) for key in required):
        raise NotStrict("its list of required properties is no list of names")
    if not set(required) <= set(properties):
        raise NotStrict("it requires a property that it does not describe")
    for key, value in properties.items():
        _make_strict(value)
        if key not in required and not _allows_null(value):
            properties[key] = {"anyOf": [value, {"type": "null"}]}
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


def _allows_null(schema: JsonValue) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    values = schema.get("enum")
    if ("const" in schema and schema["const"] is None) or (isinstance(values, list) and None in values):
        return True
    members = schema.get("anyOf")
    return isinstance(members, list) and any(_allows_null(member) for member in members)


def parameters_on_wire(tool: Tool[Any], *, supports_strict: bool) -> tuple[JsonObject, bool]:
    """A tool's schema as it is sent, and whether it is sent as strict.

    Raises:
        CallFailed: strictness is required, and cannot be had.
    """
    asked = tool.constrained_sampling
    parameters = cast(JsonObject, tool.parameters)
    if not isinstance(asked, JsonSchemaSampling):
        return parameters, False
    problem = "strict tools are not supported there"
    if supports_strict:
        try:
            return strict_schema(parameters), True
        except NotStrict as exc:
            problem = f"its schema has no strict form: {exc}"
    if asked.strict == "require":
        raise CallFailed(
            "invalid_request",
            f"The tool {tool.name!r} must be held to its JSON schema, but {problem}.",
            is_final=True,
        )
    return parameters, False


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar that one string argument is held to; `property` is the name of that argument."""

    syntax: Literal["lark", "regex"]
    definition: str
    property: str


def grammar_of(tool: Tool[Any], *, supported: bool) -> Grammar | None:
    """The grammar that a tool is sent with; None where it has none, or the endpoint takes none.

    Raises:
        CallFailed: the tool cannot be sent with its grammar.
    """
    asked = tool.constrained_sampling
    if not isinstance(asked, GrammarSampling) or not supported:
        return None
    lark = asked.variants.get("openai_lark") or ""
    regex = asked.variants.get("openai_regex") or ""
    if not lark.strip() and not regex.strip():
        raise _no_grammar(tool, "it has no variant that OpenAI takes")
    name = _only_string_property(tool)
    return Grammar("lark", lark, name) if lark.strip() else Grammar("regex", regex, name)


def _only_string_property(tool: Tool[Any]) -> str:
    schema = cast(JsonObject, tool.parameters)
    required = schema.get("required")
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(required, list) or len(required) != 1:
        raise _no_grammar(tool, "its schema must be an object with exactly one required property")
    name = required[0]
    if not isinstance(name, str) or not isinstance(properties, Mapping):
        raise _no_grammar(tool, "its one required property must be described, and be a string")
    described = properties.get(name)
    if not isinstance(described, Mapping) or described.get("type") != "string":
        raise _no_grammar(tool, "its one required property must be described, and be a string")
    return name


def _no_grammar(tool: Tool[Any], problem: str) -> CallFailed:
    text = f"The tool {tool.name!r} cannot be held to its grammar: {problem}."
    return CallFailed("invalid_request", text, is_final=True)


def grammar_properties(tools: Iterable[Tool[Any]], *, supported: bool) -> dict[str, str]:
    """By tool name: the argument that its grammar is about."""
    found = ((tool.name, grammar_of(tool, supported=supported)) for tool in tools)
    return {name: grammar.property for name, grammar in found if grammar is not None}
