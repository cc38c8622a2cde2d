"""Fixtures of the tests of streams."""

from __future__ import annotations

import pytest

from tests.unit.streams.parts import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
