"""Tiers by brokers of any version: the stories of the fixtures `local-tier` and `moved-tier`."""

from __future__ import annotations

from pathlib import Path

import kafka_segment_source as kafkaseg
from tests.brokers.by_version import find_tiered_broker
from tests.conformance.versioned.compare import Outcome, compare_a_minute, compare_rows, find_problems
from tests.fixtures.consume import save_expected, save_internal
from tests.fixtures.tiering import EACH_OFFSET, LOCAL_TIER_TOPICS, write_local_tier, write_moved_tier
from tests.support.rows import OFFSET, TOPIC, read_answer, scanned

_METADATA = "__remote_log_metadata"


def run_tier(version: str, folder: Path) -> Outcome:
    """One broker: transactions, leader epochs, a topic that was made again; most segments are in the tier alone."""
    tier = folder / "tier"
    with find_tiered_broker(version)(folder / "broker", tier) as broker:
        alive = write_local_tier(broker)
        counts = save_expected(broker.bootstrap, LOCAL_TIER_TOPICS, folder)
        save_internal(broker.bootstrap, [_METADATA], folder)
        data = broker.log_dir
        broker.stop()
        del alive
    wrong = compare_rows([tier, data], LOCAL_TIER_TOPICS, folder)
    wrong += find_problems([tier, data])
    wrong += _compare_tier_alone(tier, data, folder)
    segments = len(list(tier.glob("**/*.log")))
    metadata = read_answer(folder / "expected.internal.parquet")
    if scanned(data, subscribe=_METADATA)[: len(metadata)] != metadata:
        wrong.append(f"{_METADATA}: the rows differ")
    there = f"{counts}, {segments} segments in the tier, {len(metadata)} records of {_METADATA}"
    return Outcome(there, wrong)


def _compare_tier_alone(tier: Path, data: Path, folder: Path) -> list[str]:
    """What is in the tier alone is no longer on the disk, has several leader epochs, and is read without the disk."""
    wrong = []
    rows = [row for row in read_answer(folder / "expected.read_uncommitted.parquet") if row[TOPIC] == "plain"]
    local = min(int(path.stem) for path in (data / "plain-0").glob("*.log"))
    if scanned(tier, subscribe="plain") != [row for row in rows if row[OFFSET] < local] or not local:
        wrong.append("plain: the rows of the tier alone differ")
    wrong += compare_a_minute(tier, ["plain"], "read_uncommitted", [row for row in rows if row[OFFSET] < local])
    batches = kafkaseg.scan(tier, subscribe="plain", view="batches", columns=["partitionLeaderEpoch"]).read_all()
    if len(set(batches["partitionLeaderEpoch"].to_pylist())) != 3:
        wrong.append("plain: the tier has not three leader epochs")
    return wrong


def run_moved_tier(version: str, folder: Path) -> Outcome:
    """Three brokers, and an unclean election: segments of the tier overlap, and some belong to no history."""
    _, directories = write_moved_tier(find_tiered_broker(version), folder, folder)
    paths = [folder / "tier", *directories.values()]
    history = read_answer(folder / EACH_OFFSET)
    wrong = find_problems(paths)
    if scanned(paths, subscribe="moved") != history:
        wrong.append("the rows differ")
    wrong += compare_a_minute(paths, ["moved"], "read_uncommitted", history)
    copies = len(kafkaseg.list_partitions(paths[0]).partitions)
    if copies < 2:
        wrong.append("no segments of the tier overlap")
    segments = len(list(paths[0].glob("**/*.log")))
    return Outcome(f"{len(history)} rows, {segments} segments in the tier as {copies} copies", wrong)
