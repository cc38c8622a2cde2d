"""What was sent, what was acknowledged, and how each transaction ended.

In: what the producers do and are told. Out: `Sent` and `Fates`, copies as of one moment, as arrays by number. All
times are of this process's monotonic clock, in seconds. Every method may be called by any thread.
"""

from __future__ import annotations

import random
import threading
import time
from array import array
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tests.conformance.soaking.topics import FIRST_COLD_KEY, SoakTopic, TopicPartition, key_bytes
from tests.fixtures.produce import Record

NO_OFFSET = -1
NO_TRANSACTION = -1
NEVER = float("inf")
_COLD = 0.15  # of all records


class Fate(IntEnum):
    """How a transaction stands. UNKNOWN: its commit was asked for, and no answer came."""

    OPEN = 0
    COMMITTING = 1
    COMMITTED = 2
    ABORTED = 3
    UNKNOWN = 4


@dataclass(frozen=True)
class Sent:
    """The records of one partition by number.

    key, timestamp (ms), transaction, tombstone: as sent, but for the timestamp of an append-time topic, which is known
    once it is acknowledged; offset: NO_OFFSET until then, and where no answer came.
    """

    key: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    transaction: npt.NDArray[np.int64]
    tombstone: npt.NDArray[np.int8]
    offset: npt.NDArray[np.int64]
    acknowledged: npt.NDArray[np.float64]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.key)


@dataclass(frozen=True)
class Fates:
    """Every transaction's fate by number, and when its commit was asked for (NEVER: it was not)."""

    fate: npt.NDArray[np.int8]
    commit_asked: npt.NDArray[np.float64]


class PartitionLedger:
    """One partition's records."""

    def __init__(self, topic: SoakTopic, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self._lock = threading.Lock()
        self._chance = random.Random(f"{topic.name}-{partition}")
        self._key = array("q")
        self._timestamp = array("q")
        self._transaction = array("q")
        self._tombstone = array("b")
        self._offset = array("q")
        self._acknowledged = array("d")

    def send(self, transaction: int = NO_TRANSACTION) -> tuple[int, Record]:
        """The next record and its number. Within a partition no two have the same timestamp."""
        with self._lock:
            number = len(self._key)
            cold = self._chance.random() < _COLD
            key = FIRST_COLD_KEY + number if cold else self._chance.randrange(self.topic.hot_keys)
            tombstone = not cold and self._chance.random() < self.topic.tombstones
            before = self._timestamp[-1] if number and not self.topic.append_time else 0
            timestamp = max(int(time.time() * 1000), before + 1)
            self._key.append(key)
            self._timestamp.append(timestamp)
            self._transaction.append(transaction)
            self._tombstone.append(tombstone)
            self._offset.append(NO_OFFSET)
            self._acknowledged.append(NEVER)
        value = None if tombstone else self.topic.value(self.partition, number)
        return number, Record(key_bytes(key), value, timestamp)

    def acknowledge(self, number: int, offset: int, timestamp: int) -> None:
        """The broker has the record; a negative offset says that it did not tell where."""
        with self._lock:
            self._acknowledged[number] = time.monotonic()
            if offset < 0:
                return
            self._offset[number] = offset
            if self.topic.append_time:
                self._timestamp[number] = timestamp

    def sent(self) -> Sent:
        """All records up to now."""
        with self._lock:
            return Sent(
                np.array(self._key, np.int64),
                np.array(self._timestamp, np.int64),
                np.array(self._transaction, np.int64),
                np.array(self._tombstone, np.int8),
                np.array(self._offset, np.int64),
                np.array(self._acknowledged, np.float64),
            )


class Ledger:
    """All partitions, all transactions."""

    def __init__(self, topics: tuple[SoakTopic, ...]) -> None:
        self.partitions: dict[TopicPartition, PartitionLedger] = {
            (topic.name, partition): PartitionLedger(topic, partition)
            for topic in topics
            for partition in range(topic.partitions)
        }
        self._lock = threading.Lock()
        self._fate = array("b")
        self._commit_asked = array("d")

    def begin(self) -> int:
        """A new transaction's number."""
        with self._lock:
            self._fate.append(Fate.OPEN)
            self._commit_asked.append(NEVER)
            return len(self._fate) - 1

    def ask_commit(self, transaction: int) -> None:
        """From now on the transaction may turn out to be committed."""
        with self._lock:
            self._fate[transaction] = Fate.COMMITTING
            self._commit_asked[transaction] = time.monotonic()

    def end(self, transaction: int, fate: Fate) -> None:
        """What became of it."""
        with self._lock:
            self._fate[transaction] = fate

    def fates(self) -> Fates:
        """All transactions up to now."""
        with self._lock:
            return Fates(np.array(self._fate, np.int8), np.array(self._commit_asked, np.float64))

    def acknowledged(self) -> int:
        """How many records the broker has acknowledged."""
        return sum(int(np.isfinite(each.sent().acknowledged).sum()) for each in self.partitions.values())
