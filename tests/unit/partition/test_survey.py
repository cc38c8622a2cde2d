"""What a survey of a segment shows of its gaps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.choice import DAMAGED, VOID
from kafka_segment_source.partition.logs import available_copies
from tests.support.layouts import mark, write_copies


@pytest.mark.parametrize(("moved", "holding"), [("[2-3 e0]", DAMAGED), ("", VOID)], ids=["elsewhere", "nowhere"])
def test_a_gap_of_a_compacted_log(moved: str, holding: int, tmp_path: Path) -> None:
    """Compaction may have made it, unless a batch of these offsets lies elsewhere in the file."""
    paths = write_copies(tmp_path, {0: f"[0-1 e0] [4-5 e0] [6-7 e0] {moved}", 8: "[8-9 e0]"}, {0: "[0-3 e0]"})
    mark(paths[0])
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    extents = copy.survey(copy.log.segments[0]).extents()
    assert [extent.holding for extent in extents if extent.offsets == OffsetRange(2, 4)] == [holding]
