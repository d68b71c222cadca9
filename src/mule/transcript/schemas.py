"""Is a value valid under a JSON schema, or under a part of one?

The validator is `jsonschema`'s. It is imported on first use: tools are called long after `mule` is
imported, if at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from mule.values.jsontext import JsonObject, JsonValue

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_MAX_REFERENCES: Final = 32
"""References that lead to references; more than these go round in a circle."""


class InvalidSchema(ValueError):
    """What should be a JSON schema is none. The text says where."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One keyword of a schema that a value breaks.

    Attributes:
        path: where the value stands in the whole one. keyword: which keyword of `schema`. wanted: what
            the keyword says. value: what was there. message: `jsonschema`'s own words.
        members: for `anyOf` and its like, the breaches of each member that has any.
        is_outermost: whether the value is the one that the member (or the whole schema) was asked about.
    """

    path: tuple[str | int, ...]
    keyword: str
    wanted: Any
    value: Any
    schema: Mapping[str, Any]
    message: str
    members: tuple[tuple[Breach, ...], ...] = ()
    is_outermost: bool = True


class CompiledSchema:
    """A schema that was checked, and its validator."""

    def __init__(self, schema: JsonObject) -> None:
        self.schema = schema
        self._validator = _validator(schema)
        self._parts: dict[int, Validator] = {}

    def breaches(self, value: JsonValue) -> Iterator[Breach]:
        """Where a value breaks the schema; nothing where it is valid."""
        return map(_breach, self._validator.iter_errors(value))

    def accepts(self, part: object, value: JsonValue) -> bool:
        """Whether a value is valid under a part of this schema; references in it go to the whole.

        `part` must belong to the schema, since it is known by its identity.
        """
        validator = self._parts.get(id(part))
        if validator is None:
            validator = self._parts[id(part)] = self._validator.evolve(schema=part)
        return validator.is_valid(value)

    def followed(self, part: object) -> JsonObject:
        """A part of the schema, or what it refers to within the schema; `{}` where that is no object."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(part, Mapping):
                return {}
            reference = part.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return part
            part = self._at(reference[1:])
        return {}

    def _at(self, pointer: str) -> object:
        found: object = self.schema
        for key in pointer.split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found


def _breach(error: Any) -> Breach:
    members: dict[object, list[Breach]] = {}
    for inner in error.context:
        members.setdefault(inner.schema_path[0], []).append(_breach(inner))
    return Breach(
        path=tuple(error.absolute_path),
        keyword=str(error.validator),
        wanted=error.validator_value,
        value=error.instance,
        schema=error.schema if isinstance(error.schema, Mapping) else {},
        message=error.message,
        members=tuple(map(tuple, members.values())),
        is_outermost=not error.relative_path,
    )


def _validator(schema: JsonObject) -> Validator:
    from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    any_format = FormatChecker(formats=())  # a pattern need not be one of Python's
    named = validator_for(schema, default=Draft202012Validator)
    try:
        named.check_schema(dict(schema), format_checker=any_format)  # type: ignore[call-arg]  # in each class
    except SchemaError as problem:
        if "$schema" in schema:
            raise InvalidSchema(_where(problem.absolute_path, problem.message)) from None
        # Without a name it may be of an older dialect, where `items` could be a list.
        try:
            Draft7Validator.check_schema(dict(schema), format_checker=any_format)
        except SchemaError:
            raise InvalidSchema(_where(problem.absolute_path, problem.message)) from None
        named = Draft7Validator
    return _lenient_about_patterns(named)(schema)


def _where(path: Iterable[object], message: str) -> str:
    return f"{'.'.join(map(str, path)) or 'the schema'}: {message}"


@cache
def _lenient_about_patterns(kind: type[Validator]) -> type[Validator]:
    """The same, but a pattern in a dialect that Python cannot read is not checked."""
    from jsonschema.validators import extend

    lenient: type[Validator] = extend(kind, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # its stubs
    return lenient


def _pattern(_validator: Any, pattern: str, value: object, _schema: object) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(value, str):
        return
    try:
        matches = re.search(pattern, value)
    except re.error:
        return
    if not matches:
        yield ValidationError(f"{value!r} does not match {pattern!r}")
