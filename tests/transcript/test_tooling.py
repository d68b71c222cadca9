"""The state of prompt and tools is the replay of all system messages."""

from __future__ import annotations

from mule.transcript.tooling import (
    collapse_system_messages,
    current_system_prompt,
    current_tools,
    declarations_equal,
    normalize_context,
    to_tool_declaration,
    tool_state_changes,
)
from mule.values.messages import Context, SystemMessage, UserMessage
from mule.values.tools import Tool, ToolReference


def _tool(name: str, **extra: object) -> Tool:
    return Tool.from_json({"name": name, "description": "", "parameters": {"type": "object"}, **extra})


def test_a_context_that_needs_nothing_is_the_very_object() -> None:
    plain = Context(
        messages=(SystemMessage(content="Base.", tools_added=(_tool("a"),)), UserMessage(content="q"))
    )
    assert normalize_context(plain) is plain
    assert collapse_system_messages(plain) is plain
    bare = Context(messages=(UserMessage(content="q"),))
    assert collapse_system_messages(bare) is bare


def test_one_late_system_message_is_moved_to_the_front() -> None:
    late = SystemMessage(content="Late.")
    question = UserMessage(content="q")
    collapsed = collapse_system_messages(Context(messages=(question, late)))
    assert collapsed.messages == (late, question)


def test_a_prompt_grows_and_its_sections_are_replaced_by_name() -> None:
    messages = (
        SystemMessage(content="Base.", sections={"a": "one", "b": "two"}),
        SystemMessage(content="More.", sections={"a": "three", "b": None}),
    )
    assert current_system_prompt(messages) == "Base.\n\nMore.\n\nthree"


def test_applying_changes_gives_the_tools_that_were_wanted() -> None:
    before = (_tool("a"), _tool("b"), _tool("c"))
    after = (_tool("b", description="new"), _tool("c"), _tool("d"))
    changes = tool_state_changes(before, after)
    assert changes.tools_removed == (ToolReference(name="a"), ToolReference(name="b"))
    assert [tool.name for tool in changes.tools_added] == ["b", "d"]
    messages = (
        SystemMessage(tools_added=before),
        SystemMessage(tools_added=changes.tools_added, tools_removed=changes.tools_removed),
    )
    assert {tool.name: tool for tool in current_tools(messages)} == {tool.name: tool for tool in after}
    assert not tool_state_changes(after, after)


def test_what_only_a_host_knows_of_a_tool_is_not_declared() -> None:
    tool = _tool("a", label="A", executionMode="sequential")
    assert to_tool_declaration(tool).to_json() == {
        "name": "a",
        "description": "",
        "parameters": {"type": "object"},
    }
    assert declarations_equal(tool, _tool("a"))
    assert to_tool_declaration(tool) is to_tool_declaration(tool)
