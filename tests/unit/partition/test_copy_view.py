"""What one copy says of its segments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import available_copies
from tests.support.layouts import write_copies


@pytest.mark.parametrize(
    ("text", "end"),
    [("[0-4 e0] [5-9 e0]", 10), ("[0-4 e0] [5-9 e0 !] [10-14 e0]", 15), ("[0-4 e0] [5-9 e0 !]", None)],
)
def test_the_end_of_a_segment_with_damage(text: str, end: int | None, tmp_path: Path) -> None:
    """It is that of its last batch, unless damage lies behind that."""
    paths = write_copies(tmp_path, {0: text, 20: "[20-22 e0]"}, {0: "[0-19 e0]"})
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    assert copy.end_of(copy.log.segments[0]) == end
