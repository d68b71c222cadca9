"""Any message, any event: what hypothesis draws values from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall
from mule.values.errors import (
    BudgetExceeded,
    Defect,
    HookFailed,
    InvalidInput,
    ListenerFailed,
    ModelFailed,
    MuleError,
    NotSupported,
    Reason,
    Rejected,
    ResumeMismatch,
    SchemaMismatch,
    ToolFailed,
)
from mule.values.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from mule.values.run import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    MuleCompletedTurn,
    MuleEvent,
    MuleIdentity,
    MuleRunOutcome,
    RunEnd,
    RunStart,
    Settled,
    Started,
    ToolCheckpointed,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from mule.values.stream import (
    AssistantDone,
    AssistantError,
    AssistantStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from mule.values.tools import (
    MuleToolProgress,
    MuleToolResult,
    NestedToolCallRecord,
    NestedToolCalls,
    Tool,
    ToolReference,
)
from mule.values.usage import Usage, UsageCost

# Half surrogate pairs are among the characters: JSON can spell them, and transcripts hold them.
texts = st.text(st.characters(codec=None) | st.sampled_from("a\ud83d\ude00😀"), max_size=8)
names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)
numbers = st.integers(0, 2**53) | st.floats(0, 1e9)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)


def some(**optional: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of these fields, absent or given; a given one may be None."""
    return st.fixed_dictionaries({}, optional={name: st.none() | value for name, value in optional.items()})


def made(
    cls: Any, optional: st.SearchStrategy[dict[str, Any]] | None = None, **fields: Any
) -> st.SearchStrategy[Any]:
    """Values of a class, with unknown fields where it keeps them."""
    extra = st.dictionaries(names.map(lambda name: f"x{name}"), json_values, max_size=1)
    given = st.fixed_dictionaries(fields)
    return st.tuples(given, st.just({}) if optional is None else optional, extra).map(
        lambda drawn: cls(**drawn[0], **drawn[1], **drawn[2])
    )


usages = made(
    Usage,
    some(reasoning=numbers, cache_write1h=numbers),
    input=numbers,
    cost=made(UsageCost, total=numbers),
)
text_blocks = made(TextContent, some(text_signature=texts), text=texts)
thinking_blocks = made(
    ThinkingContent, some(thinking_signature=texts, redacted=st.booleans()), thinking=texts
)
images = made(ImageContent, data=texts, mime_type=texts)
calls = made(
    ToolCall,
    some(thought_signature=texts, namespace=texts, arguments_error=texts),
    id=texts,
    name=texts,
    arguments=json_objects,
)


