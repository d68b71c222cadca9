"""What a provider said on the HTTP level: the last status seen, and answers that refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from mule.values.signal import AbortSignal

ProviderValue: TypeAlias = "None | bool | int | float | str | bytes | AbortSignal | Sequence[ProviderValue] | Mapping[str, ProviderValue]"  # noqa: E501  # one string, or pyright reads none
"""One value of such data."""
ProviderData: TypeAlias = "Mapping[str, ProviderValue]"
"""Plain data from or for a provider: JSON, and what stands beside it in memory."""


@dataclass(frozen=True, slots=True)
class ProviderRejection:
    """An HTTP answer that refused the request. `retry_after_ms` is what it asked to wait."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body_text: str
    retry_after_ms: float | None = None


class ProviderStatusRecorder:
    """Holds the last HTTP status and headers that a request saw, those of refusals too.

    `rejection` is the last refusal; None after a good answer. One recorder may serve many requests
    one after the other.
    """

    __slots__ = ("headers", "rejection", "status")

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Mapping[str, str] | None = None
        self.rejection: ProviderRejection | None = None

    def saw(self, status: int, headers: Mapping[str, str]) -> None:
        """Note an answer that is going to be read."""
        self.status, self.headers, self.rejection = status, headers, None

    def saw_rejection(self, rejection: ProviderRejection) -> None:
        """Note an answer that refused."""
        self.status, self.headers = rejection.status, rejection.headers
        self.rejection = rejection

    def __repr__(self) -> str:
        return f"<ProviderStatusRecorder status={self.status}>"
