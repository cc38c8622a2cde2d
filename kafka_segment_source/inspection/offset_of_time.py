"""`offsets_for_time`: a path, a time and keyword options → the first offset at or after it, of each partition."""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from kafka_segment_source import times
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import OptionError
from kafka_segment_source.keywords import OffsetOptions, PathsLike, check_names, option_texts, value_text
from kafka_segment_source.logdir.segments import Evidence, PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import explain_removed, follow_changes, settled_logs
from kafka_segment_source.partition.missing import all_evidence, sum_up
from kafka_segment_source.planning.offset_bounds import find_log_end, include_gap
from kafka_segment_source.planning.offset_search import SearchStep
from kafka_segment_source.planning.stable_end import StableEnds
from kafka_segment_source.planning.time_lookup import first_offset_at
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy

_WORDS = {"earliest": EARLIEST, "-2": EARLIEST, "latest": LATEST, "-1": LATEST}


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """The answer for one partition.

    offset: None where no record is at or after the time.
    log_end_offset: the offset of the next record.
    last_stable_offset: under read_committed, where the log ends for a consumer of that level. Otherwise None.
    steps: of the search, if they were asked for. None for earliest and latest, which need no search.
    """

    topic: str
    partition: int
    offset: int | None
    log_end_offset: int
    last_stable_offset: int | None = None
    steps: tuple[SearchStep, ...] | None = None

    @property
    def end_offset(self) -> int:
        """Where the log ends under the isolation level."""
        return self.log_end_offset if self.last_stable_offset is None else self.last_stable_offset

    def to_dict(self) -> dict[str, Any]:
        """The answer as `kafkaseg offsets --json` prints it."""
        answer: dict[str, Any] = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "logEndOffset": self.log_end_offset,
        }
        if self.last_stable_offset is not None:
            answer["lastStableOffset"] = self.last_stable_offset
        if self.steps is not None:
            answer["steps"] = [step.to_dict() for step in self.steps]
        return answer


@dataclass(frozen=True, slots=True)
class OffsetsForTime:
    """The answers for all partitions.

    timestamp: epoch milliseconds, or -2 for earliest and -1 for latest.
    warnings: one sentence each.
    """

    timestamp: int
    partitions: tuple[PartitionOffset, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The answers as `kafkaseg offsets --json` prints them."""
        is_time = self.timestamp not in (EARLIEST, LATEST)
        return {
            "timestamp": times.format_millis(self.timestamp) if is_time else None,
            "partitions": [partition.to_dict() for partition in self.partitions],
        }


def offsets_for_time(
    path: PathsLike, time: datetime | int | str, *, explain: bool = False, **options: Unpack[OffsetOptions]
) -> OffsetsForTime:
    """Finds, in each partition, the first offset with a timestamp at or after a time, as a broker's offsetsForTimes.

    It looks in the order of offsets, and control records count.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        time: A datetime with a zone, ISO-8601, epoch milliseconds, a time ago ("-2h"), "earliest" or "latest".
        explain: Whether each answer gets the steps of its search: segments, index entries, scanned bytes.
        options: subscribe, subscribePattern, assign, topic, partition, timeZone, checkCrcs, trustIndexes, mode, endAt,
            isolationLevel.

    Returns:
        One answer for each partition. Its offset is None where no record is at or after the time.

    Raises:
        UsageError: An invalid request: a time, an option, a path or a topic that cannot be served.
        DataError: Damaged data on the way to the offset.
        DataLossError: The files change faster than they are read (FileChangedError).
        StorageError: A file or directory cannot be read. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> found = kafka_segment_source.offsets_for_time("examples/data/orders/data/orders-0", "2026-03-10T09:30")
        >>> found.partitions[0].offset
        579
    """
    check_names(options, OffsetOptions, "offsets_for_time, which takes")
    parsed, warnings = parse_options(option_texts(path, options))
    timestamp = _parse_time(value_text("time", time), parsed.bounds.time_zone)
    return find_offsets(
        parsed.source, parsed.policy, parsed.content.read_committed, warnings, timestamp, explain=explain
    )


def find_offsets(
    source: Source,
    policy: Policy,
    read_committed: bool,
    warnings: Warnings,
    timestamp: int,
    *,
    explain: bool = False,
) -> OffsetsForTime:
    """Finds the offsets of a time: epoch ms, -2 for earliest, -1 for latest. `offsets_for_time` has the parameters."""
    answers: list[PartitionOffset] = []
    evidence: list[tuple[Evidence, str]] = []
    said = Warnings()
    for log in settled_logs(source, policy, warnings):
        places = follow_changes(
            log, source, policy, lambda log: _answer(log, timestamp, source, policy, read_committed, explain)
        )
        if places is None:
            said.append(explain_removed(log))
            continue
        answers.append(places[0])
        evidence += places[1]
        said += places[2]
    return OffsetsForTime(timestamp, tuple(answers), (*warnings, *sum_up(evidence), *said))


def _answer(
    log: PartitionLog, timestamp: int, source: Source, policy: Policy, read_committed: bool, explain: bool
) -> tuple[PartitionOffset, list[tuple[Evidence, str]], list[str]]:
    """Returns the answer for one partition, what is missing from it, each with its sentence, and its warnings."""
    name, log_end = f"partition {log.topic}-{log.partition}", find_log_end(log, policy.trust)
    missing = [(evidence, evidence.text(name)) for evidence in all_evidence(log, log_end.offset)]
    warnings = Warnings()
    warnings.add_all(log_end.doubts(log), "an end in doubt")
    stable = StableEnds(source, policy, read_committed=read_committed)
    files_end = log_end.sure_offset(policy) if timestamp == LATEST else log_end.offset
    end = stable.intersect(log, OffsetRange(0, files_end), warnings).end
    steps: list[SearchStep] | None = None
    if timestamp == LATEST:
        offset: int | None = end
    elif timestamp == EARLIEST:
        offset = max([log.offsets.start, *(segment.base_offset for segment in log.segments[:1])])
    else:
        steps = [] if explain else None
        batch = first_offset_at(log, timestamp, source, policy, steps)
        offset = batch if batch is not None and batch < end else None
        if offset is not None and (start := include_gap(log, offset, source, policy)) < offset:
            warnings.add(
                f"the offsets {start} to {offset - 1} of {name}, right before the answer, are missing: one of them may"
                " have been the first at or after the time",
                "missing offsets before an answer",
            )
    answer = PartitionOffset(
        log.topic,
        log.partition,
        offset,
        log_end.offset,
        end if read_committed else None,
        None if steps is None else tuple(steps),
    )
    return answer, missing, warnings


def _parse_time(text: str, zone: str) -> int:
    """Parses a time into epoch milliseconds, EARLIEST or LATEST. Raises OptionError for any other text."""
    word = text.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    try:
        return times.parse_moment(text, times.zone(zone), int(clock.time() * 1000))
    except ValueError as error:
        raise OptionError(f"option 'time' is {text!r}: {error}, earliest or latest", options=("time",)) from error
