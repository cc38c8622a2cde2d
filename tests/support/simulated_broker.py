"""A model of a broker's log directories with one partition in them, as files and as truth.

In: a `Settings` and a `random.Random`. `SimulatedBroker.step()` makes one change to the files that a reader could see:
a caller that runs it between two file operations of a reader shows it every half-done state. Out: the files, in
`SimulatedFiles`, and what is true of them: which rows each directory holds, and how each transaction ended.

What a broker does over several steps is an activity, a generator that yields after each change. Activities of one
directory run side by side where a broker runs them so (its cleaner beside its writer) and keep out of each other's way
where it does (the writer's, and the cleaner's, one at a time; truncation only without a cleaner).

Kafka: UnifiedLog, LocalLog, LogSegment, Cleaner, LogLoader, LogManager, ProducerStateManager. Compared with them:

- Records have a key of two bytes and a value of eight, so that a batch of one record has as many bytes as a marker, and
  positions in one file are positions in another.
- The high watermark follows the log's end at random, but is never below the data of a transaction that has its marker.
- A partition has one directory or two. With two, the second is a follower until they change places.
- The delete horizon of a marker passes while time does (`pass_time`), hours in real life; or at once, where the
  settings say so (delete.retention.ms=0).
- Batches are magic 2, of no codec, under CreateTime. There is no tiered storage and no `.txnindex`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Literal

import crc32c

from kafka_segment_source import kafka_format
from tests.support import writer
from tests.support.simulated_files import Node, SimulatedFiles
from tests.support.writer import Rec

TOPIC = "t"
PARTITION = f"{TOPIC}-0"
FIRST_TIMESTAMP = 1_700_000_000_000
LATE = 5_000  # ms by which a record may be older than one before it, at most
_KEYS = tuple(b"k%c" % letter for letter in b"abcdefghijklmnopqrst")
RETENTION = 500  # of delete horizons, in the time of `pass_time`
_FILES = (kafka_format.LOG_SUFFIX, kafka_format.INDEX_SUFFIX, kafka_format.TIME_INDEX_SUFFIX)
_MOST_RECORDS = 300  # then producers have nothing more to say: a log without end would cost runs without end
_PADDED = 96  # bytes by which index files of an active segment grow: entries of both kinds fit
_LOSSES = ("retention", "delete records", "truncate", "refetch", "change leader")

Activity = Generator[str, None, None]
Outcome = Literal["commit", "abort"]


@dataclass(eq=False, slots=True)
class Transaction:
    """One producer's transaction; outcome: known from when its end was decided."""

    producer: int
    outcome: Outcome | None = None


@dataclass(eq=False, slots=True)
class Row:
    """A record, the same object wherever a copy of it is."""

    offset: int
    key: bytes
    value: bytes
    timestamp: int
    transaction: Transaction | None

    def __repr__(self) -> str:
        return f"{self.offset}:{self.key.decode()}={self.value.decode()}"


@dataclass(eq=False, slots=True)
class Batch:
    """A batch as it stands in a file. marker: it ends `transaction`; horizon: when such a marker may go."""

    base: int
    last: int
    data: bytes
    rows: tuple[Row, ...]
    max_timestamp: int
    epoch: int
    producer: int = -1
    transaction: Transaction | None = None
    marker: Outcome | None = None
    horizon: int | None = None


@dataclass(eq=False, slots=True)
class Segment:
    """A segment's files as they are now. size: bytes of its whole batches; open_at_start: transactions, by producer."""

    base: int
    stem: str  # path without suffixes
    suffix: str = ""  # after those of the files
    node: Node | None = None
    batches: list[Batch] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    size: int = 0
    offset_entries: list[tuple[int, int]] = field(default_factory=list)
    time_entries: list[tuple[int, int]] = field(default_factory=list)
    since_entry: int = 0
    newest: tuple[int, int] = (-1, -1)  # the largest timestamp so far, and the offset of its batch
    state: dict[int, tuple[int, int]] = field(default_factory=dict)

    def path(self, suffix: str) -> str:
        return self.stem + suffix + self.suffix

    def name(self, suffix: str) -> str:
        return f"{self.base:020d}{suffix}{self.suffix}"

    @property
    def log(self) -> Node:
        assert self.node is not None
        return self.node

    @property
    def end(self) -> int:
        """The offset after its last whole batch."""
        return self.batches[-1].last + 1 if self.batches else self.base


@dataclass(frozen=True)
class Settings:
    """What kind of partition it is, and what its broker is set to."""

    compacted: bool = False
    transactional: bool = False
    directories: int = 1
    segment_bytes: int = 600
    interval: int = 150  # bytes between index entries
    preallocated: int = 0
    alike: bool = True  # one record a batch, mostly, so that all batches are of one size
    losses: bool = True  # rows may be lost: retention, truncation, a replica that was made again
    keys: int = len(_KEYS)  # the fewer there are, the more a cleaner takes out
    marker_retention: int = RETENTION  # for how long a cleaner keeps a marker without data


