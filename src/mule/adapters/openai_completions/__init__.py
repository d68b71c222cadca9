"""The API `openai-completions`: OpenAI's chat completions, and what many others serve under that name."""

from mule.adapters.openai_completions.options import OpenAICompletionsOptions
from mule.adapters.openai_completions.stream import stream

Options = OpenAICompletionsOptions

__all__ = ["OpenAICompletionsOptions", "Options", "stream"]
