"""`list_partitions`: a path and keyword options → the partitions and segments under it, by index files and headers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Unpack

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from kafka_segment_source.inspection.summary import Summary, summarize, total
from kafka_segment_source.kafka_format import MAX_OFFSET
from kafka_segment_source.keywords import PathsLike, TopicOptions, check_names, option_texts
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import Evidence, ListedLog, PartitionLog, Segment
from kafka_segment_source.logdir.topic_choice import list_deleted
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.chain import list_paths
from kafka_segment_source.partition.logs import available_logs, dead_directories, shown_logs, warn_of_listed
from kafka_segment_source.partition.missing import all_evidence, notice, report_lost_partitions
from kafka_segment_source.reporting import Advance, OnProgress, Warnings, add_up, ignore_progress
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.paths import name_of, parent_of
from kafka_segment_source.storage.retrying import Attempts, try_again
from kafka_segment_source.storage.store import FileVersion
from kafka_segment_source.trust import Policy

_Summarize = Callable[[Segment], Summary | FileChangedError]
_AT_ONCE = 16  # segments whose headers are read, each by 1 MiB at a time


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """One segment: its `.log` file, and the summary of its headers."""

    path: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """One directory of a partition.

    log_start_offset: records below it are deleted, even if the files still hold them.
    summary: of all segments.
    swaps: files that an interrupted compaction left; they are read instead of the segments that they replace.
    missing: evidence about offsets that the files should hold and do not.
    read: the offsets that a read of all given paths takes from this directory, in order. None if no other directory
    holds the partition, or if no read is possible.
    """

    topic: str
    partition: int
    directory: str
    log_start_offset: int
    summary: Summary
    segments: tuple[ListedSegment, ...]
    swaps: tuple[str, ...]
    missing: tuple[Evidence, ...]
    read: tuple[OffsetRange, ...] | None = None

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it."""
        return f"{self.topic}-{self.partition}"

    @property
    def faults(self) -> tuple[str, ...]:
        """One sentence for each fault, with the path of the segment. One alone if the directory cannot be listed."""
        if not self.segments:
            return self.summary.faults
        return tuple(f"{segment.path}: {fault}" for segment in self.segments for fault in segment.summary.faults)

    def to_dict(self) -> dict[str, Any]:
        """The partition as `kafkaseg ls --json` prints it."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "directory": self.directory,
            "logStartOffset": self.log_start_offset,
            **self.summary.to_dict(),
            "swaps": list(self.swaps),
            "missing": [
                {
                    "startOffset": missing.offsets.start,
                    "endOffset": missing.offsets.end,
                    "why": missing.why,
                    "harmless": missing.harmless,
                }
                for missing in self.missing
            ],
            **({} if self.read is None else {"read": [_range_to_dict(offsets) for offsets in self.read]}),
            "segments": [{"path": segment.path, **segment.summary.to_dict()} for segment in self.segments],
        }


def _range_to_dict(offsets: OffsetRange) -> dict[str, int | None]:
    """An inclusive start and an exclusive end. The end is None where the log goes on."""
    return {"startOffset": offsets.start, "endOffset": None if offsets.end == MAX_OFFSET else offsets.end}


@dataclass(frozen=True, slots=True)
class Listing:
    """The partitions under some paths.

    not_read: directories that a broker has given up or is moving, each with its size in bytes.
    warnings: one sentence each.
    """

    partitions: tuple[ListedPartition, ...]
    not_read: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The listing as `kafkaseg ls --json` prints it."""
        return {
            "partitions": [partition.to_dict() for partition in self.partitions],
            "notRead": [{"directory": directory, "bytes": size} for directory, size in self.not_read],
        }


def list_partitions(
    path: PathsLike, *, deep: bool = False, on_progress: OnProgress = ignore_progress, **options: Unpack[TopicOptions]
) -> Listing:
    """Lists partitions and their segments: offsets, records, bytes, time span, codecs, health of the indexes.

    It reads index files and batch headers. Nothing is decompressed, and no CRC is checked (`verify` does that). Of a
    segment of 16 MiB or more with sound index files it reads the headers at both ends: `records` is then the number of
    its offsets, which control records and compaction make too large (`records_exact`). Internal topics are listed too.
    If the paths hold several copies of a partition, a warning states which offsets a read takes from which of them.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        deep: Whether all headers are read, of large segments too.
        on_progress: Is called with the number of finished bytes and the number of all bytes.
        options: subscribe, subscribePattern, assign, topic, partition.

    Returns:
        One entry for each partition directory, in order of topic and partition.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        StorageError: No directory can be listed. A retry may help. One of several partition directories that cannot be
            listed is said in its summary, and a `.log` that cannot be read in that of its segment.

    Example:
        >>> import kafka_segment_source
        >>> listing = kafka_segment_source.list_partitions("examples/data/orders/data", subscribe="orders")
        >>> [(each.name, each.summary.records) for each in listing.partitions]
        [('orders-0', 1164), ('orders-1', 1476), ('orders-2', 1360)]
    """
    check_names(options, TopicOptions, "list_partitions, which takes")
    parsed, warnings = parse_options(option_texts(path, options))
    return list_source(parsed.source, parsed.policy, warnings, on_progress, deep=deep)


