"""Which field cases are there, what do they serve, and what do they ask for?

A field case is a failure that people met with libraries like this one, as a small invented input; `source`
names the report. `table.py` says which test runs which.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from adapters.serving import Answer, Exchange, Hang, NoAnswer, Piece, Repeat, Wait
from mule.values.messages import Context
from mule.values.model import Model

Json: TypeAlias = "dict[str, Any]"
BUILT_IN: Final = Path(__file__).parent / "cases"

_LIMIT: Final = re.compile(r"ends within (\d+) (ms|s)\b")
BASE_URL: Final = "http://pond.test/v1"
KEY: Final = "test-key"


@dataclass(frozen=True)
class FieldCase:
    """One case, as its file says."""

    id: str
    kind: str
    api: str | None
    content: Json = field(repr=False, compare=False)

    @property
    def expect(self) -> Json:
        """What a correct system does."""
        expect: Json = self.content.get("expect", {})
        return expect

    @property
    def limit_s(self) -> float:
        """Within how many seconds the case demands an end, in words; infinite where it does not."""
        for demand in self.expect.get("must", ()):
            if found := _LIMIT.search(demand):
                return int(found[1]) / (1000 if found[2] == "ms" else 1)
        return math.inf

    def says(self, words: str) -> bool:
        """Does one of the demands in words hold these words?"""
        return any(words in demand for demand in self.expect.get("must", ()))


def read_cases(folders: Iterable[Path]) -> list[FieldCase]:
    """All cases of these folders, by name.

    Raises:
        ValueError: a folder holds none.
    """
    cases: list[FieldCase] = []
    for folder in folders:
        found = [_read(path) for path in sorted(folder.glob("*.json"))]
        if not found:
            raise ValueError(f"no field case in {folder}")
        cases += found
    return cases


def _read(path: Path) -> FieldCase:
    content = json.loads(path.read_text("utf-8"))
    return FieldCase(content["id"], content["kind"], content.get("api"), content)


def as_of(case: FieldCase, api: str, *, provider: str) -> FieldCase:
    """The same case for another API, where the bytes it serves mean the same there."""
    model = {**case.content["model"], "api": api, "provider": provider}
    return FieldCase(f"{case.id}@{api}", case.kind, api, {**case.content, "api": api, "model": model})


def model_of(case: FieldCase, *, base_url: str = BASE_URL) -> Model[Any]:
    """The case's model, with a base URL where the case gives none."""
    return Model.from_json({"baseUrl": base_url, **case.content["model"]})


def context_of(case: FieldCase) -> Context:
    """The case's context."""
    return Context.from_json(case.content["context"])


def options_json(case: FieldCase) -> Json:
    """The case's options for a request, with a key where it gives none; `attempts` are retries."""
    given = {"apiKey": KEY, **case.content.get("options", {})}
    given.pop("idle_timeout_ms", None)  # a setting of the run
    if "attempts" in given:
        given["maxRetries"] = given.pop("attempts")
    return given


def exchanges_of(case: FieldCase) -> list[Exchange]:
    """What the case's server answers, request by request."""
    content = case.content
    if "exchanges" not in content:
        return [_exchange(content)]
    return [
        _exchange(exchange) for exchange in content["exchanges"] for _ in range(exchange.get("times", 1))
    ]


def _exchange(given: Mapping[str, Any]) -> Exchange:
    if given.get("refuse"):
        return NoAnswer("ECONNREFUSED")
    good = given["status"] < 400
    kind = "text/event-stream" if good else "application/json"
    headers = {"content-type": kind, **given.get("headers", {})}
    return Answer(status=given["status"], headers=headers, body=pieces_of(given["wire"]))


def pieces_of(wire: Any) -> list[Piece]:
    """The case's bytes: a text, or pieces with waits between."""
    if isinstance(wire, str):
        return [wire.encode("utf-8")]
    return [_piece(piece) for piece in wire]


def _piece(piece: Any) -> Piece:
    match piece:
        case str():
            return piece.encode("utf-8")
        case {"b64": data}:
            return base64.b64decode(data)
        case {"waitMs": ms}:
            return Wait(ms)
        case {"hang": True}:
            return Hang()
        case {"repeat": text, "times": times}:
            return Repeat(text.encode("utf-8"), times)
        case {"repeat": text, "everyMs": ms}:
            return Repeat(text.encode("utf-8"), every_ms=ms)
        case _:
            raise ValueError(f"no such piece of a wire: {piece}")
