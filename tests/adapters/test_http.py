"""One call over HTTP: who owns what, what interrupts it, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import httpx
import pytest
from returns.future import FutureResult
from returns.result import Success

from adapters.asking import CONTEXT, KEY, STOP, WHOLE, delta, model_at
from adapters.calling import Abort, Call, call, simple
from adapters.serving import (
    Answer,
    Connection,
    Exchange,
    Hang,
    NoAnswer,
    Reset,
    ScriptedTransport,
    Wait,
    bare_environment,
    raw_chunk,
    raw_stream_head,
    serving,
    sse,
)
from mule.adapters.observe import is_retryable_provider_rejection, observe_provider_status
from mule.adapters.registry import (
    ProviderSession,
    known_apis,
    options_type,
    register_api,
    stream_model,
)
from mule.results import failed, ready
from mule.values.errors import InvalidInput, MuleError
from mule.values.messages import AssistantMessage
from mule.values.model import Model
from mule.values.provider import ProviderRejection, ProviderStatusRecorder
from mule.values.request import ProviderResponse, SimpleStreamOptions, StreamOptions
from mule.values.signal import AbortController

MODEL: Final = model_at("http://pond.test/v1")
_PATIENCE_S: Final = 5.0


def asking(transport: object, **options: Any) -> SimpleStreamOptions:
    """Options that send over this transport or client."""
    return simple({"apiKey": KEY}, fetch=transport, **options)


async def ask(*exchanges: Exchange, abort: Abort | None = None, **options: Any) -> Call:
    """Ask a server that answers so; nothing may be left open."""
    transport = ScriptedTransport(exchanges)
    with bare_environment():
        made = await call(stream_model, MODEL, CONTEXT, asking(transport, **options), abort=abort)
    assert transport.left_open == 0
    assert made.problems == []
    return made


# --- what belongs to whom


async def test_a_host_s_client_is_used_as_it_is_and_left_open() -> None:
    transport = ScriptedTransport([Answer(body=[WHOLE]), Answer(body=[WHOLE])])
    async with httpx.AsyncClient(transport=transport, headers={"x-pond": "deep"}) as client:
        for _ in range(2):
            made = await call(stream_model, MODEL, CONTEXT, asking(client))
            assert made.text == "Still here."
        assert not client.is_closed
        assert transport.closed_itself == 0
    assert [request.headers["x-pond"] for request in transport.requests] == ["deep", "deep"]


async def test_a_client_that_is_closed_is_named() -> None:
    client = httpx.AsyncClient(transport=ScriptedTransport([]))
    await client.aclose()
    made = await call(stream_model, MODEL, CONTEXT, asking(client))
    assert made.ending == "invalid_request"
    assert "closed" in str(made.result.error_message)


class _SeesLimits(ScriptedTransport):
    limits: Any = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.limits = request.extensions["timeout"]
        return await super().handle_async_request(request)


async def test_httpx_s_own_default_limit_does_not_cut_off_a_model_that_thinks() -> None:
    transport = _SeesLimits([Answer(body=[WHOLE]), Answer(body=[WHOLE])])
    async with httpx.AsyncClient(transport=transport) as client:
        await call(stream_model, MODEL, CONTEXT, asking(client))
    assert transport.limits["read"] is None
    async with httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(90)) as client:
        await call(stream_model, MODEL, CONTEXT, asking(client))
    assert transport.limits["read"] == 90


@pytest.mark.real_io
async def test_a_call_without_connections_of_its_own_opens_one_and_closes_it() -> None:
    async with serving(_answer_whole) as server:
        with bare_environment():
            made = await call(stream_model, model_at(server.url), CONTEXT, simple({"apiKey": KEY}))
        (connection,) = server.connections
        with anyio.fail_after(_PATIENCE_S):
            await connection.over.wait()
    assert made.text == "Still here."


@pytest.mark.real_io
async def test_a_session_uses_one_connection_again_and_closes_it_at_its_end() -> None:
    async with serving(_answer_each) as server:
        with bare_environment():
            async with ProviderSession() as session:
                for _ in range(3):
                    made = await call(
                        session.stream, model_at(server.url), CONTEXT, simple({"apiKey": KEY})
                    )
                    assert made.text == "Still here."
        assert len(server.connections) == 1
        with anyio.fail_after(_PATIENCE_S):
            await server.connections[0].over.wait()


async def _answer_whole(connection: Connection) -> None:
    await connection.send(raw_stream_head(), raw_chunk(WHOLE), raw_chunk(b""))
    await connection.wait_gone()


async def _answer_each(connection: Connection) -> None:
    # The last chunk comes a moment after [DONE], as it does from real servers.
    while True:
        await connection.send(raw_stream_head(), raw_chunk(WHOLE))
        await anyio.sleep(0.01)
        await connection.send(raw_chunk(b""))
        if not await connection.read_request():
            return


# --- leaving early


async def test_a_stream_that_is_closed_early_gives_everything_back() -> None:
    transport = ScriptedTransport([Answer(body=[sse(delta("a"), delta("b")), Hang()])])
    stream = stream_model(MODEL, CONTEXT, asking(transport))
    kinds = []
    async for event in stream:
        kinds.append(event.type)
        if event.type == "text_delta":
            break
    await stream.aclose()
    await stream.aclose()
    assert kinds == ["start", "text_start", "text_delta"]
    assert transport.left_open == 0
    assert [event async for event in stream] == []
    message = await stream.result()
    assert message.stop_reason == "aborted"
    assert message.text == "ab"


async def test_a_stream_that_is_never_read_does_nothing() -> None:
    transport = ScriptedTransport([])
    stream = stream_model(MODEL, CONTEXT, asking(transport))
    await stream.aclose()
    assert transport.requests == []


async def test_the_result_reads_what_was_not_read() -> None:
    transport = ScriptedTransport([Answer(body=[WHOLE])])
    stream = stream_model(MODEL, CONTEXT, asking(transport))
    async for event in stream:
        if event.type == "text_start":
            break
    message = await stream.result()
    assert message.text == "Still here."
    assert await stream.result() is message
    assert transport.left_open == 0


@pytest.mark.parametrize(
    "exchange",
    [
        NoAnswer("hold"),
        Answer(status=503, headers={"retry-after": "30"}, body=[b"busy"]),
        Answer(body=[Hang()]),
        Answer(body=[sse(delta("a")), Hang()]),
    ],
    ids=["before the headers", "before a retry", "before the body", "in the body"],
)
async def test_another_task_may_close_a_stream_that_is_being_read(exchange: Exchange) -> None:
    transport = _Interruptible([exchange, exchange])
    stream = stream_model(MODEL, CONTEXT, asking(transport, max_retries=1))
    kinds: list[str] = []

    async def read() -> None:
        kinds.extend([event.type async for event in stream])

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            assert transport.left_open == 0
    assert not {"done", "error"} & set(kinds)
    assert len(transport.requests) == 1


async def test_another_task_may_close_a_stream_while_a_hook_is_asked() -> None:
    asked = anyio.Event()
    go_on = anyio.Event()

    async def wait() -> Any:
        asked.set()
        await go_on.wait()
        return Success(None)

    transport = ScriptedTransport([Answer(body=[WHOLE])])
    options = asking(transport, on_payload=lambda _given, _model: FutureResult(wait()))
    stream = stream_model(MODEL, CONTEXT, options)
    seen: list[object] = []

    async def read() -> None:
        seen.extend([event async for event in stream])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await asked.wait()
        tasks.start_soon(stream.aclose)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert seen == []
    assert transport.requests == []


class _Interruptible(ScriptedTransport):
    """Its bodies end when they are closed, as sockets do."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        response.stream = _EndsWhenClosed(response.stream)
        return response


