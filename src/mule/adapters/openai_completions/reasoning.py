"""Reasoning in details, as a router streams them and wants them back (OpenRouter's `reasoning_details`).

They are kept as JSON in the signature of the answer's thinking block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mule.adapters.openai_completions.messages import is_reasoning_detail
from mule.values.jsontext import JsonValue, dump_json

_TEXT_OF: Final = {"reasoning.summary": "summary", "reasoning.encrypted": "data", "reasoning.text": "text"}


class ReasoningDetails:
    """The details of one answer, put together from their deltas.

    A run of texts is one detail, and so is a run of summaries; encrypted ones stay apart.
    """

    __slots__ = ("_details", "_texts")

    def __init__(self) -> None:
        self._details: list[dict[str, JsonValue]] = []
        self._texts: list[list[str]] = []

    def add(self, value: JsonValue) -> bool:
        """Take one; false where it is none that could be handed back."""
        if not isinstance(value, Mapping) or not is_reasoning_detail(value):
            return False
        kind = str(value["type"])
        text = str(value[_TEXT_OF[kind]])
        if kind != "reasoning.encrypted" and self._details and self._details[-1]["type"] == kind:
            self._texts[-1].append(text)
            _fill(self._details[-1], value)
        else:
            self._details.append(dict(value))
            self._texts.append([text])
        return True

    def signature(self) -> str:
        """All of them as JSON."""
        whole: list[JsonValue] = [
            {**detail, _TEXT_OF[str(detail["type"])]: "".join(texts)}
            for detail, texts in zip(self._details, self._texts, strict=True)
        ]
        return dump_json(whole).decode()


def _fill(detail: dict[str, JsonValue], more: Mapping[str, JsonValue]) -> None:
    """Take what a later delta is the first to say."""
    for key in ("signature", "id", "format", "index"):
        if detail.get(key) in (None, "") and key in more:
            detail[key] = more[key]
