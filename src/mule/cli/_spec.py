"""Which model does a `--model` ask for, and which functions does a `--tool`?"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from mule.ports import MuleTool
from mule.toolkit import tool
from mule.values.errors import InvalidInput, MuleError
from mule.values.model import KnownApi, Model, OpenAICompletionsCompat

LOCAL: Final = "local"
SPOKEN: Final = "openai-completions"
_ENDPOINT: Final = re.compile(r"(?P<id>.+)@(?P<url>https?://[^@\s]+)")
_PLACEHOLDER_KEY: Final = "none"
"""Sent where no key is set: servers on one's own machine ask for none, and take any."""


def parse_model(spec: str, *, reasoning: bool = False) -> Model[Any] | None:
    """The model of `openai-completions:MODEL@BASE_URL`; None for `local`.

    Raises:
        MuleError: `InvalidInput`, with what can be written.
    """
    if spec == LOCAL:
        return None
    api, _, rest = spec.partition(":")
    if api != SPOKEN:
        raise MuleError(InvalidInput("--model", _not_spoken(api)))
    endpoint = _ENDPOINT.fullmatch(rest)
    if endpoint is None:
        raise MuleError(InvalidInput("--model", f"{spec!r} is not {SPOKEN}:MODEL@BASE_URL"))
    return _endpoint_model(endpoint["id"], endpoint["url"], reasoning)


def _not_spoken(api: str) -> str:
    spoken = f"there are {LOCAL} and {SPOKEN}:MODEL@BASE_URL"
    if api in get_args(KnownApi):
        return f"the command does not speak {api} (mule.effect does); {spoken}"
    return f"there is no {api!r}; {spoken}"


def _endpoint_model(id: str, url: str, reasoning: bool) -> Model[Any]:
    host = urlsplit(url).hostname or ""
    ours = host == "api.openai.com"
    # What only OpenAI itself is sure to understand is kept from everybody else.
    plain = OpenAICompletionsCompat(
        supports_store=False, supports_developer_role=False, max_tokens_field="max_tokens"
    )
    return Model(
        id=id,
        name=id,
        api=SPOKEN,
        provider="openai" if ours else host,
        base_url=url.rstrip("/"),
        reasoning=reasoning,
        compat=None if ours else plain,
    )


def api_key(env: Mapping[str, str] = os.environ) -> str:
    """The key for an endpoint, from the environment only."""
    return env.get("MULE_API_KEY") or env.get("OPENAI_API_KEY") or _PLACEHOLDER_KEY


def load_tool(spec: str) -> MuleTool:
    """The tool, or the typed function, of `module:name`. Modules in the current directory can be found.

    Raises:
        MuleError: `InvalidInput`: it cannot be imported, or is neither.
    """
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise MuleError(InvalidInput("--tool", f"{spec!r} is not module:name"))
    if sys.path[:1] != [""]:
        sys.path.insert(0, "")
    try:
        found: object = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
        return found if isinstance(found, MuleTool) else _as_tool(found)
    except Exception as exc:
        # Whatever a user's module raises while it is imported is about that module.
        problem = f"{spec} cannot be loaded: {type(exc).__name__}: {exc}"
        raise MuleError(InvalidInput("--tool", problem)) from exc


def _as_tool(found: object) -> MuleTool:
    if not callable(found):
        raise TypeError(f"it is neither a tool nor a function, but of type {type(found).__name__}")
    return tool(found)
