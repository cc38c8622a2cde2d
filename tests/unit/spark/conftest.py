"""A small log directory for the tests of Spark's edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """orders-0 and payments-1: ten rows each, offsets 0 to 9 at 1000 ms a row, two in a segment."""
    for topic, partition in (("orders", 0), ("payments", 1)):
        segments = [
            simple_segment(
                [data(first, 1000 * first, 1000 * first + 1000)], index=[], timeindex=[(1000 * first + 1000, first + 1)]
            )
            for first in range(0, 10, 2)
        ]
        simple_log(*segments, topic=topic, partition=partition).write(tmp_path / "log")
    return tmp_path / "log"
