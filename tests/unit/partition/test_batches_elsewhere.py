"""Whole batches at a wrong place, or with a wrong epoch, in one of two copies. The other one is sound, or compacted."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from tests.support import writer
from tests.support.layouts import encode_batches, mark, offsets, write_bytes, write_copies
from tests.support.writer import Rec

TURNS = pytest.mark.parametrize("turn", [1, -1])
PARTITION_LEADER_EPOCH_OFFSET = 12  # in a batch (Kafka: DefaultRecordBatch)
THINNED = "records that compaction removed are not returned"


def messages(*offsets_of_each: tuple[int, ...], magic: int = 1, stated: dict[int, int] | None = None) -> bytes:
    """Messages of magic 0 or 1, and wrappers of several. stated: the wrong offset of the one that begins there."""
    data = b""
    for held in offsets_of_each:
        records = [Rec(offset - held[0], 1000, b"k", f"v{offset} of e0".encode()) for offset in held]
        write = writer.message_set_v1 if magic else writer.message_set_v0
        one = write(records, base_offset=held[0], codec="gzip" if len(held) > 1 else "none")
        wrong = (stated or {}).get(held[0])
        data += one if wrong is None else wrong.to_bytes(8, "big") + one[8:]
    return data


# --- beside a compacted copy -----------------------------------------------------------------------------------------


@TURNS
def test_a_batch_twice_in_the_last_file_of_a_compacted_copy(turn: int, tmp_path: Path) -> None:
    """It is no reason to take the sound copy for the one with fewer bytes."""
    end = "[12-14 e0] [15-17 e0] {}[18-21 e0]"
    whole = {0: "[0-1 e0]", 2: "[2-6 e0] [7-11 e0] " + end.format(""), 22: "[22-24 e0]"}
    hurt = {0: "[1 e0] [2-6 e0 (2,3,5,6)] [7-11 e0]", 12: end.format("[12-14 e0] ") + " [22-24 e0]"}
    paths = write_copies(tmp_path, whole, hurt)
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(25))


@TURNS
def test_a_batch_that_moved_from_where_the_other_copy_is_thinned(
    turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hurt = {0: "[0-5 e0] [8-11 e0]", 6: "[6-7 e0]", 12: "[12-13 e0]"}
    thinned = {0: "[0-5 e0 (5)]", 6: "[6-7 e0] [8-11 e0 (10,11)]", 12: "[12-13 e0]"}
    paths = write_copies(tmp_path, hurt, thinned)
    mark(paths[1])
    assert offsets(paths[::turn]) == [*range(8), *range(10, 14)]
    assert any(f"its offsets 8 to 11 are read from a copy that was compacted: {THINNED}" in m for m in caplog.messages)


@TURNS
@pytest.mark.parametrize("is_marked", [True, False])
@pytest.mark.parametrize("before", ["", "[0-3 e0] "])
def test_two_last_batches_that_changed_places_beside_a_thinned_copy(
    before: str, is_marked: bool, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the other copy has of the first of them is read. With a mark or without, the plan says that more is gone."""
    base = 0 if before else 4
    thinned = {base: f"{before}[4-7 e0 (5)] [8-10 e0 (9)]"}
    paths = write_copies(tmp_path, {base: f"{before}[8-10 e0] [4-7 e0]"}, thinned)
    if is_marked:
        mark(paths[1])
    assert offsets(paths[::turn]) == [*range(base, 8), 9]
    assert any(f"its offsets 8 to 10 are read from a copy that was compacted: {THINNED}" in m for m in caplog.messages)


@TURNS
def test_a_wrong_last_offset_where_the_other_copy_has_nothing_left(
    turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = write_copies(tmp_path, {0: "[0-2 e0] [3-4 e0 @1]"}, {0: "[0-2 e0 (2)]", 5: "[5-9 e0]"})
    mark(paths[1])
    assert offsets(paths[::turn], 9) == [0, 1, 2, *range(5, 9)]
    assert any("compaction may have removed records of them" in message for message in caplog.messages)
    with pytest.raises(CorruptRecordError, match="offsets 10 on whole"):
        offsets(paths[::turn])


@TURNS
def test_a_file_with_the_thinned_content_of_the_other_copy(turn: int, tmp_path: Path) -> None:
    """The files behind it are sound, and have all that the content has of their offsets."""
    thinned = "[0-4 e0] [5 e0] [6-10 e0 (7,8,9)] [11-13 e0 (11,12)]"
    whole = {0: "[0-4 e0]", 5: "[5 e0] [6-10 e0]", 11: "[11-13 e0] [14-17 e0]", 18: "[18-20 e0]"}
    paths = write_copies(tmp_path, {**whole, 0: thinned}, {0: thinned, 14: "[14-17 e0]", 18: "[18-20 e0]"})
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(21))


