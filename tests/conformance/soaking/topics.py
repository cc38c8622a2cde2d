"""What the soak writes: its topics, and the records that follow from a number.

In: nothing. Out: `TOPICS`, with the configuration of each; keys and values by number, so that the ledger needs to hold
neither. Every value begins with the partition and the number of its record, so that a row tells which record it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fixtures.produce import Topic

TopicPartition = tuple[str, int]

#: 4.1 takes no segments smaller than this. Small index files, because each new segment makes three.
SMALL_SEGMENTS = {"segment.bytes": str(2**20), "segment.index.bytes": "65536", "index.interval.bytes": "512"}
KEEP_ALL = SMALL_SEGMENTS | {"segment.ms": "4000"}
RETENTION = SMALL_SEGMENTS | {"segment.ms": "3000", "retention.ms": "20000", "retention.bytes": str(3 * 2**20)}
COMPACT = SMALL_SEGMENTS | {
    "cleanup.policy": "compact",
    "segment.ms": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "3000",
}

#: Of the broker: cleaning and deletion look for work all the time, and begin soon after a start. One that was killed
#: need not wait long until its former life counts as over.
AGGRESSIVE = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "5000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

#: Keys below this number are overwritten all the time; every other key has one record, which compaction has to keep.
FIRST_COLD_KEY = 10_000
_NUMBER_DIGITS = 10


@dataclass(frozen=True)
class SoakTopic:
    """A topic and the shape of its records.

    compacted, loses: what its cleanup policy does; append_time: whose clock its timestamps are of; hot_keys: how many
    keys take most of the records; tombstones: the share of records without a value; spread: bytes by which values
    differ in length.
    """

    name: str
    config: Mapping[str, str] = field(hash=False)
    partitions: int = 1
    value_bytes: int = 100
    spread: int = 0
    hot_keys: int = 100
    tombstones: float = 0.0
    compacted: bool = False
    loses: bool = False
    append_time: bool = False

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        """Its partitions."""
        return [(self.name, partition) for partition in range(self.partitions)]

    def request(self, brokers: int) -> Topic:
        """The topic as `create_topics` wants it, with a replica on each broker. The last one leads first."""
        return Topic(self.name, self.partitions, self.config, tuple(range(brokers, 0, -1)))

    def prefix(self, partition: int) -> bytes:
        """How every value of a partition begins, before the number."""
        return f"{self.name}-{partition} ".encode()

    def number_at(self, partition: int) -> slice:
        """Where the number is in a value."""
        start = len(self.prefix(partition))
        return slice(start, start + _NUMBER_DIGITS)

    def value(self, partition: int, number: int) -> bytes:
        """The value of a record that has one."""
        length = self.value_bytes + (number * 7 % self.spread if self.spread else 0)
        return (b"%s%0*d" % (self.prefix(partition), _NUMBER_DIGITS, number)).ljust(length, b".")


def key_bytes(key: int) -> bytes:
    """A key; all are of one length."""
    return b"%08d" % key


TOPICS = (
    SoakTopic("retention", RETENTION, value_bytes=900, spread=64, loses=True),
    SoakTopic(
        "append-time",
        RETENTION | {"message.timestamp.type": "LogAppendTime"},
        partitions=2,
        value_bytes=700,
        spread=64,
        loses=True,
        append_time=True,
    ),
    SoakTopic("compacted", COMPACT, partitions=2, spread=64, tombstones=0.05, compacted=True),
    SoakTopic("one-record", COMPACT, hot_keys=40, compacted=True),
    SoakTopic("transactional", KEEP_ALL, partitions=2, spread=64),
    SoakTopic("compacted-transactional", COMPACT, hot_keys=60, compacted=True),
)
BY_NAME = {topic.name: topic for topic in TOPICS}
