"""How many Spark partitions a read has, and how large they are: what docs/reading.md and docs/operating.md promise.

`minPartitions` and `maxRecordsPerPartition` cut segments. `packBytes` and the limit of 256 put small ones together.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.streams.stream import LogStream
from tests.support.batches import BatchSpec, data
from tests.support.logs import Segment, simple_log, simple_segment

MIB = 2**20


def batches_of(first: int, count: int, records: int = 1) -> list[BatchSpec]:
    """`count` batches of `records` records each, all of about one size."""
    return [data(base, *[5] * records, payload=200) for base in range(first, first + count * records, records)]


def segments_of(*counts: int, records: int = 1) -> list[Segment]:
    """Segments with these numbers of batches, and an index entry for every batch, as a broker has for large ones."""
    found, first = [], 0
    for count in counts:
        index = [(first + number * records, number) for number in range(1, count)]
        found.append(simple_segment(batches_of(first, count, records), index=index))
        first += count * records
    return found


def sizes(plan: ReadPlan) -> list[int]:
    """Bytes of each Spark partition."""
    return [sum(split.size for split in task) for task in plan.tasks]


def offsets(path: Path, **options: Any) -> list[int]:
    found: list[int] = kafkaseg.scan(path, ["offset"], **options).read_all()["offset"].to_pylist()
    return found


# ---- one a segment ----


def test_one_spark_partition_a_segment(tmp_path: Path) -> None:
    """Without an option each segment is one Spark partition, as it is."""
    segments = segments_of(25, 3, 40)
    plan = kafkaseg.plan(simple_log(*segments).write(tmp_path))

    assert sizes(plan) == [len(segment.log) for segment in segments]


# ---- minPartitions ----


@pytest.mark.parametrize("wanted", [1, 3, 4, 5, 6, 7, 8, 11, 40, 60])
def test_min_partitions_is_the_number_of_spark_partitions(wanted: int, tmp_path: Path) -> None:
    """Four segments of 25 batches: four Spark partitions where fewer are wanted, otherwise the wanted number."""
    path = simple_log(*segments_of(25, 25, 25, 25)).write(tmp_path)

    assert len(kafkaseg.plan(path, minPartitions=wanted).tasks) == max(4, wanted)
    assert offsets(path, minPartitions=wanted) == list(range(100))


@pytest.mark.parametrize("wanted", [4, 9, 20])
def test_min_partitions_splits_the_large_segments(wanted: int, tmp_path: Path) -> None:
    """Small segments stay whole, and the pieces of the large one are of one size, up to a batch."""
    large, *small = segments = segments_of(200, 2, 2)
    batch = len(large.batches[-1].data)
    plan = kafkaseg.plan(simple_log(*segments).write(tmp_path), minPartitions=wanted)

    pieces = sizes(plan)
    assert len(pieces) == wanted and sum(pieces) == sum(len(segment.log) for segment in segments)
    assert pieces[-2:] == [len(segment.log) for segment in small]
    assert max(pieces[:-2]) - min(pieces[:-2]) <= 2 * batch


def test_min_partitions_cuts_between_batches(tmp_path: Path) -> None:
    """Where a segment has fewer batches than pieces are wanted, each batch is one."""
    (segment,) = segments_of(6)
    plan = kafkaseg.plan(simple_log(segment).write(tmp_path), minPartitions=100)

    assert sizes(plan) == [len(batch.data) for batch in segment.batches]


def test_min_partitions_without_an_index(tmp_path: Path) -> None:
    """Batches are found by their headers where no index leads to them."""
    path = simple_log(simple_segment(batches_of(0, 100))).write(tmp_path)

    assert len(kafkaseg.plan(path, minPartitions=10).tasks) == 10


@pytest.mark.parametrize("magic", [0, 1])
def test_min_partitions_cuts_compressed_message_sets(magic: Any, tmp_path: Path) -> None:
    """A wrapper tells its last offset only, so it is cut after it, and each of its rows is in one piece."""
    sets = [data(base, 5, 5, 5, 5, magic=magic, codec="gzip", payload=100) for base in range(0, 80, 4)]
    path = simple_log(simple_segment(sets)).write(tmp_path)

    for wanted in (2, 5, 10):
        assert len(kafkaseg.plan(path, minPartitions=wanted).tasks) == wanted
        assert offsets(path, minPartitions=wanted) == list(range(80))


# ---- maxRecordsPerPartition ----


@pytest.mark.parametrize(("most", "wanted"), [(1, 240), (7, 35), (10, 24), (100, 3), (120, 2), (239, 2), (240, 1)])
@pytest.mark.parametrize("records", [1, 6])
def test_no_spark_partition_has_more_records(most: int, wanted: int, records: int, tmp_path: Path) -> None:
    """240 records in batches of one or of six. A cut inside a batch is made by offset; those between cost
    up to a batch."""
    path = simple_log(*segments_of(240 // records, records=records)).write(tmp_path)
    plan = kafkaseg.plan(path, maxRecordsPerPartition=most)

    spans = [(task[0].start_offset, task[-1].end_offset or 240) for task in plan.tasks]
    held = [offsets(path, **between(first, end)) for first, end in spans]
    assert [offset for part in held for offset in part] == list(range(240))
    assert max(len(part) for part in held) <= most
    assert len(held) == wanted if records == 1 else wanted <= len(held) <= 2 * wanted


def between(first: int, end: int) -> dict[str, str]:
    """Options that read just these offsets of orders-0."""
    return {"startingOffsets": f'{{"orders":{{"0":{first}}}}}', "endingOffsets": f'{{"orders":{{"0":{end}}}}}'}


def test_max_records_leaves_small_segments_whole(tmp_path: Path) -> None:
    """Only a segment with more records is split."""
    segments = segments_of(30, 5, 10)
    plan = kafkaseg.plan(simple_log(*segments).write(tmp_path), maxRecordsPerPartition=10)

    assert len(plan.tasks) == 5
    assert sizes(plan)[-2:] == [len(segment.log) for segment in segments[1:]]


def test_both_limits_hold_together(tmp_path: Path) -> None:
    """At least minPartitions Spark partitions, none with more than maxRecordsPerPartition records."""
    path = simple_log(*segments_of(100)).write(tmp_path)

    assert len(kafkaseg.plan(path, maxRecordsPerPartition=25).tasks) == 4
    assert len(kafkaseg.plan(path, maxRecordsPerPartition=25, minPartitions=10).tasks) == 10
    assert len(kafkaseg.plan(path, maxRecordsPerPartition=5, minPartitions=10).tasks) == 20


# ---- packBytes, and the limit of 256 ----


def many(folder: Path, count: int, partition: int = 0) -> Path:
    """A partition of `count` segments of one batch, all of one size."""
    segments = [simple_segment([data(base, 5, base=base, payload=200)]) for base in range(10, 10 + count)]
    return simple_log(*segments, partition=partition).write(folder)


def same_size(path: Path, size: int) -> None:
    """Fills every segment up with a hole, so that it has that size and takes no room; a plan opens none of them."""
    for log in path.glob("*.log"):
        os.truncate(log, size)


def test_256_spark_partitions_are_not_put_together(tmp_path: Path) -> None:
    """docs/operating.md: small neighbours share one only when there would be more than 256."""
    assert len(kafkaseg.plan(many(tmp_path / "at", 256)).tasks) == 256
    assert len(kafkaseg.plan(many(tmp_path / "above", 257)).tasks) == 1


def test_pack_bytes_is_the_size_of_a_spark_partition(tmp_path: Path) -> None:
    """Of 300 segments, neighbours share a Spark partition while they fit, and no longer."""
    path = many(tmp_path, 300)
    same_size(path, 1000)

    assert sizes(kafkaseg.plan(path, packBytes=10_000)) == [10_000] * 30
    assert sizes(kafkaseg.plan(path, packBytes=10_999)) == [10_000] * 30
    assert sizes(kafkaseg.plan(path, packBytes=7_000)) == [7_000] * 42 + [6_000]
    assert sizes(kafkaseg.plan(path, packBytes=999)) == sizes(kafkaseg.plan(path, packBytes=0)) == [1000] * 300


def test_spark_partitions_have_up_to_64_mib(tmp_path: Path) -> None:
    """The default of packBytes."""
    path = many(tmp_path, 300)
    same_size(path, MIB)

    assert sizes(kafkaseg.plan(path)) == [64 * MIB] * 4 + [44 * MIB]


def test_a_large_segment_shares_with_none(tmp_path: Path) -> None:
    """One that is larger than packBytes is a Spark partition of its own; neighbours on both sides share theirs."""
    path = many(tmp_path, 300)
    same_size(path, 1000)
    os.truncate(sorted(path.glob("*.log"))[100], 50_000)

    assert sizes(kafkaseg.plan(path, packBytes=40_000)) == [40_000] * 2 + [20_000, 50_000] + [40_000] * 4 + [39_000]


def test_partitions_of_a_topic_do_not_share(tmp_path: Path) -> None:
    """Each topic-partition has its own Spark partitions, however small it is."""
    for partition in range(3):
        many(tmp_path, 100, partition)

    tasks = kafkaseg.plan(tmp_path).tasks
    assert [{split.partition for split in task} for task in tasks] == [{0}, {1}, {2}]
    assert [len(task) for task in tasks] == [100] * 3


@pytest.mark.parametrize("options", [{"minPartitions": 300}, {"maxRecordsPerPartition": 1000}])
def test_what_was_asked_for_is_not_put_together(options: dict[str, int], tmp_path: Path) -> None:
    """Who gives a number of partitions or of records has more Spark partitions than 256."""
    assert len(kafkaseg.plan(many(tmp_path, 300), **options).tasks) == 300


# ---- micro-batches of a stream ----


def micro_batch(path: Path, ends: dict[int, int], **options: Any) -> ReadPlan:
    """All offsets of the topic's partitions, as one micro-batch. ends: of each partition."""
    parsed, _ = parse_options({"path": str(path), **{name: str(each) for name, each in options.items()}}, True)
    wanted = {("orders", partition): end for partition, end in ends.items()}
    return LogStream(parsed).plan(dict.fromkeys(wanted, 10), wanted)


