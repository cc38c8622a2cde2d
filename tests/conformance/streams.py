"""Spark's own kafka source against `kafkaseg`, as streams: `python -m tests.conformance.streams [--rounds 5]`.

Opt-in: it starts a Kafka 4.1 broker, and the first time it downloads jars. It needs confluent-kafka, and a Spark whose
Kafka source is on Maven: 4.1 or 4.2.

Producers write all the time: all codecs, transactions of which a third is aborted, two topics that are compacted
meanwhile. In each round, a stream by `kafka` from the broker and one by `kafkaseg` from its files run with
availableNow, each under both isolation levels and with a checkpoint of its own. One topic is made after the second
round, and one gets another partition after the first. Some rounds have `maxOffsetsPerTrigger`, where Spark has it for
both. After the last round the producers end. Once the broker's high watermark checkpoint has caught up, each stream
runs once more.

What is compared, for each isolation level:

- No stream has an offset twice.
- Where both have an offset, all columns are equal.
- Each row of `kafkaseg` is a record that the broker acknowledged, of a committed transaction under read_committed.
- Without compaction, both have the same offsets: those of all such records.
- Of a compacted topic, one stream may have seen a record that was gone when the other one came. But each record that
  the log still holds at the end, by a batch read from the broker, was there all the time: both must have it.
- The offsets in the last checkpoints are the same.

Out: a line for each isolation level and topic. Exit status 1 for any difference. Only the loopback address is used.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow.parquet as pq
import pyspark
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.brokers import Distribution, KRaftBroker
from tests.conformance.soaking.ledger import NO_OFFSET, NO_TRANSACTION, Fate, Ledger
from tests.conformance.soaking.load import Load, LoadThread
from tests.conformance.soaking.topics import AGGRESSIVE, COMPACT, KEEP_ALL, SoakTopic, TopicPartition
from tests.conformance.soaking.watching import Changes, Watch
from tests.fixtures.produce import Topic, create_topics

ROOT = Path(__file__).parents[2]

#: The newest Kafka source on Maven for each Spark. The token provider of these versions is not to be had; that of 4.0
#: serves. It matters for delegation tokens alone.
_CONNECTORS = {"4.1": "4.1.3", "4.2": "4.2.0"}
SPARK = ".".join(pyspark.__version__.split(".")[:2])
HAS_LIMITS = SPARK != "4.1"

LATE = SoakTopic("late", KEEP_ALL, spread=64)
WIDENED = SoakTopic("codecs", KEEP_ALL, partitions=3, spread=64)  # its last partition is added later
TOPICS = (
    WIDENED,
    SoakTopic("transactional", KEEP_ALL, partitions=2, spread=64),
    SoakTopic("compacted", COMPACT, partitions=2, spread=64, tombstones=0.05, compacted=True),
    SoakTopic("compacted-transactional", COMPACT, hot_keys=60, compacted=True),
    LATE,
)
COMPACTED = {topic.name for topic in TOPICS if topic.compacted}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_LOADS = (
    *(Load(each, (("codecs", 0), ("codecs", 1)), 40, {"compression.type": each, "linger.ms": 30}) for each in _CODECS),
    Load("fast", (("transactional", 0), ("transactional", 1)), 60, commit_every=0.3),
    Load("slow", (("transactional", 0), ("transactional", 1)), 30, {"compression.type": "zstd"}, commit_every=4),
    Load("plain", (("transactional", 0), ("transactional", 1)), 30),
    Load("compacted", (("compacted", 0), ("compacted", 1)), 120, {"compression.type": "lz4", "linger.ms": 20}),
    Load("changelog", (("compacted-transactional", 0),), 80, commit_every=0.4),
)
WIDENED_LOAD = Load("added", ((WIDENED.name, 2),), 60, {"compression.type": "gzip"})
LATE_LOAD = Load("late", ((LATE.name, 0),), 60, commit_every=0.5)

PATTERN = "[^_].*"
#: A broker whose machine is busy must not lose its place in the cluster, or the other side waits for a leader.
CALM = AGGRESSIVE | {"broker.session.timeout.ms": "60000"}
_QUERY_SECONDS = 240
LEVELS = ("read_uncommitted", "read_committed")
FORMATS = ("kafka", "kafkaseg")
_WATERMARK_SECONDS = 60  # a broker writes the checkpoint every five
_LIMITS = (None, 20_000, None, 8_000)  # maxOffsetsPerTrigger, round by round

Offset = tuple[str, int, int]
Rows = dict[Offset, tuple[Any, ...]]


def find_jars() -> list[str]:
    """Returns the jars of Spark's Kafka source. They are fetched the first time."""
    version = _CONNECTORS.get(SPARK)
    if version is None:
        sys.exit(f"Spark {pyspark.__version__} has no Kafka source on Maven: run this with Spark 4.1 or 4.2")
    coordinates = (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    )
    jars = Distribution(f"spark-kafka-{version}", version, coordinates, transitive=False).directory()
    return sorted(map(str, jars.glob("*.jar")))


