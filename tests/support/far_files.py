"""Local files that are read as those of a bucket are: several at a time, and of large index files only the ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from kafka_segment_source.logdir import index_entries, segment_view
from kafka_segment_source.storage import store
from kafka_segment_source.storage.store import ReadCost

_AN_END = 24  # bytes: three entries of an offset index, two of a time index


@contextmanager
def far_files(block: int = 0) -> Iterator[None]:
    """Within it, local files are far away. block: as in `ReadCost`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_LOCAL_COST", ReadCost(at_once=2, block=block))
        patch.setattr(index_entries, "_END_BYTES", _AN_END)
        patch.setattr(segment_view, "_WHOLE_INDEX", 0)
        yield


@pytest.fixture(params=["near", "far"])
def distance(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test with files that are near, and with such that are far."""
    with far_files() if request.param == "far" else nullcontext():
        yield