@TURNS
@pytest.mark.parametrize("last", [True, False])
def test_a_batch_over_the_first_one_of_a_file(last: bool, turn: int, tmp_path: Path) -> None:
    """The file does not begin where that batch says."""
    texts = ["[11 e0]", "[12 e0]", "[13 e0]", "[14 e0]", "[15-16 e0]", "[17-18 e0]", "[19-23 e0]"]
    data, over = encode_batches(" ".join(texts)), encode_batches(texts[5])
    files = {11: over + data[len(over) :], 24: encode_batches("[24-28 e0]")}
    if last:
        files = {11: files[11] + files[24]}
    paths = write_bytes(tmp_path, files, {})
    other = {0: "[0-4 e0 (1)] [12 e0] [15-16 e0 (16)]", 17: "[17-18 e0] [19-23 e0 (20)]", 24: "[24-28 e0]"}
    paths[1:] = write_copies(tmp_path / "other", other)
    mark(paths[1])
    assert offsets(paths[::turn]) == [1, *range(12, 29)]


@TURNS
def test_a_batch_that_moved_in_a_file_of_a_copy_that_is_marked(turn: int, tmp_path: Path) -> None:
    """A gap of such a copy is no reason to ask the other one."""
    hurt = {0: "[0-2 e0]", 3: "[9-10 e0] [3-6 e0] [7-8 e0] [11-13 e0]", 14: "[14 e0]"}
    paths = write_copies(tmp_path, hurt, {0: "[0-2 e0] [3-6 e0]", 7: "[7-8 e0]"})
    mark(paths[0])
    with pytest.raises(DataLossError, match="has them at a wrong place: no file holds the offsets 9 to 10"):
        offsets(paths[::turn])


@TURNS
def test_a_wrong_offset_of_a_batch_without_records(turn: int, tmp_path: Path) -> None:
    whole = {0: "[0-16 e0] [17-19 e0] [20-21 e0]", 22: "[22-24 e0]"}
    paths = write_copies(tmp_path, whole, {0: "[0-16 e0 (3)]", 20: "[20-21 e0]", 22: "[22-24 e0]"})
    file = Path(paths[1], "t-0", writer.segment_name(0))
    file.write_bytes(file.read_bytes() + writer.record_batch([], base_offset=49, last_offset_delta=2))
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(25))


# --- names of files --------------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("end", [None, 27])
def test_a_file_of_an_old_log_under_the_name_of_the_last_one(end: int | None, turn: int, tmp_path: Path) -> None:
    """Magic 1 leaves gaps, so the file before does not tell. The other copy begins where the name says."""
    hurt = {0: messages((0,), (1,)), 2: messages((2,), (3,)), 14: encode_batches("[4-8 e2] [9-13 e2]")}
    paths = write_bytes(tmp_path, hurt, {14: encode_batches("[14 e2] [15-19 e2]"), 20: encode_batches("[20-29 e2]")})
    with pytest.raises(DataLossError, match=r"wrong place, and is named after a later .* offsets 4 to 13"):
        offsets(paths[::turn], end)


@TURNS
def test_a_file_that_was_renamed_over_the_last_one_beside_a_shorter_copy(turn: int, tmp_path: Path) -> None:
    """The other copy ends inside the last file. Nothing says how long that was."""
    hurt = {0: "[0 e6]", 11: "[1-4 e6] [5-10 e6]"}
    paths = write_copies(tmp_path, hurt, {0: "[0 e6]", 1: "[1-4 e6] [5-10 e6]", 11: "[11-15 e6]"})
    with pytest.raises(CorruptRecordError, match="offsets 16 on whole"):
        offsets(paths[::turn])
    assert not kafkaseg.verify(paths[::turn]).is_ok


