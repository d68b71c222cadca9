"""Law 12: keys show in no repr, no event, no error, no outcome."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest
from returns.pipeline import is_successful
from returns.result import Result

from loop.runs import Ear, asked, call, noted
from mule.effect import (
    HookFailed,
    InvalidInput,
    ModelFailed,
    MuleError,
    MuleRunOutcome,
    SimpleStreamOptions,
    failed,
    ready,
    run,
    settle,
)
from mule.loop.program import ModelCall
from mule.testing import (
    SCRIPTED_MODEL,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedTool,
    answer,
    error_answer,
    tool_call_answer,
)

KEY = "sk-pond-0123456789abcdef"
HEADER = "hk-0123456789abcdef"
OPTIONS = SimpleStreamOptions(
    api_key=KEY, headers={"authorization": f"Bearer {HEADER}"}, env={"POND_API_KEY": KEY}
)


def texts(ear: Ear, result: Result[MuleRunOutcome, MuleError]) -> str:
    """Everything of ours that a host may print or keep. The cause of an error is the host's exception."""
    shown = [repr(result), *(repr(event) for event in ear.heard)]
    shown += [str(event.to_json()) for event in ear.heard]
    if not is_successful(result):
        error = result.failure()
        shown += [str(error), repr(error.reason), repr(error.outcome), str(error.to_json())]
        shown += traceback.format_exception_only(error)
    return "\n".join(shown)


def hidden(text: str) -> bool:
    return KEY not in text and HEADER not in text


FAILED = error_answer("401 who are you?")
EVIDENCE = ModelFailed("authentication", FAILED, 401, {"set-cookie": HEADER, "authorization": KEY})


@pytest.mark.parametrize(
    "script",
    [
        ["Yes."],
        [tool_call_answer(call("look")), "Yes."],
        [FAILED],
        [ScriptedAnswer(FAILED, failure=EVIDENCE)],
        [ScriptedAnswer(answer("Half"), raises=RuntimeError(f"refused {KEY} and Bearer {HEADER}"))],
        [RuntimeError(f"GET https://pond.test/?key={KEY}")],
    ],
)
async def test_a_key_shows_nowhere(script: Any, caplog: pytest.LogCaptureFixture) -> None:
    ear = Ear()
    model = ScriptedModel(script)
    input = asked(model, ScriptedTool("look").tool, options=OPTIONS, resolve_api_key=lambda _p: ready(KEY))
    with caplog.at_level(logging.DEBUG):
        result = await settle(run(input, ear))
    assert model.requests[0].options.api_key == KEY
    assert ear.kinds[-1] == "run_end"
    assert hidden(texts(ear, result))
    assert hidden(caplog.text)


async def test_a_key_that_only_the_hook_knew_shows_nowhere_either() -> None:
    ear = Ear()
    broken = ScriptedAnswer(answer("Half"), raises=RuntimeError(f"refused {KEY}"))
    result = await settle(run(asked([broken], resolve_api_key=lambda _provider: ready(KEY)), ear))
    assert "refused" in texts(ear, result)
    assert hidden(texts(ear, result))


def test_reprs_of_what_holds_a_key() -> None:
    input = asked(["Yes."], options=OPTIONS, system_prompt="Never say the word heron.")
    for value in (input, input.options, ModelCall(SCRIPTED_MODEL, _context(), OPTIONS)):
        assert hidden(repr(value))
    assert "heron" not in repr(input)


def _context() -> Any:
    return None


async def test_what_a_key_hook_fails_with_is_the_cause_and_not_in_the_text() -> None:
    """The cause is the host's own exception, for the host's own logs."""
    cause = MuleError(InvalidInput("key", f"expired: {KEY}"))
    called: list[str] = []
    ear = Ear()
    result = await settle(
        run(
            asked(
                ["Yes."],
                resolve_api_key=lambda _provider: failed(cause),
                prepare_system_prompt=lambda: noted(called, "prompt", "Watch."),
            ),
            ear,
        )
    )
    error = result.failure()
    assert error.reason == HookFailed("resolve_api_key")
    assert error.__cause__ is cause
    assert hidden(f"{error} {error!r} {error.to_json()} {ear.heard!r}")
    assert hidden(str([event.to_json() for event in ear.heard]))
