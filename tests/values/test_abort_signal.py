"""An abort signal is aborted once, tells everybody who asked, and holds on to nobody who went away."""

from __future__ import annotations

import anyio

from mule.values.signal import AbortController, AbortSignal


def test_a_signal_is_open_until_it_is_aborted() -> None:
    controller = AbortController()

    def state() -> tuple[bool, object]:
        return controller.signal.aborted, controller.signal.reason

    assert state() == (False, None)
    controller.abort("enough")
    assert state() == (True, "enough")


def test_the_first_abort_counts() -> None:
    controller = AbortController()
    heard: list[object] = []
    controller.signal.on_abort(lambda: heard.append(controller.signal.reason))
    controller.abort("first")
    controller.abort("second")
    assert heard == ["first"]
    assert controller.signal.reason == "first"


def test_listeners_are_told_in_the_order_they_came() -> None:
    controller = AbortController()
    heard: list[int] = []
    for number in range(3):
        controller.signal.on_abort(lambda number=number: heard.append(number))  # type: ignore[misc]  # a loop's name
    controller.abort()
    assert heard == [0, 1, 2]


def test_the_same_listener_may_be_there_twice() -> None:
    controller = AbortController()
    heard: list[int] = []

    def hear() -> None:
        heard.append(1)

    release = controller.signal.on_abort(hear)
    controller.signal.on_abort(hear)
    release()
    controller.abort()
    assert heard == [1]


def test_who_comes_late_is_told_at_once() -> None:
    controller = AbortController()
    controller.abort()
    heard: list[bool] = []
    release = controller.signal.on_abort(lambda: heard.append(controller.signal.aborted))
    assert heard == [True]
    release()


def test_a_listener_that_was_taken_back_is_not_told() -> None:
    controller = AbortController()
    heard: list[int] = []
    release = controller.signal.on_abort(lambda: heard.append(1))
    release()
    release()
    controller.abort()
    release()
    assert heard == []


def test_a_listener_may_add_another_and_take_itself_back() -> None:
    controller = AbortController()
    heard: list[str] = []

    def first() -> None:
        release()
        controller.signal.on_abort(lambda: heard.append("second"))
        heard.append("first")

    release = controller.signal.on_abort(first)
    controller.abort()
    assert heard == ["second", "first"]


async def test_a_wait_ends_with_the_abort() -> None:
    controller = AbortController()
    ended: list[float] = []

    async def wait() -> None:
        await controller.signal.wait()
        ended.append(anyio.current_time())

    began = anyio.current_time()
    async with anyio.create_task_group() as tg:
        tg.start_soon(wait)
        tg.start_soon(wait)
        await anyio.sleep(5)
        assert ended == []
        controller.abort()
    assert ended == [began + 5] * 2
    await controller.signal.wait()


async def test_a_wait_that_is_cancelled_leaves_nothing_behind() -> None:
    signal = AbortController().signal
    with anyio.move_on_after(1):
        await signal.wait()
    assert not signal.aborted
    assert signal._listeners == {}


def test_a_signal_shows_its_state_and_not_its_reason() -> None:
    controller = AbortController()
    assert "open" in repr(controller.signal)
    controller.abort("s3cret")
    assert "aborted" in repr(controller.signal)
    assert "s3cret" not in repr(controller.signal)
    assert isinstance(controller.signal, AbortSignal)