@TURNS
def test_two_files_that_changed_their_names(turn: int, tmp_path: Path) -> None:
    """What the last file should hold is in the other one, so no more is lost."""
    whole = {0: "[0-2 e0] [3-5 e0] [6-8 e0]", 9: "[9-10 e0]", 11: "[11-12 e0]"}
    paths = write_copies(tmp_path, {0: whole[11], 9: whole[9], 11: whole[0]}, whole)
    assert offsets(paths[::turn]) == list(range(13))


@TURNS
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("end", [78, 77])
def test_a_last_file_of_an_old_format_with_a_lower_name(end: int, magic: int, turn: int, tmp_path: Path) -> None:
    middle = [(72, 73, 74, 75, 76), (77,), (78,)]
    hurt = {
        60: messages(tuple(range(60, 72)), magic=magic),
        72: messages(*middle, magic=magic),
        75: messages((79, 80), (81,), magic=magic),
    }
    held = [one for one in middle if one[-1] < end]
    paths = write_bytes(tmp_path, hurt, {60: hurt[60], 72: messages(*held, magic=magic)})
    with pytest.raises(DataLossError, match=rf"although the next file, 0*75\.log, .* offsets {end} to 78"):
        offsets(paths[::turn])


@TURNS
def test_a_name_that_hides_what_a_stale_copy_has_too(turn: int, tmp_path: Path) -> None:
    """Nothing shows whether 9 to 12 of the stale copy are of this history, so it is not read for them. The name of the
    second file hides them in the other copy."""
    kept = "[15-16 e1] [17-20 e1] [21 e1]"
    hurt = {0: "[0-2 e0] [3-6 e0] [7-8 e0] [9-11 e0] [12 e0] [13-14 e1]", 8: kept}
    stale = {3: "[3-6 e0]", 7: "[7-8 e0]", 9: "[9-11 e0]", 12: "[12 e0] [13-16 e0]"}
    paths = write_copies(tmp_path, hurt, {13: f"[13-14 e1] {kept}"}, stale, epochs=("", "1 13", ""))
    with pytest.raises(DataLossError, match=r"although the next file, 0*8\.log, .* offsets 9 to 12"):
        offsets(paths[::turn])


@TURNS
@pytest.mark.parametrize(
    ("stale", "led", "lost"),
    [
        ({1: "[1-3 e0] [4 e0]", 5: "[0 e0]"}, {2: "[2-3 e0] [4 e1]"}, "0 to 0"),
        ({2: "[2-3 e0]", 3: "[0-1 e0]", 4: "[4 e0]"}, {2: "[2-3 e0]", 4: "[4 e1]"}, "0 to 1"),
        ({0: "[0 e0] [2 e0] [3 e0]", 4: "[1 e0] [4 e0]"}, {3: "[3 e0] [4 e1]"}, "1 to 1"),
        ({0: "[1 e0] [2 e0] [3 e0]", 4: "[4 e0] [0 e0]"}, {3: "[3 e0] [4 e1]"}, "0 to 0"),
    ],
)
def test_a_stale_copy_with_a_batch_in_its_stale_end(
    stale: dict[int, str], led: dict[int, str], lost: str, turn: int, tmp_path: Path
) -> None:
    """The plan leaves its end out. But it alone has what lies below the other copy."""
    paths = write_copies(tmp_path, stale, led)[::turn]
    with pytest.raises(DataLossError, match=f"and is named after a later offset: no file holds the offsets {lost}"):
        offsets(paths)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("name", [0, 1, 3])
def test_a_first_file_with_a_lower_name_beside_a_stale_end(name: int, turn: int, tmp_path: Path) -> None:
    """The first batch says where the copy begins. Below that the other copy is read."""
    paths = write_copies(tmp_path, {name: "[4-5 e1]"}, {0: "[0 e0] [1-2 e0] [3 e0] [4 e0]"})
    table = kafkaseg.scan(paths[::turn], ["offset", "value"]).read_all().to_pydict()
    assert table["offset"] == list(range(6))
    assert table["value"][3:] == [b"v3 of e0", b"v4 of e1", b"v5 of e1"]
    mark(paths[0])  # compaction may have taken what lies below
    assert offsets(paths[::turn]) == [*range(name), 4, 5]