def test_small_segments_of_a_micro_batch_share_a_spark_partition(tmp_path: Path) -> None:
    """Each Spark partition is a file in the sink: one for each topic-partition, however few segments there are."""
    ends = {partition: 10 + segments for partition, segments in enumerate((2, 20, 300))}
    for partition, end in ends.items():
        many(tmp_path, end - 10, partition)
    plan = micro_batch(tmp_path, ends)

    assert [[(split.partition, split.base_offset) for split in task] for task in plan.tasks] == [
        [(partition, base) for base in range(10, end)] for partition, end in ends.items()
    ]
    assert len(micro_batch(tmp_path, ends, packBytes=0).tasks) == 322
    assert len(micro_batch(tmp_path, ends, minPartitions=5).tasks) == 322
    assert len(kafkaseg.plan(tmp_path, assign='{"orders":[1]}').tasks) == 20


def test_large_segments_of_a_micro_batch_do_not_share(tmp_path: Path) -> None:
    """A stream that catches up still reads segments beside each other."""
    path = many(tmp_path, 6)
    for log, size in zip(sorted(path.glob("*.log")), (40, 30, 20, 100, 64, 1), strict=True):
        with log.open("r+b") as file:
            file.truncate(size * MIB)  # a hole: only its size counts

    plan = micro_batch(tmp_path, {0: 16})
    assert [[split.base_offset for split in task] for task in plan.tasks] == [[10], [11, 12], [13], [14], [15]]
