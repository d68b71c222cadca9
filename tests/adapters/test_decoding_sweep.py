"""Every recorded stream, cut and split at every single byte, below the transport: bytes to events."""

from __future__ import annotations

import itertools
import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sweeping import Recorded, marks_of, problems_of_a_cut, recorded_streams
from mule.adapters._failing import CallFailed
from mule.adapters._sse import SseDecoder, SseFrame
from mule.adapters.openai_completions.compat import endpoint_of
from mule.adapters.openai_completions.decode import Decoder
from mule.adapters.openai_completions.encode import encode
from mule.adapters.openai_completions.options import own_options
from mule.transcript.assemble import AnswerBuilder
from mule.transcript.tooling import normalize_context
from mule.values.jsontext import JsonObject
from mule.values.messages import Context
from mule.values.model import Model
from mule.values.stream import AssistantMessageEvent

STREAMS: Final = recorded_streams()
each_stream = pytest.mark.parametrize("recorded", STREAMS, ids=lambda recorded: recorded.name)


def _frames(*pieces: bytes) -> list[SseFrame]:
    decoder = SseDecoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return frames + decoder.end()


# --- the decoder, given every beginning of a stream


@each_stream
def test_a_cut_at_any_byte_is_no_whole_answer(recorded: Recorded) -> None:
    decoding = _Decoding(recorded)
    whole = decoding.events(_frames(recorded.body))
    marks = marks_of(recorded.body)
    wrong: dict[int, list[str]] = {}
    for at in recorded.positions(None):
        said = problems_of_a_cut(whole, decoding.events(_frames(recorded.body[:at])), marks, at)
        if said:
            wrong[at] = said
    assert wrong == {}


class _Decoding:
    """Decodes frames as the adapter does at a clean end of the body; equal frames but once."""

    def __init__(self, recorded: Recorded) -> None:
        self._model = Model.from_json(recorded.golden.case["model"])
        context = normalize_context(Context.from_json(recorded.golden.case["context"]))
        options = recorded.options()
        self._encoded = encode(self._model, context, own_options(self._model, context, options))
        self._known: dict[tuple[SseFrame, ...], list[JsonObject]] = {}

    def events(self, frames: list[SseFrame]) -> list[JsonObject]:
        """The events that frames make, as JSON."""
        key = tuple(frames)
        if key and not _is_json(key[-1]):
            key = (*key[:-1], SseFrame(b"{"))  # how far it came before it broke off makes no difference
        if key not in self._known:
            self._known[key] = [_timeless(event.to_json()) for event in self._decode(key)]
        return self._known[key]

    def _decode(self, frames: tuple[SseFrame, ...]) -> list[AssistantMessageEvent]:
        builder = AnswerBuilder(self._model, timestamp=0)
        decoder = Decoder(
            builder,
            self._model,
            endpoint_of(self._model),
            grammar_properties=self._encoded.grammar_properties,
            own_names=self._encoded.own_names,
            new_id=lambda: "made up",
        )
        events: list[AssistantMessageEvent] = [builder.start()]
        try:
            for frame in frames:
                if decoder.is_end(frame):
                    break
                try:
                    chunk = decoder.parse(frame)
                except ValueError:
                    if frame is frames[-1]:
                        break
                    raise CallFailed("malformed", "no JSON") from None
                events += decoder.take(chunk)
            events += decoder.close_blocks()
            return [*events, decoder.outcome()]
        except CallFailed as failure:
            return [*events, builder.failed(failure.ending, failure.text)]


def _is_json(frame: SseFrame) -> bool:
    try:
        json.loads(frame.data)
    except ValueError:
        return frame.data == b"[DONE]"
    return True


def _timeless(event: JsonObject) -> JsonObject:
    return {key: value for key, value in event.items() if key != "error"}


# --- frames


@each_stream
def test_a_split_at_any_byte_gives_the_same_frames(recorded: Recorded) -> None:
    body = recorded.body
    whole = _frames(body)
    assert [at for at in recorded.positions(None) if _frames(body[:at], body[at:]) != whole] == []
    assert _frames(*(body[at : at + 1] for at in range(len(body)))) == whole


# --- against the rules, written down once more as plainly as can be


def _by_the_book(body: bytes) -> list[SseFrame]:
    """The standard's rules for a whole body: lines, fields, blank lines; and a last event counts."""
    lines = body.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    frames: list[SseFrame] = []
    data: list[bytes] = []
    name = ""
    for line in [*lines, b""]:
        if not line:
            if data:
                frames.append(SseFrame(b"\n".join(data), name))
            data, name = [], ""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return frames


_PIECES: Final = st.sampled_from(
    [
        b"data: {",
        b'data: {"a":1}\n\n',
        b"data:",
        b"data",
        b"event: error",
        b"event:x",
        b"id: 3",
        b"retry: 10",
        b": comment",
        b"\xef\xbb\xbf",
        b"\n",
        b"\r",
        b"\r\n",
        b"}\n\n",
        b" ",
        b"  x",
        "ë\u2028\u0085".encode(),
        b"\x0b\x0c\x1c",
        b"[DONE]",
        b"data: a:b",
    ]
)


@given(pieces=st.lists(_PIECES, max_size=40), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_any_bytes_in_any_reads_are_read_by_the_book(pieces: list[bytes], cuts: list[int]) -> None:
    body = b"".join(pieces)
    places = [0, *sorted(at for at in cuts if at <= len(body)), len(body)]
    reads = [body[one:other] for one, other in itertools.pairwise(places)]
    assert _frames(*reads) == _by_the_book(body)
