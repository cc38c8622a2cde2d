"""Paths and options → what a report says: everything it knows, as plain values. `page.py` shows them.

It asks the public functions and views, so damage, copies and buckets are handled as in a read. It reads batch headers,
index files and internal topics. Damaged batches are left out and named.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka_segment_source.errors import KafkaSegmentError, PathError
from kafka_segment_source.inspection.contents import ListedPartition, Listing, list_partitions
from kafka_segment_source.kafka_format import INTERNAL_TOPIC_PREFIX
from kafka_segment_source.keywords import PathsLike
from kafka_segment_source.partition.missing import sum_up
from kafka_segment_source.queries import scan
from kafka_segment_source.report.batch_facts import COLUMNS, BatchFacts
from kafka_segment_source.reporting import OnProgress, ignore_progress, logger
from kafka_segment_source.statistics.stats import stats
from kafka_segment_source.statistics.totals import TopicStats

_DAY = 86_400_000  # ms
_EARLIEST = 946_684_800_000  # ms, the year 2000: an earlier timestamp says nothing about when something happened
_SLOTS = 120  # of the picture, at most
_WIDTHS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)  # s
_DEFAULT_RETENTION = 7 * _DAY  # log.retention.hours=168
_ENDED = ("committed", "aborted")
_NAMING = ("subscribe", "assign")  # options that name internal topics too
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Deletion:
    """A segment that retention removes next.

    due: ms.
    records: None where headers do not say exactly.
    """

    name: str
    base_offset: int
    size: int
    records: int
    newest: int
    due: int
    is_assumed: bool


@dataclass(slots=True)
class Facts:
    """What a report says.

    states: transactions by state.
    open: those that are neither committed nor aborted.
    width: of a slot of time, in s.
    start: of the first slot, in ms.
    slots: their number.
    errors: why a part of the report is missing, by its name.
    stats: of each topic; None where they were not asked for.
    """

    paths: tuple[str, ...]
    made: int
    listing: Listing
    batches: BatchFacts
    start: int = 0
    width: int = 60
    slots: int = 0
    damage: list[str] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)
    open: Rows = field(default_factory=list)
    groups: Rows = field(default_factory=list)
    topics: Rows = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    stats: list[TopicStats] | None = None


def collect_facts(
    paths: PathsLike,
    on_progress: OnProgress = ignore_progress,
    now: int | None = None,
    with_stats: bool = False,
    **options: Any,
) -> Facts:
    """Collects what a report says. Raises UsageError for a wrong path or option, and StorageError.

    options: those that select partitions. now: ms; by default the present. with_stats: whether all records are read,
    for the statistics of each topic.
    """
    made = int(time.time() * 1000) if now is None else now
    listing = list_partitions(paths, deep=True, on_progress=on_progress, **options)
    start, width, slots = _choose_slots(listing.partitions, made)
    given = (paths,) if isinstance(paths, str) else tuple(map(str, paths))  # type: ignore[arg-type]
    facts = Facts(given, made, listing, BatchFacts(width * 1_000_000), start, width, slots)
    facts.damage += listing.warnings
    facts.damage += [fault for partition in listing.partitions for fault in partition.faults]
    facts.damage += sum_up(
        (missing, missing.text(partition.name)) for partition in listing.partitions for missing in partition.missing
    )
    options = _select_readable(listing.partitions, options)
    with _skipped(facts.damage):
        _read_batches(facts, paths, options)
        for row in _read_view(facts, paths, "transactions", options):  # ended ones may be too many to keep
            facts.states[row["state"]] += 1
            if row["state"] not in _ENDED:
                facts.open.append(row)
        facts.groups += _read_view(facts, paths, "consumerOffsets", {})
        facts.topics += _read_view(facts, paths, "topics", {})
        if with_stats:
            _read_stats(facts, paths, on_progress, options)
    facts.damage = list(dict.fromkeys(facts.damage))
    facts.deletions = _find_deletions(facts)
    return facts


def _choose_slots(partitions: Sequence[ListedPartition], now: int) -> tuple[int, int, int]:
    """Chooses the slots of time of the pictures: their start (ms), their width (s) and their number."""
    partitions = [partition for partition in partitions if not partition.topic.startswith(INTERNAL_TOPIC_PREFIX)]
    newest = [part.summary.newest for partition in partitions for part in partition.segments]
    oldest = [part.summary.oldest_at_most for partition in partitions for part in partition.segments]
    times = [at for at in (*newest, *oldest) if at is not None and _EARLIEST <= at <= now + _DAY]
    if not times:
        return 0, 60, 0
    seconds = (max(times) - min(times)) // 1000 + 1
    width = next((width for width in _WIDTHS if seconds <= width * _SLOTS), -(-seconds // _SLOTS))
    first = min(times) // 1000 // width
    return first * width * 1000, width, max(times) // 1000 // width - first + 1


def _select_readable(partitions: Sequence[ListedPartition], options: dict[str, Any]) -> dict[str, Any]:
    """Returns options that leave out the partitions whose directories cannot be listed: a read of them is an error."""
    left_out = {
        (partition.topic, partition.partition)
        for partition in partitions
        if partition.summary.unreadable and not partition.segments
    }
    if not left_out:
        return options
    wanted: dict[str, list[int]] = {}
    for topic, partition in sorted({(partition.topic, partition.partition) for partition in partitions} - left_out):
        if any(name in options for name in _NAMING) or not topic.startswith(INTERNAL_TOPIC_PREFIX):
            wanted.setdefault(topic, []).append(partition)
    others = {name: value for name, value in options.items() if name not in (*_NAMING, "subscribePattern")}
    return {**others, "assign": wanted}


def _read_batches(facts: Facts, paths: PathsLike, options: dict[str, Any]) -> None:
    try:
        reader = scan(paths, COLUMNS, view="batches", mode="DROPMALFORMED", failOnDataLoss=False, **options)
        for rows in reader:
            facts.batches.add(rows)
    except KafkaSegmentError as error:  # the rest of the report still helps
        facts.errors["batches"] = str(error)


def _read_stats(facts: Facts, paths: PathsLike, on_progress: OnProgress, options: dict[str, Any]) -> None:
    try:
        facts.stats = stats(paths, on_progress=on_progress, mode="DROPMALFORMED", failOnDataLoss=False, **options)
    except KafkaSegmentError as error:  # the rest of the report still helps
        facts.errors["stats"] = str(error)


def _read_view(facts: Facts, paths: PathsLike, view: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the rows of a view. Without the topic that it needs, or where it cannot be read, it notes why and ends."""
    try:
        reader = scan(paths, view=view, mode="DROPMALFORMED", failOnDataLoss=False, **options)
        for rows in reader:
            yield from rows.to_pylist()
    except PathError:
        facts.errors[view] = "the internal topic that holds it is not under these paths"
    except KafkaSegmentError as error:
        facts.errors[view] = str(error)


