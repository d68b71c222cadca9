"""Which prompt and which tools hold at the end of a transcript, and what changed them?

System messages are a journal: the state at any point is the replay of all before it. Tools are told
apart by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mule.transcript.text import content_text, system_message_text
from mule.values.base import Number
from mule.values.jsontext import dump_json
from mule.values.messages import Context, Message, SystemMessage
from mule.values.tools import Tool, ToolReference

_DECLARATION: Final = "declaration"
_DECLARATION_JSON: Final = "declaration as JSON"


def create_initial_system_message(
    system_prompt: str | None = None, tools: Sequence[Tool] | None = None
) -> SystemMessage | None:
    """The leading system message for a prompt and tools; None where there is neither."""
    if not system_prompt and not tools:
        return None
    if tools:
        return SystemMessage(content=system_prompt or "", tools_added=tuple(tools), timestamp=0)
    return SystemMessage(content=system_prompt or "", timestamp=0)


def normalize_context(context: Context) -> Context:
    """The context with its shorthands, `system_prompt` and `tools`, written as a leading system message."""
    if context.system_prompt is None and context.tools is None:
        return context
    first = create_initial_system_message(context.system_prompt, context.tools)
    return _context(context.messages if first is None else (first, *context.messages))


def _context(messages: tuple[Message, ...]) -> Context:
    # The messages are values already; checking thousands of them again finds nothing.
    return Context.model_construct(messages=messages)


def initial_system_message(messages: Sequence[Message]) -> SystemMessage | None:
    """The leading system message, where the transcript begins with one."""
    return messages[0] if messages and isinstance(messages[0], SystemMessage) else None


def without_initial_system_message(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The rest, for APIs that take the prompt outside the list of messages."""
    return tuple(messages) if initial_system_message(messages) is None else tuple(messages[1:])


def system_messages(messages: Sequence[Message]) -> Iterator[SystemMessage]:
    """The system messages of a transcript, in order."""
    # The role is asked, not the class: it is the cheaper question, and this runs over every message.
    return (m for m in messages if m.role == "system")


def current_tools(messages: Sequence[Message]) -> tuple[Tool, ...]:
    """The tools that hold after every change, in order; a tool added anew keeps its place."""
    tools: dict[str, Tool] = {}
    for message in system_messages(messages):
        for reference in message.tools_removed or ():
            tools.pop(reference.name, None)
        for tool in message.tools_added or ():
            tools[tool.name] = tool
    return tuple(tools.values())


def current_system_message(messages: Sequence[Message]) -> SystemMessage | None:
    """One system message that says what all of them together say; None where there are none.

    Contents are joined by a blank line, sections replaced and removed by name. Its time stamp is that of
    the first.
    """
    found = list(system_messages(messages))
    if not found:
        return None
    if len(found) == 1 and _says_all(found[0]):
        return found[0]
    sections: dict[str, str] = {}
    for message in found:
        for name, text in (message.sections or {}).items():
            if text is None:
                sections.pop(name, None)
            else:
                sections[name] = text
    texts = (content_text(message.content) for message in found)
    return _system_message(
        "\n\n".join(text for text in texts if text), sections, current_tools(found), found[0].timestamp
    )


def _says_all(message: SystemMessage) -> bool:
    """Whether replaying the message alone gives the message itself."""
    return (
        isinstance(message.content, str)
        and (message.sections is None or (bool(message.sections) and None not in message.sections.values()))
        and message.tools_removed is None
        and (
            message.tools_added is None
            or 0 < len({t.name for t in message.tools_added}) == len(message.tools_added)
        )
    )


def _system_message(
    content: str, sections: dict[str, str], tools: tuple[Tool, ...], timestamp: Number
) -> SystemMessage:
    changes: dict[str, object] = {}
    if sections:
        changes["sections"] = sections
    if tools:
        changes["tools_added"] = tools
    return SystemMessage(content=content, timestamp=timestamp).with_(**changes)


def current_system_prompt(messages: Sequence[Message]) -> str:
    """The system prompt that holds after every change, as text; empty where there is none."""
    message = current_system_message(messages)
    return "" if message is None else system_message_text(message)


def collapse_system_messages(context: Context) -> Context:
    """The context with one leading system message in the place of all, for APIs that take no later ones."""
    messages = context.messages
    head = current_system_message(messages)
    if head is None or (head is messages[0]):
        # Nothing to collapse: `head` is the very message only where it is the only one.
        return context
    return _context((head, *(message for message in messages if message.role != "system")))