class Replica:
    """One directory of the partition: its segments as a reader finds them, and what a broker does to them."""

    def __init__(self, broker: SimulatedBroker, log_directory: str) -> None:
        self.broker = broker
        self.files = broker.files
        self.settings = broker.settings
        self.log_directory = log_directory
        self.path = os.path.join(log_directory, PARTITION)
        self.is_there = True
        self.segments: list[Segment] = []  # of a compaction that is being swapped in: the new ones
        self.leaving: list[Segment] = []  # replaced by those, but still there by their names
        self.log_start = 0  # as its checkpoint says
        self.cleaned_to: int | None = None  # as its checkpoint says
        self.retired: list[str] = []  # files to be unlinked
        self.is_writing = False  # a batch is there in part
        self.state: dict[int, tuple[int, int]] = {}  # producer → last data offset, first of its open transaction or -1
        self.end = 0  # the next offset
        self.truncate_at: int | None = None  # what a follower has to do before it fetches
        self.files.make_directory(self.path)
        self._new_segment(0)

    # ---- truth ----

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def start(self) -> int:
        return max(self.log_start, self.segments[0].base)

    def covers(self, offset: int) -> bool:
        """Whether a reader would take it that this directory has an offset, if it was not compacted away."""
        return self.is_there and bool(self.segments) and self.start <= offset < self.end

    def rows(self) -> dict[Row, None]:
        """The rows that a reader finds here, whichever way it does."""
        return self._rows(self.segments)

    def possible_rows(self) -> dict[Row, None]:
        """Those, and the ones in files that are about to be replaced."""
        return self._rows([*self.segments, *self.leaving])

    def _rows(self, segments: Iterable[Segment]) -> dict[Row, None]:
        if not self.is_there:
            return {}
        least = self.log_start
        return {row: None for each in segments for batch in each.batches for row in batch.rows if row.offset >= least}

    def batches(self) -> list[Batch]:
        return [batch for segment in self.segments for batch in segment.batches]

    def stable_end(self) -> int:
        """The last stable offset, from the files alone."""
        return min([first for _, first in self.state.values() if first >= 0], default=self.end)

    # ---- appending ----

    def cut_inside(self, batch: Batch) -> int:
        """How much of a batch is written at first. In preallocated space eight bytes are left: fewer
        zeros could be its own."""
        return self.broker.random.randrange(1, len(batch.data) - (7 if self.settings.preallocated else 0))

    def append(self, batch: Batch, torn: bool) -> Activity:
        """Writes a batch, in two parts if it is torn; rolls first if the segment is full."""
        if self.active.batches and self.active.size + len(batch.data) > self.settings.segment_bytes:
            yield from self.roll()
        segment = self.active
        cut = self.cut_inside(batch) if torn else 0
        if cut:
            self.is_writing = True
            self.files.write(segment.log, segment.size, batch.data[:cut])
            yield f"writes {cut} of {len(batch.data)} bytes at {segment.size}"
        self.files.write(segment.log, segment.size + cut, batch.data[cut:])
        self.is_writing = False
        said = f"{_show(batch)} at {segment.size}" if self.broker.trace is not None else ""
        entered = self._add(segment, batch)
        yield said
        if entered:
            yield from self._write_indexes(segment, padded=True)

    def _add(self, segment: Segment, batch: Batch) -> bool:
        """Takes note of a batch that is in the file; answers whether index entries are due."""
        position = segment.size
        segment.batches.append(batch)
        segment.positions.append(position)
        segment.size += len(batch.data)
        self.end = batch.last + 1
        self._follow(self.state, batch)
        entered = _enter(segment, batch, position, self.settings.interval)
        self.broker.appeared(batch.rows)
        return entered

    @staticmethod
    def _follow(state: dict[int, tuple[int, int]], batch: Batch) -> None:
        if batch.producer < 0:
            return
        last, first = state.get(batch.producer, (-1, -1))
        if batch.marker is not None:
            state[batch.producer] = (last, -1)
        elif batch.transaction is not None:
            state[batch.producer] = (batch.last, batch.base if first < 0 else first)
        else:
            state[batch.producer] = (batch.last, first)

    def _write_indexes(self, segment: Segment, padded: bool) -> Activity:
        for suffix, data in _index_files(segment, padded):
            path = segment.path(suffix)
            if not self.files.has(path):
                self.files.create(path, data)
                yield f"creates {segment.name(suffix)}"
                continue
            node = self.files.node(path)
            if node.data != data:
                self.files.write(node, 0, data)
                self.files.truncate(node, len(data))
                yield f"writes {segment.name(suffix)}"

    def roll(self) -> Activity:
        """Closes the active segment and begins another at the end of the log."""
        old = self.active
        _close(old)
        yield from self._write_indexes(old, padded=False)
        if len(old.log.data) > old.size:
            self.files.truncate(old.log, old.size)
            yield f"trims {old.name('.log')} to {old.size}"
        segment = self._new_segment(self.end)
        yield f"rolls at {segment.base}"
        yield from self._write_indexes(segment, padded=True)
        self._snapshot(segment.base)
        yield f"snapshot at {segment.base}"

    def _new_segment(self, base: int) -> Segment:
        segment = Segment(base, os.path.join(self.path, f"{base:020d}"), state=dict(self.state))
        segment.node = self.files.create(segment.path(kafka_format.LOG_SUFFIX), bytes(self.settings.preallocated))
        self.segments.append(segment)
        return segment

    def _snapshot(self, offset: int) -> None:
        entries = b"".join(
            kafka_format.SNAPSHOT_ENTRY.pack(producer, 0, 0, last, 0, FIRST_TIMESTAMP, -1, first)
            for producer, (last, first) in sorted(self.state.items())
        )
        checked = struct.pack(">i", len(self.state)) + entries
        data = struct.pack(">hI", kafka_format.SNAPSHOT_VERSION, crc32c.crc32c(checked)) + checked
        self._replace(os.path.join(self.path, f"{offset:020d}{kafka_format.SNAPSHOT_SUFFIX}"), data)

    def _replace(self, path: str, data: bytes) -> None:
        """A file written aside and renamed, in one step: nobody reads a name that ends so."""
        temporary = path + ".tmp"
        self.files.create(temporary, data)
        self.files.rename(temporary, path)

    # ---- removing ----

    def _retire(self, segment: Segment) -> Activity:
        """Renames a segment's files to `.deleted`, the log first."""
        for suffix in _FILES:
            path = segment.path(suffix)
            if not self.files.has(path):
                continue
            self.files.rename(path, path + kafka_format.DELETED_SUFFIX)
            if suffix == kafka_format.LOG_SUFFIX:
                self._forget(segment)
            self.retired.append(path + kafka_format.DELETED_SUFFIX)
            yield f"renames {segment.name(suffix)} to .deleted"

    def _forget(self, segment: Segment) -> None:
        self.segments = [each for each in self.segments if each is not segment]
        self.leaving = [each for each in self.leaving if each is not segment]
        self.broker.vanished()

    def _retire_snapshots(self, wanted: Callable[[int], bool]) -> Activity:
        for name in self.files.names(self.path):
            if name.endswith(kafka_format.SNAPSHOT_SUFFIX) and wanted(int(name[: kafka_format.BASE_OFFSET_DIGITS])):
                path = os.path.join(self.path, name)
                self.files.rename(path, path + kafka_format.DELETED_SUFFIX)
                self.retired.append(path + kafka_format.DELETED_SUFFIX)
                yield f"renames {name} to .deleted"

    def unlink(self) -> Activity:
        """Removes files that were renamed some time ago."""
        for _ in range(self.broker.random.randint(1, len(self.retired))):
            path = self.retired.pop(0)
            if self.files.has(path):
                self.files.unlink(path)
                yield f"unlinks {os.path.basename(path)}"
            directory = os.path.dirname(path)
            if directory != self.path and not self.files.names(directory):
                self.files.remove_directory(directory)
                yield f"removes {os.path.basename(directory)}"

    def retain(self, count: int) -> Activity:
        """Retention deletes the first segments."""
        going = self.segments[:count]
        for segment in going:
            yield from self._retire(segment)
        bases = {segment.base for segment in going}
        yield from self._retire_snapshots(lambda base: base in bases)
        if self.log_start:
            yield from self.checkpoint_start(self.log_start)

    def checkpoint_start(self, offset: int) -> Activity:
        """Writes the log start: only where it is not that of the first segment."""
        self.log_start = offset if offset > self.segments[0].base else 0
        entries = {PARTITION: self.log_start} if self.log_start else {}
        self._checkpoint(kafka_format.LOG_START_CHECKPOINT, entries)
        self.broker.vanished()
        yield f"log start {self.log_start}"

    def _checkpoint(self, name: str, entries: dict[str, int]) -> None:
        lines = [f"{each.rpartition('-')[0]} {each.rpartition('-')[2]} {offset}" for each, offset in entries.items()]
        data = "\n".join(["0", str(len(lines)), *lines, ""]).encode()
        self._replace(os.path.join(self.log_directory, name), data)

    def checkpoint_high_watermark(self) -> Activity:
        self._checkpoint(kafka_format.HIGH_WATERMARK_CHECKPOINT, {PARTITION: min(self.broker.high_watermark, self.end)})
        yield "checkpoints the high watermark"

    # ---- truncation, restart, a replica that was made again ----

    def truncate(self, offset: int) -> Activity:
        """Cuts off every batch from an offset on, segments too."""
        for segment in [each for each in self.segments if each.base > offset]:
            yield from self._retire(segment)
        segment = self.active
        keep = sum(batch.base < offset for batch in segment.batches)
        if keep < len(segment.batches):
            _keep(segment, keep, self.settings.interval)
            yield from self._write_indexes(segment, padded=True)
            self.files.truncate(segment.log, segment.size)
            self._rebuild_state()
            self.end = offset
            self.broker.vanished()
            yield f"truncates {segment.name('.log')} to {segment.size} bytes, offset {offset}"
        else:
            self._rebuild_state()
            self.end = offset
            yield from self._write_indexes(segment, padded=True)
        yield from self._retire_snapshots(lambda base: base > self.end)

    def _rebuild_state(self) -> None:
        self.state = dict(self.active.state)
        for batch in self.active.batches:
            self._follow(self.state, batch)

    def stop_cleanly(self) -> Activity:
        """A clean stop and start: what was preallocated goes, index files are cut and padded again."""
        segment = self.active
        if len(segment.log.data) > segment.size:
            self.files.truncate(segment.log, segment.size)
            yield f"trims {segment.name('.log')} to {segment.size}"
        yield from self._write_indexes(segment, padded=False)
        self._snapshot(self.end)
        yield f"snapshot at {self.end}"
        yield from self._start()

    def crash(self, batch: Batch | None) -> Activity:
        """A broker dies, in the middle of a write perhaps, and starts again: it cuts the tail and makes index files."""
        segment = self.active
        if batch is not None:
            # a batch that a dead broker only began, in preallocated space, cannot be told from damage, and is reported
            # so
            cut = 0 if self.settings.preallocated else self.cut_inside(batch)
            self.files.write(segment.log, segment.size, batch.data[:cut])
            yield f"dies after {cut} of {len(batch.data)} bytes at {segment.size}"
        for suffix in _FILES[1:]:
            if self.files.has(segment.path(suffix)):
                self.files.truncate(self.files.node(segment.path(suffix)), 0)
                yield f"empties {segment.name(suffix)}"
        if len(segment.log.data) > segment.size:
            self.files.truncate(segment.log, segment.size)
            yield f"trims {segment.name('.log')} to {segment.size}"
        yield from self._start()

    def _start(self) -> Activity:
        for name in self.files.names(self.path):
            path = os.path.join(self.path, name)
            if name.endswith(kafka_format.DELETED_SUFFIX) and self.files.has(path):
                self.files.unlink(path)
                yield f"unlinks {name}"
        yield from self._write_indexes(self.active, padded=True)

    def make_again(self, batches: list[Batch], start: int) -> Activity:
        """The directory goes away and comes back with batches fetched again, from an offset on."""
        dead = f"{self.path}.{self.broker.random.getrandbits(128):032x}-delete"
        names = self.files.names(self.path)
        self.files.rename_directory(self.path, dead)
        self.is_there = False
        self.segments = []
        self.end = start
        self.broker.vanished()
        self.retired = [os.path.join(dead, name) for name in names]
        yield "renames the directory to -delete"
        self.files.make_directory(self.path)
        yield "makes the directory again"
        self.state = {}
        self.log_start = 0
        self._new_segment(start)
        self.is_there = True
        self.broker.vanished()
        yield f"begins at {start}"
        yield from self._write_indexes(self.active, padded=True)
        for batch in batches:
            yield from self.append(batch, torn=self.broker.random.random() < 0.2)

    # ---- compaction ----

    def clean(self) -> Activity:
        """One pass of the cleaner over the closed segments, group by group; the checkpoint comes last."""
        end = min(self.active.base, self.stable_end(), self.broker.high_watermark)
        first_dirty = self.cleaned_to or 0
        latest: dict[bytes, int] = {}
        for batch in self.batches():
            aborted = batch.transaction is not None and batch.transaction.outcome == "abort"
            if not aborted:
                latest.update((row.key, row.offset) for row in batch.rows if first_dirty <= row.offset < end)
        seen: set[Transaction] = set()  # of which the pass has met data: their markers stay
        closed = [segment for segment in self.segments[:-1] if segment.base < end]
        while closed:
            count = self._group(closed)
            group, closed = closed[:count], closed[count:]
            yield from self._clean_group(group, latest, end, seen)
        self.cleaned_to = end
        self._checkpoint(kafka_format.CLEANER_CHECKPOINT, {PARTITION: end})
        yield f"cleaner checkpoint {end}"

    def _group(self, segments: list[Segment]) -> int:
        """How many of the segments go into one file."""
        most = self.settings.segment_bytes * self.broker.random.choice((1, 1, 2, 4))
        count, size = 1, segments[0].size
        while count < len(segments) and size + segments[count].size <= most:
            size += segments[count].size
            count += 1
        return count

    def _clean_group(
        self, group: list[Segment], latest: dict[bytes, int], end: int, seen: set[Transaction]
    ) -> Activity:
        stem = os.path.join(self.path, f"{group[0].base:020d}")
        new = Segment(group[0].base, stem, kafka_format.CLEANED_SUFFIX, state=group[0].state)
        data = b""
        for batch in [batch for segment in group for batch in segment.batches]:
            kept = self._cleaned(batch, latest, end, seen)
            if kept is not None:
                new.batches.append(kept)
                new.positions.append(new.size)
                _enter(new, kept, new.size, self.settings.interval)
                new.size += len(kept.data)
                data += kept.data
        _close(new)
        half = self.broker.random.randrange(len(data) + 1)
        new.node = self.files.create(new.path(kafka_format.LOG_SUFFIX), data[:half])
        yield f"cleans {[segment.base for segment in group]}, {half} bytes"
        if half < len(data):
            self.files.write(new.log, half, data[half:])
            yield f"cleans {[segment.base for segment in group]}, {len(data)} bytes"
        yield from self._write_indexes(new, padded=False)
        yield from self._swap_in(group, new)

    def _swap_in(self, group: list[Segment], new: Segment) -> Activity:
        for suffix in _FILES:
            self.files.rename(new.path(suffix), new.stem + suffix + kafka_format.SWAP_SUFFIX)
            if suffix == kafka_format.LOG_SUFFIX:
                at = self.segments.index(group[0])
                self.segments[at : at + len(group)] = [new]
                self.leaving += group
                self.broker.vanished()
            yield f"renames {os.path.basename(new.stem)}{suffix}.cleaned to .swap"
        new.suffix = kafka_format.SWAP_SUFFIX
        for segment in group:
            yield from self._retire(segment)
        for suffix in _FILES:
            self.files.rename(new.path(suffix), new.stem + suffix)
            yield f"renames {new.name(suffix)} to its name"
        new.suffix = ""
        bases = {segment.base for segment in group[1:]}
        yield from self._retire_snapshots(lambda base: base in bases)

    def _cleaned(self, batch: Batch, latest: dict[bytes, int], end: int, seen: set[Transaction]) -> Batch | None:
        """What stays of a batch, None if nothing does."""
        if batch.marker is not None:
            return self._cleaned_marker(batch, end, seen)
        if batch.transaction is not None:
            seen.add(batch.transaction)
        if batch.base >= end:
            return batch
        aborted = batch.transaction is not None and batch.transaction.outcome == "abort"
        rows = () if aborted else tuple(row for row in batch.rows if row.offset >= latest.get(row.key, -1))
        if rows == batch.rows:
            return batch
        is_producers_last = batch.producer >= 0 and self.state.get(batch.producer, (-1, -1))[0] == batch.last
        if not rows and not is_producers_last:
            return None
        return _batch(
            rows,
            base=batch.base,
            last=batch.last,
            epoch=batch.epoch,
            producer=batch.producer,
            transaction=batch.transaction,
            max_timestamp=None if rows else batch.max_timestamp,
        )

    def _cleaned_marker(self, batch: Batch, end: int, seen: set[Transaction]) -> Batch | None:
        assert batch.transaction is not None and batch.marker is not None
        if batch.transaction in seen or batch.base >= end:
            return batch
        if batch.horizon is None:
            return _marker(
                batch.transaction,
                batch.base,
                batch.max_timestamp,
                batch.epoch,
                self.broker.now + self.settings.marker_retention,
            )
        return None if batch.horizon <= self.broker.now else batch