def _find_deletions(facts: Facts) -> list[Deletion]:
    """Finds the segments that retention by time removes next, the first of each partition, in order of time.

    A broker removes a segment when its largest timestamp is older than `retention.ms`, oldest first, and never the
    active one (Kafka: UnifiedLog.deleteRetentionMsBreachedSegments).
    """
    settings = {row["topic"]: dict(row["configs"] or ()) for row in facts.topics}
    deletions = []
    for partition in facts.listing.partitions:
        of_topic = settings.get(partition.topic, {})
        first, *others = partition.segments or (None,)
        if first is None or not others or "delete" not in of_topic.get("cleanup.policy", "delete"):
            continue
        retention = int(of_topic.get("retention.ms", _DEFAULT_RETENTION))
        newest = first.summary.newest
        if retention < 0 or newest is None:
            continue
        summary = first.summary
        deletions.append(
            Deletion(
                name=partition.name,
                base_offset=summary.start_offset,
                size=summary.size,
                records=summary.records,
                newest=newest,
                due=newest + retention,
                is_assumed="retention.ms" not in of_topic,
            )
        )
    return sorted(deletions, key=lambda item: item.due)


@contextmanager
def _skipped(said: list[str]) -> Iterator[None]:
    """Collects what reads log about skipped data."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler = Handler()
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