class _EndsWhenClosed(httpx.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._closed = anyio.Event()

    def __aiter__(self) -> _EndsWhenClosed:
        return self

    async def __anext__(self) -> bytes:
        found: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await self._closed.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            with suppress(StopAsyncIteration):
                found.append(await self._inner.__anext__())
            tasks.cancel_scope.cancel()
        if found:
            return found[0]
        if self._closed.is_set():
            raise httpx.ReadError("closed")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._closed.set()
        await self._inner.aclose()


@pytest.mark.parametrize("moment", range(1, 12))
async def test_cancelling_at_any_moment_leaves_nothing_open(moment: int) -> None:
    pieces: list[Any] = []
    for frame in (delta("a"), delta("b"), delta("c"), STOP, "[DONE]"):
        pieces += [Wait(1_000), sse(frame)]
    transport = ScriptedTransport(
        [
            Answer(status=503, body=[Wait(1_000), b"busy"], headers={"retry-after": "2"}),
            Answer(body=pieces),
        ]
    )
    stream = stream_model(MODEL, CONTEXT, asking(transport, max_retries=1))
    with anyio.move_on_after(moment - 0.5) as scope:
        async for _ in stream:
            pass
    assert scope.cancelled_caught == (moment - 0.5 < 8)
    assert transport.left_open == 0
    assert [event async for event in stream] == []


@pytest.mark.real_io
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_task_cancelled_while_it_waits_for_headers_gives_its_place_back(times: int) -> None:
    waiting = 8

    async def handle(connection: Connection) -> None:
        if len(server.connections) <= waiting:
            await connection.wait_gone()
        else:
            await _answer_whole(connection)

    limits = httpx.Limits(max_connections=2)
    async with serving(handle) as server, httpx.AsyncClient(limits=limits) as client:
        model = model_at(server.url)
        for number in range(waiting):
            begun = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_read_until_cancelled, model, client, begun, times)
                while len(server.connections) <= number or server.connections[number].request is None:  # noqa: ASYNC110
                    await anyio.sleep(0.005)  # nobody tells us that a request has arrived
                begun.set()
        with anyio.fail_after(_PATIENCE_S):
            made = await call(stream_model, model, CONTEXT, asking(client))
    assert made.text == "Still here."


