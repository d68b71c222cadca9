"""From tools to those of chat completions, each encoded once and kept with the tool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mule.adapters._constrained import grammar_of, parameters_on_wire
from mule.adapters._names import wire_name
from mule.adapters.openai_completions.compat import Endpoint
from mule.adapters.openai_completions.wire import Wire
from mule.values.jsontext import JsonObject, JsonValue, dump_json
from mule.values.tools import Tool


def encode_tools(tools: Sequence[Tool[Any]], wire: Wire) -> list[bytes]:
    """Tools as JSON objects, in order.

    Raises:
        CallFailed: one of them cannot be sent as it demands.
    """
    return [_encode_tool(tool, wire) for tool in tools]


def _encode_tool(tool: Tool[Any], wire: Wire) -> bytes:
    known = tool.memo.get(wire.key)
    if isinstance(known, bytes):
        return known
    encoded = dump_json(_tool(tool, wire.endpoint))
    tool.memo[wire.key] = encoded
    return encoded


def _tool(tool: Tool[Any], endpoint: Endpoint) -> JsonObject:
    grammar = grammar_of(tool, supported=endpoint.supports_open_ai_grammar_tools)
    if grammar is not None:
        rules = {"syntax": grammar.syntax, "definition": grammar.definition}
        return {
            "type": "custom",
            "custom": {
                "name": wire_name(tool.name),
                "description": tool.description,
                "format": {"type": "grammar", "grammar": rules},
            },
        }
    supports_strict = endpoint.supports_strict_mode
    parameters, strict = parameters_on_wire(tool, supports_strict=supports_strict)
    function: dict[str, JsonValue] = {
        "name": wire_name(tool.name),
        "description": tool.description,
        "parameters": parameters,
    }
    if supports_strict:  # some servers refuse fields that they do not know
        function["strict"] = strict
    return {"type": "function", "function": function}
