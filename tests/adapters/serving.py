"""What stands on the other side of an adapter in tests: scripted answers, in memory or over a real socket.

`ScriptedTransport` answers from a list without any I/O, so time may be virtual. `serving` is a real server
on a free port, for what only a real connection shows; tests that use it are marked `real_io`.
"""

from __future__ import annotations

import json
import math
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
import anyio.abc
import httpx
from anyio.streams.tls import TLSListener

# --- the pieces of a scripted body


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing for so many milliseconds."""

    ms: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more, ever; the connection stays open."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is dropped here."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same bytes again and again, `times` or for ever, `every_ms` apart."""

    data: bytes
    times: float = math.inf
    every_ms: float = 0


Piece: TypeAlias = "bytes | Wait | Hang | Reset | Repeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP response. No `reason`: the phrase of the status."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    body: Sequence[Piece] = ()
    reason: str | None = None
    http_version: str = "1.1"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No response at all: `hold` never comes, anything else is the errno name of a failed connection."""

    why: str


Exchange: TypeAlias = Answer | NoAnswer


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request as it arrived. Header names in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON. Raises ValueError where it is none, or not UTF-8."""
        return json.loads(self.content.decode("utf-8"))


class OutOfAnswersError(AssertionError):
    """One more request was made than there are answers."""


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each request with the next entry of a list; remembers what was asked and what was closed."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = list(exchanges)
        self.requests: list[SeenRequest] = []
        self.refused = 0
        """Requests beyond the last answer."""
        self.opened = 0
        self.closed = 0
        self.closed_itself = 0
        """How often the transport itself was closed, which is its owner's to do."""

    @property
    def left_open(self) -> int:
        """How many response bodies nobody has closed."""
        return self.opened - self.closed

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serve the next entry."""
        content = await request.aread()
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in request.headers.raw}
        self.requests.append(SeenRequest(request.method, str(request.url), headers, content))
        await anyio.lowlevel.checkpoint()
        if len(self.requests) > len(self._exchanges):
            self.refused += 1
            raise OutOfAnswersError(f"no answer for request {len(self.requests)}")
        exchange = self._exchanges[len(self.requests) - 1]
        read_limit = request.extensions.get("timeout", {}).get("read")
        if isinstance(exchange, NoAnswer):
            await _refuse(exchange.why, read_limit, request)
        else:
            return self._respond(exchange, read_limit, request)
        raise AssertionError("not reached")

    def _respond(self, answer: Answer, read_limit: float | None, request: httpx.Request) -> httpx.Response:
        extensions: dict[str, object] = {"http_version": f"HTTP/{answer.http_version}".encode()}
        if answer.reason is not None:
            extensions["reason_phrase"] = answer.reason.encode("latin-1")
        self.opened += 1
        return httpx.Response(
            answer.status,
            headers=[
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers.items()
            ],
            stream=_Body(self, answer.body, read_limit, request),
            extensions=extensions,
        )

    async def aclose(self) -> None:
        """Counted: whoever is handed a transport has no business closing it."""
        self.closed_itself += 1


async def _refuse(why: str, read_limit: float | None, request: httpx.Request) -> None:
    if why == "hold":
        await _silence(read_limit, request)
    if why == "ECONNRESET":
        raise httpx.ReadError(why, request=request)
    raise httpx.ConnectError(why, request=request)


async def _silence(read_limit: float | None, request: httpx.Request) -> None:
    with anyio.move_on_after(read_limit):
        await anyio.sleep_forever()
    raise httpx.ReadTimeout("nothing came", request=request)


class _Body(httpx.AsyncByteStream):
    """Not a generator, so that leaving it half read is nobody's warning: what is closed is counted."""

    def __init__(
        self,
        owner: ScriptedTransport,
        pieces: Sequence[Piece],
        read_limit: float | None,
        request: httpx.Request,
    ) -> None:
        self._owner = owner
        self._pieces = _flat(pieces)
        self._read_limit = read_limit
        self._request = request
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self._closed:
            raise httpx.StreamClosed()
        for piece in self._pieces:
            match piece:
                case bytes():
                    return piece
                case Wait(ms=ms):
                    await self._wait(ms / 1000)
                case Hang():
                    await _silence(self._read_limit, self._request)
                case _:
                    raise httpx.ReadError("connection reset by peer", request=self._request)
        raise StopAsyncIteration

    async def _wait(self, seconds: float) -> None:
        if self._read_limit is not None and seconds > self._read_limit:
            await _silence(self._read_limit, self._request)
        await anyio.sleep(seconds)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._owner.closed += 1