@TURNS
def test_a_renamed_file_whose_batch_fills_the_gap_that_its_name_makes(turn: int, tmp_path: Path) -> None:
    """It is no batch of a later leader at 16: the file before has these offsets, and the other copy has some."""
    hurt = {0: "[0-8 e0]", 9: "[9-11 e0] [12-15 e0] [16 e0] [17 e0]", 16: "[25-26 e1]", 18: "[18-19 e1] [20-24 e1]"}
    paths = write_copies(tmp_path, hurt, {12: "[12-15 e0] [16 e0]"}, epochs=("", "0 12"))[::turn]
    with pytest.raises(DataLossError, match="offsets 17 to 17"):
        offsets(paths)
    assert offsets(paths, mode="DROPMALFORMED", failOnDataLoss=False) == [*range(17), *range(18, 25)]


@TURNS
def test_two_batches_of_two_leaders_that_changed_places(turn: int, tmp_path: Path) -> None:
    """Each fills the gap of the other. So no batch of the earlier leader belongs at 37."""
    hurt = {0: "[0-26 e0] [27-28 e0] [37-39 e1] [32 e0] [33-36 e0] [29-31 e0] [40 e1] [41-43 e1]"}
    sound = {27: "[27-28 e0] [29-31 e0] [32 e0] [33-36 e0] [37-39 e1]"}
    assert offsets(write_copies(tmp_path, hurt, sound)[::turn]) == list(range(44))


@TURNS
def test_two_files_of_two_leaders_that_changed_their_bytes(turn: int, tmp_path: Path) -> None:
    """The last batch of the file before shows that no batch of the earlier leader belongs at 11."""
    hurt = {0: "[0-3 e0]", 4: "[11-14 e1]", 8: "[8 e1]", 9: "[9-10 e1]", 11: "[4-7 e0]", 15: "[15 e1] [16-19 e1]"}
    paths = write_copies(tmp_path, hurt, {11: "[11-14 e1]"}, epochs=("0 0, 1 8", "1 11"))[::turn]
    with pytest.raises(DataLossError, match=r"wrong place, and is named after a later .* offsets 4 to 7"):
        offsets(paths)
    assert offsets(paths, mode="DROPMALFORMED", failOnDataLoss=False) == [*range(4), *range(8, 20)]


# --- old formats -----------------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("magic", [0, 1])
def test_a_last_message_that_fell_into_the_wrapper_before_it(magic: int, turn: int, tmp_path: Path) -> None:
    held = [(500,), (501, 502), (503,)]
    hurt = {500: messages(*held, magic=magic, stated={503: 501})}
    paths = write_bytes(tmp_path, hurt, {500: messages(*held, (504,), (505, 506), magic=magic)})
    assert offsets(paths[::turn]) == list(range(500, 507))


@TURNS
@pytest.mark.parametrize("magic", [0, 1])
def test_a_last_wrapper_that_fell_and_that_no_other_copy_has(magic: int, turn: int, tmp_path: Path) -> None:
    held = [(14, 15, 16, 17), (18, 19, 20), (21, 22, 23)]
    hurt = {14: messages(*held, magic=magic, stated={21: 19})}
    paths = write_bytes(tmp_path, hurt, {14: messages(*held[:2], magic=magic)})
    with pytest.raises(CorruptRecordError, match="offsets 21 on whole"):
        offsets(paths[::turn])


# --- leader epochs ---------------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("third", [(), ({0: "[0-2 e0] [3-5 e0] [6-8 e3] [9-12 e3]"},)])
def test_a_last_batch_with_two_epochs(third: tuple[dict[int, str], ...], turn: int, tmp_path: Path) -> None:
    """Followers fetch batches byte for byte. So one of the two epochs is damaged, and neither decides."""
    whole = {0: "[0-2 e0] [3-5 e0] [6-8 e3]", 9: "[9-12 e3]"}
    paths = write_copies(tmp_path, whole, {0: "[0-2 e0] [3-5 e0]"}, *third)
    file = Path(paths[1], "t-0", writer.segment_name(0))
    data, place = bytearray(file.read_bytes()), len(encode_batches("[0-2 e0]")) + PARTITION_LEADER_EPOCH_OFFSET
    data[place : place + 4] = (16).to_bytes(4, "big")
    file.write_bytes(data)
    assert offsets(paths[::turn]) == list(range(13))