class Job:
    """Spark in a process of its own, which runs one query after the other."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._jars = find_jars()

    def __enter__(self) -> Self:
        notebook = str(Path(__file__).with_name("stream_notebook.py"))
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
        self._process = subprocess.Popen(
            [sys.executable, notebook, *self._jars],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("wb"),
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def run(self, **asked: object) -> list[int]:
        """Runs one query. Returns the counts of rows of its micro-batches. Raises RuntimeError if it fails."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": self._log.read_text(errors="replace")[-3000:]}
        if "error" in answer:
            raise RuntimeError(f"{asked} failed: {answer['error']}")
        return list(answer["batches"])


class Comparison:
    """One run of it all."""

    def __init__(self, arguments: argparse.Namespace, scratch: Path) -> None:
        self._rounds: int = arguments.rounds
        self._pause: float = arguments.pause
        self._chance = random.Random(arguments.seed)
        self._scratch = scratch
        self._broker = KRaftBroker(scratch / "broker", CALM)
        self._ledger = Ledger(TOPICS)
        self._loads: list[LoadThread] = []
        partitions = list(self._ledger.partitions)
        self._watch = Watch(self._broker.bootstrap, self._broker.log_dir, partitions)
        self._changes = Changes(self._broker.log_dir, partitions)

    def run(self) -> list[str]:
        """Runs all rounds. Returns the differences, in words."""
        with ExitStack() as stack:
            job = stack.enter_context(Job(self._scratch / "spark.log"))
            stack.enter_context(self._broker)
            first = [topic.request() for topic in TOPICS if topic not in (LATE, WIDENED)]
            create_topics(self._broker.bootstrap, [*first, Topic(WIDENED.name, 2, WIDENED.config)])
            self._changes.start()
            stack.callback(self._changes.stop)
            stack.callback(self._stop_loads)
            for load in FIRST_LOADS:
                self._start_load(load)
            for number in range(self._rounds):
                time.sleep(self._pause)
                self._check_loads()
                self._run_round(job, number)
                if number == 0:
                    self._widen()
                    self._start_load(WIDENED_LOAD)
                elif number == 1:
                    create_topics(self._broker.bootstrap, [LATE.request()])
                    self._start_load(LATE_LOAD)
            self._stop_loads()
            self._check_loads()
            self._watch.up.set()
            self._wait_for_watermarks()
            self._run_round(job, self._rounds)
            job.run(format="kafka", options=self._options("kafka", LEVELS[0]), rows=str(self._scratch / "held"))
        return self._compare()

    def _run_round(self, job: Job, number: int) -> None:
        limit = _LIMITS[number % len(_LIMITS)] if HAS_LIMITS and number < self._rounds else None
        runs = [(level, kind) for level in LEVELS for kind in FORMATS]
        self._chance.shuffle(runs)
        for level, kind in runs:
            options = self._options(kind, level)
            if limit is not None:
                options["maxOffsetsPerTrigger"] = str(limit)
            folder = self._folder(kind, level)
            began = time.monotonic()
            rows, checkpoint = str(folder / "rows"), str(folder / "checkpoint")
            taken = job.run(format=kind, options=options, rows=rows, checkpoint=checkpoint, seconds=_QUERY_SECONDS)
            said = f"{sum(taken):,} rows in {len(taken)} micro-batches, {time.monotonic() - began:.1f} s"
            name = f"round {number + 1}" if number < self._rounds else "last run"
            print(f"{name}, {kind}, {level}, limit {limit}: {said}", flush=True)

    def _options(self, kind: str, level: str) -> dict[str, str]:
        where = (
            {"path": str(self._broker.log_dir)}
            if kind == "kafkaseg"
            else {"kafka.bootstrap.servers": self._broker.bootstrap}
        )
        shared = {"subscribePattern": PATTERN, "startingOffsets": "earliest", "includeHeaders": "true"}
        return where | shared | {"kafka.isolation.level": level}

    def _folder(self, kind: str, level: str) -> Path:
        return self._scratch / f"{kind}-{level}"

    # ---- the load ----

    def _start_load(self, load: Load) -> None:
        thread = LoadThread(self._broker.bootstrap, self._ledger, load)
        self._loads.append(thread)
        thread.start()

    def _stop_loads(self) -> None:
        for load in self._loads:
            load.stop()
        for load in self._loads:
            load.join()

    def _check_loads(self) -> None:
        for load in self._loads:
            if load.failure is not None:
                raise load.failure

    def _widen(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 2})
        for made in admin.create_partitions([NewPartitions(WIDENED.name, WIDENED.partitions)]).values():
            made.result()

    def _wait_for_watermarks(self) -> None:
        """Waits until the file says what the broker says. Nothing is written any more."""
        deadline = time.monotonic() + _WATERMARK_SECONDS
        while True:
            ends = self._watch.ends()
            if ends is not None:
                behind = {each for each, end in ends.items() if self._read_watermarks().get(each, 0) != end.latest}
                undecided = {each for each, end in ends.items() if end.stable != end.latest}
                if not behind and not undecided:
                    return
                if time.monotonic() > deadline:
                    raise RuntimeError(f"high watermarks behind: {behind}; transactions open: {undecided}")
            time.sleep(0.5)

    def _read_watermarks(self) -> dict[TopicPartition, int]:
        lines = (self._broker.log_dir / "replication-offset-checkpoint").read_text().splitlines()[2:]
        fields = (line.split(" ") for line in lines)
        return {(topic, int(partition)): int(offset) for topic, partition, offset in fields}

    # ---- the judgement ----

    def _compare(self) -> list[str]:
        held = read_rows(self._scratch / "held", [])
        differences: list[str] = []
        for level in LEVELS:
            streams = {kind: read_rows(self._folder(kind, level) / "rows", differences) for kind in FORMATS}
            ends = {kind: read_checkpoint(self._folder(kind, level) / "checkpoint") for kind in FORMATS}
            if ends["kafka"] != ends["kafkaseg"]:
                differences.append(f"{level}: the checkpoints differ: {ends}")
            sent = dict(self._find_sent(level == "read_committed"))
            for topic in TOPICS:
                kafka, ours, there, truth = (
                    {key: row for key, row in rows.items() if key[0] == topic.name}
                    for rows in (streams["kafka"], streams["kafkaseg"], held, sent)
                )
                found = compare_rows(kafka, ours, there, truth, topic.compacted)
                differences += [f"{level}, {topic.name}: {each}" for each in found]
                seen = f"{len(kafka):,} rows by kafka, {len(ours):,} by kafkaseg, {len(truth):,} sent"
                alone = f"{len(kafka.keys() - ours.keys()):,} and {len(ours.keys() - kafka.keys()):,} by one alone"
                kept = f"{len(there.keys() & truth.keys()):,} held at the end" if topic.compacted else ""
                print(", ".join(filter(None, [f"{level}, {topic.name}: {seen}", alone, kept])))
        print(f"segments: {self._changes.counts()}")
        return differences

    def _find_sent(self, committed: bool) -> Iterator[tuple[Offset, tuple[Any, ...]]]:
        """Yields the key and value of each acknowledged record. committed: only where its transaction was, if any."""
        fates = self._ledger.fates().fate
        for (topic, partition), ledger in self._ledger.partitions.items():
            sent = ledger.sent()
            for number in range(sent.count):
                transaction = sent.transaction[number]
                if sent.offset[number] == NO_OFFSET:
                    continue
                if committed and transaction != NO_TRANSACTION and fates[transaction] != Fate.COMMITTED:
                    continue
                value = None if sent.tombstone[number] else ledger.topic.value(partition, number)
                yield (topic, partition, int(sent.offset[number])), (b"%08d" % sent.key[number], value)


