"""A broker changes the log in the middle of a read: each change here is made before every file operation of the reader.

One test a fault that was once found on a live log. What a broker does in steps is done at once here; the simulation
(`tests/simulation`) does it in all its halves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.scanning import read_split
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import run_updates
from tests.support import writer
from tests.support.batches import BatchSpec, control
from tests.support.batches import data as batch
from tests.support.logs import Segment, simple_segment
from tests.support.reads import options_in, plan_in, view_in
from tests.support.simulated_files import SimulatedFiles
from tests.support.simulated_reads import simulated
from tests.support.writer import Rec

PARTITION = "/data/t-0"
MAPS = "/maps"
MILLIS = 1_700_000_000_000


class Disk:
    """A partition's directory, and what a broker does to it at one point of a read."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.files.make_directory(PARTITION)

    def put(self, segment: Segment, suffix: str = "") -> None:
        """A segment's files, under their names and a suffix."""
        for name, data in ((".log", segment.log), (".index", segment.index), (".timeindex", segment.timeindex)):
            if data is not None:
                self.files.create(path(segment.base_offset, name) + suffix, data)

    def grow(self, segment: Segment) -> None:
        """The segment's `.log` with more bytes, in place."""
        node = self.files.node(path(segment.base_offset))
        assert segment.log.startswith(bytes(node.data))
        self.files.write(node, 0, segment.log)

    def compact(self, olds: list[Segment], new: Segment) -> None:
        """Puts a compacted segment in the place of others."""
        self.put(new, ".swap")
        for old in olds:
            self._rename(old, "", ".deleted")
        self._rename(new, ".swap", "")

    def cleaned(self, offset: int) -> None:
        """The cleaner's checkpoint."""
        self.files.create("/data/cleaner-offset-checkpoint", f"0\n1\nt 0 {offset}\n".encode())

    def _rename(self, segment: Segment, suffix: str, to: str) -> None:
        for name in (".log", ".index", ".timeindex"):
            if self.files.has(path(segment.base_offset, name) + suffix):
                self.files.rename(path(segment.base_offset, name) + suffix, path(segment.base_offset, name) + to)


def path(base: int, suffix: str = ".log") -> str:
    return f"{PARTITION}/{writer.segment_name(base, suffix)}"


def at_every_point(
    disk: Callable[[], Disk], change: Callable[[Disk], None], act: Callable[[SimulatedFiles], Any]
) -> Iterator[tuple[int, Any]]:
    """What `act` gives from a disk's files, which change before its n-th file operation, for every n, with each n."""
    for point in count():
        there = disk()
        done = 0

        changed_at = ""

        def before(operation: str, at: str, point: int = point, there: Disk = there) -> None:
            nonlocal done, changed_at
            if done == point:
                changed_at = f"changed before operation {point}, {operation} {at}"
                change(there)
            done += 1

        there.files.before = before
        with simulated(lambda seconds: None):
            try:
                found = act(there.files)
            except Exception as error:
                error.add_note(changed_at)
                raise
            if done <= point:
                assert point > 5
                return
            yield point, found


def read(files: SimulatedFiles, **options: Any) -> list[tuple[int, bytes]]:
    """Plans, then reads: offsets and values."""
    plan = plan_in(files, PARTITION, **options)
    batches = [
        found
        for split in plan.splits
        for found in read_split(split, plan.reading, RECORDS.arrow_schema(("offset", "value")))
    ]
    return [row for found in batches for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]


def segment(offsets: range, payload: Callable[[int], int], base: int | None = None) -> Segment:
    """A segment of batches of one record, with an index entry for every fifth; payload: bytes more in a value."""
    log, entries = b"", []
    for at, offset in enumerate(offsets):
        if at % 5 == 4:
            entries.append((offset, len(log)))
        rec = Rec(0, MILLIS + offset, b"k%03d" % offset, b"v%03d" % offset + b"." * payload(offset))
        log += writer.record_batch([rec], base_offset=offset)
    base = offsets.start if base is None else base
    return Segment(base, log, writer.offset_index(entries, base), b"", ())


def _alike(_: int) -> int:
    return 0


# --- compaction that merges ------------------------------------------------------------------------------------------


