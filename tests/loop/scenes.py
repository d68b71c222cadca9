"""Runs to be disturbed: each is a small world with a place in it that waits.

A scene is made anew for every try. What its listener heard, and what its tools and streams did, is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from returns.future import FutureResult
from returns.result import Result, Success

from mule.effect import (
    MuleError,
    MuleEvent,
    MulePreparedTool,
    MuleRunInput,
    MuleTool,
    MuleToolExecutionPart,
    MuleToolProgress,
    MuleToolRejection,
    MuleToolResult,
    Tool,
    ToolCall,
    UserMessage,
    done,
    run,
)
from mule.testing import SCRIPTED_MODEL, ScriptedAnswer, ScriptedModel, answer, tool_call_answer

ASK = (UserMessage(content="Is the bridge open?", timestamp=1),)


def future(work: Callable[[], Awaitable[Any]]) -> FutureResult[Any, MuleError]:
    """A hook's container around an async function that cannot fail."""

    async def go() -> Result[Any, MuleError]:
        return Success(await work())

    return FutureResult(go())


@dataclass
class Scene:
    """One run, and what was seen of it."""

    input: MuleRunInput
    model: ScriptedModel
    slow_listener: bool = False
    slow_events: frozenset[str] = frozenset()
    heard: list[MuleEvent] = field(default_factory=list)
    dealt_with: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    def listen(self, event: MuleEvent) -> FutureResult[None, MuleError]:
        """Keep the event; take some time over the last, and where the scene is about the listener."""
        self.heard.append(event)
        if self.slow_listener or event.type in self.slow_events or event.type == "run_end":
            return future(lambda: self._deal_with(event))
        self.dealt_with.append(event.type)
        return done

    async def _deal_with(self, event: MuleEvent) -> None:
        await pause()
        self.dealt_with.append(event.type)

    async def perform(self) -> object:
        """Run it. The value is what `run` gives."""
        return await run(self.input, self.listen)

    @property
    def ends(self) -> list[str]:
        """The status of every `run_end` that was heard."""
        return [event.status for event in self.heard if event.type == "run_end"]


async def pause() -> None:
    """A wait with three moments in it, two of them at the same time of day."""
    await checkpoint()
    await anyio.sleep(0.01)
    await checkpoint()


def tool(scene_marks: list[str], name: str, *, mode: Any = None, stubborn: bool = False) -> MuleTool:
    """A tool that prepares slowly, reports progress, gives a result, and marks its clean-up."""

    async def execute() -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
        scene_marks.append(f"{name} began")
        try:
            await pause()
            yield Success(MuleToolProgress(details="half"))
            await pause()
            yield Success(MuleToolResult.text(f"{name} done"))
        finally:
            with anyio.CancelScope(shield=True):
                if stubborn:
                    await pause()
                scene_marks.append(f"{name} cleaned up")

    def prepare(_call: ToolCall) -> FutureResult[MulePreparedTool, MuleToolRejection]:
        async def go() -> Result[MulePreparedTool, MuleToolRejection]:
            await checkpoint()
            return Success(MulePreparedTool(execute))

        return FutureResult(go())

    schema = {"type": "object", "properties": {}}
    return MuleTool(
        descriptor=Tool(name=name, description=name, parameters=schema),
        prepare=prepare,
        execution_mode=mode,
    )


def call(name: str, id: str | None = None) -> ToolCall:
    """A call without arguments."""
    return ToolCall(id=id or f"call_{name}", name=name, arguments={})


def _scene(script: Any, **settings: Any) -> Scene:
    model = ScriptedModel(script)
    return Scene(MuleRunInput(model=SCRIPTED_MODEL, prompts=ASK, stream=model, **settings), model)


def first_byte() -> Scene:
    return _scene([ScriptedAnswer(answer("Yes."), delay_ms=20)])


def slow_stream_function() -> Scene:
    scene = _scene(["Yes."])

    async def opened(*request: Any) -> Any:
        await pause()
        return scene.model(*request)

    return replace(scene, input=replace(scene.input, stream=opened))


def in_text() -> Scene:
    return _scene([ScriptedAnswer(answer("Open until nine, then closed."), chunk=4)])


def in_tool_arguments() -> Scene:
    asked = ToolCall(id="c1", name="look", arguments={"where": "the north bridge", "when": "tonight"})
    scene = _scene([ScriptedAnswer(tool_call_answer(asked), chunk=5), "It is open."])
    return replace(scene, input=replace(scene.input, tools=(tool(scene.marks, "look"),)))


def in_listener() -> Scene:
    return replace(_scene([ScriptedAnswer(answer("Yes."), chunk=2)]), slow_listener=True)


def in_sequential_tools() -> Scene:
    scene = _scene([tool_call_answer(call("look"), call("ring")), "Open."], tool_execution="sequential")
    tools = (tool(scene.marks, "look"), tool(scene.marks, "ring"))
    return replace(scene, input=replace(scene.input, tools=tools))


