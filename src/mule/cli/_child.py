"""A server in a child process: started, watched, stopped; and in plain words what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Final

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from mule.values.errors import MuleError, NotSupported
from mule.waiting import protected

_MAX_LINE: Final = 300

_KNOWN_ENDS: Final = {
    signal.SIGILL: "this processor lacks an instruction that it is compiled with (AVX2, FMA, F16C or BMI2)",
    signal.SIGKILL: "something else ended it, most often because memory ran out",
}


class Child:
    """A server process. Its stdin is the rope: when it closes, the child leaves by itself."""

    def __init__(self, name: str, process: Process, errors: IO[bytes]) -> None:
        self._name = name
        self._process = process
        self._errors = errors
        self.address = ""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def listen(self, limit_s: float) -> None:
        """Wait until the server says where it listens.

        Raises:
            MuleError: `NotSupported`: it ended before, or took too long.
        """
        assert self._process.stdout is not None
        lines = BufferedByteReceiveStream(self._process.stdout)
        with anyio.move_on_after(limit_s):
            try:
                self.address = (await lines.receive_until(b"\n", _MAX_LINE)).decode().strip()
            except anyio.IncompleteRead:
                raise MuleError(NotSupported(await self._death())) from None
        if not self.address:
            raise MuleError(NotSupported(f"{self._name} did not start within {limit_s:g} s"))

    async def death(self, patience_s: float) -> str | None:
        """How the process ended, in one sentence; None while it lives.

        A broken connection is seen a moment before the exit status: `patience_s` is that moment.
        """
        with anyio.move_on_after(patience_s):
            return await self._death()
        return None

    async def _death(self) -> str:
        status = await self._process.wait()
        said = self._last_error_line()
        return f"{self._name} died: {_ending(status)}" + (f"; it said: {said}" if said else "")

    def _last_error_line(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:_MAX_LINE] if lines else ""

    async def stop(self, patience_s: float) -> None:
        """Let the process leave, and after `patience_s` see to it that it does."""
        process = self._process
        assert process.stdin is not None
        await process.stdin.aclose()
        # One that never listened may not hear either that it should leave.
        with anyio.move_on_after(patience_s if self.address else 0):
            await process.wait()
        with suppress(ProcessLookupError):  # it has left
            process.kill()
        await process.aclose()


@asynccontextmanager
async def serving(
    name: str, command: Sequence[str], *, start_limit_s: float = 60, stop_patience_s: float = 5
) -> AsyncGenerator[Child, None]:
    """Run a command that prints the address on which it serves, until the context is left.

    Its environment is this process's own. Ctrl-C on the terminal does not reach it.

    Args:
        name: what it is called in errors, such as `the server`.
        start_limit_s: how long it may take to serve; one that loads from a cold disk needs seconds.
        stop_patience_s: how long it may take to leave by itself before it is killed.

    Raises:
        MuleError: `NotSupported`: it ended or hung before it served.
    """
    with tempfile.TemporaryFile() as errors:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )
        child = Child(name, process, errors)
        try:
            await child.listen(start_limit_s)
            yield child
        finally:
            await protected(lambda: child.stop(stop_patience_s), 2 * stop_patience_s)


def _ending(status: int) -> str:
    if status >= 0:
        return f"it left with exit status {status}"
    try:
        sign = signal.Signals(-status)
    except ValueError:
        return f"signal {-status}"
    why = _KNOWN_ENDS.get(sign)
    return f"signal {sign.name}" + (f": {why}" if why else "")
