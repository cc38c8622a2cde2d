"""Batches of two copies that one history cannot have, where a read is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError
from tests.support.layouts import write_copies

TURNS = pytest.mark.parametrize("turn", [1, -1])


@TURNS
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[10 e0] [13 e0] [14-16 e0] [17-19 e1] [22-24 e1]", "[10-12 e0] [15-18 e1] [19-21 e1]"),
        ("[12 e1] [13 e1] [14-16 e1]", "[10-12 e0 !] [13 e0] [16-18 e1]"),
        ("[10-12 e1] [15-18 e1]", "[10 e0 !] [11 e0] [12-14 e1]"),
    ],
)
def test_batches_of_two_leaders(one: str, other: str, turn: int, tmp_path: Path) -> None:
    """The stale one follows the batch before it as well. So neither is read, though only one lies behind a gap."""
    paths = write_copies(tmp_path, {10: one}, {10: other})[::turn]
    with pytest.raises(CorruptRecordError, match="batch that contradicts a batch of another copy at its offsets"):
        kafkaseg.scan(paths, ["offset"]).read_all()
