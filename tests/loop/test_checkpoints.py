"""What a host persists of a call: before its first side effect, and before anybody hears its result."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import anyio
import pytest

from loop.runs import Ear, asked, call, error_of, outcome_of
from mule.effect import (
    MessageStart,
    MuleEvent,
    MuleToolRejection,
    MuleToolResult,
    Settled,
    Started,
    ToolCheckpointed,
    ToolResultMessage,
    run,
)
from mule.testing import Fail, ScriptedTool, answer, hang, pause, progress, tool_call_answer


def checkpoints(ear: Ear) -> list[Started | Settled]:
    return [event.checkpoint for event in ear.heard if isinstance(event, ToolCheckpointed)]


async def test_a_call_begins_only_once_its_checkpoint_is_on_disk() -> None:
    log: list[str] = []

    def react(event: MuleEvent) -> Awaitable[None] | None:
        if event.type == "tool_execution_end":
            log.append("result told")
        if not isinstance(event, ToolCheckpointed):
            return None

        async def write() -> None:
            await anyio.sleep(1)
            log.append(f"{event.checkpoint.type} on disk")

        return write()

    look = ScriptedTool("look", [lambda: log.append("side effect"), MuleToolResult.text("open")])
    ear = Ear(react)
    await outcome_of(asked([tool_call_answer(call("look")), "Done."], look.tool), ear)
    assert log == ["started on disk", "side effect", "settled on disk", "result told"]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_both_checkpoints_of_a_call_name_it_and_its_place(mode: str) -> None:
    ear = Ear()
    look = ScriptedTool("look")
    calls = [call("look", "same"), call("look", "same"), call("look", "other")]
    input = asked([tool_call_answer(*calls, text="I look."), "Done."], look.tool, tool_execution=mode)
    await outcome_of(input, ear)
    told = sorted((c.index, c.type, c.call.id) for c in checkpoints(ear))
    # The place among the calls, whatever else the message holds.
    assert told == [(i, kind, c.id) for i, c in enumerate(calls) for kind in ("settled", "started")]


async def test_a_settled_call_has_the_very_message_that_the_transcript_gets() -> None:
    ear = Ear()
    look = ScriptedTool("look", MuleToolResult(terminate=True, details={"since": 9}))
    await outcome_of(asked([tool_call_answer(call("look"))], look.tool), ear)
    (settled,) = (c for c in checkpoints(ear) if isinstance(c, Settled))
    told = [e.value for e in ear.heard if isinstance(e, MessageStart)]
    assert settled.result is told[-1]
    assert settled.terminate is True
    assert settled.result.details == {"since": 9}


@pytest.mark.parametrize("step", [Fail("fog"), RuntimeError("fog")])
async def test_a_call_that_fails_is_settled_too(step: Any) -> None:
    ear = Ear()
    await outcome_of(asked([tool_call_answer(call("look")), "Done."], ScriptedTool("look", step).tool), ear)
    started, settled = checkpoints(ear)
    assert isinstance(started, Started)
    assert isinstance(settled, Settled)
    assert (settled.result.is_error, settled.result.text, settled.terminate) == (True, "fog", False)


@pytest.mark.parametrize(
    "asks",
    [
        tool_call_answer(call("none", "x")),
        tool_call_answer(call("look", "x").with_(arguments_error="not JSON")),
        tool_call_answer(call("look", "x")),
        answer(call("look", "x"), stop_reason="length"),
    ],
    ids=["unknown", "not JSON", "rejected", "cut off"],
)
async def test_a_call_that_never_ran_is_settled_and_was_not_started(asks: Any) -> None:
    ear = Ear()
    look = ScriptedTool("look", reject=lambda _call: MuleToolRejection("not_authorized", "No."))
    await outcome_of(asked([asks, "Done."], look.tool), ear)
    (settled,) = checkpoints(ear)
    assert isinstance(settled, Settled)
    assert settled.result.is_error
    assert ear.story[ear.story.index("settled x") - 1] == "tool_execution_start x"


async def test_the_calls_of_a_batch_are_settled_as_each_ends() -> None:
    ear = Ear()
    slow = ScriptedTool("slow", [pause(30), progress("half"), MuleToolResult.text("slow")])
    quick = ScriptedTool("quick", [pause(10), MuleToolResult.text("quick")])
    await outcome_of(
        asked([tool_call_answer(call("slow"), call("quick")), "Done."], slow.tool, quick.tool), ear
    )
    order = [entry for entry in ear.story if entry.split()[0] in ("started", "settled")]
    assert order == ["started slow", "started quick", "settled quick", "settled slow"]
    # A result that is settled is not held back by a call that still runs.
    assert ear.story.index("settled quick") < ear.story.index("tool_execution_update slow")


async def test_a_tool_does_not_run_where_its_checkpoint_could_not_be_written() -> None:
    def refuse(event: MuleEvent) -> None:
        if isinstance(event, ToolCheckpointed):
            raise OSError("disk full")

    look = ScriptedTool("look")
    await error_of(asked([tool_call_answer(call("look"))], look.tool), Ear(refuse))
    assert look.runs == []


async def test_a_cancelled_call_is_started_and_not_settled() -> None:
    """Its result is not invented: the host knows that the outcome is unknown."""
    ear = Ear()
    look = ScriptedTool("look", [hang])
    done = ScriptedTool("done")
    with anyio.move_on_after(1):
        await run(asked([tool_call_answer(call("look"), call("done"))], look.tool, done.tool), ear)
    kinds = [(c.type, c.call.id) for c in checkpoints(ear)]
    assert sorted(kinds) == [("settled", "done"), ("started", "done"), ("started", "look")]
    results = [m.tool_call_id for m in ear.end.outcome.messages if isinstance(m, ToolResultMessage)]
    assert results == ["done"]
    assert [run.cleaned_up for run in look.runs] == [True]
