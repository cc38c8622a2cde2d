"""A whole copy beside a compacted one: neither its own damage nor the bytes of the other one make it look thinned."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from tests.support import writer
from tests.support.layouts import encode_batches, mark, offsets, write_copies
from tests.support.writer import Rec

TURNS = pytest.mark.parametrize("turn", [1, -1])
THINNED = "records that compaction removed are not returned"


def file_of(path: str, base: int) -> Path:
    return Path(path, "t-0", writer.segment_name(base))


def cleaned(first: int, last: int, kept: list[int]) -> bytes:
    """A batch that the cleaner wrote with a delete horizon (KIP-534): the timestamp of each record takes more bytes."""
    records = [Rec(at - first, 1000 + 10 * at, b"k%d" % at, f"v{at} of e0".encode()) for at in kept]
    return writer.record_batch(
        records,
        base_offset=first,
        last_offset_delta=last - first,
        base_timestamp=1_700_000_000_000,
        delete_horizon=True,
    )


@TURNS
def test_a_delete_horizon_makes_the_batches_of_the_cleaner_larger(turn: int, tmp_path: Path) -> None:
    """More bytes are no more records. Nothing is damaged here."""
    whole = {0: "[0-3 e0] [4-43 e0]", 44: "[44-45 e0]"}
    paths = write_copies(tmp_path, whole, {0: "", 44: "[44-45 e0]"})
    file_of(paths[1], 0).write_bytes(cleaned(0, 3, [3]) + cleaned(4, 43, [*range(4, 44)]))
    assert file_of(paths[1], 0).stat().st_size > file_of(paths[0], 0).stat().st_size
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(46))


@TURNS
@pytest.mark.parametrize("first", ["[0-1 e0]", "[0-1 e0 !]"])
@pytest.mark.parametrize("last", ["[5 e0]", "[5 e0 !]"])
def test_a_batch_between_damage_beside_larger_batches_of_the_cleaner(
    first: str, last: str, turn: int, tmp_path: Path
) -> None:
    """Nothing marks the other copy as compacted. Its batches show it."""
    behind = {7: "[7-9 e0]", 10: "[10 e0]"}
    paths = write_copies(tmp_path, {0: f"{first} [2-4 e0] {last} [6 e0]", **behind}, {0: "", **behind})
    file_of(paths[1], 0).write_bytes(
        cleaned(0, 1, [0, 1]) + cleaned(2, 4, [3, 4]) + cleaned(5, 5, [5]) + cleaned(6, 6, [6])
    )
    assert offsets(paths[::turn]) == list(range(11))


@TURNS
def test_a_batch_that_moved_in_its_file_is_not_what_compaction_took(turn: int, tmp_path: Path) -> None:
    """The other copy is marked as compacted, and has more bytes behind what is left of the batches before."""
    whole = {10: "[24-27 e0] [10-13 e0] [14-17 e0] [18 e0] [19-20 e0] [21-22 e0] [23 e0] [28-30 e0]"}
    thinned = {10: "[10-13 e0 (12)] [14-17 e0 (16,17)] [19-20 e0 (19)] [21-22 e0]", 23: "[23 e0] [24-27 e0]"}
    paths = write_copies(tmp_path, whole, thinned)
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(10, 31))


GARBAGE = {
    "garbage": b"\xa0" * 300,
    "zeros": bytes(512),
    "torn": encode_batches("[12-14 e0] [12-14 e0] [12-14 e0]")[:-9],
    "hurt": encode_batches("[12-14 e0 !]") * 3,
}


@TURNS
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("is_last", [True, False])
def test_bytes_between_two_batches_of_the_compacted_copy(
    is_last: bool, garbage: bytes, turn: int, tmp_path: Path
) -> None:
    """No offset is missing there. So they are no bytes of the log."""
    whole = {0: "[0-1 e0]", 2: "[2-6 e0] [7-11 e0] [12-14 e0] [15-17 e0] [18-19 e0]", 20: "[20-27 e0] [28-30 e0]"}
    first, last = ["[1 e0]", "[2-6 e0 (2,3,5,6)] [7-11 e0]"], ["[12-14 e0]", "[15-17 e0] [18-19 e0] [20-27 e0]"]
    paths = write_copies(tmp_path, whole, {0: " ".join(first), 12: " ".join(last)})
    before, behind = map(encode_batches, last if is_last else first)
    file_of(paths[1], 12 if is_last else 0).write_bytes(before + garbage + behind)
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(31))


@TURNS
@pytest.mark.parametrize("removed", ["", "[23-24 e0 (24)] "])
@pytest.mark.parametrize("order", ["[20-22 e0] [25-27 e0] [23-24 e0]", "[23-24 e0] [25-27 e0] [20-22 e0]"])
def test_a_last_file_whose_batches_changed_their_order(order: str, removed: str, turn: int, tmp_path: Path) -> None:
    """The last batch is right, though the other copy has the one before it at its place. Those in order are whole."""
    whole = {0: "[0-9 e0] [10-19 e0]", 20: order}
    paths = write_copies(tmp_path, whole, {0: f"[0-9 e0] [10-19 e0] [20-22 e0] {removed}[25-27 e0]", 28: "[28-31 e0]"})
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(32))


@TURNS
@pytest.mark.parametrize("order", [(0, 2, 1), (1, 2, 0)])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_last_file_of_an_old_format_whose_batches_changed_their_order(
    magic: int, order: tuple[int, ...], turn: int, tmp_path: Path
) -> None:
    write = writer.message_set_v1 if magic else writer.message_set_v0
    held = [range(20), range(20, 23), range(23, 25), range(25, 28), range(28, 32)]
    data = [
        write([Rec(at - one[0], 1000, b"k", f"v{at} of e0".encode()) for at in one], base_offset=one[0], codec="gzip")
        for one in held
    ]
    paths = write_copies(tmp_path, {}, {})
    file_of(paths[0], 0).write_bytes(data[0])
    file_of(paths[0], 20).write_bytes(b"".join(data[1 + at] for at in order))
    file_of(paths[1], 0).write_bytes(data[0] + data[1] + data[3])
    file_of(paths[1], 28).write_bytes(data[4])
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(32))


@TURNS
@pytest.mark.parametrize("is_marked", [True, False])
def test_a_torn_file_before_the_last_one(
    is_marked: bool, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets are read from the compacted copy. That is said."""
    whole = {0: "[0-2 e0] [3 e0] [4-5 e0]", 6: "[6-9 e0]", 10: "[10 e0]"}
    thinned = {0: "[0-2 e0 (0,2)] [3 e0] [4-5 e0 (5)]", 6: "[6-9 e0 (6)]", 10: "[10 e0]"}
    paths = write_copies(tmp_path, whole, thinned)
    file_of(paths[0], 0).write_bytes(encode_batches("[0-2 e0] [3 e0]")[:-20])
    if is_marked:
        mark(paths[1])
    assert offsets(paths[::turn]) == [0, 1, 2, 3, *range(5, 11)]
    assert any("offsets 3 to 5 are read from a copy that was compacted" in message for message in caplog.messages)


