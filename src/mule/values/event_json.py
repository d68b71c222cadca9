"""The events of a run as JSON, and back: what journals, `--json` and a resume are made of.

camelCase, identities as `{"kind", "id"}`, every message as Pi's JSON. A journal grows by what is new, so
these are left out: the `partial` of an answer that grows, the evidence of its `error` event, the transcript
(`messages`, `new_messages`) of a completed turn and of an outcome, and the outcome inside an error. An
event that was read has no partial and empty transcripts there, its lists of content have become tuples, and
in everything else it equals the one that was written. Fields unknown to `mule` are kept inside messages and
passed over elsewhere.
"""

from __future__ import annotations

from typing import cast, get_args

from mule.values.jsontext import JsonObject
from mule.values.record import tagged_reader
from mule.values.run import EVENT_TYPES, MuleEvent, MuleToolCheckpoint

_read_event = tagged_reader(tuple(EVENT_TYPES.values()))
_read_checkpoint = tagged_reader(get_args(MuleToolCheckpoint))


def event_to_json(event: MuleEvent) -> JsonObject:
    """An event as a JSON object; see the top of this module for what is left out.

    >>> from mule.values.run import MuleIdentity, TurnStart
    >>> run, turn = MuleIdentity("run", "r-1"), MuleIdentity("turn", "t-1")
    >>> event = TurnStart(sequence=1, timestamp=5, run=run, turn=turn, index=0)
    >>> event_to_json(event)["turn"]
    {'kind': 'turn', 'id': 't-1'}
    >>> event_from_json(event_to_json(event)) == event
    True
    """
    return event.to_json()


def event_from_json(value: object) -> MuleEvent:
    """Read an event from its JSON object.

    Raises:
        JsonMismatch: (a ValueError) not the JSON of an event; its `field` says where.
    """
    return cast(MuleEvent, _read_event(value))  # the reader picks a member of this very union


def checkpoint_from_json(value: object) -> MuleToolCheckpoint:
    """Read a checkpoint from its JSON object, such as stands in a `tool_checkpoint` event.

    Raises:
        JsonMismatch: (a ValueError) not the JSON of a checkpoint; its `field` says where.
    """
    return cast(MuleToolCheckpoint, _read_checkpoint(value))  # the reader picks a member of this very union
