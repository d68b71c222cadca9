"""Whether an agent loop can run at all: what a host may have got wrong is said before anything happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mule.agent.hooks import AgentLoopConfig
from mule.agent.tools import AgentTool
from mule.values.errors import InvalidInput, MuleError
from mule.values.model import Model


def check_config(config: AgentLoopConfig[Any]) -> None:
    """Refuse settings that say nothing.

    Raises:
        MuleError: `InvalidInput`.
    """
    # As plain objects: a host's code may not be type-checked.
    model: object = config.model
    limit: object = config.max_parallel_tools
    if not isinstance(model, Model):
        raise MuleError(InvalidInput("config.model", "must be a Model; normalize_model makes one"))
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise MuleError(
            InvalidInput("config.max_parallel_tools", "must be at least 1, or None for no bound")
        )
    if config.tool_execution not in ("parallel", "sequential"):
        raise MuleError(InvalidInput("config.tool_execution", "must be parallel or sequential"))


def check_tools(tools: Sequence[AgentTool[Any, Any]]) -> None:
    """Refuse two tools of one name: the model could not tell them apart, and one would never run.

    Raises:
        MuleError: `InvalidInput`.
    """
    names = [tool.name for tool in tools]
    for doubled in sorted({name for name in names if names.count(name) > 1}):
        raise MuleError(InvalidInput("tools", f"two tools are named {doubled}; a name must be unique"))
