"""Faults at every byte of a recorded stream: what is cut off, and what arrives in two reads.

A cut answer counts as complete once the frame that names its finish reason has come whole: servers that
send no usage and no `[DONE]` after it are not told from those that would have. Before that frame nothing
may be a success. From the frame `[DONE]` on (or the last frame, where the server sends none) it must be
one. In between both are right: a dropped connection is an error or not, but a success then holds the whole
content.

Used by `test_fault_sweep.py`, which samples, and `scripts/fault_sweep.py`, which does not.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from adapters.calling import Call, call, options_of
from adapters.serving import Answer, Piece, Reset, ScriptedTransport, bare_environment
from golden.provider_cases import body_of, exchange_of
from golden.recorded import BUILT_IN, GoldenCase, read_cases
from mule.adapters.registry import options_type, stream_model
from mule.values.jsontext import JsonObject
from mule.values.messages import Context
from mule.values.model import Model
from mule.values.request import SimpleStreamOptions, StreamOptions

API: Final = "openai-completions"
Ending: TypeAlias = Literal["cleanly", "by a reset"]
ENDINGS: Final[tuple[Ending, ...]] = ("cleanly", "by a reset")


@dataclass(frozen=True)
class Recorded:
    """A golden case whose last response is a stream, and that stream."""

    golden: GoldenCase
    body: bytes
    answer: Answer

    @property
    def name(self) -> str:
        """The case's name."""
        return self.golden.name.rpartition("/")[2]

    def options(self, **more: Any) -> StreamOptions:
        """The case's options, but that nothing is asked for again."""
        kind = options_type(API) if self.golden.case["entry"] == "stream" else SimpleStreamOptions
        given = self.golden.case["options"].items()
        return options_of(kind, {name: value for name, value in given if name != "maxRetries"}, **more)

    def positions(self, count: int | None) -> list[int]:
        """Where to cut: so many positions, drawn with a seed of the case's own; None is all."""
        every = range(len(self.body) + 1)
        if count is None or count >= len(every):
            return list(every)
        return sorted(random.Random(self.name).sample(every, count))


def recorded_streams(folder: Path = BUILT_IN) -> list[Recorded]:
    """Every recorded answer of the API that is a stream, in the order of their names."""
    return [
        Recorded(golden, body_of(response), answer)
        for golden in read_cases([folder])
        if golden.kind == "providers" and golden.case["api"] == API and "throws" not in golden.case
        for response in _last_response(golden.case)
        if isinstance(answer := exchange_of(response, golden.case), Answer) and _is_stream(answer)
    ]


def _last_response(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [exchange["response"] for exchange in case["exchanges"][-1:]]


def _is_stream(answer: Answer) -> bool:
    return answer.status == 200 and answer.headers.get("content-type", "").startswith("text/event-stream")


async def run_with(recorded: Recorded, body: Sequence[Piece]) -> Call:
    """The case's call, answered with these pieces."""
    case = recorded.golden.case
    transport = ScriptedTransport([replace(recorded.answer, body=body)])
    with bare_environment():
        made = await call(
            stream_model,
            Model.from_json(case["model"]),
            Context.from_json(case["context"]),
            recorded.options(fetch=transport),
        )
    if transport.left_open:
        made.problems.append("the response was left open")
    return made


def cut_at(body: bytes, position: int, ending: Ending) -> list[Piece]:
    """The body's beginning, and how it breaks off."""
    begun: list[Piece] = [body[:position]] if position else []
    return begun if ending == "cleanly" else [*begun, Reset()]


def split_at(body: bytes, position: int) -> list[Piece]:
    """The body in two reads."""
    return [piece for piece in (body[:position], body[position:]) if piece]


def lines_of(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line, and where its text ends; the end of the line does not count."""
    at = 0
    for line in body.replace(b"\r\n", b"\n\n").replace(b"\r", b"\n").split(b"\n"):
        yield at + len(line), line
        at += len(line) + 1


@dataclass(frozen=True, slots=True)
class Marks:
    """From which position on a cut answer may be a success, and from which it must be one."""

    may: float
    must: float


def marks_of(body: bytes, ending: Ending = "cleanly") -> Marks:
    """See the module. A stream that names no finish reason is complete with its `[DONE]`, if at all.

    Where the connection is dropped, a frame has come with its blank line; a clean end is one.
    """
    may = must = math.inf
    for end, line in lines_of(body):
        text = line.removeprefix(b"data:").strip()
        if text == b"[DONE]":
            must = end
            break
        if may == math.inf and _finishes(text):
            may = end
    may = min(may, must)
    must = max(must if must < math.inf else len(body), may)
    return Marks(may, must if ending == "cleanly" else must + len(b"\n\n"))


def _finishes(text: bytes) -> bool:
    try:
        frame = json.loads(text)
    except ValueError:
        return False
    choices = frame.get("choices") if isinstance(frame, dict) else None
    return isinstance(choices, list) and any(choice.get("finish_reason") for choice in choices[:1])


def problems_of_a_cut(
    whole: Sequence[JsonObject], got: Sequence[JsonObject], marks: Marks, position: int
) -> list[str]:
    """What is wrong with the events of an answer cut at a position; `whole`: those of the whole one."""
    problems: list[str] = []
    if not got or got[-1]["type"] not in ("done", "error"):
        return ["no terminal event"]
    last, before = got[-1], list(got[:-1])
    if last["type"] == "done":
        if position < marks.may:
            problems.append("a success made of a truncated answer")
        if whole[-1]["type"] != "done":
            problems.append("a success where the whole answer is none")
        elif _content(last) != _content(whole[-1]):
            problems.append("a success without the whole content")
    else:
        if position >= marks.must and whole[-1]["type"] == "done":
            problems.append("the whole answer had come, and yet it is an error")
        begun = _without_closings(before)
        if begun != list(whole[: len(begun)]):
            problems.append("the events before the error are not those of the whole answer")
    return problems


def _without_closings(events: list[JsonObject]) -> list[JsonObject]:
    """The events less those that close open blocks at the end of a stream that ended without a reset."""
    count = len(events)
    while count and (_closes(events[count - 1])):
        count -= 1
    return events[:count]


def _closes(event: JsonObject) -> bool:
    kind, delta = str(event["type"]), str(event.get("delta", ""))
    # The second: the end of the JSON text that a grammar's plain text is made into.
    return kind.endswith("_end") or (kind == "toolcall_delta" and delta.endswith('"}'))


def _content(event: JsonObject) -> object:
    message = event["message"]
    assert isinstance(message, dict)
    return message["content"], message["stopReason"]
