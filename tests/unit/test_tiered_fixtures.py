"""What real brokers stored in their tier is what their consumers saw: by the naive decoder, along the leader epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import naive
from tests.support import naive_tier as decoder
from tests.support import tiered_encoder as encoder
from tests.support.rows import Row, decoded, read_answer
from tests.support.tiers import LOCAL_TIER, MOVED_TIER

SEGMENTS = decoder.decode_local_tier(encoder.read_objects(LOCAL_TIER / "tier"))
MOVED = decoder.decode_local_tier(encoder.read_objects(MOVED_TIER / "tier"))


def local_records(directory: Path) -> list[naive.Record]:
    """The records of a partition directory."""
    logs = sorted(directory.glob("*.log"))
    return [record for path in logs for record in naive.decode_log(path.read_bytes())]


def history(segments: list[decoder.TieredSegment], directory: Path) -> list[naive.Record]:
    """Tier and local log as one."""
    tiered = [record for each in segments for record in decoder.records_of(each)]
    epochs = decoder.read_epochs((directory / "leader-epoch-checkpoint").read_bytes())
    return decoder.follow_lineage([*tiered, *local_records(directory)], epochs)


def rows_of(topic: str, partition: int, isolation: str) -> list[Row]:
    """The answer of a partition of `local-tier`; of the topics of one name, the one that the broker has."""
    directory = LOCAL_TIER / "data" / f"{topic}-{partition}"
    metadata = (directory / "partition.metadata").read_text()
    mine = [
        each for each in SEGMENTS if (each.topic, each.partition) == (topic, partition) and each.topic_id in metadata
    ]
    records = history(mine, directory)
    return decoded(naive.committed(records) if isolation == "read_committed" else records, topic, partition)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_tier_and_local_log_are_what_a_consumer_saw(isolation: str) -> None:
    """Transactions, several leader epochs, a topic of a name that another had: every row."""
    expected = read_answer(LOCAL_TIER / f"expected.{isolation}.parquet")
    partitions = sorted({row[:2] for row in expected})
    assert len(partitions) == 5
    assert [row for topic, partition in partitions for row in rows_of(topic, partition, isolation)] == expected


def test_local_tier_has_the_shapes_that_its_story_tells() -> None:
    """What tests rely on: epochs within segments, aborts, two topics of one name, and nothing old on the disk."""
    ids = {each.topic_id for each in SEGMENTS if each.topic == "again"}
    assert len(ids) == 2
    plain = [each for each in SEGMENTS if each.topic == "plain"]
    assert sorted({record.leader_epoch for each in plain for record in decoder.records_of(each)}) == [0, 2, 4]
    assert any(len({record.leader_epoch for record in decoder.records_of(each)}) > 1 for each in plain)
    assert any(name.endswith(".txnindex") for each in SEGMENTS for name in each.files)
    for topic in ("plain", "ledger", "again"):
        [first, *_] = sorted((LOCAL_TIER / "data" / f"{topic}-0").glob("*.log"))
        uploaded = [each.end for each in SEGMENTS if each.topic == topic and each.partition == 0 and topic != "again"]
        assert not uploaded or int(first.stem) == max(uploaded) + 1
    local = LOCAL_TIER / "data" / "kept-0"
    kept = [each for each in SEGMENTS if each.topic == "kept"]
    assert len(kept) > 3
    for each in kept:
        for name in each.files.keys() - {"leader-epoch-checkpoint"}:
            assert each.files[name] == (local / name).read_bytes()


@pytest.mark.parametrize("broker", ["broker-2", "broker-3"])
def test_a_tier_of_several_leaders_is_one_history(broker: str) -> None:
    """Overlapping segments, and some of a leader that lost its records: what each offset gave a consumer."""
    found = decoded(history(MOVED, MOVED_TIER / broker / "moved-0"), "moved")
    assert found == read_answer(MOVED_TIER / "expected.each_offset.parquet")


def test_a_consumer_of_the_whole_saw_lost_records() -> None:
    """Kafka 4.1 sends a remote segment to its end, past the end of its epoch (see PROVENANCE.md)."""
    whole = read_answer(MOVED_TIER / "expected.read_uncommitted.parquet")
    each = read_answer(MOVED_TIER / "expected.each_offset.parquet")
    assert [row[2] for row in whole] == [row[2] for row in each]
    other = [(one[2], one[7]) for one, two in zip(whole, each, strict=True) if one != two]
    lost = [("fate", b"lost")]
    assert {headers[0] for _, headers in other if headers} == set(lost)
    [crossing] = [
        seg
        for seg in MOVED
        if seg.start < other[0][0] <= seg.end and decoder.read_epochs(seg.files["leader-epoch-checkpoint"]) == {0: 0}
    ]
    assert other[-1][0] <= crossing.end


def test_segments_of_the_moved_tier_overlap() -> None:
    """The shapes that tests rely on: two segments of one base offset, partial overlaps, a segment of no history."""
    starts = [each.start for each in MOVED]
    assert len(set(starts)) < len(starts)
    assert any(one.start < two.start <= one.end < two.end for one in MOVED for two in MOVED)
    lineage = decoder.read_epochs((MOVED_TIER / "broker-2" / "moved-0" / "leader-epoch-checkpoint").read_bytes())
    empty = [each for each in MOVED if not decoder.follow_lineage(decoder.records_of(each), lineage)]
    assert empty
