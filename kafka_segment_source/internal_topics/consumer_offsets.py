"""`consumerOffsets`: `__consumer_offsets` → the committed offset of each group, topic and partition, with its lag.

Comes in: the options of a read. Goes out: rows by group, topic and partition, the latest of each. With history=true,
every commit and every tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kafka_segment_source.internal_topics.columns import HISTORY_COLUMNS, Row, to_micros
from kafka_segment_source.internal_topics.group_records import (
    CLASSIC,
    GROUP_TYPES,
    GroupKey,
    OffsetCommitKey,
    check_group_value,
    decode_key,
    decode_offset_commit,
)
from kafka_segment_source.internal_topics.log_records import LogRecord, TopicRead, read_records, say_open, take_effect
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.internal_topics.partition_ends import find_ends
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema import TIMESTAMP_TYPE, Column

TOPIC = "__consumer_offsets"

COLUMNS = (
    Column("group", "string", pa.string()),
    Column("topic", "string", pa.string()),
    Column("partition", "int", pa.int32()),
    Column("offset", "bigint", pa.int64()),
    Column("leaderEpoch", "int", pa.int32()),
    Column("metadata", "string", pa.string()),
    Column("commitTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("expireTimestamp", "timestamp", TIMESTAMP_TYPE),
    Column("logEndOffset", "bigint", pa.int64(), lambda content: not content.history),
    Column("lag", "bigint", pa.int64(), lambda content: not content.history),
    Column("groupType", "string", pa.string(), lambda content: not content.history),
    *HISTORY_COLUMNS,
)
"""offset: null in a history where the row is a tombstone; and where the commit cannot be decoded, with a warning.

logEndOffset, lag: null where the directory of the topic's partition is not under the paths, and with `until`, as the
ends are those of the files. groupType: classic, consumer, share or streams, by the newest record of the group that says
it. A group without such a record is a classic one, as a broker counts it.
"""


def read_rows(plan: ReadPlan, read: TopicRead, warnings: Warnings) -> Iterator[Row]:
    """Yields the rows of the view as dicts.

    warnings: gets a sentence for each kind of record that was not decoded, and for commits of open transactions. It is
        complete after the last row.

    Raises what a read of the internal topic raises: DataError, DataLossError and StorageError.
    """
    open_ones: list[LogRecord] = []
    oddities = Oddities()
    records = take_effect(read_records(plan, read.until), open_ones)
    if read.history:
        yield from _read_history(records, oddities)
    else:
        yield from _read_latest(records, read, oddities, warnings)
    warnings += say_open([record for record in open_ones if _is_offset_commit(record)], "offset commits")
    warnings += oddities.sentences()


def _read_history(records: Iterable[LogRecord], oddities: Oddities) -> Iterator[Row]:
    for record in records:
        key = _decode_key(record, oddities)
        if isinstance(key, GroupKey):
            _check_group(key, record, oddities)
        elif key is not None:
            yield _make_row(key, record, oddities)


def _read_latest(
    records: Iterable[LogRecord], read: TopicRead, oddities: Oddities, warnings: Warnings
) -> Iterator[Row]:
    latest: dict[OffsetCommitKey, LogRecord] = {}  # tombstones too: a commit that takes effect later may be older
    types: dict[str, int] = {}
    for record in records:
        key = _decode_key(record, oddities)
        if isinstance(key, GroupKey):
            _note_group(key, record, types, oddities)
        elif key is not None and (key not in latest or latest[key].offset < record.offset):
            latest[key] = record
    there = [key for key, record in latest.items() if record.value is not None]
    ends = (
        {}
        if read.until is not None
        else find_ends({(key.topic, key.partition) for key in there}, read.source, read.policy, warnings)
    )
    for key in sorted(there, key=lambda key: (key.group, key.topic, key.partition)):
        row = _make_row(key, latest[key], oddities)
        offset, end = row["offset"], ends.get((key.topic, key.partition))
        lag = end - offset if end is not None and isinstance(offset, int) else None
        group_type = GROUP_TYPES[types.get(key.group, CLASSIC)]
        yield row | {"logEndOffset": end, "lag": lag, "groupType": group_type}


def _make_row(key: OffsetCommitKey, record: LogRecord, oddities: Oddities) -> Row:
    """Makes the row of a commit or a tombstone. What cannot be decoded is null, and noted."""
    row: Row = {
        "group": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "offset": None,
        "leaderEpoch": None,
        "metadata": None,
        "commitTimestamp": None,
        "expireTimestamp": None,
        "isTombstone": record.value is None,
        "logPartition": record.partition,
        "logOffset": record.offset,
        "timestamp": record.timestamp,
    }
    value = record.value
    if value is None:
        return row
    commit = oddities.catch(lambda: decode_offset_commit(value), record.place, "its offset is null")
    if commit is None:
        return row
    return row | {
        "offset": commit.offset,
        "leaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commitTimestamp": to_micros(commit.commit_timestamp),
        "expireTimestamp": to_micros(commit.expire_timestamp),
    }


def _is_offset_commit(record: LogRecord) -> bool:
    return isinstance(_decode_key(record, Oddities()), OffsetCommitKey)


def _decode_key(record: LogRecord, oddities: Oddities) -> OffsetCommitKey | GroupKey | None:
    """Decodes the key of a record. None, and noted, if that cannot be done."""
    return oddities.catch(lambda: decode_key(record.key), record.place, "it is passed over")


def _check_group(key: GroupKey, record: LogRecord, oddities: Oddities) -> None:
    """Notes a value of a version that is newer than this code, or that cannot be decoded."""
    value = record.value
    if value is not None:
        oddities.catch(lambda: check_group_value(key.type, value), record.place, "it is passed over")


def _note_group(key: GroupKey, record: LogRecord, types: dict[str, int], oddities: Oddities) -> None:
    """Notes which type a group has now. A tombstone of a group's record ends that type, but no other."""
    _check_group(key, record, oddities)
    if key.type not in GROUP_TYPES:
        return
    if record.value is not None:
        types[key.group] = key.type
    elif types.get(key.group) == key.type:
        del types[key.group]
