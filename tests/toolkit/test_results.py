"""What a function returns, yields or raises, as the parts of a tool's stream."""

from __future__ import annotations

import datetime
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from functools import partial, wraps
from typing import cast

import anyio
import anyio.from_thread
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError
from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.results import failed, ready, settle
from mule.toolkit import progress, tool
from mule.values.content import ImageContent, TextContent
from mule.values.errors import MuleError, ToolFailed
from mule.values.jsontext import JsonValue
from mule.values.tools import MuleToolExecutionPart, MuleToolProgress, MuleToolResult
from toolkit.calling import call_of, parts_of, result_of, text_of

REQUEST: ContextVar[str] = ContextVar("request")


class Report(BaseModel):
    city: str
    celsius: float


@dataclass
class Reading:
    day: datetime.date
    celsius: float


class Sky(Enum):
    CLEAR = "clear"


REPORT = Report(city="Oslo", celsius=-3.5)
IMAGE = ImageContent(data="AAAA", mime_type="image/png")


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("21 C, sunny", "21 C, sunny", None),
        (None, "", None),
        (3, "3", 3),
        (True, "true", True),
        (1.5, "1.5", 1.5),
        (float("nan"), "null", None),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}', {"a": [1, "é"]}),
        ([], "[]", []),
        (REPORT, '{"city":"Oslo","celsius":-3.5}', {"city": "Oslo", "celsius": -3.5}),
        ([REPORT], '[{"city":"Oslo","celsius":-3.5}]', [{"city": "Oslo", "celsius": -3.5}]),
        (
            Reading(datetime.date(2026, 5, 1), 2.0),
            '{"day":"2026-05-01","celsius":2.0}',
            {"day": "2026-05-01", "celsius": 2.0},
        ),
        (datetime.date(2026, 5, 1), "2026-05-01", None),
        (Sky.CLEAR, "clear", None),
    ],
)
async def test_a_returned_value_is_told_to_the_model(
    value: object, text: str, structured: JsonValue
) -> None:
    @tool
    async def give() -> object:
        """Give."""
        return value

    result = await result_of(give)

    assert text_of(result) == text
    assert result.structured_content == structured
    assert not result.is_error


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (IMAGE, (IMAGE,)),
        ([TextContent(text="a map"), IMAGE], (TextContent(text="a map"), IMAGE)),
    ],
)
async def test_content_is_passed_on(value: object, content: object) -> None:
    @tool
    async def draw() -> object:
        """Draw."""
        return value

    assert (await result_of(draw)).content == content


async def test_a_result_is_passed_on_as_it_is() -> None:
    own = MuleToolResult(details={"ms": 3}, terminate=True)

    @tool
    async def finish() -> MuleToolResult:
        """Finish."""
        return own

    assert await result_of(finish) is own


async def test_what_has_no_json_form_is_a_failure_of_the_tool() -> None:
    @tool
    async def give() -> object:
        """Give."""
        return object()

    with pytest.raises(PydanticSerializationError):
        await result_of(give)


def answered(value: str) -> Result[str, MuleError]:
    return Success(value)


def refused(value: str) -> Result[str, MuleError]:
    return Failure(MuleError(ToolFailed("ask", value)))


def answered_later(value: str) -> FutureResult[str, MuleError]:
    return ready(value)


def refused_later(value: str) -> FutureResult[str, MuleError]:
    return failed(MuleError(ToolFailed("ask", value)))


def refused_in_words(value: str) -> Result[str, str]:
    return Failure(value)


@pytest.mark.parametrize("function", [answered, answered_later])
async def test_the_success_in_a_container_is_the_result(function: Callable[[str], object]) -> None:
    assert text_of(await result_of(tool(function), value="yes")) == "yes"


@pytest.mark.parametrize("function", [refused, refused_later, refused_in_words])
async def test_the_failure_in_a_container_is_a_failure_of_the_tool(
    function: Callable[[str], object],
) -> None:
    made = tool(function, name="ask")
    (part,) = await parts_of(made, call_of(made, value="no"))

    assert not is_successful(part)
    assert part.failure() == MuleError(ToolFailed("ask", "no"))


