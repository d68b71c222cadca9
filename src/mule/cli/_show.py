"""What a person, or a program, is shown of a run while it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO, Final, TextIO

from returns.future import FutureResult

from mule.results import done
from mule.transcript.text import content_text
from mule.values.content import ImageContent, TextContent, ToolCall
from mule.values.errors import MuleError
from mule.values.jsontext import dump_json
from mule.values.messages import AssistantMessage, UserMessage
from mule.values.run import (
    MessageEnd,
    MessageStart,
    MessageUpdate,
    MuleEvent,
    RunEnd,
    RunStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from mule.values.stream import TextDelta
from mule.values.usage import Usage

_MAX_SHOWN: Final = 200
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would obey rather than show, but for tab and new line."""


class JsonShow:
    """One line of JSON an event."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def __call__(self, event: MuleEvent, /) -> FutureResult[None, MuleError]:
        self._out.write(dump_json(event.to_json()) + b"\n")
        self._out.flush()
        return done


class TextShow:
    """The conversation as text: questions, the answer as it streams, tool calls and results, a summary."""

    def __init__(self, out: TextIO, *, priced: bool) -> None:
        self._out = out
        self._priced = priced
        self._began_ms = 0
        self._in_line = False

    def __call__(self, event: MuleEvent, /) -> FutureResult[None, MuleError]:
        self._show(event)
        self._out.flush()
        return done

    def _show(self, event: MuleEvent) -> None:
        match event:
            case RunStart():
                self._began_ms = event.timestamp
            case MessageStart(value=UserMessage(content=content)):
                self._line(f"> {content_text(content)}")
            case MessageUpdate(event=TextDelta(delta=delta)):
                self._write(delta)
            case MessageEnd(value=AssistantMessage()):
                self._end_line()
            case ToolExecutionStart():
                self._line(f"-> {_called(event.call)}")
            case ToolExecutionUpdate():
                self._line(f"   {event.call.name}: {_in_short(event.part.content)}")
            case ToolExecutionEnd():
                failed = " failed" if event.result.is_error else ""
                self._line(f"<- {event.call.name}{failed}: {_in_short(event.result.content)}")
            case RunEnd():
                seconds = (event.timestamp - self._began_ms) / 1000
                self._line(f"[{_tokens(event.outcome.usage)}, {self._cost(event)}, {seconds:.1f} s]")
            case _:
                pass

    def _cost(self, event: RunEnd) -> str:
        return f"${event.outcome.usage.cost.total:.4f}" if self._priced else "cost not known"

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(text)
        self._end_line()

    def _write(self, text: str) -> None:
        shown = _CONTROL.sub("", text)
        self._out.write(shown)
        if shown:
            self._in_line = not shown.endswith("\n")

    def _end_line(self) -> None:
        if self._in_line:
            self._out.write("\n")
            self._in_line = False


def _called(call: ToolCall) -> str:
    arguments = (f"{name}={_cut(dump_json(value).decode())}" for name, value in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


def _in_short(content: Sequence[TextContent | ImageContent]) -> str:
    shown = (item.text if isinstance(item, TextContent) else f"[{item.mime_type}]" for item in content)
    return _cut(" ".join(" ".join(shown).split())) or "(nothing)"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _tokens(usage: Usage) -> str:
    read = usage.input + usage.cache_read + usage.cache_write
    return f"{read} tokens in, {usage.output} out"