@TURNS
@pytest.mark.parametrize("epochs", [("", ""), ("2 30, 7 34", "2 30, 4 40, 6 56")])
@pytest.mark.parametrize("first", ["[34-39 e7] ", ""])
def test_a_file_of_the_log_in_a_copy_of_a_replaced_leader(
    first: str, epochs: tuple[str, str], turn: int, tmp_path: Path
) -> None:
    """The batch that both have proves nothing: the other copy goes on with an earlier leader."""
    log = {30: f"[30-33 e2] {first}", 40: "[40 e7]"}
    stale = {30: "[30-33 e2] [34-39 e2]", 40: "[40 e7]", 41: "[41-55 e4] [56-70 e6]"}
    paths = write_copies(tmp_path, log, stale, epochs=epochs)
    mark(paths[0])
    if not first and not epochs[0]:  # nothing says where the later leader began
        assert offsets(paths[::turn])[-1] == 40
    else:
        assert offsets(paths[::turn]) == [*range(30, 34), *(range(34, 40) if first else ()), 40]


@TURNS
@pytest.mark.parametrize("torn", [True, False])
def test_a_replaced_leader_below_an_empty_file_of_the_cleaner(torn: bool, turn: int, tmp_path: Path) -> None:
    """The copy begins below the other one, and has whole batches there. They lost."""
    log = {0: "", 12: "[12-15 e4] [16-18 e4]", 19: "[19-20 e5]"}
    paths = write_copies(tmp_path, {0: "[0-7 e2] [8-15 e2]"}, log, epochs=("2 0", "4 0, 5 19"))
    mark(paths[1])
    file = Path(paths[0], "t-0", writer.segment_name(0))
    file.write_bytes(file.read_bytes() + (encode_batches("[16-17 e2]")[:-4] if torn else b""))
    assert offsets(paths[::turn]) == list(range(12, 21))


@TURNS
@pytest.mark.parametrize("more", ["", " [22-24 e5]"])
@pytest.mark.parametrize("stale", [3, 4])
@pytest.mark.parametrize("flipped", [0, 1, 7, 21])
def test_a_last_batch_with_two_epochs_beside_a_replaced_leader(
    flipped: int, stale: int, more: str, turn: int, tmp_path: Path
) -> None:
    """One of the two is right. So the copies name the earlier one at least, and one before that of the batch before it
    is the wrong one."""
    log = "[0-9 e2] [10-19 e3] [20-21 e5]"
    paths = write_copies(
        tmp_path, {0: log}, {0: log + more}, {0: f"[0-9 e2] [10-19 e3] [20-21 e{stale}] [22-26 e{stale}]"}
    )
    file = Path(paths[1], "t-0", writer.segment_name(0))
    data, place = (
        bytearray(file.read_bytes()),
        len(encode_batches("[0-9 e2] [10-19 e3]")) + PARTITION_LEADER_EPOCH_OFFSET,
    )
    data[place : place + 4] = flipped.to_bytes(4, "big")
    file.write_bytes(data)
    assert offsets(paths[::turn]) == list(range(25 if more else 22))


@TURNS
@pytest.mark.parametrize("epochs", [("", "", ""), ("0 0, 3 27", "2 0, 4 19", "2 0")])
@pytest.mark.parametrize("straddling", [True, False])
def test_a_replaced_leader_counts_by_what_is_left_of_its_copy(
    straddling: bool, epochs: tuple[str, ...], turn: int, tmp_path: Path
) -> None:
    """Its later epoch lies behind the offset from which on it lost. Below, the follower of the other history counts."""
    stale = "[0-4 e0] [5-12 e0] [13-26 e0] [27-31 e3]" if straddling else "[0-4 e0] [5-7 e0] [8-26 e0] [27-31 e3]"
    log, follower = {8: "[8-11 e2] [12-18 e2]", 19: "[19-20 e4] [21 e4]"}, {0: "[0-2 e2] [3-7 e2]"}
    paths = write_copies(tmp_path, {0: stale}, log, follower, epochs=epochs)
    table = kafkaseg.scan(paths[::turn], ["value"]).read_all().to_pydict()
    leaders = [2] * 19 + [4] * 3
    assert table["value"] == [f"v{offset} of e{epoch}".encode() for offset, epoch in enumerate(leaders)]