async def _read_until_cancelled(
    model: Model[Any], client: httpx.AsyncClient, begun: anyio.Event, times: int
) -> None:
    async def read() -> None:
        stream = stream_model(model, CONTEXT, asking(client))
        try:
            async for _ in stream:
                pass
        finally:
            await stream.aclose()

    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await begun.wait()
            tasks.cancel_scope.cancel()
        return
    task = asyncio.create_task(read())
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


# --- the caller's signal


@pytest.mark.parametrize(
    ("exchanges", "after_ms"),
    [
        ([NoAnswer("hold")], 50),
        ([Answer(status=503, headers={"retry-after": "30"}, body=[b"busy"])], 50),
        ([Answer(body=[sse(delta("a")), Hang()])], 50),
        ([Answer(body=[sse(delta("a")), Wait(100), Reset()])], 50),
    ],
    ids=["for the headers", "for a retry", "for the body", "before it breaks"],
)
async def test_an_abort_ends_every_wait_at_once(exchanges: list[Exchange], after_ms: float) -> None:
    began = anyio.current_time()
    made = await ask(*exchanges, abort=Abort(after_ms=after_ms), max_retries=3)
    assert anyio.current_time() - began < 0.3
    assert made.result.stop_reason == "aborted"
    assert made.ending == "aborted"


async def test_an_abort_before_the_call_makes_no_request() -> None:
    made = await ask(abort=Abort(before=True))
    assert [event.type for event in made.events] == ["error"]
    assert made.result.stop_reason == "aborted"


async def test_an_abort_closes_the_blocks_that_are_open() -> None:
    made = await ask(
        Answer(body=[sse(delta("High "), delta("water")), Hang()]), abort=Abort(after_events=4)
    )
    kinds = [event.type for event in made.events]
    assert kinds == ["start", "text_start", "text_delta", "text_delta", "text_end", "error"]
    assert made.text == "High water"


