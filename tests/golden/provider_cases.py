"""Runs a provider case: the adapter over recorded bytes; requests, events and message against the record.

Each case runs twice, once looking at nothing but the events, once reading every event's partial message:
reading must change nothing, and a kept event must not change.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import httpx

from adapters.calling import Abort, Call, Observed, StreamFunction, call, is_worth_a_retry, options_of
from adapters.serving import (
    Answer,
    Exchange,
    Hang,
    NoAnswer,
    Piece,
    Reset,
    ScriptedTransport,
    SeenRequest,
    bare_environment,
    cut,
)
from golden.compare import Case, Difference, compare, is_in_request_body, rules_of
from mule.transcript.retry import is_retryable_assistant_error
from mule.values.messages import Context
from mule.values.model import Model
from mule.values.request import SimpleStreamOptions, StreamOptions

ADDED_BY_HTTP: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "accept", "user-agent"}
)
"""Headers that any HTTP library adds; they count only where they are recorded."""


async def run_case(case: Case) -> list[Difference]:
    """See `golden.compare`."""
    from mule.adapters.registry import options_type, stream_model

    kind: type[StreamOptions] = SimpleStreamOptions
    if case["entry"] == "stream":
        kind = options_type(case["api"])
    return await run_case_with(case, stream_model, kind)


async def run_case_with(
    case: Case, stream_model: StreamFunction, kind: type[StreamOptions]
) -> list[Difference]:
    """Run a case with any stream function; `kind` is the type of its options."""
    with bare_environment():
        plain = await _run(case, stream_model, kind, read_partials=False)
        looking = await _run(case, stream_model, kind, read_partials=True)
    differences = plain.differences(case)
    if looking.made.events_json != plain.made.events_json:
        differences.append(Difference("events", note="reading partial messages changes what happens"))
    differences += [Difference("events", note=problem) for problem in looking.made.problems]
    return differences


class _Run:
    """One run of a case, and what it came to."""

    def __init__(
        self, transport: ScriptedTransport, made: Call, observed: Observed, left_open: int
    ) -> None:
        self.transport = transport
        self.made = made
        self.observed = observed
        self.left_open = left_open

    def differences(self, case: Case) -> list[Difference]:
        """Every place where it is not what was recorded."""
        found = [Difference("", note=problem) for problem in self._problems(case)]
        expected, outcome = self._recorded(case), self._outcome(case)
        rules = replace(rules_of(case), nulls_count=_nulls_count)
        if "throws" in case:
            rules = replace(rules, free=rules.free | {("throws", "message")})
        return found + compare(expected, outcome, rules)

    def _problems(self, case: Case) -> list[str]:
        problems = [] if "throws" in case else list(self.made.problems)
        if self.left_open:
            problems.append(f"{self.left_open} responses were left open after the last event")
        if self.transport.closed_itself:
            problems.append("the transport was closed, which is its owner's to do")
        if self.observed.payloads > 1:
            problems.append(f"onPayload was called {self.observed.payloads} times")
        if case.get("retryable") and not is_worth_a_retry(self.made):
            problems.append("our own retry decision about the failure must be yes")
        if case.get("retryable") and not is_retryable_assistant_error(self.made.result):
            problems.append("our own retry decision about the message alone must be yes")
        return problems

    def _recorded(self, case: Case) -> dict[str, Any]:
        if "throws" in case:
            return {"exchanges": [], "events": ["error"], "throws": case["throws"]}
        keys = ("exchanges", "events", "result", "observed")
        return {key: case[key] for key in keys if key in case} | {"observed": case.get("observed", {})}

    def _outcome(self, case: Case) -> dict[str, Any]:
        seen = self.transport.requests
        exchanges = [
            {
                **_at(case["exchanges"], index),
                "request": _request_json(request, _at(case["exchanges"], index)),
            }
            for index, request in enumerate(seen)
        ]
        if "throws" in case:
            kinds = [event.type for event in self.made.events]
            return {
                "exchanges": exchanges,
                "events": kinds,
                "throws": {"message": self.made.result.error_message},
            }
        return {
            "exchanges": exchanges,
            "events": self.made.events_json,
            "result": self.made.result.to_json(),
            "observed": self.observed.to_json(),
        }


async def _run(
    case: Case, stream_model: StreamFunction, kind: type[StreamOptions], *, read_partials: bool
) -> _Run:
    transport = ScriptedTransport(
        [exchange_of(exchange["response"], case) for exchange in case["exchanges"]]
    )
    observed = Observed()
    left_open: list[int] = []
    options = options_of(kind, case["options"], fetch=transport, **observed.hooks(case.get("hooks", {})))
    made = await call(
        stream_model,
        Model.from_json(case["model"]),
        Context.from_json(case["context"]),
        options,
        abort=_abort_of(case.get("abort")),
        read_partials=read_partials,
        at_end=lambda: left_open.append(transport.left_open),
    )
    return _Run(transport, made, observed, left_open[0])


def _nulls_count(path: tuple[str, ...]) -> bool:
    return is_in_request_body(path) or (len(path) >= 2 and path[0] == "observed")


def _at(exchanges: list[dict[str, Any]], index: int) -> dict[str, Any]:
    return exchanges[index] if index < len(exchanges) else {}


def _request_json(seen: SeenRequest, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A request in the record's form; what does not count is as recorded."""
    theirs = recorded.get("request", {})
    expected_headers = theirs.get("headers", {})
    url = theirs.get("url", "")
    return {
        "method": seen.method,
        "url": url if url and httpx.URL(url) == httpx.URL(seen.url) else seen.url,
        "headers": {
            name: value
            for name, value in seen.headers.items()
            if name in expected_headers or name not in ADDED_BY_HTTP
        },
        "body": seen.json if seen.content else None,
    }


def _abort_of(given: Any) -> Abort | None:
    if given is None:
        return None
    if given == "before":
        return Abort(before=True)
    return Abort(after_events=given.get("afterEvents"), after_ms=given.get("afterMs"))


def exchange_of(response: Mapping[str, Any], case: Mapping[str, Any]) -> Exchange:
    """A recorded response as something to serve."""
    if "connectError" in response:
        return NoAnswer(response["connectError"])
    data = body_of(response)
    body: list[Piece] = [*cut(data, response.get("chunks", ()))]
    match response.get("then"):
        case "hold":
            body.append(Hang())
        case "reset":
            body.append(Reset())
        case _:
            pass
    return Answer(
        status=response["status"],
        headers=response["headers"],
        body=body,
        reason=response.get("statusText"),
        http_version=str(case.get("httpVersion", "1.1")),
    )


def body_of(response: Mapping[str, Any]) -> bytes:
    """The bytes of a recorded response."""
    if "bodyBase64" in response:
        return base64.b64decode(response["bodyBase64"])
    return str(response.get("body", "")).encode("utf-8")
