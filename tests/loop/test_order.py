"""Law 1: one event at a time, in one order, numbered; nothing runs ahead of the listener."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from returns.result import Success

from loop.runs import ASK, Ear, FakeStream, asked, call, outcome_of, said, tool_of
from loop.scenes import future
from mule.effect import (
    AssistantDone,
    AssistantStart,
    MessageEnd,
    MessageStart,
    MuleEvent,
    MuleIdentityKind,
    MuleToolProgress,
    MuleToolResult,
    TextDelta,
    ToolCall,
    ToolCheckpointed,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    ToolResultMessage,
    Whole,
    ready,
)
from mule.testing import (
    ScriptedAnswer,
    ScriptedTool,
    ToolStep,
    answer,
    pause,
    progress,
    tool_call_answer,
)

PROMPT = ["message_start user", "message_end user"]
TOOLS = ["message_start system", "message_end system"]
TEXT = ["message_start assistant", "text_start", "text_delta", "text_end", "message_end assistant"]
CALL = ["toolcall_start", "toolcall_delta", "toolcall_end"]


def ran(id: str, *between: str) -> list[str]:
    """What is told of a call that ran."""
    return [
        f"tool_execution_start {id}",
        f"started {id}",
        *between,
        f"settled {id}",
        f"tool_execution_end {id}",
    ]


def result(id: str) -> list[str]:
    return [f"message_start result {id}", f"message_end result {id}"]


async def test_a_plain_answer() -> None:
    ear = Ear()
    await outcome_of(asked(["Yes."]), ear)
    assert ear.story == ["run_start", "turn_start", *PROMPT, *TEXT, "turn_end", "run_end completed"]


async def test_a_turn_with_a_tool() -> None:
    ear = Ear()
    look = ScriptedTool("look", [progress("near"), progress("far"), MuleToolResult.text("open")])
    await outcome_of(asked([tool_call_answer(call("look", "a")), "Yes."], look.tool), ear)
    updates = ["tool_execution_update a"] * 2
    asks = ["message_start assistant", *CALL, "message_end assistant"]
    assert ear.story == [
        "run_start",
        "turn_start",
        *TOOLS,
        *PROMPT,
        *asks,
        *ran("a", *updates),
        *result("a"),
        "turn_end",
        "turn_start",
        *TEXT,
        "turn_end",
        "run_end completed",
    ]


async def test_steering_and_follow_ups_come_before_the_next_answer() -> None:
    ear = Ear()
    steering = iter([[said("wait")], [], [said("the gate?")], []])
    follow_ups = iter([[said("one more"), said("another")], []])
    input = asked(
        ["One.", "Two.", "Three."],
        get_steering_messages=lambda: ready(next(steering)),
        get_follow_up_messages=lambda: ready(next(follow_ups)),
    )
    outcome = await outcome_of(input, ear)
    first = ["turn_start", *PROMPT, *PROMPT, *TEXT, "turn_end"]
    second = ["turn_start", *PROMPT, *PROMPT, *TEXT, "turn_end"]
    third = ["turn_start", *PROMPT, *TEXT, "turn_end"]
    assert ear.story == ["run_start", *first, *second, *third, "run_end completed"]
    texts = [m.content for m in outcome.new_messages if m.role == "user"]
    assert texts == [ASK[0].content, "wait", "one more", "another", "the gate?"]


async def test_hooks_are_called_in_their_places() -> None:
    log: list[str] = []

    def note(name: str, value: Any) -> Any:
        log.append(name)
        return ready(value)

    def listen(event: MuleEvent) -> Any:
        if event.type in ("run_start", "turn_start", "turn_end", "run_end", "message_start"):
            log.append(event.type)
        return ready(None)

    look = ScriptedTool("look")
    follow_ups = iter([[said("And now?")], []])
    input = asked(
        [tool_call_answer(call("look")), "Open.", "Still open."],
        look.tool,
        prepare_system_prompt=lambda: note("prompt", "Watch."),
        resolve_api_key=lambda _provider: note("key", None),
        get_steering_messages=lambda: note("steering", []),
        get_follow_up_messages=lambda: note("follow-ups", next(follow_ups)),
        prepare_next_turn=lambda _turn: note("prepare", None),
        should_stop_after_turn=lambda _turn: note("stop?", False),
    )
    await outcome_of(input, listen)
    request = ["prompt", "key", "message_start"]
    assert log == [
        "run_start",
        "turn_start",
        *["message_start"] * 2,  # the tools, the question
        "steering",
        *request,
        "message_start",  # the tool's result
        *["turn_end", "stop?", "steering"],
        *["prepare", "steering", "turn_start"],
        *request,
        *["turn_end", "stop?", "steering", "follow-ups"],
        *["prepare", "turn_start", "message_start"],
        *request,
        *["turn_end", "stop?", "steering", "follow-ups"],
        "run_end",
    ]


async def test_events_are_numbered_and_stamped_by_the_clock_of_the_input() -> None:
    ear = Ear()
    times = iter(range(1_000, 2_000))
    look = ScriptedTool("look", [progress("near"), MuleToolResult.text("open")])
    input = asked([tool_call_answer(call("look")), "Yes."], look.tool, clock=lambda: next(times))
    await outcome_of(input, ear)
    assert [event.sequence for event in ear.heard] == list(range(len(ear.heard)))
    stamps = [event.timestamp for event in ear.heard]
    assert stamps == sorted(stamps)
    assert stamps[0] >= 1_000
    assert stamps[-1] < 2_000


async def test_identities_are_the_hosts_own() -> None:
    counts = dict.fromkeys(("run", "turn", "message", "tool"), 0)

    def ids(kind: MuleIdentityKind) -> str:
        counts[kind] += 1
        return f"{kind} {counts[kind]}"

    ear = Ear()
    input = asked([tool_call_answer(call("look")), "Yes."], ScriptedTool("look").tool, ids=ids)
    outcome = await outcome_of(input, ear)
    assert (outcome.run.kind, outcome.run.id) == ("run", "run 1")
    assert counts == {"run": 1, "turn": 2, "message": 5, "tool": 1}


async def test_ids_are_unique_and_sort_by_time() -> None:
    ear = Ear()
    look = ScriptedTool("look")
    for _ in range(2):
        calls = tool_call_answer(call("look", "a"), call("look", "b"))
        await outcome_of(asked([calls, "Yes."], look.tool), ear)
    seen: dict[str, None] = {}
    for event in ear.heard:
        for kind in ("run", "turn", "message", "tool"):
            identity = getattr(event, kind, None)
            if identity is not None:
                assert identity.kind == kind
                seen.setdefault(identity.id)
    # Ids say their kind first; what follows it sorts by the time they were made.
    times = [id.partition("_")[2] for id in seen]
    assert times == sorted(times)
    assert len(seen) == len(set(seen))


async def test_each_event_names_what_caused_it() -> None:
    ear = Ear()
    look = ScriptedTool("look", [progress("near"), MuleToolResult.text("open")])
    calls = tool_call_answer(call("look", "a"), call("look", "b"))
    await outcome_of(asked([calls, "Yes."], look.tool), ear)
    turns = [event.turn for event in ear.heard if event.type == "turn_start"]
    assert len(set(turns)) == 2
    assert len({event.run for event in ear.heard}) == 1
    open_turn = None
    for event in ear.heard:
        open_turn = event.turn if event.type == "turn_start" else open_turn
        if event.type != "run_start" and event.type != "run_end":
            assert event.turn == open_turn
    asks = next(e for e in ear.heard if isinstance(e, MessageEnd) and e.value.role == "assistant")
    tools = {e.call.id: e.tool for e in ear.heard if isinstance(e, ToolExecutionStart)}
    assert len(set(tools.values())) == 2
    for event in ear.heard:
        if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd):
            assert (event.message, event.tool) == (asks.message, tools[event.call.id])
        if isinstance(event, ToolCheckpointed):
            checkpoint = event.checkpoint
            assert event.message == asks.message
            assert event.tool == checkpoint.tool == tools[checkpoint.call.id]
        if isinstance(event, MessageStart | MessageEnd):
            message = event.value
            of = tools[message.tool_call_id] if isinstance(message, ToolResultMessage) else None
            assert event.tool == of


async def test_a_message_keeps_its_identity_from_start_to_end() -> None:
    ear = Ear()
    await outcome_of(asked([tool_call_answer(call("look")), "Yes."], ScriptedTool("look").tool), ear)
    open_message = None
    closed = []
    for event in ear.heard:
        match event.type:
            case "message_start":
                assert open_message is None
                open_message = event.message
            case "message_update":
                assert event.message == open_message
            case "message_end":
                assert event.message == open_message
                closed.append(open_message)
                open_message = None
            case _:
                pass
    assert len(set(closed)) == len(closed) == 5


async def test_the_listener_has_one_event_at_a_time() -> None:
    inside = 0

    def react(_event: MuleEvent) -> Awaitable[None]:
        async def slowly() -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            await anyio.sleep(0.01)
            inside -= 1

        return slowly()

    ear = Ear(react)
    script: list[ToolStep] = [progress("near"), MuleToolResult.text("open")]
    tools = [ScriptedTool(name, script) for name in ("look", "ring", "ask")]
    calls = tool_call_answer(*(call(tool.name) for tool in tools))
    await outcome_of(asked([calls, "Yes."], *(tool.tool for tool in tools)), ear)
    assert ear.story[-1] == "run_end completed"
    assert anyio.current_time() >= 0.01 * len(ear.heard)


async def test_nothing_is_read_from_the_provider_while_the_listener_works() -> None:
    whole = answer("abc")
    start = AssistantStart(Whole(whole.with_(stop_reason="pending")))
    deltas = [TextDelta(0, letter, Whole(whole.with_(stop_reason="pending"))) for letter in "abc"]
    stream = FakeStream([start, *deltas, AssistantDone("stop", whole)])
    reads: list[tuple[int, int]] = []

    def react(event: MuleEvent) -> Awaitable[None] | None:
        if event.type not in ("message_update",):
            return None

        async def watch() -> None:
            before = stream.reads
            await anyio.sleep(1)
            reads.append((before, stream.reads))

        return watch()

    await outcome_of(asked([], stream=lambda *_request: stream), Ear(react))
    assert reads == [(2, 2), (3, 3), (4, 4)]


async def test_a_tool_is_at_most_one_part_ahead_of_the_listener() -> None:
    given: list[int] = []
    ahead: list[int] = []

    async def execute() -> Any:
        for number in range(4):
            given.append(number)
            yield Success(MuleToolProgress(details=number))
        yield Success(MuleToolResult.text("done"))

    def react(event: MuleEvent) -> Awaitable[None] | None:
        if not isinstance(event, ToolExecutionUpdate):
            return None

        async def watch() -> None:
            await anyio.sleep(1)
            ahead.append(given[-1] - int(str(event.part.details)))

        return watch()

    input = asked([tool_call_answer(call("count")), "Done."], tool_of("count", execute))
    await outcome_of(input, Ear(react))
    assert len(ahead) == 4
    assert max(ahead) <= 1


def paced(name: str, delay_ms: float) -> ScriptedTool:
    return ScriptedTool(name, [pause(delay_ms), MuleToolResult.text(f"{name} done")])


async def test_a_batch_ends_in_completion_order_and_answers_in_source_order() -> None:
    ear = Ear()
    tools = [paced("slow", 30), paced("quick", 10), paced("middling", 20)]
    calls = tool_call_answer(*(call(tool.name) for tool in tools))
    outcome = await outcome_of(asked([calls, "Done."], *(tool.tool for tool in tools)), ear)
    ends = [event.call.id for event in ear.heard if isinstance(event, ToolExecutionEnd)]
    assert ends == ["quick", "middling", "slow"]
    answered = [m.tool_call_id for m in outcome.new_messages if m.role == "toolResult"]
    assert answered == ["slow", "quick", "middling"]
    assert anyio.current_time() == pytest.approx(0.03)


async def test_the_updates_of_a_call_come_before_its_end() -> None:
    ear = Ear(lambda event: anyio.sleep(0.05) if event.type == "tool_execution_update" else None)
    chatty = ScriptedTool("chat", [progress("1"), progress("2"), MuleToolResult.text("x")])
    calls = tool_call_answer(call("chat", "a"), call("chat", "b"))
    await outcome_of(asked([calls, "Done."], chatty.tool), ear)
    for id in ("a", "b"):
        own = [entry for entry in ear.story if entry.endswith(f" {id}")]
        assert own == [*ran(id, *[f"tool_execution_update {id}"] * 2), *result(id)]


async def test_a_whole_batch_is_prepared_before_anything_of_it_runs() -> None:
    log: list[str] = []

    def run(call: ToolCall) -> str:
        log.append(f"run {call.id}")
        return "open"

    look = ScriptedTool("look", run)
    ear = Ear(lambda event: log.append(event.type) if event.type == "tool_execution_start" else None)
    calls = tool_call_answer(call("look", "a"), call("none", "b"), call("look", "c"))
    await outcome_of(asked([calls, "Done."], look.tool), ear)
    assert log[:3] == ["tool_execution_start"] * 3
    assert sorted(log[3:]) == ["run a", "run c"]
    story = ear.story
    # What is refused has ended before the next call is announced.
    assert story.index("tool_execution_end b") < story.index("tool_execution_start c")


async def test_no_more_tools_run_at_once_than_the_bound() -> None:
    running = 0
    most = 0

    async def work(_call: Any) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        return "done"

    ear = Ear()
    tool = ScriptedTool("work", work)
    calls = tool_call_answer(*(call("work", id) for id in "abcde"))
    await outcome_of(asked([calls, "Done."], tool.tool, max_parallel_tools=2), ear)
    assert most == 2
    assert anyio.current_time() == pytest.approx(0.03)
    started = [event for event in ear.story if event.startswith("started")]
    assert started == [f"started {id}" for id in "abcde"]
    # A call counts as started when it gets its place, not before.
    before = ear.story[: ear.story.index("started c")]
    assert "settled a" in before or "settled b" in before


@pytest.mark.parametrize(
    ("settings", "mode"),
    [({"tool_execution": "sequential"}, None), ({}, "sequential")],
    ids=["of the run", "of a tool"],
)
async def test_one_by_one_a_call_is_answered_before_the_next_is_announced(
    settings: dict[str, Any], mode: Any
) -> None:
    ear = Ear()
    first = paced("first", 20)
    second = ScriptedTool("second", "done", execution_mode=mode)
    calls = tool_call_answer(call("first"), call("second"))
    await outcome_of(asked([calls, "Done."], first.tool, second.tool, **settings), ear)
    batch = ear.story[ear.story.index("tool_execution_start first") : ear.story.index("turn_end")]
    assert batch == [*ran("first"), *result("first"), *ran("second"), *result("second")]


async def test_an_answer_without_a_start_is_told_whole() -> None:
    ear = Ear()
    await outcome_of(asked([ScriptedAnswer(answer("Yes."), start=False)]), ear)
    assert ear.story[4:] == [
        "message_start assistant",
        "message_end assistant",
        "turn_end",
        "run_end completed",
    ]
    start, end = (
        e for e in ear.heard if isinstance(e, MessageStart | MessageEnd) and e.value.role == "assistant"
    )
    assert start.value is end.value


async def test_an_answer_starts_once() -> None:
    whole = answer("Yes.")
    start = AssistantStart(Whole(whole.with_(stop_reason="pending")))
    stream = FakeStream([start, start, AssistantDone("stop", whole)])
    ear = Ear()
    outcome = await outcome_of(asked([], stream=lambda *_request: stream), ear)
    assert ear.story.count("message_start assistant") == 1
    assert [m.role for m in outcome.messages] == ["user", "assistant"]


async def test_the_final_message_is_one_object_everywhere() -> None:
    ear = Ear()
    outcome = await outcome_of(asked(["Yes."]), ear)
    end = next(e for e in ear.heard if isinstance(e, MessageEnd) and e.value.role == "assistant")
    assert outcome.final is outcome.messages[-1] is outcome.new_messages[-1] is end.value


async def test_a_listener_without_anything_to_wait_for_is_not_waited_for() -> None:
    """Also one whose container is new each time, and one that shares a container of its own."""
    shared = future(lambda: anyio.lowlevel.checkpoint())
    for listen in (lambda _e: ready(None), lambda _e: shared):
        listener: Callable[[MuleEvent], Any] = listen
        outcome = await outcome_of(asked(["Yes."]), listener)
        assert outcome.ended == "answered"
