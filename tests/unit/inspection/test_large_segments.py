"""`ls` of a large segment: both ends and the index files tell what all headers do, or all headers are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.inspection import header_tables, summary
from kafka_segment_source.inspection.contents import ListedPartition
from tests.cli.runner import run
from tests.support.batches import control
from tests.support.batches import data as batch
from tests.support.logs import Segment, simple_log, simple_segment

NEWEST_BETWEEN = [batch(0, 10), batch(1, 20), batch(2, 900), batch(3, 30), batch(4, 40)]
GAP_BETWEEN = [batch(0, 10), batch(1, 20), batch(3, 30), batch(4, 40), batch(5, 50)]


@pytest.fixture(autouse=True)
def _every_segment_is_large() -> Iterator[None]:
    few_headers = mock.patch.multiple(header_tables, FIRST_LOOK=1, SMALL_BATCH=0)
    with few_headers, mock.patch.object(summary, "LARGE_SEGMENT", 0):
        yield


def listed(directory: Path, *segments: Segment, deep: bool = False) -> ListedPartition:
    folder = simple_log(*segments).write(directory)
    [partition] = kafkaseg.list_partitions(folder, deep=deep).partitions
    return partition


def test_the_newest_timestamp_lies_between_both_ends(tmp_path: Path) -> None:
    made = simple_segment(NEWEST_BETWEEN, index=[(2, 2), (4, 4)], timeindex=[(20, 1), (900, 2)])
    found = listed(tmp_path, made).summary
    assert (found.is_sampled, found.newest, found.records, found.batches) == (True, 900, 5, 2)
    assert not listed(tmp_path / "deep", made, deep=True).summary.is_sampled


def test_what_offsets_count_too_many(tmp_path: Path) -> None:
    """A control record has an offset, and compaction leaves offsets out."""
    batches = [batch(0, 10), control(1, 20), batch(4, 30), batch(5, 40)]
    found = listed(tmp_path, simple_segment(batches, index=[(5, 3)], timeindex=[(40, 5)])).summary
    assert (found.records, found.records_exact, found.control_records) == (6, False, 0)


@pytest.mark.parametrize(
    ("index", "timeindex"),
    [
        (None, [(40, 4)]),
        ([(4, 4)], None),
        ([], [(40, 4)]),
        ([(4, 4)], []),
        ([(4, 4), (3, 3)], [(40, 4)]),  # not in order
        ([(4, 4)], [(900, 3), (40, 4)]),
        ([(2, 0)], [(40, 4)]),  # leads to what was read already
    ],
)
def test_index_files_that_do_not_tell_enough(
    index: list[tuple[int, int]] | None, timeindex: list[tuple[int, int]] | None, tmp_path: Path
) -> None:
    found = listed(tmp_path, simple_segment(NEWEST_BETWEEN, index=index, timeindex=timeindex)).summary
    assert (found.is_sampled, found.newest, found.records, found.batches) == (False, 900, 5, 5)


def test_an_index_entry_that_leads_into_a_batch(tmp_path: Path) -> None:
    made = simple_segment(NEWEST_BETWEEN, index=[(4, 4)], timeindex=[(900, 2)])
    assert made.index is not None
    folder = simple_log(made).write(tmp_path)
    position = int.from_bytes(made.index[-4:], "big") - 7
    (folder / "00000000000000000000.index").write_bytes(made.index[:-4] + position.to_bytes(4, "big"))
    [partition] = kafkaseg.list_partitions(folder).partitions
    assert (partition.summary.is_sampled, partition.summary.faults, partition.summary.batches) == (False, (), 5)


def test_a_gap_among_batches_between_both_ends_explains_a_missing_segment(tmp_path: Path) -> None:
    """All headers are read for it: where compaction left offsets out, it may have emptied a segment too."""
    following = simple_segment([batch(10, 100)], base=10)
    compacted = simple_segment(GAP_BETWEEN, index=[(5, 4)], timeindex=[(50, 5)])
    whole = simple_segment(NEWEST_BETWEEN, index=[(4, 4)], timeindex=[(900, 2)])
    for number, (first, harmless) in enumerate([(compacted, "if compaction removed them"), (whole, None)]):
        partition = listed(tmp_path / str(number), first, following)
        assert partition.summary.is_sampled
        assert [(missing.offsets.end, missing.harmless) for missing in partition.missing] == [(10, harmless)]


def test_a_table_says_what_is_counted(tmp_path: Path) -> None:
    made = simple_segment(NEWEST_BETWEEN, index=[(4, 4)], timeindex=[(900, 2)])
    folder = simple_log(made).write(tmp_path)
    said = run("ls", folder).stdout
    assert "≤ 5 records" in said and "counted by their offsets; --deep reads each header" in said
    deep = run("ls", "--deep", folder).stdout
    assert "≤ 5" not in deep and "--deep" not in deep
