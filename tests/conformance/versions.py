"""Brokers of any version of Kafka since 3.3: `python -m tests.conformance.versions 3.9.2 4.2.0 4.3.0 4.4.0`.

Opt-in: it starts brokers on the loopback address, and downloads the jars of a version the first time. It needs
confluent-kafka.

For each version, and each scenario of the fixtures, a broker writes: every codec, odd records, times out of order,
transactions of both versions of the protocol, a compacted topic. What a consumer sees is saved, and the directory that
the broker leaves is read. Compared are the rows under both isolation levels, whole and by a time range that the index
files prune; and `verify` finds nothing.

Out: a line for each scenario. Exit status 1 for any difference.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from kafka_segment_source import verify
from tests.brokers import KRaftBroker
from tests.fixtures.compaction import COMPACTED
from tests.fixtures.consume import ISOLATION_LEVELS, save_expected
from tests.fixtures.produce import create_topics
from tests.fixtures.scenario import Scenario
from tests.fixtures.scenarios import KAFKA_4_SCENARIOS
from tests.support.jars import Distribution
from tests.support.rows import TIMESTAMP, read_answer, scanned


def find_distribution(version: str) -> Distribution:
    """The jars of a version, as Maven has them."""
    if version == KRaftBroker.distribution.version:
        return KRaftBroker.distribution
    artifacts = ("kafka_2.13", "kafka-tools", "kafka-server")
    coordinates = [f"org.apache.kafka:{artifact}:{version}" for artifact in artifacts]
    return Distribution(f"kafka-{version}", version, (*coordinates, "org.slf4j:slf4j-simple:1.7.36"))


def run_scenario(version: str, scenario: Scenario, folder: Path) -> list[str]:
    """Runs one scenario with a broker of this version. Returns what differs, one line each."""

    class OfVersion(KRaftBroker):
        distribution = find_distribution(version)

    topics = [topic.name for topic in scenario.topics]
    with OfVersion(folder / "broker", scenario.overrides) as broker:
        create_topics(broker.bootstrap, scenario.topics)
        kept_alive = scenario.produce(broker)
        logs = broker.log_dir
        if scenario.live:
            logs = folder / "live"
            broker.copy_live(logs)
        counts = save_expected(broker.bootstrap, topics, folder)
        broker.stop()
        del kept_alive
    wrong = []
    for isolation in ISOLATION_LEVELS:
        seen = read_answer(folder / f"expected.{isolation}.parquet")
        if scanned(logs, subscribe=topics, isolationLevel=isolation) != seen:
            wrong.append(f"{isolation}: the rows differ")
        middle = sorted(row[TIMESTAMP] for row in seen)[len(seen) // 2]
        pruned = scanned(logs, subscribe=topics, isolationLevel=isolation, since=middle, until=middle + 60_000)
        if pruned != [row for row in seen if middle <= row[TIMESTAMP] < middle + 60_000]:
            wrong.append(f"{isolation}: the rows of a minute differ")
    wrong += [f"{problem.path}: {problem.what}" for problem in verify(logs).problems]
    print(f"{version:8} {scenario.name:14} {counts}: {'equal' if not wrong else '; '.join(wrong)}", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare reads of the files of any broker with its consumers.")
    parser.add_argument("versions", nargs="+", help="such as 3.9.2")
    wrong = []
    for version in parser.parse_args().versions:
        for scenario in (*KAFKA_4_SCENARIOS, COMPACTED):
            folder = Path(tempfile.mkdtemp(prefix="kafkaseg-versions-"))
            try:
                wrong += run_scenario(version, scenario, folder)
            finally:
                shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
