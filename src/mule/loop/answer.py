"""One model call: its stream, told to the listener as it comes, and the final message."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, get_args

from typing_extensions import TypeVar

from mule.loop.program import ModelCall, Program, RunFailed
from mule.loop.report import Reporter
from mule.loop.wording import ABORTED
from mule.ports import AssistantMessageEventStream
from mule.transcript.endings import failure_of
from mule.transcript.redaction import secrets_of, without_secrets
from mule.values.errors import ModelFailed
from mule.values.messages import AssistantMessage, Message
from mule.values.model import ModelThinkingLevel
from mule.values.run import MuleIdentity
from mule.values.stream import (
    AssistantDone,
    AssistantError,
    AssistantMessageEvent,
    AssistantStart,
    GrowthEvent,
)
from mule.waiting import is_their_failure, protected

M = TypeVar("M", default=Message)

_CLOSE_S: Final = 2.0
"""How long closing a stream may take where the run goes down. The listener's grace is another thing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A final message, its identity, and the evidence where it failed; `cause` where a stream broke."""

    message: AssistantMessage
    identity: MuleIdentity
    failure: ModelFailed | None
    cause: BaseException | None = None


class _StreamBroke(Exception):
    """The stream function raised, or its stream did; not the listener."""

    def __init__(self, cause: BaseException) -> None:
        self.cause = cause


class Answering(Generic[M]):
    """Performs one model call."""

    __slots__ = (
        "_call",
        "_error",
        "_events",
        "_last",
        "_level",
        "_program",
        "_reporter",
        "_shown",
        "identity",
    )

    def __init__(
        self, program: Program[M], reporter: Reporter[M], call: ModelCall, level: ModelThinkingLevel
    ) -> None:
        self._program = program
        self._reporter = reporter
        self._call = call
        self._level = level
        self._shown = False
        self._error: AssistantError | None = None
        self._last: GrowthEvent | None = None
        self._events: AsyncIterator[AssistantMessageEvent] | None = None
        self.identity = reporter.identify("message")

    async def perform(self) -> Answer:
        """Make the call. A stream that raises, breaks or ends without a result is a malformed answer."""
        began = self._reporter.now()
        aborted = self._program.aborted()
        try:
            message = await self._stream()
            cause = None
        except _StreamBroke as exc:
            cause = exc.cause
            # Once the signal is given, breaking off is what was asked for.
            message = self._broken(cause, "aborted" if self._program.aborted() else "error")
        if aborted and message.stop_reason not in ("error", "aborted"):
            # A stream function that heeds no signal would keep an aborted run going for ever.
            message = message.with_(stop_reason="aborted", error_message=ABORTED)
        message = self._stamped(message, self._reporter.now() - began)
        if not self._shown:
            await self._reporter.message_start(message, self.identity)
        await self._reporter.message_end(message, self.identity)
        return Answer(message, self.identity, self._failure(message, cause), cause)

    async def _stream(self) -> AssistantMessage:
        stream = await self._open()
        try:
            message = await self._read(stream)
        except BaseException:
            await protected(lambda: self._close(stream), _CLOSE_S)
            raise
        try:
            await self._close(stream)
        except BaseException:  # a cancel that arrives meanwhile must not leave the stream open
            await protected(lambda: self._close(stream), _CLOSE_S)
            raise
        return message

    async def _open(self) -> AssistantMessageEventStream:
        call = self._call
        try:
            opened = self._program.stream(call.model, call.context, call.options)
            if inspect.isawaitable(opened):
                return await opened
            return opened
        except BaseException as exc:
            if is_their_failure(exc):
                raise _StreamBroke(exc) from exc
            raise

    async def _read(self, stream: AssistantMessageEventStream) -> AssistantMessage:
        report = self._reporter
        identity = self.identity
        try:
            self._events = aiter(stream)
            async for event in self._events:
                if isinstance(event, AssistantDone):
                    return _final(event.message)
                if isinstance(event, AssistantError):
                    self._error = event
                    return _failed(event)
                if isinstance(event, AssistantStart):
                    if not self._shown:
                        value = _partial(event.partial)
                        self._shown = True
                        self._last = event
                        await report.message_start(value, identity)
                elif not isinstance(event, _Growth):
                    raise TypeError(f"{type(event).__name__} is no event of an answer")
                elif self._shown:
                    self._last = event
                    await report.message_update(event, identity)
            return _final(await stream.result())
        except RunFailed:
            raise
        except BaseException as exc:
            if is_their_failure(exc):
                raise _StreamBroke(exc) from exc
            raise

    async def _close(self, stream: AssistantMessageEventStream) -> None:
        """Close a stream, and first what it was iterated by, which may be a generator of its own."""
        events: object = self._events
        for each in (stream,) if events is stream else (events, stream):
            aclose = getattr(each, "aclose", None)
            if aclose is None:
                continue
            try:
                await aclose()
            except BaseException as exc:
                if not is_their_failure(exc):
                    raise

    def _broken(self, cause: BaseException, stop_reason: Literal["error", "aborted"]) -> AssistantMessage:
        """The answer of a stream that broke: what had arrived by then, and why there is no more."""
        options = self._call.options
        text = f"The stream of the model broke: {type(cause).__name__}: {cause}"
        text = without_secrets(text, secrets_of(options.headers or {}, options.api_key))
        arrived = self._arrived()
        if arrived is not None:
            return arrived.with_(stop_reason=stop_reason, error_message=text)
        model = self._call.model
        return AssistantMessage(
            api=model.api,
            provider=model.provider,
            model=model.id,
            stop_reason=stop_reason,
            error_message=text,
            timestamp=self._reporter.now(),
        )

    def _arrived(self) -> AssistantMessage | None:
        if self._last is None:
            return None
        try:
            return _partial(self._last.partial)
        except Exception:  # the source of a broken stream may be broken, too
            return None

    def _stamped(self, message: AssistantMessage, duration_ms: int) -> AssistantMessage:
        changes: dict[str, Any] = {"thinking_level": self._level, "duration_ms": duration_ms}
        if self._call.diagnostics:
            changes["diagnostics"] = (*self._call.diagnostics, *(message.diagnostics or ()))
        return message.with_(**changes)

    def _failure(self, message: AssistantMessage, cause: BaseException | None) -> ModelFailed | None:
        if message.stop_reason not in ("error", "aborted"):
            return None
        if cause is not None and message.stop_reason == "error":
            return ModelFailed("malformed", message)
        known = self._error.failure if self._error is not None else None
        if known is None:
            return failure_of(message)
        return ModelFailed(known.ending, message, known.status, known.headers, known.retry_after_ms)


_Growth = get_args(GrowthEvent)


# A stream function is a host's code and may not be type-checked: what it gives is looked at once.
def _partial(message: object) -> AssistantMessage:
    if not isinstance(message, AssistantMessage):
        raise TypeError(f"an answer is an AssistantMessage, not {type(message).__name__}")
    return message


def _final(message: object) -> AssistantMessage:
    answer = _partial(message)
    if answer.stop_reason == "pending":
        raise ValueError("it ended without a result: its last message is still pending")
    return answer


def _failed(event: AssistantError) -> AssistantMessage:
    """The message of an error event; it has failed whatever its own stop reason says."""
    message = _partial(event.error)
    if message.stop_reason in ("error", "aborted"):
        return message
    return message.with_(stop_reason=event.reason)
