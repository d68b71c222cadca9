"""Recorded HTTP responses, taken apart: for transports that are asked below the framing."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.serving import Answer, Piece, Reset


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded response. `whole`: its body ended as its framing announced."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes
    whole: bool

    def in_pieces_of(self, size: int) -> Answer:
        """The response, its body in pieces of so many bytes; one that broke off breaks off again."""
        pieces: list[Piece] = [self.body[at : at + size] for at in range(0, len(self.body), size)]
        if not self.whole:
            pieces.append(Reset())
        return Answer(status=self.status, reason=self.reason, headers=self.headers, body=pieces)


def answer_of(data: bytes) -> Recording:
    """Take a recorded response apart: its head, and its body without the framing."""
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    _, status, reason = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.pop("transfer-encoding", "") != "chunked":
        return Recording(
            int(status), reason, headers, rest, len(rest) == int(headers.get("content-length", "0"))
        )
    body, whole = _without_chunks(rest)
    return Recording(int(status), reason, headers, body, whole)


def _without_chunks(data: bytes) -> tuple[bytes, bool]:
    body: list[bytes] = []
    while data:
        size_text, _, rest = data.partition(b"\r\n")
        size = int(size_text, 16)
        if size == 0:
            return b"".join(body), True
        body.append(rest[:size])
        data = rest[size + 2 :]
    return b"".join(body), False
