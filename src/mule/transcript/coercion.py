"""What did a model mean that wrote a value of the wrong JSON type?

The reference's rules, value by value. A null for something optional means that it is left out; a text
that spells a number is that number where one is asked for, and so on. JSON inside a text is never
parsed, a single value never wrapped into a list, defaults never filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from mule.transcript.js_numbers import number_text, read_number
from mule.transcript.schemas import CompiledSchema
from mule.values.jsontext import JsonObject, JsonValue

Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"
"""JSON that is this module's own to change."""

_MAX_DEPTH: Final = 64
"""Deeper schemas are left alone; `allOf` may go round in a circle."""


def plain_copy(value: JsonValue) -> Plain:
    """A copy of JSON data in lists and dicts of its own."""
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    return [plain_copy(item) for item in value]


def drop_optional_nulls(value: Plain, part: object, whole: CompiledSchema, depth: int = 0) -> None:
    """Delete, in place, nulls under keys that may be absent and must not be null."""
    schema = whole.followed(part)
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for item, item_part in zip(value, _item_parts(schema, len(value)), strict=False):
            drop_optional_nulls(item, item_part, whole, depth + 1)
    elif isinstance(value, dict):
        required = schema.get("required")
        for key, key_part in _properties(schema).items():
            if key not in value:
                continue
            is_required = isinstance(required, list) and key in required
            if value[key] is None and not is_required and not whole.accepts(key_part, None):
                del value[key]
            else:
                drop_optional_nulls(value[key], key_part, whole, depth + 1)


def coerce(value: Plain, part: object, whole: CompiledSchema, depth: int = 0) -> Plain:
    """The value as its schema would have it, as far as that is beyond doubt. May change it in place."""
    if depth > _MAX_DEPTH:
        return value
    schema = whole.followed(part)
    for member in _list(schema, "allOf"):
        value = coerce(value, member, whole, depth + 1)
    for key in ("anyOf", "oneOf"):
        members = _list(schema, key)
        if members:
            value = _coerce_union(value, members, whole, depth)
    value = _coerce_type(value, _types(schema))
    if isinstance(value, dict):
        _coerce_entries(value, schema, whole, depth)
    elif isinstance(value, list):
        for index, item_part in enumerate(_item_parts(schema, len(value))):
            value[index] = coerce(value[index], item_part, whole, depth + 1)
    return value


def _coerce_union(value: Plain, members: list[object], whole: CompiledSchema, depth: int) -> Plain:
    if any(whole.accepts(member, value) for member in members):
        return value
    for member in members:
        candidate = coerce(plain_copy(value), member, whole, depth + 1)
        if whole.accepts(member, candidate):
            return candidate
    return value


def _coerce_entries(value: dict[str, Plain], schema: JsonObject, whole: CompiledSchema, depth: int) -> None:
    properties = _properties(schema)
    others = schema.get("additionalProperties")
    for key in value:
        if key in properties:
            value[key] = coerce(value[key], properties[key], whole, depth + 1)
        elif isinstance(others, Mapping):
            value[key] = coerce(value[key], others, whole, depth + 1)


def _coerce_type(value: Plain, types: list[str]) -> Plain:
    if len(types) > 1 and any(_is_of(value, name) for name in types):
        return value
    for name in types:
        converted = _converted(value, name)
        if converted is not value:
            return converted
    return value


def _is_of(value: Plain, type_: str) -> bool:
    match type_:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            is_whole_float = isinstance(value, float) and value.is_integer()
            return is_whole_float or (isinstance(value, int) and not isinstance(value, bool))
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return False


def _converted(value: Plain, type_: str) -> Plain:
    """The value as one of that type, or the very value."""
    match type_:
        case "number" | "integer":
            return _as_number(value, whole=type_ == "integer")
        case "boolean":
            return _as_boolean(value)
        case "string":
            return _as_string(value)
        case "null" if value == "" or (value in (0, False) and isinstance(value, int | float)):
            return None
        case _:
            return value


def _as_number(value: Plain, *, whole: bool) -> Plain:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and whole and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return value
    number = read_number(value)
    if number is None or (whole and not isinstance(number, int)):
        return value
    return number


def _as_boolean(value: Plain) -> Plain:
    if value is None or value == "false":
        return False
    if value == "true":
        return True
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (0, 1):
        return bool(value)
    return value


def _as_string(value: Plain) -> Plain:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) if isinstance(value, int | float) else value


def _types(schema: JsonObject) -> list[str]:
    named = schema.get("type")
    if isinstance(named, str):
        return [named]
    return [name for name in _list(schema, "type") if isinstance(name, str)]


def _properties(schema: JsonObject) -> Mapping[str, object]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _item_parts(schema: JsonObject, length: int) -> list[object]:
    """The schema of each item of a list, as far as there is one for it."""
    items = schema.get("items")
    if isinstance(items, list):  # up to draft 7: one for each place
        return list(items[:length])
    places: list[object] = _list(schema, "prefixItems")[:length]
    return places + [items] * (length - len(places)) if isinstance(items, Mapping) else places


def _list(schema: JsonObject, key: str) -> list[object]:
    found = schema.get(key)
    return list(found) if isinstance(found, list | tuple) else []
