"""The rows of view=transactions: walks the batches of one partition in order, and follows its producers.

It needs the headers of data batches and the whole control batches. So where batches are large and checkCrcs=false, only
headers are read (`decoding/header_walk.py`). A control batch is always proven by its CRC, since it decides the state.

A marker belongs to its producer id alone: its epoch may be one above that of the data (`transaction.version=2`). A
marker ends what is open of its producer. If nothing is open, it ends nothing and makes no row.

Nothing is guessed across missing offsets. All transactions that are open before them have the state `unknown`, because
their markers may have been there. Offsets are missing after skipped damage (mode), after a loss that failOnDataLoss
allows, and wherever a file that was replaced during the walk, or another copy, leaves offsets out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batch_rows import time_span
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage, UnloggedDamage
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_holds
from kafka_segment_source.logdir.indexes import TransactionIndex, written_aborts
from kafka_segment_source.logdir.producer_snapshots import newest_state
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.reading.marker_walk import Marker, MarkerReader, Stretch, first_void, transactional_data
from kafka_segment_source.reading.mending import Suspicion
from kafka_segment_source.reporting import logger
from kafka_segment_source.schema import MAX_MILLIS
from kafka_segment_source.storage.files import UNUSABLE, list_directory
from kafka_segment_source.storage.paths import name_of, parent_of
from kafka_segment_source.views.transaction_table import ABORTED, COMMITTED, OPEN, UNKNOWN, TransactionTask

_MOST_NAMED = 3  # of transactions in one warning
_NO_HEADERS = np.empty((batch_headers.FIELDS, 0), np.int64)
_PLACE = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.CRC]

Row = dict[str, Any]
Mask = npt.NDArray[np.bool_]


def find_transactions(task: TransactionTask, options: ReadOptions) -> Iterator[Row]:
    """Yields a row for each transaction of a partition: first those that ended, by their markers, then the open ones.

    Raises the errors of a read: for damage under FAILFAST, and for missing offsets under failOnDataLoss.
    """
    replay = _Replay(task)
    indexes = _AbortIndexes(task)
    for split in task.splits:
        for stretch in _walk(split, options, replay):
            yield from replay.add(stretch)
        indexes.compare(split, replay)
    yield from replay.finish()


# ---- the batches, in order ----


def _walk(split: SegmentSplit, options: ReadOptions, replay: _Replay) -> Iterator[Stretch]:
    """Yields the batches of one segment, wherever they are now. replay: knows how far the walk has come."""
    # other copies are searched by CRC, since only this shows which of them holds a marker whole
    follower = Follower(split, replace(options, check_crcs=True))

    def read(part: SegmentSplit) -> Iterator[Stretch]:
        directory = parent_of(part.path)
        is_other = part is not split or replay.directory not in ("", directory)
        replay.directory = directory
        for stretch in _read_part(part, options, follower):
            void = first_void(stretch, replay.reached) if is_other and replay.reached else None
            yield stretch if void is None else replace(stretch, gaps=(*stretch.gaps, void))

    losses = 0
    try:
        for stretch in follower.run(read):
            if follower.losses > losses:
                losses = follower.losses
                yield Stretch(_NO_HEADERS, (), ends_in_loss=True)
            yield stretch
    except DataLossError as error:
        report_lost_rows(error, options)
        follower.losses += 1
    if follower.losses > losses:
        yield Stretch(_NO_HEADERS, (), ends_in_loss=True)


def _read_part(part: SegmentSplit, options: ReadOptions, follower: Follower) -> Iterator[Stretch]:
    if options.check_crcs:
        yield from _read_batches(part, options, follower, proven=True)
        return
    rest = yield from _read_batches(part, options, follower, proven=False)
    if rest is not None:
        yield from _read_batches(rest, options, follower, proven=True)


def _read_batches(
    part: SegmentSplit, options: ReadOptions, follower: Follower, *, proven: bool
) -> Generator[Stretch, None, SegmentSplit | None]:
    """Yields the batches of one file. proven: whether every batch is proven by its CRC, and not only markers.

    It returns None, or the rest of the part from where on each batch has to be proven: a marker there does not have the
    CRC that its header states. The usual reader knows whether this is damage or the end of the log.
    """
    damage = Suspicion() if part.copies else UnloggedDamage(options.drop_malformed)
    seen, last, reached = 0, part.anchor, part.start_offset
    trust = replace(options.trust, check_crcs=proven)
    with SplitFile(part, trust, damage, headers_only=not proven) as source:
        reader = MarkerReader(part, options, damage)
        for chunk in source.chunks():
            seen, gaps = _report_skipped(damage, seen, (reached,))
            inside = chunk.headers[batch_headers.LAST_OFFSET] >= part.bounds.offsets.start
            headers = chunk.headers if inside.all() else chunk.headers[:, inside]
            found = _read_markers(reader, Chunk(chunk.data, headers, chunk.position), source, options, proven)
            if found is None:
                bounds = ScanBounds(OffsetRange(reached, part.bounds.offsets.end))
                at = int(chunk.headers[batch_headers.POSITION, 0])
                return replace(part, start=at, bounds=bounds, anchor=last if at else None)
            seen, _ = _report_skipped(damage, seen, ())
            last = BatchPlace(*chunk.headers[_PLACE, -1].tolist())
            reached = max(reached, int(chunk.headers[batch_headers.LAST_OFFSET, -1]) + 1)
            yield Stretch(headers, found.markers, gaps + found.gaps)
            follower.note_passed(source)
        seen, gaps = _report_skipped(damage, seen, (reached,))
        if gaps:
            yield Stretch(_NO_HEADERS, (), gaps)
        source.finish()
        follower.note_end(source)
    return None


def _report_skipped(damage: Damage, seen: int, gaps: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Logs the damage that was skipped after the first `seen` errors. Returns the number of all, and `gaps` if it
    logged one."""
    for error in damage.skipped[seen:]:
        logger.warning("skipped (mode=DROPMALFORMED): %s", error)
    return len(damage.skipped), gaps if len(damage.skipped) > seen else ()


