"""What a request announces of the tools at hand, and how the announcement is written."""

from __future__ import annotations

from mule.loop.declare import Declarations
from mule.values.messages import Message, SystemMessage, UserMessage
from mule.values.tools import Tool, ToolReference

BELL = Tool(name="ring_bell", description="Ring the bell.", parameters={"type": "object"})
ASK: tuple[Message, ...] = (UserMessage(content="Ring it.", timestamp=1),)


def test_an_announcement_says_what_changed_and_nothing_else() -> None:
    announced = Declarations[Message](()).with_announcement(ASK, [BELL], 7)
    assert announced[1:] == ASK
    assert announced[0].to_json() == {
        "role": "system",
        "content": "",
        "toolsAdded": [BELL.to_json()],
        "timestamp": 7,
    }


def test_a_tool_that_is_gone_is_announced_as_gone() -> None:
    declared = SystemMessage(tools_added=(BELL,), timestamp=1)
    announced = Declarations[Message]((declared,)).with_announcement(ASK, [], 7)
    assert announced[0] == SystemMessage(tools_removed=(ToolReference(name="ring_bell"),), timestamp=7)
    assert "toolsAdded" not in announced[0].to_json()


def test_what_is_declared_already_is_not_announced_again() -> None:
    declared = SystemMessage(tools_added=(BELL,), timestamp=1)
    assert Declarations[Message]((declared,)).with_announcement(ASK, [BELL], 7) == ASK


def test_the_tools_of_a_pending_system_message_are_brought_up_to_date_in_it() -> None:
    pending = SystemMessage(content="Be brief.", tools_removed=(ToolReference(name="x"),), timestamp=2)
    (announced,) = Declarations[Message](()).with_announcement((pending,), [BELL], 7)
    assert announced.to_json() == {
        "role": "system",
        "content": "Be brief.",
        "toolsAdded": [BELL.to_json()],
        "timestamp": 2,
    }