async def test_an_exception_leaves_the_stream_as_it_is() -> None:
    @tool
    async def crash() -> str:
        """Crash."""
        raise LookupError("no such city")

    @tool
    def crash_in_a_thread() -> str:
        """Crash."""
        raise LookupError("no such city")

    for crashing in (crash, crash_in_a_thread):
        with pytest.raises(LookupError, match="no such city"):
            await result_of(crashing)


async def test_a_plain_function_runs_in_a_worker_thread_with_the_runs_context() -> None:
    REQUEST.set("r-1")

    @tool
    def where() -> list[object]:
        """Where."""
        return [threading.get_ident(), REQUEST.get()]

    thread, request = cast(list[object], (await result_of(where)).structured_content)

    assert thread != threading.get_ident()
    assert request == "r-1"


async def test_a_wrapped_coroutine_function_is_awaited_all_the_same() -> None:
    async def weather(city: str) -> str:
        return f"sunny in {city}"

    @wraps(weather)
    def logged(city: str) -> Awaitable[str]:
        return weather(city)

    assert text_of(await result_of(tool(logged), city="Oslo")) == "sunny in Oslo"
    assert text_of(await result_of(tool(partial(weather), name="weather"), city="Oslo")) == "sunny in Oslo"


async def test_a_generator_shows_progress_and_then_its_result() -> None:
    @tool
    async def search(query: str) -> AsyncIterator[MuleToolProgress | str]:
        """Search."""
        yield progress("looking", details={"at": 1})
        yield progress(details={"at": 2})
        yield f"found {query}"
        yield "never read"

    parts = [part.unwrap() for part in await parts_of(search, call_of(search, query="x"))]

    assert parts == [
        MuleToolProgress(content=(TextContent(text="looking"),), details={"at": 1}),
        MuleToolProgress(details={"at": 2}),
        MuleToolResult.text("found x"),
    ]


async def test_a_generator_is_closed_wherever_its_stream_is_left() -> None:
    closed: list[str] = []

    @tool
    async def search(query: str) -> AsyncIterator[MuleToolProgress | str]:
        """Search."""
        try:
            yield progress("looking")
            yield "found"
        finally:
            closed.append(query)

    await result_of(search, query="read to its result")
    prepared = (await settle(search.prepare(call_of(search, query="left early")))).unwrap()
    stream = cast("AsyncGenerator[Result[MuleToolExecutionPart, MuleError], None]", prepared.execute())
    async with aclosing(stream) as parts:
        await anext(parts)

    assert closed == ["read to its result", "left early"]


async def test_a_coroutine_is_cancelled_where_it_awaits() -> None:
    cancelled = anyio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.move_on_after(1):
        await result_of(wait)

    assert cancelled.is_set()


@pytest.mark.real_io
async def test_a_cancelled_run_waits_for_the_thread_of_a_plain_function() -> None:
    started, finished = threading.Event(), threading.Event()

    @tool
    def work() -> None:
        """Work until told to stop."""
        started.set()
        while not finished.is_set():
            try:
                anyio.from_thread.check_cancelled()
            except BaseException:
                finished.set()
                raise

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(result_of, work)
        await anyio.to_thread.run_sync(started.wait)
        tasks.cancel_scope.cancel()

    assert finished.is_set()


@pytest.mark.real_io
async def test_an_abandoned_thread_goes_on_by_itself() -> None:
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    @tool(abandon_on_cancel=True)
    def work() -> None:
        """Work."""
        started.set()
        release.wait()
        finished.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(result_of, work)
        await anyio.to_thread.run_sync(started.wait)
        tasks.cancel_scope.cancel()

    assert not finished.is_set()
    release.set()
    assert await anyio.to_thread.run_sync(finished.wait, 5)
