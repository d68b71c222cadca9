"""Every recorded stream, cut and split at every single byte, below the transport: bytes to events."""

from __future__ import annotations

import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sweeping import Recorded, recorded_streams
from mule.adapters._sse import SseDecoder, SseFrame

STREAMS: Final = recorded_streams()
each_stream = pytest.mark.parametrize("recorded", STREAMS, ids=lambda recorded: recorded.name)


def _frames(*pieces: bytes) -> list[SseFrame]:
    decoder = SseDecoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    return frames + decoder.end()


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