def _enter(segment: Segment, batch: Batch, position: int, interval: int) -> bool:
    """Index entries as LogSegment.append makes them; answers whether it made one."""
    if batch.max_timestamp > segment.newest[0]:
        segment.newest = batch.max_timestamp, batch.last
    entered = segment.since_entry > interval
    if entered:
        segment.offset_entries.append((batch.last, position))
        _enter_time(segment)
        segment.since_entry = 0
    segment.since_entry += len(batch.data)
    return entered


def _enter_time(segment: Segment) -> None:
    last = segment.time_entries[-1][0] if segment.time_entries else -1
    if segment.newest[0] > last:
        segment.time_entries.append(segment.newest)


def _close(segment: Segment) -> None:
    """What becomes of its indexes when a segment is no longer the active one."""
    _enter_time(segment)


def _keep(segment: Segment, count: int, interval: int) -> None:
    """The segment with its first batches only."""
    batches = segment.batches[:count]
    segment.batches, segment.positions, segment.size = [], [], 0
    segment.offset_entries, segment.time_entries, segment.since_entry, segment.newest = [], [], 0, (-1, -1)
    for batch in batches:
        _enter(segment, batch, segment.size, interval)
        segment.batches.append(batch)
        segment.positions.append(segment.size)
        segment.size += len(batch.data)


