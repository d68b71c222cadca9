"""What a host gives so that runs can be traced: a context that opens spans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypeVar

AttributeValue: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[float] | Sequence[bool]
"""What an attribute of a span may be; a sequence holds one kind of item."""
SpanAttributes: TypeAlias = Mapping[str, AttributeValue | None]
"""Attributes of a span by name; None leaves one out."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOptions:
    """The name and first attributes of a span."""

    name: str
    attributes: SpanAttributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStatus:
    """How a span ended; `error_name` and `error_message` where it ended in an error."""

    status: Literal["ok", "error"]
    error_name: str | None = None
    error_message: str | None = None


class TelemetryContext(Protocol):
    """A parent for spans."""

    def start_span(
        self, options: SpanOptions, callback: Callable[[TelemetrySpan], Awaitable[T]], /
    ) -> Awaitable[T]:
        """Run `callback` inside a new span; the span ends when it does."""
        ...


class TelemetrySpan(TelemetryContext, Protocol):
    """A span that is open."""

    def add_event(self, name: str, attributes: SpanAttributes | None = None, /) -> None:
        """Note that something happened in the span."""
        ...

    def set_attributes(self, attributes: SpanAttributes, /) -> None:
        """Add to the span's attributes, or replace them."""
        ...

    def set_status(self, status: SpanStatus, /) -> None:
        """Say how the span ended."""
        ...
