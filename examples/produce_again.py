"""Produces the records of a log directory into a live cluster: `python produce_again.py LOGS BOOTSTRAP OFFSETS`.

It needs confluent-kafka (`pip install confluent-kafka`). The topics must be there, with as many partitions as before.

Records come in the order of their offsets, into the same partitions, with their timestamps, keys, values and headers.
They get new offsets, as compaction and transactions leave gaps that cannot be produced again. The Parquet file OFFSETS
says which: topic, partition, old, new. Then the committed offsets of groups are translated by it, and committed.

Aborted records, and those of open transactions, are left out (isolationLevel=read_committed).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

import kafka_segment_source

AT_ONCE = 10_000  # records between two waits


def produce(logs: str, bootstrap: str, **options: Any) -> pa.Table:
    """Produces the records. Returns the table of old and new offsets, in the order of the old ones."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50})
    found: list[dict[str, Any]] = []

    def note(row: dict[str, Any], error: Any, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        names = {"topic": row["topic"], "partition": row["partition"]}
        found.append({**names, "old": row["offset"], "new": message.offset()})

    for number, row in enumerate(read(logs, **options)):
        producer.produce(
            row["topic"],
            partition=row["partition"],
            key=row["key"],
            value=row["value"],
            timestamp=row["millis"],
            headers=[(header["key"], header["value"]) for header in row["headers"] or ()],
            on_delivery=lambda error, message, row=row: note(row, error, message),
        )
        if number % AT_ONCE == 0:
            producer.flush()
    producer.flush()
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("old", pa.int64()), ("new", pa.int64())])
    order = [(name, "ascending") for name in ("topic", "partition", "old")]
    return pa.Table.from_pylist(found, schema=schema).sort_by(order)


def read(logs: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Yields the committed records of all topics but internal ones, by partition and offset."""
    options = {"includeHeaders": True, "isolationLevel": "read_committed", **options}
    for batch in kafka_segment_source.scan(logs, **options):
        millis = pc.divide(batch.column("timestamp").cast("int64"), 1000)
        yield from batch.append_column("millis", millis).to_pylist()


def move_groups(logs: str, bootstrap: str, offsets: pa.Table) -> list[tuple[str, str, int, int]]:
    """Commits each group's offsets in the live cluster. Returns group, topic, partition and new offset.

    A committed offset is that of the next record. So it becomes the new offset of the first record at or after it, or
    the end of what was produced.
    """
    by_partition = {
        (topic, partition): offsets.filter((pc.field("topic") == topic) & (pc.field("partition") == partition))
        for topic, partition in set(zip(offsets["topic"].to_pylist(), offsets["partition"].to_pylist(), strict=True))
    }
    moved: list[tuple[str, str, int, int]] = []
    for row in kafka_segment_source.scan(logs, view="consumerOffsets").read_all().to_pylist():
        known = by_partition.get((row["topic"], row["partition"]))
        if known is None:
            continue
        at = int(np.searchsorted(known["old"].to_numpy(), row["offset"]))
        new = known["new"][at].as_py() if at < len(known) else known["new"][-1].as_py() + 1
        moved.append((row["group"], row["topic"], row["partition"], new))
    for group in sorted({group for group, *_ in moved}):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
        places = [TopicPartition(topic, partition, new) for of, topic, partition, new in moved if of == group]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()
    return moved


def main() -> None:
    logs, bootstrap, target = sys.argv[1:]
    offsets = produce(logs, bootstrap)
    pq.write_table(offsets, target)
    moved = move_groups(logs, bootstrap, offsets)
    print(
        f"{len(offsets):,} records produced, {len(moved):,} committed offsets moved; {target} has old and new offsets"
    )


if __name__ == "__main__":
    main()
