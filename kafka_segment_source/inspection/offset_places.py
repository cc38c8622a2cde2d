"""`locate_offset`: a path, an offset and keyword options → where each partition has it, and how a broker gets there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np

from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.damage import damage_in
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import OptionError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.keywords import OffsetOptions, PathsLike, check_names, option_texts
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import explain_removed, follow_changes, settled_logs
from kafka_segment_source.planning.offset_bounds import find_log_end, log_start_offset
from kafka_segment_source.planning.offset_search import FoundBatch, OffsetEntry, SearchStep, search
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy, Trust

FETCH_BYTES = 1024 * 1024  # max.partition.fetch.bytes of a consumer


@dataclass(frozen=True, slots=True)
class Fetch:
    """The bytes of a `.log` that a fetch from a batch on takes, and the offset that it cannot reach.

    start, end: byte positions. It takes at least one batch, and no byte of another segment.
    upper_entry: the entry of the offset index that gives the upper bound. None if no entry lies behind the fetch.
    upper_bound: of the offsets in the fetch, exclusive. A broker names the aborted transactions up to there. Without an
    entry it is the next segment's base offset, or the log end offset.
    """

    start: int
    end: int
    upper_entry: OffsetEntry | None
    upper_bound: int

    def to_dict(self) -> dict[str, Any]:
        """The fetch as `kafkaseg offsets --json` prints it."""
        return {
            "startPosition": self.start,
            "endPosition": self.end,
            "upperBoundEntry": None if self.upper_entry is None else self.upper_entry.to_dict(),
            "upperBoundOffset": self.upper_bound,
        }


@dataclass(frozen=True, slots=True)
class OffsetPlace:
    """The place of an offset in one partition.

    log_start_offset, log_end_offset: the log's first offset, and the offset of its next record.
    batch: that holds the offset, or the first one after it where compaction removed it. None outside the log.
    steps: of the search.
    fetch: a fetch from the batch on. None without a batch.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    batch: FoundBatch | None = None
    steps: tuple[SearchStep, ...] = ()
    fetch: Fetch | None = None

    def to_dict(self, explain: bool = False) -> dict[str, Any]:
        """The place as `kafkaseg offsets --json` prints it. explain: with the steps and the fetch."""
        answer = {
            "topic": self.topic,
            "partition": self.partition,
            "logStartOffset": self.log_start_offset,
            "logEndOffset": self.log_end_offset,
            "batch": None if self.batch is None else self.batch.to_dict(),
        }
        if explain:
            answer["steps"] = [step.to_dict() for step in self.steps]
            answer["fetch"] = None if self.fetch is None else self.fetch.to_dict()
        return answer


@dataclass(frozen=True, slots=True)
class OffsetPlaces:
    """The places of an offset in all partitions.

    warnings: one sentence each.
    """

    offset: int
    partitions: tuple[OffsetPlace, ...]
    warnings: tuple[str, ...]

    def to_dict(self, explain: bool = False) -> dict[str, Any]:
        """The places as `kafkaseg offsets --json` prints them."""
        return {"offset": self.offset, "partitions": [partition.to_dict(explain) for partition in self.partitions]}


