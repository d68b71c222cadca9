"""Pi's agent loop in Pi's manner: plain async functions, a cooperative signal, messages of your own.

A translation onto the same interpreter as `mule.effect`. Hooks are plain (async) functions; failures
are raised as `MuleError`; an `error` or `aborted` answer settles the loop and is returned.
"""

from __future__ import annotations

from mule.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentMessageEnd,
    AgentMessageStart,
    AgentMessageUpdate,
    AgentStart,
    AgentToolExecutionEnd,
    AgentToolExecutionStart,
    AgentToolExecutionUpdate,
    AgentTurnEnd,
    AgentTurnStart,
)
from mule.agent.hooks import (
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentLoopConfig,
    AgentLoopTurnUpdate,
    AgentRequestUpdate,
    AgentTurnContext,
    AgentTurnDecision,
    BeforeToolCallContext,
    BeforeToolCallResult,
    PrepareRequestContext,
)
from mule.agent.loop import run_agent_loop, run_agent_loop_continue, run_tool_call
from mule.agent.retry import RetryCallbacks, retry_assistant_call
from mule.agent.tools import AgentTool, AgentToolCallOutcome, AgentToolResult, AgentToolUpdateCallback
from mule.values.signal import AbortController, AbortSignal

__all__ = [
    "AbortController",
    "AbortSignal",
    "AfterToolCallContext",
    "AfterToolCallResult",
    "AgentContext",
    "AgentEnd",
    "AgentEvent",
    "AgentLoopConfig",
    "AgentLoopTurnUpdate",
    "AgentMessageEnd",
    "AgentMessageStart",
    "AgentMessageUpdate",
    "AgentRequestUpdate",
    "AgentStart",
    "AgentTool",
    "AgentToolCallOutcome",
    "AgentToolExecutionEnd",
    "AgentToolExecutionStart",
    "AgentToolExecutionUpdate",
    "AgentToolResult",
    "AgentToolUpdateCallback",
    "AgentTurnContext",
    "AgentTurnDecision",
    "AgentTurnEnd",
    "AgentTurnStart",
    "BeforeToolCallContext",
    "BeforeToolCallResult",
    "PrepareRequestContext",
    "RetryCallbacks",
    "retry_assistant_call",
    "run_agent_loop",
    "run_agent_loop_continue",
    "run_tool_call",
]