def _flat(pieces: Sequence[Piece]) -> Iterator[bytes | Wait | Hang | Reset]:
    for piece in pieces:
        if not isinstance(piece, Repeat):
            yield piece
            continue
        count = 0
        while count < piece.times:
            if piece.every_ms:
                yield Wait(piece.every_ms)
            yield piece.data
            count += 1


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Bytes in pieces of these sizes; what is left over comes as a last piece."""
    pieces: list[bytes] = []
    at = 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    return [piece for piece in [*pieces, data[at:]] if piece]


# --- a process environment without anybody's settings

_NEEDED_BY_PYTHON: Final = frozenset({"PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT"})


@contextmanager
def bare_environment() -> Iterator[None]:
    """Without a provider's, proxy's or certificate's variables: a case means the same everywhere."""
    kept = dict(os.environ)
    for name in kept:
        if name not in _NEEDED_BY_PYTHON:
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


# --- real servers


class Connection:
    """One accepted connection: the request that came on it, and the way back."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self.request: SeenRequest | None = None
        self.over = anyio.Event()
        """Set once the client has closed its side, or the handler is done."""

    async def read_request(self) -> bool:
        """Read one whole request. False: none came, or what came is not HTTP."""
        data = b""
        while b"\r\n\r\n" not in data:
            more = await self._receive()
            if not more:
                return False
            data += more
            if not data[:1].isalpha():
                await self.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                return False
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        while len(body) < int(headers.get("content-length", "0")):
            more = await self._receive()
            if not more:
                return False
            body += more
        self.request = SeenRequest(method, target, headers, body)
        return True

    async def send(self, *pieces: bytes) -> None:
        """Send raw bytes. A client that has left is no error of the server's."""
        for piece in pieces:
            try:
                await self._stream.send(piece)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self.over.set()
                return

    async def wait_gone(self) -> None:
        """Return once the client has closed the connection."""
        while await self._receive():
            pass

    async def _receive(self) -> bytes:
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.over.set()
            return b""


Handler: TypeAlias = Callable[[Connection], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `connections` are all it ever accepted, in order."""

    host: str
    port: int
    scheme: str
    connections: list[Connection]

    @property
    def url(self) -> str:
        """Where it is, without a slash at the end."""
        return f"{self.scheme}://{self.host}:{self.port}"


@asynccontextmanager
async def serving(handle: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on a free port of this machine; `handle` is given each connection, its first request read.

    Args:
        tls: speak https, by this context.
    """
    connections: list[Connection] = []

    async def accept(stream: anyio.abc.ByteStream) -> None:
        async with stream:
            connection = Connection(stream)
            connections.append(connection)
            try:
                if await connection.read_request():
                    await handle(connection)
            finally:
                connection.over.set()

    plain = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    async with plain, anyio.create_task_group() as tasks:
        if tls is None:
            tasks.start_soon(plain.serve, accept)
        else:
            tasks.start_soon(TLSListener(plain, tls).serve, accept)
        yield Server("127.0.0.1", port, "http" if tls is None else "https", connections)
        tasks.cancel_scope.cancel()


def raw_response(
    body: bytes, *, status: str = "200 OK", headers: Sequence[str] = (), length: int | None = None
) -> bytes:
    """The bytes of a response with a content length; `length` makes it a lie."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body) if length is None else length}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def raw_stream_head(*, status: str = "200 OK", headers: Sequence[str] = ()) -> bytes:
    """The head of a chunked event stream."""
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/event-stream",
        "Transfer-Encoding: chunked",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def raw_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; of no bytes, the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def sse(*items: object) -> bytes:
    """Server-sent events: a text as it stands, anything else as JSON."""
    texts = [item if isinstance(item, str) else json.dumps(item) for item in items]
    return "".join(f"data: {text}\n\n" for text in texts).encode()
