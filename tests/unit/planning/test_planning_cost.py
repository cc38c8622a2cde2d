"""What planning asks of the file system: it grows with the segments, never with their square. Counts, not times."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.storage import store
from tests.support.batches import control, data
from tests.support.logs import simple_log, simple_segment


class Counting(store.LocalStorage):
    """Counts what is asked; of a listing, every entry."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def list(self, directory: str) -> store.Entries:
        found = super().list(directory)
        self.asked["entries listed"] += len(found)
        return found

    def open(self, path: str) -> store.OpenFile:
        self.asked["opened"] += 1
        return super().open(path)

    def look_at(self, path: str) -> store.Entry | None:
        self.asked["looked at"] += 1
        return super().look_at(path)


def transactional_log(directory: Path, segments: int) -> Path:
    """Each segment has one transactional batch; its marker is the first batch of the next segment."""
    made = []
    for at in range(segments):
        marker = [] if at == 0 else [control(2 * at - 1, 1000, producer_id=7)]
        record = replace(data(2 * at, 1000 + at), producer_id=7, transactional=True)
        made.append(simple_segment([*marker, record]))
    made.append(simple_segment([control(2 * segments - 1, 1000, producer_id=7)]))
    return simple_log(*made).write(directory)


def asked_for(monkeypatch: pytest.MonkeyPatch, action: Any) -> Counter[str]:
    counting = Counting()
    with monkeypatch.context() as patch:
        patch.setattr(store, "STORAGE", counting)
        action()
    return counting.asked


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_planning_and_reading_are_linear(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the segments are at most twice the work, under both isolation levels, also where every marker is in the
    next segment."""
    logs = {count: transactional_log(tmp_path / str(count), count) for count in (40, 80)}
    for action in (
        lambda path: kafkaseg.plan(path, isolationLevel=level),
        lambda path: kafkaseg.scan(path, isolationLevel=level).read_all(),
    ):
        few, many = (asked_for(monkeypatch, partial(action, path)) for path in logs.values())
        assert few.keys() == many.keys()
        for what, count in many.items():
            assert count <= 2.1 * few[what] + 5, what
