"""A cluster that lost files comes back from what `rebuild` makes: `python -m tests.conformance.recovery 4.1.0`.

Opt-in: it starts brokers on the loopback address, and downloads the jars of a version the first time. It needs
confluent-kafka. docs/recovery.md has the same steps in words.

Three brokers hold each partition. Producers write in all codecs and in transactions, one of which stays open; a group
commits offsets. Consumers save what they see. Then all brokers are killed with SIGKILL, and of each segment only one
broker keeps a sound file: on the two others it is deleted, cut, or has a flipped bit. `rebuild` makes one log directory
of the three. Then

- the same cluster starts on it: with its own metadata log, so with the same topic ids;
- another cluster of one broker starts on it: its topics were created anew, so they have other ids;
- one partition is put back under a broker whose other partitions have gone on;
- the records are produced into a live cluster, and the group is moved (`examples/produce_again.py`).

Each time, consumers must see the rows of before under both isolation levels, the group must go on where it was, and the
open transaction must be aborted when its producer starts again. The brokers' logs must say nothing of a recovery.

Out: a line for each step. Exit status 1 if a step differs.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from examples import produce_again
from kafka_segment_source import rebuild
from tests.brokers import KRaftBroker
from tests.brokers.by_version import find_distribution
from tests.fixtures.compaction import updates
from tests.fixtures.consume import ISOLATION_LEVELS, consume
from tests.fixtures.produce import ROLL_BY_INDEX, Sender, Topic, Writer, batched, create_topics

TOPICS = ("events", "ledger")
GROUP = "billing"
COMMITTED = {0: 40, 1: 55, 2: 0}  # of the group, by partition of `events`
OPEN = "left-open"
_NODES = (1, 2, 3)
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.max.timeout.ms": "3600000",
}
#: What a broker says of logs that it must repair; a replica that has no leader yet is no such thing
_RECOVERY = re.compile(
    r"corrupt|recovering|rebuilding|found invalid|stray|inconsistent|sanity|out of order", re.IGNORECASE
)
_OF_LOGS = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]
_SECONDS = 90

Rows = dict[str, pa.Table]


class Steps:
    """What was compared, and whether it was equal."""

    def __init__(self, version: str) -> None:
        self._version = version
        self.failed = 0

    def check(self, what: str, is_equal: bool) -> None:
        self.failed += not is_equal
        print(f"{self._version:8} {what}: {'yes' if is_equal else 'NO'}", flush=True)


def produce(bootstrap: str) -> Writer:
    """Fills the topics. Returns a producer whose transaction is open."""
    for partition, codec in enumerate(("none", "zstd", "lz4")):
        sender = Sender(bootstrap, {"compression.type": codec})
        sender.send_batches("events", partition, batched(updates(codec, 120), (7, 1, 12, 5)))
    writer = Writer(bootstrap, "payments")
    for number, batch in enumerate(batched(updates("ledger", 120), (6, 9))):
        writer.begin()
        writer.send("ledger", 0, batch)
        writer.abort() if number % 3 == 1 else writer.commit()
    hanging = Writer(bootstrap, OPEN)
    hanging.begin()
    hanging.send("ledger", 0, updates("open", 9))
    writer.begin()
    writer.send("ledger", 0, updates("later", 11))
    writer.commit()
    return hanging


def commit_offsets(bootstrap: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    places = [TopicPartition("events", partition, offset) for partition, offset in offsets.items()]
    retry(lambda: consumer.commit(offsets=places, asynchronous=False))
    consumer.close()


def read_group(bootstrap: str) -> dict[int, int]:
    """The committed offsets of the group, by partition of `events`."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    places = [TopicPartition("events", partition) for partition in COMMITTED]
    found = retry(lambda: consumer.committed(places, timeout=10))
    consumer.close()
    return {place.partition: place.offset for place in found}


def see(bootstrap: str) -> Rows:
    """What consumers see of the topics, by isolation level."""
    return {level: retry(lambda level=level: consume(bootstrap, TOPICS, level)) for level in ISOLATION_LEVELS}


