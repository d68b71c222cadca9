"""What `mule.effect` exports is what the documentation lists, and everything in it is explained."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
from functools import cache
from itertools import pairwise
from typing import Any, Final

import pytest

import mule.effect
import mule.testing


def names(text: str) -> list[str]:
    return text.split()


REFERENCE: Final = names("""
run mule_effect MuleEffect MuleRunInput MuleRunSettings MuleRunOutcome MuleListener MuleEvent MuleIdentity
MuleIdentityKind MuleCompletedTurn MuleError MuleStreamFunction

MuleTool MulePreparedTool MuleToolExecutionPart MuleToolResult MuleToolRejection MuleToolCheckpoint
MuleResume

RetryPolicy MuleRetryObservation PI_CODING_AGENT_RETRY_DEFAULTS

stream_model normalize_model decode_provider_data observe_provider_status ProviderStatusRecorder
ProviderRejection is_retryable_provider_rejection is_context_overflow KnownApi Api ProviderId BaseModel
Model
Transport ProviderEnv ProviderHeaders FetchFunction ProviderResponse ProviderRequestOptions StreamOptions
SimpleStreamOptions ToolChoice SamplingParams SamplingParamsByThinkingLevel ThinkingLevel ModelThinkingLevel
ThinkingBudgets ProviderValue ProviderData

TextContent ThinkingContent ImageContent ToolCall Usage StopReason JsonValue JsonObject DeferredHandle
SystemMessage UserMessage AssistantMessage ToolResultMessage Message NestedToolCallRecord NestedToolCalls
GrammarFormat GrammarVariants ConstrainedSamplingConfig Tool ToolReference Context DiagnosticErrorInfo
AssistantMessageDiagnostic AssistantMessageEvent AssistantMessageEventStream

AttributeValue SpanAttributes SpanOptions SpanStatus TelemetryContext TelemetrySpan
""")
"""The names of the reference's interface."""

OURS: Final = names("""
ModelCost ModelCostTier ModelInputLimits ModelImageInputLimits ThinkingLevelMap CacheRetention
OpenAICompletionsCompat OpenAIResponsesCompat AnthropicMessagesCompat BedrockCompat
MistralConversationsCompat
AbortSignal AbortController

InvalidInput NotSupported ModelFailed HookFailed ListenerFailed ToolFailed Rejected ResumeMismatch
BudgetExceeded SchemaMismatch Defect

RunStart TurnStart MessageStart MessageUpdate MessageEnd ToolExecutionStart ToolCheckpointed
ToolExecutionUpdate ToolExecutionEnd TurnEnd RunEnd MuleToolProgress Started Settled

AssistantStart TextStart TextDelta TextEnd ThinkingStart ThinkingDelta ThinkingEnd ToolCallStart
ToolCallDelta ToolCallEnd AssistantDone AssistantError

then settle done decode_event decode_message decode_messages
""")
"""What a user needs beside them: value types, the members of unions, and the few functions of our own."""

PUBLIC: Final = [mule.effect, mule.testing]


def test_the_reference_has_as_many_names_as_it_says() -> None:
    assert len(REFERENCE) == len(set(REFERENCE)) == 84


def test_nothing_is_missing() -> None:
    assert set(REFERENCE) | set(OURS) <= set(mule.effect.__all__)


@pytest.mark.parametrize("module", PUBLIC)
def test_what_is_listed_is_there_once_and_in_order(module: Any) -> None:
    names = module.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert hasattr(module, name)
        assert not name.startswith("_")


@pytest.mark.parametrize("module", PUBLIC)
def test_what_is_there_is_listed(module: Any) -> None:
    imported = {alias.asname or alias.name for node in imports_of(module) for alias in node.names}
    assert imported <= set(module.__all__)


def test_a_name_is_loaded_from_where_the_type_checkers_look_for_it() -> None:
    shown = {alias.name: node.module for node in imports_of(mule.effect) for alias in node.names}
    assert shown == mule.effect._HOME


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_explained(module: Any) -> None:
    assert [name for name in module.__all__ if not is_explained(module, name)] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_method_is_explained(module: Any) -> None:
    bare = [
        f"{name}.{method}"
        for name in module.__all__
        if inspect.isclass(cls := getattr(module, name)) and cls.__module__.startswith("mule")
        for method, member in vars(cls).items()
        if not method.startswith("_")
        and inspect.isroutine(member)
        and not inspect.getdoc(getattr(cls, method))
    ]
    assert bare == []


@pytest.mark.parametrize("name", ["effect", "ports", "results", "settings", "values.run"])
def test_importing_stays_cheap(name: str) -> None:
    late = [
        "httpx",
        "trio",
        "jsonschema",
        "mule.agent",
        "mule.toolkit",
        "mule.testing",
        "mule.hosts",
    ]
    program = f"""
        import sys
        import mule.{name}
        adapters = [m for m in sys.modules if m.startswith("mule.adapters.")]
        print([m for m in {late!r} if m in sys.modules], len(adapters) > 4)
    """
    shown = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[] False"


def is_explained(module: Any, name: str) -> bool:
    value = getattr(module, name)
    home, own_name = defining(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        doc = value.__doc__ or ""
        return bool(doc.strip()) and not doc.startswith(
            f"{own_name}("
        )  # not what dataclasses write by themselves
    return own_name in explained_names(home)


def defining(module: Any, name: str) -> tuple[str, str]:
    """Where a name comes from: through every re-export to the module that assigns it."""
    for node in imports_of(module):
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                return defining(importlib.import_module(node.module or ""), alias.name)
    return module.__name__, name


def imports_of(module: Any) -> list[ast.ImportFrom]:
    """The imports from `mule` at the top of a module, those for type checkers included."""
    body = ast.parse(inspect.getsource(module)).body
    guarded = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    return [
        node
        for node in (*body, *guarded)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mule")
    ]


@cache
def explained_names(module: str) -> frozenset[str]:
    """The constants and aliases of a module that have a text under them."""
    source = inspect.getsource(importlib.import_module(module))
    return frozenset(
        target.id
        for assigned, text in pairwise(statements(ast.parse(source).body))
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        for target in (
            assigned.targets if isinstance(assigned, ast.Assign) else [getattr(assigned, "target", None)]
        )
        if isinstance(target, ast.Name)
    )


def statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module, those for the type checker alone included."""
    return [
        inner for node in body for inner in (statements(node.body) if isinstance(node, ast.If) else [node])
    ]
