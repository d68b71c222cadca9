"""Do a tool call's arguments fit the tool's JSON schema, and if not, what should the model be told?

Models write `"5"` for 5 and null for what they leave out. Such slips are put right where the schema
leaves no doubt about what was meant (`mule.transcript.coercion`); everything else is refused, with a
text that a model can act on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mule.transcript.coercion import coerce, drop_optional_nulls, plain_copy
from mule.transcript.schemas import Breach, CompiledSchema
from mule.values.jsontext import JsonValue, dump_json
from mule.values.tools import Tool

_COMPILED: Final = "compiled schema"
_SHOWN_PROBLEMS: Final = 20
_SHOWN_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class ArgumentProblem:
    """One value that does not fit.

    `path` is dotted, positions in lists as numbers, empty for the arguments as a whole. `expected` and
    `got` are phrases; `got` is empty where there is nothing to show.
    """

    path: str
    expected: str
    got: str = ""

    def __str__(self) -> str:
        got = f", got {self.got}" if self.got else ""
        return f"{self.path or 'the arguments'}: expected {self.expected}{got}"


class ArgumentsError(ValueError):
    """Arguments do not fit their schema. Its text is written for the model that made them."""

    def __init__(self, tool: str, problems: tuple[ArgumentProblem, ...]) -> None:
        super().__init__(tool, problems)
        self.tool = tool
        self.problems = problems

    def __str__(self) -> str:
        lines = [f"- {problem}" for problem in self.problems[:_SHOWN_PROBLEMS]]
        if len(self.problems) > len(lines):
            lines.append(f"- and {len(self.problems) - len(lines)} more")
        listed = "\n".join(lines)
        return (
            f'The arguments for "{self.tool}" do not fit its parameters, so it was not run:\n'
            f"{listed}\nCall it again with these mended."
        )


def validate_tool_arguments(tool: Tool[Any], arguments: JsonValue) -> dict[str, Any]:
    """The arguments as the tool's schema has them: checked, slips mended, in containers of their own.

    The arguments given stay as they are.

    Raises:
        ArgumentsError: they do not fit; it says where, what was expected, and what came.
        InvalidSchema: the tool's own schema is none.
    """
    compiled = _compiled(tool)
    mended = plain_copy(arguments)
    drop_optional_nulls(mended, compiled.schema, compiled)
    mended = coerce(mended, compiled.schema, compiled)
    problems = tuple(dict.fromkeys(_problems(compiled.breaches(mended))))
    if not isinstance(mended, dict) and not problems:
        problems = (ArgumentProblem("", "object", _shown(mended)),)
    if problems or not isinstance(mended, dict):
        raise ArgumentsError(tool.name, problems)
    return mended


def _compiled(tool: Tool[Any]) -> CompiledSchema:
    known = tool.memo.get(_COMPILED)
    if isinstance(known, CompiledSchema):
        return known
    compiled = CompiledSchema(tool.parameters)
    tool.memo[_COMPILED] = compiled
    return compiled


def _problems(breaches: Iterable[Breach]) -> Iterator[ArgumentProblem]:
    for breach in breaches:
        match breach.keyword:
            case "required":
                yield from _missing_keys(breach)
            case "additionalProperties" if breach.wanted is False:
                yield from _unknown_keys(breach)
            case "anyOf" | "oneOf":
                yield from _union_problems(breach)
            case _:
                yield ArgumentProblem(_dotted(breach.path), _expected(breach), _shown(breach.value))


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))


def _missing_keys(breach: Breach) -> Iterator[ArgumentProblem]:
    for key in breach.wanted:
        if key not in breach.value:
            yield ArgumentProblem(_dotted((*breach.path, key)), "a value, since it is required")


def _unknown_keys(breach: Breach) -> Iterator[ArgumentProblem]:
    known = breach.schema.get("properties", {})
    names = ", ".join(known) or "none"
    for key in breach.value:
        if key not in known:
            yield ArgumentProblem(_dotted((*breach.path, key)), f"no such parameter (there are: {names})")


def _union_problems(breach: Breach) -> Iterator[ArgumentProblem]:
    """What is wrong with the one member that has the right type; else what the members are."""
    near = [found for found in breach.members if not any(map(_is_another_kind, found))]
    if len(near) == 1:
        yield from _problems(near[0])
        return
    expected = " or ".join(dict.fromkeys(map(_member, breach.wanted)))
    yield ArgumentProblem(_dotted(breach.path), expected, _shown(breach.value))


def _is_another_kind(breach: Breach) -> bool:
    return breach.is_outermost and breach.keyword in ("type", "const", "enum")


def _member(schema: object) -> str:
    if isinstance(schema, Mapping):
        for keyword in ("const", "enum", "type"):
            if keyword in schema:
                return _EXPECTED[keyword].format(_listed(schema[keyword], keyword))
    return "another form that its schema allows"


_EXPECTED: Final[Mapping[str, str]] = {
    "type": "{}",
    "const": "{}",
    "enum": "one of {}",
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "a string that matches the pattern {}",
    "format": "a string of the format {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "uniqueItems": "items that are all different",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}


def _expected(breach: Breach) -> str:
    if breach.keyword in _EXPECTED:
        return _EXPECTED[breach.keyword].format(_listed(breach.wanted, breach.keyword))
    return f"a value that fits ({_cut(breach.message)})"


def _listed(wanted: JsonValue, keyword: str) -> str:
    if isinstance(wanted, list) and keyword == "type":
        return " or ".join(map(str, wanted))
    if isinstance(wanted, list) and keyword == "enum":
        return ", ".join(map(_json, wanted))
    return str(wanted) if keyword == "type" else _json(wanted)


def _shown(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {_json(value)}"
    if isinstance(value, int | float):
        return f"number {_json(value)}"
    if isinstance(value, str):
        return f"string {_cut(_json(value))}"
    return f"{'object' if isinstance(value, Mapping) else 'array'} {_cut(_json(value))}"


def _json(value: JsonValue) -> str:
    return dump_json(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
