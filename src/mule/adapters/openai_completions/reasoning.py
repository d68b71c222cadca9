"""Reasoning in details, as a router streams them and wants them back (OpenRouter's `reasoning_details`).

They are kept as JSON in the signature of the answer's thinking block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mule.values.content import ThinkingContent, ToolCall
from mule.values.jsontext import JsonValue, dump_json, load_json

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text")
"""Where servers put reasoning, in the order in which they are looked at."""

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


def reasoning_field(signature: str | None, provider: str) -> str | None:
    """The field in which a server wants its reasoning back: the one in which it gave it."""
    if signature == "reasoning" and provider == "opencode-go":
        return "reasoning_content"
    return signature if signature in REASONING_FIELDS else None


def reasoning_details(
    thinking: Sequence[ThinkingContent], calls: Sequence[ToolCall]
) -> list[JsonValue] | None:
    """Structured reasoning to hand back. Older transcripts kept it with the calls."""
    for block in thinking:
        details = _json_of(block.thinking_signature)
        if isinstance(details, list) and details and all(map(is_reasoning_detail, details)):
            return details
    legacy = [_json_of(call.thought_signature) for call in calls]
    kept = [detail for detail in legacy if _is_encrypted_detail(detail)]
    return kept or None


def _json_of(text: str | None) -> JsonValue:
    if not text or text[0] not in "[{":
        return None
    try:
        return load_json(text)
    except ValueError:
        return None


def is_reasoning_detail(detail: JsonValue) -> bool:
    """Whether this is an entry of `reasoning_details` that can be kept and handed back (OpenRouter)."""
    if not isinstance(detail, Mapping):
        return False
    shape = (
        isinstance(detail.get("id"), str | None)
        and isinstance(detail.get("format", ""), str)
        and isinstance(detail.get("index", 0), int | float)
    )
    match detail.get("type"):
        case "reasoning.summary":
            return shape and isinstance(detail.get("summary"), str)
        case "reasoning.encrypted":
            return shape and isinstance(detail.get("data"), str)
        case "reasoning.text":
            signed = isinstance(detail.get("signature"), str | None)
            return shape and signed and isinstance(detail.get("text"), str)
        case _:
            return False


def _is_encrypted_detail(detail: JsonValue) -> bool:
    return (
        isinstance(detail, Mapping)
        and detail.get("type") == "reasoning.encrypted"
        and is_reasoning_detail(detail)
        and bool(detail.get("id"))
        and bool(detail.get("data"))
    )
