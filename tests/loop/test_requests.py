"""What the stream function is given: the prompt, the key, the options, a transcript that can be sent."""

from __future__ import annotations

from typing import Any

import pytest

from loop.runs import ASK, asked, call, error_of, outcome_of, results_of, said
from mule.effect import (
    Message,
    ModelFailed,
    MuleRunInput,
    SimpleStreamOptions,
    SystemMessage,
    TelemetryContext,
    ToolResultMessage,
    ready,
)
from mule.testing import SCRIPTED_MODEL, ScriptedModel, ScriptedTool, answer, tool_call_answer

LOOK = tool_call_answer(call("look"))


def result(id: str, text: str = "open") -> ToolResultMessage:
    return ToolResultMessage.from_json(
        {
            "role": "toolResult",
            "toolCallId": id,
            "toolName": "look",
            "content": [{"type": "text", "text": text}],
        }
    )


def leading(context: Any) -> Any:
    first = context.messages[0]
    assert isinstance(first, SystemMessage)
    return first.content


# --- prompt


async def test_the_prompt_is_prepared_for_each_request_and_stays_out_of_the_transcript() -> None:
    hours = iter(["It is nine.", "It is ten."])
    model = ScriptedModel([LOOK, "Open."])
    look = ScriptedTool("look").tool
    outcome = await outcome_of(
        asked(model, look, system_prompt="Watch.", prepare_system_prompt=lambda: ready(next(hours)))
    )
    assert [leading(request.context) for request in model.requests] == ["It is nine.", "It is ten."]
    first = outcome.messages[0]
    assert isinstance(first, SystemMessage)
    assert first.content == "Watch."
    sent = model.requests[0].context.messages[0]
    assert isinstance(sent, SystemMessage)
    assert sent.tools_added == first.tools_added == (look.descriptor,)


async def test_a_prepared_prompt_leads_where_the_transcript_has_none() -> None:
    model = ScriptedModel(["Yes."])
    outcome = await outcome_of(asked(model, prepare_system_prompt=lambda: ready("It is nine.")))
    assert leading(model.requests[0].context) == "It is nine."
    assert [m.role for m in outcome.messages] == ["user", "assistant"]


# --- key


@pytest.mark.parametrize(
    ("resolved", "given", "sent"),
    [("new", "old", "new"), (None, "old", "old"), ("", "old", "old"), (None, None, None)],
)
async def test_the_key_is_resolved_or_that_of_the_options(resolved: Any, given: Any, sent: Any) -> None:
    model = ScriptedModel(["Yes."])
    asked_for: list[str] = []

    def resolve(provider: str) -> Any:
        asked_for.append(provider)
        return ready(resolved)

    options = SimpleStreamOptions(api_key=given)
    await outcome_of(asked(model, options=options, resolve_api_key=resolve))
    assert model.requests[0].options.api_key == sent
    assert asked_for == ["scripted"]


async def test_the_key_is_resolved_before_each_request() -> None:
    keys = iter(["first", "second"])
    model = ScriptedModel([LOOK, "Open."])
    await outcome_of(
        asked(model, ScriptedTool("look").tool, resolve_api_key=lambda _provider: ready(next(keys)))
    )
    assert [request.options.api_key for request in model.requests] == ["first", "second"]


# --- options


@pytest.mark.parametrize(
    ("reasoning", "in_options", "sent", "stamped"),
    [
        ("off", None, None, "off"),
        ("high", None, "high", "high"),
        ("low", "high", "low", "low"),
        ("off", "high", "high", "high"),
    ],
)
async def test_how_much_to_think(reasoning: Any, in_options: Any, sent: Any, stamped: str) -> None:
    model = ScriptedModel(["Yes."])
    options = SimpleStreamOptions(reasoning=in_options)
    outcome = await outcome_of(asked(model, reasoning=reasoning, options=options))
    assert model.requests[0].options.reasoning == sent
    assert outcome.final is not None
    assert outcome.final.thinking_level == stamped


async def test_options_reach_every_request_as_they_are() -> None:
    model = ScriptedModel([LOOK, "Open."])
    options = SimpleStreamOptions(
        api_key="k", temperature=0.5, max_tokens=7, session_id="s", headers={"x": "y"}, tool_choice="auto"
    )
    await outcome_of(asked(model, ScriptedTool("look").tool, options=options))
    assert [request.options for request in model.requests] == [options, options]
    assert [request.model for request in model.requests] == [SCRIPTED_MODEL, SCRIPTED_MODEL]