def _merged_disk(payload: Callable[[int], int]) -> tuple[Callable[[], Disk], Callable[[Disk], None]]:
    """Segments 100, 130, 160 and 190, of which the first three become one, without offsets 100 to 119."""
    parts = [segment(range(base, base + 30), payload) for base in (100, 130, 160)]
    active = segment(range(190, 200), payload)
    merged = segment(range(120, 190), payload, base=100)

    def disk() -> Disk:
        made = Disk()
        for each in (*parts, active):
            made.put(each)
        made.cleaned(120)
        return made

    return disk, lambda there: there.compact(parts, merged)


@pytest.mark.parametrize("payload", [_alike, lambda offset: offset % 11], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
@pytest.mark.parametrize(
    ("start", "end", "options"),
    [
        (150, 190, {}),
        (130, 160, {"minPartitions": 3}),
        (120, 200, {"maxRecordsPerPartition": 7}),
        (145, 200, {"trustIndexes": False, "minPartitions": 5}),
        (150, 190, {"failOnDataLoss": False, "checkCrcs": False}),
    ],
)
def test_compaction_that_merges(
    start: int, end: int, options: dict[str, Any], mode: str, payload: Callable[[int], int], caplog: Any
) -> None:
    """Positions of one file mean nothing in another that has its name: every retained row is there, none is damaged."""
    disk, change = _merged_disk(payload)
    bounds = {"startingOffsets": {"t": {"0": start}}, "endingOffsets": {"t": {"0": end}}}
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        for point, rows in at_every_point(disk, change, lambda files: read(files, mode=mode, **bounds, **options)):
            assert [offset for offset, _ in rows] == list(range(start, end)), point
    assert not [said for said in caplog.messages if "skipped" in said or "going on without" in said]


def test_the_first_compaction_leaves_a_segment_empty(caplog: Any) -> None:
    """Its size may be read after compaction, its name before, when no file told of any: that is no loss."""
    old, emptied = segment(range(3, 6), _alike), segment(range(3, 3), _alike)

    def disk() -> Disk:
        made = Disk()
        for each in (segment(range(3), _alike), old, segment(range(6, 9), _alike)):
            made.put(each)
        return made

    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        for point, rows in at_every_point(disk, lambda there: there.compact([old], emptied), read):
            assert {offset for offset, _ in rows} - {3, 4, 5} == {0, 1, 2, 6, 7, 8}, point
    assert not caplog.messages


# --- transactions ----------------------------------------------------------------------------------------------------


def _transactional(offset: int) -> BatchSpec:
    return BatchSpec(offset, offset, ((offset, MILLIS + offset),), producer_id=1, transactional=True)


def _rolled(first: str, second: str, compacted: bool) -> tuple[Callable[[], Disk], Callable[[Disk], None]]:
    """One transaction without its marker; then the marker, a roll, and another transaction of the same producer."""
    begun = [_transactional(0)]
    ended = [*begun, control(1, MILLIS, first)]  # type: ignore[arg-type]
    following = [_transactional(2), control(3, MILLIS, second)]  # type: ignore[arg-type]

    def disk() -> Disk:
        made = Disk()
        made.put(simple_segment(begun, base=0, index=(), timeindex=()))
        if compacted:
            made.cleaned(0)
        return made

    def change(there: Disk) -> None:
        there.grow(simple_segment(ended, base=0))
        there.put(simple_segment(following, base=2, index=(), timeindex=()))

    return disk, change


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize(("first", "second"), [("abort", "commit"), ("commit", "abort")])
def test_a_marker_after_the_listing_and_another_transaction(first: str, second: str, compacted: bool) -> None:
    """A transaction's fate is its own marker's, not that of the next one of its producer."""
    disk, change = _rolled(first, second, compacted)
    allowed = [0] if first == "commit" else [2]
    for point, rows in at_every_point(disk, change, lambda files: read(files, isolationLevel="read_committed")):
        assert [offset for offset, _ in rows] in ([], allowed), point
        if point == 0:  # all of it was there before the first look
            assert [offset for offset, _ in rows] == allowed


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize(("first", "second"), [("abort", "commit"), ("commit", "abort")])
def test_the_view_of_transactions_while_a_marker_comes(first: str, second: str, compacted: bool) -> None:
    """Each transaction has its own marker, or is open as it was when the log was listed."""
    disk, change = _rolled(first, second, compacted)
    states = {"abort": "aborted", "commit": "committed"}
    ended = [(0, 1, states[first]), (2, 3, states[second])]
    allowed = [[(0, None, "open")], ended[:1], ended]
    for point, rows in at_every_point(disk, change, lambda files: view_in(files, PARTITION, "transactions")):
        assert [(each["firstOffset"], each["lastOffset"], each["state"]) for each in rows] in allowed, point


def _told_after(size: int | None) -> tuple[Callable[[], Disk], Callable[[Disk], None]]:
    """A committed transaction, then one whose marker comes; size: bytes of that marker that are there before."""
    begun = [batch(0, MILLIS), _transactional(1), control(2, MILLIS, "commit"), _transactional(3)]
    ended = [*begun, control(4, MILLIS, "commit"), batch(5, MILLIS)]
    before = simple_segment(begun, base=0).log
    whole = simple_segment(ended, base=0)

    def disk() -> Disk:
        made = Disk()
        made.files.create(path(0), whole.log[: len(before) + (size or 0)])
        return made

    return disk, lambda there: there.grow(whole)


@pytest.mark.parametrize("size", [None, 1, 30, 60, 77])
@pytest.mark.parametrize("options", [{}, {"failOnDataLoss": False}, {"mode": "DROPMALFORMED"}, {"minPartitions": 3}])
def test_a_marker_that_comes_while_planning(size: int | None, options: dict[str, Any], caplog: Any) -> None:
    """No segment is missing, nothing is damaged, and what was committed before is there."""
    disk, change = _told_after(size)
    with caplog.at_level(logging.WARNING, "kafka_segment_source"):
        for point, rows in at_every_point(
            disk, change, lambda files: read(files, isolationLevel="read_committed", **options)
        ):
            assert [offset for offset, _ in rows] in ([0, 1], [0, 1, 3], [0, 1, 3, 5]), point
    assert not [said for said in caplog.messages if "skipped" in said or "no marker" in said]


# --- zone maps -------------------------------------------------------------------------------------------------------


def test_a_zone_map_continued_over_another_file() -> None:
    """A segment that grew since it was mapped is compacted while its map is brought up to date: no later
    read suffers."""
    young, grown = (segment(range(100, end), _alike) for end in (120, 140))
    following, active = segment(range(140, 180), _alike), segment(range(180, 200), _alike)
    merged = segment(range(110, 180), _alike, base=100)

    def disk() -> Disk:
        made = Disk()
        made.put(young)
        with simulated(lambda seconds: None):
            update(made.files)
        made.grow(grown)
        made.put(following)
        made.put(active)
        return made

    def update(files: SimulatedFiles) -> SimulatedFiles:
        options = options_in(files, PARTITION)
        assert not run_updates(
            plan_updates(options.source, options.policy, MAPS), options.policy.trust.max_batch_bytes
        ).damage
        return files

    change: Callable[[Disk], None] = lambda there: there.compact([grown, following], merged)  # noqa: E731
    for point, files in at_every_point(disk, change, update):
        for since in range(110, 200, 9):
            options = {"since": MILLIS + since, "until": MILLIS + since + 9, "zoneMaps": MAPS}
            rows = [offset for offset, _ in read(files, **options)]
            assert rows == list(range(since, min(since + 9, 200))), (point, since)


def test_a_file_that_never_stays() -> None:
    """Where a log changes for ever, the reader gives up with an error of this package's, and does not hang."""
    disk, _ = _merged_disk(_alike)
    there = disk()
    node = there.files.node(path(130))

    def before(operation: str, at: str) -> None:
        nonlocal node
        if operation == "open" and at == path(130):
            data = bytes(node.data)
            there.files.unlink(path(130))
            node = there.files.create(path(130), data[:-1])

    there.files.before = before
    with simulated(lambda seconds: None):
        try:
            read(there.files)
        except KafkaSegmentError:
            return