async def test_no_listener_stays_on_the_signal() -> None:
    controller = AbortController()
    transport = ScriptedTransport([Answer(status=503, body=[b"busy"]), Answer(body=[WHOLE])])
    made = await call(
        stream_model, MODEL, CONTEXT, asking(transport, max_retries=1, signal=controller.signal)
    )
    assert made.text == "Still here."
    assert not controller.signal._listeners


async def test_an_abort_after_the_end_changes_nothing() -> None:
    controller = AbortController()
    transport = ScriptedTransport([Answer(body=[WHOLE])])
    stream = stream_model(MODEL, CONTEXT, asking(transport, signal=controller.signal))
    message = await stream.result()
    controller.abort()
    assert await stream.result() is message
    assert message.stop_reason == "stop"


# --- the hooks of a request


class _Hooks:
    """Hooks that note what they were given; one of them fails or raises."""

    def __init__(
        self, breaks: str = "", how: Callable[[], FutureResult[Any, MuleError]] | None = None
    ) -> None:
        self.seen: list[tuple[str, object]] = []
        self._breaks = breaks
        self._how = how

    def options(self) -> dict[str, Any]:
        """The three hooks."""
        return {
            name: self._hook(name) for name in ("on_payload", "on_response", "on_provider_stream_event")
        }

    def _hook(self, name: str) -> Callable[[object, object], FutureResult[Any, MuleError]]:
        def hook(given: object, _model: object) -> FutureResult[Any, MuleError]:
            self.seen.append((name, given))
            if name == self._breaks and self._how is not None:
                return self._how()
            return ready(None)

        return hook


async def test_hooks_see_the_body_the_response_and_each_event_in_order() -> None:
    hooks = _Hooks()
    made = await ask(Answer(body=[WHOLE], headers={"x-pond": "deep"}), **hooks.options())
    assert made.text == "Still here."
    names = [name for name, _ in hooks.seen]
    assert names == ["on_payload", "on_response", *["on_provider_stream_event"] * 3]
    (_, payload), (_, response) = hooks.seen[:2]
    assert isinstance(payload, dict)
    assert payload["model"] == "pond-1"
    assert response == ProviderResponse(status=200, headers={"x-pond": "deep"})
    assert [event for name, event in hooks.seen[2:]] == [delta("Still "), delta("here."), STOP]


def _fails() -> FutureResult[Any, MuleError]:
    return failed(MuleError(InvalidInput("pond", "too deep")))


def _raises() -> FutureResult[Any, MuleError]:
    raise RuntimeError("the hook broke")


async def _break_later() -> Any:
    raise RuntimeError("the hook broke")


@pytest.mark.parametrize("breaks", ["on_payload", "on_response", "on_provider_stream_event"])
@pytest.mark.parametrize(
    ("how", "text"),
    [(_fails, "too deep"), (_raises, "broke"), (lambda: FutureResult(_break_later()), "broke")],
    ids=["fails", "raises", "raises later"],
)
async def test_a_hook_that_breaks_ends_the_stream(
    breaks: str, how: Callable[[], FutureResult[Any, MuleError]], text: str
) -> None:
    hooks = _Hooks(breaks, how)
    made = await ask(Answer(body=[WHOLE]), **hooks.options())
    assert made.result.stop_reason == "error"
    assert breaks in str(made.result.error_message)
    assert text in str(made.result.error_message)
    assert hooks.seen[-1][0] == breaks


async def test_cancelling_in_a_hook_is_no_failure_of_the_hook() -> None:
    async def wait() -> Any:
        await anyio.sleep(60)

    transport = ScriptedTransport([Answer(body=[WHOLE])])
    options = asking(transport, on_response=lambda _given, _model: FutureResult(wait()))
    stream = stream_model(MODEL, CONTEXT, options)
    with anyio.move_on_after(1) as scope:
        async for _ in stream:
            pass
    assert scope.cancelled_caught
    assert transport.left_open == 0


# --- what a provider answers on the HTTP level


