"""The sentences that the loop puts into the transcript."""

from __future__ import annotations

ABORTED = "The run was aborted before this could finish."
NO_RESULT = "The tool ended without giving a result."
UNUSABLE_RESULT = "The tool gave a result that is not made of texts and images."
UNUSABLE_PART = "The tool gave something that is neither progress nor a result."
CANCELLED_ITSELF = "The tool cancelled itself before it could finish."


def unknown_tool(name: str) -> str:
    """For a call of a tool that is not there."""
    return f"There is no tool named {name}."


def not_json(name: str, problem: str) -> str:
    """For a call whose arguments could not be read."""
    return f"The call of {name} was not run: its arguments are not valid JSON ({problem})."


def cut_off(name: str) -> str:
    """For a call of an answer that met its token limit."""
    return (
        f"The call of {name} was not run: the answer met its token limit, so the arguments may be cut off. "
        "Make the call again, with complete arguments."
    )
