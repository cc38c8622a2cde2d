"""A file that was restored into the directory of another partition, or of a copy that is no longer stale."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import PathError
from tests.support import writer
from tests.support.layouts import offsets, write_copies
from tests.support.writer import Rec

SEGMENTS = {0: {0: [(0, 2), (3, 4)], 5: [(5, 9)]}, 1: {0: [(0, 1), (2, 3), (4, 4)], 5: [(5, 9)]}}
"""The batches of each segment, by partition and base offset."""


def make_batch(partition: int, first: int, last: int) -> bytes:
    recs = [Rec(at, 1000 + at, b"k%d" % at, b"%d-%d" % (partition, first + at)) for at in range(last - first + 1)]
    return writer.record_batch(recs, base_offset=first, leader_epoch=3)


def write_broker(root: Path) -> Path:
    for partition, segments in SEGMENTS.items():
        folder = root / f"t-{partition}"
        folder.mkdir(parents=True)
        for base, batches in segments.items():
            data = b"".join(make_batch(partition, *batch) for batch in batches)
            (folder / writer.segment_name(base)).write_bytes(data)
    return root


def read(paths: list[Path], partition: int) -> list[bytes]:
    return kafkaseg.scan(paths, ["value"], assign={"t": [partition]}).read_all()["value"].to_pylist()


@pytest.mark.parametrize("turn", [1, -1])
def test_two_swapped_files(turn: int, tmp_path: Path) -> None:
    """The other copy has other records of the same leader epoch at these offsets: nothing says which ones count."""
    brokers = [write_broker(tmp_path / name) for name in ("A", "B")][::turn]
    one, other = (tmp_path / "A" / f"t-{partition}" / writer.segment_name(0) for partition in (0, 1))
    for partition in (0, 1):
        assert read(brokers, partition) == [b"%d-%d" % (partition, offset) for offset in range(10)]
    one.rename(tmp_path / "kept")
    other.rename(one)
    (tmp_path / "kept").rename(other)
    for partition in (0, 1):
        with pytest.raises(PathError, match=f"hold different batches at offset 0 of partition t-{partition}, "):
            read(brokers, partition)
        assert read([tmp_path / "B"], partition) == [b"%d-%d" % (partition, offset) for offset in range(10)]


# --- a stale copy that got the later files of another one ------------------------------------------------------------

SOUND = {10: "[10-13 e0] [14-15 e2] [16-18 e2]", 19: "[19-21 e2]"}
APART = {10: "[10-13 e0]", 14: "[14-15 e2] [16-18 e2]", 19: "[19-21 e2]"}
STALE = {10: "[10-13 e0] [14-15 e1] [16-18 e1]", 19: "[19-21 e2]"}
STALE_APART = {10: "[10-13 e0]", 14: "[14-15 e1] [16-18 e1]", 19: "[19-21 e2]"}
OTHER_ENDS = {10: "[10-13 e0] [14 e0] [15-17 e1]", 19: "[19-21 e2]"}
NOTED = "0 10, 2 14"


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    ("sound", "stale", "epochs"),
    [
        (APART, STALE_APART, ["", ""]),
        (APART, STALE, ["", NOTED]),
        (SOUND, STALE_APART, ["", NOTED]),
        (SOUND, STALE, [NOTED, "0 10, 1 14"]),
        (SOUND, STALE, [NOTED, NOTED]),
        (SOUND, STALE, ["", NOTED]),
        (SOUND, OTHER_ENDS, [NOTED, "0 10, 1 15"]),
    ],
)
def test_batches_of_a_replaced_leader_before_a_later_file(
    sound: dict[int, str], stale: dict[int, str], epochs: list[str], turn: int, tmp_path: Path
) -> None:
    paths = write_copies(tmp_path, sound, stale, epochs=epochs)[::turn]
    with pytest.raises(PathError, match="hold different batches at offset 14 of partition t-0"):
        kafkaseg.scan(paths, ["offset"]).read_all()
    assert not kafkaseg.verify(paths).is_ok


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("epochs", [["", ""], [NOTED, NOTED], [NOTED, "0 10, 1 12, 2 14"]])
def test_files_that_differ_in_their_names_alone(epochs: list[str], turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, SOUND, APART, epochs=epochs)[::turn]
    assert kafkaseg.scan(paths, ["offset"]).read_all()["offset"].to_pylist() == list(range(10, 22))
    assert kafkaseg.verify(paths).is_ok


@pytest.mark.parametrize("turn", [1, -1])
def test_a_batch_that_states_the_offset_of_an_epoch(turn: int, tmp_path: Path) -> None:
    """It lies behind a gap, so its offset may be wrong: it shows no other history."""
    hurt = {10: "[10-12 e0] [13 e0 @14]", 15: "[15-17 e2]"}
    whole = {10: "[10-12 e0] [13 e0] [14 e2]", 15: "[15-17 e2]"}
    paths = write_copies(tmp_path, hurt, whole, epochs=[NOTED, NOTED])[::turn]
    rows = kafkaseg.scan(paths, ["offset", "value"]).read_all().to_pylist()
    assert [(row["offset"], row["value"][:4]) for row in rows] == [(at, b"v%d " % at) for at in range(10, 18)]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("noted", ["", "2 0, 5 4"])
def test_an_older_file_whose_batch_reaches_over_the_begin_of_an_epoch(noted: str, turn: int, tmp_path: Path) -> None:
    """One file is of a backup from before a truncation."""
    hurt = {0: "[0-1 e2] [2 e2] [3-5 e4] [6-7 e4]", 8: "[8-9 e5]"}
    sound = {0: "[0-1 e2] [2 e2] [3 e2] [4-5 e5] [6-7 e5]", 8: "[8-9 e5]"}
    paths = write_copies(tmp_path, hurt, sound, epochs=(noted, "2 0, 5 4"))[::turn]
    with pytest.raises(PathError, match="hold different batches at offset 4"):
        offsets(paths)
    assert not kafkaseg.verify(paths).is_ok
