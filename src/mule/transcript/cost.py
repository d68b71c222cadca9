"""What did an answer cost?"""

from __future__ import annotations

from typing import Any

from mule.values.model import Model, ModelCostRates
from mule.values.usage import Usage, UsageCost

_PER_TOKEN = 1_000_000


def calculate_cost(model: Model[Any], usage: Usage) -> Usage:
    """The same usage with its cost in US dollars filled in.

    The tier with the highest threshold below the request's input prices all of it, output included.
    Cache writes that are kept for an hour cost twice the input rate.
    """
    rates = _rates(model, usage)
    long_write = usage.cache_write1h or 0
    short_write = usage.cache_write - long_write
    input_ = rates.input / _PER_TOKEN * usage.input
    output = rates.output / _PER_TOKEN * usage.output
    cache_read = rates.cache_read / _PER_TOKEN * usage.cache_read
    cache_write = (rates.cache_write * short_write + rates.input * 2 * long_write) / _PER_TOKEN
    cost = UsageCost.made(
        input=input_,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        total=input_ + output + cache_read + cache_write,
    )
    return usage.with_(cost=cost)


def _rates(model: Model[Any], usage: Usage) -> ModelCostRates:
    tokens = usage.input + usage.cache_read + usage.cache_write
    passed = [tier for tier in model.cost.tiers or () if tokens > tier.input_tokens_above >= 0]
    return max(passed, key=lambda tier: tier.input_tokens_above, default=model.cost)
