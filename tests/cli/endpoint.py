"""A scripted OpenAI-compatible endpoint on 127.0.0.1: one answer a request, in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """Frames of a stream; those of `later` are sent once the endpoint is released."""

    frames: Sequence[str] = ()
    later: Sequence[str] = ()
    status: int = 200
    body: str = ""
    headers: Sequence[tuple[str, str]] = ()


@dataclass
class Endpoint:
    """Where it listens, and what it was asked."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let answers go on that are held; leaving the endpoint does so too."""
        self._released.set()


def says(*pieces: str, held: bool = False) -> Answer:
    """An answer in words."""
    deltas = [_delta(role="assistant", content=""), *(_delta(content=piece) for piece in pieces)]
    end = _end("stop")
    return Answer(deltas, later=[_delta(content=" and on"), *end]) if held else Answer([*deltas, *end])


def calls(name: str, id: str = "call-1", **arguments: object) -> Answer:
    """An answer that is one tool call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": id, "type": "function", "function": function}
    return Answer([_delta(role="assistant", content=None), _delta(tool_calls=[call]), *_end("tool_calls")])


def refuses(status: int, message: str, **headers: str) -> Answer:
    """An HTTP refusal in OpenAI's form."""
    body = json.dumps({"error": {"message": message, "type": "refused"}})
    return Answer(status=status, body=body, headers=[(k.replace("_", "-"), v) for k, v in headers.items()])


def _delta(**delta: object) -> str:
    return json.dumps({"id": "c-1", "model": "m", "choices": [{"index": 0, "delta": delta}]})


def _end(reason: str) -> list[str]:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return [
        json.dumps({"id": "c-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        json.dumps({"id": "c-1", "choices": [], "usage": usage}),
        "[DONE]",
    ]


@contextmanager
def endpoint(*answers: Answer) -> Iterator[Endpoint]:
    """Serve the answers."""
    script = iter(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", 0))
            served.bodies.append(json.loads(self.rfile.read(length)))
            served.keys.append(self.headers.get("authorization"))
            with suppress(OSError):  # the client has left
                self._answer(next(script))

        def _answer(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            kind = "text/event-stream" if answer.status == 200 else "application/json"
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(answer.body.encode())
            self._send(answer.frames)
            if answer.later:
                served._released.wait()
                self._send(answer.later)

        def _send(self, frames: Sequence[str]) -> None:
            for frame in frames:
                self.wfile.write(f"data: {frame}\n\n".encode())
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    served = Endpoint(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield served
    finally:
        served.release()
        server.shutdown()
        thread.join()
        server.server_close()
