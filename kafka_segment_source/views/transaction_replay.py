"""Adds up the transactions of one log, from their data to their markers, and makes their rows.

`transactions/producers.py` says where they begin and end. What is open before missing offsets has the state `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.batch_rows import time_span
from kafka_segment_source.decoding.header_table import is_control, record_counts
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.producer_snapshots import newest_state
from kafka_segment_source.reporting import Warnings, logger, name_some
from kafka_segment_source.schema import MAX_MILLIS
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.transactions.markers import Marker
from kafka_segment_source.transactions.producers import DATA, HOLE, Producers, Runs, list_events
from kafka_segment_source.transactions.stretches import Stretch
from kafka_segment_source.views.transaction_table import ABORTED, COMMITTED, OPEN, UNKNOWN, TransactionTask

_MOST_NAMED = 3  # of transactions in one warning

Row = dict[str, Any]


@dataclass(slots=True)
class _Transaction:
    """A transaction that is open at the place of the walk.

    first_timestamp, last_timestamp: ms, or NO_TIMESTAMP.
    records_before, bytes_before: of the log before it.
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
    """What the batches of a run add up to (`producers.Runs`)."""

    producer_epoch: int
    first_timestamp: int
    last_timestamp: int
    batches: int
    records: int
    size: int
    records_before: int
    bytes_before: int


class Abort(NamedTuple):
    """An ABORT marker.

    first_offset: of the transaction that it ends, None if the log shows no such transaction.
    """

    producer_id: int
    first_offset: int | None


