"""Runs a loop case: `mule.agent` over a scripted model, with tools, hooks and actions built from data.

The words (`mode`, `wait`, `polls`, …) are those of the golden cases' own description of their form.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

from golden.compare import MISSING, Case, Difference, compare, rules_of
from mule.agent import (
    AbortController,
    AbortSignal,
    AfterToolCallContext,
    AfterToolCallResult,
    AgentContext,
    AgentEvent,
    AgentLoopConfig,
    AgentLoopTurnUpdate,
    AgentTool,
    AgentToolResult,
    AgentToolUpdateCallback,
    AgentTurnContext,
    AgentTurnDecision,
    BeforeToolCallContext,
    BeforeToolCallResult,
    PrepareRequestContext,
    RetryCallbacks,
    retry_assistant_call,
    run_agent_loop,
    run_agent_loop_continue,
    run_tool_call,
)
from mule.decoding import decode_message
from mule.effect import (
    AssistantMessage,
    AssistantMessageEventStream,
    Context,
    ImageContent,
    Message,
    Model,
    MuleError,
    RetryPolicy,
    SimpleStreamOptions,
    TextContent,
    ToolCall,
    Usage,
)
from mule.testing import ScriptedAnswer, ScriptedModel
from mule.transcript.tooling import create_initial_system_message
from mule.values.base import to_jsonable

Json: TypeAlias = "dict[str, Any]"
AnyMessage: TypeAlias = "Message | Json"

_DEFAULT_MODEL = {
    "id": "scripted-1",
    "name": "Scripted One",
    "api": "scripted",
    "provider": "scripted",
    "baseUrl": "http://127.0.0.1:0",
    "reasoning": True,
    "input": ["text", "image"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 100000,
    "maxTokens": 8000,
}
_KNOWN_ROLES = ("system", "user", "assistant", "toolResult")


async def run_case(case: Case) -> list[Difference]:
    """See `golden.compare`."""
    run = _LoopCase(case)
    async with anyio.create_task_group() as background:
        run.background = background
        got = await run.perform()
        background.cancel_scope.cancel()
    expected = {key: case.get(key, MISSING) for key in ("events", "calls", "requests", "result", "error")}
    order = case.get("order", {})
    differences: list[Difference] = []
    if order.get("events") == "parallel":
        differences += _order_problems(got, order)
        expected, got = _in_call_order(expected), _in_call_order(got)
    differences += compare(expected, got, rules_of(case))
    unused = len(case["model_script"]) - run.answered
    if unused and "error" not in case and not case["input"].get("actions"):
        differences.append(Difference("model_script", note=f"{unused} answers were not asked for"))
    return differences


class _Thrown(Exception):
    """What a script throws."""


class _LoopCase:
    """One case on its way."""

    background: TaskGroup

    def __init__(self, case: Case) -> None:
        self.case = case
        self.input: Json = case["input"]
        self.config: Json = self.input.get("config", {})
        self.events: list[Json] = []
        self.calls: list[Json] = []
        self.requests: list[Json] = []
        self.answered = 0
        self.controller = AbortController()
        self.gates: dict[str, anyio.Event] = {}
        self.fired: set[int] = set()
        self.queues: dict[str, list[Json]] = {}
        self.asked: dict[str, int] = {}
        self.executed: dict[str, int] = {}
        self.model = ScriptedModel([ScriptedAnswer.from_json(entry) for entry in case["model_script"]])

    async def perform(self) -> Json:
        """Run the case and give its outcome under the case's own keys."""
        outcome: Json = {}
        try:
            await self._fire({"start": True})
            outcome["result"] = await self._entry()
        except MuleError as error:
            cause = error.__cause__
            outcome["error"] = {"message": str(cause if cause is not None else error)}
        return {"events": self.events, "calls": self.calls, "requests": self.requests, **outcome}

    async def _entry(self) -> object:
        entry = self.input.get("entry", "run")
        signal = self.controller.signal
        if entry == "retry":
            return to_jsonable(await self._retry(self._produce, self.input.get("policy")))
        context = self._context()
        config = self._loop_config()
        if entry == "runToolCall":
            outcome = await run_tool_call(
                ToolCall.from_json(self.input["toolCall"]),
                assistant_message=AssistantMessage.from_json(self.input["assistantMessage"]),
                context=context,
                config=config,
                signal=signal,
                on_update=lambda partial: self._note(
                    {"hook": "onUpdate", "partialResult": _result_json(partial)}
                ),
            )
            return {
                "toolCall": outcome.tool_call.to_json(),
                "result": _result_json(outcome.result),
                "isError": outcome.is_error,
            }
        if entry == "continue":
            new = await run_agent_loop_continue(context, config, self._listen, signal, self._stream)
        else:
            prompts = _messages(self.input["prompts"])
            new = await run_agent_loop(prompts, context, config, self._listen, signal, self._stream)
        return [to_jsonable(message) for message in new]

    # -- what is given -----------------------------------------------------------------------------

    def _context(self) -> AgentContext[AnyMessage]:
        given = self.input["context"]
        messages = _messages(given.get("messages", []))
        tools = [self._tool(tool) for tool in given.get("tools", [])]
        prompt = self.input.get("systemPrompt")
        if prompt is not None and not (messages and _role(messages[0]) == "system"):
            leading = create_initial_system_message(prompt, [tool.declaration() for tool in tools])
            messages = [leading, *messages] if leading is not None else messages
        return AgentContext(messages=messages, tools=tools)

    def _loop_config(self) -> AgentLoopConfig[AnyMessage]:
        config = self.config
        for name in ("steering", "followUps"):
            self.queues[name] = list(config.get(name, {}).get("queue", []))

        def hook(key: str, function: Any) -> Any:
            return function if key in config else None

        return AgentLoopConfig(
            model=Model.from_json(config.get("model", _DEFAULT_MODEL)),
            reasoning=config.get("reasoning", "off"),
            options=SimpleStreamOptions(api_key=config.get("apiKey")),
            tool_execution=config.get("toolExecution", "parallel"),
            convert_to_llm=hook("convertToLlm", self._convert),
            transform_context=hook("transformContext", self._transform),
            get_api_key=hook("getApiKey", self._api_key),
            get_steering_messages=hook("steering", lambda: self._poll("getSteeringMessages", "steering")),
            get_follow_up_messages=hook(
                "followUps", lambda: self._poll("getFollowUpMessages", "followUps")
            ),
            prepare_next_turn=hook("prepareNextTurn", self._prepare_next_turn),
            prepare_request=hook("prepareRequest", self._prepare_request),
            finish_turn=hook("finishTurn", self._finish_turn),
            before_tool_call=hook("beforeToolCall", self._before),
            after_tool_call=hook("afterToolCall", self._after),
        )

    def _nth(self, name: str) -> Any:
        """The entry of a list in the config for this call of the hook; None past the end."""
        index = self.asked.get(name, 0)
        self.asked[name] = index + 1
        entries = self.config[name]
        return entries[index] if index < len(entries) else None

    # -- what is recorded, and what it sets off ---------------------------------------------------------

    def _note(self, entry: Json) -> None:
        self.calls.append({**entry, "at": len(self.events)})

    async def _record(self, entry: Json) -> None:
        self._note(entry)
        await self._fire(entry)

    async def _listen(self, event: AgentEvent[AnyMessage]) -> None:
        recorded = _event_json(event)
        self.events.append(recorded)
        await self._fire(recorded)

    async def _fire(self, happened: Json) -> None:
        for index, action in enumerate(self.input.get("actions", [])):
            if index not in self.fired and self._is_trigger(action["on"], happened, index):
                self.fired.add(index)
                await self._do(action)

    def _is_trigger(self, on: Json, happened: Json, index: int) -> bool:
        if "start" in on:
            return "start" in happened
        kind = "event" if "event" in on else "hook"
        field = "type" if kind == "event" else "hook"
        if happened.get(field) != on[kind] or (kind == "hook") != ("hook" in happened):
            return False
        if "toolCallId" in on and happened.get("toolCallId") != on["toolCallId"]:
            return False
        if "role" in on and happened.get("message", {}).get("role") != on["role"]:
            return False
        key = f"action {index}"
        self.asked[key] = self.asked.get(key, 0) + 1
        return bool(self.asked[key] == on.get("nth", 1))

    async def _do(self, action: Json) -> None:
        if action.get("abort"):
            if "afterMs" in action:
                self.background.start_soon(self._abort_later, action["afterMs"])
            else:
                self.controller.abort()
        for gate in _list(action.get("open")):
            self._gate(gate).set()
        self.queues.setdefault("steering", []).extend(action.get("steer", []))
        self.queues.setdefault("followUps", []).extend(action.get("followUp", []))
        await self._wait(action.get("wait"))
        if "throw" in action:
            raise _Thrown(action["throw"])

    async def _abort_later(self, delay_ms: float) -> None:
        await anyio.sleep(delay_ms / 1000)
        self.controller.abort()

    def _gate(self, name: str) -> anyio.Event:
        return self.gates.setdefault(name, anyio.Event())

    async def _wait(self, gates: Any) -> None:
        for gate in _list(gates):
            await self._gate(gate).wait()

    # -- hooks -----------------------------------------------------------------------------------------

    async def _poll(self, hook: str, name: str) -> list[AnyMessage]:
        rule = self.config[name]
        if "polls" in rule:
            index = self.asked.get(name, 0)
            self.asked[name] = index + 1
            taken = rule["polls"][index] if index < len(rule["polls"]) else []
        else:
            queue = self.queues[name]
            count = 1 if rule["mode"] == "one-at-a-time" else len(queue)
            taken, queue[:count] = queue[:count], []
        await self._record({"hook": hook, "returned": len(taken)})
        return _messages(taken)

    async def _api_key(self, provider: str) -> str | None:
        await self._record({"hook": "getApiKey", "provider": provider})
        key: str | None = self._nth("getApiKey")
        return key

    async def _transform(
        self, messages: Sequence[AnyMessage], _signal: AbortSignal | None
    ) -> list[AnyMessage]:
        await self._record({"hook": "transformContext", "roles": [_role(m) for m in messages]})
        rule = self.config["transformContext"]
        kept = [m for m in messages if _role(m) not in rule.get("dropRoles", [])]
        if "keepLast" in rule:
            kept = kept[max(0, len(kept) - rule["keepLast"]) :]
        return [*_messages(rule.get("prepend", [])), *kept, *_messages(rule.get("append", []))]

    async def _convert(self, messages: Sequence[AnyMessage]) -> list[Message]:
        await self._record({"hook": "convertToLlm", "roles": [_role(m) for m in messages]})
        roles = self.config["convertToLlm"].get("roles", {})
        converted: list[Message] = []
        for message in messages:
            other = roles.get(_role(message))
            if other not in (None, "drop"):
                whole = to_jsonable(message)
                assert isinstance(whole, dict)
                converted.append(decode_message({"role": other, "content": whole["content"]}).unwrap())
            elif other is None and not isinstance(message, dict):
                converted.append(message)
        return converted

    async def _finish_turn(
        self, turn: AgentTurnContext[AnyMessage], _signal: AbortSignal | None
    ) -> AgentTurnDecision | None:
        await self._record({"hook": "finishTurn", **_turn_counts(turn)})
        decision = self._nth("finishTurn")
        return AgentTurnDecision(decision["action"]) if decision else None

    async def _prepare_next_turn(
        self, turn: AgentTurnContext[AnyMessage]
    ) -> AgentLoopTurnUpdate[AnyMessage] | None:
        await self._record({"hook": "prepareNextTurn", **_turn_counts(turn)})
        return self._update(self._nth("prepareNextTurn"), turn.context)

    async def _prepare_request(
        self, request: PrepareRequestContext[AnyMessage], _signal: AbortSignal | None
    ) -> AgentLoopTurnUpdate[AnyMessage] | None:
        await self._record(
            {
                "hook": "prepareRequest",
                "model": request.model.id,
                "thinkingLevel": request.thinking_level,
                "messages": len(request.context.messages),
            }
        )
        return self._update(self._nth("prepareRequest"), request.context)

    def _update(
        self, entry: Json | None, context: AgentContext[AnyMessage]
    ) -> AgentLoopTurnUpdate[AnyMessage] | None:
        if not entry:
            return None
        changed = None
        if "context" in entry:
            given = entry["context"]
            tools = given.get("tools")
            changed = AgentContext(
                messages=_messages(given["messages"]) if "messages" in given else context.messages,
                tools=[self._tool(tool) for tool in tools] if tools is not None else context.tools,
            )
        return AgentLoopTurnUpdate(
            context=changed,
            model=Model.from_json(entry["model"]) if "model" in entry else None,
            thinking_level=entry.get("thinkingLevel"),
            messages=_messages(entry.get("messages", [])),
        )

    async def _before(
        self, context: BeforeToolCallContext[AnyMessage], _signal: AbortSignal | None
    ) -> BeforeToolCallResult | None:
        await self._record({"hook": "beforeToolCall", **_call_json(context)})
        rule = await self._rule("beforeToolCall", context.tool_call, context.args)
        return BeforeToolCallResult(**rule) if rule is not None else None

    async def _after(
        self, context: AfterToolCallContext[AnyMessage], _signal: AbortSignal | None
    ) -> AfterToolCallResult | None:
        await self._record(
            {
                "hook": "afterToolCall",
                **_call_json(context),
                "result": _result_json(context.result),
                "isError": context.is_error,
            }
        )
        rule = await self._rule("afterToolCall", context.tool_call, context.args)
        return AfterToolCallResult(**_result_fields(rule)) if rule is not None else None

    async def _rule(self, name: str, call: ToolCall, args: Any) -> Json | None:
        for rule in self.config[name]:
            if rule.get("tool", call.name) != call.name or rule.get("toolCallId", call.id) != call.id:
                continue
            await self._wait(rule.get("wait"))
            args.update(rule.get("setArgs", {}))
            if "throw" in rule:
                raise _Thrown(rule["throw"])
            returned: Json | None = rule.get("return")
            return returned
        return None

    # -- tools -----------------------------------------------------------------------------------------

    def _tool(self, given: Json) -> AgentTool[Any, Any]:
        async def execute(
            call_id: str, params: Any, signal: AbortSignal | None, on_update: AgentToolUpdateCallback
        ) -> AgentToolResult[Any]:
            recorded = json.loads(json.dumps(params))
            await self._record(
                {"hook": "execute", "tool": given["name"], "toolCallId": call_id, "params": recorded}
            )
            return await self._behave(self._behaviour(given), params, signal, on_update)

        shim = given.get("prepareArguments")
        return AgentTool(
            name=given["name"],
            description=given["description"],
            parameters=given["parameters"],
            execute=execute,
            execution_mode=given.get("executionMode"),
            prepare_arguments=_shim(shim) if shim else None,
        )

    def _behaviour(self, given: Json) -> Json:
        script: Json = given["script"]
        if "byCall" not in script:
            return script
        index = self.executed.get(given["name"], 0)
        self.executed[given["name"]] = index + 1
        behaviours = script["byCall"]
        chosen: Json = behaviours[min(index, len(behaviours) - 1)]
        return chosen

    async def _behave(
        self, script: Json, params: Any, signal: AbortSignal | None, on_update: AgentToolUpdateCallback
    ) -> AgentToolResult[Any]:
        await self._wait(script.get("wait"))
        for update in script.get("updates", []):
            on_update(AgentToolResult(**_result_fields(update)))
        for gate in _list(script.get("open")):
            self._gate(gate).set()
        await self._wait(script.get("thenWait"))
        if "lateUpdates" in script:
            self.background.start_soon(self._update_late, script["lateUpdates"], on_update)
        if script["mode"] == "hang":
            assert signal is not None
            await signal.wait()
            script = script["then"]
        if script["mode"] == "throw":
            raise _Thrown(script["message"])
        if script["mode"] == "echo":
            return AgentToolResult(content=[TextContent(text=script.get("text", "ok"))], details=params)
        return AgentToolResult(**_result_fields(script))

    async def _update_late(self, late: Json, on_update: AgentToolUpdateCallback) -> None:
        await self._wait(late["gate"])
        for update in late["updates"]:
            on_update(AgentToolResult(**_result_fields(update)))

    # -- the model -------------------------------------------------------------------------------------

    async def _stream(
        self, model: Model[Any], context: Context, options: SimpleStreamOptions
    ) -> AssistantMessageEventStream:
        policy = self.config.get("retry")
        if policy is None:
            return await self._call(model, context, options)

        async def produce() -> AssistantMessage:
            stream = await self._call(model, context, options)
            async for _ in stream:
                pass
            return await stream.result()

        message = await self._retry(produce, policy["policy"])
        return ScriptedModel([ScriptedAnswer(message, events=False)])(model, context, SimpleStreamOptions())

    async def _call(
        self, model: Model[Any], context: Context, options: SimpleStreamOptions
    ) -> AssistantMessageEventStream:
        if self.input.get("recordModelCalls"):
            await self._record({"hook": "model"})
        request: Json = {"model": model.id, "messages": [to_jsonable(m) for m in context.messages]}
        if options.reasoning is not None:
            request["reasoning"] = options.reasoning
        if options.api_key:
            request["apiKey"] = options.api_key
        self.requests.append(request)
        self.answered += 1
        return self.model(model, context, options)

    async def _produce(self) -> AssistantMessage:
        await self._record({"hook": "produce"})
        self.answered += 1
        return AssistantMessage.from_json(self.case["model_script"][self.answered - 1])

    async def _retry(
        self, produce: Callable[[], Awaitable[AssistantMessage]], policy: Json | None
    ) -> AssistantMessage:
        async def scheduled(attempt: int, max_attempts: int, delay_ms: float, error: str) -> None:
            entry = {"attempt": attempt, "maxAttempts": max_attempts, "delayMs": delay_ms}
            await self._record({"hook": "onRetryScheduled", **entry, "errorMessage": error})

        async def started() -> None:
            await self._record({"hook": "onRetryAttemptStart"})

        async def finished(success: bool, attempt: int, error: str | None) -> None:
            entry = {"success": success, "attempt": attempt, "finalError": error}
            await self._record({"hook": "onRetryFinished", **entry})

        ours = None
        if policy is not None:
            ours = RetryPolicy(
                enabled=policy["enabled"],
                max_retries=policy["maxRetries"],
                base_delay_ms=policy["baseDelayMs"],
                max_agent_delay_ms=policy.get("maxAgentDelayMs"),
            )
        callbacks = RetryCallbacks(
            on_retry_scheduled=scheduled, on_retry_attempt_start=started, on_retry_finished=finished
        )
        return await retry_assistant_call(produce, ours, self.controller.signal, callbacks)


