"""Which adapter speaks an API: looked up by name, loaded on first use, extended by hosts.

Importing this module imports no adapter and no HTTP library.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from mule.ports import AssistantMessageEventStream
from mule.transcript.tooling import normalize_context
from mule.values.errors import ModelFailed
from mule.values.messages import AssistantMessage, Context
from mule.values.model import Model
from mule.values.request import SimpleStreamOptions, StreamOptions
from mule.values.stream import AssistantError, AssistantMessageEvent
from mule.waiting import protected

if TYPE_CHECKING:
    import httpx

_MODULES: Final[Mapping[str, str]] = {
    "openai-completions": "mule.adapters.openai_completions",
}
"""The modules of the APIs that are built."""

_CLOSE_S: Final = 2.0
"""How long closing a session's connections may take once it was cancelled."""

StreamOfApi: TypeAlias = Callable[[Model[Any], Context, Any], AssistantMessageEventStream]


class _Adapter(Protocol):
    """What the module of an API exports."""

    Options: type[StreamOptions]

    def stream(
        self, model: Model[Any], context: Context, options: StreamOptions, /
    ) -> AssistantMessageEventStream: ...


_registered: dict[str, StreamOfApi] = {}


def register_api(api: str, stream: StreamOfApi) -> None:
    """Let `stream` answer for the models of an API; a name that is taken is replaced.

    `stream` is given a normalized context, and the options as the caller made them.
    """
    _registered[api] = stream


def known_apis() -> tuple[str, ...]:
    """The APIs that can be spoken now, in alphabetical order."""
    return tuple(sorted({*_MODULES, *_registered}))


def options_type(api: str) -> type[StreamOptions]:
    """The options that an API has of its own; `StreamOptions` for an API of a host's.

    Raises:
        LookupError: nobody speaks this API.
    """
    if api in _registered:
        return StreamOptions
    return _load(api).Options


def stream_model(
    model: Model[Any], context: Context, options: StreamOptions | None = None
) -> AssistantMessageEventStream:
    """Call a model, by the API that it names.

    With `SimpleStreamOptions` (the default) the options mean the same for every API: the thinking level is
    brought to one that the model has, and the longest answer to what the context leaves. With an API's own
    options, such as `OpenAICompletionsOptions`, what is asked is what is sent.

    Nothing happens until the stream is read, and it raises nothing for a failure of the request or the
    model: a missing key, an API that nobody speaks, a server that is not there are a last event of type
    `error`. Connections are the call's own, and closed with it, unless `options.fetch` brings some.
    """
    given = SimpleStreamOptions() if options is None else options
    try:
        stream = _stream_of(model.api)
    except LookupError as exc:
        return _Failed(model, str(exc.args[0]))
    except ImportError as exc:
        return _Failed(model, f"The adapter for the API {model.api!r} cannot be loaded: {exc}")
    return stream(model, normalize_context(context), given)


def _stream_of(api: str) -> StreamOfApi:
    return _registered.get(api) or _load(api).stream


def _load(api: str) -> _Adapter:
    name = _MODULES.get(api)
    if name is None:
        raise LookupError(
            f"no adapter for the API {api!r}: there are {', '.join(known_apis())}; "
            "a host adds its own with register_api"
        )
    return cast(_Adapter, importlib.import_module(name))  # each of our modules exports what _Adapter says


class ProviderSession:
    """Lends the connections of one owner to every model call that brings none.

    An async context manager. `stream` is a `MuleStreamFunction`: `stream_model`, over one HTTP client that
    is made on first use and closed when the session is left, however that is.
    """

    __slots__ = ("_client", "_given", "_lent")

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None
        self._given: StreamOptions | None = None
        self._lent: StreamOptions | None = None

    async def __aenter__(self) -> ProviderSession:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        client, self._client = self._client, None
        self._given = self._lent = None
        if client is not None:
            # Whatever is cancelled: httpx takes a client for closed once it has begun to close it.
            await protected(client.aclose, _CLOSE_S)

    def stream(
        self, model: Model[Any], context: Context, options: StreamOptions
    ) -> AssistantMessageEventStream:
        """Call a model over the session's connections."""
        if options.fetch is None and model.api not in _registered:
            from mule.adapters._failing import CallFailed

            try:
                options = replace(options, fetch=self._lend())
            except CallFailed as failure:
                return _Failed(model, failure.text)
        return stream_model(model, context, options)

    def _lend(self) -> httpx.AsyncClient:
        if self._client is None:
            from mule.adapters._http import new_client  # imports httpx, which not every run needs

            self._client = new_client()
        return self._client


class _Failed:
    """The stream of a call that could not be made: its one event says why."""

    def __init__(self, model: Model[Any], problem: str) -> None:
        self._message = AssistantMessage(
            api=model.api,
            provider=model.provider,
            model=model.id,
            stop_reason="error",
            error_message=problem,
            timestamp=int(time.time() * 1000),
        )
        self._over = False

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        if self._over:
            raise StopAsyncIteration
        self._over = True
        return AssistantError("error", self._message, ModelFailed("invalid_request", self._message))

    async def result(self) -> AssistantMessage:
        self._over = True
        return self._message

    async def aclose(self) -> None:
        self._over = True