async def test_telemetry_of_the_run_is_that_of_its_requests_unless_they_have_their_own() -> None:
    class Telemetry:
        def span(self, *_: Any) -> Any: ...

    run, request = Telemetry(), Telemetry()
    for own, sent in ((None, run), (request, request)):
        model = ScriptedModel(["Yes."])
        telemetry: TelemetryContext = run  # type: ignore[assignment]  # only handed on
        options = SimpleStreamOptions(telemetry_context=own)  # type: ignore[arg-type]  # only handed on
        await outcome_of(asked(model, telemetry=telemetry, options=options))
        given: object = model.requests[0].options.telemetry_context
        assert given is sent


async def test_a_model_is_given_the_very_messages_of_the_transcript() -> None:
    before: tuple[Message, ...] = (said("Good morning."), answer("Good morning."))
    model = ScriptedModel([LOOK, "Open."])
    outcome = await outcome_of(asked(model, ScriptedTool("look").tool, messages=before))
    for request, count in zip(model.requests, (4, 6), strict=True):
        sent = request.context.messages
        assert len(sent) == count
        assert all(a is b for a, b in zip(sent, outcome.messages, strict=False))


# --- results that no call asked for


def diagnostics(message: Any) -> list[tuple[str, str]]:
    found = message.diagnostics or ()
    return [(d.details["kind"], d.details["toolCallId"]) for d in found]


async def test_an_orphaned_result_is_not_sent_and_the_answer_says_so_once() -> None:
    orphan = result("gone")
    model = ScriptedModel([LOOK, "Open."])
    before = (said("Good morning."), orphan, answer("Good morning."))
    outcome = await outcome_of(asked(model, ScriptedTool("look").tool, messages=before))
    for request in model.requests:
        assert orphan not in request.context.messages
    first, second = (m for m in outcome.new_messages if m.role == "assistant")
    assert diagnostics(first) == [("orphaned_tool_result", "gone")]
    assert diagnostics(second) == []
    assert orphan in outcome.messages  # the transcript is the host's


async def test_an_orphan_among_the_prompts_is_no_better() -> None:
    orphan = result("gone")
    model = ScriptedModel(["Yes."])
    outcome = await outcome_of(asked(model, prompts=(orphan, *ASK)))
    assert orphan not in model.requests[0].context.messages
    assert diagnostics(outcome.final) == [("orphaned_tool_result", "gone")]


async def test_an_orphan_that_a_hook_brings_is_no_better() -> None:
    orphan = result("gone")
    for hook in ("get_steering_messages", "get_follow_up_messages"):
        polls = iter(
            [[], [orphan, said("wait")]] if hook == "get_steering_messages" else [[orphan, said("wait")]]
        )
        model = ScriptedModel(["Yes.", "No."])
        outcome = await outcome_of(asked(model, **{hook: lambda polls=polls: ready(next(polls, []))}))
        assert orphan not in model.requests[1].context.messages
        assert diagnostics(outcome.final) == [("orphaned_tool_result", "gone")]


async def test_an_orphan_in_a_transcript_that_a_hook_replaced_is_no_better() -> None:
    orphan = result("gone")
    model = ScriptedModel([LOOK, "Open."])
    outcome = await outcome_of(
        asked(
            model,
            ScriptedTool("look").tool,
            prepare_next_turn=lambda _turn: ready((said("Look again."), orphan)),
        )
    )
    assert orphan not in model.requests[1].context.messages
    assert diagnostics(outcome.final) == [("orphaned_tool_result", "gone")]


async def test_a_result_among_the_prompts_answers_its_call_though_there_are_orphans() -> None:
    """The call is open at the end of the transcript: it must not be given a made-up result before."""
    before = (said("Look."), result("gone"), LOOK)
    model = ScriptedModel(["Open."])
    outcome = await outcome_of(asked(model, messages=before, prompts=(result("look", "wide open"),)))
    assert results_of(model.requests[0].context.messages) == [("look", False, "wide open")]
    assert diagnostics(outcome.final) == [("orphaned_tool_result", "gone")]


async def test_calls_of_a_run_whose_transcript_had_orphans_keep_their_results() -> None:
    model = ScriptedModel([LOOK, "Open."])
    before = (said("Good morning."), result("gone"), answer("Good morning."))
    await outcome_of(asked(model, ScriptedTool("look", "wide open").tool, messages=before))
    assert results_of(model.requests[1].context.messages) == [("look", False, "wide open")]


# --- where there is no stream function


async def test_without_a_stream_function_the_api_of_the_model_is_called() -> None:
    nobody = SCRIPTED_MODEL.with_(api="spoken-by-nobody")
    error = await error_of(MuleRunInput(model=nobody, prompts=ASK))
    assert isinstance(error.reason, ModelFailed)
    assert error.reason.ending == "invalid_request"
    assert "spoken-by-nobody" in str(error)