def _index_files(segment: Segment, padded: bool) -> list[tuple[str, bytes]]:
    offsets = writer.offset_index(segment.offset_entries, segment.base)
    times = writer.time_index(segment.time_entries, segment.base)
    if padded:
        offsets, times = (each.ljust(_PADDED * (len(each) // _PADDED + 1), b"\0") for each in (offsets, times))
    return [(kafka_format.INDEX_SUFFIX, offsets), (kafka_format.TIME_INDEX_SUFFIX, times)]


def _batch(
    rows: tuple[Row, ...],
    *,
    base: int,
    last: int,
    epoch: int,
    producer: int,
    transaction: Transaction | None,
    max_timestamp: int | None = None,
) -> Batch:
    largest = max((row.timestamp for row in rows), default=-1) if max_timestamp is None else max_timestamp
    data = writer.record_batch(
        [Rec(row.offset - base, row.timestamp, row.key, row.value) for row in rows],
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=base if producer >= 0 else -1,
        transactional=transaction is not None,
        last_offset_delta=last - base,
        max_timestamp=largest,
    )
    return Batch(base, last, data, rows, largest, epoch, producer, transaction)


def _marker(transaction: Transaction, offset: int, timestamp: int, epoch: int, horizon: int | None = None) -> Batch:
    assert transaction.outcome is not None
    rec = Rec(0, timestamp, writer.marker_key(transaction.outcome), struct.pack(">hi", 0, 0))
    data = writer.record_batch(
        [rec],
        base_offset=offset,
        leader_epoch=epoch,
        producer_id=transaction.producer,
        producer_epoch=0,
        transactional=True,
        control=True,
        delete_horizon=horizon is not None,
    )
    producer = transaction.producer
    return Batch(offset, offset, data, (), timestamp, epoch, producer, transaction, transaction.outcome, horizon)


def _show(batch: Batch) -> str:
    if batch.marker is not None:
        return f"{batch.marker} of {batch.producer} at offset {batch.base}"
    return f"{list(batch.rows)}{'' if batch.transaction is None else f' in a transaction of {batch.producer}'}"


@dataclass(eq=False, slots=True)
class _Running:
    """An activity under way, and what it keeps others from: (directory, "writer" or "cleaner")."""

    name: str
    activity: Activity
    locks: tuple[tuple[int, str], ...]


class SimulatedBroker:
    """The partition, its producers, and what is under way."""

    def __init__(
        self, settings: Settings, random: Random, files: SimulatedFiles | None = None, root: str = "/sim"
    ) -> None:
        self.settings = settings
        self.random = random
        self.files = SimulatedFiles() if files is None else files
        self.now = 0
        self.steps = 0
        self.high_watermark = 0
        self.epoch = 0
        self.trace: Callable[[str], None] | None = None
        self.allow_losses = settings.losses
        self.allow_cleaning = True
        self.lost = 0  # counts the beginnings and ends of what loses rows
        self._appeared: list[Row] = []
        self._has_vanished = False
        self.watch: Callable[[list[Row], bool], None] = lambda appeared, vanished: None
        self.replicas = [Replica(self, os.path.join(root, f"disk{n}")) for n in range(settings.directories)]
        self.leader = self.replicas[0]
        self.running: list[_Running] = []
        self._choices = {losses: self._weights(losses) for losses in (False, True)}
        self._beginnings: dict[str, Callable[[Replica], _Begun]] = {
            name: getattr(self, f"_{name.replace(' ', '_')}") for name in self._choices[True][0]
        }
        self._produced = 0
        self._open: dict[int, Transaction] = {}  # by producer
        self._last_data: dict[int, int] = {}  # of its open transaction
        self._decided: list[Transaction] = []  # whose marker is to be written, again perhaps
        self._last_marker: dict[int, int] = {}
        self._drain(each for replica in self.replicas for each in replica._write_indexes(replica.active, padded=True))

    # ---- what a reader's judge wants to know ----

    @property
    def is_losing(self) -> bool:
        """Whether something that takes rows away is under way."""
        return any(each.name in _LOSSES for each in self.running) or self._diverges()

    def held(self) -> dict[Row, None]:
        """The rows that a reader of all directories finds, whichever of them it reads for an offset.

        What a former leader has to truncate is of another history: a reader that knows it leaves that out.
        """
        found: dict[Row, None] = {}
        views = [(replica, replica.rows()) for replica in self.replicas]
        for one, rows in views:
            end = kafka_format.MAX_OFFSET if one.truncate_at is None else one.truncate_at
            others = [(other, theirs) for other, theirs in views if other is not one]
            for row in rows:
                if row.offset < end and all(row in theirs or not other.covers(row.offset) for other, theirs in others):
                    found[row] = None
        return found

    def possible(self) -> dict[Row, None]:
        """The rows that are in some file."""
        return {row: None for replica in self.replicas for row in replica.possible_rows()}

    def stable_end(self) -> int:
        """The least last stable offset of the directories that reach furthest; all of them where they differ."""
        there = [replica for replica in self.replicas if replica.is_there and replica.segments]
        if not there:
            return 0
        furthest = max(there, key=lambda replica: replica.end)
        return min(replica.stable_end() for replica in there) if self.is_losing else furthest.stable_end()

    def appeared(self, rows: Iterable[Row]) -> None:
        self._appeared += rows
        if len(self.replicas) > 1 and (self.settings.compacted or self.is_losing):
            self._has_vanished = True  # a directory that now covers an offset may not hold what another holds

    def vanished(self) -> None:
        self._has_vanished = True

    # ---- steps ----

    def step(self) -> None:
        """One change that a reader could see."""
        self.steps += 1
        if self.running and self.random.random() < 0.8:
            each = self.random.choice(self.running)
        else:
            begun = self._begin()
            if begun is None:
                return
            each = begun
            self.running.append(each)
            self.lost += each.name in _LOSSES
        self._advance(each)

    def act(self) -> None:
        """Something from its beginning to its end; and what is under way too."""
        begun = self._begin()
        if begun is not None:
            self.running.append(begun)
            self.lost += begun.name in _LOSSES
        self.finish()

    def finish(self) -> None:
        """All that is under way to its end."""
        while self.running:
            self._advance(self.running[0])

    def pass_time(self) -> None:
        """Hours pass."""
        self.now += 2 * RETENTION

    def _advance(self, each: _Running) -> None:
        try:
            said = next(each.activity)
            if self.trace is not None:
                self.trace(f"{each.name}: {said}")
        except StopIteration:
            self.running.remove(each)
            self.lost += each.name in _LOSSES
        if self._appeared or self._has_vanished:
            appeared, vanished = self._appeared, self._has_vanished
            self._appeared, self._has_vanished = [], False
            self.watch(appeared, vanished)

    def _drain(self, activity: Iterable[str]) -> None:
        for _ in activity:
            pass
        self._appeared, self._has_vanished = [], False

    def _is_free(self, *locks: tuple[int, str]) -> bool:
        taken = {lock for each in self.running for lock in each.locks}
        return not any(lock in taken for lock in locks)

    def _begin(self) -> _Running | None:
        """Something new, None if what was drawn cannot be done now."""
        names, weights = self._choices[self.allow_losses]
        [name] = self.random.choices(names, cum_weights=weights)
        replica = self.random.choice(self.replicas)
        activity = self._beginnings[name](replica)
        return None if activity is None else _Running(name, *activity)

    def _weights(self, losses: bool) -> tuple[list[str], list[float]]:
        """What may begin, and cumulated weights."""
        settings = self.settings
        choices = [("append", 12), ("roll", 1), ("unlink", 4), ("restart", 0.4), ("checkpoint", 0.3)]
        if settings.transactional:
            choices.append(("marker", 5))
        if settings.compacted:
            choices.append(("clean", 2))
        if settings.directories > 1:
            choices.append(("fetch", 14))
        if losses:
            choices += [("truncate", 0.5), ("refetch", 0.2), ("change leader", 0.3)]
            if not settings.compacted:
                choices += [("retention", 1), ("delete records", 0.3)]
        return [name for name, _ in choices], list(accumulate(weight for _, weight in choices))

    # Each of these answers an activity and its locks, or None.

    def _writing(self, replica: Replica) -> tuple[tuple[int, str], ...]:
        return ((self.replicas.index(replica), "writer"),)

    def _cleaning(self, replica: Replica) -> tuple[tuple[int, str], ...]:
        return ((self.replicas.index(replica), "cleaner"),)

    def _all(self, replica: Replica) -> tuple[tuple[int, str], ...]:
        return self._writing(replica) + self._cleaning(replica)

    def _append(self, _: Replica) -> _Begun:
        locks = self._writing(self.leader)
        if not self._is_free(*locks) or self._produced > _MOST_RECORDS:
            return None
        batch = self._next_batch()
        self._advance_high_watermark()
        return self.leader.append(batch, torn=self.random.random() < 0.3), locks

    def _next_batch(self) -> Batch:
        random = self.random
        base = self.leader.end
        count = 1 if self.settings.alike and random.random() < 0.9 else random.randint(1, 4)
        producer, transaction = -1, None
        if self.settings.transactional and random.random() < 0.8:
            producer = random.choice((1000, 1001, 1002))
            transaction = self._transaction_of(producer)
            if transaction is None:
                producer = -1
            else:
                self._last_data[producer] = base + count - 1
        timestamp = FIRST_TIMESTAMP + 1000 * self._produced
        if random.random() < 0.2:
            timestamp -= random.randrange(LATE // 2)
        rows = []
        for at in range(count):
            self._produced += 1
            value = b"v%07d" % self._produced
            rows.append(Row(base + at, random.choice(_KEYS[: self.settings.keys]), value, timestamp + at, transaction))
        return _batch(
            tuple(rows), base=base, last=base + count - 1, epoch=self.epoch, producer=producer, transaction=transaction
        )

    def _transaction_of(self, producer: int) -> Transaction | None:
        """Its open transaction, or a new one, if the last one's marker is on every replica."""
        if producer in self._open:
            return self._open[producer]
        if any(each.producer == producer for each in self._decided):
            return None
        last = self._last_marker.get(producer, -1)
        if last >= self.high_watermark:
            if len(self.replicas) > 1 or last >= self.leader.end:
                return None
            self.high_watermark = last + 1
        self._open[producer] = Transaction(producer)
        return self._open[producer]

    def _marker(self, _: Replica) -> _Begun:
        locks = self._writing(self.leader)
        if not self._is_free(*locks):
            return None
        self._advance_high_watermark()
        transaction = self._ending()
        if transaction is None:
            return None
        timestamp = FIRST_TIMESTAMP + 1000 * self._produced
        batch = _marker(transaction, self.leader.end, timestamp, self.epoch)
        return self._append_marker(batch), locks

    def _append_marker(self, batch: Batch) -> Activity:
        # a decided transaction leaves the list when its marker is whole; a crash in between writes it again
        assert batch.transaction is not None
        yield from self.leader.append(batch, torn=self.random.random() < 0.3)
        self._decided.remove(batch.transaction)
        self._last_marker[batch.producer] = batch.base

    def _ending(self) -> Transaction | None:
        """A transaction whose marker is due: one that was cut off first."""
        if self._decided:
            return self.random.choice(self._decided)
        producers = sorted(self._open)
        if not producers:
            return None
        producer = self.random.choice(producers)
        last = self._last_data[producer]
        if last >= self.leader.end:
            return None  # its last batch is being written, or was cut off
        if last >= self.high_watermark:
            if len(self.replicas) > 1:
                return None
            self.high_watermark = last + 1
        transaction = self._open.pop(producer)
        transaction.outcome = self.random.choice(("commit", "abort"))
        self._decided.append(transaction)
        return transaction

    def _advance_high_watermark(self) -> None:
        ends = [replica.end for replica in self.replicas if replica.is_there and replica.truncate_at is None]
        if len(self.replicas) > 1:
            if len(ends) == len(self.replicas):
                self.high_watermark = max(self.high_watermark, min(ends))
        elif self.random.random() < 0.5:
            self.high_watermark = self.random.randint(self.high_watermark, max(self.leader.end, self.high_watermark))

    def _roll(self, replica: Replica) -> _Begun:
        locks = self._writing(replica)
        return (replica.roll(), locks) if self._is_free(*locks) and replica.active.batches else None

    def _unlink(self, replica: Replica) -> _Begun:
        # a minute after the renaming (file.delete.delay.ms): a cleaner has come to its next files, or to its end
        at = self.replicas.index(replica)
        locks = ((at, "unlink"), (at, "cleaner"))
        return (replica.unlink(), locks) if replica.retired and self._is_free(*locks) else None

    def _checkpoint(self, replica: Replica) -> _Begun:
        locks = self._writing(replica)
        return (replica.checkpoint_high_watermark(), locks) if self._is_free(*locks) else None

    def _restart(self, replica: Replica) -> _Begun:
        locks = self._all(replica)
        if not self._is_free(*locks):
            return None
        if self.random.random() < 0.5:
            return replica.stop_cleanly(), locks
        batch = self._torn_batch() if replica is self.leader and self.random.random() < 0.7 else None
        return replica.crash(batch), locks

    def _torn_batch(self) -> Batch:
        """A batch of which the first bytes are written, and nobody hears of it again."""
        row = Row(self.leader.end, _KEYS[0], b"v-------", FIRST_TIMESTAMP, None)
        return _batch((row,), base=row.offset, last=row.offset, epoch=self.epoch, producer=-1, transaction=None)

    def _clean(self, replica: Replica) -> _Begun:
        locks = self._cleaning(replica)
        if not self.allow_cleaning or not self._is_free(*locks) or not replica.segments:
            return None
        end = min(replica.active.base, replica.stable_end(), self.high_watermark)
        if end <= max(replica.cleaned_to or 0, replica.segments[0].base):
            return None
        return replica.clean(), locks

    def _retention(self, replica: Replica) -> _Begun:
        locks = self._cleaning(replica)
        end = min(self.high_watermark, *(each.end for each in self.replicas))
        going = [segment for segment in replica.segments[:-1] if segment.end <= end]
        if not going or not self._is_free(*locks):
            return None
        return replica.retain(self.random.randint(1, min(len(going), 3))), locks

    def _delete_records(self, replica: Replica) -> _Begun:
        locks = self._all(replica)
        end = min(self.high_watermark, replica.end)
        if not self._is_free(*locks) or end <= replica.start or len(self.replicas) > 1:
            return None
        return replica.checkpoint_start(self.random.randint(replica.start, end)), locks

    def _truncate(self, replica: Replica) -> _Begun:
        """A leader change where the other replicas are on other machines."""
        locks = self._all(replica)
        if len(self.replicas) > 1 or not self._is_free(*locks):
            return None
        bases = [batch.base for batch in replica.batches() if batch.base >= max(self.high_watermark, replica.start)]
        if not bases:
            return None
        return self._truncated(replica, self.random.choice(bases)), locks

    def _truncated(self, replica: Replica, offset: int) -> Activity:
        self._forget_from(offset)
        self.epoch += 1
        yield from replica.truncate(offset)

    def _forget_from(self, offset: int) -> None:
        """What producers and coordinator know of an end of the log that is cut off."""
        cut = [batch for batch in self.leader.batches() if batch.base >= offset]
        for batch in cut:
            transaction = batch.transaction
            if batch.marker is not None and transaction is not None:
                self._decided.append(transaction)
        for producer, transaction in list(self._open.items()):
            if self.leader.state.get(producer, (-1, -1))[1] >= offset:
                del self._open[producer]  # nothing of it is left: it is as if it had not begun
            elif self._last_data[producer] >= offset:
                left = [
                    each for each in self.leader.batches() if each.base < offset and each.transaction is transaction
                ]
                self._last_data[producer] = max((batch.last for batch in left), default=offset - 1)

    def _refetch(self, replica: Replica) -> _Begun:
        locks = (*self._all(replica), (self.replicas.index(replica), "unlink"))
        others = [each for each in self.replicas if each is not replica]
        if not self._is_free(*locks) or (replica is self.leader and others) or replica.retired:
            return None
        if others and not self._is_free(*self._cleaning(self.leader)):
            return None
        batches = self.leader.batches()
        starts = [batch.base for batch in batches if self.leader.start <= batch.base <= self.high_watermark]
        if not starts:
            return None
        start = self.random.choice((starts[0], starts[0], self.random.choice(starts)))
        replica.truncate_at = None
        if others:
            return replica.make_again([], start), locks
        self._forget_from(self.high_watermark)
        again = [batch for batch in batches if start <= batch.base and batch.last < self.high_watermark]
        return replica.make_again(again, start), locks

    def _fetch(self, replica: Replica) -> _Begun:
        locks = self._writing(replica)
        if replica is self.leader or not self._is_free(*locks):
            return None
        if replica.truncate_at is not None:
            return None if not self._is_free(*self._all(replica)) else (self._caught_up(replica), self._all(replica))
        following = [batch for batch in self.leader.batches() if batch.last >= replica.end]
        if not following or following[0].base < replica.end:
            return None
        torn = self.random.random() < 0.2
        count = self.random.randint(1, 3)
        return self._fetched(replica, following[:count], torn), locks

    @staticmethod
    def _fetched(replica: Replica, batches: list[Batch], torn: bool) -> Activity:
        for batch in batches:
            yield from replica.append(batch, torn)

    @staticmethod
    def _caught_up(replica: Replica) -> Activity:
        assert replica.truncate_at is not None
        yield from replica.truncate(replica.truncate_at)
        replica.truncate_at = None

    def _change_leader(self, replica: Replica) -> _Begun:
        """The follower leads: it goes on from its own end, and the other cuts off what it has beyond."""
        if len(self.replicas) == 1 or replica is self.leader or replica.truncate_at is not None:
            return None
        locks = (*self._all(replica), *self._all(self.leader))
        if not replica.is_there or replica.end < self.high_watermark or not self._is_free(*locks):
            return None
        old = self.leader
        if old.end > replica.end:
            self._forget_from(replica.end)
            old.truncate_at = replica.end
        self.leader = replica
        self.epoch += 1
        self.vanished()
        return iter_once(f"{replica.log_directory} leads"), locks

    def _diverges(self) -> bool:
        return any(replica.truncate_at is not None for replica in self.replicas)


def iter_once(said: str) -> Activity:
    """An activity that changes no file."""
    yield said


_Begun = tuple[Activity, tuple[tuple[int, str], ...]] | None
