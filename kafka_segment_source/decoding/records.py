"""Chunks of batches → RecordColumns. The steps: select the wanted batches, decompress them, run the kernel.

A batch is not decoded if its header proves that none of its rows is wanted. The kernel drops the other unwanted rows
exactly. Rows of one RecordColumns come in offset order, and so do the RecordColumns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.payloads import Group, Unpacker
from kafka_segment_source.decoding.scratch import MAX_ROWS, Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers, message_sets, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.schema import MAX_MILLIS
from kafka_segment_source.storage.files import Bytes
from kafka_segment_source.trust import Trust

MAX_BYTES = 16 * 1024 * 1024  # one RecordColumns ends after this many record bytes


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """`count` records: the places of their parts in `source`, and the headers of their batches.

    longs: int64[LONGS, ≥ count], ints: int32[INTS, ≥ count] (kernels.record_batches). headers: int64[FIELDS, n]. The
    next RecordColumns uses all arrays again.
    """

    count: int
    source: Bytes
    headers: HeaderTable
    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]


class Decoder:
    """Decodes the chunks of one split. All chunks use the same scratch arrays.

    microseconds: whether the column timestamp is wanted. Then a timestamp too large for microseconds is damage.
    scratch: the arrays; None for new ones.
    """

    def __init__(
        self,
        split: SegmentSplit,
        trust: Trust,
        damage: Damage,
        include_control: bool,
        microseconds: bool = False,
        scratch: Scratch | None = None,
    ) -> None:
        scratch = scratch or Scratch()
        self._faults = Faults(split.path)
        self._bounds = split.bounds
        self._check_crcs = trust.check_crcs
        self._unpacker = Unpacker(split.path, trust.max_batch_bytes, damage, scratch.plain)
        self._include_control = include_control
        self._damage = damage
        self._longs = scratch.longs
        self._ints = scratch.ints
        self._limits = np.array([MAX_ROWS, MAX_BYTES], np.int64)
        self._inclusive = _make_inclusive(split.bounds)
        self._microseconds = microseconds
        self._most_headers = trust.max_batch_bytes // record_batches.HEADER_COST

    def decode(self, chunk: Chunk) -> Iterator[RecordColumns]:
        """Yields the wanted records of a chunk. Damage raises the error of a damaged batch, or reports and skips it."""
        wanted = chunk.headers[:, _select_batches(chunk.headers, self._bounds, self._include_control)]
        for group in self._unpacker.groups(chunk, wanted):
            sound = self._remove_damaged(group) if self._damage.drop else group
            if sound is not None:
                yield from self._decode_group(sound)

    def _decode_group(self, group: Group) -> Iterator[RecordColumns]:
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        while True:
            count, status, report = self._call_kernel(group, self._inclusive, cursor)
            if status not in (record_batches.DONE, record_batches.FULL):
                raise self._make_error(group, int(cursor[record_batches.AT_BATCH]), report)
            if count:
                records = RecordColumns(count, group.source, group.headers, self._longs, self._ints)
                error = self._check_header_counts(records)
                if error is not None:
                    raise error
                yield records
            if status == record_batches.DONE:
                return

    def _remove_damaged(self, group: Group) -> Group | None:
        """Returns the group without its damaged batches, and reports each of them. It is None if no batch is left.

        No row of a damaged batch may be returned. So the whole group is decoded before its first row is returned.
        """
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        error: DataError | None
        while True:
            count, status, report = self._call_kernel(group, self._inclusive, cursor)
            found = RecordColumns(count, group.source, group.headers, self._longs, self._ints)
            at, error = int(cursor[record_batches.AT_BATCH]), self._check_header_counts(found)
            if error is None and self._microseconds:
                error = beyond_microseconds(self._faults.path, found)
            if error is not None:
                at = int(np.searchsorted(group.headers[batch_headers.POSITION], error.position))
            elif status not in (record_batches.DONE, record_batches.FULL):
                error = self._make_error(group, at, report)
            if error is not None:
                self._damage.report(error)
                if group.headers.shape[1] == 1:
                    return None
                group = group.without(at)
                cursor[record_batches.AT_BATCH], cursor[record_batches.AT_RECORD] = at, 0
            elif status == record_batches.DONE:
                return group

    def _call_kernel(
        self, group: Group, bounds: npt.NDArray[np.int64], cursor: npt.NDArray[np.int64]
    ) -> tuple[int, int, npt.NDArray[np.int64]]:
        report = np.zeros(3, np.int64)
        into = (self._limits, cursor, self._longs, self._ints, report)
        if group.is_message_set:
            count = message_sets.decode_messages(
                group.source, group.headers, group.payloads, bounds, *into, self._check_crcs
            )
        else:
            count = record_batches.decode_records(group.source, group.headers, group.payloads, bounds, *into)
        return int(count), int(report[record_batches.STATUS]), report

    def _check_header_counts(self, records: RecordColumns) -> DataError | None:
        """Returns an error if a record has too many headers.

        An empty header takes two bytes in a record, and sixteen times as much in the columns. So maxBatchBytes limits
        the number of headers by their size in the columns.
        """
        counts = records.ints[record_batches.HEADERS_COUNT, : records.count]
        if not records.count or counts.max() <= self._most_headers:
            return None
        at = int(np.argmax(counts > self._most_headers))
        header = records.headers[:, records.ints[record_batches.BATCH, at]]
        return self._faults.too_many_headers(header, int(counts[at]), self._most_headers)

    def _make_error(self, group: Group, column: int, report: npt.NDArray[np.int64]) -> DataError:
        return self._faults.bad_record(group.headers[:, column], report, group.source, group.payloads[:, column])


def beyond_microseconds(path: str, records: RecordColumns) -> DataError | None:
    """The error about the first record whose timestamp microseconds cannot hold; None if there is none."""
    millis = records.longs[record_batches.TIMESTAMP, : records.count]
    wrong = (millis > MAX_MILLIS) | (millis < -MAX_MILLIS)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    header = records.headers[:, records.ints[record_batches.BATCH, at]]
    return Faults(path).beyond_microseconds(
        header, int(records.longs[record_batches.OFFSET, at]), int(millis[at]), MAX_MILLIS
    )


def _make_inclusive(bounds: ScanBounds) -> npt.NDArray[np.int64]:
    """Converts half-open bounds into the kernel's inclusive 64-bit bounds."""
    offsets, times = bounds.offsets, bounds.times
    return np.array([offsets.start, offsets.end - 1, times.since, times.until - 1], np.int64)


