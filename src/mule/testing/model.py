"""A model that says what it was told to say: a stream function that answers from a list or a function.

Nothing is random and nothing runs ahead: an event is made when it is asked for, so a test can put its
finger between any two of them. Everything that was asked is kept in `requests`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from mule.testing._growth import Growth
from mule.values.content import AssistantContent, TextContent, ToolCall
from mule.values.errors import ModelFailed
from mule.values.jsontext import JsonObject
from mule.values.messages import AssistantMessage, Context
from mule.values.model import Model
from mule.values.record import JsonMismatch
from mule.values.request import SimpleStreamOptions
from mule.values.signal import AbortSignal
from mule.values.stream import AssistantDone, AssistantError, AssistantMessageEvent
from mule.values.usage import NO_USAGE, StopReason, Usage

ABORT_TEXT: Final = "Request was aborted"
"""The error text of a scripted answer that was aborted."""

SCRIPTED_MODEL: Final[Model[Any]] = Model(
    id="scripted-1",
    name="Scripted One",
    api="scripted",
    provider="scripted",
    base_url="http://127.0.0.1:0",
    reasoning=True,
    input=("text", "image"),
    context_window=100_000,
    max_tokens=8_000,
)
"""A model to run with. Nothing is ever sent to its address."""

_MANNERS: Final = {
    "chunk": "chunk",
    "start": "start",
    "events": "events",
    "terminal": "terminal",
    "cutAfter": "cut_after",
    "hangUntilAborted": "hang_until_aborted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """An answer, and the manner in which it streams.

    In order: `start`; for each block its start, deltas and end; `done`, or `error` where the stop reason is
    error or aborted. Before each event the signal of the request is looked at: once aborted, the next event
    is an `error` of reason aborted, with what had been given out until then.

    Attributes:
        message: the final message; its stop reason decides how the stream ends, and is not `pending`.
        chunk: UTF-16 code units in a delta; None gives each block in one.
        start: whether the stream has its `start`.
        events: false leaves only the last event.
        terminal: false leaves the last event out; the message is then only the stream's result.
        cut_after: how many events may come before the last one.
        hang_until_aborted: silence where the last event would come, until the signal is aborted.
        delay_ms: silence before each event.
        failure: the evidence that an `error` event carries.
        raises: what the stream raises in place of its last event, as no good stream does.

    >>> ScriptedAnswer(message=answer("Hello"), chunk=2, delay_ms=50).message.stop_reason
    'stop'
    """

    message: AssistantMessage = field(kw_only=False)
    chunk: int | None = None
    start: bool = True
    events: bool = True
    terminal: bool = True
    cut_after: int | None = None
    hang_until_aborted: bool = False
    delay_ms: float = 0
    failure: ModelFailed | None = None
    raises: Exception | None = None

    def __post_init__(self) -> None:
        if self.message.stop_reason == "pending":
            raise ValueError("a final message is not pending: give it another stop_reason")
        if self.chunk is not None and self.chunk < 1:
            raise ValueError("chunk must be at least 1")

    @classmethod
    def from_json(cls, value: JsonObject) -> ScriptedAnswer:
        """Read the JSON of an assistant message that may have a `stream`: `{"chunk": 5, "cutAfter": 3}`.

        `stream` may hold `chunk`, `start`, `events`, `terminal`, `cutAfter` and `hangUntilAborted`.

        Raises:
            ValueError: not an assistant message, or a manner that is not known.
        """
        stream = value.get("stream") or {}
        if not isinstance(stream, dict) or not set(stream) <= set(_MANNERS):
            raise JsonMismatch("stream", f"expected an object with any of {', '.join(_MANNERS)}")
        message = AssistantMessage.from_json({name: value[name] for name in value if name != "stream"})
        manners: dict[str, Any] = {_MANNERS[name]: given for name, given in stream.items()}
        return cls(message, **manners)


Scripted: TypeAlias = AssistantMessage | ScriptedAnswer | str | Exception
"""One entry of a script. A text is the answer `answer(text)`; an exception is raised by the call itself."""


def answer(
    *content: str | AssistantContent,
    stop_reason: StopReason = "stop",
    usage: Usage = NO_USAGE,
    error_message: str | None = None,
) -> AssistantMessage:
    """An answer of the scripted model, made of texts and other content.

    >>> answer("The bell rings at ", "nine.").content[1].text
    'nine.'
    """
    blocks = tuple(TextContent(text=block) if isinstance(block, str) else block for block in content)
    message = AssistantMessage(
        content=blocks,
        api=SCRIPTED_MODEL.api,
        provider=SCRIPTED_MODEL.provider,
        model=SCRIPTED_MODEL.id,
        usage=usage,
        stop_reason=stop_reason,
    )
    return message if error_message is None else message.with_(error_message=error_message)


def tool_call_answer(
    *calls: ToolCall, text: str | None = None, usage: Usage = NO_USAGE
) -> AssistantMessage:
    """An answer that asks for tools, after a text where one is given.

    >>> tool_call_answer(ToolCall(id="c1", name="look_up", arguments={"shelf": 9})).stop_reason
    'toolUse'
    """
    before = () if text is None else (text,)
    return answer(*before, *calls, stop_reason="toolUse", usage=usage)


def error_answer(text: str, *, usage: Usage = NO_USAGE) -> AssistantMessage:
    """An answer that failed with this text, before anything of it had arrived.

    >>> error_answer("503: try again later").stop_reason
    'error'
    """
    return answer(stop_reason="error", error_message=text, usage=usage)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What one call of a `ScriptedModel` was given."""

    model: Model[Any]
    context: Context
    options: SimpleStreamOptions