def _read_markers(
    reader: MarkerReader, chunk: Chunk, source: SplitFile, options: ReadOptions, proven: bool
) -> Stretch | None:
    """Reads the markers of a chunk. None if one does not have its CRC, or is not whole."""
    control = np.flatnonzero(_is_control(chunk.headers))
    if not len(control) or (proven and len(chunk.data)):
        return reader.read(chunk)
    markers: list[Marker] = []
    gaps: list[int] = []
    has_bytes = len(chunk.data) > 0
    for column in control.tolist():
        position, size, crc = chunk.headers[
            [batch_headers.POSITION, batch_headers.SIZE, batch_headers.CRC], column
        ].tolist()
        at = position - chunk.position
        if size > options.max_batch_bytes:
            return None
        read = chunk.data[at : at + size] if has_bytes else bytearray(source.read_at(position, size))
        data = np.frombuffer(read, np.uint8)
        if len(data) < size or not crc_holds(memoryview(data), kafka_format.MAGIC_V2, crc):  # type: ignore[arg-type]  # arrays are buffers
            return None
        if not has_bytes:
            found = reader.read(Chunk(data, chunk.headers[:, [column]], position))
            markers += found.markers
            gaps += found.gaps
    return reader.read(chunk) if has_bytes else Stretch(chunk.headers, tuple(markers), tuple(gaps))


def _is_control(headers: HeaderTable) -> Mask:
    is_v2 = headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2
    return np.asarray(is_v2 & (headers[batch_headers.ATTRIBUTES] & kafka_format.CONTROL_MASK != 0))


# ---- the transactions ----


@dataclass(slots=True)
class _Transaction:
    """A transaction that is open at the place of the walk.

    first_timestamp, last_timestamp: ms, or NO_TIMESTAMP. records_before, bytes_before: of the log before it.
    """

    producer_id: int
    first_offset: int
    records_before: int = 0
    bytes_before: int = 0
    producer_epoch: int | None = None
    first_timestamp: int = kafka_format.NO_TIMESTAMP
    last_timestamp: int = kafka_format.NO_TIMESTAMP
    batches: int = 0
    records: int = 0
    size: int = 0


