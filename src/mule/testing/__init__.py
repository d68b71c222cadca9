"""Doubles for tests of what is built on `mule`, ours too: time, models, tools, cancels at any moment."""

from mule.testing.clock import (
    AutojumpLoop,
    Backend,
    BackendName,
    run_virtually,
    virtual_backend,
    virtual_backends,
)
from mule.testing.faults import CancelHow, CancelOutcome, cancel_at, sweep
from mule.testing.model import (
    SCRIPTED_MODEL,
    Scripted,
    ScriptedAnswer,
    ScriptedModel,
    ScriptedRequest,
    ScriptedStream,
    answer,
    error_answer,
    tool_call_answer,
)
from mule.testing.tool import (
    Fail,
    ScriptedTool,
    ScriptedToolRun,
    ToolFunction,
    ToolScript,
    ToolStep,
    hang,
    pause,
    progress,
)

__all__ = [
    "SCRIPTED_MODEL",
    "AutojumpLoop",
    "Backend",
    "BackendName",
    "CancelHow",
    "CancelOutcome",
    "Fail",
    "Scripted",
    "ScriptedAnswer",
    "ScriptedModel",
    "ScriptedRequest",
    "ScriptedStream",
    "ScriptedTool",
    "ScriptedToolRun",
    "ToolFunction",
    "ToolScript",
    "ToolStep",
    "answer",
    "cancel_at",
    "error_answer",
    "hang",
    "pause",
    "progress",
    "run_virtually",
    "sweep",
    "tool_call_answer",
    "virtual_backend",
    "virtual_backends",
]
