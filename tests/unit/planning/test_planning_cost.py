"""What planning asks of the file system: it grows with the segments, never with their square. Counts, not times."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.scanning import read_split
from kafka_segment_source.storage import store
from tests.support import writer
from tests.support.batches import control, data
from tests.support.logs import simple_log, simple_segment
from tests.support.reads import plan_in
from tests.support.writer import Rec


class Counting(store.LocalStorage):
    """Counts what is asked; of a listing, every entry."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def list(self, directory: str) -> store.Entries:
        found = super().list(directory)
        self.asked["entries listed"] += len(found)
        return found

    def open(self, path: str, version: store.FileVersion | None = None) -> store.OpenFile:
        self.asked["opened"] += 1
        return super().open(path, version)

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


def asked_for(action: Callable[[Counting], object]) -> Counter[str]:
    counting = Counting()
    action(counting)
    return counting.asked


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_planning_and_reading_are_linear(level: str, tmp_path: Path) -> None:
    """Twice the segments are at most twice the work, under both isolation levels, also where every marker is in the
    next segment."""
    logs = {count: transactional_log(tmp_path / str(count), count) for count in (40, 80)}
    for action in (
        lambda path, storage: plan_in(storage, path, isolationLevel=level),
        lambda path, storage: plan_in(storage, path, isolationLevel=level).to_reader().read_all(),
    ):
        few, many = (asked_for(partial(action, path)) for path in logs.values())
        assert few.keys() == many.keys()
        for what, count in many.items():
            assert count <= 2.1 * few[what] + 5, what


def test_a_small_segment_before_since_takes_two_files(tmp_path: Path) -> None:
    """With one entry in the time index, the tail proof begins where the head proof has been: no `.index` is opened.
    The end of the last segment is compared with what the checkpoints say: its `.index` finds it."""
    segments = [
        simple_segment([data(at, at), data(at + 1, at)], index=[(at + 1, 1)], timeindex=[(at, at + 1)])
        for at in range(0, 80, 2)
    ]
    directory = simple_log(*segments).write(tmp_path)
    counting = Counting()
    plan = plan_in(counting, directory, since=1000)
    assert len(plan.dropped) == 40
    assert counting.asked["opened"] <= 2 * 40 + 6


def rolled_log(root: Path, count: int, step: int) -> Path:
    """`count` batches of two records, `step` in a segment: copies of one log with other rolls."""
    folder = root / "t-0"
    folder.mkdir(parents=True)
    batches = [writer.record_batch([Rec(0, 1000), Rec(1, 1000)], base_offset=base) for base in range(0, 2 * count, 2)]
    for at in range(0, count, step):
        (folder / writer.segment_name(2 * at)).write_bytes(b"".join(batches[at : at + step]))
    return root


def test_planning_of_copies_is_linear(tmp_path: Path) -> None:
    """Of copies with other rolls each segment is opened a few times, however many there are."""
    asked = []
    for count in (120, 240):
        paths = [rolled_log(tmp_path / f"{step}-{count}", count, step) for step in (2, 3)]
        asked.append(asked_for(partial(plan_in, path=paths)))
    for what, often in asked[1].items():
        assert often <= 2.1 * asked[0][what] + 5, what
    assert asked[0]["opened"] <= 2.5 * (60 + 40)


def test_the_place_that_is_found_again_costs_the_same_in_a_longer_log(tmp_path: Path) -> None:
    """Where a file was replaced, copies are put together near the offsets that are left; only the listing grows."""
    opened = []
    for count in (120, 240):
        paths = [rolled_log(tmp_path / f"{step}-{count}", count, step) for step in (2, 3)]
        storage = Counting()
        plan = plan_in(storage, paths)
        split = next(split for split in plan.splits if split.base_offset >= 100)
        whole = Path(split.path).read_bytes()
        Path(split.path).rename(f"{split.path}.deleted")
        Path(split.path).write_bytes(whole[: len(whole) // 2])  # of two batches
        storage.asked.clear()
        schema = RECORDS.arrow_schema(("offset",))
        found = [each.as_py() for rows in read_split(split, plan.reading, schema) for each in rows["offset"]]
        asked = storage.asked
        assert found == list(range(split.base_offset, split.base_offset + 4))
        assert 0 < asked["entries listed"] <= 3 * count
        opened.append(asked["opened"])
    assert opened[0] == opened[1] <= 40


@pytest.mark.parametrize("copies", [1, 2])
def test_markers_many_segments_ahead_cost_no_listing(copies: int, tmp_path: Path) -> None:
    """The look ahead goes from segment to segment by their names, in one of several copies too."""
    records = [replace(data(at, 1000 + at), producer_id=7, transactional=True) for at in range(20)]
    made = [*records, control(20, 1000, producer_id=7)]
    simple_log(*(simple_segment([each]) for each in made)).write(tmp_path / "A")
    paths = [tmp_path / "A", tmp_path / "B"][:copies]
    if copies == 2:
        shutil.copytree(paths[0], paths[1])
    storage = Counting()
    reader = plan_in(storage, paths, isolationLevel="read_committed").to_reader(["offset"])
    storage.asked.clear()
    assert reader.read_all()["offset"].to_pylist() == list(range(20))
    assert storage.asked["opened"] and not storage.asked["entries listed"]
