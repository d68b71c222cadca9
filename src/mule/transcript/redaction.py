"""What of a request is secret, and texts without it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

MIN_SECRET: Final = 8
"""Characters. Shorter values are no secrets (local servers take any key) and stand in ordinary words."""

_SECRET_NAME: Final = re.compile(
    r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE
)


def secrets_of(headers: Mapping[str, str | None], *more: str | None) -> tuple[str, ...]:
    """What of a request must not be shown: the values of headers that say so by name, and these."""
    values = [value for name, value in headers.items() if value and _SECRET_NAME.search(name)]
    # "Bearer <key>": the key alone is the secret, and the longer text goes first.
    parts = [value.split(" ", 1)[1] for value in values if " " in value]
    found = {text.strip() for text in (*values, *parts, *more) if text}
    return tuple(sorted((text for text in found if len(text) >= MIN_SECRET), key=len, reverse=True))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text with every secret in it replaced.

    >>> without_secrets("no such key: sk-12345678", ["sk-12345678"])
    'no such key: [redacted]'
    """
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return text
