"""One segment of a log → whether it is whole: its batches, their records where wanted, and its index files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.header_table import record_counts
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.split import split_of
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataError, DataLossError, FileChangedError, StorageError
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_rules import (
    Batches,
    Facts,
    batches_of,
    check_offset_index,
    check_time_index,
    check_transaction_index,
)
from kafka_segment_source.inspection.tier_rules import check_tier
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.segments import ListedLog, PartitionLog, Segment
from kafka_segment_source.reporting import Advance
from kafka_segment_source.storage.files import file_version
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Trust

_LOST = "records here cannot be read: a query ends with an error (mode=FAILFAST) or leaves them out (DROPMALFORMED); look for another replica of this partition"
_NEWER = "a newer Kafka wrote this: a query of these records ends with an error in every mode; look for a newer kafka-segment-source"
_HIDDEN = "a read with 'since' may pass over such a record, since it skips batches by their maxTimestamp"
_TORN = "a batch was being written when the broker died or the file was copied; reads end before it, and a broker drops it when it starts"
_PREALLOCATED = (
    "space that the broker has taken in advance (preallocate=true) or lost in a power failure; reads end before it"
)
_BAD_DISK = "the file system does not give the bytes from there on"
CHANGED = "a broker at work deletes, compacts and truncates: verify again, or verify a snapshot of the disk"
_EPOCHS = (
    "no CRC covers it, so one of the two batches is damaged there; their records are good, and between copies neither"
    " epoch decides"
)


@dataclass(slots=True)
class _Noted(Damage):
    """Skips damage and newer formats, and keeps the skipped ranges. It logs nothing."""

    ranges: list[tuple[DataError, int | None]] = field(default_factory=list)  # None: only that batch

    def allow(self, error: DataError) -> None:
        self.confirm()

    def report(self, error: DataError) -> None:
        self.confirm()
        self.ranges.append((self.explain(error), None))

    def skip(self, error: DataError, end: int) -> None:
        self.ranges.append((self.explain(error), end))


class SegmentCheck:
    """Verifies one segment. Afterwards it holds the results. `read` alone gives the facts about its batches."""

    def __init__(self, log: ListedLog, segment: Segment, deep: bool, max_batch_bytes: int) -> None:
        self.segment = segment
        self.findings: list[Finding] = []
        self.batches: Batches = batches_of([])
        self.records = 0
        self.gap_is_loss = False  # a read of the segment says that offsets before the next one are missing
        self.end = 0  # byte position where the good batches end
        self.was_read = False  # the segment was read to its end, damaged or not
        self.has_changed = False  # the path leads to another file than the listed one, or to none
        self._split = split_of(PartitionLog.of(log), segment, ScanBounds(), gap_is_loss=not segment.is_last)
        self._trust = Trust(max_batch_bytes=max_batch_bytes)
        self._damage = _Noted(drop=True)
        self._decoder: Decoder | None = None
        if deep:
            self._decoder = Decoder(self._split, self._trust, self._damage, include_control=True)

    @property
    def damaged(self) -> tuple[tuple[int, int], ...]:
        """The byte ranges that were skipped."""
        return tuple((error.position, end) for error, end in self._damage.ranges if end is not None)

    @property
    def has_gaps(self) -> bool:
        """Whether offsets are missing between two of its batches, or before the first one. A wrapper of magic 0 or 1
        does not state where it begins."""
        batches = self.batches
        before = np.append(self.segment.base_offset, batches.last_offsets[:-1] + 1)
        return bool(len(batches) and (batches.is_v2 & (batches.base_offsets > before)).any())

    @property
    def last_offset(self) -> int:
        return int(self.batches.last_offsets[-1]) if len(self.batches) else self.segment.base_offset - 1

    def is_of(self, segment: Segment) -> bool:
        """Whether this check is still valid for the segment as it is listed now."""
        same_place = self.segment.next_base_offset == segment.next_base_offset
        same_file = self.segment.version.is_same_file(segment.version) and self.segment.size <= segment.size
        return not self.has_changed and same_place and same_file

    @property
    def facts(self) -> Facts:
        """What was read, to compare index files with."""
        return Facts(self.segment, self.batches, self.end, self.damaged)

    def run(self, advance: Advance) -> None:
        """Reads the segment once, then its index files."""
        if self.read(advance):
            self._check_indexes()

    def read(self, advance: Advance = lambda _: None) -> bool:
        """Reads the segment once. False if that is not possible, which `findings` then explain."""
        done = 0
        try:
            with SplitFile(self._split, self._trust, self._damage) as source:
                for end in self._read_chunks(source):
                    advance(end - done)
                    done = end
        except StorageError as error:
            self.findings.append(Finding(True, self.segment.path, str(error), _BAD_DISK, self.end, is_loss=True))
            return False
        except FileChangedError as error:
            self.has_changed = True
            self.findings = [Finding(False, self.segment.path, str(error), CHANGED, self.end)]
            return False
        finally:
            advance(self.segment.size - done)
        return True

    def _check_indexes(self) -> None:
        """Checks the index files against the batches of the segment, if its file has not been replaced meanwhile."""
        segment = self.segment
        facts = self.facts
        findings = [
            *check_offset_index(facts),
            *check_time_index(facts),
            *check_transaction_index(facts),
            *check_tier(facts),
        ]
        now = file_version(segment.path, segment.storage)
        if now is None or not now.is_same_file(segment.version) or (now != segment.version and not segment.is_last):
            self.has_changed = True
            what = f"file {segment.path!r} was replaced while it was verified"
            self.findings = [Finding(False, segment.path, what, CHANGED)]
        else:
            self.findings += findings

    def _read_chunks(self, source: SplitFile) -> Iterator[int]:
        """Reads the whole segment. After each chunk, it yields the byte position that it has reached."""
        tables: list[HeaderTable] = []
        for chunk in source.chunks():
            tables.append(chunk.headers.copy())
            self._look_at_chunk(chunk)
            yield self.end
        self.was_read = True
        self.batches = batches_of(tables)
        try:
            source.finish()
        except DataLossError:  # `verify.py` says so, unless the log is compacted
            self.gap_is_loss = True
            source.check_lost_end()
        self.findings += [_make_damage_finding(error, end) for error, end in self._damage.ranges]
        self.findings += self._find_fallen_epochs()
        self.findings += self._note_tail(source)

    def _find_fallen_epochs(self) -> list[Finding]:
        """Finds the first place where the leader epoch falls: epochs grow along a log, and no CRC covers them."""
        is_v2 = self.batches.is_v2
        epochs, positions = self.batches.leader_epochs[is_v2], self.batches.positions[is_v2]
        falls = np.flatnonzero((epochs[1:] < epochs[:-1]) & (epochs[1:] >= 0))
        if not len(falls):
            return []
        before, after = epochs[falls[0] : falls[0] + 2].tolist()
        offset = int(self.batches.base_offsets[is_v2][falls[0] + 1])
        what = f"the leader epoch falls from {before} to {after} at byte {positions[falls[0] + 1]}, offset {offset}"
        return [Finding(True, self.segment.path, what, _EPOCHS, int(positions[falls[0] + 1]), offset)]

    def _look_at_chunk(self, chunk: Chunk) -> None:
        headers = chunk.headers
        self.end = int(headers[batch_headers.POSITION, -1] + headers[batch_headers.SIZE, -1])
        self.records += int(record_counts(headers).sum())
        if self._decoder is None:
            return
        try:
            for records in self._decoder.decode(chunk):
                self.findings += _find_hidden_records(self.segment.path, records)
        except DataError as error:
            self.findings.append(_make_damage_finding(error, None))

    def _note_tail(self, source: SplitFile) -> Iterator[Finding]:
        """Yields a note about bytes after the last whole batch of a log, where BatchReader found them legal."""
        end = max([self.end, *(stop for _, stop in self.damaged)])
        left = self.segment.size - end
        if left > 0:
            zeros = not any(source.read_at(end, kafka_format.MAGIC_END))
            what = f"ends in {left:,} bytes of {'zeros' if zeros else 'a torn batch'}"
            yield Finding(False, self.segment.path, what, _PREALLOCATED if zeros else _TORN, end, self.last_offset + 1)


def _make_damage_finding(error: DataError, end: int | None) -> Finding:
    inside = "" if error.inside is None else f" at {error.inside}"
    what = f"{error.what}{inside}: found {error.found}, expected {error.expected}"
    skipped = "" if end is None else f" ({end - error.position:,} bytes, up to byte {end:,})"
    meaning = _LOST if error.is_skippable else _NEWER
    return Finding(True, error.path, what, meaning + skipped, error.position, error.offset, is_loss=True)


def _find_hidden_records(path: str, records: RecordColumns) -> Iterator[Finding]:
    """Finds records later than the maxTimestamp of their CreateTime batch; the first record of each such batch."""
    batch = records.ints[record_batches.BATCH, : records.count]
    timestamps = records.longs[record_batches.TIMESTAMP, : records.count]
    latest = records.headers[batch_headers.MAX_TIMESTAMP][batch]
    wrong = (timestamps > latest) & (records.headers[batch_headers.MAGIC][batch] == kafka_format.MAGIC_V2)
    _, firsts = np.unique(batch[wrong], return_index=True)
    for at in np.flatnonzero(wrong)[firsts].tolist():
        what = f"record of {format_millis(int(timestamps[at]))}, but its batch's maxTimestamp is {format_millis(int(latest[at]))}"
        position = int(records.headers[batch_headers.POSITION, batch[at]])
        yield Finding(True, path, what, _HIDDEN, position, int(records.longs[record_batches.OFFSET, at]))
