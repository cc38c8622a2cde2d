"""Transactions of each version of the protocol: Kafka's own producer under each level of `transaction.version`.

Under level 2 each transaction has an epoch of its own, and its marker the epoch after that of its data. Under levels 0
and 1 both have one epoch.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import kafka_segment_source as kafkaseg
from tests.brokers.by_version import find_broker
from tests.brokers.features import Feature, read_features, set_feature
from tests.conformance.versioned.compare import Outcome, compare_answers, compare_rows, find_problems
from tests.fixtures.consume import save_expected
from tests.fixtures.groups import ask_about_transactions
from tests.fixtures.produce import ROLL_BY_INDEX, Topic, create_topics
from tests.fixtures.scenarios import perform_transactions
from tests.support.group_answers import GROUP_ANSWERS

_FEATURE = "transaction.version"


def run_transaction_versions(version: str, folder: Path) -> Outcome:
    """A topic for each level that the broker offers; one transaction of each is aborted."""
    with find_broker(version)(folder / "broker") as broker:
        feature = read_features(broker).get(_FEATURE, Feature(0, 0))
        topics = {level: f"level-{level}" for level in range(feature.highest + 1)}
        create_topics(broker.bootstrap, [Topic(name, 1, ROLL_BY_INDEX) for name in topics.values()])
        for level in sorted(topics, reverse=True):
            if feature.highest:
                set_feature(broker, _FEATURE, level)
            perform_transactions(broker, topics[level], f"java-{level}")
        answers = {"transactions_tool": ask_about_transactions(broker)}
        counts = save_expected(broker.bootstrap, topics.values(), folder)
        data = broker.log_dir
        broker.stop()
    names = list(topics.values())
    wrong = compare_rows(data, names, folder) + find_problems(data)
    wrong += compare_answers(
        data, answers, {name: GROUP_ANSWERS[name] for name in ("transactional ids",)}, normal="(none)"
    )
    for level, topic in topics.items():
        wrong += _check_epochs(data, topic, level)
    if counts["read_committed"] == counts["read_uncommitted"]:
        wrong.append("nothing was aborted")
    return Outcome(f"{_FEATURE} {', '.join(map(str, topics))}: {counts}", wrong)


def _check_epochs(data: Path, topic: str, level: int) -> list[str]:
    """Whether markers and data have the epochs of the level, and the view has each transaction."""
    rows = kafkaseg.scan(data, subscribe=topic, view="batches").read_all().to_pylist()
    batches = sorted(rows, key=lambda row: row["baseOffset"])
    steps = {
        marker["producerEpoch"] - batch["producerEpoch"]
        for batch, marker in pairwise(batches)
        if marker["isControl"] and not batch["isControl"]
    }
    # the producer that takes over aborts under an epoch of its own, whatever the level
    wrong = [] if (0 in steps) == (level < 2) and steps <= {0, 1} else [f"{topic}: epochs differ by {steps}"]
    transactions = kafkaseg.scan(data, subscribe=topic, view="transactions").read_all().to_pylist()
    states = {row["state"] for row in transactions}
    if states != {"committed", "aborted"} or len(transactions) != sum(row["isControl"] for row in batches):
        wrong.append(f"{topic}: {len(transactions)} transactions, {states}")
    return wrong