def locate_offset(
    path: PathsLike, offset: int, *, fetch_bytes: int = FETCH_BYTES, **options: Unpack[OffsetOptions]
) -> OffsetPlaces:
    """Finds, in each partition, the batch of an offset as a broker does: the segment, its offset index, a scan.

    It reads batch headers and their CRCs, and decodes no record.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        offset: Absolute, 0 or more.
        fetch_bytes: The most bytes of the fetch whose upper bound is looked up (max.partition.fetch.bytes).
        options: subscribe, subscribePattern, assign, topic, partition, timeZone, checkCrcs, trustIndexes, mode, endAt,
            isolationLevel. The last one changes nothing.

    Returns:
        One place for each partition. It has no batch where the log does not reach the offset.

    Raises:
        UsageError: An invalid request: an offset, an option, a path or a topic that cannot be served.
        DataError: Damaged data on the way to the offset.
        DataLossError: The files change faster than they are read (FileChangedError).
        StorageError: A file or directory cannot be read. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> found = kafka_segment_source.locate_offset("examples/data/orders/data/orders-0", 579)
        >>> batch = found.partitions[0].batch
        >>> batch.base_offset, batch.last_offset, batch.position
        (572, 589, 8357)
    """
    check_names(options, OffsetOptions, "locate_offset, which takes")
    if offset < 0 or fetch_bytes < 1:
        name, value, least = ("offset", offset, 0) if offset < 0 else ("fetch_bytes", fetch_bytes, 1)
        raise OptionError(f"{name} is {value}: expected a number, {least} or more")
    parsed, warnings = parse_options(option_texts(path, options))
    return find_places(parsed.source, parsed.policy, warnings, offset, fetch_bytes)


def find_places(
    source: Source, policy: Policy, warnings: Warnings, offset: int, fetch_bytes: int = FETCH_BYTES
) -> OffsetPlaces:
    """Finds the places of an offset in the partitions of a source."""
    places: list[OffsetPlace] = []
    for log in settled_logs(source, policy, warnings):
        found = follow_changes(
            log, source, policy, partial(_locate, offset=offset, fetch_bytes=fetch_bytes, source=source, policy=policy)
        )
        if found is None:
            warnings.add(explain_removed(log))
        else:
            places.append(found[0])
            warnings.add_all(found[1], "an end in doubt")
    return OffsetPlaces(offset, tuple(places), tuple(warnings))


def _locate(
    log: PartitionLog, offset: int, fetch_bytes: int, source: Source, policy: Policy
) -> tuple[OffsetPlace, list[str]]:
    """Returns the place of an offset in one partition, and its warnings."""
    start, log_end = log_start_offset(log), find_log_end(log, policy.trust)
    end = log_end.offset if offset < log_end.offset else log_end.sure_offset(policy)
    doubts = log_end.doubts(log)
    if not start <= offset < end:
        return OffsetPlace(log.topic, log.partition, start, end), doubts
    steps: list[SearchStep] = []
    bounds = ScanBounds(OffsetRange(offset))
    batch = search(log, bounds, source, policy, partial(_find_batches, offset, policy), steps)
    fetch = None if batch is None else _find_fetch(log, batch, fetch_bytes, end, policy.trust)
    return OffsetPlace(log.topic, log.partition, start, end, batch, tuple(steps), fetch), doubts


def _find_batches(
    offset: int, policy: Policy, split: SegmentSplit, note_passed: Callable[[int | None], None]
) -> Iterator[FoundBatch]:
    """Yields the first batch of each part of a split that reaches an offset."""
    with SplitFile(split, policy.trust, damage_in(split, policy), reads_all=False) as source:
        for chunk in source.chunks():
            reaching = np.flatnonzero(chunk.headers[batch_headers.LAST_OFFSET] >= offset)
            if len(reaching):
                yield FoundBatch.of(split.path, chunk.headers, int(reaching[0]))
            note_passed(source.next_offset)


def _find_fetch(log: PartitionLog, batch: FoundBatch, most: int, log_end: int, trust: Trust) -> Fetch | None:
    """Finds what a fetch takes (LogSegment.read), and its upper bound (LogSegment.fetchUpperBoundOffset)."""
    segment = next((segment for segment in log.segments if segment.path == batch.path), None)
    if segment is None:
        return None  # another copy mended the batch
    size = min(segment.size - batch.position, max(most, batch.size))
    with SegmentView(segment, trust) as view:
        index = view.offsets
    slot = index.upper_bound(batch.position, size)
    if slot < len(index):
        entry = OffsetEntry(slot, int(index.offsets[slot]), int(index.positions[slot]))
        return Fetch(batch.position, batch.position + size, entry, entry.offset)
    bound = log_end if segment.next_base_offset is None else segment.next_base_offset
    return Fetch(batch.position, batch.position + size, None, bound)
