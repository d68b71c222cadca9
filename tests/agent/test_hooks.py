"""What each hook of an agent loop is given, what it may change, and what its failure means."""

from __future__ import annotations

from typing import Any

import pytest

from agent.agents import ASK, Ear, call, perform, results_of, said, text_result, tool
from mule.agent import (
    AbortController,
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentEnd,
    AgentEvent,
    AgentLoopConfig,
    AgentLoopTurnUpdate,
    AgentRequestUpdate,
    AgentToolResult,
    AgentTurnContext,
    AgentTurnDecision,
    BeforeToolCallContext,
    BeforeToolCallResult,
    PrepareRequestContext,
    run_agent_loop,
    run_agent_loop_continue,
)
from mule.effect import (
    HookFailed,
    InvalidInput,
    ListenerFailed,
    MuleError,
    SimpleStreamOptions,
    SystemMessage,
    TextContent,
    UserMessage,
)
from mule.testing import SCRIPTED_MODEL, ScriptedModel, answer, error_answer, tool_call_answer
from mule.transcript.tooling import current_tools

LOOK = tool_call_answer(call("look", where="north"))
OTHER = SCRIPTED_MODEL.with_(id="scripted-2")


def raising(exc: BaseException) -> Any:
    def hook(*_: object) -> Any:
        raise exc

    return hook


def raising_later(exc: BaseException) -> Any:
    async def hook(*_: object) -> Any:
        raise exc

    return hook


# --- sync or async


@pytest.mark.parametrize("manner", ["sync", "async"])
async def test_every_hook_may_be_sync_or_async(manner: str) -> None:
    called: list[str] = []

    def hook(name: str, value: Any = None) -> Any:
        def plain(*_: object) -> Any:
            called.append(name)
            return value

        async def later(*args: object) -> Any:
            return plain(*args)

        return plain if manner == "sync" else later

    ear = Ear()
    new = await perform(
        [LOOK, "Open."],
        tool("look"),
        ear=ear,
        convert_to_llm=hook("convert", ASK),
        transform_context=hook("transform", ASK),
        get_api_key=hook("key", "k"),
        get_steering_messages=hook("steering", []),
        get_follow_up_messages=hook("follow-ups"),
        prepare_next_turn=hook("next turn"),
        prepare_request=hook("request"),
        finish_turn=hook("finish"),
        should_stop_after_turn=hook("stop?", False),
        before_tool_call=hook("before"),
        after_tool_call=hook("after"),
    )
    request = ["request", "transform", "convert", "key"]
    assert called == [
        "steering",
        *request,
        *["before", "after", "finish", "stop?", "steering"],
        *["next turn", "steering"],
        *request,
        *["finish", "stop?", "steering", "follow-ups"],
    ]
    assert new[-1].text == "Open."


# --- what their failure means

FATAL = (
    "convert_to_llm",
    "transform_context",
    "get_api_key",
    "get_steering_messages",
    "get_follow_up_messages",
    "prepare_next_turn",
    "prepare_request",
    "finish_turn",
    "should_stop_after_turn",
)


@pytest.mark.parametrize("make", [raising, raising_later])
@pytest.mark.parametrize("name", FATAL)
async def test_a_hook_that_raises_fails_the_loop_and_the_listener_hears_its_end(
    name: str, make: Any
) -> None:
    cause, ear = RuntimeError("the weather"), Ear()
    with pytest.raises(MuleError) as raised:
        await perform([LOOK, "Open."], tool("look"), ear=ear, **{name: make(cause)})
    error = raised.value
    assert error.reason == HookFailed(name)
    assert error.__cause__ is cause
    assert error.outcome is not None
    assert ear.kinds.count("agent_end") == 1
    end = ear.heard[-1]
    assert isinstance(end, AgentEnd)
    assert end.messages == error.outcome.new_messages


NONSENSE = [
    ("convert_to_llm", "text"),
    ("convert_to_llm", None),
    ("convert_to_llm", [{"role": "user"}]),
    ("transform_context", 7),
    ("get_api_key", 7),
    ("get_steering_messages", 7),
    ("get_follow_up_messages", True),
    ("prepare_next_turn", "text"),
    ("prepare_request", 7),
    ("finish_turn", "end"),
]


