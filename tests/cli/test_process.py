"""The command as a process: Ctrl-C, a reader that leaves, what it needs to be found."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest

from cli.commanding import start
from cli.endpoint import calls, endpoint, says

SPEC = "openai-completions:some/model@"


def to_the_process(pid: int, sign: signal.Signals) -> None:
    """As `kill` does it."""
    os.kill(pid, sign)


def to_the_group(pid: int, sign: signal.Signals) -> None:
    """As a terminal does it on Ctrl-C: every process that it started gets one."""
    os.killpg(pid, sign)


@pytest.mark.parametrize("send", [to_the_process, to_the_group])
@pytest.mark.parametrize(("sign", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_cleanly(
    send: Callable[[int, signal.Signals], None], sign: signal.Signals, status: int
) -> None:
    with (
        endpoint(says("Once upon", held=True)) as served,
        start("run", "A story?", "--json", "--model", SPEC + served.url) as process,
    ):
        assert process.stdout is not None
        lines: list[str] = []
        while "text_delta" not in "".join(lines[-1:]):
            lines.append(process.stdout.readline())
        send(process.pid, sign)
        out, err = process.communicate(timeout=20)
        events = [json.loads(line) for line in [*lines, *out.splitlines()]]

    assert process.returncode == status
    assert err == ""
    assert [event["type"] for event in events].count("run_end") == 1
    assert events[-1]["type"] == "run_end"
    assert events[-1]["status"] == "cancelled"


def test_a_second_interrupt_does_not_wait_for_a_tool_that_cannot_be_cancelled() -> None:
    with (
        endpoint(calls("deaf")) as served,
        start("run", "?", "--model", SPEC + served.url, "--tool", "tools:deaf") as process,
    ):
        assert process.stdout is not None
        while "deaf(" not in process.stdout.readline():
            pass
        assert process.stdout.readline() == "tool: running\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == "tool: cancelled\n"
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=20)

    assert process.returncode == 130


def test_a_reader_that_leaves_is_no_traceback() -> None:
    with (
        endpoint(says("Once", held=True)) as served,
        start("run", "A story?", "--model", SPEC + served.url) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        served.release()
        err = process.stderr.read()
        process.wait(20)

    assert err == ""
    assert process.returncode == 141