def retry(ask: Callable[[], Any]) -> Any:
    """Asks again while leaders are elected and coordinators load their logs."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return ask()
        except (KafkaException, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def hurt(directories: list[Path], chance: random.Random) -> int:
    """Hurts all copies of each segment but one, and returns how many files that were."""
    hurt_files = 0
    names = {each.relative_to(one) for one in directories for each in one.glob("*-[0-9]*/*.log")}
    for name in sorted(each for each in names if not str(each).startswith("__cluster_metadata")):
        files = [one / name for one in directories if (one / name).exists() and (one / name).stat().st_size]
        if len({file.stat().st_size for file in files}) > 1:
            files = [file for file in files if file.stat().st_size < max(other.stat().st_size for other in files)]
        else:
            files.remove(chance.choice(files)) if files else None
        for file in files:
            hurt_files += 1
            data = bytearray(file.read_bytes())
            way = chance.choice(["delete", "cut", "flip"])
            if way == "delete":
                for beside in file.parent.glob(f"{file.stem}.*"):
                    beside.unlink()
            elif way == "cut":
                file.write_bytes(data[: chance.randrange(len(data))])
            else:
                data[chance.randrange(21, len(data))] ^= 1 << chance.randrange(8)  # in what the CRC covers
                file.write_bytes(data)
    return hurt_files


def check_cluster(steps: Steps, where: str, bootstrap: str, logs: Iterable[Path], before: Rows) -> None:
    """Compares what consumers, the group and the producer of the open transaction find with what was there."""
    now = see(bootstrap)
    for level in ISOLATION_LEVELS:
        steps.check(f"{where}: {level}, {before[level].num_rows} rows as before", now[level].equals(before[level]))
    steps.check(f"{where}: the group goes on where it was", read_group(bootstrap) == COMMITTED)
    said = [line for log in logs for line in log.read_text(errors="replace").splitlines() if _RECOVERY.search(line)]
    for line in said[:5]:
        print(f"         {line[:300]}")
    steps.check(f"{where}: no broker recovers or repairs a log", not said)
    retry(lambda: Writer(bootstrap, OPEN))  # it begins by ending what its predecessor left
    after = see(bootstrap)
    plain, committed = after["read_uncommitted"], after["read_committed"]
    steps.check(f"{where}: the open transaction is aborted", committed.num_rows == plain.num_rows - _aborted(plain))
    more = list(updates("after", 20))
    Sender(bootstrap).send_batches("events", 0, batched(more, (5,)))
    steps.check(
        f"{where}: producers go on", see(bootstrap)["read_committed"].num_rows == committed.num_rows + len(more)
    )


def _aborted(rows: pa.Table) -> int:
    """How many records were aborted in the end: every third transaction of `ledger`, and the open one."""
    sizes = [len(batch) for batch in batched(updates("ledger", 120), (6, 9))]
    return sum(sizes[1::3]) + len(list(updates("open", 9)))


def server_log(broker: KRaftBroker) -> Path:
    return broker.folder / "server.log"


def revive_same_cluster(
    steps: Steps, brokers: list[KRaftBroker], rebuilt: Path, lost: list[Path], before: Rows
) -> None:
    """Step (a): each broker gets its own metadata log and meta.properties again, and the rebuilt partitions."""
    for broker, old in zip(brokers, lost, strict=True):
        shutil.copytree(rebuilt, broker.log_dir)
        (broker.log_dir / "rebuild.json").unlink()
        shutil.copytree(old / "__cluster_metadata-0", broker.log_dir / "__cluster_metadata-0")
        for name in ("meta.properties", "bootstrap.checkpoint"):
            if (old / name).exists():
                shutil.copy2(old / name, broker.log_dir / name)
        server_log(broker).write_text("")
    start_all(brokers)
    check_cluster(steps, "same cluster", brokers[0].bootstrap, map(server_log, brokers), before)


def revive_in_new_cluster(steps: Steps, broker: KRaftBroker, rebuilt: Path, before: Rows) -> None:
    """Step (b): a cluster of one broker whose topics were created anew. It keeps its own partition.metadata."""
    with broker:
        create_topics(broker.bootstrap, [Topic("events", 3, ROLL_BY_INDEX), Topic("ledger", 1, ROLL_BY_INDEX)])
        commit_offsets(broker.bootstrap, {0: 0})  # which creates __consumer_offsets
        retry(lambda: Writer(broker.bootstrap, "any"))  # and this __transaction_state
        broker.stop()
        put_back(rebuilt, broker.log_dir, rebuilt.glob("*-[0-9]*"))
        server_log(broker).write_text("")
        broker.start()
        check_cluster(steps, "new cluster", broker.bootstrap, [server_log(broker)], before)
        put_one_back(steps, broker, rebuilt, before)


def put_one_back(steps: Steps, broker: KRaftBroker, rebuilt: Path, before: Rows) -> None:
    """Step (c): one partition goes back under a broker whose other partitions have gone on."""
    now = see(broker.bootstrap)["read_uncommitted"]
    broker.stop()
    put_back(rebuilt, broker.log_dir, [rebuilt / "events-1"])
    server_log(broker).write_text("")
    broker.start()
    after = see(broker.bootstrap)["read_uncommitted"]
    steps.check("one partition: its rows are those of before", _of(after, 1).equals(_of(before["read_uncommitted"], 1)))
    steps.check("one partition: the others have gone on", _of(after, 0).equals(_of(now, 0)))


def produce_into_live(steps: Steps, broker: KRaftBroker, rebuilt: Path, before: Rows) -> None:
    """Step (d): the committed records go into the topics of a live cluster, and the groups to the same records."""
    with broker:
        create_topics(broker.bootstrap, [Topic("events", 3, ROLL_BY_INDEX), Topic("ledger", 1, ROLL_BY_INDEX)])
        offsets = produce_again.produce(str(rebuilt), broker.bootstrap)
        moved = retry(lambda: produce_again.move_groups(str(rebuilt), broker.bootstrap, offsets))
        now = see(broker.bootstrap)["read_committed"]
        committed = before["read_committed"]
        names = [name for name in committed.schema.names if name != "offset"]
        steps.check(
            "live cluster: the same records in the same order", now.select(names).equals(committed.select(names))
        )
        steps.check(
            "live cluster: old and new offsets", _pairs(offsets) == list(zip(*_offsets(committed, now), strict=True))
        )
        found = read_group(broker.bootstrap)
        steps.check("live cluster: the group's offsets are moved", found == {place[2]: place[3] for place in moved})
        steps.check("live cluster: the group goes on with the same records", found == _translate(committed, now))


def _pairs(offsets: pa.Table) -> list[tuple[int, int]]:
    return list(zip(offsets["old"].to_pylist(), offsets["new"].to_pylist(), strict=True))


def _offsets(*tables: pa.Table) -> list[list[int]]:
    return [table["offset"].to_pylist() for table in tables]


def _translate(before: pa.Table, now: pa.Table) -> dict[int, int]:
    """The offsets in `now` of the first records at or after the group's offsets in `before`."""
    found = {}
    for partition, offset in COMMITTED.items():
        old, new = _offsets(_of(before, partition), _of(now, partition))
        found[partition] = next((place for at, place in zip(old, new, strict=True) if at >= offset), len(new))
    return found


