"""Message sets (magic 0 and 1) of which one copy has an entry at a wrong place: the other copy has it at its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from tests.support import writer
from tests.support.writer import Rec

Make = Callable[[int], bytes]  # an entry of two offsets, from an even one on


def make_entry(magic: int, codec: Any) -> Make:
    def make(first: int) -> bytes:
        recs = [Rec(at, 1000 + first + at, b"k", b"v%d" % (first + at)) for at in range(2)]
        encode = writer.message_set_v1 if magic else writer.message_set_v0
        return encode(recs, base_offset=first, codec=codec)

    return make


ENTRIES = pytest.mark.parametrize(
    "make", [make_entry(0, "none"), make_entry(1, "none"), make_entry(0, "gzip"), make_entry(1, "gzip")]
)
TURNS = pytest.mark.parametrize("turn", [1, -1])


def write(root: Path, files: dict[int, list[bytes]]) -> str:
    folder = root / "t-0"
    folder.mkdir(parents=True)
    for base, entries in files.items():
        (folder / writer.segment_name(base)).write_bytes(b"".join(entries))
    return str(root)


def read(paths: Sequence[str], **options: Any) -> list[int]:
    table = kafkaseg.scan(list(paths), ["offset", "value"], **options).read_all().to_pydict()
    assert table["value"] == [b"v%d" % offset for offset in table["offset"]]
    offsets: list[int] = table["offset"]
    return offsets


def hurt(entries: list[bytes], way: str, one: int, other: int) -> list[bytes]:
    made = list(entries)
    if way == "move":
        made.insert(other, made.pop(one))
    elif way == "swap":
        made[one], made[other] = made[other], made[one]
    elif way == "over":
        made[other] = made[one]
    else:
        del made[one]
    return made


@TURNS
@ENTRIES
@pytest.mark.parametrize("way", ["move", "swap", "over", "drop"])
def test_an_entry_at_a_wrong_place(way: str, make: Make, turn: int, tmp_path: Path) -> None:
    whole = [make(first) for first in range(0, 12, 2)]
    end = [make(first) for first in range(12, 24, 2)]
    sound = write(tmp_path / "sound", {0: whole, 12: end})
    for number, (one, other) in enumerate([(0, 1), (0, 4), (1, 3), (2, 0), (4, 1), (5, 4)]):
        bad = write(tmp_path / f"bad{number}", {0: hurt(whole, way, one, other), 12: end})
        paths = [bad, sound][::turn]
        assert read(paths) == list(range(24))
        if way != "move":  # a wrapper may belong between two pieces: a limit (docs/damage.md)
            assert read(paths, maxRecordsPerPartition=3) == list(range(24))
        assert read(paths, startingOffsets={"t": {"0": 3}}) == list(range(3, 24))
        assert kafkaseg.verify(paths).is_ok


@TURNS
@ENTRIES
def test_two_that_changed_places_where_no_other_copy_has_them(make: Make, turn: int, tmp_path: Path) -> None:
    entries = [make(first) for first in range(0, 16, 2)]
    paths = [
        write(tmp_path / "bad", {0: hurt(entries, "swap", 1, 3)}),
        write(tmp_path / "sound", {12: entries[6:]}),
    ][::turn]
    with pytest.raises(CorruptRecordError, match="out of order"):
        read(paths)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@ENTRIES
def test_a_file_that_is_gone_from_the_longer_copy(make: Make, turn: int, tmp_path: Path) -> None:
    """Its index file is left. The other copy ends inside it."""
    files = {0: [make(0), make(2)], 4: [make(at) for at in range(4, 12, 2)], 12: [make(12)]}
    longer = write(tmp_path / "longer", files)
    missing = Path(longer, "t-0", writer.segment_name(4))
    missing.with_suffix(".index").write_bytes(writer.offset_index([(11, missing.stat().st_size * 3 // 4)], 4))
    missing.unlink()
    paths = [longer, write(tmp_path / "shorter", {0: files[0], 4: files[4][:2]})][::turn]
    with pytest.raises(DataLossError, match=r"4\.index' is there without the \.log .* the offsets 8 to 11"):
        read(paths)
    assert read(paths, failOnDataLoss=False) == [*range(8), 12, 13]
    assert not kafkaseg.verify(paths).is_ok


@TURNS
def test_a_batch_that_moved_before_a_wrapper(turn: int, tmp_path: Path) -> None:
    """Nothing says where the wrapper begins, so no gap there has room for the batch."""
    make = make_entry(1, "gzip")
    old, new = (
        [make(0), make(2)],
        [writer.record_batch([Rec(0, 1000, b"k", b"v%d" % at)], base_offset=at) for at in (4, 5, 6)],
    )
    hurt = {0: [old[0], new[1], old[1]], 4: [new[0], new[2]]}
    paths = [write(tmp_path / "hurt", hurt), write(tmp_path / "shorter", {0: old})][::turn]
    with pytest.raises((CorruptRecordError, DataLossError), match="5"):
        read(paths)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@ENTRIES
def test_a_gap_that_is_in_every_copy(make: Make, turn: int, tmp_path: Path) -> None:
    """Compaction took them. No checkpoint is here to say so."""
    entries = [make(first) for first in (0, 2, 6, 8, 14)]
    paths = [write(tmp_path / "a", {0: entries}), write(tmp_path / "b", {0: entries[1:]})][::turn]
    assert read(paths) == [0, 1, 2, 3, 6, 7, 8, 9, 14, 15]
    assert kafkaseg.verify(paths).is_ok
