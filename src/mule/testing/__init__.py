"""Doubles for tests of what is built on `mule`, ours too: virtual time, scripted models and tools."""

from mule.testing.clock import AutojumpLoop, run_virtually, virtual_backend, virtual_backends
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
    "error_answer",
    "hang",
    "pause",
    "progress",
    "run_virtually",
    "tool_call_answer",
    "virtual_backend",
    "virtual_backends",
]
