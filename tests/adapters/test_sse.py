"""Server-sent events are read as the standard says, however their bytes arrive."""

from __future__ import annotations

import pytest

from mule.adapters._sse import MAX_EVENT_BYTES, SseDecoder, SseFrame, SseTooLong


def frames(*pieces: bytes) -> list[SseFrame]:
    """All events of a body that comes in these pieces."""
    decoder = SseDecoder()
    found = [frame for piece in pieces for frame in decoder.feed(piece)]
    return found + decoder.end()


def data(*pieces: bytes) -> list[bytes]:
    """The data of all events."""
    return [frame.data for frame in frames(*pieces)]


def test_an_event_is_handed_out_with_the_bytes_that_end_it() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b'data: {"a":1}\n') == []
    assert decoder.feed(b"\n") == [SseFrame(b'{"a":1}')]
    assert decoder.end() == []


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_of_the_three_line_ends_counts(end: bytes) -> None:
    assert data(b"data: 1" + end + end + b"data: 2" + end + end) == [b"1", b"2"]


def test_nothing_else_ends_a_line() -> None:
    text = "A\u2028B\u2029C\u0085D\x0bE\x0cF\x1cG\x1dH\x1eI".encode()
    assert data(b"data: " + text + b"\n\n") == [text]
    assert data(b'data: {"' + text + b'"}\n\n') == [b'{"' + text + b'"}']


def test_a_line_end_that_is_cut_in_two_is_one() -> None:
    assert data(b"data: 1\r", b"\n", b"data: 2\r", b"\n\r", b"\n") == [b"1\n2"]
    assert data(b'data: {"a":1}\r\n\r', b'\ndata: {"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_a_byte_order_mark_is_skipped_at_the_very_start_alone() -> None:
    mark = b"\xef\xbb\xbf"
    assert data(mark[:1], mark[1:] + b"data: 1\n\n") == [b"1"]
    assert data(b"data: 1\n\n" + mark + b"data: 2\n\n") == [b"1"]


def test_the_lines_of_one_event_are_joined_and_lose_one_blank_each() -> None:
    assert data(b"data:a\ndata: b\ndata:  c\ndata\n\n") == [b"a\nb\n c\n"]


def test_several_events_in_one_read_stay_apart() -> None:
    assert data(b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: {"c":3}\n\n') == [
        b'{"a":1}',
        b'{"b":2}',
        b'{"c":3}',
    ]
    assert data(b'data: {"a":\ndata: 1}\n\ndata: {"b":2}\n\n') == [b'{"a":\n1}', b'{"b":2}']


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert frames(b": ping\n\nid: 4\nretry: 10\ncolour: red\ndata: 1\n\n: data: 2\n\n") == [SseFrame(b"1")]


def test_an_event_without_data_is_none_and_its_name_is_forgotten() -> None:
    assert frames(b"event: ping\n\ndata: 1\n\n") == [SseFrame(b"1")]


def test_a_name_is_the_event_s_own() -> None:
    body = b"event: first\ndata: 1\n\nevent:second\ndata: 2\n\ndata: 3\n\n"
    assert frames(body) == [SseFrame(b"1", "first"), SseFrame(b"2", "second"), SseFrame(b"3")]


def test_a_fast_looking_event_after_a_name_keeps_it() -> None:
    assert frames(b"event: error\n", b'data: {"a":1}\n\n') == [SseFrame(b'{"a":1}', "error")]


def test_a_field_named_error_is_an_error_event() -> None:
    # llama.cpp wrote errors so, before it kept to the standard.
    assert frames(b'error: {"code":500}\n\ndata: 1\n\n') == [
        SseFrame(b'{"code":500}', "error"),
        SseFrame(b"1"),
    ]


def test_a_last_event_counts_without_its_blank_line() -> None:
    assert data(b"data: 1\n\ndata: 2") == [b"1", b"2"]
    assert data(b"data: 1\n\ndata: 2\n") == [b"1", b"2"]
    assert data(b"") == data(b": nothing") == []


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["one line", "many lines"])
def test_an_event_that_does_not_end_is_refused_before_it_fills_the_memory(end: bytes) -> None:
    piece = b"data: " + b"x" * (1024 * 1024) + end
    pieces = [piece] * (MAX_EVENT_BYTES // len(piece) + 2)
    with pytest.raises(SseTooLong):
        frames(*pieces)


def test_the_limit_is_one_of_each_event() -> None:
    decoder = SseDecoder()
    event = b"data: " + b"x" * (8 * 1024 * 1024) + b"\n\n"
    assert sum(len(decoder.feed(event)) for _ in range(12)) == 12
