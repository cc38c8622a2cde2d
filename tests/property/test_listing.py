"""`ls` reads the headers of a log alone, or all of its bytes, and says the same of it."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.inspection import header_tables, summary
from kafka_segment_source.storage.files import InputFile
from tests.property.test_pruning import written
from tests.support.logs import GeneratedLog
from tests.support.strategies import partition_logs

LOGS = Path(__file__).parents[2] / "examples" / "data" / "orders" / "data"


@given(log=partition_logs(index_damage=True, log_damage=True, far_future=True), is_small=st.booleans())
def test_headers_alone_say_the_same(log: GeneratedLog, is_small: bool) -> None:
    """For whole and damaged logs, however the batches are judged after a first look."""
    with written(log) as directory:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(InputFile, "descriptor", lambda self: None)
            by_bytes = kafkaseg.list_partitions(directory).to_dict()
        with mock.patch.multiple(header_tables, FIRST_LOOK=2, SMALL_BATCH=10**9 if is_small else 0):
            assert kafkaseg.list_partitions(directory).to_dict() == by_bytes


@given(log=partition_logs(index_damage=True, far_future=True))
def test_both_ends_tell_what_all_headers_do(log: GeneratedLog) -> None:
    """Of large segments: offsets, sizes and the health of the indexes. The number of records is a bound."""
    few_headers = mock.patch.multiple(header_tables, FIRST_LOOK=2, SMALL_BATCH=0)
    with written(log) as directory, few_headers, mock.patch.object(summary, "LARGE_SEGMENT", 0):
        quick, deep = kafkaseg.list_partitions(directory).to_dict(), kafkaseg.list_partitions(directory, deep=True)
    for one, other in zip(quick["partitions"], deep.to_dict()["partitions"], strict=True):
        for few, every in zip([one, *one["segments"]], [other, *other["segments"]], strict=True):
            for key in ("startOffset", "endOffset", "bytes", "indexFiles", "damage"):
                assert few[key] == every[key]
            assert few["records"] >= every["records"]
            assert few["recordsExact"] is False or few == every
            assert set(few["codecs"]) <= set(every["codecs"])
        assert one["missing"] == other["missing"]


def test_a_log_of_a_broker_by_both_ends() -> None:
    """A broker's index files tell the newest timestamp, and only control records are counted too many."""
    few_headers = mock.patch.multiple(header_tables, FIRST_LOOK=2, SMALL_BATCH=0)
    with few_headers, mock.patch.object(summary, "LARGE_SEGMENT", 0):
        quick, deep = kafkaseg.list_partitions(LOGS), kafkaseg.list_partitions(LOGS, deep=True)
    sampled = 0
    for few, every in zip(quick.partitions, deep.partitions, strict=True):
        for one, other in zip(few.segments, every.segments, strict=True):
            assert one.summary.newest == other.summary.newest
            if one.summary.is_sampled:
                sampled += 1
                assert one.summary.records == other.summary.records + other.summary.control_records
    assert sampled > 0
