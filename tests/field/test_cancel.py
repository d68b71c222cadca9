"""A call that nobody wants any more lets go: of its wait, of its listeners, of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio
import httpx
import pytest

from adapters.calling import Abort, call, simple
from adapters.serving import (
    Answer,
    Connection,
    ScriptedTransport,
    bare_environment,
    raw_chunk,
    raw_stream_head,
    serving,
)
from field.reported import FieldCase, context_of, exchanges_of, model_of, options_json
from field.test_exchanges import mismatches
from mule.adapters.registry import stream_model
from mule.values.model import Model
from mule.values.request import SimpleStreamOptions


async def test_an_abort_ends_the_wait_for_a_retry(abort_case: FieldCase) -> None:
    transport = ScriptedTransport(exchanges_of(abort_case))
    (action,) = abort_case.content["actions"]
    began = anyio.current_time()
    with bare_environment():
        made = await call(
            stream_model,
            model_of(abort_case),
            context_of(abort_case),
            simple(options_json(abort_case), fetch=transport),
            abort=Abort(after_ms=action.get("atMs"), after_events=action.get("afterEvents")),
        )
    assert made.problems == []
    assert mismatches(abort_case.expect["result"], made.result) == []
    assert made.ending == "aborted"
    assert anyio.current_time() - began <= abort_case.limit_s
    assert transport.refused == 0
    assert len(transport.requests) == 1 or not abort_case.says("one request was made")
    assert transport.left_open == 0


# --- a cancelled stream gives its connection back

_PATIENCE_S: Final = 1.0
"""How long the server may wait to see a cancelled connection closed, and the last call may take."""
_POOL: Final = httpx.Limits(max_connections=2, max_keepalive_connections=2)

Work = Callable[[], Coroutine[object, object, None]]
Cancel = Callable[[Work, anyio.Event], Awaitable[None]]


async def _cancel_scope(work: Work, begun: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await begun.wait()
        tasks.cancel_scope.cancel()


async def _cancel_task(work: Work, begun: anyio.Event) -> None:
    await _cancel_natively(work, begun, times=1)


async def _cancel_task_twice(work: Work, begun: anyio.Event) -> None:
    await _cancel_natively(work, begun, times=2)


async def _cancel_natively(work: Work, begun: anyio.Event, times: int) -> None:
    """asyncio's own cancel, which no shield of a scope stops. On trio a scope is all there is."""
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        await _cancel_scope(work, begun)
        return

    task = asyncio.create_task(work())
    await begun.wait()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task


async def _leave(work: Work, begun: anyio.Event) -> None:
    """No cancel at all: the consumer has what it wants, and leaves."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await begun.wait()


@pytest.mark.real_io
@pytest.mark.parametrize("cancel", [_cancel_scope, _cancel_task, _cancel_task_twice, _leave])
async def test_a_cancelled_stream_gives_its_connection_back(
    give_back_case: FieldCase, cancel: Cancel
) -> None:
    answers = [answer for answer in exchanges_of(give_back_case) if isinstance(answer, Answer)]
    (action,) = give_back_case.content["actions"]
    gone: list[anyio.Event] = []

    async def handle(connection: Connection) -> None:
        answer = answers[min(len(gone), len(answers) - 1)]
        gone.append(connection.over)
        await _play(connection, answer)

    async with serving(handle) as server, httpx.AsyncClient(limits=_POOL) as client:
        model = model_of(give_back_case, base_url=f"{server.url}/v1")
        options = simple(options_json(give_back_case), fetch=client)
        for time in range(action.get("times", 1)):
            begun = anyio.Event()
            work = _until(
                give_back_case, model, options, action["afterEvents"], begun, leaves=cancel is _leave
            )
            await cancel(work, begun)
            with anyio.fail_after(_PATIENCE_S):
                await gone[time].wait()
        with anyio.fail_after(_PATIENCE_S), bare_environment():
            made = await call(stream_model, model, context_of(give_back_case), options)
    assert made.problems == []
    assert mismatches(give_back_case.expect["result"], made.result) == []


def _until(
    case: FieldCase,
    model: Model[Any],
    options: SimpleStreamOptions,
    events: int,
    begun: anyio.Event,
    *,
    leaves: bool,
) -> Work:
    async def consume() -> None:
        stream = stream_model(model, context_of(case), options)
        seen = 0
        try:
            async for _ in stream:
                seen += 1
                if seen > events:  # start, text_start, and the first delta
                    begun.set()
                    if leaves:
                        break
        finally:
            await stream.aclose()

    return consume


async def _play(connection: Connection, answer: Answer) -> None:
    await connection.send(raw_stream_head())
    for piece in answer.body:
        if isinstance(piece, bytes):
            await connection.send(raw_chunk(piece))
        else:
            await connection.wait_gone()
            return
    await connection.send(raw_chunk(b""))
