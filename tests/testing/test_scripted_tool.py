"""A scripted tool does its steps in order, and knows afterwards how each run ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

import anyio
import pytest
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.results import settle
from mule.testing import Fail, ScriptedTool, ToolStep, hang, pause, progress
from mule.values.content import ToolCall
from mule.values.errors import MuleError, MuleToolRejection, ToolFailed
from mule.values.tools import MuleToolExecutionPart, MuleToolResult

CALL = ToolCall(id="c1", name="weigh", arguments={"shelf": 9})
OK = MuleToolResult.text("ok")

Part = Result[MuleToolExecutionPart, MuleError]


async def execution(tool: ScriptedTool, call: ToolCall = CALL) -> AsyncGenerator[Part, None]:
    prepared = await settle(tool.tool.prepare(call))
    return cast(
        "AsyncGenerator[Part, None]", prepared.unwrap().execute()
    )  # it is one, and we must close it


async def parts_of(tool: ScriptedTool, call: ToolCall = CALL) -> list[Part]:
    async with aclosing(await execution(tool, call)) as parts:
        return [part async for part in parts]


async def test_a_text_is_the_result() -> None:
    tool = ScriptedTool("weigh", "12 kg")
    assert await parts_of(tool) == [Success(MuleToolResult.text("12 kg"))]
    assert tool.calls == [CALL]
    assert [(run.ended, run.cleaned_up) for run in tool.runs] == [("finished", True)]


async def test_steps_come_in_order() -> None:
    gate = anyio.Event()
    began = anyio.current_time()
    tool = ScriptedTool("weigh", [progress("a"), pause(1_500), gate.set, gate.wait, progress("b"), OK])
    assert await parts_of(tool) == [Success(progress("a")), Success(progress("b")), Success(OK)]
    assert anyio.current_time() - began == 1.5


async def test_a_tool_can_fail() -> None:
    tool = ScriptedTool("weigh", Fail("no scale"))
    assert await parts_of(tool) == [Failure(MuleError(ToolFailed("weigh", "no scale")))]
    assert tool.runs[0].ended == "failed"


async def test_a_tool_can_raise() -> None:
    tool = ScriptedTool("weigh", [progress("a"), ZeroDivisionError("x")])
    with pytest.raises(ZeroDivisionError):
        await parts_of(tool)
    assert (tool.runs[0].ended, tool.runs[0].cleaned_up) == ("raised", True)


async def test_a_tool_that_hangs_notes_its_cancel_and_cleans_up() -> None:
    cleaned: list[str] = []

    async def clean_up() -> None:
        await anyio.sleep(1)
        cleaned.append("scale")

    tool = ScriptedTool("weigh", [progress("a"), hang], clean_up=clean_up)
    with anyio.move_on_after(10) as scope:
        await parts_of(tool)
    assert scope.cancelled_caught
    assert [(run.ended, run.cleaned_up) for run in tool.runs] == [("cancelled", True)]
    assert cleaned == ["scale"]


async def test_a_tool_knows_that_its_reader_left() -> None:
    tool = ScriptedTool("weigh", [progress("a"), OK, progress("never")])
    async with aclosing(await execution(tool)) as parts:
        await anext(parts)
        assert tool.runs[0].ended == "running"
    assert (tool.runs[0].ended, tool.runs[0].cleaned_up) == ("closed", True)
    async with aclosing(await execution(tool)) as parts:
        await anext(parts)
        await anext(parts)
    assert tool.runs[1].ended == "finished"


async def test_a_function_decides_by_the_call() -> None:
    tool = ScriptedTool("weigh", lambda call: f"shelf {call.arguments['shelf']}")
    assert await parts_of(tool) == [Success(MuleToolResult.text("shelf 9"))]


async def test_a_function_may_be_async() -> None:
    async def weigh(call: ToolCall) -> list[ToolStep]:
        await anyio.sleep(1)
        return [progress(call.id), OK]

    assert await parts_of(ScriptedTool("weigh", weigh)) == [Success(progress("c1")), Success(OK)]


async def test_a_function_may_be_a_generator_and_is_closed() -> None:
    closed: list[str] = []

    async def weigh(call: ToolCall) -> AsyncIterator[ToolStep]:
        try:
            yield progress(call.id)
            yield OK
        finally:
            closed.append(call.id)

    tool = ScriptedTool("weigh", weigh)
    async with aclosing(await execution(tool)) as parts:
        assert await anext(parts) == Success(progress("c1"))
    assert closed == ["c1"]
    assert await parts_of(tool) == [Success(progress("c1")), Success(OK)]
    assert [run.ended for run in tool.runs] == ["closed", "finished"]


async def test_a_call_can_be_refused() -> None:
    rejection = MuleToolRejection("not_authorized", "ask first")
    tool = ScriptedTool("weigh", reject=lambda call: rejection if call.id == "c1" else None)
    assert (await settle(tool.tool.prepare(CALL))).failure() == rejection
    assert is_successful(await settle(tool.tool.prepare(CALL.with_(id="c2"))))
    assert [call.id for call in tool.prepared] == ["c1", "c2"]
    assert tool.calls == []


def test_the_declaration_is_what_was_said() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"shelf": {"type": "integer"}}}
    tool = ScriptedTool("weigh", description="Weighs.", parameters=schema, replay="safe").tool
    assert tool.descriptor.to_json() == {"name": "weigh", "description": "Weighs.", "parameters": schema}
    assert (tool.replay, tool.execution_mode) == ("safe", None)
