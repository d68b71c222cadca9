"""Does a request body hold what a field case asks of it?

A check names values by a path and says what must be true of all of them; where the path meets nothing, it
is true. Paths: `$`, `.name`, `..name` (anywhere below), `[*]`, `[3]`, `[?name=='text']`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_STEP = re.compile(
    r"\.\.(?P<deep>\w+)|\.(?P<name>\w+)|\[(?P<all>\*)\]|\[(?P<index>\d+)\]"
    r"|\[\?(?P<key>\w+)=='(?P<value>[^']*)'\]"
)
_SCHEMA_KEYS = frozenset({"parameters", "parametersJsonSchema", "input_schema", "inputSchema"})


def problems(content: bytes, checks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with a request body; empty where nothing is."""
    try:
        body = json.loads(content.decode("utf-8"))
    except ValueError as exc:
        return [f"the body is not JSON in UTF-8: {exc}"]
    return [f"{check['path']} {check['op']}: {said}" for check in checks for said in _check(body, check)]


def _check(body: Any, check: Mapping[str, Any]) -> list[str]:
    values = find(body, check["path"])
    wanted = check.get("value")
    match check["op"]:
        case "nonblank":
            return [
                f"blank: {value!r}" for value in values if not isinstance(value, str) or not value.strip()
            ]
        case "unique":
            return [f"twice: {value!r}" for value in values if values.count(value) > 1]
        case "max_len":
            return [f"{len(value)} long: {value!r}" for value in values if len(value) > int(wanted or 0)]
        case "absent":
            return [f"there: {value!r}" for value in values]
        case "absent_key":
            return [f"{wanted} in {node!r}" for node in _mappings(values) if wanted in node]
        case "equals":
            return [f"{value!r}" for value in values if value != wanted]
        case "paired":
            return [said for value in values for said in unpaired(value)]
        case "refs_resolve":
            return [said for value in values for said in _dangling(value, value)]
        case "utf8":
            return [f"half a surrogate pair: {text!r}" for text in _texts(values) if not _is_utf8(text)]
        case other:
            return [f"no such check: {other}"]


def find(body: Any, path: str) -> list[Any]:
    """All values at a path.

    Raises:
        ValueError: not a path.

    >>> find({"a": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]}, "$.a[?t=='y'].v")
    [2]
    """
    if not path.startswith("$"):
        raise ValueError(f"not a path: {path}")
    values = [body]
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"not a path: {path}, at {path[at:]!r}")
        values = [found for value in values for found in _step(value, step)]
        at = step.end()
    return values


def _step(value: Any, step: re.Match[str]) -> list[Any]:
    if name := step["deep"]:
        return [node[name] for node in _mappings([value]) if name in node]
    if name := step["name"]:
        return [value[name]] if isinstance(value, Mapping) and name in value else []
    if not isinstance(value, list):
        return []
    if step["all"]:
        return list(value)
    if step["index"]:
        return value[int(step["index"]) :][:1]
    key, wanted = step["key"], step["value"]
    return [item for item in value if isinstance(item, Mapping) and item.get(key) == wanted]


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from _mappings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _mappings(item)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _dangling(node: Any, root: Any) -> list[str]:
    if isinstance(node, list):
        return [said for item in node for said in _dangling(item, root)]
    if not isinstance(node, Mapping):
        return []
    found: list[str] = []
    for key, item in node.items():
        if key == "$ref" and isinstance(item, str) and not _resolves(item, root):
            found.append(f"points nowhere: {item}")
        found += _dangling(item, item if key in _SCHEMA_KEYS else root)
    return found


def _resolves(ref: str, root: Any) -> bool:
    if not ref.startswith("#"):
        return False
    for part in ref.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, Mapping) or name not in root:
            return False
        root = root[name]
    return True


def unpaired(messages: Any) -> list[str]:
    """Calls without their one result, results without their call, in any of the APIs' forms.

    A result belongs to the message right after its call: for chat completions, the run of tool messages
    there.
    """
    if not isinstance(messages, list):
        return ["not a list of messages"]
    found: list[str] = []
    waiting: list[str] = []
    for message in messages:
        calls, results = _calls(message), _results(message)
        for result in results:
            if result in waiting:
                waiting.remove(result)
            else:
                found.append(f"a result without its call: {result}")
        is_item = message.get("type") in ("function_call", "function_call_output", "reasoning")
        if waiting and not is_item and message.get("role") not in ("tool", None):
            found += [f"a call without its result: {call}" for call in waiting]
            waiting = []
        waiting += calls
    return found + [f"a call without its result: {call}" for call in waiting]


def _calls(message: Mapping[str, Any]) -> list[str]:
    if message.get("type") == "function_call":
        return [message["call_id"]]
    calls = [call["id"] for call in message.get("tool_calls") or ()]
    for part in _parts(message):
        if part.get("type") == "tool_use":
            calls.append(part["id"])
        if "toolUse" in part:
            calls.append(part["toolUse"]["toolUseId"])
        if "functionCall" in part:
            calls.append(part["functionCall"].get("id") or part["functionCall"]["name"])
    return calls


def _results(message: Mapping[str, Any]) -> list[str]:
    if message.get("type") == "function_call_output":
        return [message["call_id"]]
    results = [message["tool_call_id"]] if message.get("role") == "tool" else []
    for part in _parts(message):
        if part.get("type") == "tool_result":
            results.append(part["tool_use_id"])
        if "toolResult" in part:
            results.append(part["toolResult"]["toolUseId"])
        if "functionResponse" in part:
            results.append(part["functionResponse"].get("id") or part["functionResponse"]["name"])
    return results


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = message.get("parts", message.get("content"))
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
