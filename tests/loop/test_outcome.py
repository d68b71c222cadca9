"""What a run leaves behind: how it ended, the transcript to continue from, what it added and used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loop.runs import ASK, Ear, asked, call, outcome_of, results_of, said
from mule.effect import (
    DeferredHandle,
    Message,
    MuleCompletedTurn,
    MuleRunOutcome,
    MuleToolResult,
    SystemMessage,
    Usage,
    UsageCost,
    ready,
)
from mule.testing import ScriptedModel, ScriptedTool, answer, tool_call_answer
from mule.transcript.tooling import current_tools

DONE = MuleToolResult(terminate=True)
LOOK = tool_call_answer(call("look"))


def roles(messages: Any) -> list[str]:
    return [message.role for message in messages]


# --- how it ended


async def test_answered_where_the_model_asks_nothing_more() -> None:
    outcome = await outcome_of(asked([LOOK, "Open."], ScriptedTool("look").tool))
    assert (outcome.ended, outcome.turns) == ("answered", 2)
    assert outcome.final is not None
    assert outcome.final.text == "Open."


async def test_terminated_where_every_result_of_a_batch_says_so() -> None:
    calls = tool_call_answer(call("look", "a"), call("look", "b"))
    outcome = await outcome_of(asked([calls], ScriptedTool("look", DONE).tool))
    assert (outcome.ended, outcome.turns) == ("terminated", 1)
    assert roles(outcome.messages)[-2:] == ["toolResult", "toolResult"]


async def test_one_result_that_does_not_say_so_is_enough_to_go_on() -> None:
    look, ring = ScriptedTool("look", DONE), ScriptedTool("ring")
    outcome = await outcome_of(
        asked([tool_call_answer(call("look"), call("ring")), "Open."], look.tool, ring.tool)
    )
    assert (outcome.ended, outcome.turns) == ("answered", 2)


@pytest.mark.parametrize("hook", ["get_steering_messages", "get_follow_up_messages"])
async def test_messages_that_wait_win_over_a_batch_that_terminates(hook: str) -> None:
    polls = iter([[], [said("wait")]] if hook == "get_steering_messages" else [[said("wait")]])
    model = ScriptedModel([LOOK, "Open."])
    outcome = await outcome_of(
        asked(model, ScriptedTool("look", DONE).tool, **{hook: lambda: ready(next(polls, []))})
    )
    assert (outcome.ended, outcome.turns) == ("answered", 2)
    assert model.requests[1].context.messages[-1] == said("wait")


async def test_stopped_where_the_host_says_so() -> None:
    turns: list[MuleCompletedTurn] = []

    def stop(turn: MuleCompletedTurn) -> Any:
        turns.append(turn)
        return ready(turn.index == 1)

    polled: list[int] = []

    def poll() -> Any:
        polled.append(len(turns))
        return ready([])

    script = [tool_call_answer(call("look", id)) for id in "abc"]
    outcome = await outcome_of(
        asked(
            script,
            ScriptedTool("look").tool,
            should_stop_after_turn=stop,
            get_steering_messages=poll,
            get_follow_up_messages=poll,
        )
    )
    assert (outcome.ended, outcome.turns) == ("stopped", 2)
    assert [id for id, _, _ in results_of(outcome.messages)] == ["a", "b"]
    assert max(polled) == 1  # nothing more is polled once it said so


async def test_a_turn_that_is_stopped_after_may_have_terminated_too() -> None:
    outcome = await outcome_of(
        asked([LOOK], ScriptedTool("look", DONE).tool, should_stop_after_turn=lambda _t: ready(True))
    )
    assert outcome.ended == "stopped"


async def test_deferred_where_the_provider_answers_later() -> None:
    handle = DeferredHandle(provider="scripted", model_id="scripted-1", api="scripted", id="later")
    deferred = answer(stop_reason="deferred").with_(deferred=handle)
    outcome = await outcome_of(asked([deferred]))
    assert outcome.ended == "deferred"
    assert outcome.final is not None
    assert outcome.final.deferred == handle


# --- what it used


async def test_usage_is_summed_over_all_answers() -> None:
    first = Usage(input=10, output=2, total_tokens=12, reasoning=1, cost=UsageCost(input=0.5, total=0.5))
    second = Usage(
        input=30, output=4, total_tokens=34, cache_read=7, cost=UsageCost(output=0.25, total=0.25)
    )
    script = [tool_call_answer(call("look"), usage=first), answer("Open.", usage=second)]
    usage = (await outcome_of(asked(script, ScriptedTool("look").tool))).usage
    assert (usage.input, usage.output, usage.total_tokens, usage.cache_read) == (40, 6, 46, 7)
    assert usage.reasoning == 1
    assert (usage.cost.input, usage.cost.output, usage.cost.total) == (0.5, 0.25, 0.75)


# --- the transcript


async def test_what_was_added_and_the_whole_transcript() -> None:
    before: tuple[Message, ...] = (said("Good morning."), answer("Good morning."))
    look = ScriptedTool("look").tool
    outcome = await outcome_of(asked([LOOK, "Open."], look, messages=before))
    assert outcome.messages[:2] == before
    assert outcome.messages[2:] == outcome.new_messages
    assert roles(outcome.new_messages) == ["system", "user", "assistant", "toolResult", "assistant"]
    assert outcome.undelivered == ()


async def test_the_transcript_goes_on_where_it_ended() -> None:
    look = ScriptedTool("look").tool
    model = ScriptedModel([LOOK, "Open.", "Still open."])
    first = asked(model, look)
    outcome = await outcome_of(first)
    again = await outcome_of(replace(first, messages=outcome.messages, prompts=(said("And now?"),)))
    assert roles(again.new_messages) == ["user", "assistant"]  # the tools are declared already
    assert model.requests[2].context.messages == again.messages[:-1]


async def test_the_inputs_own_lists_are_left_as_they_are() -> None:
    messages, prompts = [said("Good morning."), answer("Good morning.")], [*ASK]
    await outcome_of(asked(["Yes."], messages=messages, prompts=prompts))
    assert (len(messages), len(prompts)) == (2, 1)


async def test_a_hook_may_replace_the_transcript_between_turns() -> None:
    summary = said("The bridge was looked at.")
    model = ScriptedModel([LOOK, tool_call_answer(call("look", "b")), "Open."])
    turns: list[MuleCompletedTurn] = []

    def compact(turn: MuleCompletedTurn) -> Any:
        turns.append(turn)
        return ready((summary,) if turn.index == 0 else None)

    look = ScriptedTool("look").tool
    outcome = await outcome_of(asked(model, look, system_prompt="Watch.", prepare_next_turn=compact))
    assert [turn.index for turn in turns] == [0, 1]  # not before the first turn, not after the last
    sent = model.requests[1].context.messages
    assert summary in sent
    assert not results_of(sent)
    assert [m for m in outcome.messages if m.role != "system"][:1] == [summary]
    assert roles(outcome.new_messages).count("toolResult") == 2  # what was added stays what was added
    # The tools are declared anew where the replacement has forgotten them.
    assert [tool.name for tool in current_tools(sent)] == ["look"]
    assert outcome.turns == 3


async def test_hooks_see_the_turn_as_it_was() -> None:
    seen: list[MuleCompletedTurn] = []

    def keep(turn: MuleCompletedTurn) -> Any:
        seen.append(turn)
        return ready(False)

    ear = Ear()
    look = ScriptedTool("look").tool
    input = asked([LOOK, "Open."], look, should_stop_after_turn=keep)
    outcome = await outcome_of(input, ear)
    assert [turn.index for turn in seen] == [0, 1]
    assert roles(seen[0].messages) == ["system", "user", "assistant", "toolResult"]
    assert seen[0].tool_results == seen[0].messages[-1:]
    assert seen[1].tool_results == ()
    assert seen[1].messages == outcome.messages
    assert seen[1].new_messages == outcome.new_messages
    assert [e.completed for e in ear.heard if e.type == "turn_end"] == seen


async def test_an_answer_says_how_much_was_thought_and_how_long_it_took() -> None:
    times = iter(range(0, 10_000, 10))
    outcome = await outcome_of(asked(["Yes."], reasoning="high", clock=lambda: next(times)))
    assert outcome.final is not None
    assert outcome.final.thinking_level == "high"
    assert (outcome.final.duration_ms or 0) > 0


# --- the prompt and the tools


async def test_a_system_prompt_leads_the_transcript_with_the_tools_in_it() -> None:
    look = ScriptedTool("look")
    outcome = await outcome_of(asked(["Yes."], look.tool, system_prompt="Watch the bridge."))
    leading = outcome.messages[0]
    assert isinstance(leading, SystemMessage)
    assert leading.content == "Watch the bridge."
    assert leading.tools_added == (look.tool.descriptor,)
    assert roles(outcome.messages) == ["system", "user", "assistant"]


@pytest.mark.parametrize("given", [None, ""])
async def test_without_a_system_prompt_the_tools_are_announced_before_the_question(
    given: Any,
) -> None:
    look = ScriptedTool("look")
    outcome = await outcome_of(asked(["Yes."], look.tool, system_prompt=given))
    announced = outcome.new_messages[0]
    assert isinstance(announced, SystemMessage)
    assert (announced.content, announced.tools_added) == ("", (look.tool.descriptor,))
    assert outcome.messages == outcome.new_messages


async def test_a_system_prompt_is_ignored_where_the_transcript_begins_with_one() -> None:
    own = SystemMessage(content="Watch the gate.")
    outcome = await outcome_of(asked(["Yes."], messages=(own,), system_prompt="Watch the bridge."))
    assert outcome.messages[0] is own
    assert roles(outcome.messages) == ["system", "user", "assistant"]


async def test_without_tools_and_prompt_nothing_is_announced() -> None:
    outcome = await outcome_of(asked(["Yes."]))
    assert roles(outcome.messages) == ["user", "assistant"]


async def test_tools_that_changed_between_runs_are_announced() -> None:
    look, ring = ScriptedTool("look").tool, ScriptedTool("ring").tool
    first = await outcome_of(asked(["Yes."], look, system_prompt="Watch."))
    then = await outcome_of(asked(["No."], ring, messages=first.messages))
    change = then.new_messages[0]
    assert isinstance(change, SystemMessage)
    assert change.tools_added == (ring.descriptor,)
    assert [gone.name for gone in change.tools_removed or ()] == ["look"]
    assert [tool.name for tool in current_tools(then.messages)] == ["ring"]


async def test_an_announcement_goes_into_a_system_message_that_is_on_its_way() -> None:
    look = ScriptedTool("look").tool
    update = SystemMessage(content="It is night.")
    outcome = await outcome_of(asked(["Yes."], look, prompts=(update, *ASK)))
    assert roles(outcome.messages) == ["system", "user", "assistant"]
    told = outcome.messages[0]
    assert isinstance(told, SystemMessage)
    assert (told.content, told.tools_added) == ("It is night.", (look.descriptor,))


async def test_an_outcome_is_a_value() -> None:
    outcome = await outcome_of(asked(["Yes."], ids=lambda kind: f"{kind} 1", clock=lambda: 7))
    again = await outcome_of(asked(["Yes."], ids=lambda kind: f"{kind} 1", clock=lambda: 7))
    assert outcome == again
    assert isinstance(outcome, MuleRunOutcome)
