"""`list_partitions`: a path and keyword options → the partitions and segments under it, from their batch headers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Unpack

from kafka_segment_source.inspection.summary import Summary, summarize, total
from kafka_segment_source.keywords import PathsLike, TopicOptions, check_names, option_texts
from kafka_segment_source.logdir.catalog import list_dead_directories, list_directories
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import Evidence, ListedLog, PartitionLog
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.missing import all_evidence, lost_partitions, notice
from kafka_segment_source.reporting import OnProgress, add_up, few, ignore_progress


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """One segment: its `.log` file, and the summary of its headers."""

    path: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class ListedPartition:
    """One directory of a partition.

    log_start_offset: records below it are deleted, even if the files still hold them. summary: of all segments. swaps:
    files that an interrupted compaction left; they are read instead of the segments that they replace. missing:
    evidence about offsets that the files should hold and do not.
    """

    topic: str
    partition: int
    directory: str
    log_start_offset: int
    summary: Summary
    segments: tuple[ListedSegment, ...]
    swaps: tuple[str, ...]
    missing: tuple[Evidence, ...]

    @property
    def name(self) -> str:
        """The partition's name, as Kafka writes it."""
        return f"{self.topic}-{self.partition}"

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
                    "startOffset": each.offsets.start,
                    "endOffset": each.offsets.end,
                    "why": each.why,
                    "harmless": each.harmless,
                }
                for each in self.missing
            ],
            "segments": [{"path": each.path, **each.summary.to_dict()} for each in self.segments],
        }


@dataclass(frozen=True, slots=True)
class Listing:
    """The partitions under some paths.

    not_read: directories that a broker has given up or is moving, each with its size in bytes. warnings: one sentence
    each.
    """

    partitions: tuple[ListedPartition, ...]
    not_read: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The listing as `kafkaseg ls --json` prints it."""
        return {
            "partitions": [each.to_dict() for each in self.partitions],
            "notRead": [{"directory": directory, "bytes": size} for directory, size in self.not_read],
        }


def list_partitions(
    path: PathsLike, *, on_progress: OnProgress = ignore_progress, **options: Unpack[TopicOptions]
) -> Listing:
    """Lists partitions and their segments: offsets, records, bytes, time span, codecs, health of the indexes.

    It reads batch headers only. Nothing is decompressed, and no CRC is checked (`verify` does that). Internal topics
    are listed too.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        on_progress: Is called with the number of finished bytes and the number of all bytes.
        options: subscribe, subscribePattern, assign, topic, partition.

    Returns:
        One entry for each partition directory, in order of topic and partition.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.

    Example:
        >>> import kafka_segment_source
        >>> listing = kafka_segment_source.list_partitions("examples/data/orders/data", subscribe="orders")
        >>> [(each.name, each.summary.records) for each in listing.partitions]
        [('orders-0', 1164), ('orders-1', 1476), ('orders-2', 1360)]
    """
    check_names(options, TopicOptions, "list_partitions, which takes")
    parsed, warnings = parse_options(option_texts(path, options))
    seen = time.monotonic()
    logs = list_directories(parsed)
    advance = add_up(sum(segment.size for log in logs for segment in log.segments), on_progress)
    summaries = [[summarize(segment, advance) for segment in log.segments] for log in logs]
    checkpoints = Checkpoints(warnings)
    warnings += few([fault for log in logs for fault in log.beside.faults])
    partitions = [_list_partition(log, found, checkpoints, seen) for log, found in zip(logs, summaries, strict=True)]
    warnings += lost_partitions(logs, checkpoints, parsed, seen)
    # these directories may belong to any topic
    not_read = list_dead_directories(parsed) if parsed.topics == TopicSelection() else []
    return Listing(tuple(partitions), tuple(not_read), tuple(warnings))


def _list_partition(log: ListedLog, summaries: list[Summary], checkpoints: Checkpoints, seen: float) -> ListedPartition:
    summary = total(summaries)
    [noticed] = notice([PartitionLog.of(log)], [log], checkpoints, seen)
    # the end of a damaged log is not known
    missing = all_evidence(noticed, None if summary.faults else summary.end_offset)
    return ListedPartition(
        log.topic,
        log.partition,
        log.directory,
        max(checkpoints.log_start(log), summary.start_offset),
        summary,
        tuple(ListedSegment(segment.path, each) for segment, each in zip(log.segments, summaries, strict=True)),
        tuple(swap.path for swap in log.swaps),
        missing,
    )
