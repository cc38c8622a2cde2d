"""Spark's own Kafka source against `kafkaseg`, over the same records: `python -m tests.conformance.kafka_vs_kafkaseg`.

Opt-in: it starts a broker, and the first time it downloads jars and makes a Python environment in the cache directory.
A broker is filled, `notebook.question` runs with `format("kafka")` while it is up, then with `format("kafkaseg")` over
the directory that it left behind; schemas and all rows have to be equal. Prints one line for each case; exit status 1
if any differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.brokers import Broker, Distribution, KRaftBroker
from tests.fixtures.produce import (
    ROLL_BY_INDEX,
    Headers,
    Record,
    Sender,
    Topic,
    Writer,
    batched,
    create_topics,
    sentence,
)
from tests.fixtures.scenario import ORIGIN, SECOND
from tests.support.jars import cache_directory

ROOT = Path(__file__).parents[2]

#: The oldest Spark that `kafkaseg` takes, and the newest whose Kafka source could be resolved. The token provider of
#: that version could not; the one before serves, for it only matters where delegation tokens are used.
SPARK = "4.1.1"
SPARK_KAFKA = Distribution(
    f"spark-kafka-{SPARK}",
    SPARK,
    (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = (
    Topic("create-time", 3, ROLL_BY_INDEX),
    Topic("append-time", 3, ROLL_BY_INDEX | {"message.timestamp.type": "LogAppendTime"}),
)

#: What both sides are given; each adds where its records are.
SHARED_OPTIONS = {
    "subscribe": ",".join(topic.name for topic in TOPICS),
    "startingOffsets": "earliest",
    "includeHeaders": "true",
}
CASES = {
    "read_uncommitted": SHARED_OPTIONS,
    "read_committed": SHARED_OPTIONS | {"kafka.isolation.level": "read_committed"},
    "offsets": SHARED_OPTIONS
    | {
        "subscribe": "create-time",
        "startingOffsets": '{"create-time": {"0": 17, "1": -2, "2": 100}}',
        "endingOffsets": '{"create-time": {"0": 150, "1": 33, "2": -1}}',
    },
    "timestamp": SHARED_OPTIONS
    | {
        "subscribe": "create-time",
        "startingTimestamp": str(ORIGIN + 60 * SECOND),
        "endingTimestamp": str(ORIGIN + 120 * SECOND),
    },
}


def fill(broker: Broker) -> None:
    """Every codec in each partition, headers, nulls, and a few transactions at the end of one partition."""
    create_topics(broker.bootstrap, TOPICS)
    for topic in TOPICS:
        for partition in range(topic.partitions):
            _fill_partition(broker, topic.name, partition)
    writer = Writer(broker.bootstrap, "conformance")
    for number, batch in enumerate(batched(_records("transactions"), (10,))):
        writer.begin()
        writer.send("create-time", 1, batch)
        writer.abort() if number % 2 else writer.commit()


def _fill_partition(broker: Broker, topic: str, partition: int) -> None:
    senders = [Sender(broker.bootstrap, {"compression.type": codec}) for codec in CODECS]
    batches = batched(_records(f"{topic}-{partition}"), (7, 1, 12, 5))
    for number, batch in enumerate(batches):
        senders[number % len(senders)].send(topic, partition, batch)


def _records(seed: str, count: int = 220) -> Iterator[Record]:
    chance = random.Random(seed)
    for number in range(count):
        key = chance.choice((None, b"", f"key-{number % 17}".encode()))
        value = chance.choice((None, b"", *(f"{number} {sentence(chance, 12)}".encode(),) * 6))
        yield Record(key, value, ORIGIN + number * SECOND + chance.randrange(-500, 500), _headers(chance))


def _headers(chance: random.Random) -> Headers | None:
    if chance.random() < 0.6:
        return None
    return [(chance.choice(("a", "b", "ü")), chance.choice((None, b"", b"value"))) for _ in range(chance.randint(1, 4))]


def python_with_spark() -> Path:
    """The interpreter of an environment with Spark and, as an editable install, this repository; made once."""
    home = cache_directory() / f"pyspark-{SPARK}"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    finished = home / "finished"
    if not finished.exists():
        venv.create(home, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "-q", f"pyspark=={SPARK}", "-e", str(ROOT)]
        subprocess.run(install, check=True)
        finished.touch()
    return python


def ask(fmt: str, folder: Path, where: dict[str, str], jars: Sequence[Path] = ()) -> None:
    """Run the notebook over all cases in a process of its own; what it says is shown only when it fails."""
    notebook = Path(__file__).with_name("notebook.py")
    cases = {name: options | where for name, options in CASES.items()}
    python = str(python_with_spark())
    command = [python, str(notebook), fmt, str(folder), json.dumps(cases), *map(str, jars)]
    environment = os.environ | {"PYSPARK_PYTHON": python}  # else Spark looks for data sources in whatever `python3` is
    done = subprocess.run(
        command, env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{fmt} failed with status {done.returncode}:\n{done.stdout}")


def difference(kafka: Path, kafkaseg: Path) -> str | None:
    """The first thing in which two answers differ, or None; an error on either side is a difference."""
    for folder in (kafka, kafkaseg):
        if (folder / "error.txt").exists():
            return f"{folder.parent.name} failed: {_gist((folder / 'error.txt').read_text())}"
    schemas = [json.loads((folder / "schema.json").read_text()) for folder in (kafka, kafkaseg)]
    if schemas[0] != schemas[1]:
        return f"schemas differ: {schemas[0]} and {schemas[1]}"
    theirs, ours = _rows(kafka), _rows(kafkaseg)
    if theirs.num_rows != ours.num_rows:
        return f"kafka has {theirs.num_rows} rows, kafkaseg {ours.num_rows}"
    if theirs.equals(ours):
        return None
    pairs = zip(theirs.to_pylist(), ours.to_pylist(), strict=True)
    return next(f"rows differ: kafka {one}, kafkaseg {other}" for one, other in pairs if one != other)


def _gist(error: str) -> str:
    """The line that says it: the last one that is not the stack of a Java exception."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith(("at ", "JVM ", "SQLSTATE"))), "no message")


def _rows(folder: Path) -> pa.Table:
    table = pa.concat_tables(pq.read_table(part) for part in sorted(folder.glob("*.parquet")))
    return table.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")]).combine_chunks()


def compare(scratch: Path, keep: Path | None) -> int:
    """Fill a broker, ask both sides everything, and say what came of it; returns how many cases differ."""
    jars = sorted(SPARK_KAFKA.directory().glob("*.jar"))
    with KRaftBroker(scratch / "broker") as broker:
        fill(broker)
        ask("kafka", scratch / "kafka", {"kafka.bootstrap.servers": broker.bootstrap}, jars)
    if keep is not None:
        shutil.copytree(broker.log_dir, keep)
    ask("kafkaseg", scratch / "kafkaseg", {"path": str(broker.log_dir)})
    return sum(_report(name, scratch / "kafka" / name, scratch / "kafkaseg" / name) for name in CASES)


def _report(name: str, kafka: Path, kafkaseg: Path) -> bool:
    found = difference(kafka, kafkaseg)
    print(f"{name}: DIFFERENT: {found}" if found else f"{name}: EQUAL, {_rows(kafka).num_rows} rows")
    return found is not None


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description="Compare Spark's Kafka source with kafkaseg over the same records.")
    parser.add_argument("--keep", type=Path, help="copy the broker's log directory here, to look at a difference")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkaseg-conformance-") as scratch:
        different = compare(Path(scratch), arguments.keep)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
