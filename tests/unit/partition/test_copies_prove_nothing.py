"""Several copies: what proves nothing about a loss hides none, and is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.errors import CorruptRecordError, DataLossError
from tests.support import writer
from tests.support.rows import offsets
from tests.support.small_logs import bad, pl, put


def old(offset: int) -> bytes:
    """A message of magic 1."""
    return writer.message(offset, b"k", b"v%d" % offset, magic=1, timestamp=1000 + offset)


def test_an_old_segment_that_ends_early_hides_no_damage(tmp_path: Path) -> None:
    """Nothing tells whether a file of magic 1 ended at 1 by compaction. So the damage of the other copy counts."""
    put(tmp_path / "a", 0, old(0), old(1))
    put(tmp_path / "a", 3, old(3))
    put(tmp_path / "b", 0, old(0), old(1))
    put(tmp_path / "b", 2, bad(old(2)))
    put(tmp_path / "b", 3, old(3))
    paths = [tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"]

    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 2 to 2 whole"):
        offsets(paths)
    assert offsets(paths, mode="DROPMALFORMED") == [0, 1, 3]


def test_a_segment_that_began_with_an_old_format_hides_no_damage(tmp_path: Path) -> None:
    """The search begins near the wanted offsets, by the index, where the batches are of magic 2 already."""
    first = put(tmp_path / "a", 0, old(0), pl(1, 9), pl(10, 10))
    index = first.with_suffix(".index")
    places = [len(old(0)), len(old(0)) + len(pl(1, 9))]
    index.write_bytes(writer.offset_index([(9, places[0]), (19, places[1])], 0))
    put(tmp_path / "a", 30, pl(30, 10))
    put(tmp_path / "b", 20, bad(pl(20, 10)), pl(30, 10))
    paths = [tmp_path / "a" / "t-0", tmp_path / "b" / "t-0"]

    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 20 to 29 whole"):
        offsets(paths)
    assert offsets(paths, mode="DROPMALFORMED") == [*range(20), *range(30, 40)]


def put_orphan(root: Path, base: int, last: int) -> None:
    """Writes the index of a segment whose `.log` is missing."""
    path = root / "t-0" / writer.segment_name(base, ".index")
    path.write_bytes(writer.offset_index([(last, 100)], base))


def test_the_stale_tail_of_a_leader_proves_no_loss(tmp_path: Path) -> None:
    """A later leader decides about the offsets from 10 on. An index that the earlier one left after them is no loss."""
    put(tmp_path / "stale", 0, pl(0, 10, leader=1), pl(10, 5, leader=1, word="x"))
    put_orphan(tmp_path / "stale", 15, 20)
    put(tmp_path / "now", 0, pl(0, 10, leader=1), pl(10, 3, leader=2, word="y"))
    paths = [tmp_path / "stale" / "t-0", tmp_path / "now" / "t-0"]

    assert offsets(paths) == list(range(13))
    with pytest.raises(DataLossError, match="no file holds the offsets 15 to 20"):
        offsets(paths[0])


def test_paths_of_all_files_ask_for_no_other_file(tmp_path: Path) -> None:
    """Files that are named one by one are no directory, even if these are all of it."""
    file = put(tmp_path, 0, pl(0, 10))
    put_orphan(tmp_path, 10, 20)

    assert offsets([file]) == list(range(10))
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 20"):
        offsets(tmp_path / "t-0")