def _select_batches(headers: HeaderTable, bounds: ScanBounds, include_control: bool) -> npt.NDArray[np.bool_]:
    """Marks the batches that may hold a wanted row, by their headers.

    maxTimestamp is an upper bound of the timestamps. A header has no lower bound. Under LogAppendTime, maxTimestamp is
    every row's timestamp. A wrapper of magic 0 or 1 states only its last offset. Its timestamp is used only under
    LogAppendTime, since Kafka 0.10.0 stored the timestamp that the producer sent.
    """
    attributes, latest = headers[batch_headers.ATTRIBUTES], headers[batch_headers.MAX_TIMESTAMP]
    offsets, times = bounds.offsets, bounds.times
    append_time = (attributes & kafka_format.TIMESTAMP_TYPE_MASK != 0) & (
        headers[batch_headers.MAGIC] > kafka_format.MAGIC_V0
    )
    wrapper = (headers[batch_headers.MAGIC] < kafka_format.MAGIC_V2) & (
        attributes & kafka_format.CODEC_MASK != kafka_format.CODEC_NONE
    )
    wanted = headers[batch_headers.COUNT] != 0
    if not include_control:
        wanted &= (headers[batch_headers.MAGIC] < kafka_format.MAGIC_V2) | (attributes & kafka_format.CONTROL_MASK == 0)
    wanted &= (headers[batch_headers.LAST_OFFSET] >= offsets.start) & (
        (headers[batch_headers.BASE_OFFSET] < offsets.end) | wrapper
    )
    wanted &= (latest >= times.since) | (wrapper & ~append_time)
    if times.has_until:
        wanted &= ~append_time | (latest < times.until)
    return np.asarray(wanted)
