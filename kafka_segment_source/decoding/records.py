"""Chunks of batches → RecordColumns. The steps: select the wanted batches, decompress them, run the kernel.

A batch is not decoded if its header proves that none of its rows is wanted. The kernel drops the other unwanted rows
exactly. Rows of one RecordColumns come in offset order, and so do the RecordColumns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.payloads import Group, Unpacker
from kafka_segment_source.decoding.scratch import MAX_ROWS, Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import (
    arrow_buffers,
    batch_headers,
    batch_rules,
    message_sets,
    record_batches,
    record_rows,
)
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.schema import MAX_MILLIS
from kafka_segment_source.storage.files import Bytes
from kafka_segment_source.trust import Trust

MAX_BYTES = 16 * 1024 * 1024  # one RecordColumns ends after this many record bytes


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """`count` records: the places of their parts in `source`, and the headers of their batches.

    longs: int64[LONGS, ≥ count], ints: int32[INTS, ≥ count] (kernels.record_batches).
    headers: int64[FIELDS, n].
    key_bytes, value_bytes: of all keys and of all values. The next RecordColumns uses all arrays again.
    """

    count: int
    source: Bytes
    headers: HeaderTable
    longs: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int32]
    key_bytes: int
    value_bytes: int


class Decoder:
    """Decodes the chunks of one split. All chunks use the same scratch arrays.

    microseconds: whether the column timestamp is wanted. Then a timestamp too large for microseconds is damage.
    scratch: the arrays; None for new ones.
    keep: returns the wanted ones of some records. It is called for records that are whole and sound, so it hides no
    damage. None: all.
    """

    def __init__(
        self,
        split: SegmentSplit,
        trust: Trust,
        damage: Damage,
        include_control: bool,
        microseconds: bool = False,
        scratch: Scratch | None = None,
        keep: Callable[[RecordColumns], RecordColumns] | None = None,
    ) -> None:
        scratch = scratch or Scratch()
        self._faults = Faults(split.path)
        self._check_crcs = trust.check_crcs
        self._unpacker = Unpacker(split.path, trust.max_batch_bytes, damage, scratch.plain)
        self._include_control = include_control
        self._damage = damage
        self._longs = scratch.longs
        self._ints = scratch.ints
        # An empty header takes two bytes in a record, and sixteen times as much in the columns. So maxBatchBytes limits
        # the number of headers by their size in the columns.
        most_headers = trust.max_batch_bytes // record_batches.HEADER_COST
        self._limits = np.array([MAX_ROWS, MAX_BYTES, most_headers], np.int64)
        self._report = np.zeros(record_batches.REPORT, np.int64)
        self._inclusive = _make_inclusive(split.bounds)
        self._microseconds = microseconds
        self._keep = keep

    def decode(self, chunk: Chunk) -> Iterator[RecordColumns]:
        """Yields the wanted records of a chunk. Damage raises the error of a damaged batch, or reports and skips it."""
        for group in self.groups(chunk):
            yield from self.decode_group(group)

    def groups(self, chunk: Chunk) -> Iterator[Group]:
        """Yields the batches of a chunk that may hold a wanted record, in groups. Those with damage are reported, and
        left out, if damage is to be dropped."""
        for group in self._unpacker.groups(chunk, self._select_batches(chunk.headers)):
            sound = self._remove_damaged(group) if self._damage.drop else group
            if sound is not None:
                yield sound

    def find_first_offsets(self, chunk: Chunk) -> dict[int, int]:
        """Decodes the wanted batches of a chunk, and drops damage. Returns the first offset of each sound wrapper
        of magic 0 or 1, by position: its header states only the last one."""
        firsts: dict[int, int] = {}
        for group in self.groups(chunk):
            if group.is_message_set:
                places = group.headers[[batch_headers.POSITION, batch_headers.BASE_OFFSET]]
                firsts.update(places.T.tolist())
        return firsts

    def _select_batches(self, headers: HeaderTable) -> HeaderTable:
        """Returns the headers of the batches that may hold a wanted row."""
        chosen = np.empty(headers.shape[1], np.int64)
        count: int = batch_rules.select_batches(headers, self._inclusive, self._include_control, chosen)
        return headers if count == headers.shape[1] else headers[:, chosen[:count]]

    def decode_group(self, group: Group) -> Iterator[RecordColumns]:
        """Yields the wanted records of a group from `groups`. Raises the error of a damaged batch."""
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        status = record_batches.FULL
        while status != record_batches.DONE:
            records, status = self._find_records(group, cursor)
            if status not in (record_batches.DONE, record_batches.FULL):
                raise self._make_error(group, int(cursor[record_batches.AT_BATCH]))
            if records.count and self._keep is not None:
                records = self._keep_wanted(records, self._keep)
            if records.count:
                yield records

    def _keep_wanted(self, records: RecordColumns, keep: Callable[[RecordColumns], RecordColumns]) -> RecordColumns:
        """Returns the wanted ones of some records. A timestamp that is damage is so in the others too."""
        if self._microseconds:
            _, damage = to_microseconds(self._faults.path, records)
            if damage is not None:
                raise damage
        return keep(records)

    def _remove_damaged(self, group: Group) -> Group | None:
        """Returns the group without its damaged batches, and reports each of them. It is None if no batch is left.

        No row of a damaged batch may be returned. So the whole group is decoded before its first row is returned.
        """
        cursor = np.zeros(record_batches.CURSOR, np.int64)
        error: DataError | None
        while True:
            columns, status = self._find_records(group, cursor)
            at, error = int(cursor[record_batches.AT_BATCH]), None
            if self._microseconds:
                _, error = to_microseconds(self._faults.path, columns)
            if error is not None:
                at = int(np.searchsorted(group.headers[batch_headers.POSITION], error.position))
            elif status not in (record_batches.DONE, record_batches.FULL):
                error = self._make_error(group, at)
            if error is not None:
                self._damage.report(error)
                if group.headers.shape[1] == 1:
                    return None
                group = group.without(at)
                cursor[record_batches.AT_BATCH], cursor[record_batches.AT_RECORD] = at, 0
            elif status == record_batches.DONE:
                return group

    def _find_records(self, group: Group, cursor: npt.NDArray[np.int64]) -> tuple[RecordColumns, int]:
        """Finds the next wanted records of a group. Returns them with the kernel's status."""
        batches = (group.source, group.headers, group.payloads, self._inclusive, self._limits)
        into = (cursor, self._longs, self._ints, self._report)
        if group.is_message_set:
            count = message_sets.decode_messages(*batches, *into, self._check_crcs)
        else:
            count = record_batches.decode_records(*batches, *into)
        status, _, _, key_bytes, value_bytes, _ = self._report.tolist()
        columns = RecordColumns(count, group.source, group.headers, self._longs, self._ints, key_bytes, value_bytes)
        return columns, status

    def find_into(
        self, find: Callable[..., int], group: Group, cursor: npt.NDArray[np.int64], others: Sequence[Any]
    ) -> int:
        """Calls a kernel that finds the next wanted records of a group of magic 2, and does more with them.

        find: takes what `kernels.record_batches.decode_records` takes, and then `others`. cursor: int64[CURSOR], zeros
        at first. Returns what it returns. Raises the error of a damaged batch.
        """
        batches = (group.source, group.headers, group.payloads, self._inclusive, self._limits)
        found = find(*batches, cursor, self._longs, self._ints, self._report, *others)
        if not self.is_done and self._report[record_batches.STATUS] != record_batches.FULL:
            raise self._make_error(group, int(cursor[record_batches.AT_BATCH]))
        return found

    def build_rows(self, group: Group, cursor: npt.NDArray[np.int64], buffers: Sequence[npt.NDArray[Any]]) -> int:
        """Fills buffers with the next wanted records of a group of magic 2. Returns their number.

        cursor: int64[CURSOR], zeros at first. buffers: all that `kernels.record_rows.build_rows` takes behind
        `most_millis`. Raises the error of a damaged batch.
        """
        count = self.find_into(record_rows.build_rows, group, cursor, (MAX_MILLIS, *buffers))
        made = buffers[-1]
        if made[record_rows.BEYOND_BATCH] >= 0:
            header = group.headers[:, int(made[record_rows.BEYOND_BATCH])]
            offset, millis = made[[record_rows.BEYOND_OFFSET, record_rows.BEYOND_MILLIS]].tolist()
            raise self._faults.beyond_microseconds(header, offset, millis, MAX_MILLIS)
        return count

    @property
    def is_done(self) -> bool:
        """Whether the last call of `find_into` came to the end of its group."""
        return bool(self._report[record_batches.STATUS] == record_batches.DONE)

    def _make_error(self, group: Group, column: int) -> DataError:
        header, payload = group.headers[:, column], group.payloads[:, column]
        return self._faults.bad_record(header, self._report, self._limits, group.source, payload)


def to_microseconds(path: str, records: RecordColumns) -> tuple[npt.NDArray[np.int64], DataError | None]:
    """Returns the timestamps in µs, int64[count], and the error about the first one that µs cannot hold, if any."""
    millis, micros = records.longs[record_batches.TIMESTAMP], np.empty(records.count, np.int64)
    at: int = arrow_buffers.to_microseconds(millis, records.count, MAX_MILLIS, micros)
    if at == records.count:
        return micros, None
    header = records.headers[:, records.ints[record_batches.BATCH, at]]
    offset = int(records.longs[record_batches.OFFSET, at])
    return micros, Faults(path).beyond_microseconds(header, offset, int(millis[at]), MAX_MILLIS)


def _make_inclusive(bounds: ScanBounds) -> npt.NDArray[np.int64]:
    """Converts half-open bounds into the kernel's inclusive 64-bit bounds."""
    offsets, times = bounds.offsets, bounds.times
    return np.array([offsets.start, offsets.end - 1, times.since, times.until - 1], np.int64)
