"""`mule run` against a scripted endpoint: what it asks, what it shows, how it ends."""

from __future__ import annotations

import re

import pytest

from cli.commanding import Mule
from cli.endpoint import Answer, calls, endpoint, refuses, says

SPEC = "openai-completions:some/model@"


def test_the_answer_is_shown_and_a_summary(mule: Mule) -> None:
    with endpoint(says("Hel", "lo.")) as served:
        said = mule("run", "Hi?", "--model", SPEC + served.url)

    assert said.status == 0
    assert said.lines[:2] == ["> Hi?", "Hello."]
    assert re.fullmatch(r"\[12 tokens in, 3 out, cost not known, \d+\.\d s\]", said.lines[2])
    assert len(said.lines) == 3
    assert said.err == ""


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("weather", ['-> weather(city="Oslo")', "<- weather: 21 C, sunny in Oslo"]),
        ("plain", ['-> plain(city="Oslo")', "<- plain: plain Oslo"]),
        (
            "slow",
            ['-> slow(city="Oslo")', "   slow: looking out of the window", "<- slow: slow Oslo"],
        ),
        ("broken", ['-> broken(city="Oslo")', "<- broken failed: no weather in Oslo"]),
    ],
)
def test_each_tool_call_and_result_has_a_line(mule: Mule, spec: str, shown: list[str]) -> None:
    with endpoint(calls(spec, city="Oslo"), says("Fine.")) as served:
        said = mule("run", "Weather?", "--model", SPEC + served.url, "--tool", f"cli.tools:{spec}")

    assert said.status == 0
    assert said.lines[:-1] == ["> Weather?", *shown, "Fine."]
    assert said.lines[-1].startswith("[24 tokens in, 6 out")


def test_a_rejected_call_is_shown_and_the_run_goes_on(mule: Mule) -> None:
    with endpoint(calls("weather", town="Oslo"), says("Sorry.")) as served:
        said = mule("run", "?", "--model", SPEC + served.url, "--tool", "cli.tools:weather")

    assert said.status == 0
    assert said.lines[2].startswith("<- weather failed: weather was not run")
    assert said.lines[3] == "Sorry."


def test_json_prints_the_runs_events_one_a_line(mule: Mule) -> None:
    with endpoint(calls("weather", city="Oslo"), says("Fine.")) as served:
        said = mule("run", "?", "--json", "--model", SPEC + served.url, "--tool", "cli.tools:weather")

    events = said.events
    types = [event["type"] for event in events]
    assert said.status == 0
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert types[0] == "run_start"
    assert types[-1] == "run_end"
    assert types.count("turn_end") == 2
    assert events[-1]["status"] == "completed"
    assert {"tool_execution_start", "tool_execution_end", "message_update"} <= set(types)


def test_what_is_asked_of_the_endpoint(mule: Mule) -> None:
    with endpoint(says("Fine.")) as served:
        mule(
            *("run", "Hi?", "--model", SPEC + served.url, "--tool", "cli.tools:weather"),
            *("--system", "Be brief.", "--max-tokens", "50"),
        )

    (body,) = served.bodies
    assert body["model"] == "some/model"
    assert body["max_tokens"] == 50
    assert body["stream"] is True
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][0]["content"] == "Be brief."
    assert body["tools"][0]["function"]["name"] == "weather"
    assert body["tools"][0]["function"]["parameters"]["required"] == ["city"]


def test_reasoning_is_asked_for(mule: Mule) -> None:
    with endpoint(says("Fine.")) as served:
        mule("run", "Hi?", "--model", SPEC + served.url, "--reasoning", "high")

    assert served.bodies[0]["reasoning_effort"] == "high"