class Replay:
    """Follows the producers of one log.

    reached: the offset after the last batch. directory: of the file that is read. seam: where
    another copy began to be read; what began before it may have its marker in the copy before alone. aborts: the ABORT
    markers of the segment at hand, by offset. has_hole: whether offsets were missing anywhere so far.
    """

    def __init__(self, task: TransactionTask) -> None:
        self.reached = 0
        self.directory = ""
        self.seam = 0
        self.aborts: dict[int, Abort] = {}
        self.has_hole = False
        self._task = task
        self._holes = [*task.holes]  # those that are not reached yet
        self._begun = self._find_begun()
        self._producers, self._sums = self._open_begun()
        self._last_gap = -1  # where the last gap of offsets begins
        self._shown_to = 0  # ended transactions with a marker before it are rows already
        self._records = 0
        self._bytes = 0
        self._newest = kafka_format.NO_TIMESTAMP
        self._unknown: list[str] = []

    def add(self, stretch: Stretch) -> Iterator[Row]:
        """Adds the next batches. Yields the transactions that end among them."""
        holes = [*stretch.gaps, *([] if stretch.loss is None else [self.reached])]
        headers = stretch.headers
        if headers.shape[1]:
            self._note_gap(headers)
            self.reached = int(headers[batch_headers.LAST_OFFSET, -1]) + 1
            self._newest = max(self._newest, int(headers[batch_headers.MAX_TIMESTAMP].max()))
        while self._holes and self._holes[0] < self.reached:
            holes.append(self._holes.pop(0))
        runs = Runs(headers, stretch.markers, holes)
        sums = iter(self._sum_runs(headers, runs))
        markers = {marker.offset: marker for marker in stretch.markers}
        for offset, kind, producer_id in list_events(runs, stretch.markers, holes):
            if kind == HOLE:
                yield from self._pass_hole(offset)
            elif kind == DATA:
                self._extend(producer_id, offset, next(sums))
            else:
                yield from self._end(markers[offset])

    def find_oldest(self) -> int | None:
        """Finds where the oldest open transaction begins in the files. None if none is open."""
        first_offsets = self._producers.open.values()
        return max(min(first_offsets), self._task.splits[0].base_offset) if first_offsets else None

    def go_back(self) -> None:
        """Forgets what is open, and goes back to where the oldest of it begins: the log is walked again from there on.

        Transactions that have ended before the present place are rows already, and are no rows again.
        """
        self._shown_to = max(self._shown_to, self.reached)
        oldest = min(self._sums.values(), key=lambda transaction: transaction.first_offset)
        self._records, self._bytes = oldest.records_before, oldest.bytes_before
        self.reached = max(oldest.first_offset, self._task.splits[0].base_offset)
        is_from_before = oldest.first_offset in self._begun.values()
        self._producers, self._sums = self._open_begun() if is_from_before else (Producers({}), {})
        self.directory, self.seam = "", 0  # nothing that is open was read from another copy
        self.has_hole = True  # what the index of a segment lists may have begun before

    def finish(self) -> Iterator[Row]:
        """Yields the transactions that are open at the end of the log. Warns of those whose end is not known."""
        if self._holes:
            yield from self._pass_hole(max(self.reached, self._holes[0]))
        for transaction in self._sums.values():
            if transaction.first_offset < self._last_gap:
                yield from self._give_up(transaction)
            else:
                yield from self._make_row(transaction, OPEN)
        if self._unknown:
            logger.warning(
                "partition %s-%d: it is not known how the transaction of %s ended, as damage or missing offsets follow"
                " it (state unknown)",
                self._task.topic,
                self._task.partition,
                name_some(self._unknown, _MOST_NAMED),
            )

    def _open_begun(self) -> tuple[Producers, dict[int, _Transaction]]:
        return Producers(self._begun), {
            producer: _Transaction(producer, first) for producer, first in self._begun.items()
        }

    def _find_begun(self) -> dict[int, int]:
        """Finds the transactions that began before the files, by the snapshot that a broker wrote at their first
        offset. Returns producer id → first offset."""
        if not self._task.splits or self._task.splits[0].base_offset == 0:
            return {}
        first = self._task.splits[0]
        noted = Warnings()
        base = first.base_offset
        state = newest_state(parent_of(first.path), first.storage, lambda offset: offset == base, noted)
        for sentence in noted:
            logger.warning("%s", sentence)
        begun = {} if state is None else state.open_transactions
        return {producer: offset for producer, offset in begun.items() if offset < base}

    def _sum_runs(self, headers: HeaderTable, runs: Runs) -> Iterator[_Run]:
        """Counts the records and bytes of all batches. Returns what each run adds up to, in the order of offsets."""
        readable = headers[batch_headers.LAST_OFFSET] >= self._task.start
        counted = readable & ~is_control(headers)
        records = np.where(counted, record_counts(headers), 0)
        sizes = np.where(readable, headers[batch_headers.SIZE], 0)
        records_before = self._records + np.cumsum(records) - records
        bytes_before = self._bytes + np.cumsum(sizes) - sizes
        self._records += int(records.sum())
        self._bytes += int(sizes.sum())
        columns, starts = runs.columns, runs.starts
        if not len(columns):
            return iter(())
        epochs, latest = headers[[batch_headers.PRODUCER_EPOCH, batch_headers.MAX_TIMESTAMP]][:, columns]
        first_columns = columns[starts]
        earliest, _ = time_span(headers[:, first_columns])
        values = (
            epochs[starts],
            earliest,
            np.maximum.reduceat(latest, starts),
            np.add.reduceat(readable[columns].astype(np.int64), starts),
            np.add.reduceat(records[columns], starts),
            np.add.reduceat(sizes[columns], starts),
            records_before[first_columns],
            bytes_before[first_columns],
        )
        return map(_Run._make, zip(*(value.tolist() for value in values), strict=True))

    def _extend(self, producer_id: int, offset: int, run: _Run) -> None:
        """Adds a run to the open transaction of its producer, or begins one."""
        if self._producers.take_data(producer_id, offset):
            self._sums[producer_id] = _Transaction(producer_id, offset, run.records_before, run.bytes_before)
        transaction = self._sums[producer_id]
        if transaction.producer_epoch is None:
            transaction.producer_epoch, transaction.first_timestamp = run.producer_epoch, run.first_timestamp
        transaction.last_timestamp = max(transaction.last_timestamp, run.last_timestamp)
        transaction.batches += run.batches
        transaction.records += run.records
        transaction.size += run.size

    def _end(self, marker: Marker) -> Iterator[Row]:
        first = self._producers.take_marker(marker.producer_id)
        if marker.aborts:
            self.aborts[marker.offset] = Abort(marker.producer_id, first)
        if first is None:
            return
        transaction = self._sums.pop(marker.producer_id)
        if marker.offset >= max(self._task.start, self._shown_to):
            yield from self._make_row(transaction, ABORTED if marker.aborts else COMMITTED, marker)

    def _pass_hole(self, offset: int) -> Iterator[Row]:
        """Gives up the transactions that began before missing offsets, which begin at `offset`."""
        self.has_hole = True
        for producer_id in self._producers.take_hole(offset):
            transaction = self._sums.pop(producer_id)
            if offset > self._task.start and offset >= self._shown_to:
                yield from self._give_up(transaction)

    def _give_up(self, transaction: _Transaction) -> Iterator[Row]:
        self._unknown.append(f"producer {transaction.producer_id} from offset {transaction.first_offset} on")
        yield from self._make_row(transaction, UNKNOWN)

    def _note_gap(self, headers: HeaderTable) -> None:
        """Notes the last gap of offsets between batches.

        The log cleaner stays below the first offset of every open transaction (Kafka:
        LogCleanerManager.cleanableOffsets). So a transaction before a gap is not open, even if no marker ends it. A
        wrapper of magic 0 or 1 states only its last offset, so it shows no gap.
        """
        bases = headers[batch_headers.BASE_OFFSET]
        ends = np.concatenate(([self.reached or bases[0]], headers[batch_headers.LAST_OFFSET, :-1] + 1))
        is_v2 = headers[batch_headers.MAGIC] == kafka_format.MAGIC_V2
        gaps = ends[is_v2 & (bases > ends)]
        if len(gaps):
            self._last_gap = int(gaps[-1])

    def _make_row(self, transaction: _Transaction, state: str, marker: Marker | None = None) -> Iterator[Row]:
        """Makes the row of a transaction. It yields none if the transaction has no part in the given files."""
        last = None if marker is None else marker.offset
        shown = self._task.shown
        end = kafka_format.MAX_OFFSET if last is None else last + 1
        if shown is not None and all(
            span.intersect(OffsetRange(transaction.first_offset, end)).is_empty for span in shown
        ):
            return
        ended = self._newest if state == OPEN else kafka_format.NO_TIMESTAMP if marker is None else marker.timestamp
        known = kafka_format.NO_TIMESTAMP not in (ended, transaction.first_timestamp)
        is_open = state == OPEN
        yield {
            "topic": self._task.topic,
            "partition": self._task.partition,
            "producerId": transaction.producer_id,
            "producerEpoch": transaction.producer_epoch,
            "firstOffset": transaction.first_offset,
            "lastOffset": last,
            "state": state,
            "batches": transaction.batches,
            "records": transaction.records,
            "bytes": transaction.size,
            "firstTimestamp": _to_micros(transaction.first_timestamp),
            "lastTimestamp": _to_micros(transaction.last_timestamp),
            "durationMs": ended - transaction.first_timestamp if known else None,
            "coordinatorEpoch": None if marker is None else marker.coordinator_epoch,
            "withheldRecords": self._records - transaction.records_before if is_open else None,
            "withheldBytes": self._bytes - transaction.bytes_before if is_open else None,
        }


def _to_micros(millis: int) -> int | None:
    return None if millis == kafka_format.NO_TIMESTAMP or abs(millis) > MAX_MILLIS else millis * 1000
