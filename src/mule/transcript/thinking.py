"""How much may a model think, and how much room does that leave for its answer?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mule.values.base import Number
from mule.values.model import Model, ModelThinkingLevel, ThinkingBudgets

THINKING_LEVELS: Final[tuple[ModelThinkingLevel, ...]] = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
)
"""All levels, least first."""

MIN_ANSWER_TOKENS: Final = 1_024
"""Tokens that thinking always leaves to the answer where both share one limit."""

DEFAULT_THINKING_BUDGETS: Final = ThinkingBudgets(minimal=1_024, low=2_048, medium=8_192, high=16_384)
"""Reasoning tokens by level, for providers that count them."""


def supported_thinking_levels(model: Model[Any]) -> tuple[ModelThinkingLevel, ...]:
    """The levels that a model has, least first.

    Its level map may rule one out with null; `xhigh` and `max` are there only where it names them.
    """
    if not model.reasoning:
        return ("off",)
    mapped = model.thinking_level_map or {}
    return tuple(
        level
        for level in THINKING_LEVELS
        if (mapped[level] is not None if level in mapped else level not in ("xhigh", "max"))
    )


def clamp_thinking_level(model: Model[Any], level: ModelThinkingLevel) -> ModelThinkingLevel:
    """The level that a model thinks on when asked for `level`: the next one up that it has, else down."""
    supported = supported_thinking_levels(model)
    if level in supported:
        return level
    if level in THINKING_LEVELS:
        at = THINKING_LEVELS.index(level)
        for candidate in (*THINKING_LEVELS[at:], *reversed(THINKING_LEVELS[:at])):
            if candidate in supported:
                return candidate
    return supported[0] if supported else "off"


def clamp_reasoning(level: ModelThinkingLevel) -> ModelThinkingLevel:
    """A level for which there is a budget: the two above `high` count as `high`."""
    return "high" if level in ("xhigh", "max") else level


def thinking_budget(level: ModelThinkingLevel, custom: ThinkingBudgets | None = None) -> int | None:
    """How many tokens a level may think; None for `off`. `custom` wins where it names the level."""
    match clamp_reasoning(level):
        case "off" | "xhigh" | "max":
            return None
        case budgeted:
            asked = None if custom is None else getattr(custom, budgeted)
            budget: int | None = getattr(DEFAULT_THINKING_BUDGETS, budgeted) if asked is None else asked
            return budget


def clamp_thinking_budget(budget: Number, ceiling: Number) -> Number:
    """A budget that leaves `MIN_ANSWER_TOKENS` of a shared ceiling to the answer; 0 where none fits."""
    return min(budget, max(0, ceiling - MIN_ANSWER_TOKENS))


@dataclass(frozen=True, slots=True)
class ThinkingRoom:
    """Longest answer, thinking included, and how much of it may be thinking. Tokens."""

    max_tokens: Number
    thinking_budget: Number


def thinking_room(
    asked_max_tokens: Number | None,
    model_max_tokens: Number,
    level: ModelThinkingLevel,
    custom: ThinkingBudgets | None = None,
) -> ThinkingRoom:
    """How to fit thinking and answer under one limit.

    `asked_max_tokens` is the answer alone, so the budget is added to it, up to what the model can; where
    it is None, both share all that the model can.
    """
    budget = thinking_budget(level, custom) or 0
    if asked_max_tokens is None:
        max_tokens = model_max_tokens
    else:
        max_tokens = min(asked_max_tokens + budget, model_max_tokens)
    return ThinkingRoom(
        max_tokens, budget if max_tokens > budget else clamp_thinking_budget(budget, max_tokens)
    )
