"""The idle limit of a run counts events of the provider, not bytes, and not the whole answer's time."""

from __future__ import annotations

import anyio
from returns.pipeline import is_successful

from adapters.calling import simple
from adapters.serving import ScriptedTransport, bare_environment
from field.reported import FieldCase, context_of, exchanges_of, model_of, options_json
from field.test_exchanges import mismatches
from mule.effect import ModelFailed, MuleRunInput, run, settle
from mule.transcript.retry import is_retryable_assistant_error


async def test_an_idle_limit_ends_silence_and_nothing_else(timing_case: FieldCase) -> None:
    transport = ScriptedTransport(exchanges_of(timing_case))
    input = MuleRunInput(
        model=model_of(timing_case),
        prompts=context_of(timing_case).messages,
        options=simple(options_json(timing_case), fetch=transport),
        model_stream_idle_timeout_ms=timing_case.content["options"]["idle_timeout_ms"],
    )
    with bare_environment():
        result = await settle(run(input))
    if is_successful(result):
        message = result.unwrap().final
    else:
        reason = result.failure().reason
        assert isinstance(reason, ModelFailed)
        assert reason.ending == "stalled"
        message = reason.message
    assert message is not None
    assert mismatches(timing_case.expect["result"], message) == []
    assert transport.left_open == 0
    assert anyio.current_time() <= timing_case.limit_s
    if timing_case.says("classified as retryable"):
        assert is_retryable_assistant_error(message)
