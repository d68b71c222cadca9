"""The base of every value that meets JSON: frozen, camelCase in JSON, unknown fields kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_origin

from pydantic import BaseModel as PydanticModel
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from mule.values.jsontext import JsonObject, JsonValue

Number = int | float
"""A count, a price or a time stamp: an int stays an int in JSON."""


_TAGS = ("type", "role")


class NullList(tuple[()]):
    """An empty list that came as null from untyped tools or old files, and is written back as null."""


class Memo(dict[object, object]):
    """What was computed from one immutable value; never copied or pickled along with it."""

    def __copy__(self) -> Memo:
        return Memo()

    def __deepcopy__(self, _memo: object) -> Memo:
        return Memo()

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()


class Value(PydanticModel):
    """A frozen value. Field names follow PEP 8, JSON has Pi's camelCase.

    Fields that `mule` does not know are kept and written back unchanged. Equal values compare equal
    whatever order their fields were given in.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        protected_namespaces=(),
        defer_build=True,
    )

    _written_defaults: ClassVar[frozenset[str]] = frozenset()
    """The fields whose default says more than that nothing was given."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls._written_defaults = frozenset(
            name
            for name, field in cls.model_fields.items()
            if not field.is_required() and (field.default is not None or field.default_factory is not None)
        )

    if not TYPE_CHECKING:  # where types are checked, each class has the constructor of its own fields

        def __init__(self, **data: Any) -> None:
            self.__pydantic_validator__.validate_python(data, self_instance=self)
            self.__pydantic_fields_set__.update(self._written_defaults)

        # Values that are read, also those inside others, do not come through here.
        __init__.__pydantic_base_init__ = True

    def to_json(self) -> JsonObject:
        """This value as a JSON object with Pi's names.

        An optional field that was never given is left out; one that was given as null stays null. A value
        that was made by its constructor has its defaults written; one that was read has the fields it came
        with, no more and no fewer.
        """
        given = self.__pydantic_fields_set__
        attributes = self.__dict__
        out: dict[str, JsonValue] = {}
        for name, alias, is_tag in _json_names(type(self)):
            if name in given or is_tag:
                out[alias] = to_jsonable(attributes[name])
        if self.__pydantic_extra__:
            out.update(self.__pydantic_extra__)
        return out

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Read a value from its JSON object.

        Raises:
            ValueError: (pydantic's `ValidationError`) a field is missing or of the wrong type.
        """
        return cls.model_validate(value)

    @cached_property
    def memo(self) -> Memo:
        """Room for what can be computed from this value once, such as its form on a wire."""
        return Memo()

    def __copy__(self) -> Self:
        return self.with_()

    @classmethod
    def made(cls, **fields: Any) -> Self:
        """A value of fields that are typed already, unchecked: for code that makes many.

        Every field without a default must be given, under its own name.
        """
        defaults = _DEFAULTS.get(cls)
        if defaults is None:
            known = cls.model_fields.items()
            defaults = {name: field.default for name, field in known if not field.is_required()}
            _DEFAULTS[cls] = defaults
        value = cls.__new__(cls)
        object.__setattr__(value, "__dict__", {**defaults, **fields})
        object.__setattr__(value, "__pydantic_extra__", {})
        object.__setattr__(value, "__pydantic_fields_set__", {*cls._written_defaults, *fields})
        object.__setattr__(value, "__pydantic_private__", None)
        return value

    def without(self, *names: str) -> Self:
        """A copy in which these optional fields were never given."""
        absent = {name: type(self).model_fields[name].default for name in names}
        copied = self.with_(**absent)
        copied.__pydantic_fields_set__.difference_update(names)
        return copied

    def with_(self, **changes: Any) -> Self:
        """A copy with these fields changed, unchecked: for code that holds typed values already."""
        # What `model_copy` does, at a third of its cost: calls and answers are copied in every turn.
        cls = type(self)
        copied = cls.__new__(cls)
        fields = {**self.__dict__, **changes}
        fields.pop("memo", None)
        extra = self.__pydantic_extra__
        object.__setattr__(copied, "__dict__", fields)
        object.__setattr__(copied, "__pydantic_extra__", None if extra is None else dict(extra))
        object.__setattr__(copied, "__pydantic_fields_set__", {*self.__pydantic_fields_set__, *changes})
        object.__setattr__(copied, "__pydantic_private__", None)
        return copied


_NAMES: dict[type[Value], tuple[tuple[str, str, bool], ...]] = {}
_DEFAULTS: dict[type[Value], dict[str, Any]] = {}


def _json_names(cls: type[Value]) -> tuple[tuple[str, str, bool], ...]:
    names = _NAMES.get(cls)
    if names is None:
        names = _NAMES[cls] = tuple(
            (
                name,
                field.serialization_alias or name,
                get_origin(field.annotation) is Literal and name in _TAGS,
            )
            for name, field in cls.model_fields.items()
        )
    return names


def to_jsonable(value: object) -> JsonValue:
    """A value, or plain data that may hold values, as plain JSON data."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Value):
        return value.to_json()
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, NullList):
        return None
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [to_jsonable(item) for item in value]
    to_json: Callable[[], JsonValue] | None = getattr(value, "to_json", None)
    if to_json is not None:
        return to_json()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def copy_json(value: JsonValue) -> JsonValue:
    """A deep copy of plain JSON data: what is done to it is not done to the original."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value
