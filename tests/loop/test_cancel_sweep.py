"""Law 3 and law 2: cancelled at any moment, a run ends once, and leaves nothing behind."""

from __future__ import annotations

import gc
import warnings

import pytest

from loop.scenes import SCENES, Scene
from mule.testing import BackendName, CancelHow, CancelOutcome, sweep

WAYS: list[tuple[BackendName, CancelHow]] = [
    ("asyncio", "scope"),
    ("asyncio", "native"),
    ("asyncio", "native_twice"),
    ("trio", "scope"),
]


@pytest.mark.parametrize(("backend", "how"), WAYS, ids=[f"{b}-{h}" for b, h in WAYS])
@pytest.mark.parametrize("name", SCENES)
def test_a_run_cancelled_at_any_moment_ends_once(name: str, backend: BackendName, how: CancelHow) -> None:
    scenes: list[Scene] = []

    def make() -> object:
        scenes.append(SCENES[name]())
        return scenes[-1].perform

    moments = 0
    gc.collect()
    gc.freeze()  # what is there already is not looked at again after each of many moments
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for outcome in sweep(make, backend=backend, how=how):  # type: ignore[arg-type]  # make gives a coroutine function
            _check(outcome, scenes[-1])
            moments += 1
    gc.unfreeze()
    assert moments > 3, "the scene has nowhere to be cancelled"
    assert scenes[-1].ends == ["failed" if name == "after_model_failure" else "completed"]


def _check(outcome: CancelOutcome, scene: Scene) -> None:
    at = f"at moment {outcome.moment}"
    kinds = [event.type for event in scene.heard]
    assert outcome.left == (), f"{at}: left behind {outcome.left}"
    assert outcome.ended != "raised", f"{at}: {outcome.error!r}"
    if not kinds:
        assert outcome.ended == "cancelled", f"{at}: nothing was heard of a run that went on"
        return
    assert kinds[0] == "run_start", f"{at}: heard {kinds}"
    assert kinds.count("run_end") == 1, f"{at}: heard {kinds}"
    assert kinds[-1] == "run_end", f"{at}: heard {kinds}"
    assert [event.sequence for event in scene.heard] == list(range(len(scene.heard)))
    if outcome.ended == "cancelled":
        # A cancel that comes while the listener has the last event finds a run that is over.
        assert scene.ends == ["cancelled"] or scene.dealt_with[-1] != "run_end", at
        if scene.ends == ["cancelled"]:
            assert scene.dealt_with[-1] == "run_end", f"{at}: the listener was cut short on the last event"
    else:
        assert scene.ends != ["cancelled"], f"{at}: a run that gave a value said it was cancelled"
    assert all(stream.closed for stream in scene.model.streams), f"{at}: a stream was left open"
    began = [mark.split()[0] for mark in scene.marks if mark.endswith("began")]
    cleaned = [mark.split()[0] for mark in scene.marks if mark.endswith("cleaned up")]
    assert sorted(began) == sorted(cleaned), f"{at}: {scene.marks}"
