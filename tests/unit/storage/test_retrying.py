"""try_again and its pauses."""

from __future__ import annotations

import pytest

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.storage import retrying


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits in seconds, which nobody waits for."""
    waits: list[float] = []
    monkeypatch.setattr(retrying, "wait", waits.append)
    return waits


def test_an_action_is_tried_until_it_succeeds(waits: list[float]) -> None:
    """The first tries follow at once. Then each wait is twice as long as the one before."""
    outcomes = [FileChangedError(f"change {number}") for number in range(6)]

    def act() -> str:
        if outcomes:
            raise outcomes.pop(0)
        return "done"

    assert retrying.try_again(act) == "done"
    assert waits == [0.002, 0.004, 0.008]


def test_the_last_error_is_raised(waits: list[float]) -> None:
    """It comes after exactly that many tries. No wait is longer than a quarter of a second."""
    tried: list[int] = []

    def act() -> None:
        tried.append(len(tried))
        raise FileChangedError(f"change {len(tried)}")

    with pytest.raises(FileChangedError, match="change 20"):
        retrying.try_again(act)
    assert len(tried) == 20
    assert max(waits) == 0.25 and 2 < sum(waits) < 4


def test_another_error_ends_the_tries(waits: list[float]) -> None:
    """Only a changed file is worth another try."""

    def act() -> None:
        raise ValueError("no change")

    with pytest.raises(ValueError, match="no change"):
        retrying.try_again(act)
    assert waits == []