class ScriptedModel:
    """A stream function that answers from a script; it takes the place of `stream_model`.

    The script is a list, each entry used once, or a function from the context to an entry. A call past the
    end of a list is answered with an error message that says so and is not worth a retry.

    Attributes:
        requests: what each call was given, in order.
        streams: the stream that each call returned, in order.

    >>> from mule.testing import run_virtually
    >>> async def main():
    ...     model = ScriptedModel(["Good morning."])
    ...     stream = model(SCRIPTED_MODEL, Context(system_prompt="Greet."), SimpleStreamOptions())
    ...     events = [event.type async for event in stream]
    ...     return events, (await stream.result()).content[0].text, model.requests[0].context.system_prompt
    >>> run_virtually(main)
    (['start', 'text_start', 'text_delta', 'text_end', 'done'], 'Good morning.', 'Greet.')

    >>> parrot = ScriptedModel(lambda context: str(context.messages[-1].content))
    """

    def __init__(self, script: Sequence[Scripted] | Callable[[Context], Scripted]) -> None:
        self._script = script
        self._used = 0
        self.requests: list[ScriptedRequest] = []
        self.streams: list[ScriptedStream] = []

    def __call__(
        self, model: Model[Any], context: Context, options: SimpleStreamOptions, /
    ) -> ScriptedStream:
        """Answer one request. The stream begins when it is read."""
        self.requests.append(ScriptedRequest(model, context, options))
        entry = self._next(context, options.signal)
        if isinstance(entry, Exception):
            raise entry
        stream = ScriptedStream(_as_answer(entry), options.signal)
        self.streams.append(stream)
        return stream

    @property
    def left(self) -> int:
        """How many entries of a list are still to come; 0 for a function."""
        return 0 if callable(self._script) else len(self._script) - self._used

    def _next(self, context: Context, signal: AbortSignal | None) -> Scripted:
        if callable(self._script):
            return self._script(context)
        if self._used < len(self._script):
            self._used += 1
            return self._script[self._used - 1]
        if signal is not None and signal.aborted:
            return ""  # never said: a request that is aborted already needs no script
        total = len(self._script)
        message = error_answer(
            f"The script is used up: it has {total} answers, and one more was asked for."
        )
        return ScriptedAnswer(message, events=False, failure=ModelFailed("invalid_request", message))


def _as_answer(entry: AssistantMessage | ScriptedAnswer | str) -> ScriptedAnswer:
    match entry:
        case ScriptedAnswer():
            return entry
        case AssistantMessage():
            return ScriptedAnswer(entry)
        case str():
            return ScriptedAnswer(answer(entry))


class ScriptedStream:
    """One scripted answer as it comes. `closed`: whether its reader has closed it, as every reader must."""

    def __init__(self, scripted: ScriptedAnswer, signal: AbortSignal | None) -> None:
        self._answer = scripted
        self._signal = signal
        self._growth = Growth(scripted.message, scripted.chunk)
        events = self._growth.events(start=scripted.start)
        self._events = islice(events, scripted.cut_after if scripted.events else 0)
        self._revision = 0
        self._result: AssistantMessage | None = None
        self._woken = anyio.Event()
        self.closed = False

    def __aiter__(self) -> ScriptedStream:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        await checkpoint()
        if self._result is None and self._answer.delay_ms:
            await self._silence(self._answer.delay_ms / 1000)
        if self._result is not None:
            raise StopAsyncIteration
        if self._aborted():
            return self._abort()
        event = next(self._events, None)
        if event is None:
            return await self._last()
        self._revision = event.revision
        return event

    async def _last(self) -> AssistantMessageEvent:
        scripted = self._answer
        if scripted.hang_until_aborted:
            await self._silence(float("inf"))
            if self._result is not None:
                raise StopAsyncIteration
            return self._abort()
        message = self._result = scripted.message
        if scripted.raises is not None:
            raise scripted.raises
        if not scripted.terminal:
            raise StopAsyncIteration
        match message.stop_reason:
            case "error" | "aborted" as failed:
                return AssistantError(failed, message, scripted.failure)
            case "stop" | "length" | "toolUse" | "deferred" as reason:
                return AssistantDone(reason, message)
            case "pending":
                raise AssertionError("refused when the answer was made")

    def _aborted(self) -> bool:
        return self._signal is not None and self._signal.aborted

    def _abort(self) -> AssistantError:
        message = self._cut_off()
        self._result = message
        return AssistantError("aborted", message, ModelFailed("aborted", message))

    def _cut_off(self) -> AssistantMessage:
        given = self._growth.partial(self._revision)
        return given.with_(stop_reason="aborted", error_message=ABORT_TEXT)

    async def _silence(self, seconds: float) -> None:
        """Wait so long, or until the signal is aborted or the stream closed."""
        release = self._signal.on_abort(self._woken.set) if self._signal is not None else None
        try:
            with anyio.move_on_after(seconds):
                await self._woken.wait()
        finally:
            if release is not None:
                release()

    async def result(self) -> AssistantMessage:
        """The final message; reads the rest of the stream. Once closed: what had been given by then."""
        async for _ in self:
            pass
        if self._result is None:
            raise AssertionError("a stream ends with a result")
        return self._result

    async def aclose(self) -> None:
        """End the stream; what waits for its next event sees the end. Harmless twice."""
        self.closed = True
        if self._result is None:
            self._result = self._cut_off()
        self._woken.set()
