"""How the tests of the toolkit call a tool: through its two steps, as the loop does."""

from __future__ import annotations

from returns.pipeline import is_successful
from returns.result import Result

from mule.ports import MuleTool
from mule.results import settle
from mule.values.content import TextContent, ToolCall
from mule.values.errors import MuleError, Rejected
from mule.values.jsontext import JsonObject, JsonValue
from mule.values.tools import MuleToolExecutionPart, MuleToolResult


def call_of(tool: MuleTool, **arguments: JsonValue) -> ToolCall:
    return ToolCall(id="call-1", name=tool.descriptor.name, arguments=arguments)


async def parts_of(tool: MuleTool, call: ToolCall) -> list[Result[MuleToolExecutionPart, MuleError]]:
    prepared = await settle(tool.prepare(call))
    return [part async for part in prepared.unwrap().execute()]


async def result_of(tool: MuleTool, **arguments: JsonValue) -> MuleToolResult:
    parts = await parts_of(tool, call_of(tool, **arguments))
    result = parts[-1].unwrap()
    assert isinstance(result, MuleToolResult)
    return result


async def rejection_of(tool: MuleTool, arguments: JsonObject) -> Rejected:
    call = ToolCall(id="call-1", name=tool.descriptor.name, arguments=arguments)
    prepared = await settle(tool.prepare(call))
    assert not is_successful(prepared)
    return prepared.failure().reason


def text_of(result: MuleToolResult) -> str:
    return "".join(item.text for item in result.content if isinstance(item, TextContent))
