"""What a host brings from outside, checked: a model's description, plain data for a provider."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from returns.result import Failure, Result, Success

from mule.values.errors import InvalidInput, MuleError
from mule.values.model import COMPAT_OF_API, Model
from mule.values.provider import ProviderData, ProviderValue
from mule.values.signal import AbortSignal


def normalize_model(value: Mapping[str, object] | Model[Any]) -> Result[Model[Any], MuleError]:
    """A model from its description: checked, and what it leaves out filled in.

    A mapping has Pi's names (`baseUrl`) or ours (`base_url`). `name` defaults to the id, `input` to text,
    prices and limits to 0, which means unknown.

    Fails with `InvalidInput`, whose `field` is the dotted path to the first field that is wrong.

    >>> normalize_model({"id": "m", "api": "openai-completions", "provider": "p"}).failure()
    MuleError(InvalidInput(field='baseUrl', problem='is missing: where is the API served?'))
    """
    if isinstance(value, Model):
        return _checked(value)
    given: object = value  # a caller's code may not be type-checked
    if not isinstance(given, Mapping):
        return _invalid("model", f"must be an object, not {type(given).__name__}")
    described = dict(given)
    if "baseUrl" not in described and "base_url" not in described:
        return _invalid("baseUrl", "is missing: where is the API served?")
    if "name" not in described and isinstance(described.get("id"), str):
        described["name"] = described["id"]
    try:
        model: Model[Any] = Model.model_validate(described)
    except ValidationError as exc:
        return _failed(exc, str(described.get("api")))
    return _checked(model)


def _failed(exc: ValidationError, api: str) -> Result[Model[Any], MuleError]:
    first = exc.errors(include_url=False, include_input=False)[0]
    # A union names its member in the path; a reader of the description knows nothing of that.
    members = {kind.__name__ for kind in COMPAT_OF_API.values()}
    path = [str(step) for step in first["loc"] if step not in members]
    return _invalid(".".join(path) or "model", str(first["msg"]))


def _checked(model: Model[Any]) -> Result[Model[Any], MuleError]:
    for name, text in (("id", model.id), ("api", model.api), ("provider", model.provider)):
        if not text.strip():
            return _invalid(name, "must not be empty")
    problem = _problem_of_url(model.base_url)
    if problem is not None:
        return _invalid("baseUrl", problem)
    for name, number in (("contextWindow", model.context_window), ("maxTokens", model.max_tokens)):
        if not (math.isfinite(number) and number >= 0):
            return _invalid(name, "must be a number of tokens, 0 or more")
    rates = model.cost
    for name in ("input", "output", "cache_read", "cache_write"):
        if not (math.isfinite(getattr(rates, name)) and getattr(rates, name) >= 0):
            return _invalid(f"cost.{name}", "must be dollars for a million tokens, 0 or more")
    return Success(model)


def _problem_of_url(url: str) -> str | None:
    if not url.strip():
        return "is empty: where is the API served?"
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as exc:
        return f"cannot be read: {exc}"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    return None if parts.hostname else "names no host"


def decode_provider_data(value: object) -> Result[ProviderData, MuleError]:
    """Plain data for a provider, or from one: JSON, bytes and abort signals, in mappings with text keys.

    Fails with `InvalidInput`, whose `field` is the dotted path to the first value that is something else.

    >>> decode_provider_data({"a": [1, {"b": object}]}).failure().reason.field
    'a.1.b'
    """
    if not isinstance(value, Mapping):
        return _invalid("data", f"must be an object, not {type(value).__name__}")
    try:
        return Success({_key(key, ()): _provider_value(item, (key,)) for key, item in value.items()})
    except _NotData as exc:
        return _invalid(".".join(map(str, exc.path)) or "data", exc.problem)


class _NotData(Exception):
    def __init__(self, path: tuple[object, ...], problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


def _key(key: object, path: tuple[object, ...]) -> str:
    if not isinstance(key, str):
        raise _NotData(path, f"has a key that is no text: {key!r}")
    return key


def _provider_value(value: object, path: tuple[object, ...]) -> ProviderValue:
    if value is None or isinstance(value, bool | int | float | str | bytes | AbortSignal):
        return value
    if len(path) > 200:
        raise _NotData(path[:3], "is nested too deeply, or holds itself")
    if isinstance(value, Mapping):
        return {_key(key, path): _provider_value(item, (*path, key)) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_provider_value(item, (*path, index)) for index, item in enumerate(value)]
    raise _NotData(path, f"is a {type(value).__name__}, which is no plain data")


def _invalid(field: str, problem: str) -> Result[Any, MuleError]:
    return Failure(MuleError(InvalidInput(field, problem)))
