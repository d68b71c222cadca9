"""How a whole message comes to be in pieces, and what it looked like at each of them."""

from __future__ import annotations

from collections.abc import Iterator

from mule.values.content import TextContent, ThinkingContent, ToolCall
from mule.values.jsontext import cut_utf16, dump_json, utf16_length
from mule.values.messages import AssistantMessage
from mule.values.stream import (
    AssistantStart,
    GrowthEvent,
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

Block = TextContent | ThinkingContent | ToolCall


class Growth:
    """The events that let a message grow, and the source of their partials.

    Revision n is the message after n events, the `start` not counted. An event costs the same however long
    the message is; a partial is put together when somebody looks at it.
    """

    def __init__(self, message: AssistantMessage, chunk: int | None) -> None:
        self._chunk = chunk
        self._blocks = tuple((block, _text_of(block)) for block in message.content)
        known = message.to_json()
        bare = {name: known[name] for name in known if name not in ("errorMessage", "providerError")}
        self._bare = AssistantMessage.from_json({**bare, "content": [], "stopReason": "pending"})

    def events(self, *, start: bool) -> Iterator[GrowthEvent]:
        """All events but the last one, each made when it is asked for."""
        if start:
            yield AssistantStart(self, 0)
        revision = 0
        for index, (block, text) in enumerate(self._blocks):
            revision += 1
            yield _opening(block)(index, self, revision)
            for piece in _pieces(text, self._chunk):
                revision += 1
                yield _growing(block)(index, piece, self, revision)
            revision += 1
            yield self._closing(index, block, revision)

    def _closing(self, index: int, block: Block, revision: int) -> TextEnd | ThinkingEnd | ToolCallEnd:
        match block:
            case TextContent(text=text):
                return TextEnd(index, text, self, revision)
            case ThinkingContent(thinking=text):
                return ThinkingEnd(index, text, self, revision)
            case ToolCall():
                return ToolCallEnd(index, block, self, revision)

    def partial(self, revision: int, /) -> AssistantMessage:
        """The message after so many events: blocks that have ended are whole, the last one may be open."""
        content: list[Block] = []
        left = revision
        for block, text in self._blocks:
            if left <= 0:
                break
            events = _count(text, self._chunk) + 2
            content.append(block if left >= events else _open(block, self._cut(text, left - 1)))
            left -= events
        return self._bare.with_(content=tuple(content))

    def _cut(self, text: str, pieces: int) -> str:
        if self._chunk is None:
            return text if pieces else ""
        return cut_utf16(text, pieces * self._chunk)


def _text_of(block: Block) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ThinkingContent(thinking=text):
            return text
        case ToolCall(arguments=arguments):
            return dump_json(arguments).decode()


def _opening(block: Block) -> type[TextStart | ThinkingStart | ToolCallStart]:
    match block:
        case TextContent():
            return TextStart
        case ThinkingContent():
            return ThinkingStart
        case ToolCall():
            return ToolCallStart


def _growing(block: Block) -> type[TextDelta | ThinkingDelta | ToolCallDelta]:
    match block:
        case TextContent():
            return TextDelta
        case ThinkingContent():
            return ThinkingDelta
        case ToolCall():
            return ToolCallDelta


def _open(block: Block, text: str) -> Block:
    """A block that has not ended: no signature yet, and no arguments until they are whole."""
    match block:
        case TextContent():
            return TextContent(text=text)
        case ThinkingContent():
            return ThinkingContent(thinking=text)
        case ToolCall(id=call_id, name=name):
            return ToolCall(id=call_id, name=name, arguments={})


def _pieces(text: str, chunk: int | None) -> Iterator[str]:
    if chunk is None or not text:
        yield text
    elif text.isascii():
        for begin in range(0, len(text), chunk):
            yield text[begin : begin + chunk]
    else:
        units = text.encode("utf-16-le", "surrogatepass")
        for begin in range(0, len(units), 2 * chunk):
            yield units[begin : begin + 2 * chunk].decode("utf-16-le", "surrogatepass")


def _count(text: str, chunk: int | None) -> int:
    if chunk is None or not text:
        return 1
    return -(-utf16_length(text) // chunk)