@TURNS
@pytest.mark.parametrize("size", [17, 30, 60, 61])
def test_a_leader_that_died_in_the_header_of_its_first_batch(size: int, turn: int, tmp_path: Path) -> None:
    """The first 17 bytes state the offset, the epoch and the magic."""
    epochs = ("2 0, 9 10", "2 0")
    paths = write_copies(tmp_path, {0: "[0-9 e2]", 10: ""}, {0: "[0-9 e2] [10-19 e2]"}, epochs=epochs)
    file = Path(paths[0], "t-0", writer.segment_name(10))
    file.write_bytes(encode_batches("[10-13 e9]")[:size])
    assert offsets(paths[::turn]) == list(range(10))


@TURNS
@pytest.mark.parametrize("epochs", [("", ""), ("2 0, 9 18", "2 0, 3 10")])
def test_a_batch_of_the_history_that_lost_makes_up_for_none(epochs: tuple[str, str], turn: int, tmp_path: Path) -> None:
    hurt = {0: "[0-9 e2] [10-11 e2]", 10: "[12-17 e2]", 18: "[18-19 e9] [20-23 e9]", 24: "[24-26 e9]"}
    stale = {0: "[0-9 e2]", 10: "[10-11 e3] [12-13 e3] [14-19 e3]"}
    paths = write_copies(tmp_path, hurt, stale, epochs=epochs)
    with pytest.raises(DataLossError, match="has them, although the next file"):
        offsets(paths[::turn])


@TURNS
@pytest.mark.parametrize("name", [16, 19, 20, 22, 25])
@pytest.mark.parametrize("epochs", [("", ""), ("0 0, 2 10, 3 18", "0 0, 2 10")])
def test_a_wrong_name_of_the_last_file_of_a_replaced_leader(
    epochs: tuple[str, str], name: int, turn: int, tmp_path: Path
) -> None:
    """A later leader has batches at the offsets of its batches."""
    log = {0: "[0-9 e0]", 10: "[10-17 e2]", 18: "[18-19 e3] [20-23 e3] [24-25 e3]"}
    stale = {0: "[0-9 e0]", 10: "[10-17 e2]", name: "[18-19 e2] [20-25 e2]"}
    assert offsets(write_copies(tmp_path, log, stale, epochs=epochs)[::turn]) == list(range(26))


# --- two copies that were compacted apart ----------------------------------------------------------------------------


@TURNS
def test_a_batch_in_the_last_file_that_another_cleaning_left_differently(turn: int, tmp_path: Path) -> None:
    whole = {0: "[0-2 e0 (0,2)] [3 e0]", 6: "[6-9 e0 (6,8,9)]", 18: "[18-21 e0]"}
    hurt = {0: "[3 e0]", 6: "[6-9 e0 (6,7,8)]", 18: "[0-2 e0 (0,1)] [18-21 e0]"}
    paths = write_copies(tmp_path, whole, hurt)
    for path in paths:
        mark(path)
    found = offsets(paths[::turn])
    assert set(found) >= {0, 3, 6, 8, *range(18, 22)}


@TURNS
@pytest.mark.parametrize("at", [0, 1])
def test_a_wrong_offset_of_a_batch_that_another_cleaning_left_differently(at: int, turn: int, tmp_path: Path) -> None:
    """The gap that it leaves is where the other copy has it."""
    files = ["[0-2 e0 (0,1)]", "[3-5 e0 (3,4)]", "[8-9 e0]"]
    files[at] = files[at].replace("]", " @1048576]")
    whole = {0: "[0-2 e0 (0,2)] [3-5 e0 (3,5)] [8-9 e0]", 12: "[12-13 e0]"}
    paths = write_copies(tmp_path, whole, {0: " ".join(files), 12: "[12-13 e0]"})
    for path in paths:
        mark(path)
    assert set(offsets(paths[::turn])) >= {0, 3, 8, 9, 12, 13}


