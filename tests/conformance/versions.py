"""Brokers of any version of Kafka since 3.9: `python -m tests.conformance.versions 3.9.2 4.2.1 4.3.1 4.4.0`.

Opt-in: it starts brokers on the loopback address, and downloads the jars of a version the first time. It needs
confluent-kafka.

For each version, brokers write what the fixtures tell: every codec, odd records, times out of order, transactions, a
compacted topic, a directory that is copied under load; then

- `tier`, `moved-tier`: tiers by LocalTieredStorage, with transactions and several leader epochs, whose segments are no
  longer on the disk; by one broker, and by three of which one is elected uncleanly.
- `transaction-versions`: transactions under each level of `transaction.version` that the broker has.
- `groups`: classic groups and those of KIP-848, transactional ids, topics.
- `new-groups`: share groups and a streams group, where the broker has them.

What consumers see and what Kafka's tools say is saved, and the directory that the broker leaves is read. Compared are
the rows under both isolation levels, whole and by a time range that the index files prune, and the views with the
answers of the tools. `verify` finds nothing, and no view warns of a record that it does not know.

Out: a line for each of these. Exit status 1 for any difference; its files are kept then.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.brokers.by_version import find_broker
from tests.conformance.versioned.compare import Outcome, compare_rows, find_problems
from tests.conformance.versioned.groups import run_groups, run_new_groups
from tests.conformance.versioned.tiers import run_moved_tier, run_tier
from tests.conformance.versioned.transactions import run_transaction_versions
from tests.fixtures.compaction import COMPACTED
from tests.fixtures.consume import save_expected
from tests.fixtures.produce import create_topics
from tests.fixtures.scenario import Scenario
from tests.fixtures.scenarios import KAFKA_4_SCENARIOS


def run_scenario(scenario: Scenario, version: str, folder: Path) -> Outcome:
    """Runs one scenario with a broker of this version."""
    topics = [topic.name for topic in scenario.topics]
    with find_broker(version)(folder / "broker", scenario.overrides) as broker:
        create_topics(broker.bootstrap, scenario.topics)
        kept_alive = scenario.produce(broker)
        logs = broker.log_dir
        if scenario.live:
            logs = folder / "live"
            broker.copy_live(logs)
        counts = save_expected(broker.bootstrap, topics, folder)
        broker.stop()
        del kept_alive
    return Outcome(str(counts), compare_rows(logs, topics, folder) + find_problems(logs))


PIECES: dict[str, Callable[[str, Path], Outcome]] = {
    **{scenario.name: partial(run_scenario, scenario) for scenario in (*KAFKA_4_SCENARIOS, COMPACTED)},
    "tier": run_tier,
    "moved-tier": run_moved_tier,
    "transaction-versions": run_transaction_versions,
    "groups": run_groups,
    "new-groups": run_new_groups,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare reads of the files of any broker with its consumers.")
    parser.add_argument("versions", nargs="+", help="such as 3.9.2")
    parser.add_argument("--only", nargs="+", choices=PIECES, default=list(PIECES), help="default: all of them")
    arguments = parser.parse_args()
    differs = False
    for version in arguments.versions:
        for name in arguments.only:
            folder = Path(tempfile.mkdtemp(prefix="kafkaseg-versions-"))
            there, wrong = PIECES[name](version, folder)
            result = "" if wrong is None else f": {'; '.join(wrong) or 'equal'}"
            print(f"{version:8} {name:20} {there}{result}", flush=True)
            if wrong:
                print(f"{version:8} {name:20} its files are in {folder}", flush=True)
                differs = True
            else:
                shutil.rmtree(folder)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
