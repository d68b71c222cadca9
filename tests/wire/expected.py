"""What is to be made of each recording of llama.cpp's server, one entry a file, grouped by what it shows.

Our adapter always asks for a stream; where a recording is of a plain answer, a server has ignored that. A
complete plain answer is an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mule.values.errors import Ending
from mule.values.jsontext import JsonObject
from mule.values.usage import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a recording comes to.

    Attributes:
        text: of the whole answer; None is not compared, `begins` then is.
        calls: name and arguments of each call, in order.
        usage: input, output, read from cache; None where the server told nothing.
        ending: how it failed, and what the error text must say; None is a good answer.
        retry: whether a failed one is worth another try.
    """

    stop: StopReason
    text: str | None = ""
    begins: str = ""
    calls: tuple[tuple[str, JsonObject], ...] = ()
    usage: tuple[int, int, int] | None = None
    ending: Ending | None = None
    says: tuple[str, ...] = ()
    retry: bool = False


def _answer(text: str, input_tokens: int, output_tokens: int, cached: int = 0) -> Expected:
    return Expected(stop="stop", text=text, usage=(input_tokens, output_tokens, cached))


def _cut_by_length(text: str, input_tokens: int, output_tokens: int) -> Expected:
    return Expected(stop="length", text=text, usage=(input_tokens, output_tokens, 0))


def _calls(input_tokens: int, output_tokens: int, *calls: tuple[str, JsonObject]) -> Expected:
    return Expected(stop="toolUse", calls=calls, usage=(input_tokens, output_tokens, 0))


def _refused(ending: Ending, status: int, *says: str, retry: bool = False) -> Expected:
    return Expected(stop="error", ending=ending, says=(str(status), *says), retry=retry)


_HOT: Final = "The opposite of hot is cold."
_MANY_SCRIPTS: Final = "héllo 世界 🎉👩\u200d👩\u200d👧🇫🇷 naïve عربي"
_ADA: Final = '{\n  "name": "Ada",\n  "age": 36,\n  "tags": [\n    "red",\n    "blue",\n    "red"\n  ]\n}'
_TOKYO: Final = ("get_weather", {"city": "Tokyo"})
_PARIS: Final = ("get_weather", {"city": "Paris"})
_SUM: Final = ("calculator", {"expression": "12 * 7"})

EXPECTED: Final[Mapping[str, Expected]] = {
    # streamed texts
    "stream": Expected(stop="stop", text=_HOT),
    "stream-usage": _answer(_HOT, 30, 8),
    "b11549-stream-usage": _answer(_HOT, 1, 8, cached=29),
    "stop-sequence-stream": _answer(
        "Here are the days of the week in order:\n\n1. Monday\n2. Tuesday\n3. ", 37, 22
    ),
    "tool-result-stream": _answer("The weather in Tokyo is light rain.", 216, 9),
    "json-schema-stream": _answer(_ADA, 47, 39),
    "unicode-emoji-stream": _answer(_MANY_SCRIPTS, 34, 47),
    "b11549-unicode-emoji-stream": _answer(_MANY_SCRIPTS, 10, 47, cached=24),
    # streamed texts that the token limit cut
    "length-stop-stream": _cut_by_length("I'm sorry for any", 36, 5),
    "unicode-cut-by-length-stream": _cut_by_length("héllo 世", 34, 9),
    "logprobs-stream": Expected(stop="length", text="Hello there! I"),
    "parallel-requests-1": _cut_by_length(
        "Here are three fruits that are commonly used in the food industry:\n\n1. Banana\n2. Apple\n3",
        34,
        24,
    ),
    "parallel-requests-2": _cut_by_length(
        "Here are three animals:\n\n1. The Whiskey Lebel: A legendary Roman gladiator who was killed",
        34,
        24,
    ),
    "b11549-tool-required-stream": Expected(
        stop="length", text=None, begins="The weather in Tokyo is mostly sunny", usage=(294, 100, 0)
    ),
    # streamed calls
    "tool-required-stream": _calls(307, 42, _TOKYO),
    "tool-auto-stream": _calls(309, 41, _SUM),
    "tool-parallel-stream": _calls(203, 107, _TOKYO, _PARIS),
    "b11549-tool-prefill-stream": _calls(221, 69, _TOKYO, _TOKYO),
    # streams that break off: what had come is kept, and it is no success
    "tool-cut-by-length-stream": Expected(
        stop="error",
        text="",
        ending="server_error",
        says=("Invalid diff: now finding less tool calls!",),
        retry=True,
    ),
    "abort-midway-stream": Expected(
        stop="error", text="Once upon a time, in a land far away,", ending="network", retry=True
    ),
    "b11549-abort-midway-stream": Expected(
        stop="error", text="Once upon a time, there was a brave dragon named", ending="network", retry=True
    ),
    # plain answers
    "plain": _answer(_HOT, 30, 8),
    "b11549-plain": _answer(_HOT, 30, 8),
    "json-schema": _answer(_ADA, 47, 39),
    "json-object": _answer('{\n  "key": "key_color",\n  "value": {\n    "color": "red"\n  }\n}', 40, 27),
    "tool-required": _calls(307, 42, _TOKYO),
    "tool-named": _calls(309, 41, _SUM),
    "length-stop": _cut_by_length("I'm sorry for any", 36, 5),
    "error-bad-grammar": _cut_by_length("Hello there, welcome to", 31, 5),
    "error-bad-schema": _cut_by_length("Welcome to the world of", 31, 5),
    "error-wrong-type": _cut_by_length("Hello! I'm Sarah", 31, 5),
    "tool-result-auto": Expected(
        stop="length",
        text=None,
        begins='{\n  "response": "The weather in Tokyo is light rain.',
        usage=(249, 80, 0),
    ),
    # refusals
    "error-overflow": _refused("context_overflow", 400, "exceeds the available context size (2048 tokens)"),
    "error-overflow-stream": _refused(
        "context_overflow", 400, "exceeds the available context size (2048 tokens)"
    ),
    "b11549-error-overflow": _refused(
        "context_overflow", 400, "exceeds the available context size (2048 tokens)"
    ),
    "error-missing-messages": _refused("invalid_request", 400, "'messages' is required"),
    "error-missing-messages-stream": _refused("invalid_request", 400, "'messages' is required"),
    "error-bad-role-content": _refused(
        "invalid_request", 400, "Expected 'content' to be a string or an array"
    ),
    "error-bad-tool-choice": _refused("invalid_request", 400, "Invalid tool_choice: sometimes"),
    "b11549-error-bad-grammar": _refused("invalid_request", 400, "failed to parse grammar"),
    "b11549-error-bad-json": _refused("invalid_request", 400, "unexpected end of input"),
    "b11549-error-wrong-type": _refused("invalid_request", 400, "type must be number, but is string"),
    "error-404": _refused("invalid_request", 404, "File Not Found"),
    # what this server calls its own error, so nobody can tell that another try is in vain
    "error-bad-json": _refused("server_error", 500, "unexpected end of input", retry=True),
    "error-invalid-utf8": _refused("server_error", 500, "ill-formed UTF-8 byte", retry=True),
    "error-image": _refused("server_error", 500, "image input is not supported", retry=True),
    "b11549-error-image": _refused("server_error", 500, "image input is not supported", retry=True),
    # answers of other doors: not an answer of a model
    "health": Expected(stop="error", ending="malformed", says=('{"status":"ok"}',)),
    "models": Expected(stop="error", ending="malformed", says=('{"models":[{"name":',)),
}
