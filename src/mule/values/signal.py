"""Pi's cooperative abort signal: asked of, listened to, never raised by itself."""

from __future__ import annotations

from collections.abc import Callable


class AbortSignal:
    """Tells work that it is no longer wanted. Made by `AbortController`.

    One event loop's thread only. Work that has been given a signal looks at `aborted`, waits on
    `wait()`, or registers with `on_abort`.
    """

    __slots__ = ("_listeners", "aborted", "reason")

    def __init__(self) -> None:
        self.aborted = False
        self.reason: object = None
        self._listeners: dict[object, Callable[[], object]] = {}

    def on_abort(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` once when the signal is aborted; at once where it already is.

        Returns: a function that takes the registration back. Calling it twice is harmless.
        """
        if self.aborted:
            listener()
            return lambda: None
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def wait(self) -> None:
        """Return once the signal is aborted. Cancelling the wait takes the registration back."""
        import anyio  # values know no event loop; this one method waits on whichever is running

        event = anyio.Event()
        release = self.on_abort(event.set)
        try:
            await event.wait()
        finally:
            release()

    def __repr__(self) -> str:
        return f"<AbortSignal {'aborted' if self.aborted else 'open'}>"


class AbortController:
    """Owns a signal and aborts it, once; further aborts change nothing."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: object = None) -> None:
        """Abort the signal. `reason` is kept on it and given to whoever asks."""
        signal = self.signal
        if signal.aborted:
            return
        signal.aborted = True
        signal.reason = reason
        listeners = list(signal._listeners.values())
        signal._listeners.clear()
        for listener in listeners:
            listener()
