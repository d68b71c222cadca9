"""JSON from outside as events and messages: what is wrong with it is a typed failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, get_args

from returns.result import Failure, Result, Success

from mule.values.errors import InvalidInput, MuleError
from mule.values.event_json import event_from_json
from mule.values.messages import Message
from mule.values.record import JsonMismatch, tagged_reader
from mule.values.run import MuleEvent

T = TypeVar("T")

_read_message = tagged_reader(get_args(Message))


def decode_event(value: object) -> Result[MuleEvent, MuleError]:
    """An event of a run from its JSON object; see `mule.values.event_json` for what JSON leaves out.

    Fails with `InvalidInput`, whose `field` is the dotted path to the first thing that is wrong.

    >>> decode_event({"type": "run_start", "sequence": 0, "timestamp": 5, "run": {"kind": "run"}}).failure()
    MuleError(InvalidInput(field='run.id', problem='expected a text'))
    """
    return _decode(event_from_json, value, "event")


def decode_message(value: object) -> Result[Message, MuleError]:
    """A message of a transcript from its JSON object.

    Fails with `InvalidInput`, whose `field` is the dotted path to the first thing that is wrong.

    >>> decode_message({"role": "user", "content": "Hello"}).unwrap().content
    'Hello'
    """
    return _decode(_message, value, "message")


def decode_messages(value: object) -> Result[tuple[Message, ...], MuleError]:
    """A transcript from a JSON list of messages.

    Fails with `InvalidInput`, whose `field` begins with the place in the list, counted from 0.

    >>> decode_messages([{"role": "user", "content": "Hello"}, {"role": "user"}]).failure().reason.field
    '1.content'
    """
    return _decode(_messages, value, "messages")


def _message(value: object) -> Message:
    return cast(Message, _read_message(value))  # the reader picks a member of this very union


def _messages(value: object) -> tuple[Message, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise JsonMismatch("", "expected a list")
    messages = []
    for index, item in enumerate(value):
        try:
            messages.append(_message(item))
        except JsonMismatch as exc:
            raise exc.under(index) from None
    return tuple(messages)


def _decode(read: Callable[[object], T], value: object, called: str) -> Result[T, MuleError]:
    try:
        return Success(read(value))
    except JsonMismatch as exc:
        return Failure(MuleError(InvalidInput(exc.field or called, exc.problem)))