def list_source(
    source: Source,
    policy: Policy,
    warnings: Warnings,
    on_progress: OnProgress = ignore_progress,
    *,
    deep: bool = False,
) -> Listing:
    """Lists the partitions of a source. The `warnings` of parsing become those of the listing."""
    seen = time.monotonic()
    logs = shown_logs(source)
    advance = add_up(sum(segment.size for log in logs for segment in log.segments), on_progress)
    logs, summaries = _summarize_logs(logs, source, partial(_try_to_summarize, advance=advance, deep=deep), warnings)
    checkpoints = Checkpoints(warnings, source.storage)
    warn_of_listed(logs, warnings)
    copies = Counter(log.topic_partition for log in logs)
    partitions = [
        _list_partition(log, summary, checkpoints, seen, copies[log.topic_partition] == 1)
        for log, summary in zip(logs, summaries, strict=True)
    ]
    partitions = _note_reads(partitions, logs, source, policy, warnings)
    report_lost_partitions(logs, checkpoints, source, seen, warnings)
    # these directories may belong to any topic
    not_read = dead_directories(source, warnings) if source.topics == TopicSelection() else []
    return Listing(tuple(partitions), tuple(not_read), tuple(warnings))


def _summarize_logs(
    logs: list[ListedLog], source: Source, summarize_one: _Summarize, warnings: Warnings
) -> tuple[list[ListedLog], list[list[Summary]]]:
    """Summarizes the segments of each directory, as they are by then. A directory whose files are replaced meanwhile is
    listed again. One that is gone is left out, with a warning."""
    segments = [segment for log in logs for segment in log.segments]
    at_once = requests_at_once((segment.storage, segment.path) for segment in segments)
    first = map_ahead(summarize_one, segments, min(at_once, _AT_ONCE))
    there: list[ListedLog] = []
    summaries: list[list[Summary]] = []
    for log in logs:
        outcomes = _follow_changes(log, [next(first) for _ in log.segments], source, summarize_one)
        if outcomes is None:
            warnings.add(f"partition directory {log.directory!r} was removed while it was listed, and is left out")
        else:
            there.append(outcomes[0])
            summaries.append(outcomes[1])
    return there, summaries


def _try_to_summarize(segment: Segment, advance: Advance, deep: bool) -> Summary | FileChangedError:
    try:
        return summarize(segment, advance, deep=deep)
    except FileChangedError as error:
        return error


def _follow_changes(
    log: ListedLog, outcomes: list[Summary | FileChangedError], source: Source, summarize_one: _Summarize
) -> tuple[ListedLog, list[Summary]] | None:
    """Returns a log as it is now, with the summary of each segment. None if it is gone.

    What was summarized already is not read again. Raises FileChangedError if the files change too often.
    """
    attempts = Attempts()
    known: dict[tuple[str, FileVersion, int], Summary] = {}
    while True:
        pairs = list(zip(log.segments, outcomes, strict=True))
        known |= {_identify(segment): summary for segment, summary in pairs if isinstance(summary, Summary)}
        changed = next((outcome for outcome in outcomes if isinstance(outcome, FileChangedError)), None)
        if changed is None:
            return log, [outcome for outcome in outcomes if isinstance(outcome, Summary)]
        attempts.note_failure(changed)
        try:
            [log] = shown_logs(source.at(tuple(list_paths(log))))
        except PathError:
            return None
        before = len(known)
        outcomes = []
        for segment in log.segments:
            outcomes.append(known.get(_identify(segment)) or summarize_one(segment))
            if isinstance(outcomes[-1], FileChangedError):
                break  # the rest would be as old
        outcomes += [changed] * (len(log.segments) - len(outcomes))
        if sum(isinstance(outcome, Summary) for outcome in outcomes) > before:
            attempts.note_progress()


def _identify(segment: Segment) -> tuple[str, FileVersion, int]:
    return segment.path, segment.version, segment.size


