"""A broker changes the files of one partition while the copies of another one are merged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.kafka_format import segment_file
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition import chain, logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.storage import retrying
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment

PARTITIONS = 3
FIRST = 1000  # the offset of the first record
ROWS = 2 * PARTITIONS
BeforeMerge = Callable[[int], None]
"""Is called with the number of the partition that is merged next."""


def write_replicas(root: Path) -> list[str]:
    for replica in ("a", "b"):
        for partition in range(PARTITIONS):
            simple_log(simple_segment([data(FIRST, 5, 5)]), partition=partition).write(root / replica)
    return [str(root / replica) for replica in ("a", "b")]


def change_name(directory: Path) -> None:
    """Renames the segment of a partition, so that the listed one is gone: as if it were merged into one before it."""
    (segment,) = directory.glob("*.log")
    segment.rename(directory / segment_file(int(segment.stem) - 1))


def call_before_merges(before_merge: BeforeMerge, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of each partition that is merged."""
    merge, merged = chain._merge_copies, []

    def merge_changing(copies: list[PartitionLog], *others: object) -> PartitionLog:
        before_merge(copies[0].partition)
        merged.append(copies[0].partition)
        return merge(copies, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(chain, "_merge_copies", merge_changing)
    monkeypatch.setattr(retrying, "wait", lambda seconds: None)
    return merged


def test_a_partition_whose_files_change_is_listed_again_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_replicas(tmp_path)

    def change_next(partition: int) -> None:
        if partition + 1 < PARTITIONS:
            change_name(tmp_path / "a" / f"orders-{partition + 1}")

    merged = call_before_merges(change_next, monkeypatch)
    assert kafkaseg.scan(paths, ["offset"]).read_all().num_rows == ROWS
    assert merged == [0, 1, 1, 2, 2]


def test_a_copy_that_is_given_up_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_replicas(tmp_path)
    given_up = tmp_path / "a" / "orders-1"
    call_before_merges(lambda partition: shutil.rmtree(given_up, ignore_errors=True), monkeypatch)
    assert kafkaseg.scan(paths, ["offset"]).read_all().num_rows == ROWS


def test_a_partition_that_never_holds_still_ends_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_replicas(tmp_path)
    merged = call_before_merges(lambda partition: change_name(tmp_path / "b" / "orders-1"), monkeypatch)
    options, _ = parse_options({"path": json.dumps(paths)})
    with pytest.raises(FileChangedError, match="is gone now"):
        logs.settled_logs(options.source, options.policy, Warnings())
    assert merged.count(1) == 5 * 20
    assert merged.count(0) == 20
