"""Reads the offsets of a split, and narrows the file again, as planning does, if it was replaced meanwhile.

A split states which offsets of a partition a task reads. As long as its file is the one that was planned, the offsets
are in it. But compaction may merge segments, a replica may be fetched again, or a restore may replace files. Then the
directory is listed again. The segments that hold the remaining offsets are read from the offset after the last batch
that was read. So no row comes twice, and no row is left out that the log still holds.

Rows that retention or a truncation removed are lost: DataLossError. Under failOnDataLoss=false this is a warning, and
reading continues with the remaining rows. Rows that compaction removed are not lost. If the files change too often with
no batch read in between, the last FileChangedError ends the query.

If a partition has several copies, damage and gaps are first searched in the others (`mending.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ALL_OFFSETS, OffsetRange, ScanBounds
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.split import SegmentSplit, anchored, split_of
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import (
    DataError,
    DataLossError,
    FileChangedError,
    KafkaSegmentError,
    PathError,
    RetentionError,
)
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import DroppedSegment, PartitionLog, Segment
from kafka_segment_source.partition.logs import available_logs, existing_copies
from kafka_segment_source.pruning.ranges import narrow
from kafka_segment_source.reporting import Warnings, log_skipped
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import UNUSABLE
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.retrying import Attempts
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    from kafka_segment_source.reading.losses import Lost


T = TypeVar("T")


class Follower:
    """Follows one split's offsets. Make one, and call `run` once.

    losses: how often `run` has reported damage or lost offsets, and gone on behind them. passed: the errors of these.
    """

    def __init__(self, split: SegmentSplit, source: Source, policy: Policy, *, microseconds: bool = False) -> None:
        self.losses = 0
        self.passed: list[KafkaSegmentError] = []
        self._split = split
        self._source = source
        self._policy = policy
        # whether timestamps are read; a timestamp too large for microseconds is then damage
        self._microseconds = microseconds
        self._pending: list[SegmentSplit | Lost] = [split]
        self._mended_at = -1  # the offset where the other copies were searched last
        # by path of a file that the search found there: the offsets that could not be read from it, and why
        self._failed: dict[str, tuple[OffsetRange, DataError]] = {}
        self._next = split.start_offset
        self._end = _find_known_end(split)
        self._why: FileChangedError | None = None  # why the offsets were searched again
        self._attempts = Attempts()
        self._is_end_of_log = False  # whether the log that was found again was read to its end

    @property
    def has_moved(self) -> bool:
        """Whether the files changed, and the offsets are read from where they are now."""
        return self._why is not None

    @property
    def was_mended(self) -> bool:
        """Whether other copies were searched for some of the offsets."""
        return self._mended_at >= 0

    def run(self, read: Callable[[SegmentSplit], Iterator[T]]) -> Iterator[T]:
        """Yields the results of `read` for the split, or for the splits that hold its offsets now.

        `read` must call `note_passed` after each chunk, `note_returned` after rows of a chunk, and `note_end` at the
        end of a file.

        Raises DataLossError for offsets that are gone (failOnDataLoss), and DataError for damage (mode). Raises
        StorageError if a file cannot be read. With several copies it raises these only if no copy helps. Raises
        FileChangedError if the log changes too fast to be read.
        """
        while self._pending:
            split = self._pending.pop(0)
            self._is_end_of_log = False
            if not isinstance(split, SegmentSplit):
                self._next = max(self._next, split.offsets.end)
                self._report_error(split.error)
                continue
            self._next = max(self._next, split.start_offset)
            try:
                yield from read(split)
            except FileChangedError as error:
                self._find_again(error)
            except (DataError, DataLossError, *UNUSABLE) as error:
                if split.copies:
                    self._mend_damage(split, error)
                elif not isinstance(error, DataLossError):
                    raise
                else:
                    self._report_error(error if self._why is None else FileChangedError(f"{error}; {self._why}"))
            else:
                # the last segment of one copy may be followed by another's
                is_end = self._is_end_of_log and not self._pending
                if is_end and self._end is not None and self._next < self._end:
                    offsets = OffsetRange(self._next, self._end)
                    self._report_gone(Gone(f"the log ends before offset {self._next} now", offsets))

    def note_passed(self, next_offset: int | None) -> None:
        """Notes that a chunk was read. next_offset: the offset after it, or None if that is not known."""
        if next_offset is not None and next_offset > self._next:
            self._next = next_offset
            self._attempts.note_progress()

    def note_returned(self, offset: int) -> None:
        """Notes that all rows up to an offset were returned, inside a chunk."""
        self._next = max(self._next, offset + 1)

    def note_end(self, source: SplitFile) -> None:
        """Notes that `source` was read to its end."""
        self._is_end_of_log = self._why is not None and source.split.is_of_last and not source.is_done

    def _find_again(self, error: FileChangedError) -> None:
        """Plans the rest of the split from the directory as it is now."""
        while True:
            self._why = error
            self._attempts.note_failure(error)
            wanted = OffsetRange(self._next, kafka_format.MAX_OFFSET if self._end is None else self._end)
            try:
                again = find_again(self._split, wanted, self._source, self._policy)
                self._pending = [*again.splits]
            except FileChangedError as another:
                error = another
                continue
            break
        for lost in again.lost:
            self._report_gone(lost)

    def _mend_damage(self, part: SegmentSplit, error: KafkaSegmentError) -> None:
        """Plans the rest of the split from all copies, each for the offsets that it holds whole.

        part: the split where the error was found.
        """
        from kafka_segment_source.reading.mending import mend  # noqa: PLC0415  # only damage needs it

        if self._mended_at != self._next:
            self._failed.clear()
        elif isinstance(error, DataError) and error.path not in self._failed:
            self._failed[error.path] = part.bounds.offsets, error
        else:  # the copies were searched already; the other pieces still follow
            self._report_error(error)
            return
        self._mended_at = self._next
        wanted = OffsetRange(self._next, kafka_format.MAX_OFFSET if self._end is None else self._end)
        try:
            self._pending = [
                *mend(
                    self._split,
                    wanted,
                    self._source,
                    self._policy,
                    error,
                    part,
                    failed=self._failed,
                    microseconds=self._microseconds,
                )
            ]
        except FileChangedError as another:
            self._mended_at = -1
            self._find_again(another)

    def _report_gone(self, lost: Gone) -> None:
        gone = describe_gone(self._split, lost.offsets)
        if lost.by_retention:
            self._report_error(
                RetentionError(
                    f"{gone}: {lost.why}, as the broker has removed them since the read was planned",
                    "give failOnDataLoss=false to read what is left",
                )
            )
        else:
            self._report_error(FileChangedError(f"{gone}: {lost.why}; {self._why}"))

    def _report_error(self, error: KafkaSegmentError) -> None:
        if isinstance(error, DataError) and error.is_skippable and self._policy.drop_malformed:
            log_skipped(error)
        elif isinstance(error, DataLossError):
            report_lost_rows(error, self._policy)
        else:
            raise error
        self.losses += 1
        self.passed.append(error)


def describe_gone(split: SegmentSplit, offsets: OffsetRange) -> str:
    """Says which offsets of the partition of a split are gone, as a sentence without its end."""
    end = "on" if offsets.end == kafka_format.MAX_OFFSET else f"to {offsets.end - 1}"
    return f"offsets {offsets.start} {end} of partition {split.topic}-{split.partition} are gone"


class Gone(NamedTuple):
    """Offsets that no file holds any more.

    by_retention: the log begins after them now.
    """

    why: str
    offsets: OffsetRange
    by_retention: bool = False


class Found(NamedTuple):
    """Where the offsets are now.

    splits: the splits in order. Each is planned when it is needed.
    """

    splits: Iterator[SegmentSplit]
    lost: tuple[Gone, ...]


def find_again(planned: SegmentSplit, wanted: OffsetRange, source: Source, policy: Policy) -> Found:
    """Returns the splits that hold the `wanted` rows of `planned`, in its directories as they are now.

    Raises FileChangedError if a file changes meanwhile. The iteration over the splits may raise it too.
    """
    directory = parent_of(planned.path)
    near = OffsetRange(min(wanted.start, planned.base_offset), wanted.end)
    directories = existing_copies(planned.copies, source.storage) or (directory,)
    try:
        log = list_whole(directories, source.to_end_of_files(), policy, near)
    except PathError as error:
        is_copy_gone = len(existing_copies(directories, source.storage)) < len(directories)
        if len(directories) > 1 and is_copy_gone:  # just now; the others may hold the offsets
            raise FileChangedError(f"{error}; plan the read again") from error
        return Found(iter(()), (Gone(str(error), wanted),))
    if not log.segments:
        return Found(iter(()), (Gone(f"{directory!r} holds no segments any more", wanted),))
    first = log.first_offset
    lost = []
    if wanted.start < first:
        gone = OffsetRange(wanted.start, min(first, wanted.end))
        lost.append(Gone(f"the files begin at offset {first} now", gone, by_retention=True))
    vanished = _find_vanished(planned, wanted, log)
    if vanished is not None:
        lost.append(Gone(f"{planned.path!r} was deleted, and nothing else has changed", vanished))
    lost += [Gone(hole.why, gone) for hole in log.holes if not (gone := hole.offsets.intersect(wanted)).is_empty]
    last = log.segments[-1]
    if last.size == 0 and last.is_last and last.base_offset < wanted.end < kafka_format.MAX_OFFSET:
        offsets = OffsetRange(max(wanted.start, last.base_offset), wanted.end)
        lost.append(Gone(f"the log ends before offset {offsets.start} now", offsets))
    return Found(_plan_parts(planned, wanted, log, policy), tuple(lost))


def list_whole(
    directories: tuple[str, ...], source: Source, policy: Policy, near: OffsetRange = ALL_OFFSETS
) -> PartitionLog:
    """Returns the whole log in the directories of one partition as it is now, without bounds. Raises PathError if it is
    gone.

    Of several copies it merges only the segments `near` some offsets.
    """
    [log] = available_logs(source.at(directories), policy, Warnings(), near)
    return log


def whole_split(log: PartitionLog, at: int) -> SegmentSplit:
    """Returns a split of the log's segment number `at`, without bounds."""
    segment = log.segments[at]
    split = split_of(log, segment, ScanBounds(segment.offsets))
    return split._replace(gap_is_loss=log.gap_is_loss(at))


