"""One call outside of a turn: the steps and hooks of a call of the model, and always an outcome."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agent.agents import ASK, Ear, call, perform, text_result, tool
from mule.agent import (
    AbortController,
    AfterToolCallResult,
    AgentContext,
    AgentLoopConfig,
    AgentTool,
    AgentToolCallOutcome,
    AgentToolResult,
    BeforeToolCallResult,
    run_tool_call,
)
from mule.effect import TextContent, ToolCall
from mule.loop.wording import ABORTED
from mule.testing import SCRIPTED_MODEL, tool_call_answer

ANSWER = tool_call_answer(call("outer"))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def nested(
    asked: ToolCall,
    *tools: AgentTool[Any, Any],
    controller: AbortController | None = None,
    on_update: Any = None,
    **config: Any,
) -> AgentToolCallOutcome:
    return await run_tool_call(
        asked,
        assistant_message=ANSWER,
        context=AgentContext(messages=ASK, tools=tools),
        config=AgentLoopConfig(model=SCRIPTED_MODEL, **config),
        signal=None if controller is None else controller.signal,
        on_update=on_update,
    )


def told(outcome: AgentToolCallOutcome) -> tuple[bool, str]:
    content = outcome.result.content or ()
    return outcome.is_error, "".join(block.text for block in content if isinstance(block, TextContent))


async def test_a_call_that_goes_well() -> None:
    async def look(id: str, params: Any, _signal: Any, _update: Any) -> AgentToolResult[Any]:
        return text_result(f"{id} {params['n']}", details={"deep": 1})

    asked = call("look", "x", n="3")
    outcome = await nested(asked, tool("look", look, parameters=SCHEMA))
    assert told(outcome) == (False, "x 3")
    assert outcome.tool_call is asked
    assert outcome.result.details == {"deep": 1}


async def test_an_unknown_tool() -> None:
    is_error, text = told(await nested(call("none"), tool("look")))
    assert is_error
    assert "none" in text


async def test_arguments_that_do_not_fit() -> None:
    is_error, text = told(await nested(call("look", n="many"), tool("look", parameters=SCHEMA)))
    assert is_error
    assert "n" in text


async def test_the_hooks_see_it() -> None:
    seen: list[Any] = []

    def before(context: Any, _signal: Any) -> None:
        seen.append((context.tool_call.id, context.assistant_message is ANSWER, context.context.messages))

    def after(context: Any, _signal: Any) -> AfterToolCallResult:
        return AfterToolCallResult(content=(TextContent(text=context.result.content[0].text + "!"),))

    outcome = await nested(call("look", "x"), tool("look"), before_tool_call=before, after_tool_call=after)
    assert told(outcome) == (False, "ok!")
    assert seen == [("x", True, ASK)]


async def test_a_block_is_an_outcome() -> None:
    block = BeforeToolCallResult(block=True, reason="Not from inside.")
    outcome = await nested(call("look"), tool("look"), before_tool_call=lambda *_: block)
    assert told(outcome) == (True, "Not from inside.")


@pytest.mark.parametrize("where", ["before_tool_call", "after_tool_call", "prepare_arguments", "execute"])
async def test_whatever_raises_is_an_outcome(where: str) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("fog")

    async def look(*_: object) -> Any:
        return broken() if where == "execute" else text_result("ok")

    shim: dict[str, Any] = {"prepare_arguments": broken} if where == "prepare_arguments" else {}
    hooks: dict[str, Any] = {where: broken} if where.endswith("_call") else {}
    assert told(await nested(call("look"), tool("look", look, **shim), **hooks)) == (True, "fog")


async def test_arguments_may_be_reshaped_before_they_are_checked() -> None:
    async def look(_id: str, params: Any, *_: object) -> AgentToolResult[Any]:
        return text_result(str(params))

    shaped = tool("look", look, parameters=SCHEMA, prepare_arguments=lambda args: {"n": args["number"]})
    assert told(await nested(call("look", number=4), shaped)) == (False, "{'n': 4}")


async def test_what_a_shim_does_to_the_arguments_is_not_done_to_the_call() -> None:
    def shim(args: Any) -> Any:
        args["list"].append("spoiled")
        return args

    asked = call("look", list=[1])
    await nested(asked, tool("look", prepare_arguments=shim))
    assert asked.arguments == {"list": [1]}


async def test_updates_go_to_the_callback_until_the_tool_has_settled() -> None:
    late: list[Any] = []

    async def look(_id: str, _params: Any, _signal: Any, update: Any) -> AgentToolResult[Any]:
        update(text_result("half"))
        late.append(update)
        return text_result("open")

    updates: list[Any] = []
    await nested(call("look"), tool("look", look), on_update=updates.append)
    late[0](text_result("late"))
    assert [update.content[0].text for update in updates] == ["half"]
    await nested(call("look"), tool("look", look))  # nobody listens: fine


async def test_a_callback_that_raises_is_the_tools_trouble() -> None:
    async def look(_id: str, _params: Any, _signal: Any, update: Any) -> AgentToolResult[Any]:
        update(text_result("half"))
        return text_result("open")

    def broken(_partial: object) -> None:
        raise RuntimeError("full")

    assert told(await nested(call("look"), tool("look", look), on_update=broken)) == (True, "full")


async def test_an_abort_ends_it_like_a_call_of_the_model() -> None:
    async def deaf(*_: object) -> Any:
        await anyio.sleep(10)

    controller = AbortController()
    async with anyio.create_task_group() as tasks:

        async def later() -> None:
            await anyio.sleep(1)
            controller.abort()

        tasks.start_soon(later)
        assert told(await nested(call("look"), tool("look", deaf), controller=controller)) == (
            True,
            ABORTED,
        )
    assert anyio.current_time() == pytest.approx(1.1)
    assert told(await nested(call("look"), tool("look"), controller=controller)) == (True, ABORTED)


async def test_a_cancel_goes_through_it() -> None:
    async def deaf(*_: object) -> Any:
        await anyio.sleep(10)

    with anyio.move_on_after(1) as scope:
        await nested(call("look"), tool("look", deaf))
    assert scope.cancelled_caught


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(3)])
async def test_what_ends_the_program_goes_through_it(stop: BaseException) -> None:
    async def look(*_: object) -> Any:
        raise stop

    with pytest.raises(type(stop)):
        await nested(call("look"), tool("look", look))


async def test_a_tool_may_call_another_one_through_it() -> None:
    inner = tool("inner", "from within")

    async def outer(_id: str, _params: Any, signal: Any, _update: Any) -> AgentToolResult[Any]:
        outcome = await run_tool_call(
            call("inner"),
            assistant_message=ANSWER,
            context=AgentContext(tools=(inner,)),
            config=AgentLoopConfig(model=SCRIPTED_MODEL),
            signal=signal,
        )
        return outcome.result

    ear = Ear()
    new = await perform([ANSWER, "Done."], tool("outer", outer), ear=ear)
    assert [m.text for m in new if m.role == "toolResult"] == ["from within"]
    assert ear.calls("tool_execution_start") == ["outer"]  # no events, no messages of the inner one
