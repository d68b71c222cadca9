"""Call an adapter as a case says: options by their JSON names, hooks that record, an abort in time.

Used by the runners of golden, field and wire cases. What comes back is plain: the events as JSON, the
message, and what was found wrong on the way.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from mule.ports import AssistantMessageEventStream
from mule.results import ready
from mule.transcript.endings import is_retryable_failure
from mule.values.base import Value
from mule.values.errors import ModelFailed
from mule.values.jsontext import JsonObject, dump_json
from mule.values.messages import AssistantMessage, Context
from mule.values.model import Model, ThinkingBudgets
from mule.values.request import ProviderResponse, SimpleStreamOptions, StreamOptions
from mule.values.signal import AbortController, AbortSignal
from mule.values.stream import AssistantDone, AssistantError, AssistantMessageEvent

StreamFunction: TypeAlias = Callable[[Model[Any], Context, Any], AssistantMessageEventStream]

_VALUES: Mapping[str, type[Value]] = {"thinking_budgets": ThinkingBudgets}
_CAPITALS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class CountingSignal(AbortSignal):
    """A signal that knows how many of its listeners have not been taken back."""

    __slots__ = ("registered",)

    def __init__(self) -> None:
        super().__init__()
        self.registered = 0

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Register, and count."""
        release = super().on_abort(listener)
        open_ = [True]
        self.registered += 1

        def take_back() -> None:
            release()
            self.registered -= open_.pop() if open_ else 0

        return take_back


def controller_of(signal: AbortSignal) -> AbortController:
    """The controller that aborts this signal."""
    controller = AbortController()
    controller.signal = signal
    return controller


def snake(name: str) -> str:
    """The Python name of a field of Pi's.

    >>> snake("maxRetryDelayMs"), snake("cacheWrite1h")
    ('max_retry_delay_ms', 'cache_write1h')
    """
    return _CAPITALS.sub("_", name).lower()


def options_of(kind: type[StreamOptions], given: Mapping[str, Any], **more: Any) -> StreamOptions:
    """Options from their JSON. Their values stay as they are, but for those that are values of ours.

    Raises:
        TypeError: these options have no such field.
    """
    known = {option.name for option in dataclasses.fields(kind)}
    fields: dict[str, Any] = {}
    for name, value in given.items():
        ours = snake(name)
        if ours not in known:
            raise TypeError(f"{kind.__name__} has no field for {name}")
        fields[ours] = _VALUES[ours].from_json(value) if ours in _VALUES else value
    return kind(**fields, **more)


@dataclass(slots=True)
class Observed:
    """What the hooks of a request were given: copies, taken at the call."""

    on_payload: JsonObject | None = None
    payloads: int = 0
    on_response: list[JsonObject] = field(default_factory=list)
    on_provider_stream_event: list[object] = field(default_factory=list)

    def hooks(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The hooks that a case asks for, as options."""
        hooks: dict[str, Any] = {}
        if "onPayload" in wanted:
            hooks["on_payload"] = self._payload_hook(wanted["onPayload"].get("return"))
        if wanted.get("onResponse"):
            hooks["on_response"] = self._response
        if wanted.get("onProviderStreamEvent"):
            hooks["on_provider_stream_event"] = self._event
        return hooks

    def _payload_hook(self, replacement: JsonObject | None) -> Callable[[JsonObject, Model[Any]], Any]:
        def see(payload: JsonObject, _model: Model[Any]) -> Any:
            self.payloads += 1
            self.on_payload = _copy(payload)
            return ready(replacement)

        return see

    def _response(self, response: ProviderResponse, _model: Model[Any]) -> Any:
        self.on_response.append({"status": response.status, "headers": dict(response.headers)})
        return ready(None)

    def _event(self, event: object, _model: Model[Any]) -> Any:
        self.on_provider_stream_event.append(_copy(event))
        return ready(None)

    def to_json(self) -> dict[str, Any]:
        """What was observed, under the hooks' JSON names; hooks that were never called are left out."""
        seen = {
            "onPayload": self.on_payload,
            "onResponse": self.on_response,
            "onProviderStreamEvent": self.on_provider_stream_event,
        }
        return {name: value for name, value in seen.items() if value}


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_copy(item) for item in value]
    return value


@dataclass(slots=True)
class Call:
    """One call of a stream function, as it went."""

    events: list[AssistantMessageEvent] = field(default_factory=list)
    message: AssistantMessage | None = None
    problems: list[str] = field(default_factory=list)
    """What no stream may do, whatever the case."""

    @property
    def events_json(self) -> list[JsonObject]:
        """The events as Pi's JSON, less what no two calls share: time stamps, and ids that we made up."""
        return [_timeless(event.to_json()) for event in self.events]

    @property
    def result(self) -> AssistantMessage:
        """The final message."""
        assert self.message is not None
        return self.message

    @property
    def failure(self) -> ModelFailed | None:
        """The typed evidence of a failed call."""
        last = self.events[-1] if self.events else None
        return last.failure if isinstance(last, AssistantError) else None

    @property
    def ending(self) -> str | None:
        """How it failed."""
        return self.failure.ending if self.failure else None

    @property
    def text(self) -> str:
        """All text of the answer."""
        return "".join(block.text for block in self.result.content if block.type == "text")


_MADE_UP_ID = re.compile(r"call_mule_[0-9a-f]+")


def _timeless(value: Any) -> Any:
    if isinstance(value, str):
        return _MADE_UP_ID.sub("made up", value)
    if isinstance(value, Mapping):
        kept = [key for key in value if not (key == "timestamp" and "role" in value)]
        return {key: _timeless(value[key]) for key in kept}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Abort:
    """When to abort the signal: `before` the call, at the consumer's n-th event, or after a time."""

    before: bool = False
    after_events: int | None = None
    after_ms: float | None = None