async def test_a_recorder_sees_refusals_and_what_came_after_them() -> None:
    recorder = ProviderStatusRecorder()
    refused = Answer(status=429, headers={"retry-after-ms": "5", "x-pond": "full"}, body=[b"slow down"])
    transport = ScriptedTransport([refused, Answer(body=[WHOLE], headers={"x-pond": "deep"})])
    options = observe_provider_status(asking(transport), recorder)
    made = await call(stream_model, MODEL, CONTEXT, options)
    assert made.ending == "rate_limited"
    assert made.failure is not None
    assert made.failure.retry_after_ms == 5
    assert recorder.status == 429
    assert recorder.rejection is not None
    assert (recorder.rejection.body_text, recorder.rejection.retry_after_ms) == ("slow down", 5)
    made = await call(stream_model, MODEL, CONTEXT, options)
    assert made.text == "Still here."
    assert repr(recorder) == "<ProviderStatusRecorder status=200>"
    assert recorder.headers == {"x-pond": "deep"}


@pytest.mark.parametrize(
    ("rejection", "again"),
    [
        (ProviderRejection(429, {}, "slow down"), True),
        (ProviderRejection(429, {}, '{"error":{"message":"pay","code":"insufficient_quota"}}'), False),
        (ProviderRejection(503, {}, ""), True),
        (ProviderRejection(503, {"x-should-retry": "false"}, ""), False),
        (ProviderRejection(400, {"X-Should-Retry": "true"}, ""), True),
        (ProviderRejection(400, {}, "no"), False),
        (ProviderRejection(401, {}, "no"), False),
        (ProviderRejection(409, {}, "locked"), True),
    ],
)
def test_a_refusal_says_whether_to_come_back(rejection: ProviderRejection, again: bool) -> None:
    assert is_retryable_provider_rejection(rejection) == again


async def test_a_key_that_comes_back_in_the_middle_of_an_answer_is_not_shown() -> None:
    error = {"error": {"message": f"the key {KEY} has run dry", "type": "server_error"}}
    made = await ask(Answer(body=[sse(delta("So "), error)]))
    assert KEY not in str(made.result.to_json())
    assert "[redacted]" in str(made.result.error_message)
    assert "[redacted]" in str(made.result.provider_error)


async def test_the_secret_of_a_header_is_not_shown_either() -> None:
    transport = ScriptedTransport([Answer(status=401, body=[b"who is s3cret-pond-token?"])])
    options = simple({"headers": {"authorization": "Bearer s3cret-pond-token"}}, fetch=transport)
    made = await call(stream_model, MODEL, CONTEXT, options)
    assert "s3cret" not in str(made.result.to_json())


# --- the registry


async def test_an_api_that_nobody_speaks_is_a_last_event_that_names_those_spoken() -> None:
    made = await call(stream_model, MODEL.with_(api="morse"), CONTEXT, simple({}))
    assert [event.type for event in made.events] == ["error"]
    assert made.ending == "invalid_request"
    for name in ("morse", "openai-completions"):
        assert name in str(made.result.error_message)
    with pytest.raises(LookupError):
        options_type("morse")


async def test_a_host_can_register_an_api_of_its_own() -> None:
    seen: list[tuple[object, StreamOptions]] = []

    def speak(model: Any, context: Any, options: StreamOptions) -> Any:
        seen.append((context, options))
        transport = ScriptedTransport([Answer(body=[WHOLE])])
        own = dataclasses.replace(options, fetch=transport)
        return stream_model(model.with_(api="openai-completions"), context, own)

    register_api("test-semaphore", speak)
    assert "test-semaphore" in known_apis()
    assert options_type("test-semaphore") is StreamOptions
    made = await call(stream_model, MODEL.with_(api="test-semaphore"), CONTEXT, simple({"apiKey": KEY}))
    assert made.text == "Still here."
    assert isinstance(seen[0][1], SimpleStreamOptions)
    assert seen[0][1].api_key == KEY


async def test_a_message_says_when_it_was_asked_for() -> None:
    made = await ask(Answer(body=[WHOLE]))
    message = made.result
    assert isinstance(message, AssistantMessage)
    assert message.timestamp > 1_600_000_000_000