def _plan_parts(
    planned: SegmentSplit, wanted: OffsetRange, log: PartitionLog, policy: Policy
) -> Iterator[SegmentSplit]:
    """Yields the splits to read of the log's segments, in order."""
    for at, segment in enumerate(log.segments):
        if not segment.span.intersect(wanted).is_empty:
            split = _plan_part(planned, wanted, log, at, policy)
            if split is not None:
                yield split


def _plan_part(
    planned: SegmentSplit, wanted: OffsetRange, log: PartitionLog, at: int, policy: Policy
) -> SegmentSplit | None:
    """Returns the split to read of segment number `at`, or None if no row of it is wanted."""
    segment = log.segments[at]
    within = ScanBounds(wanted.intersect(segment.offsets), planned.bounds.times)
    with SegmentView(segment, policy.trust) as view:
        byte_range = narrow(view, within, policy.disorder, log.gap_is_loss(at), bool(log.copies))
        if isinstance(byte_range, DroppedSegment):
            return None
        split = split_of(log, segment, within, byte_range.start, byte_range.end)._replace(
            stop_timestamp=planned.stop_timestamp,
            gap_is_loss=log.gap_is_loss(at),
            lost_places=planned.lost_places,
        )
        was_cut = segment.version.is_same_file(planned.version) and segment.size < planned.segment_size
        if was_cut and segment.path == planned.path and not log.compacted:
            # the file was cut in place, perhaps inside a batch: the rest is read
            split = split._replace(next_base_offset=None)
        return anchored(split, view.probe)


def _find_vanished(planned: SegmentSplit, wanted: OffsetRange, log: PartitionLog) -> OffsetRange | None:
    """Returns the wanted offsets that went with the planned file, if only its deletion explains that. Otherwise None.

    Compaction puts a segment's records into the segment before it, which is then another file. In a log that is not
    compacted, reading finds the gap itself.
    """
    if not log.compacted or planned.before is None or any(segment.path == planned.path for segment in log.segments):
        return None
    before: Segment | None = None
    end = wanted.end
    for segment in log.segments:
        if segment.base_offset <= planned.base_offset:
            before = segment
        else:
            end = min(end, segment.base_offset)
            break
    if before is None or before.version != planned.before:
        return None
    gone = OffsetRange(max(wanted.start, planned.base_offset), end)
    return None if gone.is_empty else gone


def _find_known_end(split: SegmentSplit) -> int | None:
    """Returns the offset where a split's rows end. None if only the end of its file shows it."""
    end = split.log_end if split.is_of_last else split.next_base_offset
    wanted = split.bounds.offsets.end
    if end is None:
        return None if wanted == kafka_format.MAX_OFFSET else wanted
    return min(end, wanted)
