"""The offsets where each partition's scan starts and ends, from the starting… and ending… options and the files.

Spark's rules (`KafkaOffsetReader`):

- A timestamp stands for the first offset whose record has that timestamp or a later one.
- An ending timestamp that no record reaches means the end.
- A starting timestamp that no record reaches is an error, unless startingOffsetsByTimestampStrategy is latest.
- The files must hold the offsets that are given by number (failOnDataLoss).

The rules for batch reads alone are in `batch_queries.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.errors import DataError, DataLossError, OptionError
from kafka_segment_source.kafka_format import MAGIC_V2
from kafka_segment_source.logdir.segment_view import SegmentView, find_header
from kafka_segment_source.logdir.segments import Evidence, PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST, OffsetLimit
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Policy, Trust


def offset_range(
    log: PartitionLog, bounds: ReadBounds, source: Source, policy: Policy, warnings: Warnings
) -> OffsetRange:
    """The offsets of one partition that the bounds leave, between its log start and the end by `endAt`.

    Raises OptionError for a start after the end, and for a timestamp that no record reaches. Raises DataLossError for
    missing offsets that are given by number or lie in a hole. With failOnDataLoss=false they become a warning.
    """
    starting, ending = bounds.starting, bounds.ending
    start = find_start(log, bounds, source, policy)
    end = _find_end(log, ending, source, policy)
    where = f"partition {log.topic}-{log.partition}"
    if start > end:
        raise OptionError(
            f"option {starting.option!r} ({start}) is after option {ending.option!r} ({end}) for {where}",
            options=(starting.option, ending.option),
        )
    if starting.by_time:
        start = include_gap(log, start, source, policy)
    lost = _describe_hole(log, OffsetRange(start, end)) or _describe_loss(
        log, starting, ending, policy.trust, start, end
    )
    if lost is not None:
        warnings.add(report_lost_offsets(f"{lost} of {where}", policy), "lost offsets")
    return OffsetRange(start, end).intersect(log.offsets)


def check_missing(
    log: PartitionLog, evidence: Iterable[Evidence], wanted: OffsetRange, policy: Policy
) -> Iterator[tuple[Evidence, str]]:
    """Yields the evidence about wanted offsets that are missing, each with a sentence for the plan.

    Raises DataLossError for hard evidence, under failOnDataLoss=true.
    """
    for piece in evidence:
        gone = piece.offsets.intersect(wanted).intersect(log.offsets)
        if gone.is_empty:
            continue
        said = piece._replace(offsets=gone).text(f"partition {log.topic}-{log.partition}")
        yield piece, report_lost_offsets(said, policy) if piece.is_hard else said


def find_start(log: PartitionLog, bounds: ReadBounds, source: Source, policy: Policy) -> int:
    """The offset where the bounds begin with this partition: 0 for earliest, -1 for latest.

    Raises OptionError for a timestamp that no record reaches, unless the strategy is latest. Then it raises
    CorruptRecordError under FAILFAST if a wrong offset leaves the end in doubt. Raises DataLossError instead, under
    failOnDataLoss, if records are missing for certain: one of them may reach it.
    """
    starting = bounds.starting
    number = starting.at(log.topic_partition)
    if not starting.by_time:
        return 0 if number == EARLIEST else number
    offset = _find_offset_at(log, number, source, policy)
    if offset is not None:
        return offset
    if bounds.start_at_latest_if_no_match:
        return find_log_end(log, policy.trust).sure_offset(policy)
    hard = (evidence for evidence in log.evidence if evidence.is_hard)
    list(check_missing(log, hard, log.offsets, policy))  # raises under failOnDataLoss
    raise OptionError(
        f"option {starting.option!r}: no offset of partition {log.topic}-{log.partition} has a timestamp at or"
        f" after {format_millis(number)} (startingOffsetsByTimestampStrategy=latest reads nothing of it instead)",
        options=(starting.option, "startingOffsetsByTimestampStrategy"),
    )


def include_gap(log: PartitionLog, start: int, source: Source, policy: Policy) -> int:
    """Returns where the missing offsets right before `start` begin, or `start`.

    A time may stand for one of them. With them in the range, a read notices a segment file that is missing there.
    """
    hole = next((hole.offsets for hole in log.holes if hole.offsets.end == start), None)
    if hole is not None:
        return hole.start
    at = bisect_left(log.segments, start, key=lambda segment: segment.base_offset)
    if at == len(log.segments) or log.segments[at].base_offset != start:
        at -= 1
        if at < 1 or not _is_first_record(log, at, start, policy.trust):
            return start
    below = log.segments[at - 1].base_offset if at else -1
    gone = [evidence.offsets.start for evidence in log.evidence if evidence.is_hard]
    gone = [offset for offset in gone if below <= offset < start]
    if gone or not at or not log.is_followed(at - 1):
        return min(gone, default=start)
    with SegmentView(log.segments[at - 1], policy.trust) as view:
        end = max(view.end_offset(), log_start_offset(log))
        if not log.gap_is_loss(at - 1) and (end >= start or view.find_lost_end(end) is None):
            return start  # compaction explains the gap
    if end >= start or not log.copies:
        return min(start, end)
    # damage may hide the end of the segment in one copy, and another copy has what is there
    from kafka_segment_source.reading.following import whole_split
    from kafka_segment_source.reading.losses import Lost
    from kafka_segment_source.reading.mending import mend

    pieces = mend(whole_split(log, at - 1), OffsetRange(end, start), source, policy, DataLossError(""))
    last = pieces[-1] if pieces else None
    return last.offsets.start if isinstance(last, Lost) else start


def _is_first_record(log: PartitionLog, at: int, offset: int, trust: Trust) -> bool:
    """Whether segment number `at` has no record below an offset. Compaction removes those at the begin of a file."""
    segment = log.segments[at]
    header = find_header(segment, segment.base_offset, trust) if segment.offsets.start <= segment.base_offset else None
    if header is None or not header.base_offset <= offset <= header.last_offset or header.magic < MAGIC_V2:
        return False
    if header.base_offset == offset:
        return True
    from kafka_segment_source.partition.survey import rows_of

    return min(rows_of(log, segment, header, trust), default=None) == offset


def _find_end(log: PartitionLog, ending: OffsetLimit, source: Source, policy: Policy) -> int:
    number = ending.at(log.topic_partition)
    if not ending.by_time:
        return kafka_format.MAX_OFFSET if number == LATEST else number
    offset = _find_offset_at(log, number, source, policy)
    return kafka_format.MAX_OFFSET if offset is None else offset


def _find_offset_at(log: PartitionLog, timestamp: int, source: Source, policy: Policy) -> int | None:
    # it decodes: only then are the kernels loaded
    from kafka_segment_source.planning.time_lookup import first_offset_at

    return first_offset_at(log, timestamp, source, policy)


def log_start_offset(log: PartitionLog) -> int:
    """The first offset to read: that of the files, or the log start of the checkpoint if it is higher."""
    first = min([segment.base_offset for segment in log.segments] or [0])
    return max(min(first, log.first_offset), log.offsets.start)


class LogEnd(NamedTuple):
    """Where a log ends.

    offset: after the last one to read: the high watermark, or the end of the files; 0 without segments.
    fault: the damage that leaves it in doubt: the last batch, or the one before it, states a wrong offset.
    """

    offset: int
    fault: DataError | None = None

    def sure_offset(self, policy: Policy) -> int:
        """The offset. Raises the fault under FAILFAST. Else reads leave out the batch, and it lies before that."""
        if self.fault is not None and not policy.drop_malformed:
            raise self.fault
        return self.offset

    def doubts(self, log: PartitionLog) -> list[str]:
        """A sentence about the fault, if there is one."""
        where = f"partition {log.topic}-{log.partition}"
        return [] if self.fault is None else [f"the end of {where}, {self.offset}, is in doubt: {self.fault}"]


def find_log_end(log: PartitionLog, trust: Trust) -> LogEnd:
    """Finds where a log ends. Of several copies, the end and the damage behind it are known already."""
    if not log.segments:
        return LogEnd(0)
    if log.end is not None:
        return LogEnd(log.end, log.end_damage) if log.end < log.offsets.end else LogEnd(log.offsets.end)
    last = log.segments[-1]
    if last.base_offset >= log.offsets.end:
        return LogEnd(log.offsets.end)
    end = _find_end_of_files(log, trust)
    return LogEnd(log.offsets.end) if end.offset >= log.offsets.end else end


def _find_end_of_files(log: PartitionLog, trust: Trust) -> LogEnd:
    """Finds the end of the last file. Sound batches behind damage count, as in a read."""
    last = log.segments[-1]
    with SegmentView(last, trust) as view:
        end = view.find_end()
    if end.is_hidden and last.is_last:
        from kafka_segment_source.partition.copy_view import CopyView  # it reads the file, and loads the kernels

        tail = CopyView(log, Policy(trust)).tail
        return LogEnd(tail.end, tail.damage)
    if end.misplaced is None:
        return LogEnd(end.offset)
    from kafka_segment_source.decoding.faults import Faults  # it loads the kernels

    stated = end.misplaced.base_offset, end.misplaced.last_offset
    return LogEnd(end.offset, Faults(last.path).out_of_order(end.misplaced.position, stated, end.allowed))


def _is_end_hidden(log: PartitionLog, trust: Trust) -> bool:
    """Whether damage in the last segment hides where the log ends. Offsets may lie behind it, and a read says so."""
    if log.end is not None or not log.segments or log.segments[-1].base_offset >= log.offsets.end:
        return False
    with SegmentView(log.segments[-1], trust) as view:
        return view.log_end() is None


def _describe_hole(log: PartitionLog, wanted: OffsetRange) -> str | None:
    """Describes wanted offsets that no file holds, although files hold lower and higher offsets."""
    for hole in log.holes:
        gone = hole.offsets.intersect(wanted).intersect(log.offsets)
        if not gone.is_empty:
            return f"{hole.why}: no file holds the offsets {gone.start} to {gone.end - 1}"
    return None


def _describe_loss(
    log: PartitionLog, starting: OffsetLimit, ending: OffsetLimit, trust: Trust, start: int, end: int
) -> str | None:
    """Describes the offsets that were given by number and that the files do not hold."""
    starts_by_number = not starting.by_time and starting.at(log.topic_partition) >= 0
    ends_by_number = not ending.by_time and ending.at(log.topic_partition) >= 0
    if not starts_by_number and not ends_by_number:
        return None
    bases = [segment.base_offset for segment in log.segments] or [0]
    earliest = log_start_offset(log)
    first = min(bases[0], log.first_offset)
    begin = f"the files begin at {earliest}" if earliest == first else f"the log starts at {earliest} (checkpoint)"
    if starts_by_number and start < earliest:
        return f"option {starting.option!r} asks for offset {start}, but {begin}"
    if ends_by_number and end < earliest:
        return f"option {ending.option!r} asks for offsets below {end}, but {begin}"
    furthest = end if ends_by_number else start
    if furthest <= min(bases[-1], log.offsets.end):
        return None
    latest = find_log_end(log, trust).offset
    if furthest > latest and not _is_end_hidden(log, trust):
        option = ending.option if ends_by_number else starting.option
        end_words = "the high watermark is" if latest == log.offsets.end else "the files end at"
        return f"option {option!r} asks for offsets up to {furthest}, but {end_words} {latest}"
    return None
