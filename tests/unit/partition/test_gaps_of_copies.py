"""Gaps between two batches of one copy that no checkpoint explains: the other copies are asked for what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from tests.support import writer
from tests.support.layouts import encode_batches, mark, write_bytes, write_copies
from tests.support.writer import Rec

TURNS = pytest.mark.parametrize("turn", [1, -1])
CUTS: list[dict[str, Any]] = [{}, {"maxRecordsPerPartition": 2}, {"maxRecordsPerPartition": 4}, {"minPartitions": 9}]
WHOLE = {10: "[10-13 e0] [14-17 e0] [18-21 e0] [22-25 e0]", 26: "[26-29 e0]"}
LACKING = WHOLE | {10: "[10-13 e0] [18-21 e0] [22-25 e0]"}
OVER = WHOLE | {10: "[10-13 e0] [18-21 e0] [18-21 e0] [22-25 e0]"}  # one batch lies over the one before it


def read(paths: list[str], **options: Any) -> list[tuple[int, str]]:
    table = kafkaseg.scan(paths, ["offset", "value"], **options).read_all().to_pydict()
    return [(offset, value.decode()) for offset, value in zip(table["offset"], table["value"], strict=True)]


def rows(*offsets: int) -> list[tuple[int, str]]:
    return [(offset, f"v{offset} of e0") for offset in offsets]


def make_transaction(first: int, count: int, last: int | None = None) -> bytes:
    """A batch of producer 1 with `count` records. last: its last offset, if more were removed."""
    records = [Rec(at, 1000, b"k", b"v") for at in range(count)]
    delta = count - 1 if last is None else last - first
    return writer.record_batch(
        records, base_offset=first, last_offset_delta=delta, producer_id=1, producer_epoch=0, transactional=True
    )


def make_marker(kind: str, offset: int) -> bytes:
    return writer.control_batch(kind, offset=offset, timestamp=1000, producer_id=1, producer_epoch=0)


@TURNS
@pytest.mark.parametrize("options", CUTS)
@pytest.mark.parametrize("hurt", [LACKING, OVER])
def test_the_other_copy_has_what_is_missing(
    hurt: dict[int, str], options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    paths = write_copies(tmp_path, hurt, WHOLE)[::turn]
    assert read(paths, **options) == rows(*range(10, 30))
    assert read(paths, endingOffsets={"t": {"0": 16}}, **options) == rows(*range(10, 16))
    assert read(paths, startingOffsets={"t": {"0": 15}}, **options) == rows(*range(15, 30))
    assert read(paths, isolationLevel="read_committed", **options) == rows(*range(10, 30))


@TURNS
@pytest.mark.parametrize("options", CUTS)
def test_a_batch_that_lies_over_one_that_no_copy_has(options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """What is there twice takes no room in the log. So the gap before it is no work of compaction."""
    paths = write_copies(tmp_path, OVER, {22: "[22-25 e0]", 26: "[26-29 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match=r"no copy holds the offsets 14 to 17 whole|batch out of order"):
        read(paths, **options)
    assert [finding.offset for finding in kafkaseg.verify(paths).together if finding.problem] == [14]
    lenient = read(paths, mode="DROPMALFORMED", failOnDataLoss=False, **options)
    assert lenient == rows(*range(10, 14), *range(18, 30))


@TURNS
def test_a_gap_that_is_in_every_copy(turn: int, tmp_path: Path) -> None:
    """Compaction took them. No checkpoint is here to say so."""
    paths = write_copies(tmp_path, LACKING, LACKING)[::turn]
    assert read(paths) == rows(*range(10, 14), *range(18, 30))
    assert kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("blank", [b"", bytes(300), encode_batches("[22-25 e0]")[:60]], ids=["empty", "zeros", "torn"])
def test_a_copy_without_a_batch_that_begins_behind_the_others(blank: bytes, turn: int, tmp_path: Path) -> None:
    """The log went on to the name of its file: the offsets before it are missing."""
    paths = write_bytes(tmp_path, {0: encode_batches("[0-9 e0] [10-18 e0]")}, {22: blank})[::turn]
    with pytest.raises(DataLossError, match="no file holds the offsets 19 to 21"):
        read(paths)
    assert any("19 to 21" in finding.what for finding in kafkaseg.verify(paths).problems)
    assert read(paths, failOnDataLoss=False) == rows(*range(19))
    mark(paths[0])  # compaction may have taken them
    assert read(paths) == rows(*range(19))


@TURNS
def test_a_copy_that_compaction_thinned_most_beside_a_whole_one(turn: int, tmp_path: Path) -> None:
    """The whole one ends early. Behind it, of the two others the one with more records is read."""
    more = {0: "[0-3 e0 (0,1)] [4-7 e0] [8-9 e0]", 10: "[10 e0]"}
    less = {0: "[0-3 e0 (0,1)] [4-7 e0 (4,7)] [8-9 e0] [10 e0]", 11: ""}
    paths = write_copies(tmp_path, more, less, {0: "[0-3 e0]", 4: ""})[::turn]
    assert read(paths) == rows(*range(11))


@TURNS
@pytest.mark.parametrize("rest", [{}, {8: "[8-9 e0]"}], ids=["last file", "earlier file"])
def test_a_first_file_that_names_offsets_of_another_copy(rest: dict[int, str], turn: int, tmp_path: Path) -> None:
    """It is whole from its first batch on, whatever it lacks before."""
    emptied, thinned, start = {0: "[4-6 e0]"}, {4: "[4-6 e0 (4,6)] [8-9 e0]"}, {0: "[0-3 e0]"}
    paths = write_copies(tmp_path, emptied | rest, thinned, start)[::turn]
    assert read(paths) == rows(*range(7), 8, 9)


@TURNS
def test_a_gap_before_the_last_batch_that_is_in_every_copy(turn: int, tmp_path: Path) -> None:
    """Nothing proves the offset of the last batch, but no copy has anything in the gap."""
    log = {10: "[10-13 e0] [18-21 e0]"}
    paths = write_copies(tmp_path, log, log)[::turn]
    assert read(paths) == rows(*range(10, 14), *range(18, 22))


@TURNS
def test_a_copy_that_compaction_thinned_more(turn: int, tmp_path: Path) -> None:
    """The others are asked for what is missing alone: what the copy has of other batches is read from it."""
    other = {10: "[10-13 e0 (10)] [14-17 e0 (17)] [18-21 e0 (18)] [22-25 e0 (25)]", 26: "[26-29 e0]"}
    assert read(write_copies(tmp_path, LACKING, other)[::turn]) == rows(*range(10, 14), 17, *range(18, 30))


@TURNS
@pytest.mark.parametrize("options", CUTS)
def test_a_gap_before_the_next_segment(options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """Compaction shows in the copy, so the gap is no loss."""
    hurt = {10: "[10-13 e0 (10,13)] [14-17 e0] [18-21 e0]", 26: "[26-29 e0]"}
    whole = {10: "[10-13 e0 (10,13)] [14-17 e0] [18-21 e0] [22-25 e0]", 26: "[26-27 e0]"}
    assert read(write_copies(tmp_path, hurt, whole)[::turn], **options) == rows(10, 13, *range(14, 30))


# --- a batch behind a gap that states a larger offset -----------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("options", CUTS)
@pytest.mark.parametrize(
    "hurt",
    [
        {10: "[10-13 e0] [14-17 e0 @18]", 22: "[22-25 e0]"},  # and the segment behind it is lost
        {10: "[10-13 e0 @12]", 16: "[16-17 e0]", 18: "[18-21 e0]", 22: "[22-25 e0]"},  # the first one of its file
    ],
)
def test_a_raised_batch_that_the_other_copy_has_in_the_gap(
    hurt: dict[int, str], options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    """Its rows never come at the offsets that it states. What no copy has is an error."""
    whole = {10: "[10-13 e0] [14-17 e0]"}
    paths = write_copies(tmp_path, hurt, whole)[::turn]
    try:
        found = read(paths, **options)
    except (CorruptRecordError, DataLossError):
        assert not kafkaseg.verify(paths).is_ok or options
        return
    assert found == rows(*range(10, 18), *range(22, 26)) or found == rows(*range(10, 26))


@TURNS
@pytest.mark.parametrize("options", CUTS)
def test_a_raised_batch_over_those_of_the_other_copy(options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """Of two batches of one history with other ends, the one behind a gap is wrong."""
    hurt = {10: "[10-11 e0] [12-13 e0 @17]", 19: "[19-20 e0] [21-30 e0]"}
    whole = {12: "[12-13 e0] [14-15 e0] [16-18 e0] [19-20 e0]"}
    paths = write_copies(tmp_path, hurt, whole)[::turn]
    assert read(paths, **options) == rows(*range(10, 31))


@TURNS
def test_a_raised_batch_that_no_copy_has_over_those_of_another_one(turn: int, tmp_path: Path) -> None:
    """The other copy gives all that it has. What the batch held is lost."""
    hurt = {10: "[10-11 e0] [12-13 e0 @17]", 19: "[19-20 e0] [21-30 e0]"}
    paths = write_copies(tmp_path, hurt, {14: "[14-15 e0] [16-18 e0] [19-20 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 12 to 13 whole"):
        read(paths)


@TURNS
def test_batches_with_other_ends_that_both_lie_behind_a_gap(turn: int, tmp_path: Path) -> None:
    """Nothing says which one is right."""
    hurt = {10: "[10-11 e0] [22-24 e0] [30-31 e0]"}
    other = {10: "[10-11 e0] [21-23 e0] [30-31 e0]"}
    paths = write_copies(tmp_path, hurt, other)[::turn]
    with pytest.raises(CorruptRecordError, match="batch that contradicts a batch of another copy at its offsets"):
        read(paths)
    third = write_copies(tmp_path / "more", other)  # and has the one of two
    assert read([*paths, *third]) == rows(10, 11, 21, 22, 23, 30, 31)


@TURNS
def test_a_raised_first_batch_beside_a_stale_copy(turn: int, tmp_path: Path) -> None:
    """The plan does not change copies at the offset that it states."""
    hurt = {10: "[10-12 e0]", 13: "[13 e0 @14]", 15: "[15-17 e0] [18-21 e1]"}
    whole = {10: "[10-12 e0]", 13: "[13 e0]", 14: "[14 e0]", 15: "[15-17 e0] [18-21 e1]"}
    stale = {15: "[15-17 e0] [18 e0]"}
    found = read(write_copies(tmp_path, hurt, whole, stale)[::turn])
    assert found[:8] == rows(*range(10, 18))
    assert {value for _, value in found[8:]} == {f"v{offset} of e1" for offset in range(18, 22)}


# --- damage in a gap, and at the end ---------------------------------------------------------------------------------


def write_over(path: str, base: int, at: int, text: str) -> None:
    """Writes batches over the bytes of a file from a position on."""
    file = Path(path) / "t-0" / writer.segment_name(base)
    data, new = file.read_bytes(), encode_batches(text)
    file.write_bytes(data[:at] + new + data[at + len(new) :])


@TURNS
@pytest.mark.parametrize("options", CUTS)
def test_bytes_that_are_left_of_a_batch_at_the_end_of_a_file(
    options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    """A shorter batch lies over one and a part of the next one. No offset is missing where the damage is."""
    log = {10: "[10-15 e0] [16-17 e0]", 18: "[18-19 e0]"}
    paths = write_copies(tmp_path, log, {18: "[18-19 e0]"})
    write_over(paths[0], 10, 0, "[16-17 e0]")
    with pytest.raises(CorruptRecordError):
        read(paths[::turn], **options)
    assert not kafkaseg.verify(paths[::turn]).is_ok


@TURNS
@pytest.mark.parametrize("end", [14, 18, 22, 26])
def test_a_batch_of_the_copy_over_its_last_one(end: int, turn: int, tmp_path: Path) -> None:
    """Nobody has what was there, unless another copy has as many bytes."""
    hurt = {10: "[10-13 e0] [14-17 e0] [18-21 e0] [10-13 e0]"}
    other = {10: " ".join(f"[{at}-{at + 3} e0]" for at in range(10, end, 4))}
    paths = write_copies(tmp_path, hurt, other)[::turn]
    if end == 26:
        assert read(paths) == rows(*range(10, 26))
    else:
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets 22 on"):
            read(paths)
        assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("end", [14, 18, 22, 26])
def test_a_last_file_with_the_bytes_of_another_one(end: int, turn: int, tmp_path: Path) -> None:
    """It has no batch of its own. So nothing says how long it was."""
    hurt = {10: "[10-13 e0]", 14: "[14-17 e0]", 18: "[14-17 e0]"}
    other = {10: " ".join(f"[{at}-{at + 3} e0]" for at in range(10, end, 4))}
    paths = write_copies(tmp_path, hurt, other)[::turn]
    with pytest.raises(CorruptRecordError, match="batch out of order"):
        read(paths)
    assert read(paths, mode="DROPMALFORMED") == rows(*range(10, max(end, 18)))
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("view", [None, "batches"])
def test_a_copy_that_is_marked_as_compacted_asks_nobody(view: str | None, turn: int, tmp_path: Path) -> None:
    """The gap is the work of its cleaner. What the other copy still has there was replaced by later records."""
    other = {10: "[10-13 e0 (10)] [14-17 e0 (14)] [18-21 e0 (18)] [22-25 e0]", 26: ""}
    paths = write_copies(tmp_path, LACKING, other)
    for path in paths:
        mark(path)
    options = {} if view is None else {"view": view}
    offsets = kafkaseg.scan(paths[::turn], **options).read_all()
    assert offsets.num_rows == (16 if view is None else 4)


@TURNS
def test_a_gap_that_another_copy_fills_in_part_hides_no_marker(turn: int, tmp_path: Path) -> None:
    """The copy with the rows of a transaction has its marker behind the gap, whatever the other one lacks in the
    gap."""
    begin = writer.record_batch(
        [Rec(at, 1000, b"k", b"v") for at in range(4)],
        base_offset=10,
        producer_id=1,
        producer_epoch=0,
        transactional=True,
    )
    end = writer.control_batch("commit", offset=20, timestamp=1000, producer_id=1, producer_epoch=0)
    paths = []
    for at, within in enumerate((encode_batches("[19 e0]"), encode_batches("[16 e0] [19 e0]"))):
        folder = tmp_path / f"r{at}" / "t-0"
        folder.mkdir(parents=True)
        data = begin + within + end if at == 0 else within + end
        (folder / writer.segment_name(10 if at == 0 else 16)).write_bytes(data)
        paths.append(str(folder.parent))
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    assert table["offset"].to_pylist() == [10, 11, 12, 13, 16, 19]


@TURNS
@pytest.mark.parametrize("base", [10, 14])
def test_the_marker_of_a_transaction_that_a_cleaner_removed(
    base: int, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The copy with the rows ends before their marker. Nothing marks the other one as compacted. Its next marker ends
    another transaction."""
    thinned = encode_batches("[15 e0]") + make_transaction(16, 1, last=19) + make_marker("commit", 20)
    files = {10: make_transaction(10, 4)}, {base: thinned, 21: encode_batches("[21 e0]")}
    paths = write_bytes(tmp_path, *files)
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    assert table["offset"].to_pylist() == [15, 16, 21]
    assert any("around offset 10" in message and "has no marker" in message for message in caplog.messages)


