"""What is the model told of what a function returned?"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import cast

from pydantic_core import to_jsonable_python
from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.results import settle
from mule.values.content import ImageContent, TextContent
from mule.values.errors import MuleError, ToolFailed
from mule.values.jsontext import JsonValue, dump_json
from mule.values.tools import MuleToolResult


async def settle_returned(tool: str, returned: object) -> Result[MuleToolResult, MuleError]:
    """The result of what a function gave back: a value, something to await, or a container of either."""
    if isinstance(returned, FutureResult):
        returned = await settle(cast("FutureResult[object, object]", returned))
    elif inspect.isawaitable(returned):
        returned = await returned
    if isinstance(returned, Result):
        result = cast("Result[object, object]", returned)
        if not is_successful(result):
            return Failure(_as_error(tool, result.failure()))
        returned = result.unwrap()
    return Success(as_result(returned))


def _as_error(tool: str, failure: object) -> MuleError:
    return failure if isinstance(failure, MuleError) else MuleError(ToolFailed(tool, str(failure)))


def as_result(value: object) -> MuleToolResult:
    """A returned value as a result.

    None is an empty result, a text is itself, a `MuleToolResult` or content is passed on. Anything else
    is written as JSON and kept as `structured_content`; what JSON spells as a text is just that text.

    Raises:
        ValueError: (pydantic's) the value has no JSON form.
    """
    if isinstance(value, MuleToolResult):
        return value
    if value is None:
        return MuleToolResult()
    if type(value) is str:
        return MuleToolResult.text(value)
    content = _as_content(value)
    if content is not None:
        return MuleToolResult(content=content)
    data: JsonValue = to_jsonable_python(value, inf_nan_mode="null")
    if isinstance(data, str):
        return MuleToolResult.text(data)
    return MuleToolResult(content=(TextContent(text=dump_json(data).decode()),), structured_content=data)


def _as_content(value: object) -> tuple[TextContent | ImageContent, ...] | None:
    items: Sequence[object] = value if isinstance(value, list | tuple) else (value,)
    content = tuple(item for item in items if isinstance(item, TextContent | ImageContent))
    return content if content and len(content) == len(items) else None