@pytest.mark.parametrize(
    ("env", "sent"),
    [
        ({}, "Bearer none"),
        ({"OPENAI_API_KEY": "sk-openai"}, "Bearer sk-openai"),
        ({"MULE_API_KEY": "sk-mule", "OPENAI_API_KEY": "sk-openai"}, "Bearer sk-mule"),
    ],
)
def test_the_key_comes_from_the_environment(
    mule: Mule, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], sent: str
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with endpoint(says("Fine.")) as served:
        mule("run", "Hi?", "--model", SPEC + served.url)

    assert served.keys == [sent]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (refuses(401, "Wrong key."), ["Wrong key", "401", "set OPENAI_API_KEY, or MULE_API_KEY"]),
        (refuses(429, "Slow down.", retry_after="7"), ["Slow down", "wait 7 s"]),
        (refuses(404, "No such model."), ["No such model", "404"]),
        (Answer(["not json"]), ["mule: "]),
        (Answer([]), ["mule: "]),
    ],
)
@pytest.mark.parametrize("json", [(), ("--json",)])
def test_a_failed_run_is_one_line_that_says_what_to_do(
    mule: Mule, answer: Answer, expected: list[str], json: tuple[str, ...]
) -> None:
    with endpoint(answer) as served:
        said = mule("run", "Hi?", "--model", SPEC + served.url, *json)

    assert said.status == 1
    assert said.err.startswith("mule: ")
    assert len(said.err.splitlines()) == 1
    assert all(part in said.err for part in expected), said.err
    if json:
        assert said.events[-1]["status"] == "failed"


def test_a_server_that_is_not_there_is_a_failed_run(mule: Mule) -> None:
    with endpoint() as served:
        pass
    said = mule("run", "Hi?", "--model", SPEC + served.url)

    assert said.status == 1
    assert "Is the server running" in said.err
    assert len(said.err.splitlines()) == 1


def test_a_key_that_the_provider_repeats_is_not_printed(
    mule: Mule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULE_API_KEY", "sk-secret-123")
    with endpoint(refuses(401, "Wrong key: sk-secret-123")) as served:
        said = mule("run", "Hi?", "--model", SPEC + served.url)

    assert said.status == 1
    assert "sk-secret-123" not in said.err + said.out
    assert "Wrong key: " in said.err


def test_what_a_terminal_would_obey_is_not_printed(mule: Mule) -> None:
    with endpoint(says("a\x1b[2Jb\x07\tc\nd")) as served:
        said = mule("run", "Hi?", "--model", SPEC + served.url)

    assert said.lines[1:3] == ["a[2Jb\tc", "d"]


def test_half_a_surrogate_pair_is_printed_somehow(mule: Mule) -> None:
    with endpoint(says("half \ud83d")) as served:
        said = mule("run", "Hi?", "--model", SPEC + served.url)

    assert said.status == 0
    assert said.lines[1].startswith("half ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "required"),
        (("run",), "required"),
        (("run", "Hi?"), "--model"),
        (("run", "Hi?", "--model", "local", "--max-tokens", "0"), "at least 1"),
        (("run", "Hi?", "--model", "local", "--max-tokens", "many"), "--max-tokens"),
        (("run", "Hi?", "--model", "local", "--reasoning", "hard"), "--reasoning"),
        (("run", "Hi?", "--model", "gpt"), "there are local and openai-completions:MODEL@BASE_URL"),
        (
            ("run", "Hi?", "--model", "anthropic-messages:m@http://x"),
            "the command does not speak anthropic-messages (mule.effect does); there are local and",
        ),
        (("run", "Hi?", "--model", "openai-completions:m"), "MODEL@BASE_URL"),
        (("run", "Hi?", "--model", "openai-completions:m@ftp://x"), "MODEL@BASE_URL"),
        (("run", "Hi?", "--model", "openai-completions:@http://x"), "MODEL@BASE_URL"),
        (("run", "Hi?", "--model", SPEC + "http://x", "--tool", "weather"), "is not module:name"),
        (("run", "Hi?", "--model", SPEC + "http://x", "--tool", "no.such:x"), "No module named"),
        (("run", "Hi?", "--model", SPEC + "http://x", "--tool", "cli.tools:none"), "no attribute"),
        (
            ("run", "Hi?", "--model", SPEC + "http://x", "--tool", "cli.tools:not_a_tool"),
            "neither a tool nor a function, but of type int",
        ),
        (
            (
                *("run", "Hi?", "--model", SPEC + "http://x"),
                *("--tool", "cli.tools:plain", "--tool", "cli.tools:plain"),
            ),
            "two tools are named plain",
        ),
    ],
)
def test_bad_usage_is_status_2_and_says_what_is_wrong(
    mule: Mule, arguments: tuple[str, ...], problem: str
) -> None:
    said = mule(*arguments)

    assert said.status == 2
    assert problem in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_help_says_what_there_is(mule: Mule) -> None:
    said = mule("run", "--help")

    assert said.status == 0
    assert "local (the embedded model), or" in " ".join(said.out.split())
    assert "OPENAI_API_KEY" in said.out