async def call(
    stream_model: StreamFunction,
    model: Model[Any],
    context: Context,
    options: StreamOptions,
    *,
    abort: Abort | None = None,
    read_partials: bool = False,
    at_end: Callable[[], object] = lambda: None,
) -> Call:
    """Call, read to the end, close; and check what holds for every stream.

    Args:
        read_partials: look at `partial` of every event as it comes, and at the end once more.
        at_end: called when the last event was read, before the stream is closed.
    """
    made = Call()
    signal = CountingSignal()
    controller = controller_of(signal)
    options = dataclasses.replace(options, signal=signal)
    if abort is not None and abort.before:
        controller.abort()
    async with anyio.create_task_group() as tasks:
        if abort is not None and abort.after_ms is not None:
            tasks.start_soon(_abort_later, controller, abort.after_ms)
        stream = stream_model(model, context, options)
        try:
            partials = _Partials() if read_partials else None
            async for event in stream:
                made.events.append(event)
                if partials is not None:
                    partials.saw(event)
                if abort is not None and len(made.events) == abort.after_events:
                    controller.abort()
            at_end()
            made.message = await stream.result()
        finally:
            await stream.aclose()
        tasks.cancel_scope.cancel()
    made.problems += _problems(made)
    if signal.registered:
        made.problems.append(f"{signal.registered} listeners were left on the signal")
    if partials is not None:
        made.problems += partials.problems()
    return made


async def _abort_later(controller: AbortController, after_ms: float) -> None:
    await anyio.sleep(after_ms / 1000)
    controller.abort()


def _problems(made: Call) -> list[str]:
    problems: list[str] = []
    kinds = [event.type for event in made.events]
    ends = [kind for kind in kinds if kind in ("done", "error")]
    if len(ends) != 1 or kinds[-1] != ends[0]:
        problems.append(f"exactly one terminal event must come, last: {kinds}")
        return problems
    if len(kinds) > 1 and kinds.index("start") != 0:
        problems.append(f"start must come first: {kinds}")
    last = made.events[-1]
    if isinstance(last, AssistantDone) and last.message != made.message:
        problems.append("result() is not the message of the last event")
    if isinstance(last, AssistantError):
        if last.error != made.message:
            problems.append("result() is not the message of the last event")
        if last.failure is None:
            problems.append("an error of an adapter of ours must carry its evidence")
        elif last.failure.message != last.error:
            problems.append("the evidence is about another message")
        if not last.error.error_message:
            problems.append("a failed answer must say what went wrong")
    return problems + _block_problems(made)


def _block_problems(made: Call) -> list[str]:
    """Each block starts once, ends at most once, after its deltas; those joined are its content."""
    problems: list[str] = []
    open_: dict[int, list[str]] = {}
    ended: set[int] = set()
    for event in made.events:
        if event.type in ("text_start", "thinking_start", "toolcall_start"):
            if event.content_index in open_ or event.content_index in ended:
                problems.append(f"block {event.content_index} starts twice")
            open_[event.content_index] = []
        elif event.type in ("text_delta", "thinking_delta", "toolcall_delta"):
            if event.content_index not in open_:
                problems.append(f"a delta for block {event.content_index}, which is not open")
            else:
                open_[event.content_index].append(event.delta)
        elif event.type in ("text_end", "thinking_end", "toolcall_end"):
            if open_.pop(event.content_index, None) is None:
                problems.append(f"block {event.content_index} ends without being open")
            ended.add(event.content_index)
    if made.events[-1].type == "done" and open_:
        problems.append(f"blocks {sorted(open_)} never end")
    return problems


class _Partials:
    """Reads each event's partial message when it comes, and once more at the end."""

    def __init__(self) -> None:
        self._first: list[tuple[int, AssistantMessageEvent, bytes]] = []
        self._joined: dict[int, str] = {}
        self._wrong: list[str] = []
        self._count = 0

    def saw(self, event: AssistantMessageEvent) -> None:
        index, self._count = self._count, self._count + 1
        if isinstance(event, AssistantDone | AssistantError):
            return
        partial = event.partial
        if partial.stop_reason != "pending":
            self._wrong.append(f"event {index}: the partial message has stop reason {partial.stop_reason}")
        self._first.append((index, event, dump_json(partial.to_json())))
        if event.type not in ("text_delta", "thinking_delta"):
            return
        joined = self._joined[event.content_index] = self._joined.get(event.content_index, "") + event.delta
        block = partial.content[event.content_index]
        text = block.text if block.type == "text" else block.thinking if block.type == "thinking" else None
        if text != joined:
            self._wrong.append(f"event {index}: its partial holds {text!r} where {joined!r} had come")

    def problems(self) -> list[str]:
        changed = [
            f"event {index} ({event.type}): its partial message changed later"
            for index, event, before in self._first
            if not isinstance(event, AssistantDone | AssistantError)
            and dump_json(event.partial.to_json()) != before
        ]
        return self._wrong + changed


def is_worth_a_retry(made: Call) -> bool:
    """Our own decision: would the loop make this call again?"""
    return made.failure is not None and is_retryable_failure(made.failure)


def simple(given: Mapping[str, Any], **more: Any) -> SimpleStreamOptions:
    """`options_of` for the options that mean the same for every API."""
    options = options_of(SimpleStreamOptions, given, **more)
    assert isinstance(options, SimpleStreamOptions)
    return options
