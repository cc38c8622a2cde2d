"""The same topics through Spark's Kafka source from a broker on the loopback address, and through this package from its
files.

Opt-in: it downloads jars, makes an environment with a Spark whose Kafka source can be had (tests/conformance), and
starts a broker, which shares the cores with Spark as it would on any one machine.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from benchmarks import values
from benchmarks.logs import CODECS, ORIGIN, RECORDS_A_MS, cache_directory
from benchmarks.measure import ROOT, probe
from benchmarks.results import Goal, Row, Settings, row
from tests.brokers import KRaftBroker
from tests.conformance.kafka_vs_kafkaseg import SPARK_KAFKA, python_with_spark
from tests.fixtures.produce import Topic, create_topics

TITLE = "Spark's Kafka source, of the same topics"

GOAL = Goal(least=3)
_RECORDS = 1_000_000  # a topic
_PARTITIONS = 4
_KINDS = 20_000  # different records; they repeat further apart than codecs look back
_CONFIG = {"message.timestamp.before.max.ms": str(2**63 - 1)}


def rows(settings: Settings) -> Iterator[Row]:
    """A row for each codec."""
    codecs = ("none", "zstd") if settings.quick else CODECS
    topics = {f"events-{codec}": codec for codec in codecs}
    jars = sorted(SPARK_KAFKA.directory().glob("*.jar"))
    python = str(python_with_spark())
    # the environment is made once, and this package may need more by now
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", str(ROOT)], check=True)
    folder = Path(tempfile.mkdtemp(prefix="broker-", dir=cache_directory()))
    try:
        with KRaftBroker(folder) as broker:
            create_topics(broker.bootstrap, [Topic(name, _PARTITIONS, _CONFIG) for name in topics])
            for name, codec in topics.items():
                _fill(broker.bootstrap, name, codec, _RECORDS // (10 if settings.quick else 1))
            where = broker.bootstrap, str(broker.log_dir), ",".join(topics), str(settings.runs)
            told = probe("kafka_session", *where, *map(str, jars), python=python)
    finally:
        shutil.rmtree(folder)
    for name, codec in topics.items():
        pairs, records = told["topics"][name]["pairs"], told["topics"][name]["rows"]
        ours, theirs = (records / min(times) / 1e6 for times in zip(*pairs, strict=True))
        note = f"{ours:.2f} and {theirs:.2f} M rows/s, Spark {told['spark']}"
        yield row(f"{codec}, 119 B", [kafka / own for own, kafka in pairs], "times as fast", GOAL, note, headline=True)


def _fill(bootstrap: str, topic: str, codec: str, records: int) -> None:
    chance = random.Random(topic)
    some = [(values.key(chance), values.value(chance, 119)) for _ in range(_KINDS)]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": 16 * 1024 if codec == "none" else 64 * 1024,  # plain bytes: about 16 KiB stored
            "queue.buffering.max.messages": 200_000,
            "log_level": 2,
        }
    )
    for number in range(records):
        key, value = some[number % _KINDS]
        if number % 50_000 == 0:
            producer.flush()
        producer.produce(topic, value, key, partition=number % _PARTITIONS, timestamp=ORIGIN + number // RECORDS_A_MS)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} records of {topic} were not taken by the broker within a minute")