@TURNS
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("back", [20, 23])
def test_a_lost_file_with_a_marker_that_a_cleaner_removed(
    back: int, is_lost: bool, is_marked: bool, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The copy with the rows goes on behind the lost file. The next marker there, or in the other copy, ends another
    transaction. is_lost: whether the file is
    lost. If not, it is not among the paths."""
    later = make_transaction(20, 2) + make_marker("commit", 22), encode_batches("[23-25 e0]")
    whole = {10: make_transaction(10, 4), 14: encode_batches("[14-18 e0]") + make_marker("abort", 19)}
    thinned = encode_batches("[14-18 e0 (15,16)]")
    behind = {20: later[0] + later[1]} if back == 20 else {23: later[1]}
    before = thinned if back == 20 else thinned + later[0]
    if back != 20:
        whole[14] += later[0]
    own, other = write_bytes(tmp_path, whole | behind, {10: before} | behind)
    if is_marked:
        mark(other)
    if is_lost:
        Path(own, "t-0", writer.segment_name(14)).unlink()
        paths = [own, other]
    else:
        paths = [str(path) for path in Path(own, "t-0").glob("*.log") if not path.name.endswith("14.log")] + [other]
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    assert table["offset"].to_pylist() == [15, 16, 20, 21, 23, 24, 25]
    assert any("around offset 10" in message and "has no marker" in message for message in caplog.messages)


@TURNS
@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED", "failOnDataLoss": False}])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_damaged_marker_that_a_cleaner_removed_from_the_other_copy(
    is_last: bool, options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    """It is gone in both, and the read of the same file goes on behind it."""
    marker = bytearray(make_marker("abort", 19))
    marker[-1] ^= 1
    behind, last = make_transaction(20, 2) + make_marker("commit", 22), encode_batches("[23-25 e0]")
    whole = make_transaction(10, 4) + encode_batches("[14-18 e0]") + marker + behind
    own = {10: whole + last} if is_last else {10: whole, 23: last}
    paths = write_bytes(tmp_path, own, {10: encode_batches("[14-18 e0 (15,16)]"), 20: behind + last})
    mark(paths[1])
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed", **options).read_all()
    assert table["offset"].to_pylist() == [*range(14, 19), 20, 21, 23, 24, 25]


@TURNS
@pytest.mark.parametrize("options", [{}, {"maxRecordsPerPartition": 1}])
@pytest.mark.parametrize("hurt", ["bit", "torn", "length", "own file"])
def test_a_damaged_marker_at_the_end_of_its_file(
    hurt: str, options: dict[str, Any], turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The cleaner has removed it from the other copy, and the next file of the same copy is read behind it."""
    marker = bytearray(make_marker("abort", 19))
    marker[11 if hurt == "length" else -1] ^= 1
    del marker[40 if hurt == "torn" else len(marker) :]
    behind = make_transaction(20, 2) + make_marker("commit", 22) + encode_batches("[23-25 e0]")
    before = make_transaction(10, 4) + encode_batches("[14-18 e0]")
    own = {10: before, 19: bytes(marker)} if hurt == "own file" else {10: before + marker}
    paths = write_bytes(tmp_path, {**own, 20: behind}, {10: encode_batches("[14-18 e0 (15,16)]"), 20: behind})
    mark(paths[1])
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed", **options).read_all()
    assert table["offset"].to_pylist() == [*range(14, 19), 20, 21, 23, 24, 25]
    assert any("around offset 10" in message and "has no marker" in message for message in caplog.messages)
    states = kafkaseg.plan(paths[::turn], view="transactions").to_reader().read_all().to_pydict()
    assert list(zip(states["firstOffset"], states["state"], strict=True)) == [(10, "unknown"), (20, "committed")]


@TURNS
@pytest.mark.parametrize("is_cut", [True, False])
def test_the_marker_of_a_transaction_that_its_own_copy_has_lost(is_cut: bool, turn: int, tmp_path: Path) -> None:
    """Nothing is left of it there. The other copy has it, and is read from there on."""
    last = encode_batches("[18-20 e0]")
    behind = make_transaction(15, 2) + make_marker("abort", 17)
    own = make_transaction(10, 4) + behind
    other = {14: make_marker("commit", 14) + behind, 18: last + encode_batches("[21 e0]")}
    paths = write_bytes(tmp_path, {10: own, 18: last} if is_cut else {10: own + last}, other)
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    assert table["offset"].to_pylist() == [*range(10, 14), *range(18, 22)]


@TURNS
def test_the_marker_of_a_transaction_in_a_gap(turn: int, tmp_path: Path) -> None:
    """The other copy has it. A later marker of the producer decides another transaction."""

    def encode(kinds: str) -> bytes:
        parts = {
            "d": writer.record_batch(
                [Rec(at, 1000, b"k", b"v") for at in range(4)],
                base_offset=10,
                producer_id=1,
                producer_epoch=0,
                transactional=True,
            ),
            "c": writer.control_batch("commit", offset=14, timestamp=1000, producer_id=1, producer_epoch=0),
            "e": writer.record_batch(
                [Rec(at, 1000, b"k", b"v") for at in range(2)],
                base_offset=15,
                producer_id=1,
                producer_epoch=0,
                transactional=True,
            ),
            "a": writer.control_batch("abort", offset=17, timestamp=1000, producer_id=1, producer_epoch=0),
        }
        return b"".join(parts[kind] for kind in kinds)

    paths = []
    for at, kinds in enumerate(("dea", "dcea")):
        folder = tmp_path / f"r{at}" / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(10)).write_bytes(encode(kinds))
        (folder / writer.segment_name(18)).write_bytes(encode(""))
        paths.append(str(folder.parent))
    for options in CUTS:
        table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed", **options).read_all()
        assert table["offset"].to_pylist() == [10, 11, 12, 13]