def lists(*items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(st.one_of(*items), max_size=2).map(tuple)


nested_calls = made(
    NestedToolCalls,
    calls=lists(
        made(NestedToolCallRecord, some(arguments=json_objects), id=texts, name=texts, status=st.just("ok"))
    ),
    complete=st.booleans(),
)
tools = made(Tool, name=names, description=texts, parameters=json_objects)
system_messages = made(
    SystemMessage,
    some(
        sections=st.dictionaries(texts, st.none() | texts, max_size=2),
        tools_added=lists(tools),
        tools_removed=lists(made(ToolReference, name=names)),
    ),
    content=texts | lists(text_blocks),
    timestamp=numbers,
)
user_messages = made(UserMessage, content=texts | lists(text_blocks, images))
assistant_messages = made(
    AssistantMessage,
    some(error_message=texts, response_id=texts, duration_ms=numbers, provider_error=texts),
    content=lists(text_blocks, thinking_blocks, calls),
    api=names,
    provider=names,
    model=names,
    usage=usages,
    stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted", "deferred"]),
    timestamp=numbers,
)
tool_results = made(
    ToolResultMessage,
    some(details=json_values, usage=usages, nested_calls=nested_calls),
    tool_call_id=texts,
    tool_name=names,
    content=lists(text_blocks, images),
    is_error=st.booleans(),
    timestamp=numbers,
)
messages: st.SearchStrategy[Message] = system_messages | user_messages | assistant_messages | tool_results


def identities(kind: Any) -> st.SearchStrategy[MuleIdentity]:
    return st.builds(MuleIdentity, st.just(kind), texts)


runs, turns, message_ids, tool_ids = (identities(kind) for kind in ("run", "turn", "message", "tool"))
heads: dict[str, Any] = {"sequence": st.integers(0), "timestamp": st.integers(0), "run": runs}
in_turn: dict[str, Any] = {**heads, "turn": turns}
in_message: dict[str, Any] = {**in_turn, "message": message_ids}
in_tool: dict[str, Any] = {**in_message, "tool": tool_ids}

indexes = st.integers(0, 20)
assistant_events = st.one_of(
    st.builds(AssistantStart),
    *(st.builds(cls, indexes) for cls in (TextStart, ThinkingStart, ToolCallStart)),
    *(
        st.builds(cls, indexes, texts)
        for cls in (TextDelta, ThinkingDelta, ToolCallDelta, TextEnd, ThinkingEnd)
    ),
    st.builds(ToolCallEnd, indexes, calls),
    st.builds(
        AssistantDone, st.sampled_from(["stop", "length", "toolUse", "deferred"]), assistant_messages
    ),
    st.builds(AssistantError, st.sampled_from(["error", "aborted"]), assistant_messages),
)
results = st.builds(
    MuleToolResult,
    content=lists(text_blocks, images),
    details=json_values,
    structured_content=json_values,
    usage=st.none() | usages,
    is_error=st.booleans(),
    terminate=st.booleans(),
    nested_calls=st.none() | nested_calls,
)
parts = st.builds(MuleToolProgress, content=lists(text_blocks, images), details=json_values)
checkpoints = st.one_of(
    st.builds(Started, tool_ids, calls, indexes),
    st.builds(Settled, tool_ids, calls, indexes, tool_results, st.booleans()),
)
outcomes = st.builds(
    MuleRunOutcome,
    run=runs,
    messages=lists(messages),
    new_messages=lists(messages),
    final=st.none() | assistant_messages,
    ended=st.sampled_from(["answered", "terminated", "stopped", "deferred", "needs_approval", None]),
    turns=indexes,
    usage=usages,
    undelivered=lists(messages),
)
completed_turns = st.builds(
    MuleCompletedTurn,
    turn=turns,
    index=indexes,
    message=assistant_messages,
    tool_results=lists(tool_results),
    messages=lists(messages),
    new_messages=lists(messages),
)
plain_events_by_type: dict[str, st.SearchStrategy[Any]] = {
    "run_start": st.builds(RunStart, **heads, resumed=st.booleans()),
    "turn_start": st.builds(TurnStart, **in_turn, index=indexes),
    "message_start": st.builds(MessageStart, **in_message, tool=st.none() | tool_ids, value=messages),
    "message_update": st.builds(MessageUpdate, **in_message, event=assistant_events),
    "message_end": st.builds(MessageEnd, **in_message, tool=st.none() | tool_ids, value=messages),
    "tool_execution_start": st.builds(ToolExecutionStart, **in_tool, call=calls),
    "tool_checkpoint": st.builds(ToolCheckpointed, **in_tool, checkpoint=checkpoints),
    "tool_execution_update": st.builds(ToolExecutionUpdate, **in_tool, call=calls, part=parts),
    "tool_execution_end": st.builds(ToolExecutionEnd, **in_tool, call=calls, result=results),
}
plain_events = st.one_of(*plain_events_by_type.values())
reasons: st.SearchStrategy[Reason] = st.one_of(
    st.builds(InvalidInput, texts, texts),
    st.builds(NotSupported, texts, st.none() | texts),
    st.builds(
        ModelFailed,
        st.sampled_from(["network", "rate_limited", "unknown"]),
        assistant_messages,
        st.none() | st.integers(100, 599),
        st.none() | st.dictionaries(names, texts, max_size=2),
        st.none() | numbers,
    ),
    st.builds(HookFailed, names),
    st.builds(ListenerFailed, plain_events),
    st.builds(ToolFailed, names, texts),
    st.builds(
        Rejected, st.sampled_from(["not_authorized", "unavailable"]), texts, json_values, st.booleans()
    ),
    st.builds(ResumeMismatch, texts),
    st.builds(BudgetExceeded, texts, numbers),
    st.builds(SchemaMismatch, texts, texts),
    st.builds(Defect, texts),
)
errors = st.builds(MuleError, reasons, st.none() | runs | tool_ids)
events_by_type: dict[str, st.SearchStrategy[Any]] = {
    **plain_events_by_type,
    "turn_end": st.builds(TurnEnd, **in_turn, completed=completed_turns),
    "run_end": st.builds(
        RunEnd,
        **heads,
        status=st.sampled_from(["completed", "failed", "cancelled"]),
        outcome=outcomes,
        error=st.none() | errors,
    ),
}
events: st.SearchStrategy[MuleEvent] = st.one_of(*events_by_type.values())
