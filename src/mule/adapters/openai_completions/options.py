"""What can be asked of a chat-completions endpoint, and how neutral options become that."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from mule.transcript.estimate import clamp_max_tokens
from mule.transcript.thinking import clamp_thinking_level
from mule.values.jsontext import JsonValue
from mule.values.messages import Context
from mule.values.model import Model, ThinkingBudgets, ThinkingLevel
from mule.values.request import SimpleStreamOptions, StreamOptions

_SHARED: Final = tuple(field.name for field in dataclasses.fields(StreamOptions))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAICompletionsOptions(StreamOptions):
    """Options of the API `openai-completions`.

    Attributes:
        tool_choice: sent as it is: `auto`, `none`, `required`, or an object that names a function.
        reasoning_effort: how much to think; sent in the endpoint's own form. None is off.
        thinking_budgets: reasoning tokens by level, where the endpoint counts them.
    """

    tool_choice: JsonValue = None
    reasoning_effort: ThinkingLevel | None = None
    thinking_budgets: ThinkingBudgets | None = None


def own_options(model: Model[Any], context: Context, options: StreamOptions) -> OpenAICompletionsOptions:
    """The API's own options for whatever options a caller has.

    Neutral ones are fitted to the model: the longest answer is what it can give and what the context
    leaves, the thinking level one that it has.
    """
    if isinstance(options, OpenAICompletionsOptions):
        return options
    shared: dict[str, Any] = {name: getattr(options, name) for name in _SHARED}
    if not isinstance(options, SimpleStreamOptions):
        return OpenAICompletionsOptions(**shared)
    wanted = model.max_tokens if options.max_tokens is None else options.max_tokens
    shared["max_tokens"] = clamp_max_tokens(model, context, wanted)
    level = None if options.reasoning is None else clamp_thinking_level(model, options.reasoning)
    return OpenAICompletionsOptions(
        **shared,
        tool_choice=options.tool_choice,
        reasoning_effort=None if level == "off" else level,
        thinking_budgets=options.thinking_budgets,
    )