def in_parallel_tools() -> Scene:
    scene = _scene([tool_call_answer(call("look"), call("ring"), call("ask")), "Open."])
    tools = tuple(tool(scene.marks, name) for name in ("look", "ring", "ask"))
    return replace(scene, input=replace(scene.input, tools=tools))


def in_bounded_tools() -> Scene:
    scene = in_parallel_tools()
    return replace(scene, input=replace(scene.input, max_parallel_tools=2))


def in_tool_clean_up() -> Scene:
    scene = _scene([tool_call_answer(call("look")), "Open."])
    return replace(scene, input=replace(scene.input, tools=(tool(scene.marks, "look", stubborn=True),)))


def with_listener_on_tools() -> Scene:
    scene = in_parallel_tools()
    return replace(scene, slow_events=frozenset({"tool_execution_update", "tool_checkpoint"}))


def in_last_event() -> Scene:
    return replace(_scene(["Yes."]), slow_events=frozenset({"run_end"}))


def in_first_event() -> Scene:
    return replace(_scene(["Yes."]), slow_events=frozenset({"run_start"}))


def after_model_failure() -> Scene:
    failed = answer("Half an ans", stop_reason="error", error_message="503 overloaded")
    return replace(_scene([failed]), slow_events=frozenset({"run_end", "message_end"}))


def with_every_hook() -> Scene:
    scene = _scene([tool_call_answer(call("look")), "Open.", "Still open."])
    follow_ups = [[UserMessage(content="And now?", timestamp=2)]]

    def slowly(value: Callable[[], Any]) -> FutureResult[Any, MuleError]:
        async def work() -> Any:
            await pause()
            return value()

        return future(work)

    input = replace(
        scene.input,
        tools=(tool(scene.marks, "look"),),
        system_prompt="Watch the bridge.",
        prepare_system_prompt=lambda: slowly(lambda: "Watch both bridges."),
        resolve_api_key=lambda _provider: slowly(lambda: "key"),
        get_steering_messages=lambda: slowly(list),
        get_follow_up_messages=lambda: slowly(lambda: follow_ups.pop() if follow_ups else []),
        prepare_next_turn=lambda _turn: slowly(lambda: None),
        should_stop_after_turn=lambda _turn: slowly(lambda: False),
    )
    return replace(scene, input=input)


def in_scopes_of_a_tool() -> Scene:
    """A tool that yields inside a group and a timeout of its own, to a listener that takes its time."""
    scene = _scene([tool_call_answer(call("look"), call("ring")), "Open."])

    async def execute() -> AsyncIterator[Result[MuleToolExecutionPart, MuleError]]:
        scene.marks.append("look began")
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep, 0.005)
                with anyio.move_on_after(0.005):
                    yield Success(MuleToolProgress(details="half"))
                    await anyio.sleep(1)
                yield Success(MuleToolProgress(details="timed out"))
            yield Success(MuleToolResult.text("look done"))
        finally:
            scene.marks.append("look cleaned up")

    look = replace(tool(scene.marks, "look"), prepare=lambda _call: _prepared(execute))
    input = replace(scene.input, tools=(look, tool(scene.marks, "ring")))
    return replace(scene, input=input, slow_events=frozenset({"tool_execution_update"}))


def _prepared(
    execute: Callable[[], AsyncIterator[Result[MuleToolExecutionPart, MuleError]]],
) -> FutureResult[MulePreparedTool, MuleToolRejection]:
    async def go() -> Result[MulePreparedTool, MuleToolRejection]:
        return Success(MulePreparedTool(execute))

    return FutureResult(go())


def in_a_generated_stream() -> Scene:
    """A stream whose `__aiter__` is a generator, with clean-up of its own."""
    scene = _scene(["Yes."])

    class Generated:
        def __init__(self, *request: Any) -> None:
            self._inner = scene.model(*request)
            self.result = self._inner.result
            self.aclose = self._inner.aclose

        async def __aiter__(self) -> AsyncIterator[Any]:
            scene.marks.append("stream began")
            try:
                async for event in self._inner:
                    await pause()
                    yield event
            finally:
                scene.marks.append("stream cleaned up")

    return replace(scene, input=replace(scene.input, stream=Generated))


SCENES: dict[str, Callable[[], Scene]] = {
    scene.__name__: scene
    for scene in (
        first_byte,
        slow_stream_function,
        in_text,
        in_tool_arguments,
        in_listener,
        in_first_event,
        in_last_event,
        in_sequential_tools,
        in_parallel_tools,
        in_bounded_tools,
        in_tool_clean_up,
        with_listener_on_tools,
        after_model_failure,
        with_every_hook,
        in_scopes_of_a_tool,
        in_a_generated_stream,
    )
}
