"""What a survey of a segment shows of its gaps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.choice import DAMAGED, UNKNOWN, VOID
from kafka_segment_source.partition.logs import available_copies
from kafka_segment_source.partition.survey import survey
from tests.support import writer
from tests.support.layouts import encode_batches, mark, write_bytes, write_copies
from tests.unit.partition.test_batches_elsewhere import messages


@pytest.mark.parametrize(("moved", "holding"), [("[2-3 e0]", DAMAGED), ("", VOID)], ids=["elsewhere", "nowhere"])
def test_a_gap_of_a_compacted_log(moved: str, holding: int, tmp_path: Path) -> None:
    """Compaction may have made it, unless a batch of these offsets lies elsewhere in the file."""
    paths = write_copies(tmp_path, {0: f"[0-1 e0] [4-5 e0] [6-7 e0] {moved}", 8: "[8-9 e0]"}, {0: "[0-3 e0]"})
    mark(paths[0])
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    extents = copy.survey(copy.log.segments[0]).extents()
    assert [extent.holding for extent in extents if extent.offsets == OffsetRange(2, 4)] == [holding]


@pytest.mark.parametrize("is_from_first", [True, False])
def test_the_end_of_a_file_that_begins_with_an_old_format(is_from_first: bool, tmp_path: Path) -> None:
    """Compaction of magic 0 and 1 leaves the same gaps as a file that is gone. So it is where a read begins behind
    them, by the index."""
    old = messages((0,), (1,))
    file = old + encode_batches("[2-3 e0] [4-5 e0]")
    paths = write_bytes(tmp_path, {0: file, 8: encode_batches("[8-9 e0]")}, {0: file})
    entry = (3).to_bytes(4) + len(old).to_bytes(4)
    Path(paths[0], "t-0", writer.segment_name(0)).with_suffix(".index").write_bytes(entry)
    options, _ = parse_options({"path": json.dumps(paths)})
    copy = available_copies(options.source, options.policy)[0]
    wanted = OffsetRange(0 if is_from_first else 4, 8)
    surveyed = survey(copy.log, copy.log.segments[0], wanted, options.policy, start_offset=wanted.start)
    extents = list(surveyed.extents())
    assert (extents[-1].offsets, extents[-1].holding) == (OffsetRange(6, 8), UNKNOWN)
    assert (surveyed.batches.shape[1] < 4) == (not is_from_first)
