"""Our sentences that reach a model, or stand in a transcript, without anyone having said them.

`{name}` stands for the name of a section of the system prompt.
"""

from __future__ import annotations

from typing import Final

UNANSWERED_TOOL_CALL: Final = "This tool call has no result: it was interrupted before it could finish."
"""Result of a call that the transcript leaves open."""

EMPTY_TOOL_OUTPUT: Final = "(The tool gave no output.)"
TOOL_RESULT_IS_AN_IMAGE: Final = "(The result is the image attached below.)"
TOOL_RESULT_IMAGE_FOLLOWS: Final = "Images that a tool gave as its result:"
TOOL_RESULT_IMAGE_FOLLOWS_GOOGLE: Final = "Image that a tool gave as its result:"

USER_IMAGE_LEFT_OUT: Final = "(An image was here; this model takes text only.)"
TOOL_IMAGE_LEFT_OUT: Final = "(The tool gave an image here; this model takes text only.)"

BRIDGE_AFTER_TOOL_RESULTS: Final = "Noted: the tool results are in."
"""What the assistant is made to say where an endpoint wants a turn between tool results and a user."""

DEFAULT_CODEX_INSTRUCTIONS: Final = "Help the user with what they ask."
TOOL_ERROR_PREFIX_MISTRAL: Final = "[The tool failed] "
RESERVED_TOOL_NAME: Final = "__mule_reserved_tool__"
RESERVED_TOOL_DESCRIPTION: Final = "Holds a place; there is nothing behind it, so it must not be called."

SECTION_UPDATED: Final = 'The section "{name}" of the system prompt now reads:'
SECTION_REMOVED: Final = 'The section "{name}" of the system prompt no longer applies.'

MESSAGE_ID_PREFIX: Final = "msg_mule_"
CODEX_ORIGINATOR_HEADER: Final = "mule"
REDACTED_THINKING: Final = "[This reasoning was withheld]"
