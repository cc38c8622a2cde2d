"""The producers: threads that write at a rate until they are told to stop, over crashes of the broker.

In: a broker's address, a ledger, a `Load`. Out: records in the broker, each of them in the ledger before it is sent.
What goes wrong ends in the ledger too, as records without an offset and transactions of unknown fate. All producers are
idempotent: no record is in the log twice.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.conformance.soaking.ledger import NO_TRANSACTION, Fate, Ledger, PartitionLedger
from tests.conformance.soaking.topics import TopicPartition

_TICK = 0.01
_FLUSH_SECONDS = 30
_SILENT = logging.Logger("the client's", logging.CRITICAL + 1)  # the ledger knows what went wrong
_END_SECONDS = 60  # for the end of a transaction while the broker starts again


@dataclass(frozen=True)
class Load:
    """What one producer does: records a second over its partitions.

    commit_every: seconds, for a producer with transactions; aborts: their share that is aborted.
    """

    name: str
    partitions: tuple[TopicPartition, ...]
    rate: int
    config: Mapping[str, str | int | bool] = field(default_factory=dict, hash=False)
    commit_every: float | None = None
    aborts: float = 0.3


class LoadThread(threading.Thread):
    """One producer at work."""

    def __init__(self, bootstrap: str, ledger: Ledger, load: Load) -> None:
        super().__init__(name=load.name, daemon=True)
        self.failure: BaseException | None = None
        self.replaced = 0  # producers that could not go on
        self._ledger = ledger
        self._load = load
        self._partitions = [ledger.partitions[each] for each in load.partitions]
        self._config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, **load.config}
        self._stopping = threading.Event()
        self._chance = random.Random(load.name)
        self._due = 0.0  # when the next record is

    def stop(self) -> None:
        """Ask it to come to an end."""
        self._stopping.set()

    def run(self) -> None:
        self._due = time.monotonic()
        try:
            if self._load.commit_every is None:
                self._write_plain()
            else:
                self._write_transactions(self._load.commit_every)
        except BaseException as error:
            self.failure = error
            raise

    def _write_plain(self) -> None:
        producer = Producer(self._config, logger=_SILENT)
        while not self._stopping.is_set():
            self._write(producer, NO_TRANSACTION)
            producer.poll(0)
            time.sleep(_TICK)
        producer.flush(_FLUSH_SECONDS)

    def _write(self, producer: Producer, transaction: int) -> None:
        """What is due by now."""
        now = time.monotonic()
        self._due = max(self._due, now - 1)  # after a pause nobody catches up
        while self._due <= now:
            self._due += 1 / self._load.rate
            ledger = self._chance.choice(self._partitions)
            number, record = ledger.send(transaction)
            told = partial(_acknowledge, ledger, number)
            producer.produce(
                ledger.topic.name,
                partition=ledger.partition,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp,
                on_delivery=told,
            )

    # ---- transactions ----

    def _write_transactions(self, commit_every: float) -> None:
        while not self._stopping.is_set():
            producer = Producer({"transactional.id": self._load.name, **self._config}, logger=_SILENT)
            try:
                producer.init_transactions(_END_SECONDS)
                while not self._stopping.is_set():
                    self._transaction(producer, commit_every)
            except KafkaException:
                self.replaced += 1
                time.sleep(0.2)  # the next one takes over its transactional id

    def _transaction(self, producer: Producer, seconds: float) -> None:
        """One transaction. KafkaException where only another producer can go on; the ledger knows what is known."""
        producer.begin_transaction()
        transaction = self._ledger.begin()
        try:
            end = time.monotonic() + seconds * self._chance.uniform(0.5, 1.5)
            while time.monotonic() < end:
                self._write(producer, transaction)
                producer.poll(0)
                time.sleep(_TICK)
        except BaseException:
            self._ledger.end(transaction, Fate.ABORTED)  # the next producer with the id aborts it
            raise
        if self._chance.random() < self._load.aborts:
            self._ledger.end(transaction, Fate.ABORTED)
            _persist(producer.abort_transaction)
            return
        self._ledger.ask_commit(transaction)
        try:
            _persist(producer.commit_transaction)
        except KafkaException as error:
            self._ledger.end(transaction, Fate.UNKNOWN)
            if not error.args[0].txn_requires_abort():
                raise
            _persist(producer.abort_transaction)
            return
        self._ledger.end(transaction, Fate.COMMITTED)


def _persist(end: Callable[[float], object]) -> None:
    """Calls what ends a transaction, again while it says that it may be called again."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        try:
            end(5)
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
            continue
        return


def _acknowledge(ledger: PartitionLedger, number: int, error: KafkaError | None, message: Message) -> None:
    if error is None:
        offset = message.offset()
        ledger.acknowledge(number, -1 if offset is None else offset, message.timestamp()[1])


def loads() -> list[Load]:
    """Some 1,450 records a second in all. The topics are those of `topics.py`."""
    one_each = {"batch.num.messages": 1, "linger.ms": 0}
    compacted_transactional = (("compacted-transactional", 0),)
    transactional = (("transactional", 0), ("transactional", 1))
    return [
        Load("retention", (("retention", 0),), 400, {"linger.ms": 20}),
        Load("append-time", (("append-time", 0), ("append-time", 1)), 250),
        Load("compacted", (("compacted", 0), ("compacted", 1)), 250, {"linger.ms": 20, "compression.type": "lz4"}),
        Load("one-record", (("one-record", 0),), 200, one_each),
        Load("transactional-fast", transactional, 130, commit_every=0.1),
        Load("transactional-slow", transactional, 40, {"compression.type": "zstd"}, commit_every=1.5),
        Load("transactional-none", transactional, 30),
        Load("changelog", compacted_transactional, 150, commit_every=0.1),
    ]
