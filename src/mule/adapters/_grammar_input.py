"""Plain text that a model writes under a grammar, as JSON text of a tool's arguments.

The model streams the bare text of the one argument; everything else here knows arguments as an object.
"""

from __future__ import annotations

import re

from mule.values.jsontext import dump_json


class GrammarInput:
    """The arguments of one call as they come. `property` is the argument that the text is."""

    __slots__ = ("_property", "_started")

    def __init__(self, property: str) -> None:
        self._property = property
        self._started = False

    def add(self, text: str) -> str:
        """The JSON text for more input; empty for none."""
        return self._opening() + _escaped(text) if text else ""

    def close(self) -> str:
        """The JSON text that ends the arguments."""
        return self._opening() + '"}'

    def _opening(self) -> str:
        if self._started:
            return ""
        self._started = True
        return f'{{"{_escaped(self._property)}":"'


def _escaped(text: str) -> str:
    # Half a character, cut from its other half by the wire, stays as it is until both are there.
    parts = re.split("([\ud800-\udfff]+)", text)
    return "".join(part if at % 2 else dump_json(part).decode()[1:-1] for at, part in enumerate(parts))
