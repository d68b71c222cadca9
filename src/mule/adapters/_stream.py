"""An answer as a stream of events: a request, its bytes, a decoder for them, and one last event.

What every adapter over HTTP shares. An adapter brings a function that makes the request and the decoder,
both without I/O; all waiting is here and in `_http`. No scope is ever open while an event is out.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import anyio
from returns.future import FutureResult
from returns.pipeline import is_successful

from mule.adapters._failing import (
    CallFailed,
    aborted,
    cut_text,
    describe_page,
    is_html,
    read_provider_error,
    without_secrets,
)
from mule.adapters._http import CLOSE_GRACE_S, HttpCall
from mule.adapters._request import Request
from mule.adapters._sse import MAX_EVENT_BYTES, SseDecoder, SseFrame, SseTooLong
from mule.results import settle
from mule.transcript.assemble import AnswerBuilder
from mule.values.errors import MuleError
from mule.values.jsontext import JsonObject, JsonValue, load_json
from mule.values.messages import AssistantMessage
from mule.values.model import Model
from mule.values.request import ProviderResponse, StreamOptions
from mule.values.stream import AssistantDone, AssistantError, AssistantMessageEvent
from mule.waiting import is_their_failure, protected

T = TypeVar("T")

_HEAD_BYTES: Final = 65_536
"""How much is kept of a body that holds no event, to say what it was instead."""
_NO_BODY: Final = (204, 205)


class Decoder(Protocol):
    """Makes events of frames. No I/O, constant work for each."""

    @property
    def is_whole(self) -> bool:
        """Whether the provider has said that nothing more comes but numbers."""
        ...

    def knows(self, value: JsonValue, /) -> bool:
        """Whether this is something that `take` makes an answer or an error of: a whole body, maybe."""
        ...

    def is_end(self, frame: SseFrame, /) -> bool:
        """Whether the answer ends with this frame, which holds nothing else."""
        ...

    def parse(self, frame: SseFrame, /) -> object:
        """The frame's data. Raises ValueError where it is not what the API sends."""
        ...

    def take(self, chunk: Any, /) -> list[AssistantMessageEvent]:
        """The events that a frame makes. Raises CallFailed where it holds the provider's error."""
        ...

    def seal(self) -> None:
        """Put down what is known only once no more comes: the answer failed."""
        ...

    def close_blocks(self) -> list[AssistantMessageEvent]:
        """The ends of the blocks that are still open, once no more frames come."""
        ...

    def outcome(self) -> AssistantDone:
        """The last event, after that. Raises CallFailed where the answer is not a good one."""
        ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an adapter makes of a model, a context and options."""

    request: Request
    decoder: Decoder


class ProviderStream:
    """One answer, as an `AssistantMessageEventStream`. Nothing happens until it is read.

    Args:
        prepare: makes the request and the decoder; a `CallFailed` it raises is the stream's one event.
    """

    def __init__(
        self,
        model: Model[Any],
        options: StreamOptions,
        prepare: Callable[[AnswerBuilder], Prepared],
    ) -> None:
        self._model = model
        self._options = options
        self._prepare = prepare
        self._builder = AnswerBuilder(model, timestamp=int(time.time() * 1000))
        self._framer = SseDecoder()
        self._decoder: Decoder | None = None
        self._call: HttpCall | None = None
        self._secrets: tuple[str, ...] = ()
        self._head: list[bytes] | None = []  # of the body, as long as it held no event
        self._head_length = 0
        self._batch: list[AssistantMessageEvent] = []
        self._at = 0
        self._last: AssistantDone | AssistantError | None = None
        self._message: AssistantMessage | None = None
        self._over = False
        self._busy = False
        self._idle: anyio.Event | None = None

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        at = self._at
        if at < len(self._batch):
            self._at = at + 1
            return self._batch[at]
        if self._over:
            raise StopAsyncIteration
        self._busy = True
        try:
            return await self._next()
        except (StopAsyncIteration, GeneratorExit):
            # The second: nobody waits any more, and nothing may be waited for.
            self._over = True
            raise
        except BaseException:
            self._over = True
            await protected(self._give_back, CLOSE_GRACE_S)
            raise
        finally:
            self._busy = False
            if self._idle is not None:
                self._idle.set()

    async def result(self) -> AssistantMessage:
        """The final message; reads what was not read yet. Of a stream that was closed early: aborted."""
        async for _ in self:
            pass
        if self._message is None:
            self._message = self._builder.failed("aborted", "The stream was closed before its end.").error
        return self._message

    async def aclose(self) -> None:
        """Stop, and give back the connection. Harmless twice, and while another task reads."""
        if self._busy:
            await self._stop_reader()
            return
        if self._over:
            return
        self._over = True
        self._batch = []
        try:
            await self._give_back()
        except BaseException:
            await protected(self._give_back, CLOSE_GRACE_S)
            raise

    async def _stop_reader(self) -> None:
        self._over = True
        self._idle = self._idle or anyio.Event()
        if self._call is not None:
            await self._call.interrupt()
        await self._idle.wait()

    async def _give_back(self, *, drain: bool = False) -> None:
        if self._call is not None:
            await self._call.close(drain=drain)

    # --- event by event

    async def _next(self) -> AssistantMessageEvent:
        while True:
            if self._last is not None:
                return await self._finish(self._last)
            events = await self._step()
            if self._over:  # closed from another task
                await self._give_back()
                raise StopAsyncIteration
            if events and isinstance(events[-1], AssistantDone | AssistantError):
                self._last = events[-1]
                events.pop()
            if events:
                self._batch, self._at = events, 1
                return events[0]

    async def _finish(self, last: AssistantDone | AssistantError) -> AssistantMessageEvent:
        # Before the last event is handed out: whoever has it need not read on, or close.
        await self._give_back(drain=isinstance(last, AssistantDone))
        self._over = True
        self._message = last.message if isinstance(last, AssistantDone) else last.error
        return last

    async def _step(self) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        try:
            if self._decoder is None or self._call is None:
                await self._open()
                events.append(self._builder.start())
            else:
                await self._advance(self._call, self._decoder, events)
        except CallFailed as failure:
            events += self._failed(failure)
        return events

    async def _open(self) -> None:
        options = self._options
        if options.signal is not None and options.signal.aborted:
            raise aborted()
        prepared = self._prepare(self._builder)
        request = prepared.request
        self._secrets = request.secrets
        if options.on_payload is not None:
            request = await self._changed(request)
        if self._over:  # closed while a hook was asked
            return
        call = self._call = HttpCall(request, options, self._model.provider)
        await call.open()
        if options.on_response is not None:
            response = ProviderResponse(status=call.status or 200, headers=call.headers)
            await _ask("on_response", options.on_response, response, self._model)
        self._decoder = prepared.decoder

    async def _changed(self, request: Request) -> Request:
        hook = self._options.on_payload
        assert hook is not None
        payload = request.payload()
        assert isinstance(payload, dict)
        replacement: JsonObject | None = await _ask("on_payload", hook, payload, self._model)
        return request if replacement is None else request.with_payload(replacement)

    async def _advance(self, call: HttpCall, decoder: Decoder, events: list[AssistantMessageEvent]) -> None:
        """Read once, and append what that gives."""
        try:
            piece = await call.read()
        except CallFailed as failure:
            if decoder.is_whole and failure.ending != "aborted":
                # Only the numbers at the end were lost.
                self._conclude(decoder, events)
                return
            raise
        if piece is None:
            await self._body_ended(decoder, events)
            return
        try:
            frames = self._framer.feed(piece)
        except SseTooLong as exc:
            raise CallFailed("malformed", f"The answer is not one: {exc}.") from exc
        if frames:
            self._head = None
            await self._decode(frames, decoder, events)
        elif self._head is not None:
            self._remember(piece, self._head)

    async def _decode(
        self, frames: list[SseFrame], decoder: Decoder, events: list[AssistantMessageEvent]
    ) -> None:
        hook = self._options.on_provider_stream_event
        for frame in frames:
            if decoder.is_end(frame):
                self._conclude(decoder, events)
                return
            try:
                chunk = decoder.parse(frame)
            except ValueError as exc:
                raise _BadFrame(frame) from exc
            if hook is not None:
                await _ask("on_provider_stream_event", hook, chunk, self._model)
            events += decoder.take(chunk)

    def _conclude(self, decoder: Decoder, events: list[AssistantMessageEvent]) -> None:
        events += decoder.close_blocks()
        if self._options.signal is not None and self._options.signal.aborted:
            raise aborted()
        events.append(decoder.outcome())

    # --- what no frame is

    def _remember(self, piece: bytes, head: list[bytes]) -> None:
        is_json = b"".join(head[:1] or [piece]).lstrip()[:1] in (b"{", b"[")
        if self._head_length < (MAX_EVENT_BYTES if is_json else _HEAD_BYTES):
            head.append(piece)
            self._head_length += len(piece)

    async def _body_ended(self, decoder: Decoder, events: list[AssistantMessageEvent]) -> None:
        head, self._head = self._head, None
        frames = self._framer.end()
        if head is not None and not frames:
            await self._read_whole(b"".join(head), decoder, events)
            return
        with suppress(_BadFrame):  # it broke off, which is what the outcome says
            await self._decode(frames, decoder, events)
        if not (events and isinstance(events[-1], AssistantDone)):
            self._conclude(decoder, events)

    async def _read_whole(self, body: bytes, decoder: Decoder, events: list[AssistantMessageEvent]) -> None:
        """A body without any event: an answer in one piece, an error, something else, or nothing."""
        status = None if self._call is None else self._call.status
        text = body.decode("utf-8", "replace").strip()
        if status in _NO_BODY:
            raise CallFailed("malformed", f"{status} (no body): the server has nothing to say.")
        if text and not text.startswith(":"):  # comments keep a connection alive, and say nothing
            try:
                value = load_json(text)
            except (ValueError, RecursionError):
                value = None
            if not decoder.knows(value):
                raise CallFailed("malformed", f"No answer came, but {_named(text, value)}")
            await self._decode([SseFrame(text.encode())], decoder, events)
        self._conclude(decoder, events)

    def _failed(self, failure: CallFailed) -> list[AssistantMessageEvent]:
        signal = self._options.signal
        if signal is not None and signal.aborted and failure.ending != "aborted":
            failure = aborted()
        events: list[AssistantMessageEvent] = []
        if self._decoder is not None:
            self._decoder.seal()
            if failure.ending == "aborted":
                events += self._decoder.close_blocks()
        call = self._call
        status, headers = failure.status, failure.headers
        if status is None and call is not None and call.status is not None:
            status, headers = call.status, call.headers
        said = failure.provider_error
        events.append(
            self._builder.failed(
                failure.ending,
                without_secrets(failure.text, self._secrets),
                provider_error=None if said is None else without_secrets(said, self._secrets),
                status=status,
                headers=headers,
                retry_after_ms=failure.retry_after_ms,
            )
        )
        return events


class _BadFrame(CallFailed):
    """A frame is not what the API sends."""

    def __init__(self, frame: SseFrame) -> None:
        shown = cut_text(frame.data.decode("utf-8", "replace"), 200)
        super().__init__("malformed", f"The answer holds an event that cannot be read: {shown}")


async def _ask(name: str, hook: Callable[..., FutureResult[T, MuleError]], *given: object) -> T:
    """Ask a hook of the request; its failure is the request's."""
    try:
        result = await settle(hook(*given))
    except BaseException as exc:
        if is_their_failure(exc):
            text = f"The hook {name} failed: {type(exc).__name__}: {exc}"
            raise CallFailed("unknown", text, is_final=True) from exc
        raise
    if is_successful(result):
        return result.unwrap()
    error = result.failure()
    raise CallFailed("unknown", f"The hook {name} failed: {error}", is_final=True) from error


def _named(text: str, value: JsonValue) -> str:
    if is_html(text):
        return f"{describe_page(text)}. Is the base URL of the model right?"
    error = read_provider_error(value) if value is not None else None
    return cut_text(text.strip(), 500) if error is None else error.message