@TURNS
@pytest.mark.parametrize(
    "options", [{}, {"maxRecordsPerPartition": 1}, {"maxRecordsPerPartition": 2}, {"minPartitions": 8}]
)
def test_no_piece_begins_at_a_last_batch_behind_a_gap(options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """The batch states 11, and is that of offset 10: its piece would not see the gap before it."""
    hurt = {0: "[0-1 e0] [2 e0] [3-5 e0] [6-7 e0] [8 e0] [9 e0] [10 e0 @11]", 15: "[15-16 e0] [17-19 e0]"}
    sound = {6: "[6-7 e0] [8 e0] [9 e0] [10 e0] [11-14 e0] [15-16 e0] [17-19 e0]"}
    assert read(write_copies(tmp_path, hurt, sound)[::turn], **options) == rows(*range(20))


@TURNS
@pytest.mark.parametrize("how", ["time index", "zone map"])
def test_a_gap_behind_damage_that_no_row_of_the_time_can_be_in(how: str, turn: int, tmp_path: Path) -> None:
    """One copy ends with damage, and the other one begins after it. What is between them may be of any time."""
    paths = write_copies(tmp_path, {0: "[0-2 e0]"}, {5: "[5-6 e0] [7-9 e0]"})
    log = Path(paths[0], "t-0", writer.segment_name(0))
    if how == "time index":
        log.with_suffix(".timeindex").write_bytes(writer.time_index([(1020, 2)], 0))
        log.with_suffix(".index").write_bytes(b"")
        options: dict[str, Any] = {"since": 1040}
    else:
        kafkaseg.update_zone_maps_locally(paths[0], to=tmp_path / "maps")
        options = {"since": 1040, "zoneMaps": tmp_path / "maps"}
    whole = log.read_bytes()
    with pytest.raises(DataLossError, match="offsets 3 to 4"):
        read(paths[::turn], **options)
    log.write_bytes(whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:])
    with pytest.raises(CorruptRecordError, match=r"no copy holds the offsets [03] to 4 whole"):
        read(paths[::turn], **options)
    assert read(paths[::turn], mode="DROPMALFORMED", failOnDataLoss=False, **options) == rows(*range(5, 10))


