"""Finds what index files prove whose `.log` is gone, or has no bytes.

Comes in: a partition as listed, and such files of its copies (`Orphan`). Goes out: `Evidence` of missing records.

Hard evidence is an index file with entries, without its `.log`, in one of three places. These are after the end of the
log, between two segments of a log that is not compacted, and where no segment is left.

A broker renames the `.log` to `.deleted` first and the index files right after it. When it starts, it removes what a
crash left between these two steps (LocalLog.deleteSegmentFiles, LogLoader.loadSegmentFiles). So if two listings some
time apart show the same file, no deletion is under way.

Three cases may be harmless:

- Such an index file below the first segment. Retention removed the `.log` while the directory was copied.
- Such an index file between segments of a compacted log. Its records may be in the segment before, or compaction may
  have removed them.
- An index file without entries after the end of the log. Its segment may have been empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.indexes import find_last_offset
from kafka_segment_source.logdir.listing import list_beside
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import Evidence, ListedLog, Orphan, PartitionLog
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.trust import Trust

IN_A_COPY = "in a copy that was taken while the broker ran, or of a machine that lost its power"
_BY_RETENTION = "where retention has deleted them"
_BY_COMPACTION = "where compaction has moved or removed them"
_IN_OTHERS = "where the other copy, which is read instead, holds them"
_IF_EMPTY = "where that segment was empty"


def find_orphan_evidence(
    log: PartitionLog, copies: Sequence[ListedLog], checkpoints: Checkpoints, seen: float
) -> list[Evidence]:
    """Returns what index files without a `.log`, or beside one of 0 bytes, prove about one log.

    It waits once for a short time if there are any. Raises FileChangedError if segments appear in a directory that was
    listed without any.

    copies: the same log as listed, one per directory. seen: when they were listed (time.monotonic).
    """
    ends = dict(log.fenced)  # a later leader decides what follows
    listed = (
        replace(orphan, end=ends.get(copy.directory, kafka_format.MAX_OFFSET))
        for copy in copies
        for orphan in _list_again(copy, seen)
    )
    orphans = [
        orphan
        for orphan in listed
        if orphan.base_offset < orphan.end
        and not (orphan.has_empty_log and any(orphan.base_offset in hole.offsets for hole in log.holes))
    ]
    if not orphans:
        return []
    start = max(checkpoints.log_start(copy) for copy in copies)
    compacted = log.compacted or any(checkpoints.is_cleaned(copy) for copy in copies)
    evidence = [*_check_orphans(log, orphans, start, compacted)]
    if log.copies:
        last_bases = {copy.directory: copy.beside.last_base for copy in copies}
        evidence += _check_seams(log, orphans, start, compacted, last_bases)
        evidence += _name_emptied(log, orphans, start)
    return evidence


def _list_again(copy: ListedLog, seen: float) -> list[Orphan]:
    """Lists a directory again, and returns the index files without a `.log` that this listing shows too.

    Of those beside an empty `.log`, only the ones with an entry count: a new segment has none yet.
    """
    listed = [
        orphan for orphan in copy.beside.orphans if not orphan.has_empty_log or read_last_offset(orphan) is not None
    ]
    if not listed:
        return []
    retrying.wait_for_second_look(seen)
    now = list_beside(copy.directory, copy.storage)
    if not copy.segments and now.last_base >= 0:
        raise FileChangedError(f"path {copy.directory!r} has changed while it was listed; plan the read again")
    paths = {orphan.path for orphan in now.orphans}
    return [orphan for orphan in listed if orphan.path in paths]


def _check_orphans(log: PartitionLog, orphans: list[Orphan], start: int, compacted: bool) -> Iterable[Evidence]:
    """Yields what index files without a `.log` prove. Those between the same two segments give one piece of evidence.

    start: the log start. Offsets below it were deleted on purpose.
    """
    starts = list_starts(log)
    in_order = sorted(orphans, key=lambda orphan: orphan.base_offset)
    for slot, group in groupby(in_order, key=lambda orphan: bisect_right(starts, orphan.base_offset)):
        is_after = slot == len(starts)
        reached = _find_end_offset(log, slot - 1) if slot else 0
        # orphans below `reached` are from before a truncation or merge
        together = [orphan for orphan in group if orphan.base_offset >= reached]
        if not together:
            continue
        latest = next(
            (offset for orphan in reversed(together) if (offset := read_last_offset(orphan)) is not None), None
        )
        first = max(together[0].base_offset, start)
        end = kafka_format.MAX_OFFSET if is_after else starts[slot]
        if latest is None:
            if is_after and first == together[0].base_offset:
                yield Evidence(OffsetRange(first, first + 1), _explain_orphans(together), _IF_EMPTY)
            continue
        offsets = OffsetRange(first, min(latest + 1, end))
        if offsets.is_empty:
            continue
        harmless = None if is_after else _BY_RETENTION if slot == 0 else _BY_COMPACTION if compacted else None
        if any(orphan.has_empty_log for orphan in together):  # neither retention nor compaction leaves them
            harmless = IN_A_COPY if is_after else None
        yield Evidence(offsets, _explain_orphans(together), harmless, is_between=harmless == _BY_COMPACTION)


def _check_seams(
    log: PartitionLog, orphans: list[Orphan], start: int, compacted: bool, last_bases: dict[str, int]
) -> Iterable[Evidence]:
    """Yields what index files without a `.log` prove about the offsets between the parts of two copies.

    One copy ends below the last offset that such a file of another copy mentions.

    start: the log start.
    last_bases: the base offset of the last `.log` in each directory. Only that one is empty in a copy of a running
        broker.
    """
    starts = list_starts(log)
    latest_of: dict[tuple[str, int], tuple[int, Orphan]] = {}  # by directory and base offset
    for orphan in orphans:
        latest, key = read_last_offset(orphan), (parent_of(orphan.path), orphan.base_offset)
        if latest is not None and latest > latest_of.get(key, (-1, orphan))[0]:
            latest_of[key] = latest, orphan
    for (directory, base_offset), (latest, orphan) in latest_of.items():
        slot = bisect_right(starts, latest)
        before = log.segments[slot - 1] if slot else None
        if before is None or (parent_of(before.path) == directory and before.base_offset >= base_offset):
            continue  # what lies in one copy alone is what its own segments show
        reached = max(starts[slot - 1], _find_end_offset(log, slot - 1))
        offsets = OffsetRange(max(reached, start), min([latest + 1, *starts[slot : slot + 1]]))
        if base_offset < reached and not offsets.is_empty:  # others are those of `_check_orphans`
            if orphan.has_empty_log:
                harmless = IN_A_COPY if base_offset == last_bases[directory] else None
            else:
                harmless = _BY_COMPACTION if compacted and slot < len(starts) else None
            yield Evidence(offsets, _explain_orphans([orphan]), harmless)


def _name_emptied(log: PartitionLog, orphans: list[Orphan], start: int) -> Iterable[Evidence]:
    """Yields the files of 0 bytes whose offsets another copy serves. It may have less of them: compaction, or a history
    that lost, may have removed some. start: the log start."""
    starts = list_starts(log)
    named: set[tuple[str, int]] = set()
    for orphan in orphans:
        slot, latest = bisect_right(starts, orphan.base_offset), read_last_offset(orphan)
        key = parent_of(orphan.path), orphan.base_offset
        if not orphan.has_empty_log or latest is None or slot == 0 or key in named:
            continue
        named.add(key)
        end = min(latest + 1, _find_end_offset(log, len(starts) - 1))
        offsets = OffsetRange(max(orphan.base_offset, start), end)
        if not offsets.is_empty:
            yield Evidence(offsets, _explain_orphans([orphan]), _IN_OTHERS, is_elsewhere=True)


def _explain_orphans(orphans: list[Orphan]) -> str:
    segments = len({orphan.base_offset for orphan in orphans})
    if all(orphan.has_empty_log for orphan in orphans):
        more = f" and the index files of {segments - 1:,} more segments have" if segments > 1 else " has"
        return f"{orphans[0].path!r}{more} entries, but the .log beside has no bytes"
    if segments == 1:
        return f"{orphans[0].path!r} is there without the .log of its segment"
    return f"{orphans[0].path!r} and the index files of {segments - 1:,} more segments are there without their .log"


def read_last_offset(orphan: Orphan) -> int | None:
    """Returns the last offset that an index file without its `.log` has an entry for, as far as its copy is used. None
    if it has none."""
    last = find_last_offset(orphan.path, orphan.storage, orphan.size, orphan.base_offset)
    return None if last is None else min(last, orphan.end - 1)


def list_starts(log: PartitionLog) -> list[int]:
    """Returns the offset from which on each segment is read.

    That is its base offset, or a higher one if another directory is read before.
    """
    return [max(segment.base_offset, segment.offsets.start) for segment in log.segments]


def _find_end_offset(log: PartitionLog, at: int) -> int:
    """Returns the offset up to which segment number `at` is read, by its bytes.

    Damage at its end may hide that offset. Another copy may hold the damaged offsets, but only reading shows that.
    """
    segment = log.segments[at]
    if log.end is not None and at + 1 == len(log.segments):
        return log.end
    with SegmentView(segment, Trust()) as view:
        end = segment.base_offset
        for header in view.headers_from(kafka_format.MAX_OFFSET):
            if header is None and log.copies:
                end = segment.span.end
        return min(max(end, view.end_offset()), segment.offsets.end)
