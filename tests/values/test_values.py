"""Values are frozen, speak camelCase in JSON, keep what they do not know, and show no secret."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from mule.testing import SCRIPTED_MODEL, answer
from mule.values.base import NullList, Value, copy_json, to_jsonable
from mule.values.content import TextContent, ToolCall
from mule.values.jsontext import dump_json, load_json
from mule.values.messages import (
    AssistantMessage,
    Context,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from mule.values.model import AnthropicMessagesCompat, Model, OpenAICompletionsCompat
from mule.values.provider import ProviderRejection, ProviderStatusRecorder
from mule.values.request import ProviderResponse, SimpleStreamOptions
from mule.values.run import RunStart
from mule.values.tools import JsonSchemaSampling, MuleToolResult, Tool
from mule.values.usage import Usage, UsageCost, add_usage
from values import strategies

HELLO = UserMessage(content="Hello", timestamp=5)
MODEL_JSON: dict[str, Any] = {
    "id": "m-1",
    "name": "M",
    "api": "anthropic-messages",
    "provider": "p",
    "baseUrl": "http://127.0.0.1:0",
    "reasoning": True,
    "input": ["text"],
    "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
    "contextWindow": 200000,
    "maxTokens": 64000,
}


@pytest.mark.parametrize(
    ("value", "field"),
    [(HELLO, "content"), (SCRIPTED_MODEL, "id"), (Usage(), "input"), (answer("x"), "stop_reason")],
)
def test_a_value_cannot_be_changed(value: Value, field: str) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, field, "other")


@pytest.mark.parametrize("cls", [RunStart, MuleToolResult, SimpleStreamOptions, ProviderResponse])
def test_a_record_cannot_be_changed(cls: type[Any]) -> None:
    assert cls.__dataclass_params__.frozen
    assert not hasattr(object.__new__(cls), "__dict__")


def test_lists_inside_are_tuples() -> None:
    message = UserMessage.from_json({"role": "user", "content": [{"type": "text", "text": "Hi"}]})
    assert message.content == (TextContent(text="Hi"),)


def test_python_says_snake_case_and_json_camel_case() -> None:
    message = ToolResultMessage(tool_call_id="c", tool_name="weigh", duration_ms=3, timestamp=1)
    assert message.to_json() == {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "weigh",
        "content": [],
        "isError": False,
        "timestamp": 1,
        "durationMs": 3,
    }
    assert ToolResultMessage.from_json(message.to_json()) == message


def test_names_that_are_not_plain_camel_case_are_the_references() -> None:
    assert Usage(cache_write1h=4).to_json()["cacheWrite1h"] == 4
    assert OpenAICompletionsCompat(supports_open_ai_grammar_tools=True).to_json() == {
        "supportsOpenAIGrammarTools": True
    }


def test_a_field_that_was_not_given_is_left_out_and_a_null_stays() -> None:
    bare = {"role": "user", "content": "Hi"}
    assert UserMessage.from_json(bare).to_json() == bare
    call: dict[str, Any] = {"type": "toolCall", "id": "c", "name": "n", "arguments": {}, "namespace": None}
    assert ToolCall.from_json(call).to_json() == call
    assert "argumentsError" not in ToolCall.from_json(call).to_json()


@pytest.mark.parametrize("role", ["user", "toolResult", "system", "assistant"])
def test_a_null_content_is_an_empty_list_that_is_written_as_null(role: str) -> None:
    common = {"role": role, "content": None}
    others = {
        "toolCallId": "c",
        "toolName": "n",
        "api": "a",
        "provider": "p",
        "model": "m",
        "stopReason": "stop",
    }
    known = {
        "toolResult": ("toolCallId", "toolName"),
        "assistant": ("api", "provider", "model", "stopReason"),
    }
    value = {**common, **{name: others[name] for name in known.get(role, ())}}
    [message] = Context.from_json({"messages": [value]}).messages
    assert message.content == ()
    for same in (message, copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert same.to_json() == value
    assert message.with_(content=()).to_json()["content"] == []


def test_what_is_built_has_its_defaults_written_for_others_to_read() -> None:
    assert UserMessage(content="Hi").to_json() == {"role": "user", "content": "Hi", "timestamp": 0}
    message = AssistantMessage(api="a", provider="p", model="m", stop_reason="stop")
    assert set(message.to_json()) == {
        "role", "content", "api", "provider", "model", "usage", "stopReason", "timestamp",
    }  # fmt: skip
    assert "cost" in message.usage.to_json()


def test_the_tag_is_always_written() -> None:
    assert TextContent.from_json({"text": "Hi"}).to_json() == {"type": "text", "text": "Hi"}


def test_unknown_fields_are_kept_at_every_depth() -> None:
    value: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "text", "text": "Hi", "annotations": [{"url": None}]}],
        "api": "a",
        "provider": "p",
        "model": "m",
        "usage": {"input": 1, "cost": {"input": 0.5, "surcharge": 1}, "tier": "fast"},
        "stopReason": "stop",
        "futureField": {"a": [1, None]},
    }
    message = AssistantMessage.from_json(value)
    assert message.to_json() == value
    assert message.with_(timestamp=3).to_json() == {**value, "timestamp": 3}


def test_numbers_stay_the_numbers_they_were() -> None:
    text = b'{"input":3,"output":1.5,"cacheRead":0.0,"cost":{"total":9007199254740993}}'
    assert dump_json(Usage.from_json(load_json(text)).to_json()) == text


@given(strategies.messages)
def test_a_message_survives_json(message: Message) -> None:
    written = message.to_json()
    again = type(message).from_json(load_json(dump_json(written)))
    assert again == message
    assert again.to_json() == written


@given(strategies.messages)
def test_a_message_survives_a_pickle_and_every_copy(message: Message) -> None:
    for same in (
        pickle.loads(pickle.dumps(message)),
        copy.copy(message),
        copy.deepcopy(message),
        message.model_copy(),
        message.with_(),
    ):
        assert same == message
        assert same.to_json() == message.to_json()


@pytest.mark.parametrize(
    "make",
    [
        copy.copy,
        copy.deepcopy,
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: value.model_copy(),
        lambda value: value.model_copy(deep=True),
        lambda value: value.model_copy(update={"timestamp": 9}),
        lambda value: value.with_(timestamp=9),
    ],
    ids=["copy", "deepcopy", "pickle", "model_copy", "deep model_copy", "update", "with_"],
)
def test_what_was_computed_from_a_value_is_not_copied_along(
    make: Callable[[UserMessage], UserMessage],
) -> None:
    original = UserMessage(content="Hello", timestamp=5)
    original.memo["wire"] = "computed"
    assert make(original).memo == {}
    assert original.memo == {"wire": "computed"}


def test_what_was_computed_changes_neither_equality_nor_json() -> None:
    first, second = UserMessage(content="Hello"), UserMessage(content="Hello")
    written = first.to_json()
    first.memo["wire"] = "computed"
    assert first == second
    assert second == first
    assert first.to_json() == written
    assert "memo" not in repr(first)


def test_equal_values_are_equal_however_they_came_to_be() -> None:
    built = UserMessage(content="Hello", timestamp=5)
    assert built == UserMessage(timestamp=5, content="Hello")
    assert built == UserMessage.from_json({"timestamp": 5, "content": "Hello", "role": "user"})
    assert built == UserMessage(content="Hello").with_(timestamp=5)
    assert built != UserMessage(content="Hello", timestamp=6)
    other: Message = SystemMessage(content="Hello", timestamp=5)
    assert built != other


def test_a_changed_copy_leaves_the_original() -> None:
    changed = HELLO.with_(content="Bye")
    assert (changed.content, changed.timestamp, HELLO.content) == ("Bye", 5, "Hello")


def test_a_content_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="type"):
        UserMessage.from_json({"role": "user", "content": [{"type": "smell", "data": ""}]})


def test_compat_is_typed_by_the_api() -> None:
    compat = {"supportsTemperature": False, "later": 1}
    model: Model[Any] = Model.from_json({**MODEL_JSON, "compat": compat})
    assert isinstance(model.compat, AnthropicMessagesCompat)
    assert model.compat.supports_temperature is False
    assert model.to_json() == {**MODEL_JSON, "compat": compat}


def test_compat_of_an_api_of_a_hosts_own_is_plain_json() -> None:
    value = {**MODEL_JSON, "api": "my-api", "compat": {"anyThing": 1}}
    model: Model[Any] = Model.from_json(value)
    assert model.compat == {"anyThing": 1}
    assert model.to_json() == value


def test_a_tool_may_say_that_its_sampling_is_free() -> None:
    schema = {"type": "object"}
    free = {"name": "n", "description": "d", "parameters": schema, "constrainedSampling": False}
    assert Tool[Any].from_json(free).to_json() == free
    strict = Tool[Any].from_json(
        {**free, "constrainedSampling": {"type": "json_schema", "strict": "prefer"}}
    )
    assert strict.constrained_sampling == JsonSchemaSampling(strict="prefer")


def test_no_secret_shows() -> None:
    headers = {"authorization": "s3cret"}
    shown = [
        SimpleStreamOptions(api_key="s3cret", headers={"x": "s3cret"}, env={"KEY": "s3cret"}),
        dataclasses.replace(SimpleStreamOptions(), api_key="s3cret"),
        SCRIPTED_MODEL.with_(headers=headers),
        ProviderResponse(status=200, headers=headers),
        ProviderRejection(401, headers, "denied"),
    ]
    recorder = ProviderStatusRecorder()
    recorder.saw(200, headers)
    for value in [*shown, recorder]:
        assert "s3cret" not in f"{value!r} {value!s}"


def test_the_last_status_is_kept_of_refusals_too() -> None:
    recorder = ProviderStatusRecorder()
    rejection = ProviderRejection(429, {"retry-after": "3"}, "slow down", 3_000)
    recorder.saw_rejection(rejection)
    assert (recorder.status, recorder.rejection) == (429, rejection)
    recorder.saw(200, {})
    assert (recorder.status, recorder.rejection) == (200, None)


def test_usages_add_up_and_what_nobody_reports_stays_unreported() -> None:
    left = Usage(input=1, reasoning=2, cost=UsageCost(total=0.5))
    right = Usage(input=2, output=3, cost=UsageCost(total=1))
    total = add_usage(left, right)
    assert (total.input, total.output, total.reasoning, total.cost.total) == (3, 3, 2, 1.5)
    assert total.cache_write1h is None
    assert add_usage(Usage(), right) == right


def test_only_json_becomes_json() -> None:
    assert to_jsonable({"a": (HELLO, NullList(), 1.5)}) == {"a": [HELLO.to_json(), None, 1.5]}
    for value in (b"bytes", object(), {1}):
        with pytest.raises(TypeError, match="no JSON form"):
            to_jsonable(value)


def test_a_copy_of_json_shares_no_list_and_no_object() -> None:
    original: dict[str, Any] = {"a": [{"b": 1}]}
    copied: Any = copy_json(original)
    copied["a"][0]["b"] = 2
    assert original == {"a": [{"b": 1}]}
