"""A tool, and a run of the loop with it on the embedded model: `python examples/weather.py`.

The same from the command line: `mule run "What's the weather in Paris?" --model local
--tool examples.weather:weather`.
"""

from __future__ import annotations

import anyio
from returns.pipeline import is_successful

from mule.cli.local import local_model
from mule.effect import MuleRunInput, UserMessage, run, settle
from mule.toolkit import tool

WEATHER = {"Paris": "21 C, sunny", "Oslo": "-3 C, snow", "Nairobi": "25 C, clear sky"}


@tool(replay="safe")
async def weather(city: str) -> str:
    """Tell the current weather of a city.

    Args:
        city: The name of the city, such as Paris.
    """
    return WEATHER.get(city, "14 C, windy")


async def main() -> None:
    """Ask, and print every message of the run."""
    async with local_model() as local:
        question = UserMessage(content="What's the weather in Oslo?")
        result = await settle(
            run(MuleRunInput(model=local.model, stream=local.stream, prompts=(question,), tools=(weather,)))
        )
    if is_successful(result):
        for message in result.unwrap().new_messages:
            print(message.to_json())
    else:
        print(result.failure())


if __name__ == "__main__":
    anyio.run(main)
