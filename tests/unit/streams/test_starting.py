"""Where a new stream begins in one partition."""

from __future__ import annotations

import pytest

from kafka_segment_source.errors import DataLossError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import EARLIEST, LATEST, OffsetLimit
from kafka_segment_source.streams.starting import find_beginning
from tests.unit.streams.parts import T0, said, span_of

SPAN = span_of(T0, start=5, end=20, files_end=25)  # a transaction withholds the offsets from 20 on


def never(log: PartitionLog) -> int:
    raise AssertionError("it must not look for a time")


@pytest.mark.parametrize(("number", "expected"), [(EARLIEST, 5), (LATEST, 20), (5, 5), (7, 7), (22, 22), (25, 25)])
def test_offsets(number: int, expected: int) -> None:
    """The latest is what can be read now. An offset may lie behind that, up to the end of the files."""
    for limit in (OffsetLimit("startingOffsets", number), OffsetLimit("startingOffsets", by_partition={T0: number})):
        assert find_beginning(SPAN, limit, never, said()) == expected


@pytest.mark.parametrize(("number", "expected"), [(4, 5), (26, 25)])
def test_offsets_that_the_files_do_not_hold(number: int, expected: int) -> None:
    """They are a loss: an error, or the nearest that is there."""
    limit = OffsetLimit("startingOffsets", number)
    with pytest.raises(
        DataLossError, match=f"asks for offset {number} of partition t-0, but the files hold .* 5 to 24"
    ):
        find_beginning(SPAN, limit, never, said())
    assert find_beginning(SPAN, limit, never, said(fail_on_data_loss=False)) == expected


@pytest.mark.parametrize(("offset", "expected"), [(-1, 5), (3, 5), (9, 9), (24, 24), (30, 25)])
def test_times(offset: int, expected: int) -> None:
    """The offset of a time is brought into the files."""
    limit = OffsetLimit("startingTimestamp", 1000, by_time=True)
    assert find_beginning(SPAN, limit, lambda log: offset, said()) == expected
