"""A real broker's compaction against `view=latest` of the log before it: `python -m tests.conformance.compaction`.

Opt-in: it starts a broker on the loopback address, and downloads its jars the first time. It needs confluent-kafka.

A broker writes updates of some keys, tombstones, and transactions of which a third is aborted, into topics that are not
compacted. The directory is copied. Then the topics become compacted, and the cleaner runs. What it keeps below its
checkpoint must be the newest committed record of each key up to there, as the copy has it, tombstones too.

Out: a line for each topic. Exit status 1 for any difference.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

import kafka_segment_source
from tests.brokers import KRaftBroker
from tests.fixtures.compaction import COMPACT, updates, wait_until_cleaned
from tests.fixtures.produce import ROLL_BY_INDEX, Sender, Topic, Writer, batched, create_topics

_COLUMNS = ["offset", "key", "value", "timestamp"]
_TOPICS = {"plain": "none", "packed": "zstd", "transactions": "none"}


def _produce(broker: KRaftBroker) -> None:
    for topic in ("plain", "packed"):
        sender = Sender(broker.bootstrap, {"compression.type": _TOPICS[topic]})
        sender.send_batches(topic, 0, batched(updates(topic, 600), (7, 1, 12, 5)))
    writer = Writer(broker.bootstrap, "compacted")
    for number, batch in enumerate(batched(updates("transactions", 400), (6, 9))):
        writer.begin()
        writer.send("transactions", 0, batch)
        writer.abort() if number % 3 == 1 else writer.commit()


def _compact(broker: KRaftBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in COMPACT.items()]
    resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries) for topic in _TOPICS]
    for changed in admin.incremental_alter_configs(resources).values():
        changed.result()
    wait_until_cleaned(broker.log_dir, _TOPICS)


def _read(logs: Path, topic: str, end: int, **options: object) -> list[dict[str, object]]:
    table = kafka_segment_source.scan(
        logs, _COLUMNS, subscribe=topic, endingOffsets={topic: {"0": end}}, isolationLevel="read_committed", **options
    ).read_all()
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def main() -> int:
    is_equal = True
    with (
        tempfile.TemporaryDirectory(prefix="kafkaseg-compaction-") as folder,
        KRaftBroker(Path(folder) / "broker") as broker,
    ):
        create_topics(broker.bootstrap, [Topic(topic, 1, ROLL_BY_INDEX) for topic in _TOPICS])
        _produce(broker)
        before = Path(folder) / "before"
        broker.copy_live(before)
        _compact(broker)
        broker.stop()
        entries = [line.split() for line in (broker.log_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]]
        ends = {topic: int(offset) for topic, _, offset in entries}
        for topic in _TOPICS:
            records = len(_read(before, topic, ends[topic]))
            kept = _read(broker.log_dir, topic, ends[topic])
            latest = _read(before, topic, ends[topic], view="latest", includeTombstones=True)
            is_equal &= kept == latest and 0 < len(kept) < records
            print(f"{topic}: {records} records, {len(kept)} kept: {'equal' if kept == latest else 'DIFFERENT'}")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