@pytest.mark.parametrize(("name", "value"), NONSENSE)
async def test_a_hook_that_gives_nonsense_has_failed(name: str, value: Any) -> None:
    hook: dict[str, Any] = {name: lambda *_: value}
    with pytest.raises(MuleError) as raised:
        await perform([LOOK, "Open."], tool("look"), **hook)
    assert raised.value.reason == HookFailed(name)
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("make", [raising, raising_later])
@pytest.mark.parametrize("name", ["before_tool_call", "after_tool_call"])
async def test_a_hook_around_a_call_that_raises_is_an_error_result(name: str, make: Any) -> None:
    new = await perform([LOOK, "Open."], tool("look"), **{name: make(RuntimeError("not today"))})
    assert results_of(new) == [("look", True, "not today")]
    assert new[-1].text == "Open."


@pytest.mark.parametrize("name", [*FATAL, "before_tool_call", "after_tool_call"])
async def test_ctrl_c_out_of_a_hook_is_nobodys_failure(name: str) -> None:
    ear = Ear()
    with pytest.raises(KeyboardInterrupt):
        await perform([LOOK, "Open."], tool("look"), ear=ear, **{name: raising(KeyboardInterrupt())})
    assert ear.kinds[-1] == "agent_end"


# --- around a tool call


async def test_before_a_call_the_hook_sees_checked_arguments_and_may_change_them() -> None:
    seen: list[BeforeToolCallContext[Any]] = []
    ran: list[Any] = []
    controller = AbortController()

    def before(context: BeforeToolCallContext[Any], signal: Any) -> None:
        assert signal is controller.signal
        seen.append(context)
        context.args["where"] = "south"
        context.args["times"] = "many"  # not checked again

    async def look(id: str, params: Any, signal: Any, _update: Any) -> AgentToolResult[Any]:
        assert signal is controller.signal
        ran.append((id, dict(params)))
        return text_result("open")

    schema = {
        "type": "object",
        "properties": {"where": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["where"],
    }
    asks = tool_call_answer(call("look", "a", where="north", times="3"))
    ear = Ear()
    new = await perform(
        [asks, "Open."],
        tool("look", look, parameters=schema),
        ear=ear,
        controller=controller,
        before_tool_call=before,
    )
    assert ran == [("a", {"where": "south", "times": "many"})]
    (context,) = seen
    assert context.tool_call == asks.content[0]
    assert context.assistant_message is new[2]
    assert context.context.messages == new[:3]
    # Events and transcript show what the model said.
    assert asks.content[0].arguments == {"where": "north", "times": "3"}
    (start,) = (e for e in ear.heard if e.type == "tool_execution_start")
    assert start.args == {"where": "north", "times": "3"}


@pytest.mark.parametrize("reason", [None, "Not on Sundays."])
async def test_a_blocked_call_does_not_run(reason: str | None) -> None:
    ran: list[str] = []

    async def look(*_: object) -> Any:
        ran.append("look")

    after: list[Any] = []
    new = await perform(
        [LOOK, "Open."],
        tool("look", look),
        before_tool_call=lambda *_: BeforeToolCallResult(block=True, reason=reason),
        after_tool_call=lambda context, _signal: after.append(context),
    )
    ((_, is_error, text),) = results_of(new)
    assert is_error
    assert text == reason if reason else "blocked" in text
    assert (ran, after) == ([], [])


async def test_a_block_may_end_the_run() -> None:
    new = await perform(
        [LOOK], tool("look"), before_tool_call=lambda *_: BeforeToolCallResult(block=True, terminate=True)
    )
    assert new[-1].role == "toolResult"


async def test_a_decision_that_does_not_block_lets_it_run() -> None:
    new = await perform(
        [LOOK, "Open."], tool("look"), before_tool_call=lambda *_: BeforeToolCallResult(reason="fine")
    )
    assert results_of(new) == [("look", False, "ok")]


async def test_after_a_call_the_hook_sees_the_result_and_replaces_it_field_by_field() -> None:
    seen: list[AfterToolCallContext[Any]] = []

    def after(context: AfterToolCallContext[Any], _signal: Any) -> AfterToolCallResult:
        seen.append(context)
        return AfterToolCallResult(content=(TextContent(text="shut"),), is_error=True)

    async def look(*_: object) -> AgentToolResult[Any]:
        return text_result("open", details={"since": 9}, structured_content={"open": True})

    ear = Ear()
    new = await perform([LOOK, "Open."], tool("look", look), ear=ear, after_tool_call=after)
    assert results_of(new) == [("look", True, "shut")]
    (message,) = (m for m in new if m.role == "toolResult")
    assert message.details == {"since": 9}
    (context,) = seen
    assert (context.result.details, context.is_error, context.args) == (
        {"since": 9},
        False,
        {"where": "north"},
    )
    (end,) = (e for e in ear.heard if e.type == "tool_execution_end")
    assert end.result.structured_content is None  # it was about the old content
    assert end.is_error


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (AfterToolCallResult(), "details", {"since": 9}),
        (AfterToolCallResult(details={}), "details", {}),
        (AfterToolCallResult(structured_content={"open": False}), "structured_content", {"open": False}),
        (AfterToolCallResult(), "structured_content", {"open": True}),
        (AfterToolCallResult(content=()), "content", ()),
        (AfterToolCallResult(terminate=True), "terminate", True),
    ],
)
async def test_a_field_that_the_hook_leaves_out_stays(change: Any, field: str, value: Any) -> None:
    async def look(*_: object) -> AgentToolResult[Any]:
        return text_result("open", details={"since": 9}, structured_content={"open": True})

    ear = Ear()
    await perform([LOOK, "Open."], tool("look", look), ear=ear, after_tool_call=lambda *_: change)
    (end,) = (e for e in ear.heard if e.type == "tool_execution_end")
    assert getattr(end.result, field) == value


