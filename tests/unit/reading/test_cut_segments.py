"""A segment of a compacted log that was cut where a batch ends: its index files lead behind its end. No batch says so,
and offsets may be missing between the segments of such a log."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from tests.support import writer
from tests.support.batches import data as batch
from tests.support.far_files import far_files
from tests.support.logs import Segment, simple_log, simple_segment
from tests.support.maps import make_maps
from tests.support.rows import offsets


def segment(base: int) -> Segment:
    """Ten offsets in five batches. An index entry for each batch but the first one."""
    specs = [batch(at, 10 * at, 10 * at + 10) for at in range(base, base + 10, 2)]
    entries = [(base + 2 * number + 1, number) for number in range(1, 5)]
    return simple_segment(specs, base=base, index=entries, timeindex=[(10 * base + 90, base + 9)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 of a log directory, with segments 0, 10 and 20. A cleaner has been there."""
    return write(tmp_path / "data")


def write(directory: Path) -> Path:
    folder = simple_log(*[segment(base) for base in (0, 10, 20)]).write(directory)
    (directory / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    return folder


def file(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020d}{suffix}"


def cut(folder: Path, kept: int, base: int = 10) -> int:
    """Leaves some batches of a segment. Answers the first offset that is lost."""
    path = file(folder, base)
    end = segment(base).batches[kept].position
    path.write_bytes(path.read_bytes()[:end])
    return base + 2 * kept


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_what_is_lost_is_said(kept: int, folder: Path) -> None:
    """An error that says what the index has; DROPMALFORMED reads what is there."""
    first = cut(folder, kept)
    size = file(folder, 10).stat().st_size
    with pytest.raises(CorruptRecordError) as caught:
        offsets(folder)
    assert str(caught.value) == (
        f"segment cut short in {file(folder, 10)} at byte {size}, offset {first}: found the end of the file, expected"
        f" batches up to offset 19 at least, by {file(folder, 10, '.index')}"
    )
    there = [offset for offset in range(30) if not first <= offset < 20]
    assert offsets(folder, mode="DROPMALFORMED") == there
    [found] = [finding for finding in kafkaseg.verify(folder).partitions[0].findings if finding.is_loss]
    assert (found.problem, found.position, found.offset) == (True, size, first)
    assert found.what.startswith("segment cut short: found the end of the file, expected batches up to offset 19")


@pytest.mark.parametrize(
    "bounds",
    [
        {"startingOffsets": {"orders": {"0": 19}}},
        {"since": 190},
        {"startingTimestamp": 185},
        {"minPartitions": 7},
        {"isolationLevel": "read_committed"},
    ],
)
def test_whichever_lost_offset_is_wanted(bounds: dict[str, Any], folder: Path) -> None:
    cut(folder, 2)
    with pytest.raises(CorruptRecordError, match="segment cut short"):
        offsets(folder, **bounds)


def test_no_error_where_no_lost_offset_is_wanted(folder: Path) -> None:
    first = cut(folder, 2)
    assert offsets(folder, endingOffsets={"orders": {"0": first}}) == list(range(first))
    assert offsets(folder, startingOffsets={"orders": {"0": 20}}) == list(range(20, 30))


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("block", [None, 0, 1 << 20])
def test_a_segment_that_since_leaves_out(block: int | None, is_cut: bool, folder: Path) -> None:
    """In a bucket, the headers of a small `.log` say that it has nothing later. Its lost rows may be later."""
    if is_cut:
        cut(folder, 2)
    else:
        file(folder, 10).write_bytes(segment(10).log[: segment(10).batches[2].position])
        for suffix, entries in ((".index", (13, segment(10).batches[1].position)), (".timeindex", (140, 13))):
            to_bytes = writer.offset_index if suffix == ".index" else writer.time_index
            file(folder, 10, suffix).write_bytes(to_bytes([entries], 10))
    with nullcontext() if block is None else far_files(block):
        if is_cut:
            with pytest.raises(CorruptRecordError, match="segment cut short"):
                offsets(folder, since=190)
        else:
            assert offsets(folder, since=190) == list(range(20, 30))


def test_the_index_of_before_a_compaction(folder: Path) -> None:
    """A copy of a running broker may have it beside the `.log` of after: its entries inside lead to no batch, or none
    is inside and the `.timeindex` has nothing behind the end."""
    batches = segment(10).batches
    smaller = batches[1].data + batches[3].data  # one batch went with its records
    bigger = writer.offset_index([(13, len(batches[0].data) + 3), (17, len(smaller)), (19, len(smaller) + 90)], 10)
    file(folder, 10).write_bytes(smaller)
    file(folder, 10, ".index").write_bytes(bigger)
    assert offsets(folder) == [*range(10), 12, 13, 16, 17, *range(20, 30)]
    file(folder, 10, ".index").write_bytes(bigger[8:])
    file(folder, 10, ".timeindex").write_bytes(writer.time_index([(170, 17)], 10))
    assert offsets(folder) == [*range(10), 12, 13, 16, 17, *range(20, 30)]
    file(folder, 10, ".timeindex").unlink()
    assert offsets(folder) == [*range(10), 12, 13, 16, 17, *range(20, 30)]
    file(folder, 10, ".timeindex").write_bytes(writer.time_index([(190, 19)], 10))
    with pytest.raises(CorruptRecordError, match="segment cut short"):
        offsets(folder)


def test_the_index_of_files_that_the_cleaner_put_together(folder: Path) -> None:
    """A copy of a running broker may have it beside the first of them, as it was before."""
    last = segment(10).batches[-1]
    file(folder, 10).write_bytes(segment(10).log[: last.position])  # a cleaner took the last batch before
    index = file(folder, 10, ".index")
    index.write_bytes(
        index.read_bytes()[:-8] + writer.offset_index([(21, last.position), (23, last.position + 90)], 10)
    )
    assert offsets(folder) == [*range(18), *range(20, 30)]


def test_what_is_no_evidence(folder: Path) -> None:
    """One damaged entry leads anywhere, and padding nowhere. Without index files, or where none is trusted, nothing is
    known."""
    cut(folder, 3)
    index = file(folder, 10, ".index")
    there = [*range(16), *range(20, 30)]
    assert offsets(folder, trustIndexes=False) == there
    entries = [(13, segment(10).batches[1].position), (15, segment(10).batches[2].position)]
    for data in (
        writer.offset_index(entries, 10, padded_to=4096),
        writer.offset_index(entries[:1], 10) + struct.pack(">ii", 5, 1 << 20),
        b"",
    ):
        index.write_bytes(data)
        assert offsets(folder) == there
    index.unlink()
    assert offsets(folder) == there


def test_a_padded_index(folder: Path) -> None:
    cut(folder, 2)
    index = file(folder, 10, ".index")
    index.write_bytes(index.read_bytes() + bytes(8 * 3000))
    with pytest.raises(CorruptRecordError, match="segment cut short"):
        offsets(folder)


@pytest.mark.parametrize("is_marked", [False, True])
def test_another_copy(is_marked: bool, tmp_path: Path) -> None:
    """What one copy has lost is read from another one. If that has nothing there, its compaction is no excuse."""
    copies = [write(tmp_path / name) for name in ("a", "b")]
    if not is_marked:
        (tmp_path / "a" / "cleaner-offset-checkpoint").unlink()
    cut(copies[0], 2)
    assert offsets(copies) == list(range(30))
    assert offsets(copies[::-1]) == list(range(30))
    file(copies[1], 0).unlink()
    for base in (10, 20):
        for suffix in (".log", ".index", ".timeindex"):
            file(copies[1], base, suffix).unlink()
    (copies[1] / f"{18:020d}.log").write_bytes(
        b"".join(each.data for each in (segment(10).batches[4], segment(20).batches[0]))
    )
    with pytest.raises((CorruptRecordError, DataLossError), match="the offsets 14 to 17"):
        offsets(copies)


NEXT = {
    "at its name": batch(20, 400, 410),
    "above its name": batch(23, 400, 410),
    "thinned": batch(20, 400, offsets=[22]),
}
"""The first batch of the next file, after compaction."""


@pytest.mark.parametrize("loss", ["cut", "emptied"])
@pytest.mark.parametrize("begin", list(NEXT))
def test_a_starting_timestamp_of_the_next_file(begin: str, loss: str, tmp_path: Path) -> None:
    """A record that was lost right before may be the first one of that time, wherever the next file begins."""
    following = simple_segment([NEXT[begin], batch(25, 500, 510)], base=20)
    folder = simple_log(segment(0), segment(10), following).write(tmp_path / "data")
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    first = NEXT[begin].rows[0][0]
    assert offsets(folder, startingTimestamp=191)[0] == first
    if loss == "cut":
        cut(folder, 2)
    else:
        file(folder, 10).write_bytes(b"")
    with pytest.raises((CorruptRecordError, DataLossError), match=r"segment cut short|offsets 10 to 19"):
        offsets(folder, startingTimestamp=191)
    assert offsets(folder, startingTimestamp=401)[0] == (
        25 if begin == "thinned" else first + 1
    )  # another one is before
    answer = kafkaseg.offsets_for_time(folder, 191)
    assert answer.partitions[0].offset == first
    assert answer.warnings


def test_a_zone_map_of_a_segment_that_was_cut(folder: Path, tmp_path: Path) -> None:
    """It does not lead past the end of the segment."""
    cut(folder, 2)
    make_maps(folder.parent, tmp_path / "maps", keys=True)
    for options in ({"since": 190}, {"key": "k25"}):
        with pytest.raises(CorruptRecordError, match="segment cut short"):
            offsets(folder, zoneMaps=str(tmp_path / "maps"), **options)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_pieces_of_a_thinned_batch_at_the_end(most: int, tmp_path: Path) -> None:
    """No piece begins where the file ends, as its read would not see the batch before."""
    thinned = [batch(10, 100, 110, offsets=[10, 14]), batch(15, 120, 130), batch(17, 140)]
    entries = {"index": [(16, 1), (17, 2)], "timeindex": [(140, 17)]}
    middle = simple_segment(thinned, base=10, **entries)
    folder = simple_log(segment(0), middle, segment(20)).write(tmp_path / "data")
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    assert offsets(folder, maxRecordsPerPartition=most) == [*range(10), 10, 14, 15, 16, 17, *range(20, 30)]
    for kept in (1, 2):
        file(folder, 10).write_bytes(middle.log[: middle.batches[kept].position])
        with pytest.raises(CorruptRecordError, match="segment cut short"):
            offsets(folder, maxRecordsPerPartition=most)
