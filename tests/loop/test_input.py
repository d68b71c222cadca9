"""An input that cannot run is a typed failure: no event, no hook, no model call."""

from __future__ import annotations

from typing import Any

import pytest

from loop.runs import ASK, Ear, asked, call, error_of, noted, outcome_of, said
from mule.effect import (
    InvalidInput,
    MuleResume,
    NotSupported,
    RetryPolicy,
    SystemMessage,
    ToolResultMessage,
)
from mule.testing import SCRIPTED_MODEL, ScriptedModel, ScriptedTool, answer, tool_call_answer

LOOK = ScriptedTool("look").tool
SYSTEM = SystemMessage(content="Watch the bridge.")

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"tools": (LOOK, ScriptedTool("ring").tool, ScriptedTool("look").tool)}, "tools"),
    ({"tools": (LOOK, "ring")}, "tools.1"),
    ({"tools": (LOOK.descriptor,)}, "tools.0"),
    ({"tools": None}, "tools"),
    ({"prompts": ()}, "prompts"),
    ({"prompts": (), "messages": (SYSTEM,)}, "prompts"),
    ({"prompts": (SYSTEM,)}, "prompts"),
    ({"prompts": (), "messages": (*ASK, answer("Yes."))}, "prompts"),
    ({"prompts": (), "messages": (*ASK, answer("Yes."), SYSTEM)}, "prompts"),
    ({"prompts": (*ASK, answer("Yes."))}, "prompts"),
    ({"prompts": "Is the bridge open?"}, "prompts"),
    ({"prompts": ("Is the bridge open?",)}, "prompts.0"),
    ({"prompts": (*ASK, {"role": "user", "content": "hello"})}, "prompts.1"),
    ({"prompts": None}, "prompts"),
    ({"messages": [*ASK, None]}, "messages.1"),
    ({"messages": "hello"}, "messages"),
    ({"model": None}, "model"),
    ({"model": SCRIPTED_MODEL.to_json()}, "model"),
    ({"tool_execution": "at once"}, "tool_execution"),
    ({"reasoning": "very"}, "reasoning"),
    ({"options": None}, "options"),
    ({"options": {"api_key": "k"}}, "options"),
    ({"max_parallel_tools": 0}, "max_parallel_tools"),
    ({"max_parallel_tools": -1}, "max_parallel_tools"),
    ({"max_parallel_tools": "2"}, "max_parallel_tools"),
    ({"max_parallel_tools": 1.5}, "max_parallel_tools"),
    ({"cancel_grace_ms": -1}, "cancel_grace_ms"),
    ({"cancel_grace_ms": float("inf")}, "cancel_grace_ms"),
    ({"cancel_grace_ms": float("nan")}, "cancel_grace_ms"),
    ({"cancel_grace_ms": None}, "cancel_grace_ms"),
]


@pytest.mark.parametrize(("settings", "field"), INVALID)
async def test_an_input_that_cannot_run_is_refused_before_anything_happens(
    settings: dict[str, Any], field: str
) -> None:
    ear = Ear()
    called: list[str] = []
    model = ScriptedModel(["Yes."])
    hooks: dict[str, Any] = {
        "prepare_system_prompt": lambda: noted(called, "prompt", "x"),
        "get_steering_messages": lambda: noted(called, "steering", []),
        "resolve_api_key": lambda _provider: noted(called, "key", None),
    }
    error = await error_of(asked(model, **hooks, **settings), ear)
    assert isinstance(error.reason, InvalidInput)
    assert error.reason.field == field
    assert error.reason.problem
    assert (error.at, error.outcome) == (None, None)
    assert (ear.heard, called, model.requests) == ([], [], [])


async def test_a_name_that_is_taken_twice_is_named() -> None:
    tools = (ScriptedTool("ring").tool, LOOK, ScriptedTool("ring").tool)
    error = await error_of(asked(["Yes."], *tools))
    assert "ring" in str(error)
    assert "look" not in str(error)


@pytest.mark.parametrize(
    "settings",
    [
        {"retry": RetryPolicy(max_retries=1, base_delay_ms=1)},
        {"resume": MuleResume(message=answer("Yes."), checkpoints=())},
        {"model_stream_idle_timeout_ms": 1_000},
    ],
)
async def test_what_is_not_built_yet_is_not_supported(settings: dict[str, Any]) -> None:
    ear = Ear()
    model = ScriptedModel(["Yes."])
    error = await error_of(asked(model, **settings), ear)
    assert isinstance(error.reason, NotSupported)
    assert next(iter(settings)) in error.reason.what
    assert (ear.heard, model.requests) == ([], [])


RUNS: list[dict[str, Any]] = [
    {"prompts": (), "messages": ASK},
    {"prompts": (), "messages": (*ASK, SYSTEM)},
    {"prompts": [*ASK], "messages": [SYSTEM]},
    {"prompts": (SYSTEM,), "messages": ASK},
    {"prompts": (SYSTEM, *ASK)},
    {"messages": (*ASK, answer("Yes.")), "prompts": (said("And now?"),)},
    {
        "prompts": (),
        "messages": (
            *ASK,
            tool_call_answer(call("look")),
            ToolResultMessage(tool_call_id="look", tool_name="look"),
        ),
    },
    {"max_parallel_tools": 1},
    {"cancel_grace_ms": 0},
    {"model_stream_idle_timeout_ms": None, "retry": None, "resume": None},
]


@pytest.mark.parametrize("settings", RUNS)
async def test_what_has_something_to_answer_runs(settings: dict[str, Any]) -> None:
    outcome = await outcome_of(asked(["Yes."], **settings))
    assert outcome.ended == "answered"