async def test_the_hook_sees_a_tool_that_raised_and_may_mend_it() -> None:
    async def look(*_: object) -> Any:
        raise RuntimeError("fog")

    seen: list[tuple[bool, Any]] = []

    def after(context: AfterToolCallContext[Any], _signal: Any) -> AfterToolCallResult:
        seen.append((context.is_error, context.result.content))
        return AfterToolCallResult(content=(TextContent(text="open"),), is_error=False)

    new = await perform([LOOK, "Open."], tool("look", look), after_tool_call=after)
    assert seen == [(True, (TextContent(text="fog"),))]
    assert results_of(new) == [("look", False, "open")]


@pytest.mark.parametrize("given", [None, "open", 7, {"content": []}])
async def test_a_tool_that_gives_no_result_has_failed(given: Any) -> None:
    async def look(*_: object) -> Any:
        return given

    new = await perform([LOOK, "Open."], tool("look", look))
    ((_, is_error, text),) = results_of(new)
    assert is_error
    assert "without giving a result" in text


@pytest.mark.parametrize("content", ["open", (7,), [None]])
async def test_a_tool_whose_result_is_nonsense_has_failed(content: Any) -> None:
    async def look(*_: object) -> Any:
        return AgentToolResult(content=content)

    new = await perform([LOOK, "Open."], tool("look", look))
    ((_, is_error, text),) = results_of(new)
    assert is_error
    assert "texts and images" in text
    assert new[-1].text == "Open."


async def test_updates_are_told_before_the_hook_and_late_ones_are_not_told() -> None:
    log: list[str] = []
    late: list[Any] = []

    async def look(_id: str, _params: Any, _signal: Any, update: Any) -> AgentToolResult[Any]:
        update(text_result("1"))
        update(text_result("2"))
        late.append(update)
        return text_result("open")

    def after(*_: object) -> None:
        log.append("after")
        late[0](text_result("3"))

    ear = Ear(lambda event: log.append("update") if event.type == "tool_execution_update" else None)
    await perform([LOOK, "Open."], tool("look", look), ear=ear, after_tool_call=after)
    late[0](text_result("4"))
    assert log == ["update", "update", "after"]


# --- what is sent


async def test_what_is_sent_may_be_changed_and_the_transcript_is_not() -> None:
    given: list[Any] = []

    def transform(messages: Any, _signal: Any) -> Any:
        given.append(tuple(messages))
        return [*messages[:-1], said("Only this.")]

    model = ScriptedModel(["Yes."])
    new = await perform(model, transform_context=transform)
    assert given == [ASK]
    assert model.requests[0].context.messages == (said("Only this."),)
    assert new[0] == ASK[0]


