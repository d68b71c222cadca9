from __future__ import annotations

import pytest

from cli.commanding import Mule


@pytest.fixture
def mule(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mule:
    """The command, without a key in its environment."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("MULE_API_KEY", raising=False)
    return Mule(capsys)