@TURNS
def test_a_marker_behind_lost_files_and_a_wrong_offset(turn: int, tmp_path: Path) -> None:
    """Files of the only copy that reaches so far are gone. The marker behind them may be that of another transaction,
    also where a batch before them has a wrong offset, and an index file leads to it."""
    begin, rest = encode_batches("[0-3 e0] [4-7 e0] [8-9 e0]"), encode_batches("[13-14 e0]")
    moved = make_transaction(10, 1)
    data = begin + (6).to_bytes(8) + moved[8:] + make_transaction(11, 2) + rest
    paths = write_bytes(tmp_path, {0: data, 20: make_marker("commit", 20)}, {0: encode_batches("[0-3 e0]")})
    starts = [len(encode_batches(text)) for text in ("[0-3 e0]", "[0-3 e0] [4-7 e0]", "[0-3 e0] [4-7 e0] [8-9 e0]")]
    entries = [*zip((4, 8, 10), starts, strict=True), (13, len(data) - len(rest))]
    index = Path(paths[0], "t-0", writer.segment_name(0)).with_suffix(".index")
    index.write_bytes(writer.offset_index(entries, 0))
    lenient: dict[str, Any] = {"mode": "DROPMALFORMED", "failOnDataLoss": False}
    with pytest.raises((CorruptRecordError, DataLossError)):
        kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    found = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed", **lenient).read_all()
    assert found["offset"].to_pylist() == [*range(10), 13, 14]
