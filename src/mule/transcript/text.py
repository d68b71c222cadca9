"""What text does a message hold, and how is a system message worded for a model?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mule.transcript.wording import SECTION_REMOVED, SECTION_UPDATED
from mule.values.content import ImageContent, TextContent, ThinkingContent, ToolCall

if TYPE_CHECKING:
    from mule.values.messages import SystemMessage

Content = TextContent | ImageContent | ThinkingContent | ToolCall


def content_text(content: str | Sequence[Content], separator: str = "\n") -> str:
    """All text of a message's content, joined; images, thinking and tool calls are left out.

    >>> content_text((TextContent(text="a"), TextContent(text="b")))
    'a\\nb'
    """
    if isinstance(content, str):
        return content
    return separator.join(block.text for block in content if isinstance(block, TextContent))


def system_message_text(message: SystemMessage) -> str:
    """A system message as a whole prompt: its content, then its sections, a blank line between them."""
    parts = [content_text(message.content)]
    if message.sections:
        parts += [text for text in message.sections.values() if text is not None]
    return "\n\n".join(part for part in parts if part)


def render_system_update(message: SystemMessage) -> str:
    """A later system message, for APIs that take one in mid-conversation.

    A changed section is named, so that the model can tell what in the leading prompt it is about.
    """
    text = content_text(message.content)
    parts = [text] if text else []
    for name, value in (message.sections or {}).items():
        if value is None:
            parts.append(SECTION_REMOVED.replace("{name}", name))
        else:
            parts.append(f"{SECTION_UPDATED.replace('{name}', name)}\n\n{value}")
    return "\n\n".join(parts)
