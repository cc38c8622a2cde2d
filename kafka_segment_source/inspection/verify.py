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
from dataclasses import dataclass, field

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.inspection.epoch_rules import check_epochs
from kafka_segment_source.inspection.findings import Finding
from kafka_segment_source.inspection.index_rules import Longs
from kafka_segment_source.inspection.segment_check import CHANGED, SegmentCheck
from kafka_segment_source.inspection.summary import WORTH_AN_INDEX, wants_indexes
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.producer_snapshots import saved_states
from kafka_segment_source.logdir.segments import ListedLog, PartitionLog, explain_unfinished
from kafka_segment_source.partition.missing import all_evidence, notice
from kafka_segment_source.reporting import Advance, Warnings
from kafka_segment_source.storage.ahead import Turns
from kafka_segment_source.storage.files import file_version
from kafka_segment_source.storage.retrying import Attempts

_GONE = "a segment file is missing here, or the segment before was cut: these records are in no file of this directory"
_NOT_THERE = (
    "segment files are missing: a query of these offsets ends with an error (failOnDataLoss); look for another replica"
)
_COMPACTED = (
    "compaction takes records out and leaves such gaps; whether a segment file is missing as well cannot be told"
)
_NOT_LISTED = "nothing of this partition was verified, and a query of it ends with this error"
_STATE = "a broker passes over it when it starts, and goes through the log from an older one; so does this reader"
_CHECKPOINT = "nothing that it says is believed"
_MOST_PASSES = 10  # over a partition whose segments a broker replaces while it is verified
_UNFINISHED = (
    "a broker uploads the objects of a segment one by one, and deletes them so; an upload that ended early leaves them"
)
_NO_INDEX = "not an error: reads walk more batch headers instead"

_NO_PLACES: Longs = np.empty((2, 0), np.int64)


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for one partition's log: what was verified, and the findings.

    size: bytes of `.log` files.
    has_gaps: whether offsets are missing between two batches of a file.
    places: of a compacted log, first and last offset (absolute, inclusive) of each batch of magic 2: int64[2, n].
    """

    topic: str
    partition: int
    directory: str
    segments: int
    size: int
    batches: int
    records: int
    findings: tuple[Finding, ...]
    has_gaps: bool = False
    places: Longs = field(default_factory=lambda: _NO_PLACES, compare=False, repr=False)

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
    attempts = Attempts(_MOST_PASSES - 1)
    while True:
        fresh = []
        for segment in log.segments:
            check = done.get(segment.path)
            if check is None or not check.is_of(segment):
                done[segment.path] = SegmentCheck(log, segment, deep, max_batch_bytes)
                fresh.append(done[segment.path])
        for _ in turns.map(lambda task: task.run(advance), fresh):
            pass
        checks = [done[segment.path] for segment in log.segments]
        has_changed = any(check.has_changed for check in checks)
        now = list_again(log) if has_changed and attempts.may_go_on() else None
        if now is None:
            break
        log = now
    findings = [finding for check in checks for finding in check.findings]
    checkpoints = Checkpoints(Warnings(), log.storage)
    is_compacted = checkpoints.is_cleaned(log) or log.compacted
    findings += [
        *_find_gaps(log, checks, is_compacted),
        *(Finding(False, log.directory, fault, _CHECKPOINT) for fault in checkpoints.faults),
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
        has_gaps=any(check.has_gaps for check in checks),
        places=_find_places(checks) if is_compacted else _NO_PLACES,
    )


def _find_places(checks: list[SegmentCheck]) -> Longs:
    batches = [check.batches for check in checks]
    parts = [np.stack((table.base_offsets, table.last_offsets))[:, table.is_v2] for table in batches]
    return np.concatenate([_NO_PLACES, *parts], axis=1)


def _find_gaps(log: ListedLog, checks: list[SegmentCheck], is_compacted: bool) -> Iterator[Finding]:
    """Finds offsets between segments that no file holds."""
    left_out = []  # by compaction, as it seems
    for check in checks:
        following = check.segment.next_base_offset
        first = check.last_offset + 1
        reaches_end = any(end == check.segment.size for _, end in check.damaged)
        if not check.was_read or following is None or following <= first or reaches_end:
            continue
        if is_compacted or not check.gap_is_loss:
            left_out.append(first)
        else:
            what = f"no segment holds the offsets {first} to {following - 1}, after the last batch of this one"
            yield Finding(True, check.segment.path, what, _GONE, check.end, first, is_loss=True)
    if left_out:
        what = f"between segments, offsets are in no file {len(left_out):,} times, first {left_out[0]}"
        yield Finding(False, log.directory, what, _COMPACTED, None, left_out[0])


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
