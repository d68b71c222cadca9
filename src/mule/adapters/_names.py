"""Tools by names that OpenAI-shaped APIs take.

They want letters, digits, `_` and `-`, at most 64. Tools of MCP servers often have other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mule.transcript.hashing import short_hash
from mule.values.tools import Tool

MAX_NAME_LENGTH: Final = 64

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


def wire_name(name: str) -> str:
    """A tool's name as it is sent: itself where it can be, else one that stands for it.

    >>> wire_name("read_file"), len(wire_name("files.read " * 9))
    ('read_file', 64)
    """
    if _NAME.fullmatch(name):
        return name
    mark = short_hash(name)[:8]
    return f"{_NOT_IN_A_NAME.sub('_', name)[: MAX_NAME_LENGTH - 1 - len(mark)]}_{mark}"


def names_by_wire_name(tools: Iterable[Tool[Any]]) -> dict[str, str]:
    """The tools' own names, by the names that stand for them; tools that go by their own are left out."""
    return {wire: tool.name for tool in tools if (wire := wire_name(tool.name)) != tool.name}