class _Run(NamedTuple):
    """Batches of one producer without a marker or a hole between them."""

    first_offset: int
    producer_id: int
    producer_epoch: int
    first_timestamp: int
    last_timestamp: int
    batches: int
    records: int
    size: int
    records_before: int
    bytes_before: int


class _Abort(NamedTuple):
    """An ABORT marker. first_offset: of the transaction that it ends, None if the log shows no such transaction."""

    producer_id: int
    first_offset: int | None


class _Replay:
    """Follows the producers of one log.

    reached: the offset after the last batch. directory: of the file that was read last. aborts: the ABORT markers of
    the segment at hand, by offset. has_hole: whether offsets were missing anywhere so far.
    """

    def __init__(self, task: TransactionTask) -> None:
        self.reached = 0
        self.directory = ""
        self.aborts: dict[int, _Abort] = {}
        self.has_hole = False
        self._task = task
        self._holes = [*task.holes]  # those that are not reached yet
        self._open: dict[int, _Transaction] = self._find_begun()
        self._records = 0
        self._bytes = 0
        self._newest = kafka_format.NO_TIMESTAMP
        self._unknown: list[str] = []

    def add(self, stretch: Stretch) -> Iterator[Row]:
        """Adds the next batches. Yields the transactions that end among them."""
        holes = [*stretch.gaps, *([self.reached] if stretch.ends_in_loss else [])]
        headers = stretch.headers
        if headers.shape[1]:
            self.reached = int(headers[batch_headers.LAST_OFFSET, -1]) + 1
            self._newest = max(self._newest, int(headers[batch_headers.MAX_TIMESTAMP].max()))
        while self._holes and self._holes[0] < self.reached:
            holes.append(self._holes.pop(0))
        events: list[tuple[int, int, Any]] = [(hole, 0, None) for hole in holes]
        events += [(run.first_offset, 1, run) for run in self._make_runs(stretch, holes)]
        events += [(marker.offset, 2, marker) for marker in stretch.markers]
        for offset, _, event in sorted(events, key=lambda each: each[:2]):
            if event is None:
                yield from self._pass_hole(offset)
            elif isinstance(event, Marker):
                yield from self._end(event)
            else:
                self._extend(event)

    def finish(self) -> Iterator[Row]:
        """Yields the transactions that are open at the end of the log. Warns of those whose end is not known."""
        if self._holes:
            yield from self._pass_hole(max(self.reached, self._holes[0]))
        for each in self._open.values():
            yield from self._make_row(each, OPEN)
        if self._unknown:
            more = len(self._unknown) - _MOST_NAMED
            named = ", ".join(self._unknown[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            logger.warning(
                "partition %s-%d: it is not known how the transaction of %s ended, as damage or missing offsets follow"
                " it (state unknown)",
                self._task.topic,
                self._task.partition,
                named,
            )

    def _find_begun(self) -> dict[int, _Transaction]:
        """Finds the transactions that began before the files, by the snapshot that a broker wrote at their first
        offset."""
        if not self._task.splits or self._task.splits[0].base_offset == 0:
            return {}
        first = self._task.splits[0]
        noted: list[str] = []
        base = first.base_offset
        state = newest_state(parent_of(first.path), first.storage, lambda offset: offset == base, noted)
        for sentence in noted:
            logger.warning("%s", sentence)
        begun = {} if state is None else state.open_transactions
        return {producer: _Transaction(producer, offset) for producer, offset in begun.items() if offset < base}

    def _make_runs(self, stretch: Stretch, holes: list[int]) -> Iterator[_Run]:
        """Yields the data of transactions in a stretch, as runs in the order of offsets. It counts all batches too."""
        headers = stretch.headers
        if not headers.shape[1]:
            return
        readable = headers[batch_headers.LAST_OFFSET] >= self._task.start
        counted = readable & ~_is_control(headers)
        records = np.where(counted, _count_records(headers), 0)
        sizes = np.where(readable, headers[batch_headers.SIZE], 0)
        records_before = self._records + np.cumsum(records) - records
        bytes_before = self._bytes + np.cumsum(sizes) - sizes
        self._records += int(records.sum())
        self._bytes += int(sizes.sum())
        columns = np.flatnonzero(transactional_data(headers))
        if not len(columns):
            return
        bases, producers, epochs, latest = headers[
            [
                batch_headers.BASE_OFFSET,
                batch_headers.PRODUCER_ID,
                batch_headers.PRODUCER_EPOCH,
                batch_headers.MAX_TIMESTAMP,
            ]
        ][:, columns]
        edges = np.sort(np.array([marker.offset for marker in stretch.markers] + holes, np.int64))
        slots = np.searchsorted(edges, bases, side="right")
        starts = np.flatnonzero(np.concatenate(([True], (np.diff(producers) != 0) | (np.diff(slots) != 0))))
        first_columns = columns[starts]
        earliest, _ = time_span(headers[:, first_columns])
        for values in zip(
            bases[starts].tolist(),
            producers[starts].tolist(),
            epochs[starts].tolist(),
            earliest.tolist(),
            np.maximum.reduceat(latest, starts).tolist(),
            np.add.reduceat(readable[columns].astype(np.int64), starts).tolist(),
            np.add.reduceat(records[columns], starts).tolist(),
            np.add.reduceat(sizes[columns], starts).tolist(),
            records_before[first_columns].tolist(),
            bytes_before[first_columns].tolist(),
            strict=True,
        ):
            yield _Run(*values)

    def _extend(self, run: _Run) -> None:
        """Adds a run to the open transaction of its producer, or begins one."""
        each = self._open.get(run.producer_id)
        if each is None:
            each = _Transaction(run.producer_id, run.first_offset, run.records_before, run.bytes_before)
            self._open[run.producer_id] = each
        if each.producer_epoch is None:
            each.producer_epoch, each.first_timestamp = run.producer_epoch, run.first_timestamp
        each.last_timestamp = max(each.last_timestamp, run.last_timestamp)
        each.batches += run.batches
        each.records += run.records
        each.size += run.size

    def _end(self, marker: Marker) -> Iterator[Row]:
        each = self._open.pop(marker.producer_id, None)
        if marker.aborts:
            self.aborts[marker.offset] = _Abort(marker.producer_id, None if each is None else each.first_offset)
        if each is not None and marker.offset >= self._task.start:
            yield from self._make_row(each, ABORTED if marker.aborts else COMMITTED, marker)

    def _pass_hole(self, offset: int) -> Iterator[Row]:
        """Gives up the transactions that began before missing offsets, which begin at `offset`."""
        self.has_hole = True
        for each in [each for each in self._open.values() if each.first_offset < offset]:
            del self._open[each.producer_id]
            if offset > self._task.start:
                self._unknown.append(f"producer {each.producer_id} from offset {each.first_offset} on")
                yield from self._make_row(each, UNKNOWN)

    def _make_row(self, each: _Transaction, state: str, marker: Marker | None = None) -> Iterator[Row]:
        """Makes the row of a transaction. It yields none if the transaction has no part in the given files."""
        last = None if marker is None else marker.offset
        shown = self._task.shown
        end = kafka_format.MAX_OFFSET if last is None else last + 1
        if shown is not None and all(span.intersect(OffsetRange(each.first_offset, end)).is_empty for span in shown):
            return
        ended = self._newest if state == OPEN else kafka_format.NO_TIMESTAMP if marker is None else marker.timestamp
        known = kafka_format.NO_TIMESTAMP not in (ended, each.first_timestamp)
        is_open = state == OPEN
        yield {
            "topic": self._task.topic,
            "partition": self._task.partition,
            "producerId": each.producer_id,
            "producerEpoch": each.producer_epoch,
            "firstOffset": each.first_offset,
            "lastOffset": last,
            "state": state,
            "batches": each.batches,
            "records": each.records,
            "bytes": each.size,
            "firstTimestamp": _to_micros(each.first_timestamp),
            "lastTimestamp": _to_micros(each.last_timestamp),
            "durationMs": ended - each.first_timestamp if known else None,
            "coordinatorEpoch": None if marker is None else marker.coordinator_epoch,
            "withheldRecords": self._records - each.records_before if is_open else None,
            "withheldBytes": self._bytes - each.bytes_before if is_open else None,
        }


def _count_records(headers: HeaderTable) -> npt.NDArray[np.int64]:
    """The records of each batch. An entry of magic 0 or 1 counts as one, since its header has no count."""
    return np.where(headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2, headers[batch_headers.COUNT], 1)


def _to_micros(millis: int) -> int | None:
    return None if millis == kafka_format.NO_TIMESTAMP or abs(millis) > MAX_MILLIS else millis * 1000


# ---- what the .txnindex files say ----


@dataclass(slots=True)
class _AbortIndexes:
    """Compares the `.txnindex` files with the log, where they are there. The rows come from the log alone.

    sizes: bytes of the files by path, for each directory that was listed.
    """

    task: TransactionTask
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)

    def compare(self, split: SegmentSplit, replay: _Replay) -> None:
        """Compares the file of one segment with the aborts that the log has there. Logs a contradiction."""
        found, replay.aborts = replay.aborts, {}
        if replay.has_hole:
            return  # a marker, or the beginning of a transaction, may be in the hole
        path = split.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.TRANSACTION_INDEX_SUFFIX
        size = self._list_sizes(parent_of(path), split).get(name_of(path))
        if size is None:
            return
        wrong = [*self._find_wrong(written_aborts(path, split.storage, size), found, split, replay.reached)]
        if wrong:
            more = f" (and {len(wrong) - 1:,} more contradictions)" if len(wrong) > 1 else ""
            logger.warning(
                "%r contradicts the log: it %s%s; the rows go by the markers in the log, but a broker tells its"
                " read_committed consumers which records to leave out by this file",
                path,
                wrong[0],
                more,
            )

    def _find_wrong(
        self, index: TransactionIndex, found: dict[int, _Abort], split: SegmentSplit, reached: int
    ) -> Iterator[str]:
        """Yields what an index says and the log does not, or the log and not the index, as parts of a sentence."""
        if index.fault is not None:
            return
        listed = set()
        columns = (index.producer_ids, index.first_offsets, index.last_offsets)
        for producer, first, last in zip(*(column.tolist() for column in columns), strict=True):
            if not split.start_offset <= last < min(reached, split.bounds.offsets.end):
                continue  # another copy's, or written since
            listed.add(last)
            abort = found.get(last)
            if abort is None or abort.producer_id != producer:
                if not self.task.compacted:
                    yield f"lists an abort of producer {producer} at offset {last}, where the log has none"
            elif first >= self.task.splits[0].base_offset and self._differs(first, abort.first_offset):
                begins = "has no data of it" if abort.first_offset is None else f"has it from {abort.first_offset} on"
                yield f"lists an abort of producer {producer} from offset {first} to {last}, but the log {begins}"
        for last, abort in found.items():
            if last not in listed and abort.first_offset is not None:
                yield f"lacks the abort of producer {abort.producer_id} from offset {abort.first_offset} to {last}"

    def _differs(self, listed: int, found: int | None) -> bool:
        """Whether the first offset in the index contradicts the log. Compaction removes aborted records."""
        if self.task.compacted:
            return found is not None and found < listed
        return found != listed

    def _list_sizes(self, directory: str, split: SegmentSplit) -> dict[str, int]:
        """Lists the `.txnindex` files of a directory once."""
        if directory not in self.sizes:
            try:
                entries = list_directory(directory, split.storage)
            except UNUSABLE:
                entries = []
            self.sizes[directory] = {
                each.name: each.size for each in entries if each.name.endswith(kafka_format.TRANSACTION_INDEX_SUFFIX)
            }
        return self.sizes[directory]
