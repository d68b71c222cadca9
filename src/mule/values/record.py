"""How does a frozen dataclass become JSON, and JSON the dataclass again?

By its own fields: their names in camelCase, their types deciding what is read. The pydantic values inside
(messages, content, usage) read and write themselves. What a field says about its JSON stands at the field:
`field(metadata=left_out(...))`, `field(metadata=written_by(...))`.

Reading is strict about what is known and deaf to what is not: a field that is missing or of another type is
a `JsonMismatch` that says where, a field that this version does not know is passed over.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from mule.values.base import Value, to_jsonable
from mule.values.jsontext import JsonObject, JsonValue

Read: TypeAlias = Callable[[object], object]
Write: TypeAlias = Callable[[Any], JsonValue]

_LEFT_OUT: Final = "json_left_out"
_WRITE: Final = "json_write"
_LATER: dict[str, object] = {}


class JsonMismatch(ValueError):
    """JSON that is not the form of a value. `field` is the dotted path to the place, empty at the top."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}" if self.field else self.problem

    def under(self, name: str | int) -> JsonMismatch:
        """The same problem, seen from the object or list that holds this one under `name`."""
        return JsonMismatch(f"{name}.{self.field}" if self.field else str(name), self.problem)


def left_out(instead: object) -> Mapping[str, object]:
    """Field metadata: not part of the JSON; `instead` stands for it in a value that was read."""
    return {_LEFT_OUT: instead}


def written_by(write: Write) -> Mapping[str, object]:
    """Field metadata: how a value of this field becomes JSON; None leaves it out."""
    return {_WRITE: write}


def name_later(**names: object) -> None:
    """Tell a name that fields use and their module cannot import, since the import goes the other way."""
    _LATER.update(names)


