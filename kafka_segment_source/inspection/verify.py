"""One partition's log → whether it is whole. It checks CRCs, lengths, offset order and index entries.

The rules are those of every Kafka version. Input: a ListedLog. Output: `Verified`, with a `Finding` for each problem
and each note. After damage, it goes on at the next proven batch. The normal traces of a healthy broker are no problem:

- a torn or zero-filled tail of the last segment;
- index files that are missing, empty or padded;
- offsets that compaction removed.

With `deep`, every record is decompressed and decoded too. Then no record may be later than its batch's maxTimestamp,
since reads by time rely on maxTimestamp to skip batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
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
from kafka_segment_source.inspection.epoch_rules import check_epochs
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_rules import (
    Batches,
    Facts,
    batches_of,
    check_offset_index,
    check_time_index,
    check_transaction_index,
)
from kafka_segment_source.inspection.summary import WORTH_AN_INDEX, wants_indexes
from kafka_segment_source.inspection.tier_rules import check_tier
from kafka_segment_source.kernels import batch_headers, record_batches
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.producer_snapshots import saved_states
from kafka_segment_source.logdir.segments import ListedLog, PartitionLog, Segment, explain_unfinished
from kafka_segment_source.partition.missing import all_evidence, notice
from kafka_segment_source.reporting import Advance, Warnings
from kafka_segment_source.storage.ahead import Turns
from kafka_segment_source.storage.files import file_version
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Trust

_LOST = "records here cannot be read: a query ends with an error (mode=FAILFAST) or leaves them out (DROPMALFORMED); look for another replica of this partition"
_NEWER = "a newer Kafka wrote this: a query of these records ends with an error in every mode; look for a newer kafka-segment-source"
_HIDDEN = "a read with 'since' may pass over such a record, since it skips batches by their maxTimestamp"
_GONE = "a segment file is missing here, or the segment before was cut: these records are in no file of this directory"
_NOT_THERE = (
    "segment files are missing: a query of these offsets ends with an error (failOnDataLoss); look for another replica"
)
_COMPACTED = (
    "compaction takes records out and leaves such gaps; whether a segment file is missing as well cannot be told"
)
_TORN = "a batch was being written when the broker died or the file was copied; reads end before it, and a broker drops it when it starts"
_PREALLOCATED = (
    "space that the broker has taken in advance (preallocate=true) or lost in a power failure; reads end before it"
)
_NOT_LISTED = "nothing of this partition was verified, and a query of it ends with this error"
_BAD_DISK = "the file system does not give the bytes from there on"
CHANGED = "a broker at work deletes, compacts and truncates: verify again, or verify a snapshot of the disk"
_STATE = "a broker passes over it when it starts, and goes through the log from an older one; so does this reader"
_CHECKPOINT = "nothing that it says is believed"
_MOST_PASSES = 10  # over a partition whose segments a broker replaces while it is verified
_UNFINISHED = (
    "a broker uploads the objects of a segment one by one, and deletes them so; an upload that ended early leaves them"
)
_EPOCHS = (
    "no CRC covers it, so one of the two batches is damaged there; their records are good, and between copies neither"
    " epoch decides"
)
_NO_INDEX = "not an error: reads walk more batch headers instead"


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for one partition's log: what was verified, and the findings.

    size: bytes of `.log` files.
    """

    topic: str
    partition: int
    directory: str
    segments: int
    size: int
    batches: int
    records: int
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.problem)


