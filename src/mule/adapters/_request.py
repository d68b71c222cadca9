"""One HTTP request as a value, and the parts that every API makes it of: address, headers, settings.

Pure: whether a request can be sent at all is found out here, before anything is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from mule import __version__
from mule.adapters._failing import CallFailed
from mule.values.jsontext import JsonObject, JsonValue, dump_json, load_json

USER_AGENT: Final = f"mule/{__version__}"

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_WITH_LOGIN: Final = re.compile(r"//[^/]*@")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Request:
    """A request that can be sent.

    `headers` have lower-case names; `secrets` are what must not show in any text about it.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    method: str = "POST"

    def payload(self) -> JsonValue:
        """The body, as the JSON that a hook sees."""
        return load_json(self.body)

    def with_payload(self, payload: JsonObject) -> Request:
        """The same request with another body."""
        return replace(self, body=dump_json(payload))


def merge_headers(*layers: Mapping[str, str | None] | None) -> dict[str, str]:
    """Headers by name in lower case; a later layer wins, None removes.

    Raises:
        CallFailed: HTTP cannot carry one of them.
    """
    merged: dict[str, str] = {}
    for layer in layers:
        for name, value in (layer or {}).items():
            if value is None:
                merged.pop(name.lower(), None)
            else:
                merged[name.lower()] = value.strip()
    for name, value in merged.items():
        _check_header(name, value)
    return merged


def _check_header(name: str, value: str) -> None:
    if _is_token(name) and value.isascii() and value.isprintable():
        return  # as nearly all are
    if not _is_token(name):
        problem = "its name holds characters that the name of an HTTP header cannot have"
    elif _CONTROL.search(value):
        problem = "its value holds a line break or another control character"
    elif not is_latin_1(value):
        problem = "its value holds characters beyond Latin-1, which HTTP cannot carry"
    else:
        return
    raise CallFailed("invalid_request", f"The header {name!r} cannot be sent: {problem}.", is_final=True)


@lru_cache(maxsize=1_024)  # a host may make names up
def _is_token(name: str) -> bool:
    return bool(_TOKEN.fullmatch(name))


def is_latin_1(text: str) -> bool:
    """Whether every character is one that a header can carry."""
    return text.isascii() or all(ord(character) < 256 for character in text)


def header_safe(text: str) -> str:
    """A text of any characters as a header value: itself where possible, else percent-encoded."""
    if is_latin_1(text) and not _CONTROL.search(text) and text == text.strip():
        return text
    return quote(text.encode("utf-8", "surrogatepass"))


def has_header(headers: Mapping[str, str | None] | None, *names: str) -> bool:
    """Whether one of these headers is given, and not blank. `names` in lower case."""
    return any(
        name.lower() in names and value is not None and bool(value.strip())
        for name, value in (headers or {}).items()
    )


def endpoint(base_url: str, path: str) -> str:
    """The address of `path` below a base URL; a query in the base URL stays at the end.

    Raises:
        CallFailed: the base URL is none, or not one of HTTP.
    """
    problem = _problem_of_url(base_url)
    if problem is not None:
        raise CallFailed(
            "invalid_request",
            f"The base URL of the model {problem}: {_WITH_LOGIN.sub('//[redacted]@', base_url)!r}.",
            is_final=True,
        )
    base, mark, query = base_url.strip().partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def _problem_of_url(url: str) -> str | None:
    if not url.strip():
        return "is empty (`base_url`)"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as exc:
        return f"cannot be read ({exc})"
    if parts.scheme.lower() not in ("http", "https"):
        return "must begin with http:// or https://"
    return None if parts.hostname else "names no host"


def provider_env(env: Mapping[str, str] | None, name: str) -> str | None:
    """An environment variable for one request: the request's own, else the process's; empty is unset."""
    return (env or {}).get(name) or os.environ.get(name) or None