class Record:
    """A frozen dataclass with a JSON form. A class variable `type`, where it has one, is its tag."""

    __slots__ = ()

    def to_json(self) -> JsonObject:
        """This value as a JSON object. Fields that are None are left out."""
        tag = getattr(type(self), "type", None)
        out: dict[str, JsonValue] = {"type": tag} if isinstance(tag, str) else {}
        for name, alias, write in _written(type(self)):
            value = getattr(self, name)
            written = None if value is None else write(value)
            if written is not None:
                out[alias] = written
        return out

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read a value from its JSON object.

        Raises:
            JsonMismatch: (a ValueError) a field is missing or of the wrong type, or the tag is another's.
        """
        if not isinstance(value, Mapping):
            raise JsonMismatch("", "expected an object")
        tag = getattr(cls, "type", None)
        if isinstance(tag, str) and value.get("type") != tag:
            raise JsonMismatch("type", f"expected {tag!r}")
        return cls(**{name: read(value) for name, read in _read_fields(cls)})


_Written: TypeAlias = tuple[tuple[str, str, Write], ...]
_ReadFields: TypeAlias = tuple[tuple[str, Callable[[Mapping[str, object]], object]], ...]
_WRITTEN: dict[type[Record], _Written] = {}
_READ: dict[type[Record], _ReadFields] = {}


def _written(cls: type[Record]) -> _Written:
    found = _WRITTEN.get(cls)
    if found is None:
        found = _WRITTEN[cls] = tuple(
            (f.name, to_camel(f.name), f.metadata.get(_WRITE, _write))
            for f in _fields(cls)
            if _LEFT_OUT not in f.metadata
        )
    return found


def _write(value: object) -> JsonValue:
    # Nearly every field of an event is one of these, so they come before the general answer.
    if isinstance(value, str | int):
        return value
    if isinstance(value, Record):
        return value.to_json()
    return to_jsonable(value)


def _read_fields(cls: type[Record]) -> _ReadFields:
    found = _READ.get(cls)
    if found is None:
        hints = typing.get_type_hints(cls, localns=_LATER)
        found = _READ[cls] = tuple((f.name, _field_reader(f, hints[f.name])) for f in _fields(cls))
    return found


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _field_reader(
    f: dataclasses.Field[Any], annotation: object
) -> Callable[[Mapping[str, object]], object]:
    if _LEFT_OUT in f.metadata:
        instead: object = f.metadata[_LEFT_OUT]
        return lambda _value: instead
    alias, read, default = to_camel(f.name), _reader(annotation), _default(f)

    def read_field(value: Mapping[str, object]) -> object:
        if alias not in value and default is not None:
            return default()
        try:
            return read(value.get(alias))
        except JsonMismatch as exc:
            raise exc.under(alias) from None

    return read_field


def _default(f: dataclasses.Field[Any]) -> Callable[[], object] | None:
    if f.default_factory is not dataclasses.MISSING:
        return f.default_factory
    if f.default is not dataclasses.MISSING:
        return lambda: f.default
    return None


def _reader(annotation: Any) -> Read:
    """How to read a value of a type; a TypeError for a type that no field has had so far."""
    if annotation is Any:
        return lambda value: value
    if isinstance(annotation, TypeVar):
        return _reader(annotation.__default__)  # type: ignore[attr-defined]  # of typing_extensions' TypeVar
    origin = get_origin(annotation)
    if origin is Literal:
        return _one_of(get_args(annotation))
    if origin in (Union, types.UnionType):
        return _union_reader(get_args(annotation))
    if origin in (tuple, Sequence):
        return _list_reader(_reader(get_args(annotation)[0]))
    if origin in (dict, Mapping):
        return _mapping_reader(_reader(get_args(annotation)[1]))
    if annotation in _PLAIN:
        return _plain_reader(annotation)
    return _object_reader(origin or annotation)


_PLAIN: Final[Mapping[object, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "a text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
}


def _plain_reader(annotation: object) -> Read:
    allowed, called = _PLAIN[annotation]

    def read(value: object) -> object:
        if isinstance(value, allowed) and (annotation is bool or not isinstance(value, bool)):
            return value
        raise JsonMismatch("", f"expected {called}")

    return read


def _one_of(allowed: tuple[object, ...]) -> Read:
    def read(value: object) -> object:
        if any(value == one for one in allowed):
            return value
        raise JsonMismatch("", f"expected one of {', '.join(map(repr, allowed))}")

    return read


def _list_reader(read_item: Read) -> Read:
    def read(value: object) -> object:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise JsonMismatch("", "expected a list")
        items = []
        for index, item in enumerate(value):
            try:
                items.append(read_item(item))
            except JsonMismatch as exc:
                raise exc.under(index) from None
        return tuple(items)

    return read


def _mapping_reader(read_item: Read) -> Read:
    def read(value: object) -> object:
        if not isinstance(value, Mapping):
            raise JsonMismatch("", "expected an object")
        return {str(name): read_item(item) for name, item in value.items()}

    return read


def _object_reader(cls: Any) -> Read:
    if not hasattr(cls, "from_json"):
        raise TypeError(f"{cls!r} cannot be read from JSON")
    from_json = cast(Read, cls.from_json)

    def read(value: object) -> object:
        try:
            return from_json(value)
        except ValidationError as exc:
            raise mismatch_of(exc) from exc

    return read


def mismatch_of(exc: ValidationError) -> JsonMismatch:
    """The first problem of a pydantic value, without the value itself, which may be anybody's secret."""
    first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    return JsonMismatch(".".join(str(step) for step in first["loc"]), first["msg"])


def _union_reader(members: tuple[Any, ...]) -> Read:
    present = tuple(member for member in members if member is not types.NoneType)
    read = _present_reader(present)
    if len(present) == len(members):
        return read
    return lambda value: None if value is None else read(value)


def _present_reader(members: tuple[Any, ...]) -> Read:
    if len(members) == 1:
        return _reader(members[0])
    if set(members) == {int, float}:
        return _reader(float)
    return tagged_reader(members)


def tagged_reader(members: Sequence[Any]) -> Read:
    """How to read a union whose members all have a tag, under `type`, or under `role` for messages."""
    key = "role" if _tag_of(members[0], "type") is None else "type"
    readers = {_tag_of(get_origin(m) or m, key): _object_reader(get_origin(m) or m) for m in members}

    def read(value: object) -> object:
        if not isinstance(value, Mapping):
            raise JsonMismatch("", "expected an object")
        tag = value.get(key)
        found = readers.get(tag) if isinstance(tag, str) else None
        if found is None:
            raise JsonMismatch(key, f"expected one of {', '.join(map(repr, readers))}")
        return found(value)

    return read


def _tag_of(cls: Any, key: str) -> str | None:
    if issubclass(cls, Value):
        found = cls.model_fields.get(key)
        return None if found is None else found.default
    return getattr(cls, key, None)
