"""Values that are generic in the message type can be made with it: `AgentContext[Note](...)`."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import mule.agent
import mule.effect
import mule.loop.program
from mule.agent import AgentContext, AgentTool, AgentToolResult


def generic_values() -> list[type[Any]]:
    public = [getattr(module, name) for module in (mule.agent, mule.effect) for name in module.__all__]
    ours = [*public, *vars(mule.loop.program).values()]
    found = {value for value in ours if isinstance(value, type) and dataclasses.is_dataclass(value)}
    return sorted((cls for cls in found if hasattr(cls, "__parameters__")), key=lambda cls: cls.__name__)


GENERIC = [cls for cls in generic_values() if cls.__parameters__]


def test_a_value_can_be_made_with_its_type() -> None:
    context = AgentContext[dict[str, str]](messages=[{"role": "note"}])
    assert context.messages == [{"role": "note"}]
    assert AgentToolResult[int](details=7).details == 7

    async def execute(*_: Any) -> AgentToolResult[int]:
        return AgentToolResult(details=1)

    made = AgentTool[dict[str, Any], int](name="n", description="", parameters={}, execute=execute)
    assert made == AgentTool(name="n", description="", parameters={}, execute=execute)


@pytest.mark.parametrize("cls", GENERIC)
def test_no_generic_value_objects_to_being_told_its_type(cls: Any) -> None:
    """What `typing` does to a value that is made so; it takes an AttributeError for an answer, no other."""
    value = object.__new__(cls)
    try:
        value.__orig_class__ = cls[(Any,) * len(cls.__parameters__)]
    except AttributeError:
        return


def test_there_are_generic_values() -> None:
    names = {cls.__name__ for cls in GENERIC}
    assert {"AgentContext", "AgentEnd", "MuleRunOutcome", "RunEnd", "Program"} <= names
