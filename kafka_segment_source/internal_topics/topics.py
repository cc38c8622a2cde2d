"""`topics`: `__cluster_metadata` and its snapshots → a row for each partition of each topic (KRaft).

Comes in: the options of a read. Goes out: rows by topic and partition, as of the end of the files, or of `until`. The
newest snapshot is read first, then the log after it. Records that are written but not yet committed by the controllers'
quorum count: the files do not say where the quorum's high watermark is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.internal_topics.columns import Row
from kafka_segment_source.internal_topics.log_records import TopicRead, list_topic, plan_topic, read_records
from kafka_segment_source.internal_topics.metadata_records import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    Change,
    Cluster,
    decode_record,
)
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.internal_topics.snapshots import Snapshot, newest_snapshot
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.partition.logs import available_logs
from kafka_segment_source.planning.offset_bounds import log_start_offset
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import Column
from kafka_segment_source.trust import Policy

TOPIC = "__cluster_metadata"

_BROKERS_TYPE = pa.list_(pa.field("element", pa.int32()))

COLUMNS = (
    Column("topic", "string", pa.string()),
    Column("topicId", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("replicas", "array<int>", _BROKERS_TYPE),
    Column("isr", "array<int>", _BROKERS_TYPE),
    Column("leader", "int", pa.int32()),
    Column("leaderEpoch", "int", pa.int32()),
    Column("configs", "map<string,string>", pa.map_(pa.string(), pa.string())),
)
"""leader: null where there is none. configs: those that were set for the topic; defaults are not in these files.
topic: null if its record is missing."""

_REMEDY = "give a copy with a newer snapshot, or failOnDataLoss=false for the topics that are known without it"
_NOT_IN_ROWS = "what it changes is not in the rows"


@dataclass(frozen=True, slots=True)
class TopicsTask:
    """snapshot: the state to begin with; None for the empty one.
    log: the plan of the log after it.
    """

    snapshot: Snapshot | None
    log: ReadPlan


def plan_rows(read: TopicRead, warnings: Warnings) -> TopicsTask:
    """Reads the newest snapshot, and plans the log after it.

    A log that ends before the snapshot adds nothing to it: a controller that fetches a snapshot drops such a log
    (Kafka: KafkaRaftLog.truncateToLatestSnapshot).

    warnings: gets a sentence for each snapshot that is not whole. Raises DataLossError if the log begins behind the
    snapshot, and what `make_plan` raises.
    """
    listed = list_topic(TOPIC, read.source)
    of_topic = read.source._replace(topics=TopicSelection((TOPIC,)))
    snapshot = newest_snapshot(TOPIC, [log.directory for log in listed], read, warnings)
    for log in available_logs(of_topic, read.policy, Warnings()):
        _check_begin(log_start_offset(log), snapshot, read.until, read.policy, warnings)
    start = 0 if snapshot is None else snapshot.end_offset
    return TopicsTask(snapshot, plan_topic(TOPIC, read, warnings, start))


def _check_begin(first: int, snapshot: Snapshot | None, until: int | None, policy: Policy, warnings: Warnings) -> None:
    """Reports a log that begins behind the snapshot. first: the first offset of the log."""
    lost = None
    if snapshot is not None and first > snapshot.end_offset:
        lost = f"its newest whole snapshot, {snapshot.path!r}, ends at offset {snapshot.end_offset}"
    elif snapshot is None and first > 0:
        before = "" if until is None else " of the time before 'until'"
        lost = f"no whole snapshot{before} is there, which would have what came before"
    if lost is not None:
        warnings.add(report_lost_offsets(f"the log of {TOPIC} begins at offset {first}, and {lost}", policy, _REMEDY))


def read_rows(task: TopicsTask, read: TopicRead, warnings: Warnings) -> Iterator[Row]:
    """Yields the rows of the view as dicts.

    warnings: gets a sentence for each kind of record that was not decoded, and for an open transaction of the
        controller. It is complete after the last row.

    Raises what a read of the internal topic raises: DataError, DataLossError and StorageError.
    """
    oddities = Oddities()
    picture = _Picture(oddities)
    if task.snapshot is not None:
        for number, value in enumerate(task.snapshot.values):
            picture.add(value, f"record {number} of {task.snapshot.path!r}")
    for record in read_records(task.log, read.until):
        if record.control is None:
            picture.add(record.value, record.place)
    yield from _make_rows(picture.cluster)
    warnings += picture.say_pending()
    warnings += oddities.sentences()


class _Picture:
    """The cluster, as far as records were added. Those of a transaction count from its end on (KIP-868)."""

    def __init__(self, oddities: Oddities) -> None:
        self.cluster = Cluster()
        self._oddities = oddities
        self._pending: list[tuple[Change, str]] | None = None  # None outside of a transaction

    def add(self, value: bytes | None, place: str) -> None:
        """Adds one record, in the order of the log."""
        decoded = self._oddities.catch(partial(decode_record, value), place, _NOT_IN_ROWS)
        if decoded is None:
            return
        number, change = decoded
        if number == BEGIN_TRANSACTION:
            self._pending = []
        elif number in (END_TRANSACTION, ABORT_TRANSACTION):
            ended, self._pending = self._pending or [], None
            for pending, where in ended if number == END_TRANSACTION else ():
                self._apply(pending, where)
        elif self._pending is not None:
            self._pending.append((change, place))
        else:
            self._apply(change, place)

    def say_pending(self) -> list[str]:
        """A sentence if a transaction is open."""
        if not self._pending:
            return []
        return [
            f"{len(self._pending):,} records of {TOPIC} belong to a transaction of the controller that is open at the end,"
            f" so they do not count (the first one is at {self._pending[0][1]})"
        ]

    def _apply(self, change: Change, place: str) -> None:
        self._oddities.catch(partial(change, self.cluster), place, _NOT_IN_ROWS)


def _make_rows(cluster: Cluster) -> Iterator[Row]:
    by_name = sorted(cluster.partitions, key=lambda topic_id: (cluster.names.get(topic_id, ""), topic_id))
    for topic_id in by_name:
        name = cluster.names.get(topic_id)
        configs = sorted(cluster.configs.get(name, {}).items()) if name is not None else []
        for number, partition in sorted(cluster.partitions[topic_id].items()):
            yield {
                "topic": name,
                "topicId": topic_id,
                "partition": number,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "leader": None if partition.leader < 0 else partition.leader,
                "leaderEpoch": partition.leader_epoch,
                "configs": configs,
            }