def read_rows(folder: Path, differences: list[str]) -> Rows:
    """Reads the rows of a stream by offset. An offset that it has twice is a difference."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.parquet")):
        found += pq.read_table(path).to_pylist()
    rows = {(row["topic"], row["partition"], row["offset"]): tuple(row.values()) for row in found}
    if len(rows) != len(found):
        times = Counter((row["topic"], row["partition"], row["offset"]) for row in found)
        twice = sorted(key for key, count in times.items() if count > 1)
        differences.append(f"{folder.parent.name} has {len(twice)} offsets more than once: {twice[:5]}")
    return rows


def read_checkpoint(folder: Path) -> dict[str, dict[str, int]]:
    """Reads the last offsets of a checkpoint."""
    last = max(
        (path for path in (folder / "offsets").iterdir() if path.name.isdigit()), key=lambda each: int(each.name)
    )
    return dict(json.loads(last.read_text().splitlines()[-1]))


def compare_rows(kafka: Rows, ours: Rows, held: Rows, sent: Rows, compacted: bool) -> list[str]:
    """Says in which way two streams over one topic differ.

    held: what the log holds at the end. sent: key and value of the records that a stream may have.
    """
    must = held.keys() & sent.keys() if compacted else sent.keys()
    checks = {
        "rows differ": {key for key in kafka.keys() & ours.keys() if kafka[key] != ours[key]},
        "kafkaseg has rows that nobody sent, or of aborted transactions": {
            key for key, row in ours.items() if key not in sent or row[:2] != sent[key]
        },
        "kafka has rows that nobody sent, or of aborted transactions": kafka.keys() - sent.keys(),
        "kafkaseg lacks rows": must - ours.keys(),
        "kafka lacks rows": must - kafka.keys(),
    }
    if not compacted:
        checks["only one of them has rows"] = kafka.keys() ^ ours.keys()
    return [f"{what}: {len(keys)}, the first {sorted(keys)[:3]}" for what, keys in checks.items() if keys]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Compare streams by kafka and by kafkaseg beside a broker at work.")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each stream while producers write (5)")
    parser.add_argument("--pause", type=float, default=4, help="seconds before each round (4)")
    parser.add_argument("--seed", default="1", help="what the order of the runs follows from")
    return parser.parse_args(arguments)


def main() -> None:
    """Runs it, and says what was found."""
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # so that everything is stopped on the way
    with tempfile.TemporaryDirectory(prefix="kafkaseg-streams-", ignore_cleanup_errors=True) as scratch:
        differences = Comparison(arguments, Path(scratch)).run()
    print("\n".join(f"DIFFERENT: {each}" for each in differences) or "both streams have the same rows, each once")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