# -- from data, and to data ----------------------------------------------------------------------------


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _messages(given: Sequence[Json]) -> list[AnyMessage]:
    return [decode_message(m).unwrap() if m["role"] in _KNOWN_ROLES else m for m in given]


def _role(message: AnyMessage) -> str:
    return message["role"] if isinstance(message, dict) else message.role


def _content(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    kinds: dict[str, type[TextContent | ImageContent]] = {"text": TextContent, "image": ImageContent}
    return [kinds[block["type"]].from_json(block) for block in given]


def _result_fields(given: Json) -> Json:
    names = {"structuredContent": "structured_content", "isError": "is_error"}
    keys = ("content", "details", "structuredContent", "usage", "isError", "terminate")
    fields = {names.get(key, key): given[key] for key in keys if key in given}
    fields["content"] = _content(fields.get("content"))
    if fields.get("usage") is not None:
        fields["usage"] = Usage.from_json(fields["usage"])
    return fields


def _result_json(result: AgentToolResult[Any]) -> Json:
    fields = {
        "content": result.content,
        "details": result.details,
        "structuredContent": result.structured_content,
        "usage": result.usage,
        "isError": result.is_error,
        "terminate": result.terminate,
    }
    return {key: to_jsonable(value) for key, value in fields.items() if value is not None}


def _shim(rule: Json) -> Callable[[Any], Any]:
    def shim(args: Any) -> Any:
        match rule["op"]:
            case "rename":
                rest = {key: value for key, value in args.items() if key != rule["from"]}
                return {**rest, rule["to"]: args[rule["from"]]} if rule["from"] in args else rest
            case "set":
                return {**args, **rule["values"]}
            case "wrap":
                return {rule["key"]: args}
            case "parse":
                return json.loads(args[rule["key"]])
            case "throw":
                raise _Thrown(rule["message"])
            case _:
                return args

    return shim


def _call_json(context: BeforeToolCallContext[AnyMessage] | AfterToolCallContext[AnyMessage]) -> Json:
    return {
        "tool": context.tool_call.name,
        "toolCallId": context.tool_call.id,
        "args": json.loads(json.dumps(context.args)),
        "messages": len(context.context.messages),
    }


def _turn_counts(turn: AgentTurnContext[AnyMessage]) -> Json:
    return {
        "stopReason": turn.message.stop_reason,
        "toolResults": len(turn.tool_results),
        "newMessages": len(turn.new_messages),
        "messages": len(turn.context.messages),
    }


def _event_json(event: AgentEvent[AnyMessage]) -> Json:
    match event.type:
        case "agent_end":
            fields: Json = {"messages": event.messages}
        case "turn_end":
            fields = {"message": event.message, "toolResults": event.tool_results}
        case "message_start" | "message_end":
            fields = {"message": event.message}
        case "message_update":
            growth = event.assistant_message_event.to_json()
            fields = {"assistantMessageEvent": growth, "message": event.message}
        case "tool_execution_start":
            fields = {"toolCallId": event.tool_call_id, "toolName": event.tool_name, "args": event.args}
        case "tool_execution_update":
            fields = {"toolCallId": event.tool_call_id, "toolName": event.tool_name, "args": event.args}
            fields["partialResult"] = _result_json(event.partial_result)
        case "tool_execution_end":
            fields = {"toolCallId": event.tool_call_id, "toolName": event.tool_name}
            fields["result"] = _result_json(event.result)
            fields["isError"] = event.is_error
        case _:
            fields = {}
    return {"type": event.type, **{key: to_jsonable(value) for key, value in fields.items()}}


# -- batches whose calls may interleave in another way -----------------------------------------------------


def _order_problems(got: Json, order: Json) -> list[Difference]:
    problems = []
    ends = [e["toolCallId"] for e in got["events"] if e["type"] == "tool_execution_end"]
    if "endOrder" in order and ends != order["endOrder"]:
        problems.append(Difference("order.endOrder", order["endOrder"], ends))
    for batch in _runs(got["calls"], lambda entry: "toolCallId" in entry):
        hooks = [entry["hook"] for entry in batch]
        if "execute" in hooks and "beforeToolCall" in hooks[hooks.index("execute") :]:
            problems.append(Difference("calls", note="a call was prepared after another had begun to run"))
    return problems


def _in_call_order(outcome: Json) -> Json:
    """The outcome with what belongs to a batch sorted by call, each call's own sequence kept."""
    events, calls = outcome["events"], outcome["calls"]
    starts = [e["toolCallId"] for e in events if e["type"] == "tool_execution_start"]

    def in_batch(event: Json) -> bool:
        return bool(event["type"].startswith("tool_execution_"))

    sorted_events: list[Json] = []
    for batch in _runs(events, in_batch, rest=True):
        several = len({e.get("toolCallId") for e in batch}) > 1 and in_batch(batch[0])
        sorted_events += _by_call(batch, starts) if several else batch
    sorted_calls: list[Json] = []
    for batch in _runs(calls, lambda entry: "toolCallId" in entry, rest=True):
        if "toolCallId" in batch[0]:
            batch = _by_call([{k: v for k, v in entry.items() if k != "at"} for entry in batch], starts)
        sorted_calls += batch
    return {**outcome, "events": sorted_events, "calls": sorted_calls}


def _by_call(batch: list[Json], starts: list[str]) -> list[Json]:
    return sorted(batch, key=lambda entry: starts.index(entry["toolCallId"]))


def _runs(
    entries: Sequence[Json], belongs: Callable[[Json], bool], *, rest: bool = False
) -> list[list[Json]]:
    """Consecutive entries that belong to a batch; with `rest`, also those between batches."""
    runs: list[list[Json]] = []
    last: bool | None = None
    for entry in entries:
        here = belongs(entry)
        if here or rest:
            if here != last:
                runs.append([])
            runs[-1].append(entry)
        last = here
    return runs
