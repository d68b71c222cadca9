"""What the form of a message depends on, beside the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mule.adapters.openai_completions.compat import Endpoint
from mule.values.model import Model

_MEMO: Final = "openai-completions wire"


@dataclass(frozen=True, slots=True)
class Wire:
    """The settings of one request that shape its messages and tools.

    `key` names it: two of the same key give every message that is sent the same form. `group_key` names
    what the form of a message of the transcript depends on: the model, too.
    """

    endpoint: Endpoint
    provider: str
    reasoning: bool
    takes_images: bool
    anchors_additions: bool
    grammar_properties: Mapping[str, str]
    key: str
    group_key: str

    @classmethod
    def of(
        cls,
        model: Model[Any],
        endpoint: Endpoint,
        *,
        anchors_additions: bool,
        grammar_properties: Mapping[str, str],
    ) -> Wire:
        """The wire of one request; the same one again for a model whose tools need nothing special."""
        known = model.memo.get((_MEMO, anchors_additions))
        if isinstance(known, Wire) and not grammar_properties:
            return known
        wire = cls._of(model, endpoint, anchors_additions, grammar_properties)
        if not grammar_properties:
            model.memo[_MEMO, anchors_additions] = wire
        return wire

    @classmethod
    def _of(
        cls,
        model: Model[Any],
        endpoint: Endpoint,
        anchors_additions: bool,
        grammar_properties: Mapping[str, str],
    ) -> Wire:
        shape = (
            "openai-completions",
            model.provider == "opencode-go",
            model.reasoning,
            "image" in model.input,
            anchors_additions,
            tuple(grammar_properties.items()),
            endpoint.supports_developer_role,
            endpoint.requires_tool_result_name,
            endpoint.requires_assistant_after_tool_result,
            endpoint.requires_thinking_as_text,
            endpoint.requires_reasoning_content_on_assistant_messages,
            endpoint.supports_strict_mode,
            endpoint.supports_open_ai_grammar_tools,
        )
        return cls(
            endpoint,
            model.provider,
            model.reasoning,
            "image" in model.input,
            anchors_additions,
            grammar_properties,
            repr(shape),
            repr((*shape, model.api, model.provider, model.id)),
        )
