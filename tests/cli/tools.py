"""Tools for the tests to name on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from mule.toolkit import progress, tool
from mule.values.tools import MuleToolProgress


@tool(replay="safe")
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"21 C,\nsunny in {city}"


def plain(city: str) -> str:
    """Tell the weather of a city."""
    return f"plain {city}"


async def slow(city: str) -> AsyncIterator[MuleToolProgress | str]:
    """Tell the weather of a city, slowly."""
    yield progress("looking out of the window")
    yield f"slow {city}"


async def broken(city: str) -> str:
    """Tell the weather of a city."""
    raise LookupError(f"no weather in {city}")


async def deaf() -> None:
    """Go on for ever, whoever cancels."""
    print("tool: running", flush=True)
    try:
        await anyio.sleep_forever()
    finally:
        print("tool: cancelled", flush=True)
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()


not_a_tool = 3
