"""All that `mule` adds to `returns`: taking a result out of its container, joining error types, `done`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from returns.future import FutureResult
from returns.pipeline import is_successful
from returns.result import Failure, Result, Success

from mule.values.errors import MuleError

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E")
E2 = TypeVar("E2")


async def settle(container: FutureResult[T, E]) -> Result[T, E]:
    """Await a container and give its plain `Result`.

    >>> import anyio
    >>> async def main():
    ...     return await settle(FutureResult.from_value(3))
    >>> anyio.run(main)
    <Success: 3>
    """
    return (await container)._inner_value  # the one place that takes the IO off


def then(
    container: FutureResult[T, E], step: Callable[[T], FutureResult[U, E2]]
) -> FutureResult[U, E | E2]:
    """`bind` for steps that fail in another way: the error types are joined.

    Inferred alike by mypy and pyright, which `bind` with a widened annotation is not.
    """

    async def go() -> Result[U, E | E2]:
        result = await settle(container)
        if not is_successful(result):
            return Failure(result.failure())
        joined: Result[U, E | E2] = await settle(step(result.unwrap()))
        return joined

    return FutureResult(go())


class _Ready(Awaitable[T], Generic[T]):
    """An awaitable that is there already: no coroutine, no checkpoint, any number of awaits."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, T]:
        yield from ()  # makes this a generator; it never suspends
        return self._value


def ready(value: T) -> FutureResult[T, MuleError]:
    """A settled success: may be shared, awaited by many, or never awaited at all."""
    return FutureResult(_Ready(Success(value)))


def failed(error: MuleError) -> FutureResult[Any, MuleError]:
    """A settled failure: may be shared, awaited by many, or never awaited at all."""
    return FutureResult(_Ready(Failure(error)))


done: FutureResult[None, MuleError] = ready(None)
"""What a listener with nothing to say returns. Shared and settled, so it costs next to nothing."""
