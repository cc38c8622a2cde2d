"""Batches of two copies that one history cannot have, where a read is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError
from tests.support import writer
from tests.support.layouts import write_copies
from tests.support.writer import Rec

CONTRADICTS = "batch that contradicts a batch of another copy at its offsets"
TURNS = pytest.mark.parametrize("turn", [1, -1])


@TURNS
def test_batches_without_records_are_alike(turn: int, tmp_path: Path) -> None:
    """Compaction left them. Nothing but their offsets tells them apart, and they are no batch at two offsets."""
    empty = [writer.record_batch([], base_offset=at, leader_epoch=0, last_offset_delta=1) for at in (11, 16)]
    full = [writer.record_batch([Rec(0, 1000)], base_offset=at, leader_epoch=0) for at in (14, 15, 18)]
    logs = {10: [empty[0], *full], 14: [full[0], empty[1], full[2]]}
    for base, batches in logs.items():
        folder = tmp_path / str(base) / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
    paths = [tmp_path / str(base) for base in logs][::turn]
    assert kafkaseg.scan(paths, ["offset"]).read_all()["offset"].to_pylist() == [14, 15, 18]


@TURNS
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("[10 e0] [13 e0] [14-16 e0] [17-19 e1] [22-24 e1]", "[10-12 e0] [15-18 e1] [19-21 e1]", CONTRADICTS),
        ("[12 e1] [13 e1] [14-16 e1]", "[10-12 e0 !] [13 e0] [16-18 e1]", "no copy holds the offsets 10 to 11 whole"),
        ("[10-12 e1] [15-18 e1]", "[10 e0 !] [11 e0] [12-14 e1]", CONTRADICTS),
    ],
)
def test_batches_of_two_leaders(one: str, other: str, said: str, turn: int, tmp_path: Path) -> None:
    """The stale one follows the batch before it as well. So neither is read, though only one lies behind a gap. Where a
    damaged batch states who wrote it, the plan knows the stale copy."""
    paths = write_copies(tmp_path, {10: one}, {10: other})[::turn]
    with pytest.raises(CorruptRecordError, match=said):
        kafkaseg.scan(paths, ["offset"]).read_all()
