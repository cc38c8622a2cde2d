"""The workaround for Spark 4.1 to 4.3 with zone maps: a plan for several filters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.bounds import OffsetRange, RowFilter, TimeRange
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.spark.remembered import plan_for_any
from tests.property.test_zone_maps import CELLS, Bounds, Case, GeneratedLog, any_log, bounds, read, wanted


@given(log=any_log, data=st.data(), cell=CELLS)
def test_several_pushed_filters(log: GeneratedLog, data: st.DataObject, cell: int) -> None:
    """A plan for several filters has every row of each, no row twice, and reads no more than without maps."""
    several = data.draw(st.lists(bounds(log), min_size=2, max_size=4))
    pushed = [
        RowFilter(
            offsets=OffsetRange() if each.offsets is None else OffsetRange(*each.offsets),
            times=TimeRange(
                -(2**63) if each.since is None else each.since, 2**63 if each.until is None else each.until
            ),
        )
        for each in several
    ]
    with Case() as case:
        case.write(log)
        case.make_maps(cell)
        options = case.options(Bounds())
        plan = plan_for_any(options, Warnings(), pushed)
        found = read(plan)
        assert found == sorted(set(found), key=lambda row: row[0])
        for each in several:
            assert set(wanted(log, each)) <= set(found)
        assert plan.bytes_saved_by_zone_maps >= 0
        without = plan_for_any(options._replace(bounds=options.bounds._replace(zone_maps=None)), Warnings(), pushed)
        assert plan.bytes_to_read <= without.bytes_to_read
