"""How an answer ended and what it cost."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from mule.values.base import Number, Value

StopReason: TypeAlias = Literal["pending", "stop", "length", "toolUse", "error", "aborted", "deferred"]
"""Why an answer stopped; `pending` while it streams. Spelled as in the reference's JSON."""


class UsageCost(Value):
    """US dollars, by the kind of token."""

    input: Number = 0
    output: Number = 0
    cache_read: Number = 0
    cache_write: Number = 0
    total: Number = 0


class Usage(Value):
    """Tokens of one answer.

    `input`, `cache_read`, `cache_write` and `output` do not overlap: their sum is `total_tokens`.
    `reasoning` is a part of `output`, `cache_write1h` a part of `cache_write`; None where the
    provider does not report them.
    """

    input: Number = 0
    output: Number = 0
    cache_read: Number = 0
    cache_write: Number = 0
    cache_write1h: Number | None = Field(default=None, alias="cacheWrite1h")
    reasoning: Number | None = None
    total_tokens: Number = 0
    cost: UsageCost = UsageCost()


NO_USAGE = Usage()


def add_usage(left: Usage, right: Usage) -> Usage:
    """The sum of two usages; a part that neither reports stays unreported."""
    return Usage.made(
        input=left.input + right.input,
        output=left.output + right.output,
        cache_read=left.cache_read + right.cache_read,
        cache_write=left.cache_write + right.cache_write,
        cache_write1h=_add(left.cache_write1h, right.cache_write1h),
        reasoning=_add(left.reasoning, right.reasoning),
        total_tokens=left.total_tokens + right.total_tokens,
        cost=UsageCost.made(
            input=left.cost.input + right.cost.input,
            output=left.cost.output + right.cost.output,
            cache_read=left.cost.cache_read + right.cost.cache_read,
            cache_write=left.cost.cache_write + right.cost.cache_write,
            total=left.cost.total + right.cost.total,
        ),
    )


def _add(left: Number | None, right: Number | None) -> Number | None:
    if left is None:
        return right
    return left if right is None else left + right