@TURNS
def test_garbage_behind_a_batch_behind_a_gap(turn: int, tmp_path: Path) -> None:
    """The two have too few bytes to be that batch over those that the other copy has in the gap."""
    paths = write_copies(
        tmp_path, {0: "[0-4 e0] [8-9 e0]", 10: "[10-13 e0]"}, {0: "[0-4 e0] [5-7 e0] [8-9 e0]", 10: "[10-13 e0]"}
    )
    file = Path(paths[0], "t-0", writer.segment_name(0))
    file.write_bytes(file.read_bytes() + b"\xa0" * 20)
    for path in paths:
        mark(path)
    assert set(offsets(paths[::turn])) >= {*range(5), *range(8, 14)}


# --- a last wrapper --------------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("magic", [0, 1])
def test_a_flipped_offset_of_a_last_wrapper_beside_a_sound_copy(magic: int, turn: int, tmp_path: Path) -> None:
    """The sound one begins where the wrapper before it ends, so it leaves no gap."""
    held = [tuple(range(21)), (21, 22, 23), (24, 25, 26, 27), (28, 29, 30)]
    hurt = messages(*held, magic=magic, stated={28: 28})
    paths = write_bytes(tmp_path, {0: hurt}, {0: messages(*held, magic=magic)})
    assert offsets(paths[::turn]) == list(range(31))


@TURNS
@pytest.mark.parametrize("other", [{14: "[14-15 e0]"}, {0: "[0-2 e0]"}, {14: ""}])
@pytest.mark.parametrize(
    "files",
    [
        {0: "[0-2 e0] [7-8 e0 @10] [3-4 e0]", 5: "[5-6 e0] [9 e0]", 10: "[10-12 e0] [13 e0]"},
        {0: "[0-2 e0] [3 e0] [8 e0 @9] [4 e0] [5-7 e0] [9 e0]", 10: "[10-12 e0] [13 e0]"},
        {0: "[0-2 e0] [3 e0] [8 e0 @9] [4 e0] [5-7 e0] [9 e0] [10-12 e0] [13 e0]"},
    ],
)
def test_a_batch_that_moved_and_states_the_offset_of_another_one(
    files: dict[int, str], other: dict[int, str], turn: int, tmp_path: Path
) -> None:
    """The gap that it left has just its size."""
    paths = write_copies(tmp_path, files, other)
    with pytest.raises(CorruptRecordError, match="batch out of order"):
        offsets(paths[::turn], 14)


@TURNS
@pytest.mark.parametrize("other", [{24: "[24-26 e0]"}, {13: "[13-16 e0]"}, {10: "[10-11 e0] [12-13 e0]"}])
def test_a_batch_that_moved_beside_a_history_that_lost(other: dict[int, str], turn: int, tmp_path: Path) -> None:
    """What that has in the gap belongs to another log. So it is before the first batch of a copy."""
    files = {10: "[10-11 e1] [14-17 e1]", 18: "[18 e1] [12-13 e1 @13] [19-22 e1]", 23: ""}
    first = {12: "[14-17 e1]", 18: files[18], 23: ""}
    for number, whole in enumerate((files, first)):
        paths = write_copies(tmp_path / str(number), whole, other)
        with pytest.raises((CorruptRecordError, DataLossError)):
            offsets(paths[::turn])


@TURNS
@pytest.mark.parametrize(
    ("files", "other"),
    [
        ({0: "[2-4 e0 @5] [0-1 e0]", 2: "[5-8 e0]"}, {9: "[9-10 e0]"}),
        ({0: "[0-3 e0] [4-5 e0] [10-12 e0 @13] [6-7 e0]", 8: "[8-9 e0] [13 e0]", 14: "[14 e0]"}, {15: "[15-17 e0]"}),
        ({0: "[0-3 e0] [10-12 e0 @13] [4-7 e0] [8-9 e0] [13 e0]", 14: "[14 e0]"}, {15: "[15-17 e0]"}),
    ],
)
@pytest.mark.parametrize("marked", [(), (0,), (1,)])
def test_a_batch_that_moved_beside_copies_that_do_not_reach_its_gap(
    files: dict[int, str], other: dict[int, str], marked: tuple[int, ...], turn: int, tmp_path: Path
) -> None:
    paths = write_copies(tmp_path, files, other)
    for at in marked:
        mark(paths[at])
    with pytest.raises(CorruptRecordError):
        offsets(paths[::turn])


