"""A chat-completions model at an address of the test's choice, asked one plain question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from adapters.calling import Call, call, simple
from adapters.serving import Answer, Exchange, ScriptedTransport, bare_environment, sse
from mule.adapters.registry import stream_model
from mule.values.messages import Context, UserMessage
from mule.values.model import Model

HTML: Final = {"content-type": "text/html; charset=utf-8"}
JSON: Final = {"content-type": "application/json"}
STREAM: Final = {"content-type": "text/event-stream"}
KEY: Final = "pond-key-0123456789"


def delta(text: str) -> object:
    """A frame that adds text."""
    return {"id": "cc-1", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}


STOP: Final = {"id": "cc-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
WHOLE: Final = sse(delta("Still "), delta("here."), STOP, "[DONE]")


def model_at(base_url: str) -> Model[Any]:
    """A model served there."""
    return Model(
        id="pond-1",
        name="Pond 1",
        api="openai-completions",
        provider="pondworks",
        base_url=base_url,
        context_window=64_000,
        max_tokens=4_096,
    )


CONTEXT: Final = Context(messages=(UserMessage(content="Go on.", timestamp=1),))


async def ask(
    *exchanges: Exchange, base_url: str = "http://pond.test/v1", **options: Any
) -> tuple[Call, ScriptedTransport]:
    """Ask a server that answers so; nothing may be left open afterwards."""
    transport = ScriptedTransport(exchanges)
    with bare_environment():
        made = await call(
            stream_model, model_at(base_url), CONTEXT, simple({"apiKey": KEY, **options}, fetch=transport)
        )
    assert made.problems == []
    assert transport.left_open == 0
    assert transport.closed_itself == 0
    assert KEY not in (made.result.error_message or "")
    return made, transport


def refusal(status: int, body: bytes, headers: Mapping[str, str]) -> Answer:
    """A response that refuses."""
    return Answer(status=status, headers=headers, body=[body])