async def test_messages_of_a_hosts_own_are_converted_where_the_model_is_called() -> None:
    note = {"role": "note", "text": "The tide is low."}

    def convert(messages: Any) -> Any:
        return [
            UserMessage(content=message["text"], timestamp=2) if isinstance(message, dict) else message
            for message in messages
        ]

    model, ear = ScriptedModel(["Yes."]), Ear()
    new = await perform(model, ear=ear, prompts=(note, *ASK), convert_to_llm=convert)
    assert new[0] is note
    assert [m.content for m in model.requests[0].context.messages] == ["The tide is low.", ASK[0].content]
    starts = [event.message for event in ear.heard if event.type == "message_start"]
    assert starts[0] is note


async def test_without_conversion_a_model_is_told_of_what_it_knows() -> None:
    note = {"role": "note", "text": "The tide is low."}
    model = ScriptedModel(["Yes."])
    new = await perform(model, prompts=(note, *ASK))
    assert model.requests[0].context.messages == ASK
    assert new[0] is note


@pytest.mark.parametrize(("given", "sent"), [("new", "new"), (None, "old"), ("", "old")])
async def test_the_key_of_each_call(given: Any, sent: str) -> None:
    model = ScriptedModel(["Yes."])
    providers: list[str] = []

    def key(provider: str) -> Any:
        providers.append(provider)
        return given

    await perform(model, get_api_key=key, options=SimpleStreamOptions(api_key="old"))
    assert model.requests[0].options.api_key == sent
    assert providers == ["scripted"]


async def test_the_signal_of_the_loop_is_that_of_its_requests() -> None:
    controller, own = AbortController(), AbortController()
    for loops, sent in ((controller, controller.signal), (None, own.signal)):
        model = ScriptedModel(["Yes."])
        await perform(model, controller=loops, options=SimpleStreamOptions(signal=own.signal))
        assert model.requests[0].options.signal is sent


@pytest.mark.parametrize(
    ("reasoning", "in_options", "sent"),
    [("off", None, None), ("low", "high", "low"), ("off", "high", "high")],
)
async def test_how_much_to_think(reasoning: Any, in_options: Any, sent: Any) -> None:
    model = ScriptedModel(["Yes."])
    options = SimpleStreamOptions(reasoning=in_options)
    new = await perform(model, reasoning=reasoning, options=options)
    assert model.requests[0].options.reasoning == sent
    assert new[-1].thinking_level == (sent or "off")


# --- between turns


async def test_immediately_before_a_request_model_level_and_transcript_may_change() -> None:
    seen: list[PrepareRequestContext[Any]] = []

    def prepare(context: PrepareRequestContext[Any], _signal: Any) -> AgentRequestUpdate[Any] | None:
        seen.append(context)
        if len(seen) > 1:
            return None
        return AgentRequestUpdate(
            context=AgentContext(messages=(said("Start over."),), tools=context.context.tools),
            model=OTHER,
            thinking_level="high",
        )

    model = ScriptedModel([LOOK, "Open."])
    new = await perform(model, tool("look"), prepare_request=prepare)
    assert [context.model.id for context in seen] == ["scripted-1", "scripted-2"]
    assert [context.thinking_level for context in seen] == ["off", "high"]
    assert [request.model.id for request in model.requests] == ["scripted-2"] * 2  # for the rest of the run
    assert model.requests[0].context.messages == (said("Start over."),)
    assert [m.thinking_level for m in new if m.role == "assistant"] == ["high", "high"]


async def test_thinking_may_be_turned_off_though_the_options_ask_for_it() -> None:
    model = ScriptedModel(["Yes."])
    await perform(
        model,
        options=SimpleStreamOptions(reasoning="high"),
        prepare_request=lambda *_: AgentRequestUpdate(thinking_level="off"),
    )
    assert model.requests[0].options.reasoning is None