@TURNS
@pytest.mark.parametrize("stated", [30, 35, 36, 38])
@pytest.mark.parametrize("behind", [{}, {47: "[47-48 e0]"}])
def test_a_batch_that_was_carried_into_a_later_file(
    behind: dict[int, str], stated: int, turn: int, tmp_path: Path
) -> None:
    """The other copy has it below the name of that file."""
    hurt = {35: "[38-40 e0] [41-43 e0]", 44: f"[35-37 e0 @{stated}] [44-46 e0]", **behind}
    paths = write_copies(tmp_path, hurt, {35: "[35-37 e0] [38-40 e0] [41-43 e0] [44-46 e0]"})
    assert offsets(paths[::turn]) == list(range(35, 49 if behind else 47))


@TURNS
def test_two_batches_of_two_files_that_changed_their_places(turn: int, tmp_path: Path) -> None:
    """No name and no size shows it. The read of each file asks the other copy for what it lacks."""
    swapped = {0: "[0-2 e0] [7 e0] [4 e0]", 5: "[5-6 e0] [3 e0] [8-9 e0]", 10: "[10-12 e0] [13 e0]"}
    whole = {0: "[0-2 e0] [3 e0] [4 e0]", 5: "[5-6 e0] [7 e0] [8-9 e0]", 10: "[10-12 e0]"}
    assert offsets(write_copies(tmp_path, swapped, whole)[::turn]) == list(range(14))


@TURNS
def test_a_foreign_batch_in_a_whole_copy(turn: int, tmp_path: Path) -> None:
    """No gap is where it may belong."""
    files = {0: "[0-2 e0] [7-8 e0 @10] [3-4 e0]", 5: "[5-9 e0]", 10: "[10-12 e0] [13 e0]"}
    paths = write_copies(tmp_path, files, {14: "[14-15 e0]"})
    assert offsets(paths[::turn]) == list(range(16))


@TURNS
@pytest.mark.parametrize("first", ["[0-2 e0 !]", "[0-2 e0]"])
def test_damage_of_magic_2_is_none_of_an_old_format(
    first: str, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {0: f"{first} [3-5 e0 !] [6 e0]", 7: "[7-8 e0]"}
    paths = write_copies(tmp_path, files, {0: "[0-2 e0] [3-5 e0] [6 e0] [7-8 e0]"})
    assert offsets(paths[::turn]) == list(range(9))
    assert not any("magic 0 or 1" in message for message in caplog.messages)


@TURNS
@pytest.mark.parametrize("behind", ["", " [26 e0]"])
def test_a_batch_from_below_the_start_of_a_copy_lies_over_one_of_its_own(
    behind: str, turn: int, tmp_path: Path
) -> None:
    """Retention has deleted what it was copied from, and the other copy still has that."""
    hurt = {10: "[10-14 e0] [15-19 e0]", 20: f"[20-22 e0] [5-7 e0]{behind}"}
    paths = write_copies(tmp_path, {0: "[0-4 e0] [5-7 e0] [8-9 e0]", 10: "[10-14 e0] [15-19 e0]"}, hurt)
    with pytest.raises(CorruptRecordError, match="offsets 23 "):
        offsets(paths[::turn])


@TURNS
def test_a_last_file_with_the_batches_of_an_earlier_one(turn: int, tmp_path: Path) -> None:
    """It lies behind all that the other copy has, so its own batches are lost."""
    whole = {0: "[0-4 e0] [5-7 e0]", 8: "[8-9 e0]"}
    paths = write_copies(tmp_path, whole, {**whole, 10: "[5-7 e0]"})
    with pytest.raises(CorruptRecordError, match="offsets 10 "):
        offsets(paths[::turn])
