"""`ls` reads the headers of a log alone, or all of its bytes, and says the same of it."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.inspection import header_tables
from kafka_segment_source.storage.files import InputFile
from tests.property.test_pruning import written
from tests.support.logs import GeneratedLog
from tests.support.strategies import partition_logs


@given(log=partition_logs(index_damage=True, log_damage=True, far_future=True), is_small=st.booleans())
def test_headers_alone_say_the_same(log: GeneratedLog, is_small: bool) -> None:
    """For whole and damaged logs, however the batches are judged after a first look."""
    with written(log) as directory:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(InputFile, "descriptor", lambda self: None)
            by_bytes = kafkaseg.list_partitions(directory).to_dict()
        with mock.patch.multiple(header_tables, FIRST_LOOK=2, SMALL_BATCH=10**9 if is_small else 0):
            assert kafkaseg.list_partitions(directory).to_dict() == by_bytes
