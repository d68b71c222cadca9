"""Did a request overflow the model's context window?

Providers have no common code for it, so their texts are read; a few say nothing and are told by the
usage. The texts are those that providers are known to send.
"""

from __future__ import annotations

import re
from typing import Final

from mule.values.base import Number
from mule.values.messages import AssistantMessage

_OVERFLOW: Final = re.compile(
    "|".join(
        (
            r"prompt (?:is )?too long",  # Anthropic, z.ai, Ollama
            r"request_too_large",  # Anthropic, by bytes
            r"input is too long for requested model",  # Bedrock
            r"exceeds the context window",  # OpenAI
            r"exceeds (?:the )?(?:model'?s )?maximum context length"  # proxies in front of it
            r"(?: of [0-9,]+ tokens?|\s*\([0-9,]+\))",
            r"maximum context length is [0-9]+ tokens",  # OpenRouter
            r"exceeds (?:the )?maximum allowed input length of [0-9,]+ tokens?",
            r"context[_ ]length[_ ]exceeded",
            r"input token count.*exceeds the maximum",  # Google
            r"maximum prompt length is [0-9]+",  # xAI
            r"reduce the length of the messages",  # Groq
            r"input \([0-9]+ tokens\) is longer than the model'?s context length"  # Together
            r" \([0-9]+ tokens\)",
            r"exceeds the limit of [0-9]+",  # GitHub Copilot
            r"exceeds the available context size",  # llama.cpp
            r"greater than the context length",  # LM Studio
            r"context window exceeds limit",  # MiniMax
            r"exceeded model token limit",  # Kimi
            r"too large for model with [0-9]+ maximum context length",  # Mistral
            r"prompt has [0-9,]+ tokens?, but the configured context size is [0-9,]+ tokens?",
            r"model_context_window_exceeded",
            r"range of input length should be",  # DashScope
            r"too many tokens",
            r"token limit exceeded",
        )
    ),
    re.IGNORECASE,
)
_SOMETHING_ELSE: Final = re.compile(
    # Throttles speak of tokens too.
    r"^(?:throttling error|service unavailable):|rate limit|too many requests",
    re.IGNORECASE,
)
_BODYLESS: Final = re.compile(r"4(?:00|13)\s*(?:status code)?\s*\(no body\)", re.IGNORECASE)
"""Cerebras refuses a prompt that is too long without a word."""

_FULL: Final = 0.99
"""The part of a window that counts as full, where a provider cuts the prompt to fit and answers nothing."""


def is_overflow_text(text: str, provider: str = "") -> bool:
    """Whether a provider's error text says that the context was too long."""
    if _SOMETHING_ELSE.search(text):
        return False
    return bool(_OVERFLOW.search(text)) or (provider == "cerebras" and bool(_BODYLESS.match(text)))


def is_context_overflow(message: AssistantMessage, context_window: Number | None = None) -> bool:
    """Whether an answer failed, or came out empty, because the context was too long.

    Args:
        context_window: tokens; where given, two silent kinds are seen too: an answer to more input than
            the window holds, and an empty one that ran into its limit with the window full.
    """
    if message.stop_reason == "error":
        return bool(message.error_message) and is_overflow_text(
            message.error_message or "", message.provider
        )
    if not context_window:
        return False
    given = message.usage.input + message.usage.cache_read
    if message.stop_reason == "stop":
        return given > context_window
    return message.stop_reason == "length" and not message.usage.output and given >= context_window * _FULL


def is_recoverable_length(message: AssistantMessage, desired_max_output: Number) -> bool:
    """Whether an answer was cut before the limit that its caller wanted, so that more room may help.

    `desired_max_output` in tokens, as it was before it was fitted to the window.
    """
    return message.stop_reason == "length" and 0 <= message.usage.output < desired_max_output
