"""The sentences that an agent's hooks put into the transcript when they give none themselves."""

from __future__ import annotations

BLOCKED = "This tool call was blocked."
