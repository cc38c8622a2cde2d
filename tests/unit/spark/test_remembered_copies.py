"""The workaround for Spark 4.1 to 4.3 over several copies of a partition: one plan serves several filters."""

from __future__ import annotations

from pathlib import Path

from kafka_segment_source.bounds import EVERY_ROW, OffsetRange, RowFilter
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.scanning import read_split
from kafka_segment_source.spark.remembered import plan_for_any
from tests.support.small_logs import pl, put
from tests.unit.partition.test_chain import copy


def test_several_filters_over_overlapping_copies(tmp_path: Path) -> None:
    """A plan that serves several scans has its splits in offset order, although bases of copies interleave."""
    paths = [copy(tmp_path / "a", (0, 10), (10, 15), (15, 20)), copy(tmp_path / "b", (10, 25), (25, 35))]
    options, _ = parse_options(option_texts([str(path) for path in paths], {}))
    filters = [RowFilter(offsets=OffsetRange(12, 14)), RowFilter(offsets=OffsetRange(21, 40)), EVERY_ROW]
    plan = plan_for_any(options, Warnings(), filters)
    assert [split.start_offset for split in plan.splits] == [0, 10, 15, 20, 25]
    assert plan.dropped == () and len(plan.warnings) == 1


def test_one_segment_in_two_places_of_the_chain(tmp_path: Path) -> None:
    """A segment that is read before and after another copy's: a plan for several filters reads each offset once."""
    a, b = tmp_path / "a", tmp_path / "b"
    put(a, 10, pl(10, 5), pl(15, 5))
    put(b, 0, pl(0, 5, keep=[0]), pl(5, 5), pl(10, 5, keep=[2]), pl(15, 5), pl(20, 5, keep=[3]), pl(25, 5))
    put(b, 30, pl(30, 5))
    wanted = [0, *range(5, 20), 23, *range(25, 35)]
    parsed, _ = parse_options(option_texts([str(a), str(b)], {}))
    filters = [RowFilter(offsets=OffsetRange(2, 23)), RowFilter(offsets=OffsetRange(7, 24))]
    plan = plan_for_any(parsed, Warnings(), filters)
    schema = RECORDS.arrow_schema(("offset",))
    found = [
        each for split in plan.splits for rows in read_split(split, plan.reading, schema) for each in rows["offset"]
    ]
    assert [each.as_py() for each in found] == [offset for offset in wanted if 2 <= offset < 24]
    assert plan.segments_total == 3 and plan.segments_kept == 2