async def test_before_the_next_turn_tools_and_transcript_may_change_and_messages_be_added() -> None:
    seen: list[AgentTurnContext[Any]] = []

    def prepare(turn: AgentTurnContext[Any]) -> AgentLoopTurnUpdate[Any]:
        seen.append(turn)
        return AgentLoopTurnUpdate(
            context=AgentContext(messages=[*turn.context.messages], tools=[tool("ring", "rung")]),
            messages=[said("Ring now.")],
        )

    model = ScriptedModel([LOOK, tool_call_answer(call("ring")), "Done."])
    new = await perform(model, tool("look"), prepare_next_turn=prepare)
    assert len(seen) == 2
    assert seen[0].message is next(m for m in new if m.role == "assistant")
    assert [m.role for m in seen[0].tool_results] == ["toolResult"]
    assert results_of(new) == [("look", False, "ok"), ("ring", False, "rung")]
    sent = model.requests[1].context.messages
    assert [t.name for t in current_tools(sent)] == ["ring"]
    assert sent[-1] == said("Ring now.")


async def test_the_context_of_an_update_is_not_written_into() -> None:
    kept = [said("Start over.")]

    def prepare(turn: AgentTurnContext[Any]) -> AgentLoopTurnUpdate[Any]:
        return AgentLoopTurnUpdate(context=AgentContext(messages=kept, tools=turn.context.tools))

    await perform([LOOK, "Done."], tool("look"), prepare_next_turn=prepare)
    assert kept == [said("Start over.")]


@pytest.mark.parametrize(("action", "answers"), [("end", 1), ("continue", 2), (None, 1)])
async def test_a_turn_may_be_the_last_or_have_one_more(action: Any, answers: int) -> None:
    decisions = iter([AgentTurnDecision(action) if action else None, None])
    model = ScriptedModel(["Yes.", "And more."])
    new = await perform(model, finish_turn=lambda *_: next(decisions))
    assert len(model.requests) == answers
    assert sum(m.role == "assistant" for m in new) == answers


async def test_a_verdict_to_end_stops_a_run_that_would_go_on() -> None:
    model = ScriptedModel([LOOK])
    asked: list[str] = []
    new = await perform(
        model,
        tool("look"),
        finish_turn=lambda *_: AgentTurnDecision("end"),
        get_follow_up_messages=lambda: asked.append("follow-ups"),
    )
    assert new[-1].role == "toolResult"
    assert asked == []


async def test_the_host_may_stop_after_a_turn() -> None:
    new = await perform([LOOK], tool("look"), should_stop_after_turn=lambda _turn: True)
    assert new[-1].role == "toolResult"


async def test_after_a_failed_answer_the_turn_is_finished_and_nothing_is_asked() -> None:
    called: list[str] = []

    def note(name: str, value: Any = None) -> Any:
        def hook(*_: object) -> Any:
            called.append(name)
            return value

        return hook

    new = await perform(
        [error_answer("503")],
        get_steering_messages=note("steering", []),
        get_follow_up_messages=note("follow-ups", []),
        finish_turn=note("finish", AgentTurnDecision("continue")),
        should_stop_after_turn=note("stop?", False),
        prepare_next_turn=note("next turn"),
    )
    assert called == ["steering", "finish"]
    assert new[-1].stop_reason == "error"  # returned, not raised


# --- the listener


async def test_a_listener_may_be_sync_or_async_and_give_anything() -> None:
    async def later(_event: AgentEvent[Any]) -> None:
        return None

    for listener in (lambda _event: None, lambda _event: 17, later):
        ear = Ear(listener)
        await perform(["Yes."], ear=ear)
        assert ear.kinds[-1] == "agent_end"


@pytest.mark.parametrize("kind", ["agent_start", "message_update", "tool_execution_end", "agent_end"])
@pytest.mark.parametrize("make", [raising, raising_later])
async def test_a_listener_that_raises_fails_the_loop_and_hears_no_more(kind: str, make: Any) -> None:
    cause = RuntimeError("full")
    ear = Ear(lambda event: make(cause)() if event.type == kind else None)
    with pytest.raises(MuleError) as raised:
        await perform([LOOK, "Open."], tool("look"), ear=ear)
    assert isinstance(raised.value.reason, ListenerFailed)
    assert raised.value.__cause__ is cause
    assert ear.kinds[-1] == kind


