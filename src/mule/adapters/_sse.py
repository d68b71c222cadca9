"""Bytes to server-sent events, without any I/O.

The events are the same however the bytes are cut. Rules: WHATWG HTML, section "Server-sent events", but
that a last event counts without its blank line too, and that what some servers (older llama.cpp) write
as a field `error` is an event of that name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""Longest event, in bytes: far above any answer, far below what would exhaust a host."""

_BOM: Final = b"\xef\xbb\xbf"


class SseFrame(NamedTuple):
    """One event: its data, lines joined by LF, and its name, empty where it has none."""

    data: bytes
    name: str = ""


class SseTooLong(ValueError):
    """An event is longer than `MAX_EVENT_BYTES`."""


class SseDecoder:
    """Splits bytes into events. Constant work for each byte, however long an event is."""

    __slots__ = ("_data", "_length", "_name", "_skip_lf", "_started", "_tail", "_tail_length")

    def __init__(self) -> None:
        self._started = False
        self._skip_lf = False
        self._tail: list[bytes] = []  # an unfinished line, as it came
        self._tail_length = 0
        self._data: list[bytes] = []
        self._name = ""
        self._length = 0

    def feed(self, data: bytes) -> list[SseFrame]:
        """The events that these bytes complete.

        Raises:
            SseTooLong: an event does not end.
        """
        if (
            data.startswith(b"data: {")
            and data.endswith(b"}\n\n")
            and b"\r" not in data
            and not (self._tail or self._data or self._name or self._skip_lf)
        ):
            # What nearly all network reads are like: whole events of one line each, mostly just one.
            self._started = True
            if data.find(b"\n") == len(data) - 2:
                return [SseFrame(data[6:-2])]
            bodies = data[6:-2].split(b"\n\ndata: ")
            if not any(b"\n" in body for body in bodies):
                return [SseFrame(body) for body in bodies]
        return self._feed_lines(data)

    def end(self) -> list[SseFrame]:
        """No more bytes come: the last event, where it lacks its blank line."""
        frames: list[SseFrame] = []
        if self._tail:
            self._take_line(b"".join(self._tail), frames)
            self._tail, self._tail_length = [], 0
        self._dispatch(frames)
        return frames

    def _feed_lines(self, data: bytes) -> list[SseFrame]:
        if self._skip_lf and data:
            self._skip_lf = False
            if data.startswith(b"\n"):
                data = data[1:]
        if not data:
            return []
        frames: list[SseFrame] = []
        # bytes.splitlines splits at CR, LF and CRLF alone, which str.splitlines does not.
        lines = data.splitlines()
        rest = b"" if data.endswith((b"\r", b"\n")) else lines.pop()
        self._skip_lf = data.endswith(b"\r")
        if lines and self._tail:
            lines[0] = b"".join([*self._tail, lines[0]])
            self._tail, self._tail_length = [], 0
        for line in lines:
            self._take_line(line, frames)
        if rest:
            self._tail.append(rest)
            self._tail_length += len(rest)
            self._check_length()
        return frames

    def _take_line(self, line: bytes, frames: list[SseFrame]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(frames)
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data" or (name == b"error" and value.startswith(b"{")):
            self._data.append(value)
            self._length += len(value)
            self._check_length()
        if name == b"event":
            self._name = value.decode("utf-8", "replace")
        elif name == b"error" and self._data:
            self._name = "error"

    def _dispatch(self, frames: list[SseFrame]) -> None:
        if self._data:
            frames.append(SseFrame(b"\n".join(self._data), self._name))
            self._data = []
        self._name = ""
        self._length = 0

    def _check_length(self) -> None:
        if self._length + self._tail_length > MAX_EVENT_BYTES:
            raise SseTooLong(f"a server-sent event is longer than {MAX_EVENT_BYTES:,} bytes")
