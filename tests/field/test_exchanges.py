"""One HTTP exchange a case: what is sent, and what is made of what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from adapters.calling import Call, call, is_worth_a_retry, simple
from adapters.serving import Answer, Exchange, Piece, ScriptedTransport, bare_environment
from field.checks import problems
from field.reported import FieldCase, context_of, exchanges_of, model_of, options_json
from mule.adapters.registry import stream_model
from mule.values.messages import AssistantMessage
from mule.values.stream import ToolCallEnd, ToolCallStart

Cut = Callable[[Sequence[Piece]], Sequence[Piece]]


async def test_the_answer_is_what_was_sent(exchange_case: FieldCase) -> None:
    made, transport = await _exchange(exchange_case, read_partials=True)
    _check(exchange_case, made, transport)


async def test_how_the_bytes_arrive_changes_no_event(exchange_case: FieldCase) -> None:
    plain, _ = await _exchange(exchange_case)
    for cut in (_byte_by_byte, _all_at_once):
        made, _ = await _exchange(exchange_case, cut)
        assert made.events_json == plain.events_json


async def _exchange(
    case: FieldCase, cut: Cut = lambda pieces: pieces, *, read_partials: bool = False
) -> tuple[Call, ScriptedTransport]:
    transport = ScriptedTransport([_recut(exchange, cut) for exchange in exchanges_of(case)])
    with bare_environment():
        made = await call(
            stream_model,
            model_of(case),
            context_of(case),
            simple(options_json(case), fetch=transport),
            read_partials=read_partials,
        )
    return made, transport


def _recut(exchange: Exchange, cut: Cut) -> Exchange:
    return replace(exchange, body=cut(exchange.body)) if isinstance(exchange, Answer) else exchange


def _byte_by_byte(pieces: Sequence[Piece]) -> Sequence[Piece]:
    return [cut for piece in pieces for cut in (_bytes_of(piece) if isinstance(piece, bytes) else [piece])]


def _bytes_of(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def _all_at_once(pieces: Sequence[Piece]) -> Sequence[Piece]:
    if all(isinstance(piece, bytes) for piece in pieces):
        return [b"".join(piece for piece in pieces if isinstance(piece, bytes))]
    return pieces


def _check(case: FieldCase, made: Call, transport: ScriptedTransport) -> None:
    assert made.problems == []
    assert transport.refused == 0
    assert len(transport.requests) == 1 or "exchanges" in case.content
    assert transport.left_open == 0
    assert mismatches(case.expect.get("result", {}), made.result) == []
    assert problems(transport.requests[0].content, case.expect.get("request", ())) == []
    if case.says("classified as retryable"):
        assert is_worth_a_retry(made)
    if case.id in _IN_WORDS:
        _IN_WORDS[case.id](made)


def mismatches(expected: Mapping[str, Any], message: AssistantMessage) -> list[str]:
    """Where a message is not what a case's `expect.result` says; a subset is compared."""
    got: dict[str, Any] = {
        **message.to_json(),
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "thinking": "".join(block.thinking for block in message.content if block.type == "thinking"),
        "toolCalls": [block.to_json() for block in message.content if block.type == "toolCall"],
    }
    found = [
        f"{piece!r} is not in {message.error_message!r}"
        for piece in expected.get("errorContains", ())
        if piece not in (message.error_message or "")
    ]
    for name, value in expected.items():
        if name != "errorContains" and not _within(value, got.get(name)):
            found.append(f"{name}: expected {value!r}, got {got.get(name)!r}")
    return found


def _within(expected: Any, got: Any) -> bool:
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(
            _within(value, got.get(key)) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return (
            isinstance(got, Sequence)
            and len(got) == len(expected)
            and all(_within(one, other) for one, other in zip(expected, got, strict=True))
        )
    return bool(expected == got)


# --- what a case demands in words


def _one_id_throughout(made: Call) -> None:
    sent = {"functions.mix_paint:0", "chatcmpl-tool-9f", "chatcmpl-tool-a0"}
    ids = {
        block.id
        for event in made.events
        if isinstance(event, ToolCallStart)
        for block in event.partial.content
        if block.type == "toolCall"
    } | {event.tool_call.id for event in made.events if isinstance(event, ToolCallEnd)}
    assert len(ids) == 1
    assert ids <= sent


def _no_call_is_glued(made: Call) -> None:
    for block in made.result.content:
        assert block.type != "toolCall" or block.arguments_error is None


_IN_WORDS: Final[Mapping[str, Callable[[Call], None]]] = {
    "01-same-index-for-two-calls": _no_call_is_glued,
    "02-id-changes-under-one-index": _one_id_throughout,
}