def resolve_transcript(context: Context, *, supports_mid_conversation: bool) -> Context:
    """Later system messages stay in place where the model takes them, else they are collapsed."""
    return context if supports_mid_conversation else collapse_system_messages(context)


def to_tool_declaration(tool: Tool) -> Tool:
    """What the model is told of a tool, without what only a host knows about it."""
    if type(tool) is Tool and not tool.__pydantic_extra__:
        return tool
    known = tool.memo.get(_DECLARATION)
    if isinstance(known, Tool):
        return known
    declared = Tool(name=tool.name, description=tool.description, parameters=tool.parameters)
    if tool.constrained_sampling is not None:
        declared = declared.with_(constrained_sampling=tool.constrained_sampling)
    tool.memo[_DECLARATION] = declared
    return declared


def declaration_json(tool: Tool) -> bytes:
    """A tool's declaration as compact JSON. Two tools are the same to a model where this is equal."""
    known = tool.memo.get(_DECLARATION_JSON)
    if isinstance(known, bytes):
        return known
    declared = to_tool_declaration(tool)
    # The order of the tool's own fields is no difference; the order of keys in its schema is.
    text = dump_json(
        [
            declared.name,
            declared.description,
            declared.parameters,
            None if declared.constrained_sampling is None else declared.to_json()["constrainedSampling"],
        ]
    )
    tool.memo[_DECLARATION_JSON] = text
    return text


def declarations_equal(left: Tool, right: Tool) -> bool:
    """Whether two tools are the same to a model. The order of keys in `parameters` counts."""
    return left is right or declaration_json(left) == declaration_json(right)


@dataclass(frozen=True, slots=True)
class ToolStateChanges:
    """What turns one set of tools into another. A tool that changed is in both."""

    tools_added: tuple[Tool, ...]
    tools_removed: tuple[ToolReference, ...]

    def __bool__(self) -> bool:
        return bool(self.tools_added or self.tools_removed)


def tool_state_changes(previous: Sequence[Tool], current: Sequence[Tool]) -> ToolStateChanges:
    """What has to be declared so that `current` holds where `previous` did."""
    before = {tool.name: tool for tool in previous}
    after = {tool.name: tool for tool in current}
    return ToolStateChanges(
        tools_added=tuple(to_tool_declaration(t) for t in current if _is_new(t, before.get(t.name))),
        tools_removed=tuple(ToolReference(name=t.name) for t in previous if _is_new(t, after.get(t.name))),
    )


def _is_new(tool: Tool, other: Tool | None) -> bool:
    return other is None or not declarations_equal(tool, other)


def declared_tools(messages: Sequence[Message]) -> tuple[Tool, ...]:
    """Every tool that a transcript ever declares, each in its last form, in order of first mention."""
    tools: dict[str, Tool] = {}
    for message in system_messages(messages):
        for tool in message.tools_added or ():
            tools[tool.name] = tool
    return tuple(tools.values())


def has_tool_redefinitions(messages: Sequence[Message]) -> bool:
    """Whether a name was declared twice with different meanings, which APIs that go by name cannot say."""
    declared: dict[str, Tool] = {}
    for message in system_messages(messages):
        for tool in message.tools_added or ():
            if not declarations_equal(declared.setdefault(tool.name, tool), tool):
                return True
            declared[tool.name] = tool
    return False


def has_non_additive_tool_changes(messages: Sequence[Message]) -> bool:
    """Whether a tool was removed or declared again, which APIs that only add cannot say."""
    declared: set[str] = set()
    for message in system_messages(messages):
        if message.tools_removed:
            return True
        for tool in message.tools_added or ():
            if tool.name in declared:
                return True
            declared.add(tool.name)
    return False


@dataclass(frozen=True, slots=True)
class TranscriptTools:
    """Tools for the top of a request, and whether later additions go out where they stand."""

    request_tools: tuple[Tool, ...]
    anchors_additions: bool


def resolve_transcript_tools(
    messages: Sequence[Message], *, supports_tool_additions: bool
) -> TranscriptTools:
    """Which tools stand at the top of a request.

    Where an API takes additions in place and nothing else was done, the first ones; otherwise all that
    hold now.
    """
    if supports_tool_additions and not has_non_additive_tool_changes(messages):
        first = initial_system_message(messages)
        return TranscriptTools((first.tools_added or ()) if first else (), True)
    return TranscriptTools(current_tools(messages), False)