def _of(rows: pa.Table, partition: int) -> pa.Table:
    return rows.filter((pc.field("topic") == "events") & (pc.field("partition") == partition))


def put_back(rebuilt: Path, log_dir: Path, partitions: Iterable[Path]) -> None:
    """Puts partitions into the log directory of a broker that is stopped. They get the topic ids of this cluster."""
    names = []
    for partition in partitions:
        own = log_dir / partition.name
        topic_id = (own / "partition.metadata").read_bytes()
        shutil.rmtree(own)
        shutil.copytree(partition, own)
        (own / "partition.metadata").write_bytes(topic_id)
        names.append(partition.name)
    for checkpoint in _OF_LOGS:
        replace_entries(log_dir / checkpoint, rebuilt / checkpoint, set(names))


def replace_entries(checkpoint: Path, rebuilt: Path, names: set[str]) -> None:
    """Replaces the lines of some partitions in a checkpoint file: version, number of lines, topic partition offset."""
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    new = rebuilt.read_text().splitlines()[2:] if rebuilt.exists() else []
    kept = [line for line in lines if "-".join(line.split()[:2]) not in names]
    kept += [line for line in new if "-".join(line.split()[:2]) in names]
    checkpoint.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")


def start_all(brokers: list[KRaftBroker]) -> None:
    for broker in brokers:
        broker._server.start()
    for broker in brokers:
        broker._wait_until_it_answers()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="+", help="such as 4.1.0")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    failed = 0
    for version in arguments.versions:
        with tempfile.TemporaryDirectory(prefix="kafkaseg-recovery-") as folder:
            failed += run(version, Path(folder), random.Random(arguments.seed))
    return 1 if failed else 0


def run(version: str, folder: Path, chance: random.Random) -> int:
    class OfVersion(KRaftBroker):
        distribution = find_distribution(version)

    steps = Steps(version)
    first = OfVersion(folder / "1", _REPLICATED)
    brokers = [first, *(OfVersion(folder / str(node), _REPLICATED, first, node) for node in _NODES[1:])]
    try:
        for broker in brokers:
            broker.start()
        replicas = _NODES
        create_topics(
            first.bootstrap,
            [Topic("events", 3, ROLL_BY_INDEX, replicas), Topic("ledger", 1, ROLL_BY_INDEX, replicas)],
        )
        hanging = produce(first.bootstrap)
        commit_offsets(first.bootstrap, COMMITTED)
        before = see(first.bootstrap)
        time.sleep(2)  # the followers have what the leaders wrote
        for broker in brokers:
            broker.kill()
        lost = []
        for broker in brokers:
            lost.append(broker.log_dir.rename(broker.folder / "lost"))
        files = hurt(lost, chance)
        report = rebuild(lost, folder / "rebuilt", internal=True)
        print(
            f"{version:8} {files} files hurt, {report.records:,} records rebuilt, left out: {report.left_out}",
            flush=True,
        )
        revive_same_cluster(steps, brokers, folder / "rebuilt", lost, before)
        try:
            hanging.commit()
            steps.check("same cluster: the old producer is fenced", False)
        except KafkaException as error:
            steps.check("same cluster: the old producer is fenced", error.args[0].code() == KafkaError._FENCED)
        for broker in brokers:
            broker.stop()
        single = {"transaction.max.timeout.ms": "3600000"}
        revive_in_new_cluster(steps, OfVersion(folder / "new", single), folder / "rebuilt", before)
        produce_into_live(steps, OfVersion(folder / "live"), folder / "rebuilt", before)
    finally:
        for broker in brokers:
            broker.stop()
    return steps.failed


if __name__ == "__main__":
    sys.exit(main())
