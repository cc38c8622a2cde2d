"""Where the whole batches of a partition begin and end now. What was found stays valid for files that did not change.

A stream asks at each trigger. So the end of a file is looked for again only if its size or time is another one. If it
only grew, the search goes on behind the last batch, once the file proves that this batch is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.decoding.split import BatchPlace, anchored, place_of, split_of
from kafka_segment_source.errors import DataError
from kafka_segment_source.logdir.offset_proof import RELATIVE_OFFSETS
from kafka_segment_source.logdir.probe import HeaderProbe, shows_compaction
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.planning.offset_bounds import log_start_offset
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.storage.store import FileVersion
from kafka_segment_source.streams.said import LOSS_REMEDY
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.planning.open_transactions import ProducerMemory

_LARGEST_WALK = 1024 * 1024  # bytes behind the last known batch that are walked without the index
LATE_SECONDS = 60.0
"""A file that was changed more recently may still be on its way. Offsets that are missing beside it are waited for."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What a stream can read of one partition.

    start: the first offset that the log has.
    end: exclusive; up to the high watermark and the last stable offset, as the options ask.
    files_end: the offset after the last whole batch of the files.
    is_withheld: whether an open transaction withholds offsets that the files hold.
    damage: what follows the end of the files, if a read of it ends with an error.
    log: the files. Its own offsets end at the high watermark.
    """

    log: PartitionLog
    start: int
    end: int
    files_end: int
    is_withheld: bool = False
    damage: DataError | None = None


@dataclass(frozen=True, slots=True)
class _FileEnd:
    """The end of one file, as it was found.

    offset: after its last whole batch.
    last: that batch; None if there is none.
    is_whole: whether nothing follows it but what a read has taken for the end of a log.
    is_unwritten: whether the next bytes are zeros, as in preallocated space.
    """

    version: FileVersion
    offset: int
    last: BatchPlace | None
    is_whole: bool
    is_unwritten: bool


class LogEnds:
    """Finds the ends of logs. It remembers them for one stream.

    clock: seconds of any origin.
    now: seconds since 1970, for the age of files.
    """

    def __init__(
        self,
        source: Source,
        policy: Policy,
        read_committed: bool,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._policy = policy
        self._read_committed = read_committed
        self._clock = clock
        self._now = now
        # by partition, so that what is remembered does not grow with the number of segments
        self._ends: dict[TopicPartition, tuple[str, _FileEnd]] = {}
        self._read_ends: dict[TopicPartition, tuple[str, FileVersion, tuple[int, DataError | None]]] = {}
        self._contiguous: dict[TopicPartition, dict[str, tuple[FileVersion, int | None]]] = {}
        self._producers: dict[TopicPartition, ProducerMemory] = {}
        self._stable_ends: dict[TopicPartition, tuple[tuple[tuple[str, FileVersion], ...], int, int]] = {}
        self._first_seen: dict[TopicPartition, tuple[int, float]] = {}

    def find(self, log: PartitionLog) -> LogSpan:
        """Finds what can be read of a log."""
        files_end, damage = self._find_files_end(log)
        start = log_start_offset(log)
        files_end = max(files_end, start)
        end = stable = min(files_end, log.offsets.end)
        if self._read_committed and end > start:
            stable = self._find_stable_end(log, end)
        damage = damage if files_end < log.offsets.end else None
        return LogSpan(log, start, max(stable, start), files_end, stable < end, damage)

    def find_files(self, log: PartitionLog) -> tuple[int, int]:
        """Finds the first offset of a log, and the offset after the last whole batch of its files."""
        start = log_start_offset(log)
        return start, max(self._find_files_end(log)[0], start)

    def _find_files_end(self, log: PartitionLog) -> tuple[int, DataError | None]:
        if not log.segments:
            return 0, None
        last = log.segments[-1]
        if log.end is not None:  # of several copies
            return (log.end, None) if log.end_damage is None else self._read_end(log, log.end)
        path, known = self._ends.get(log.topic_partition, (last.path, None))
        if path != last.path:
            known = None
        if known is None or known.version != last.version:
            known = self._search_end(last, known)
            known = replace(known, version=lasting_version(known.version))
            self._ends[log.topic_partition] = last.path, known
        if known.is_whole:
            return known.offset, None
        end, damage = self._read_end(log, known.offset)
        if end == known.offset and damage is None:
            self._ends[log.topic_partition] = last.path, replace(known, is_whole=True)
        return end, damage

    def _search_end(self, segment: Segment, known: _FileEnd | None) -> _FileEnd:
        """Walks the headers of a file behind the last batch that is known, or behind the last index entry."""
        with SegmentView(segment, self._policy.trust) as view:
            offset, last, position = segment.base_offset, None, 0
            if known is not None and known.last is not None and known.last.is_in(view.probe):
                position = known.last.position
            if segment.size - position > _LARGEST_WALK or not position:
                position = max(position, view.start_position(kafka_format.MAX_OFFSET))
            for header in view.probe.walk(position):
                if header is None or header.last_offset >= segment.base_offset + RELATIVE_OFFSETS:
                    break  # no CRC covers the base offset, so reading says what is wrong with it
                offset, last, position = header.last_offset + 1, place_of(header), header.end
            is_unwritten = view.probe.is_unwritten(position)
        is_whole = position >= segment.size or (is_unwritten and _was_unwritten(segment, known))
        return _FileEnd(segment.version, offset, last, is_whole, is_unwritten)

    def _read_end(self, log: PartitionLog, end: int) -> tuple[int, DataError | None]:
        """Reads what follows the last whole batch, as a batch read would: it may be a torn batch, zeros, or damage that
        hides more.

        Returns the offset after the last record that it gives, and the error that ends it. What was found stays valid
        while the last file does not change.

        end: the offset after the last whole batch.
        """
        segment = log.segments[-1]
        known = self._read_ends.get(log.topic_partition)
        if known is not None and known[:2] == (segment.path, segment.version):
            return known[2]
        found = self._read_rest(log, end)
        self._read_ends[log.topic_partition] = segment.path, lasting_version(segment.version), found
        return found

    def _read_rest(self, log: PartitionLog, end: int) -> tuple[int, DataError | None]:
        # it decodes: only then are the kernels loaded
        from kafka_segment_source.decoding.tables import RECORDS, Reading
        from kafka_segment_source.scanning import read_split

        segment = log.segments[-1]
        with SegmentView(segment, self._policy.trust) as view:
            start = view.start_position(end)
            split = anchored(split_of(log, segment, ScanBounds(segment.offsets), start), view.probe)
        schema = RECORDS.arrow_schema(["offset"])
        reading = Reading(self._source, self._policy.with_control(), Content(include_control=True), RECORDS)
        try:
            for batch in read_split(split, reading, schema):
                end = max(end, batch.column(0)[-1].as_py() + 1)
        except DataError as error:
            return end, error
        return end, None

    def find_whole_end(self, log: PartitionLog, start: int, end: int, warnings: Warnings) -> tuple[int, bool]:
        """Finds the end of what has no missing offsets between `start` and `end`, and whether offsets may still come.

        If the missing offsets will not come, that is a loss (failOnDataLoss), and then the end is `end`. Of offsets
        before the first file, the plan reports the loss.
        """
        first = log.segments[0] if log.segments else None
        if first is not None and start < first.base_offset:
            missing = OffsetRange(start, first.base_offset)
            if self._may_still_come(log, missing, first):
                warnings.add(_say_late(log, missing, f"the files begin at {first.base_offset}"))
                return start, True
        for missing, why, segment in self._find_missing(log, OffsetRange(start, end)):
            if self._may_still_come(log, missing, segment):
                warnings.add(_say_late(log, missing, why))
                return max(start, missing.start), True
            said = f"{why}: no file holds the offsets {missing.start} to {missing.end - 1}"
            warnings.add(
                report_lost_offsets(f"{said} of partition {log.topic}-{log.partition}", self._policy, LOSS_REMEDY)
            )
        return end, False

    def may_lack_end(self, span: LogSpan, warnings: Warnings) -> bool:
        """Whether offsets behind the end of the files may still come, of which other files show that the log had them.

        If they will not come, that is a loss (failOnDataLoss).
        """
        log = span.log
        for evidence in log.evidence:
            missing = evidence.offsets.intersect(OffsetRange(span.files_end, log.offsets.end))
            if not evidence.is_hard or missing.is_empty:
                continue
            if self._may_still_come(log, missing):
                warnings.add(_say_late(log, missing, evidence.why))
                return True
            said = evidence._replace(offsets=missing).text(f"partition {log.topic}-{log.partition}")
            warnings.add(report_lost_offsets(said, self._policy, LOSS_REMEDY))
        return False

    def _find_missing(self, log: PartitionLog, wanted: OffsetRange) -> list[tuple[OffsetRange, str, Segment | None]]:
        """Finds offsets that no file holds, below the end of the log; each with the reason and the file after them that
        is read, if there is one."""
        missing: list[tuple[OffsetRange, str, Segment | None]] = []
        for hole in log.holes:
            gone = hole.offsets.intersect(wanted)
            after = next((segment for segment in log.segments if segment.base_offset >= hole.offsets.end), None)
            if not gone.is_empty:
                missing.append((gone, hole.why, after))
        if log.compacted or log.copies:
            return missing
        known = self._contiguous.get(log.topic_partition, {})
        used = self._contiguous[log.topic_partition] = {}
        for at, segment in enumerate(log.segments[:-1]):
            following = log.segments[at + 1]
            if segment.size == 0 or following.base_offset <= wanted.start or not log.is_followed(at):
                continue
            if segment.base_offset >= wanted.end:
                break
            used[segment.path] = self._find_contiguous_end(segment, known.get(segment.path))
            end = used[segment.path][1]
            gone = OffsetRange(following.base_offset if end is None else end, following.base_offset).intersect(wanted)
            if not gone.is_empty:
                missing.append((gone, f"{segment.path!r} ends early", following))
        return sorted(missing, key=lambda item: item[0].start)

    def _find_contiguous_end(
        self, segment: Segment, known: tuple[FileVersion, int | None] | None
    ) -> tuple[FileVersion, int | None]:
        """Finds the offset after the last batch of a segment that another one follows, unless it is known.

        None where only compaction explains a gap, or where damage hides the end. The read reports damage.
        """
        if known is not None and known[0] == segment.version:
            return known
        with SegmentView(segment, self._policy.trust) as view:
            return lasting_version(segment.version), _find_sure_end(view.probe, view, segment)

    def _may_still_come(self, log: PartitionLog, missing: OffsetRange, after: Segment | None = None) -> bool:
        """Whether the file after missing offsets, or the one before them, is new, and they are not missed for long.
        Where there are no such files, nothing is old.

        A file that a broker appends to is always new. So this process waits a minute at most.
        """
        start, first_seen = self._first_seen.get(log.topic_partition, (-1, 0.0))
        if start != missing.start:
            first_seen = self._clock()
            self._first_seen[log.topic_partition] = missing.start, first_seen
        before = [segment for segment in log.segments if segment.base_offset < missing.start][-1:]
        beside = before if after is None else [*before, after]
        changed = [segment.version.changed for segment in beside] or [0]
        is_new = not all(changed) or self._now() - max(changed) / 1e9 < LATE_SECONDS
        return is_new and self._clock() - first_seen < LATE_SECONDS

    def describe_withheld(self, log: PartitionLog, end: int) -> list[str]:
        """Says which transactions withhold offsets of a log, in sentences."""
        from kafka_segment_source.planning.open_transactions import find_stable_end

        said = Warnings()
        find_stable_end(log, end, self._source, self._policy, said)
        return said

    def _find_stable_end(self, log: PartitionLog, end: int) -> int:
        # it reads batches: only then are the kernels loaded
        from kafka_segment_source.planning.open_transactions import ProducerMemory, find_stable_end

        files = tuple((segment.path, segment.version) for segment in log.segments)
        known = self._stable_ends.get(log.topic_partition)
        if known is not None and known[:2] == (files, end):
            return known[2]
        memory = self._producers.setdefault(log.topic_partition, ProducerMemory())
        stable = find_stable_end(log, end, self._source, self._policy, Warnings(), memory)
        path, version = files[-1]
        self._stable_ends[log.topic_partition] = (*files[:-1], (path, lasting_version(version))), end, stable
        return stable


def _was_unwritten(segment: Segment, known: _FileEnd | None) -> bool:
    """Whether a read has found only zeros behind the last batch that was known.

    A broker writes into such space from its start on, and the file keeps its size.
    """
    if known is None or not (known.is_whole and known.is_unwritten):
        return False
    return segment.version.is_same_file(known.version) and segment.version.size == known.version.size


def _find_sure_end(probe: HeaderProbe, view: SegmentView, segment: Segment) -> int | None:
    """Finds the offset after the last batch of a segment. None if gaps in it show compaction, or if damage or an old
    format hides it."""
    end = position = 0
    for header in probe.walk(view.start_position(kafka_format.MAX_OFFSET)):
        if header is None:
            return None
        end, position = header.last_offset + 1, header.end
        if header.magic < kafka_format.MAGIC_V2:
            return None
    if position != segment.size or end >= (segment.next_base_offset or end):
        return None
    return None if shows_compaction(probe, segment.base_offset) else end


def _say_late(log: PartitionLog, missing: OffsetRange, why: str) -> str:
    return (
        f"{why}: the offsets {missing.start} to {missing.end - 1} of partition {log.topic}-{log.partition} are waited for,"
        " as files beside them are new"
    )