def verify_log(
    log: ListedLog,
    *,
    deep: bool = False,
    max_batch_bytes: int = 2**30,
    advance: Advance = lambda _: None,
    list_again: Callable[[ListedLog], ListedLog | None] = lambda _: None,
    turns: Turns | None = None,
) -> Verified:
    """Verifies every segment of one partition.

    max_batch_bytes: a larger batch is a problem. advance: is called with the number of verified bytes. list_again:
    returns the current log, or None if it is gone. A segment that a broker replaced meanwhile is verified again. A
    `.log` that the storage cannot read is a problem of that segment. The other segments are still verified. turns: of
    the segments, with those of other partitions. None: several
    are verified at a time only where a read takes a round trip.
    """
    if log.unreadable is not None:
        finding = Finding(True, log.directory, log.unreadable, _NOT_LISTED)
        return Verified(log.topic, log.partition, log.directory, 0, 0, 0, 0, (finding,))
    done: dict[str, SegmentCheck] = {}
    turns = turns or Turns(at_once=log.storage.read_cost(log.directory).at_once)
    for tries in range(_MOST_PASSES):
        fresh = []
        for segment in log.segments:
            check = done.get(segment.path)
            if check is None or not check.is_of(segment):
                done[segment.path] = SegmentCheck(log, segment, deep, max_batch_bytes)
                fresh.append(done[segment.path])
        for _ in turns.map(lambda task: task.run(advance), fresh):
            pass
        checks = [done[segment.path] for segment in log.segments]
        if not any(check.has_changed for check in checks):
            break
        now = list_again(log) if tries < _MOST_PASSES - 1 else None
        if now is None:
            break
        log = now
    findings = [finding for check in checks for finding in check.findings]
    findings += [
        *_find_gaps(log, checks),
        *_check_states(log),
        *_find_missing_indexes(log),
        *_find_odd_files(log),
        *check_epochs(log),
        *_find_unfinished(log),
        *_find_missing(log, checks),
    ]
    return Verified(
        topic=log.topic,
        partition=log.partition,
        directory=log.directory,
        segments=len(checks),
        size=sum(segment.size for segment in log.segments),
        batches=sum(len(check.batches) for check in checks),
        records=sum(check.records for check in checks),
        findings=tuple(findings),
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
        self.is_compacted = False
        self.end = 0  # byte position where the good batches end
        self.was_read = False  # the segment was read to its end, damaged or not
        self.has_changed = False  # the path leads to another file than the listed one, or to none
        self._split = split_of(PartitionLog.of(log), segment, ScanBounds())
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
        self.findings += [_make_damage_finding(error, end) for error, end in self._damage.ranges]
        self.findings += self._find_fallen_epochs()
        self.findings += self._note_tail(source)
        with suppress(DataLossError):  # gaps between segments are found after all segments are read
            source.finish()

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
        counted = headers[batch_headers.COUNT] >= 0
        self.records += int(record_counts(headers).sum())
        spans = headers[batch_headers.LAST_OFFSET] - headers[batch_headers.BASE_OFFSET] + 1
        self.is_compacted = self.is_compacted or bool((counted & (headers[batch_headers.COUNT] < spans)).any())
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


# ---- the partition ----


def _find_gaps(log: ListedLog, checks: list[SegmentCheck]) -> Iterator[Finding]:
    """Finds offsets between segments that no file holds."""
    faults = Warnings()
    cleaned = Checkpoints(faults, log.storage).is_cleaned(log)
    compacted = cleaned or log.compacted or any(check.is_compacted or _has_gaps(check) for check in checks)
    for fault in faults:
        yield Finding(False, log.directory, fault.partition(";")[0], _CHECKPOINT)
    gaps = []
    for check in checks:
        following = check.segment.next_base_offset
        first = check.last_offset + 1
        reaches_end = any(end == check.segment.size for _, end in check.damaged)
        if check.was_read and following is not None and following > first and not reaches_end:
            what = f"no segment holds the offsets {first} to {following - 1}, after the last batch of this one"
            gaps.append(Finding(True, check.segment.path, what, _GONE, check.end, first, is_loss=True))
    if gaps and compacted:
        what = f"between segments, offsets are in no file {len(gaps):,} times, first {gaps[0].offset}"
        yield Finding(False, log.directory, what, _COMPACTED, None, gaps[0].offset)
    else:
        yield from gaps


def _has_gaps(check: SegmentCheck) -> bool:
    """Whether batches inside the segment omit offsets. After damage it is False, since damage omits offsets too."""
    batches = check.batches
    if check.damaged or not len(batches):
        return False
    before = np.concatenate(([check.segment.base_offset - 1], batches.last_offsets[:-1]))
    return bool((~batches.is_wrapper & (batches.base_offsets > before + 1)).any())


def _check_states(log: ListedLog) -> Iterator[Finding]:
    """Finds invalid `.snapshot` files, by version, length and CRC. An upgrade or a crash may leave an empty one."""
    for path, size, valid in saved_states(log.directory, log.storage):
        now = None if valid else file_version(path, log.storage)
        if now is not None and now.size == size:  # otherwise a broker has deleted it, or writes it now
            what = (
                "producer state that is empty" if size == 0 else "producer state whose CRC, version or length is wrong"
            )
            yield Finding(size > 0, path, what, _STATE)


def _find_missing(log: ListedLog, checks: list[SegmentCheck]) -> Iterator[Finding]:
    """Finds offsets that no file holds, by the evidence of other files.

    The end of the log is known only if its last segment is not damaged.
    """
    try:
        [noticed] = notice([PartitionLog.of(log)], [log], Checkpoints(Warnings(), log.storage), time.monotonic())
    except FileChangedError as error:
        yield Finding(False, log.directory, str(error), CHANGED)
        return
    last = checks[-1] if checks else None
    is_known = last is None or (last.was_read and not last.damaged)
    end = (0 if last is None else last.last_offset + 1) if is_known else None
    for evidence in all_evidence(noticed, end):
        what = evidence.lost(f"{log.topic}-{log.partition}")
        meaning = _NOT_THERE if evidence.harmless is None else f"harmless {evidence.harmless}"
        yield Finding(
            evidence.is_hard, log.directory, what, meaning, None, evidence.offsets.start, is_loss=evidence.is_hard
        )


def _find_unfinished(log: ListedLog) -> Iterator[Finding]:
    """Finds segments of a tier that are no data, as a part of their objects is missing."""
    if log.beside.unfinished:
        yield Finding(False, log.directory, explain_unfinished(log), _UNFINISHED)


def _find_odd_files(log: ListedLog) -> Iterator[Finding]:
    """Finds files that cannot be what their names mean: they are no regular files, or have an impossible size."""
    for fault in log.beside.faults:
        yield Finding(False, log.directory, fault, _NO_INDEX)


def _find_missing_indexes(log: ListedLog) -> Iterator[Finding]:
    """Finds index files that are missing, or empty beside a large `.log`. All of one kind get one note."""
    for suffix, sizes in (
        (kafka_format.INDEX_SUFFIX, [segment.index_size for segment in log.segments]),
        (kafka_format.TIME_INDEX_SUFFIX, [segment.time_index_size for segment in log.segments]),
    ):
        missing = sum(
            size is None and wants_indexes(segment) for size, segment in zip(sizes, log.segments, strict=True)
        )
        large = [size for size, segment in zip(sizes, log.segments, strict=True) if segment.size > WORTH_AN_INDEX]
        empty = large.count(0)
        for count, how in ((missing, "missing"), (empty, "empty")):
            if count:
                what = f"{suffix} files: {count:,} of {len(sizes):,} {'is' if count == 1 else 'are'} {how}"
                yield Finding(False, log.directory, what, _NO_INDEX)