@TURNS
def test_the_warning_names_all_offsets_that_are_read_from_the_compacted_copy(
    turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = {0: "[0-5 e0] [6 e0 !] [7-9 e0] [10-11 e0 !] [12-13 e0]", 14: "[14 e0]"}
    paths = write_copies(tmp_path, whole, {0: "[0-5 e0 (5)] [7-9 e0 (8)] [12-13 e0]", 14: "[14 e0]"})
    mark(paths[1])
    assert offsets(paths[::turn]) == [*range(6), 7, 8, 9, *range(12, 15)]
    said = " ".join(message for message in caplog.messages if THINNED in message)
    assert "6 to 6" in said and "10 to 11" in said


@TURNS
@pytest.mark.parametrize("view", ["batches", "transactions"])
def test_a_damaged_batch_of_the_compacted_copy_is_no_batch_of_another_cluster(
    view: str, turn: int, tmp_path: Path
) -> None:
    """These views do not check CRCs as a rule. Where the records of two copies are compared, they do."""
    paths = write_copies(tmp_path, {0: "[0-3 e0 (1)] [4-6 e0]"}, {0: "[0-3 e0] [4-6 e0]"})
    file = file_of(paths[0], 0)
    data = bytearray(file.read_bytes())
    data[data.index(b"v1 of e0")] ^= 1
    file.write_bytes(data)
    assert offsets(paths[::turn]) == list(range(7))
    rows = kafkaseg.plan(paths[::turn], view=view).to_reader().read_all()
    assert rows.num_rows == (2 if view == "batches" else 0)


@TURNS
@pytest.mark.parametrize(
    ("hurt", "whole"),
    [
        ({5: "[5-8 e0 @1029] [9-11 e0]"}, {5: "[5-8 e0] [9-11 e0] [12-14 e0]"}),
        ({5: "[5-8 e0 @1029] [9-11 e0]", 12: "[12-14 e0]"}, {5: "[5-8 e0] [9-11 e0]", 12: "[12-14 e0]"}),
    ],
)
def test_a_batch_that_states_offsets_behind_the_end_is_no_work_of_compaction(
    hurt: dict[int, str], whole: dict[int, str], turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One bit of its offset is wrong. No record is gone."""
    assert offsets(write_copies(tmp_path, hurt, whole)[::turn]) == list(range(5, 15))
    assert not [message for message in caplog.messages if THINNED in message]


@TURNS
def test_a_marked_copy_with_all_records_has_lost_none(
    turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read for a torn file of another copy."""
    paths = write_copies(tmp_path, {5: "[5-8 e0]", 9: "[9-11 e0]"}, {5: "[5-8 e0]", 9: "[9-11 e0]"})
    torn = file_of(paths[0], 5)
    torn.write_bytes(torn.read_bytes()[:-5])
    mark(paths[1])
    assert offsets(paths[::turn]) == list(range(5, 12))
    assert not [message for message in caplog.messages if THINNED in message]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_damaged_batch_that_one_of_two_replaced_copies_has(order: tuple[int, ...], tmp_path: Path) -> None:
    """Both hold the same history up to there. One of them has the batch as the leader had it."""
    paths = write_copies(
        tmp_path,
        {0: "[0-1 e0] [2-5 e0 (2,3,5) !] [6-7 e0] [8-9 e8]"},
        {0: "[0-1 e0] [2-5 e0 (2,3,5)] [6-7 e0] [8-9 e7]"},
        {0: "[0-1 e0] [2-5 e0 (3,5)] [6-7 e0] [8-9 e5]"},
    )
    mark(paths[2])
    assert offsets([paths[at] for at in order]) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