async def test_the_events_are_pis_ten() -> None:
    async def look(_id: str, _params: Any, _signal: Any, update: Any) -> AgentToolResult[Any]:
        update(text_result("half"))
        return text_result("open")

    ear = Ear()
    new = await perform([LOOK, "Open."], tool("look", look), ear=ear)
    assert set(ear.kinds) == {
        "agent_start",
        "agent_end",
        "turn_start",
        "turn_end",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
    }
    end = ear.heard[-1]
    assert isinstance(end, AgentEnd)
    assert tuple(end.messages) == new
    updates = [event for event in ear.heard if event.type == "message_update"]
    assert [event.message.text for event in updates][-1] == "Open."


# --- the context that is given


async def test_the_context_is_left_as_it_was() -> None:
    messages: list[Any] = [said("Good morning."), answer("Good morning.")]
    context = AgentContext(messages=messages, tools=[tool("look")])
    model = ScriptedModel([LOOK, "Open."])
    new = await run_agent_loop(ASK, context, AgentLoopConfig(model=SCRIPTED_MODEL), Ear(), None, model)
    assert len(messages) == 2
    assert model.requests[0].context.messages[:2] == tuple(messages)
    assert [m.role for m in new] == ["system", "user", "assistant", "toolResult", "assistant"]


async def test_continuing_answers_what_the_context_ends_with() -> None:
    ear = Ear()
    context = AgentContext(messages=ASK)
    config = AgentLoopConfig(model=SCRIPTED_MODEL)
    new = await run_agent_loop_continue(context, config, ear, None, ScriptedModel(["Yes."]))
    assert [m.role for m in new] == ["assistant"]
    assert ear.kinds[:3] == ["agent_start", "turn_start", "message_start"]


@pytest.mark.parametrize("messages", [(), (*ASK, answer("Yes."))])
async def test_there_must_be_something_to_continue(messages: tuple[Any, ...]) -> None:
    ear, model = Ear(), ScriptedModel(["Yes."])
    config = AgentLoopConfig(model=SCRIPTED_MODEL)
    with pytest.raises(MuleError) as raised:
        await run_agent_loop_continue(AgentContext(messages=messages), config, ear, None, model)
    assert isinstance(raised.value.reason, InvalidInput)
    assert (ear.heard, model.requests) == ([], [])


@pytest.mark.parametrize(
    "config",
    [
        {"max_parallel_tools": 0},
        {"max_parallel_tools": -1},
        {"max_parallel_tools": "2"},
        {"tool_execution": "at once"},
    ],
)
async def test_settings_that_say_nothing_are_refused(config: dict[str, Any]) -> None:
    ear, model = Ear(), ScriptedModel(["Yes."])
    with pytest.raises(MuleError) as raised:
        await perform(model, tool("look"), ear=ear, **config)
    assert isinstance(raised.value.reason, InvalidInput)
    assert raised.value.reason.field == f"config.{next(iter(config))}"
    assert (ear.heard, model.requests) == ([], [])


async def test_two_tools_of_one_name_are_refused() -> None:
    ear, model = Ear(), ScriptedModel(["Yes."])
    with pytest.raises(MuleError) as raised:
        await perform(model, tool("look"), tool("look"), ear=ear)
    assert isinstance(raised.value.reason, InvalidInput)
    assert "look" in str(raised.value)
    assert (ear.heard, model.requests) == ([], [])


async def test_two_tools_of_one_name_are_refused_of_a_hook_too() -> None:
    def prepare(turn: AgentTurnContext[Any]) -> AgentLoopTurnUpdate[Any]:
        tools = [tool("look"), tool("look")]
        return AgentLoopTurnUpdate(context=AgentContext(messages=turn.context.messages, tools=tools))

    with pytest.raises(MuleError) as raised:
        await perform([LOOK, "Open."], tool("look"), prepare_next_turn=prepare)
    assert raised.value.reason == HookFailed("prepare_next_turn")


async def test_a_tool_without_parameters_of_its_own_is_declared_as_it_is() -> None:
    new = await perform(["Yes."], tool("look"))
    announced = new[0]
    assert isinstance(announced, SystemMessage)
    assert announced.tools_added is not None
    assert announced.tools_added[0].parameters == {"type": "object", "properties": {}}
