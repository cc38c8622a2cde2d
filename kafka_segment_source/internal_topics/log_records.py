"""Reads the records of one internal topic, in log order, through the same plan and the same reading as a read.

So damage, copies of a partition, object stores, time bounds and offset bounds are treated as in any read. Control
records are returned too: those of transactions decide which records count (`take_effect`).

Why not isolationLevel=read_committed: it ends before the first open transaction, and withholds what other producers
wrote behind it. A coordinator reads its log to the end, and keeps only the records of open transactions back
(`CoordinatorLoaderImpl`, `OffsetMetadataManager.replayEndTransactionMarker`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import TIMESTAMP_LIMIT, OffsetRange, RowFilter
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import PathError
from kafka_segment_source.logdir.segments import ListedLog
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import listed_logs
from kafka_segment_source.planning.plan import ReadPlan, read_rows
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Warnings, name_some
from kafka_segment_source.request import Content
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy

_MICROS = 1000  # in a millisecond
_MOST_NAMED = 5  # producer ids in a sentence
_COMMIT = kafka_format.CONTROL_TYPES[kafka_format.CONTROL_COMMIT]
_NEEDED = ("key", "value", "partition", "offset", "timestamp", "metadata", "controlType")


class TopicRead(NamedTuple):
    """What is asked of an internal topic.

    source: where it is, and where other topics are that its records name.
    policy: what is believed, and what happens with damage and loss.
    until: only records before this moment count, epoch ms. None: all.
    history: whether every record is a row, not the latest state.
    """

    source: Source
    policy: Policy
    until: int | None = None
    history: bool = False


class LogRecord(NamedTuple):
    """One record.

    timestamp: epoch µs.
    producer: the producer id of a record inside a transaction, and of its marker; None otherwise.
    control: the type of a control record, such as COMMIT. None for data.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    producer: int | None = None
    control: str | None = None

    @property
    def place(self) -> str:
        """Where the record is, for messages."""
        return f"offset {self.offset} of {self.topic}-{self.partition}"


def plan_topic(topic: str, read: TopicRead, warnings: Warnings, start: int = 0) -> ReadPlan:
    """Makes the plan of a read of one internal topic from an offset on. `warnings` gets those of the plan.

    It reads all of the log: `until` is applied by `read_records`. So nothing is said of bytes that `until` does not
    leave out, which no option of these views could change.

    Raises PathError if the paths hold no partition of it, and what `make_plan` raises.
    """
    list_topic(topic, read.source)
    source = read.source._replace(topics=TopicSelection((topic,)))
    everything = ReadOptions(source, Content(include_control=True), policy=read.policy.with_control())
    plan = make_plan(everything, pushed=RowFilter(offsets=OffsetRange(start)))
    warnings += plan.warnings
    return plan


def list_topic(topic: str, source: Source) -> list[ListedLog]:
    """Returns the logs of one internal topic. Raises PathError if the paths hold none."""
    logs = listed_logs(source._replace(topics=TopicSelection((topic,))), needs_all=False)
    if not logs:
        raise PathError(f"topic {topic}, which this reads, is not in {', '.join(map(repr, source.paths))}")
    return logs


def read_records(plan: ReadPlan, until: int | None) -> Iterator[LogRecord]:
    """Yields the records of a plan from `plan_topic`, control records too: by partition, each in log order.

    until: only records before it count, epoch ms. None: all.
    """
    end = TIMESTAMP_LIMIT if until is None else until
    for batch in read_rows(plan, RECORDS.arrow_schema(_NEEDED)):
        metadata = batch.column("metadata")
        producers = [
            producer if is_transactional else None
            for producer, is_transactional in zip(
                metadata.field("producerId").to_pylist(), metadata.field("isTransactional").to_pylist(), strict=True
            )
        ]
        [topic] = {split.topic for split in plan.splits}
        partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
        timestamps = batch.column("timestamp").cast("int64").to_pylist()
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        controls = batch.column("controlType").to_pylist()
        for at, producer in enumerate(producers):
            if timestamps[at] // _MICROS >= end:
                continue
            of_record = keys[at], values[at], producer, controls[at]
            yield LogRecord(topic, partitions[at], offsets[at], timestamps[at], *of_record)


def take_effect(records: Iterator[LogRecord], open_ones: list[LogRecord]) -> Iterator[LogRecord]:
    """Yields the data records that count, in the order in which they begin to count.

    A record outside of a transaction counts at once. One inside counts from the COMMIT marker on, so it comes there,
    behind records of higher offsets. After an ABORT marker it never counts. open_ones: gets the records of transactions
    without a marker.
    """
    pending: dict[tuple[int, int], list[LogRecord]] = {}  # by partition and producer
    for record in records:
        if record.producer is None:
            yield record
            continue
        of = record.partition, record.producer
        if record.control is None:
            pending.setdefault(of, []).append(record)
            continue
        ended = pending.pop(of, [])
        if record.control == _COMMIT:
            yield from ended
    for left in pending.values():
        open_ones += left


def say_open(open_ones: list[LogRecord], what: str) -> list[str]:
    """One sentence about the records of open transactions. what: such as "offset commits"."""
    if not open_ones:
        return []
    first = open_ones[0]
    producers = sorted({record.producer for record in open_ones if record.producer is not None})
    return [
        f"{len(open_ones):,} {what} belong to transactions that are open at the end, so they do not count"
        f" (producer ids {name_some(producers, _MOST_NAMED)}; the first one is at {first.place})"
    ]
