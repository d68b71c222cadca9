"""What does a failed run mean for the person at the terminal, and which exit status does it have?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mule.values.errors import Ending, InvalidInput, ListenerFailed, ModelFailed, MuleError, NotSupported

FAILED: Final = 1
USAGE: Final = 2
"""Nothing was run: the command was given wrongly, or something is not installed."""
READER_GONE: Final = 141
"""What a shell sees of a program that was ended by SIGPIPE: `mule run ... | head` is no failure."""

_MAX_LINE: Final = 600

_ADVICE: Final[Mapping[Ending, str]] = {
    "authentication": "set OPENAI_API_KEY, or MULE_API_KEY, to a key that this server takes",
    "quota": "the account behind the key has used up what it may use",
    "rate_limited": "wait a little, then ask again",
    "overloaded": "wait a little, then ask again",
    "server_error": "the server had trouble of its own; ask again",
    "stalled": "the server went silent; ask again",
    "context_overflow": "ask with less text, or with a model that takes more",
    "invalid_request": "check the model's name and the options",
    "content_filtered": "the provider will not answer this; ask in another way",
    "refused": "the model will not answer this; ask in another way",
    "malformed": "check that --model names an OpenAI-compatible API; its address often ends in /v1",
    "truncated": "the answer broke off; ask again",
}


def exit_status(error: MuleError) -> int:
    """The exit status of a command that ended in this error."""
    match error.reason:
        case InvalidInput() | NotSupported():
            return USAGE
        case ListenerFailed() if isinstance(error.__cause__, BrokenPipeError):
            return READER_GONE
        case _:
            return FAILED


def explain(error: MuleError) -> str:
    """The error and what to do about it, in one line without control characters."""
    text = " ".join(_explained(error).split())
    shown = "".join(character for character in text if character.isprintable())
    return shown if len(shown) <= _MAX_LINE else f"{shown[:_MAX_LINE]}..."


def _explained(error: MuleError) -> str:
    match error.reason:
        case InvalidInput(field=field, problem=problem):
            return f"{field}: {problem}"
        case NotSupported(what=what, install=None):
            return what
        case NotSupported(what=what, install=install):
            return f"{what}; install it with: {install}"
        case ModelFailed() as failed:
            return _model_failed(failed)
        case _:
            cause = error.__cause__
            return str(error) if cause is None else f"{error}: {cause}"


def _model_failed(failed: ModelFailed) -> str:
    text = (failed.message.error_message or f"the model call ended ({failed.ending})").rstrip(". ")
    advice = None if failed.message.provider == "local" else _ADVICE.get(failed.ending)
    if advice is not None and failed.retry_after_ms is not None:
        advice = f"wait {failed.retry_after_ms / 1000:g} s, then ask again"
    return text if advice is None else f"{text}; {advice}"