def _list_partition(
    log: ListedLog, summaries: list[Summary], checkpoints: Checkpoints, seen: float, is_only: bool
) -> ListedPartition:
    """is_only: whether no other directory holds the partition. What this one lacks is then nowhere."""
    if log.unreadable is not None:
        unknown = Summary(records_exact=False, faults=(log.unreadable,), unreadable=1)
        return ListedPartition(log.topic, log.partition, log.directory, 0, unknown, (), (), ())
    summary = total(summaries)
    [noticed] = notice([PartitionLog.of(log)], [log], checkpoints, seen)
    # the end of a damaged log is not known
    missing = all_evidence(noticed, None if summary.faults else summary.end_offset)
    if is_only:
        missing += tuple(_find_holes(noticed, summaries))
    return ListedPartition(
        log.topic,
        log.partition,
        log.directory,
        max(checkpoints.log_start(log), summary.start_offset),
        summary,
        tuple(ListedSegment(segment.path, summary) for segment, summary in zip(log.segments, summaries, strict=True)),
        tuple(swap.path for swap in log.swaps),
        missing,
    )


def _find_holes(log: PartitionLog, summaries: list[Summary]) -> Iterator[Evidence]:
    """Yields the offsets between the last batch of a segment and the next segment.

    In a compacted log they mean nothing. Where batches themselves leave offsets out, only compaction has done that, and
    it may have emptied the place too.
    """
    if log.compacted:
        return
    pairs = zip(log.segments, summaries, strict=True)
    gaps = [
        (segment, OffsetRange(summary.end_offset, segment.span.end)) for segment, summary in pairs if not summary.faults
    ]
    holes = [(segment, gap) for segment, gap in gaps if not segment.is_last and not gap.is_empty]
    was_compacted = bool(holes) and any(map(_leaves_offsets_out, log.segments, summaries))
    for segment, gap in holes:
        yield Evidence(
            gap,
            f"a segment is not there after {name_of(segment.path)}",
            "if compaction removed them" if was_compacted else None,
        )


def _leaves_offsets_out(segment: Segment, summary: Summary) -> bool:
    """Whether offsets are missing among the batches of a segment. All headers are read for it."""
    read = _try_to_summarize(segment, lambda _: None, deep=True) if summary.is_sampled else summary
    if isinstance(read, FileChangedError) or read.unreadable:
        return False
    return read.records + read.control_records < read.end_offset - read.start_offset


def _note_reads(
    partitions: list[ListedPartition], logs: Sequence[ListedLog], source: Source, policy: Policy, warnings: Warnings
) -> list[ListedPartition]:
    """Notes, for each directory of a partition with several, the offsets that a read of all of them takes from it."""
    noted: list[ListedPartition] = []
    deleted = list_deleted(logs)
    for _, group in groupby(zip(partitions, logs, strict=True), key=lambda pair: pair[1].topic_partition):
        pairs = list(group)
        copies = [partition for partition, _ in pairs if partition.directory not in deleted]
        if len(pairs) > 1 and copies:
            kept = [log for _, log in pairs if log.directory not in deleted]
            copies = _note_copies(copies, kept, source, policy, warnings)
        by_directory = {copy.directory: copy for copy in copies}
        noted += [by_directory.get(partition.directory) or replace(partition, read=()) for partition, _ in pairs]
    return noted


def _note_copies(
    copies: list[ListedPartition], logs: list[ListedLog], source: Source, policy: Policy, warnings: Warnings
) -> list[ListedPartition]:
    paths = tuple(dict.fromkeys(path for log in logs for path in list_paths(log)))
    try:
        chain, said = try_again(partial(_chain_copies, source.at(paths), policy))
    except (FileChangedError, PathError, StorageError) as error:
        warnings.add(f"a read of all copies of {copies[0].name} is not possible: {error}", "copies cannot be read")
        return copies
    warnings += said
    return [replace(copy, read=_find_read_offsets(chain, copy.directory)) for copy in copies]


def _chain_copies(source: Source, policy: Policy) -> tuple[PartitionLog, list[str]]:
    warnings = Warnings()
    [chain] = available_logs(source, policy, warnings)
    return chain, warnings


def _find_read_offsets(chain: PartitionLog, directory: str) -> tuple[OffsetRange, ...]:
    """Returns the offsets that a chain of copies takes from one directory. Neighbouring ranges are joined."""
    ranges: list[OffsetRange] = []
    for segment in chain.segments:
        offsets = segment.span.intersect(segment.offsets)
        if parent_of(segment.path) != directory or offsets.is_empty:
            continue
        if ranges and ranges[-1].end == offsets.start:
            offsets = OffsetRange(ranges.pop().start, offsets.end)
        ranges.append(offsets)
    return tuple(ranges)
