"""A run is a lazy value: it composes, begins when it is awaited, and runs once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import anyio
from returns.future import FutureResult
from returns.io import IOFailure, IOSuccess
from returns.pipeline import is_successful

from loop.runs import Ear, asked, outcome_of, said
from mule.effect import (
    MuleEffect,
    MuleError,
    MuleEvent,
    MuleRunInput,
    MuleRunOutcome,
    failed,
    mule_effect,
    ready,
    run,
    settle,
    then,
)
from mule.testing import ScriptedModel, error_answer


def after(input: MuleRunInput, text: str) -> FutureResult[MuleRunOutcome, MuleError]:
    return run(input).bind(
        lambda outcome: run(replace(input, messages=outcome.messages, prompts=(said(text),)))
    )


async def test_nothing_happens_until_the_value_is_awaited() -> None:
    model, ear = ScriptedModel(["Yes."]), Ear()
    value = run(asked(model), ear)
    await anyio.sleep(10)
    assert (model.requests, ear.heard) == ([], [])
    await value
    assert len(model.requests) == 1


async def test_awaiting_it_again_gives_the_same_and_runs_nothing() -> None:
    model, ear = ScriptedModel(["Yes."]), Ear()
    value = run(asked(model), ear)
    first, second = await settle(value), await settle(value)
    assert first.unwrap() is second.unwrap()
    assert len(model.requests) == 1
    assert ear.kinds.count("run_start") == 1


async def test_two_runs_bind() -> None:
    model = ScriptedModel(["Yes.", "Still."])
    outcome = (await settle(after(asked(model), "And now?"))).unwrap()
    assert [m.role for m in outcome.messages] == ["user", "assistant", "user", "assistant"]
    assert len(model.requests) == 2


async def test_after_a_failure_the_next_run_does_not_begin() -> None:
    model = ScriptedModel([error_answer("503"), "Never."])
    result = await settle(after(asked(model), "And now?"))
    assert not is_successful(result)
    assert len(model.requests) == 1


async def test_map_and_lash() -> None:
    text = await run(asked(["Yes."])).map(lambda outcome: outcome.final)
    assert text.map(lambda final: final and final.text) == IOSuccess("Yes.")
    other = run(asked([error_answer("503")])).lash(lambda _error: run(asked(["Then so."])))
    assert (await settle(other)).unwrap().ended == "answered"


async def test_alt_renames_the_failure() -> None:
    renamed = await run(asked([error_answer("503")])).alt(lambda error: type(error.reason).__name__)
    assert renamed == IOFailure("ModelFailed")


async def test_then_joins_with_failures_of_another_kind() -> None:
    def refuse(_outcome: MuleRunOutcome) -> FutureResult[int, str]:
        return FutureResult.from_failure("not today")

    joined = then(run(asked(["Yes."])), refuse)
    assert (await settle(joined)).failure() == "not today"
    stopped = then(run(asked([error_answer("503")])), refuse)
    assert isinstance((await settle(stopped)).failure(), MuleError)


async def test_the_effect_as_a_value_is_the_same_run() -> None:
    effect: MuleEffect = mule_effect
    ear = Ear()
    assert (await settle(effect.run(asked(["Yes."]), ear))).unwrap().ended == "answered"
    assert ear.end.status == "completed"
    assert (await settle(effect.run(asked(["Yes."])))).unwrap().ended == "answered"


async def test_two_runs_side_by_side_keep_to_themselves() -> None:
    ears = [Ear(lambda _event: anyio.sleep(0.001)) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for ear in ears:
            tasks.start_soon(outcome_of, asked(["Yes."]), ear)
    assert len({ear.end.run for ear in ears}) == 3
    for ear in ears:
        assert [event.sequence for event in ear.heard] == list(range(len(ear.heard)))


async def test_a_listener_may_run_another_run() -> None:
    inner = Ear()

    def listen(event: MuleEvent) -> FutureResult[None, MuleError]:
        if event.type != "turn_end":
            return ready(None)
        return run(asked(["Inner."]), inner).map(lambda _outcome: None)

    await outcome_of(asked(["Yes."]), listen)
    assert inner.end.status == "completed"


async def test_a_settled_value_may_be_awaited_by_many_and_never() -> None:
    error = MuleError.from_json({"reason": {"type": "hook_failed", "hook": "x"}})
    shared: FutureResult[int, MuleError] = failed(error)
    failed(error)  # type: ignore[unused-awaitable]  # never awaited, on purpose: no warning
    results = []

    async def wait() -> None:
        results.append((await settle(shared)).failure())

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(wait)
    assert results == [error] * 3


async def test_a_run_can_be_made_a_task_of() -> None:
    coroutine = run(asked(["Yes."])).awaitable()
    on_asyncio = anyio.get_cancelled_exc_class() is asyncio.CancelledError
    result = await (asyncio.create_task(coroutine) if on_asyncio else coroutine)
    assert result.map(lambda outcome: outcome.ended) == IOSuccess("answered")
