"""A key that a server repeats, or that stands in a request, shows nowhere."""

from __future__ import annotations

import io
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from adapters.calling import Call, call, simple
from adapters.serving import Answer, Connection, ScriptedTransport, bare_environment, raw_response, serving
from field.reported import FieldCase, context_of, exchanges_of, model_of, options_json
from field.test_exchanges import mismatches
from mule.adapters.registry import stream_model
from mule.values.errors import MuleError


async def test_a_key_shows_in_no_error_repr_or_log(secret_case: FieldCase) -> None:
    key = secret_case.content["options"]["apiKey"]
    for exchange in exchanges_of(secret_case):
        transport = ScriptedTransport([exchange])
        options = simple(options_json(secret_case), fetch=transport)
        with everything_logged() as log, bare_environment():
            made = await call(stream_model, model_of(secret_case), context_of(secret_case), options)
        assert mismatches(secret_case.expect["result"], made.result) == []
        assert [text for text in (repr(options), *said_by(made), log.getvalue()) if key in text] == []
        assert any(key in str(request.headers) for request in transport.requests)


@pytest.mark.real_io
async def test_a_key_shows_in_no_log_of_a_real_connection(secret_case: FieldCase) -> None:
    key = secret_case.content["options"]["apiKey"]
    refusals = [answer for answer in exchanges_of(secret_case) if isinstance(answer, Answer)]

    async def handle(connection: Connection) -> None:
        body = b"".join(piece for piece in refusals[0].body if isinstance(piece, bytes))
        await connection.send(raw_response(body, status=f"{refusals[0].status} Refused"))

    with everything_logged() as log, bare_environment():
        async with serving(handle) as server:
            model = model_of(secret_case, base_url=server.url)
            made = await call(
                stream_model, model, context_of(secret_case), simple(options_json(secret_case))
            )
        gone = await call(stream_model, model, context_of(secret_case), simple(options_json(secret_case)))
    assert mismatches(secret_case.expect["result"], made.result) == []
    assert mismatches(secret_case.expect["result"], gone.result) == []
    assert [text for text in (*said_by(made), *said_by(gone), log.getvalue()) if key in text] == []


def said_by(made: Call) -> Iterator[str]:
    """Every text in which a call shows: its events, its message, its evidence, and their exceptions."""
    for event in made.events:
        yield repr(event)
        yield str(event.to_json())
    yield str(made.result.error_message)
    failure = made.failure
    if failure is not None:
        error = MuleError(failure)
        yield repr(failure)
        yield repr(failure.headers)
        yield f"{error} {error!r}"
        yield "".join(traceback.format_exception(error))


@contextmanager
def everything_logged() -> Iterator[io.StringIO]:
    """Each log record from DEBUG up, of every logger, as text."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield text
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
