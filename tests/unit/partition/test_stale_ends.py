"""A follower that a later leader has left behind, whose last segment has no sound batch: its history is compared all
the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from tests.support import writer
from tests.support.writer import Rec

LEADER = [(0, 1, 0), (8, 9, 1), (10, 11, 1)]  # first offset, last one, leader epoch; the rest was compacted
FOLLOWER = [(0, 1, 0), (2, 3, 0), (4, 5, 0)]  # from 2 on, another leader wrote other records


def make_batch(first: int, last: int, epoch: int, who: str) -> bytes:
    recs = [Rec(at, 1000 + at, b"k%d" % at, f"{who}{at}".encode()) for at in range(last - first + 1)]
    return writer.record_batch(recs, base_offset=first, leader_epoch=epoch)


def write_replica(root: Path, segments: dict[int, bytes], epochs: list[tuple[int, int]]) -> Path:
    folder = root / "t-0"
    folder.mkdir(parents=True)
    for base, data in segments.items():
        (folder / writer.segment_name(base)).write_bytes(data)
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    return root


@pytest.mark.parametrize("end", ["none", "empty", "doubled", "torn"])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_stale_follower(end: str, turn: int, tmp_path: Path) -> None:
    """A segment that was just rolled is empty; a copy by hand may have one under two names."""
    common = make_batch(0, 1, 0, "both")
    leader = common + b"".join(make_batch(*each, "leader") for each in LEADER[1:])
    follower = common + b"".join(make_batch(*each, "stale") for each in FOLLOWER[1:])
    last = {"none": {}, "empty": {6: b""}, "doubled": {6: follower}, "torn": {6: b"\0\0\0\0\0\0\0\6\0\0"}}[end]
    a = write_replica(tmp_path / "A", {0: leader}, [(0, 0), (1, 2)])
    b = write_replica(tmp_path / "B", {0: follower, **last}, [(0, 0)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    paths = [a, b][::turn]
    values = kafkaseg.scan(paths, ["value"]).read_all()["value"].to_pylist()
    led = [f"leader{at - first}" for first, last_offset, _ in LEADER[1:] for at in range(first, last_offset + 1)]
    assert values == [value.encode() for value in ["both0", "both1", *led]]
    stated = "hold different histories of partition t-0 from offset 2 on"
    assert any(stated in warning for warning in kafkaseg.plan(paths).warnings)
