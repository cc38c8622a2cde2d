"""view=batches: rows from batch headers, against kafka-dump-log and against the records of the same log."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

import kafka_segment_source as kafkaseg
from tests.conformance.dump_log import DEFAULT_DIRECTORIES, SCHEMA, read_saved
from tests.conformance.our_batches import batches_of, differences
from tests.support.rows import FIXTURES, ORDERS


@pytest.mark.parametrize("check_crcs", [False, True])
def test_every_batch_of_every_fixture_is_as_kafka_dump_log_says(check_crcs: bool) -> None:
    """Field by field, on 4,888 batches of real brokers of three versions; saved by tests/conformance/dump_log.py."""
    theirs = read_saved()
    found = sorted(path for folder in DEFAULT_DIRECTORIES for path in folder.rglob("*.log"))
    logs = [path for path in found if "tiered" not in path.parts]  # its objects have other names, or are encrypted
    said = {Path(name) for name in theirs["file"].to_pylist()}
    logs = [path for path in logs if "compacted-replicas" not in path.parts]  # kafka-dump-log was not asked about it
    silent = [path for path in logs if path not in said and any(path.read_bytes())]
    assert not silent, "run python -m tests.conformance.dump_log --out tests/fixtures/dump_log.parquet"
    assert differences(theirs, batches_of(logs, SCHEMA, check_crcs)) == []


def test_counts_and_timestamps_are_those_of_the_records() -> None:
    """Of batches without compaction: as many records as `count`, the first one's timestamp, and the largest."""
    path = FIXTURES / "codecs" / "data"
    records = kafkaseg.scan(path, includeMetadata=True).read_all()
    base = pc.struct_field(records["metadata"], "baseOffset")
    keys = ["topic", "partition", "baseOffset"]
    grouped = (
        records.append_column("baseOffset", base)
        .group_by(keys, use_threads=False)
        .aggregate([("offset", "count"), ("timestamp", "first"), ("timestamp", "max")])
    )
    expected = {tuple(row[key] for key in keys): row for row in grouped.to_pylist()}
    batches = kafkaseg.scan(path, view="batches", includeControl=False).read_all().to_pylist()
    assert len(batches) == len(expected) > 300
    for batch in batches:
        row = expected[tuple(batch[key] for key in keys)]
        assert (batch["count"], batch["baseTimestamp"], batch["maxTimestamp"]) == (
            row["offset_count"],
            row["timestamp_first"],
            row["timestamp_max"],
        )


def test_columns_are_chosen_as_for_records() -> None:
    """Any subset, in any order, and none at all: only the number of rows counts then."""
    path = FIXTURES / "transactions" / "data"
    whole = kafkaseg.scan(path, view="batches").read_all()
    some = kafkaseg.scan(path, columns=["crc", "topic"], view="batches").read_all()
    assert some.equals(whole.select(["crc", "topic"]))
    assert kafkaseg.scan(path, columns=[], view="batches").read_all().num_rows == whole.num_rows
    assert pc.any(whole["isControl"]).as_py()
    without = kafkaseg.scan(path, view="batches", includeControl=False).read_all()
    assert without.equals(whole.filter(pc.invert(whole["isControl"])))


def test_committed_batches_are_those_with_committed_records() -> None:
    """isolationLevel=read_committed leaves out the batches whose rows it leaves out."""
    path = FIXTURES / "transactions" / "data"
    options = {"isolationLevel": "read_committed"}
    records = kafkaseg.scan(path, includeMetadata=True, **options).read_all()  # type: ignore[arg-type]
    places = {(row["file_path"], row["position"]) for row in records["metadata"].to_pylist()}
    batches = kafkaseg.scan(path, view="batches", includeControl=False, **options).read_all()  # type: ignore[arg-type]
    assert {(row["file_path"], row["position"]) for row in batches.to_pylist()} == places
    assert batches.num_rows == len(places) < kafkaseg.scan(path, view="batches").read_all().num_rows


def test_segments_share_a_task_where_headers_alone_are_read() -> None:
    """Those of one partition; not with packBytes=0 or a number of Spark partitions, and not where bytes are read."""
    path = ORDERS / "data"

    def count(**options: str | int | bool) -> int:
        return len(kafkaseg.plan(path, view="batches", **options).tasks)  # type: ignore[arg-type]

    assert count() == 4
    assert count(packBytes=0) == count(minPartitions=24) == count(checkCrcs=True) == 24
    assert count(isolationLevel="read_committed") == len(kafkaseg.plan(path).tasks) == 24
