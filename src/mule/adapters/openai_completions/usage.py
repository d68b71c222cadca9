"""Tokens of an answer, from the several shapes in which endpoints report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mule.transcript.cost import calculate_cost
from mule.values.base import Number
from mule.values.jsontext import JsonValue
from mule.values.model import Model
from mule.values.usage import Usage


def read_usage(raw: Mapping[str, JsonValue], model: Model[Any]) -> Usage:
    """The usage in a chunk, with its cost.

    Tokens read from a cache are part of `prompt_tokens`, and stand in one of three places: OpenAI's and
    OpenRouter's `prompt_tokens_details`, DeepSeek's `prompt_cache_hit_tokens`, Kimi's `cached_tokens`.
    Reasoning tokens are part of `completion_tokens` already.
    """
    prompt_details = _object(raw.get("prompt_tokens_details"))
    completion_details = _object(raw.get("completion_tokens_details"))
    cached = (
        prompt_details.get("cached_tokens"),
        raw.get("prompt_cache_hit_tokens"),
        raw.get("cached_tokens"),
    )
    cache_read = _count(next((count for count in cached if count is not None), 0))
    cache_write = _count(prompt_details.get("cache_write_tokens"))
    input_ = max(0, _count(raw.get("prompt_tokens")) - cache_read - cache_write)
    output = _count(raw.get("completion_tokens"))
    usage = Usage.made(
        input=input_,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=_count(completion_details.get("reasoning_tokens")),
        total_tokens=input_ + output + cache_read + cache_write,
    )
    return calculate_cost(model, usage)


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _count(value: JsonValue) -> Number:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return value
    return 0
