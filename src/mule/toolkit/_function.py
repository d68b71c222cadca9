"""How does a typed Python function become a tool?"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, overload

import anyio.to_thread
from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.ports import MulePreparedTool, MuleTool
from mule.toolkit._docstring import first_paragraph
from mule.toolkit._outcome import as_result, settle_returned
from mule.toolkit._signature import BoundArguments, Parameters
from mule.values.content import TextContent, ToolCall
from mule.values.errors import MuleError, MuleToolRejection
from mule.values.jsontext import JsonValue
from mule.values.tools import MuleToolExecutionPart, MuleToolProgress, Tool

Function: TypeAlias = Callable[..., object]


@overload
def tool(
    function: Function,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Literal["safe", "unsafe"] = "unsafe",
    execution_mode: Literal["parallel", "sequential"] | None = None,
    abandon_on_cancel: bool = False,
) -> MuleTool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Literal["safe", "unsafe"] = "unsafe",
    execution_mode: Literal["parallel", "sequential"] | None = None,
    abandon_on_cancel: bool = False,
) -> Callable[[Function], MuleTool]: ...


def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Literal["safe", "unsafe"] = "unsafe",
    execution_mode: Literal["parallel", "sequential"] | None = None,
    abandon_on_cancel: bool = False,
) -> MuleTool | Callable[[Function], MuleTool]:
    """Make a tool of a function whose parameters have types: `@tool`, `@tool(...)` or `tool(function)`.

    The function may be

    - `async def`: awaited in the run's event loop;
    - an async generator: each `MuleToolProgress` it yields (see `progress`) is shown as it comes, and
      the first other value is the result;
    - a plain `def`: run in a worker thread, so it may block.

    What it returns becomes the result: a `str` is told as it is; a pydantic model, dict, list or number
    is told as JSON and kept as `structured_content`; None is an empty result; a `MuleToolResult`, or
    text and image content, is passed on. A `Result` or `FutureResult` is taken apart. An exception is a
    failure of the tool: the model is told of it, and the run goes on.

    The model's arguments are checked before the function is called, and given to it as the types of its
    annotations (pydantic's lax mode: `"3"` is fine for an int). A call that does not fit is rejected with
    `invalid_arguments`; the text tells the model each place, what was expected and what came.

    Cancelling: a coroutine is cancelled where it awaits. A thread cannot be: the run waits for it, unless
    `abandon_on_cancel` lets it go on by itself, its result dropped. A function that takes long can ask
    `anyio.from_thread.check_cancelled()` now and then.

    Args:
        name: what the model calls it; the function's name otherwise.
        description: what the model reads; the first paragraph of the docstring otherwise. The docs of the
            arguments come from its `Args:` section (Google's style) or from `Field(description=...)`.
        replay: `safe` claims that calling it again does no harm, so it may run again after a crash.
        execution_mode: `sequential` runs every batch with a call of this tool one by one.
        abandon_on_cancel: for a plain `def`: do not wait for its thread when the run is cancelled.

    Raises:
        TypeError: a parameter without a type, `*args`, `**kwargs`, or a function that has no name.

    >>> @tool
    ... async def weather(city: str) -> str:
    ...     '''Tell the weather of a city.'''
    ...     return f"It is sunny in {city}."
    >>> weather.descriptor.name, weather.descriptor.description
    ('weather', 'Tell the weather of a city.')
    >>> weather.descriptor.parameters["properties"]
    {'city': {'type': 'string'}}
    """

    def make(function: Function) -> MuleTool:
        docstring = inspect.getdoc(function) or ""
        parameters = Parameters(function, docstring)
        described = first_paragraph(docstring) if description is None else description
        named = _name(function) if name is None else name
        return MuleTool(
            descriptor=Tool(name=named, description=described, parameters=parameters.json_schema()),
            prepare=_Calls(named, function, parameters, abandon_on_cancel).prepare,
            replay=replay,
            execution_mode=execution_mode,
        )

    return make if function is None else make(function)


def progress(text: str = "", details: JsonValue = None) -> MuleToolProgress:
    """A part that a generator yields on its way: a text for people, `details` for the host.

    >>> progress("half way").content[0].text
    'half way'
    """
    return MuleToolProgress(content=(TextContent(text=text),) if text else (), details=details)


def _name(function: Function) -> str:
    name: object = getattr(function, "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise TypeError(f"{function!r} has no name of its own: give the tool one with name=...")
    return name


@dataclass(frozen=True, slots=True)
class _Calls:
    """Prepares calls of one function."""

    name: str
    function: Function
    parameters: Parameters
    abandon_on_cancel: bool

    def prepare(self, call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
        return FutureResult(self._prepare(call))

    async def _prepare(self, call: ToolCall) -> Result[MulePreparedTool, MuleToolRejection]:
        checked = self.parameters.check(call)
        if not is_successful(checked):
            return Failure(checked.failure())
        bound = functools.partial(_call, self.function, checked.unwrap())
        if _is(inspect.isasyncgenfunction, self.function):
            return Success(MulePreparedTool(lambda: _generated(bound)))
        return Success(MulePreparedTool(lambda: self._returned(bound)))

    async def _returned(
        self, bound: Callable[[], object]
    ) -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
        if _is(inspect.iscoroutinefunction, self.function):
            returned = bound()
        else:
            # Boxed: a decorated coroutine function looks plain, and trio refuses a bare coroutine here.
            (returned,) = await anyio.to_thread.run_sync(
                lambda: (bound(),), abandon_on_cancel=self.abandon_on_cancel
            )
        yield await settle_returned(self.name, returned)


def _call(function: Function, arguments: BoundArguments) -> object:
    return function(*arguments.positional, **arguments.keyword)


def _is(kind: Callable[[object], bool], function: Function) -> bool:
    """Whether a function, or the `__call__` of an object, is of a kind."""
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004  # the method itself


async def _generated(
    bound: Callable[[], object],
) -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
    async with aclosing(cast("AsyncGenerator[object, None]", bound())) as parts:
        async for part in parts:
            if not isinstance(part, MuleToolProgress):
                yield Success(as_result(part))
                return
            yield Success(part)
