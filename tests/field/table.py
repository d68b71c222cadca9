"""Which test runs which field case; the one list. A case that nothing can run yet says what it waits for.

`test_table.py` holds this to the files and to what is built: a `later:` whose time has come fails there.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

from returns.result import Result

import mule.agent
from field.reported import FieldCase
from mule.effect import MuleError, MuleRunInput, MuleRunOutcome, NotSupported, run, settle
from mule.testing import run_virtually
from mule.values.model import Model

LATER: Final = "later: "

TABLE: Final[Mapping[str, str]] = {
    "01-same-index-for-two-calls": "exchange",
    "02-id-changes-under-one-index": "exchange",
    "05-arguments-as-object": "exchange",
    "06-empty-arguments-string": "exchange",
    "08-null-chunks-and-choices": "exchange",
    "09-usage-inside-choice": "exchange",
    "11-reasoning-tokens-counted-once": "exchange",
    "12-finish-reason-end": "exchange",
    "14-no-finish-reason-at-all": "exchange",
    "17-content-and-calls-interleaved": "exchange",
    "19-unknown-fields-and-missing-fields": "exchange",
    "20-error-object-in-200-stream": "exchange",
    "22-unicode-line-separators-in-data": "exchange",
    "23-bom-crlf-comments-split-bytes": "exchange",
    "26-request-with-lone-surrogate": "exchange",
    "28-image-only-user-message": "exchange",
    "30-very-long-foreign-ids": "exchange",
    "31-overloaded-in-mid-stream": "later: anthropic-messages",
    "32-ends-before-message-stop": "later: anthropic-messages",
    "34-no-usage-in-message-delta": "later: anthropic-messages",
    "36-stray-done-and-pings": "later: anthropic-messages",
    "37-redacted-thinking-kept": "later: anthropic-messages",
    "39-signature-of-another-model": "later: anthropic-messages",
    "40-orphans-after-abort": "later: anthropic-messages",
    "43-refusal-with-reason": "later: anthropic-messages",
    "44-arguments-cut-then-completed": "later: openai-responses",
    "45-incomplete-by-length": "later: openai-responses",
    "47-response-failed-tells-why": "later: openai-responses",
    "49-null-content-in-message-item": "later: openai-responses",
    "51-call-from-another-model": "later: openai-responses",
    "52-malformed-function-call": "later: google-generative-ai",
    "53-call-and-finish-in-two-chunks": "later: google-generative-ai",
    "57-prompt-blocked": "later: google-generative-ai",
    "59-cached-tokens-google": "later: google-generative-ai",
    "60-hard-schema-google": "later: google-generative-ai",
    "64-mistral-finish-error": "later: mistral-conversations",
    "65-mistral-empty-assistant": "later: mistral-conversations",
    "66-bedrock-blank-texts": "later: bedrock-converse-stream",
    "70-codex-error-event": "later: openai-codex-responses",
    "72-keep-alives-only": "later: the idle limit",
    "74-slow-but-alive": "later: the idle limit",
    "75-abort-while-waiting-to-retry": "abort",
    "76-retry-after-table": "pure",
    "78-retryable-table": "pure",
    "80-abort-in-a-parallel-batch": "loop",
    "81-one-of-three-raises": "loop",
    "83-steer-in-mid-batch": "loop",
    "85-length-stop-with-calls": "loop",
    "86-bad-arguments-go-back": "loop",
    "89-leave-the-iteration-early": "loop",
    "91-continue-after-error-answer": "loop",
    "93-tool-raises-the-cancel-exception": "loop",
    "94-follow-up-at-the-end": "later: the Agent",
    "96-hundred-thousand-deltas": "later: anthropic-messages",
    "98-key-in-url-and-errors": "later: google-generative-ai",
    "101-cancelled-stream-gives-connection-back": "give-back",
}

IN_PLACE_OF: Final = frozenset({"98-key-in-url-and-errors"})
"""Cases of a later API whose kind is held to already, on `openai-completions`."""


def run_by(case: FieldCase) -> str:
    """Which test runs a case: as the table says, or by its kind where the case is nobody's we know."""
    return TABLE.get(case.id) or _by_kind(case)


def _by_kind(case: FieldCase) -> str:
    match case.kind:
        case "provider" | "request":
            return "exchange"
        case "cancel" if "model_script" in case.content:
            return "loop"
        case "cancel":
            given = {action["do"] for action in case.content.get("actions", ())}
            return "abort" if "abort" in given else "give-back"
        case "resume":
            return "loop"
        case other:
            return other  # loop, pure, timing, load, secret


def is_built(feature: str) -> bool:
    """Is there an adapter for this API, or this feature of the loop?"""
    if feature == "the idle limit":
        result = run_virtually(_run_with_an_idle_limit)
        return not isinstance(result.failure().reason, NotSupported)
    if feature == "the Agent":
        return hasattr(mule.agent, "Agent")
    return importlib.util.find_spec(f"mule.adapters.{feature.replace('-', '_')}") is not None


async def _run_with_an_idle_limit() -> Result[MuleRunOutcome, MuleError]:
    model = Model(id="m", name="m", api="none", provider="none", base_url="http://pond.test")
    return await settle(run(MuleRunInput(model=model, model_stream_idle_timeout_ms=1)))
