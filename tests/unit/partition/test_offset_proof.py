"""Offsets that no CRC covers: what contradicts a batch is damage, and another copy or an error answers for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError
from tests.support import writer
from tests.support.writer import Marker, Rec

JUMPS = [1 << bit for bit in (4, 5, 6, 7, 23, 30, 31, 40, 62, 63)]
BATCHES = [(0, 9), (10, 11), (12, 13), (14, 15), (16, 17), (18, 19)]


def make_batch(first: int, last: int, stated: int | None = None) -> bytes:
    """A batch of the offsets `first` to `last`, which states another baseOffset if one is given."""
    recs = [Rec(at, 1000 + first + at, None, b"v%d" % (first + at)) for at in range(last - first + 1)]
    data = writer.record_batch(recs, base_offset=first, leader_epoch=1)
    return data if stated is None else struct.pack(">Q", stated) + data[8:]


def spoil(batch: bytes) -> bytes:
    """The batch with another last byte, so that its CRC does not hold."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def write_log(root: Path, batches: list[bytes], entry: tuple[int, int] | None = None, epochs: bool = False) -> Path:
    """Writes one segment of t-0. entry: an offset, and the number of the batch that the `.index` names for it."""
    folder = root / "t-0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / writer.segment_name(0)).write_bytes(b"".join(batches))
    if entry is not None:
        offset, at = entry
        index = writer.offset_index([(offset, sum(map(len, batches[:at])))], 0)
        (folder / writer.segment_name(0, ".index")).write_bytes(index)
    if epochs:
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    return root


def read(paths: Any, **options: Any) -> list[tuple[int, bytes]]:
    found = kafkaseg.scan(paths, ["offset", "value"], **options).read_all()
    return list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))


def rows(*offsets: int) -> list[tuple[int, bytes]]:
    return [(offset, b"v%d" % offset) for offset in offsets]


READS: list[dict[str, Any]] = [{}, {"mode": "DROPMALFORMED"}, {"isolationLevel": "read_committed"}]


@pytest.mark.parametrize("epochs", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_before_a_damaged_batch(jump: int, indexed: bool, epochs: bool, tmp_path: Path) -> None:
    """The batches behind the damage step back, so the jump is wrong: the other copy has both batches whole."""
    whole = [make_batch(*each) for each in BATCHES]
    hurt = [whole[0], make_batch(10, 11, 10 ^ jump), spoil(whole[2]), *whole[3:]]
    a = write_log(tmp_path / "A", hurt, (19, 5) if indexed else None, epochs)
    b = write_log(tmp_path / "B", whole, None, epochs)
    for options in READS:
        assert read([a, b], **options) == rows(*range(20)), options
        assert read([b, a], **options) == rows(*range(20)), options
    assert kafkaseg.verify([a, b]).problems == ()


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_before_a_damaged_batch_of_one_copy(jump: int, indexed: bool, tmp_path: Path) -> None:
    """One copy: the jump is the first damage, and no more than the two batches are left out."""
    whole = [make_batch(*each) for each in BATCHES]
    hurt = [whole[0], make_batch(10, 11, 10 ^ jump), spoil(whole[2]), *whole[3:]]
    a = write_log(tmp_path / "A", hurt, (19, 5) if indexed else None)
    for options in (READS[0], READS[2]):
        with pytest.raises(CorruptRecordError) as caught:
            read(a, **options)
        assert caught.value.position == len(whole[0])
    assert read(a, mode="DROPMALFORMED") == rows(*range(10), *range(14, 20))
    assert [problem.position for problem in kafkaseg.verify(a).problems][:1] == [len(whole[0])]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_before_a_damaged_batch_beside_a_longer_copy(jump: int, tmp_path: Path) -> None:
    """The other copy begins at the jump and is longer: nothing between is lost."""
    whole = [make_batch(*each) for each in BATCHES]
    hurt = [whole[0], make_batch(10, 11, 10 ^ jump), spoil(whole[2]), *whole[3:]]
    a = write_log(tmp_path / "A", hurt, (19, 5))
    folder = tmp_path / "B" / "t-0"
    folder.mkdir(parents=True)
    (folder / writer.segment_name(10)).write_bytes(b"".join([*whole[1:], make_batch(20, 49)]))
    for options in READS:
        assert read([a, tmp_path / "B"], **options) == rows(*range(50)), options


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("stated", [*(18 ^ jump for jump in JUMPS), 3, 17])
def test_a_wrong_last_batch_that_another_copy_has_whole(stated: int, indexed: bool, torn: bool, tmp_path: Path) -> None:
    """The other copy has the same batch, by its CRC, where the batch before it ends."""
    whole = [make_batch(*each) for each in BATCHES]
    hurt = [*whole[:5], make_batch(18, 19, stated), *([make_batch(20, 21)[:-5]] if torn else [])]
    a = write_log(tmp_path / "A", hurt, (19, 5) if indexed else None)
    b = write_log(tmp_path / "B", whole)
    for options in READS:
        assert read([a, b], **options) == rows(*range(20)), options
        assert read([b, a], **options) == rows(*range(20)), options


@pytest.mark.parametrize("entry", [(14, 1), (6, 1)])
@pytest.mark.parametrize("stated", [4, 0, 5, 2])
@pytest.mark.parametrize("start", range(20))
def test_a_window_into_a_batch_that_fell(start: int, stated: int, entry: tuple[int, int], tmp_path: Path) -> None:
    """The batch begins before the one before it ends, and offsets are missing after it: no row has a wrong offset."""
    batches = [make_batch(0, 5), make_batch(6, 14, stated), make_batch(15, 19), make_batch(20, 29)]
    a = write_log(tmp_path / "A", batches, entry)
    if start < 15:
        with pytest.raises(CorruptRecordError) as caught:
            read(a, startingOffsets={"t": {"0": start}})
        assert caught.value.position == len(batches[0])
    wanted = [offset for offset in (*range(6), *range(15, 30)) if offset >= start]
    assert read(a, startingOffsets={"t": {"0": start}}, mode="DROPMALFORMED") == rows(*wanted)


@pytest.mark.parametrize("stated", [1, 0])
def test_a_marker_that_fell_ends_its_transaction_from_another_copy(stated: int, tmp_path: Path) -> None:
    """The marker is looked for behind the batches at hand, and they contradict what it states."""
    recs = [Rec(at, 1000 + at, None, b"v%d" % at) for at in range(3)]
    begun = writer.record_batch(recs, base_offset=0, producer_id=7, producer_epoch=0, transactional=True)
    marker = writer.control_batch("commit", offset=3, producer_id=7, timestamp=1003)
    a = write_log(tmp_path / "A", [begun, struct.pack(">Q", stated) + marker[8:], make_batch(4, 5)])
    b = write_log(tmp_path / "B", [begun, marker, make_batch(4, 5)])
    for lenient in ({}, {"failOnDataLoss": False}):
        assert read([a, b], isolationLevel="read_committed", **lenient) == rows(0, 1, 2, 4, 5), lenient


@pytest.mark.parametrize("options", READS)
def test_a_range_that_begins_beside_damage_loses_nothing_in_silence(options: dict[str, Any], tmp_path: Path) -> None:
    """A batch behind the damage has fallen below the first batch of the range. That one is borne out by what the
    damaged batch states, so it has not risen, and the damage is one of the wanted offsets."""
    whole = [make_batch(*each) for each in BATCHES]
    hurt = [*whole[1:3], spoil(whole[3]), make_batch(16, 17, 11), whole[5]]
    folder = tmp_path / "A" / "t-0"
    folder.mkdir(parents=True)
    (folder / writer.segment_name(10)).write_bytes(b"".join(hurt))
    (folder / writer.segment_name(10, ".index")).write_bytes(writer.offset_index([(13, len(hurt[0]))], 10))
    b = write_log(tmp_path / "B", [*whole[:3], spoil(whole[3])])
    if "mode" in options:
        found = read([tmp_path / "A", b], startingOffsets={"t": {"0": 14}}, **options)
        assert found == rows(18, 19)
        return
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 14"):
        read([tmp_path / "A", b], startingOffsets={"t": {"0": 14}}, **options)


def test_a_batch_between_damaged_ones_that_leave_its_place(tmp_path: Path) -> None:
    """What the damaged batches state leaves exactly the length of the one between them, but at another place."""
    batches = [make_batch(0, 9), spoil(make_batch(10, 13)), make_batch(14, 14, 12), spoil(make_batch(15, 16))]
    a = write_log(tmp_path, [*batches, make_batch(17, 19)])
    assert read(a, mode="DROPMALFORMED") == rows(*range(10), 17, 18, 19)


def test_a_right_batch_between_damaged_ones(tmp_path: Path) -> None:
    """One of them has a wrong offset, so its place is not the one that they leave."""
    batches = [make_batch(0, 9), spoil(make_batch(10, 13)), make_batch(14, 14), spoil(make_batch(15, 16, 13))]
    a = write_log(tmp_path, [*batches, make_batch(17, 19)])
    assert read(a, mode="DROPMALFORMED") == rows(*range(10), 14, 17, 18, 19)


@pytest.mark.parametrize("options", READS)
def test_a_batch_that_fell_behind_damage_and_a_right_one(options: dict[str, Any], tmp_path: Path) -> None:
    """The damaged batch after the two leaves the second one its place, so the first one is right."""
    whole = [make_batch(0, 3), make_batch(4, 4), make_batch(5, 6), make_batch(7, 10), make_batch(11, 12)]
    a = write_log(tmp_path / "A", [whole[0], make_batch(4, 4, 6), *whole[2:]])
    b = write_log(tmp_path / "B", [spoil(whole[0]), whole[1], make_batch(5, 6, 4), spoil(whole[3]), whole[4]])
    assert read([a, b], **options) == rows(*range(13))
    assert read([b, a], **options) == rows(*range(13))


@pytest.mark.parametrize("options", READS)
def test_a_jump_before_a_header_that_cannot_be_read(options: dict[str, Any], tmp_path: Path) -> None:
    """The damaged batch after it has an impossible last offset, so nobody knows where it ends."""
    whole = [make_batch(0, 0), make_batch(1, 2), make_batch(3, 4), make_batch(5, 8)]
    broken = whole[1][:23] + b"\x80" + whole[1][24:]
    a = write_log(tmp_path / "A", [make_batch(0, 0, 1), broken, whole[2], whole[3]])
    b = write_log(tmp_path / "B", whole[:2])
    assert read([a, b], **options) == rows(*range(9))
    assert read([b, a], **options) == rows(*range(9))


def write_segments(root: Path, segments: dict[int, list[bytes]]) -> Path:
    """Writes segments of t-0 by their base offsets."""
    folder = root / "t-0"
    folder.mkdir(parents=True)
    for base, batches in segments.items():
        (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
    return root


@pytest.mark.parametrize("cut", [{"maxRecordsPerPartition": 1}, {"minPartitions": 3}, {"minPartitions": 5}])
def test_pieces_of_a_segment_with_a_jump_leave_no_bytes_out(cut: dict[str, Any], tmp_path: Path) -> None:
    """A batch that states an offset of a later segment makes no cut. So a piece reads it, and another copy has it."""
    a = write_segments(tmp_path / "A", {0: [make_batch(0, 1, 16)], 2: [make_batch(2, 4), make_batch(5, 5, 999)], 6: []})
    b = write_segments(tmp_path / "B", {0: [make_batch(0, 1), make_batch(2, 4), make_batch(5, 5)]})
    assert read([a, b], **cut) == rows(*range(6))
    one = write_segments(tmp_path / "C", {0: [make_batch(0, 1), make_batch(2, 3, 16)], 4: [make_batch(4, 5)]})
    with pytest.raises(CorruptRecordError, match="out of order"):
        read([one, write_segments(tmp_path / "D", {0: [make_batch(0, 1)]})], **cut)


@pytest.mark.parametrize("stated", [1, 2, 4, 5, 900])
def test_the_last_batch_of_a_segment_reaches_into_the_next_one(stated: int, tmp_path: Path) -> None:
    """It states offsets of the next segment. So it decides nothing about histories, and the other copy is read."""
    a = write_segments(tmp_path / "A", {0: [make_batch(0, 3, stated)], 4: [make_batch(4, 5)]})
    b = write_segments(tmp_path / "B", {0: [make_batch(0, 3)]})
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(6))


@pytest.mark.parametrize("outcome", ["abort", "commit"])
def test_a_jump_on_the_way_to_a_marker(outcome: Marker, tmp_path: Path) -> None:
    """The only batch of the next segment states an offset behind the marker, which must be found all the same."""
    begun = writer.record_batch(
        [Rec(0, 1000, None, b"v0")], base_offset=0, producer_id=7, producer_epoch=0, transactional=True, leader_epoch=1
    )
    marker = writer.control_batch(outcome, offset=3, producer_id=7, timestamp=1003, leader_epoch=1)
    later = {3: [marker], 4: [make_batch(4, 19)]}
    a = write_segments(tmp_path / "A", {0: [begun], 1: [make_batch(1, 2, 17)], **later})
    b = write_segments(tmp_path / "B", {0: [begun, make_batch(1, 2)]})
    first = [0] if outcome == "commit" else []
    for paths in ([a, b], [b, a]):
        assert read(paths, isolationLevel="read_committed") == rows(*first, 1, 2, *range(4, 20))
    assert read(a, isolationLevel="read_committed", mode="DROPMALFORMED", failOnDataLoss=False) == rows(*range(4, 20))


BASES_OF_TWO_FLIPS = [(0, 4), (5, 8), (9, 13), (14, 15)]


@pytest.mark.parametrize("entry", [None, (8, 1), (13, 2), (15, 3)])
def test_two_jumps_beside_a_short_copy(entry: tuple[int, int] | None, tmp_path: Path) -> None:
    """The file contradicts the jumps further on. So they do not end the log, whatever the index lets planning see."""
    whole = [make_batch(*each) for each in BASES_OF_TWO_FLIPS]
    a = write_log(tmp_path / "A", [make_batch(0, 4, 32), make_batch(5, 8, 133), *whole[2:]], entry)
    b = write_log(tmp_path / "B", whole[:1])
    for paths in ([a, b], [b, a]):
        with pytest.raises(CorruptRecordError):
            read(paths)


def test_two_falls_in_the_last_segment(tmp_path: Path) -> None:
    """The last batch fills the place of the first one, so the offsets show no gap for the damage."""
    first = make_batch(0, 2)
    hurt = [make_batch(3, 4, 1), make_batch(5, 6), make_batch(7, 7, 3)]
    a = write_segments(tmp_path / "A", {0: [first], 3: hurt})
    b = write_log(tmp_path / "B", [first])
    with pytest.raises(CorruptRecordError):
        read([a, b])


def test_a_jump_ends_no_window(tmp_path: Path) -> None:
    """A batch that jumped beyond the window, and one behind it that fell: the rest of the window is behind them."""
    whole = [(0, 4), (5, 8), (9, 11), (12, 13), (14, 17), (18, 20), (21, 21), (22, 25)]
    stated = {9: 137, 12: 4}
    a = write_log(tmp_path / "A", [make_batch(*each, stated.get(each[0])) for each in whole])
    with pytest.raises(CorruptRecordError):
        read(a, endingOffsets='{"t": {"0": 21}}')


@pytest.mark.parametrize("fallen", [1, 4])
@pytest.mark.parametrize("stated", [9 ^ 1 << 6, 9 ^ 1 << 20, 9 ^ 1 << 40])
def test_a_fall_and_a_jump_that_another_copy_has_whole(fallen: int, stated: int, tmp_path: Path) -> None:
    """The damage before the last batch hides how large its gap is. The other copy has the batch inside it."""
    places = [(0, 4), (5, 6), (7, 8), (9, 12)]
    whole = [make_batch(*each) for each in places]
    a = write_log(tmp_path / "A", [whole[0], make_batch(5, 6, 5 ^ fallen), whole[2], make_batch(9, 12, stated)])
    b = write_log(tmp_path / "B", whole)
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(13))


def make_thinned(first: int, last: int, gone: set[int]) -> bytes:
    """A batch of the offsets `first` to `last`, from which compaction has removed some records."""
    recs = [Rec(at - first, 1000 + at, None, b"v%d" % at) for at in range(first, last + 1) if at not in gone]
    return writer.record_batch(recs, base_offset=first, leader_epoch=1, last_offset_delta=last - first)


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("thinned", [0, 1])
def test_the_only_batch_of_a_copy_has_jumped_and_another_copy_was_compacted(
    thinned: int, marked: bool, tmp_path: Path
) -> None:
    """Compaction has rewritten the batch in one copy. What is left of it is at the place that the other one leaves."""
    both = [make_batch(0, 2), make_thinned(0, 2, {0})]
    here, there = both[thinned], both[1 - thinned]
    a = write_segments(tmp_path / "A", {0: [there, make_batch(3, 4)], 5: [make_batch(5, 8)]})
    if marked:
        (a / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    b = write_log(tmp_path / "B", [struct.pack(">Q", 128) + here[8:]])
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(thinned == 0, 9))


@pytest.mark.parametrize("behind", [bytes(50), make_batch(3, 4)[:-5]], ids=["zeros", "torn"])
def test_the_only_batch_of_a_copy_has_jumped_before_what_may_end_a_log(behind: bytes, tmp_path: Path) -> None:
    a = write_log(tmp_path / "A", [make_batch(0, 2), make_batch(3, 4)])
    b = write_log(tmp_path / "B", [make_batch(0, 2, 128), behind])
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(5))


def test_the_first_batch_of_a_stale_tail_has_another_epoch(tmp_path: Path) -> None:
    """One of its two batches has a wrong epoch, nobody knows which. Both contradict the other copy's places."""

    def write(epoch: int, *places: tuple[int, int]) -> list[bytes]:
        return [batch[:12] + struct.pack(">i", epoch) + batch[16:] for batch in (make_batch(*each) for each in places)]

    thinned = make_thinned(0, 3, {1})  # so the other copy goes before this one, as far as it counts
    later = [*write(1, (4, 7), (8, 9)), *write(2, (10, 11))]
    a = write_log(tmp_path / "A", [thinned[:12] + bytes(4) + thinned[16:], *later])
    b = write_log(tmp_path / "B", [*write(0, (0, 3)), *write(1, (4, 4)), *write(0, (5, 8))])
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(0, *range(2, 12))


def test_a_last_batch_that_has_jumped_and_damage_in_the_other_copy(tmp_path: Path) -> None:
    """The damage hides what is at the place that the batch has left. The same batch is found behind it."""
    whole = [make_batch(*each) for each in BATCHES]
    a = write_log(tmp_path / "A", [*whole[:4], make_batch(16, 17, 20)])
    b = write_log(tmp_path / "B", [*whole[:2], spoil(whole[2]), *whole[3:]])
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(20))


def test_what_lies_before_a_jump_at_the_end_of_a_segment(tmp_path: Path) -> None:
    """The jump hides where the segment ends, and the next one is missing. So fewer bytes up to there prove nothing."""
    a = write_segments(tmp_path / "A", {0: [make_batch(0, 0), make_batch(1, 4, 17)], 9: [make_batch(9, 12)]})
    b = write_segments(tmp_path / "B", {0: [make_thinned(1, 4, {2})], 5: [make_batch(5, 8)], 9: [make_batch(9, 12)]})
    (b / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(0, 1, 3, *range(4, 13))


def test_a_jump_between_a_whole_batch_and_a_damaged_one_that_leave_its_place(tmp_path: Path) -> None:
    """Nothing behind the damage steps back. But the damaged batch states where the one before it ends."""
    whole = [make_batch(0, 3), make_batch(4, 4), make_batch(5, 8), make_batch(9, 9)]
    a = write_log(tmp_path / "A", [whole[0], make_batch(4, 4, 6), spoil(whole[2]), whole[3]])
    b = write_log(tmp_path / "B", whole[:3])
    for paths in ([a, b], [b, a]):
        assert read(paths) == rows(*range(10))
    assert read(a, mode="DROPMALFORMED") == rows(*range(4), 9)


LENIENT: dict[str, Any] = {"mode": "DROPMALFORMED", "failOnDataLoss": False}


def test_bytes_of_damage_do_not_make_a_thinned_batch_whole(tmp_path: Path) -> None:
    """With the damaged batch behind it, the thinned one would have as many bytes as the whole one of the other copy."""
    hurt = [make_thinned(0, 2, {0, 2}), spoil(make_batch(3, 6))]
    a = write_segments(tmp_path / "A", {0: hurt, 7: [make_batch(7, 8)]})
    b = write_log(tmp_path / "B", [make_batch(0, 2)])
    for paths in ([a, b], [b, a]):
        assert read(paths, **LENIENT) == rows(0, 1, 2, 7, 8)
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets 3 to 6"):
            read(paths)


def test_bytes_of_a_jump_count_for_no_offset(tmp_path: Path) -> None:
    """The batch states offsets of a later segment. The other copy has fewer bytes up to there, and is whole."""
    a = write_segments(tmp_path / "A", {0: [make_batch(0, 3, 32)], 5: [make_batch(9, 9)]})
    (a / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    b = write_segments(tmp_path / "B", {4: [make_batch(4, 4), make_batch(5, 6), make_batch(7, 8)]})
    for paths in ([a, b], [b, a]):
        assert read(paths, **LENIENT) == rows(*range(4, 10))


@pytest.mark.parametrize("entry", [None, (15, 1), (15, 2), (16, 3)])
@pytest.mark.parametrize("start", [7, 14, 15])
def test_two_batches_that_state_one_offset(start: int, entry: tuple[int, int] | None, tmp_path: Path) -> None:
    """The first of them has jumped, in a log with gaps of compaction. They differ, so none repeats the other."""
    behind = [make_batch(15, 15), make_batch(16, 16), make_batch(17, 19)]
    a = write_segments(tmp_path / "A", {7: [make_thinned(7, 12, {8})], 14: [make_batch(14, 14), *behind]})
    hurt = [make_thinned(7, 12, {8}), make_batch(14, 14, 15), *behind]
    b = write_segments(tmp_path / "B", {7: hurt})
    if entry is not None:
        offset, at = entry
        index = writer.offset_index([(offset, sum(map(len, hurt[:at])))], 7)
        (b / "t-0" / writer.segment_name(7, ".index")).write_bytes(index)
    wanted = [offset for offset in (7, *range(9, 13), *range(14, 20)) if offset >= start]
    for paths in ([a, b], [b, a]):
        assert read(paths, startingOffsets={"t": {"0": start}}) == rows(*wanted)
    with pytest.raises(CorruptRecordError) as caught:
        read(b)
    assert caught.value.position == len(hurt[0])


@pytest.mark.parametrize("bent", [4, -1])
def test_verify_says_where_the_leader_epoch_falls(bent: int, tmp_path: Path) -> None:
    batches = [make_batch(*each) for each in BATCHES]
    wrong = batches[3][:12] + struct.pack(">i", bent if bent > 0 else 0) + batches[3][16:]
    a = write_log(tmp_path / "A", [*batches[:3], wrong, *batches[4:]])
    [problem] = kafkaseg.verify(a).problems
    at = sum(map(len, batches[: 4 if bent > 0 else 3]))
    assert problem.position == at and "the leader epoch falls" in problem.what
    assert read(a) == rows(*range(20))


@pytest.mark.parametrize("start", range(9, 15))
def test_a_window_behind_damage_of_the_last_segment(start: int, tmp_path: Path) -> None:
    """The files do not end at the damage: what lies behind it is read, or the damage is said."""
    last = [make_batch(4, 7), spoil(make_batch(8, 8)), make_batch(9, 14)]
    a = write_segments(tmp_path / "A", {0: [make_batch(0, 3)], 4: last})
    window: dict[str, Any] = {"startingOffsets": {"t": {"0": start}}}
    assert read(a, mode="DROPMALFORMED", **window) == rows(*range(start, 15))
    with pytest.raises(CorruptRecordError) as caught:
        read(a, **window)
    assert caught.value.position == len(last[0])


THINNED = [(0, 3), (10, 11), (22, 22), (30, 30), (37, 37), (38, 43), (44, 46), (47, 49), (51, 51)]


@pytest.mark.parametrize("at", range(1, len(THINNED)))
def test_a_window_has_the_rows_of_the_whole_read(at: int, tmp_path: Path) -> None:
    """One flipped bit of one baseOffset in a compacted copy: where a range ends changes nothing about what is
    believed."""
    whole = [make_batch(*each) for each in THINNED]
    first, last = THINNED[at]
    ends = [0, *(sum(map(len, whole[: each + 1])) for each in range(len(whole)))]
    for bit in range(7):
        hurt = [*whole[:at], make_batch(first, last, first ^ 1 << bit), *whole[at + 1 :]]
        path = write_log(tmp_path / str(bit), hurt)
        (path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 60\n")
        index = [(last, end) for (_, last), end in zip(THINNED, ends, strict=False)]
        (path / "t-0" / writer.segment_name(0, ".index")).write_bytes(writer.offset_index(index[1:], 0))
        found = read(path, mode="DROPMALFORMED", failOnDataLoss="false")
        for end in range(1, 52):
            window = read(path, mode="DROPMALFORMED", failOnDataLoss="false", endingOffsets=f'{{"t":{{"0":{end}}}}}')
            assert window == [row for row in found if row[0] < end], (bit, end)


def test_a_batch_that_the_plan_disproves_does_not_come_out_again(tmp_path: Path) -> None:
    """Its other copy has the right offsets, and damage follows it: DROPMALFORMED reads neither behind it nor itself."""
    whole = [make_batch(*each) for each in [(0, 3), (4, 9), (10, 12)]]
    a = write_log(tmp_path / "A", [whole[0], make_batch(4, 9, 68), spoil(whole[2])])
    b = write_log(tmp_path / "B", [*whole[:2], spoil(whole[2])])
    c = write_log(tmp_path / "C", whole)
    for paths in ([a, b], [b, a]):
        assert read(paths, mode="DROPMALFORMED") == rows(*range(10))
        with pytest.raises(CorruptRecordError):
            read(paths)
    assert read([a, c], mode="DROPMALFORMED") == read([a, c]) == rows(*range(13))


def test_a_second_copy_with_a_misplaced_end_hides_no_damage(tmp_path: Path) -> None:
    """The gap before its last batch is no proof that there never were records."""
    whole = [make_batch(*each) for each in [(0, 0), (1, 3), (4, 9), (10, 11), (12, 14), (15, 16)]]
    a = write_log(tmp_path / "A", [*whole[:3], make_batch(10, 11, 2), *whole[4:]])
    b = write_log(tmp_path / "B", [make_batch(0, 0, 16), spoil(whole[1])])
    for paths in ([a], [a, b], [b, a]):
        with pytest.raises(CorruptRecordError, match="batch out of order"):
            read(paths)
        assert read(paths, mode="DROPMALFORMED") == rows(*range(10), *range(12, 17))


def test_an_empty_segment_of_a_compacted_copy_shows_that_nothing_is_there(tmp_path: Path) -> None:
    """The cleaner left it. So the damage of the other copy hides nothing before the batch that both have."""
    whole = [make_batch(*each) for each in [(0, 3), (9, 11), (12, 13)]]
    paths = []
    for name, segments in {
        "A": {0: [whole[0], spoil(whole[1]), whole[2]]},
        "B": {0: [whole[0]], 5: [], 9: [whole[1]], 12: [whole[2]]},
    }.items():
        folder = tmp_path / name / "t-0"
        folder.mkdir(parents=True)
        (tmp_path / name / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 12\n")
        for base, batches in segments.items():
            (folder / writer.segment_name(base)).write_bytes(b"".join(batches))
        paths.append(tmp_path / name)
    for order in (paths, paths[::-1]):
        assert read(order) == rows(*range(4), *range(9, 14))


def test_a_lost_segment_behind_a_jump_that_the_read_does_not_begin_at(tmp_path: Path) -> None:
    """A jump is no compaction. So the end of its segment shows that the next one is missing."""
    jumped = {0: [make_batch(0, 1, 5), make_batch(2, 2), make_batch(3, 5)], 9: [make_batch(9, 9)]}
    a = write_segments(tmp_path / "A", jumped)
    ends = [sum(map(len, jumped[0][:count])) for count in (1, 2)]
    (a / "t-0" / writer.segment_name(0, ".index")).write_bytes(writer.offset_index([(2, ends[0]), (3, ends[1])], 0))
    held = {0: [make_batch(0, 1), make_batch(2, 2)], 3: [make_batch(3, 5)]}
    b = write_segments(tmp_path / "B", {**held, 6: [spoil(make_batch(6, 7)), make_batch(8, 8), make_batch(9, 9)]})
    for paths in ([a, b], [b, a]):
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets 6 to 7"):
            read(paths)
        assert read(paths, **LENIENT) == rows(*range(6), 8, 9)


@pytest.mark.parametrize("behind", [[], [make_batch(26, 26)]], ids=["last", "between"])
def test_a_batch_that_leaves_no_room_for_the_one_before_it(behind: list[bytes], tmp_path: Path) -> None:
    """It steps back into that one, which seems to have jumped. But the gap of compaction is too small for that."""
    before = [make_thinned(12, 16, {12, 13, 15, 16}), make_batch(18, 21)]
    a = write_log(tmp_path / "A", [*before, make_batch(22, 25, 20), *behind])
    b = write_log(tmp_path / "B", [*before, make_batch(22, 25), make_batch(26, 26), make_batch(27, 30)])
    for root in (a, b):
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    for paths in ([a, b], [b, a]):
        for options in READS:
            assert read(paths, **options) == rows(14, *range(18, 31)), options


@pytest.mark.parametrize("stated", [3, 6])
def test_a_batch_that_steps_back_behind_damage_near_where_the_read_begins(stated: int, tmp_path: Path) -> None:
    """The damaged batch begins where the first one of the range ends, so that one is right. No copy has the other."""
    whole = [make_batch(0, 3), make_batch(4, 5), make_batch(6, 6), make_batch(7, 10), make_batch(11, 12)]
    longer = whole[2][:23] + struct.pack(">i", 512) + whole[2][27:]  # its last offset, which the CRC covers
    a = write_log(tmp_path / "A", [*whole[:2], longer, make_batch(7, 10, stated), *whole[4:]], (4, 1))
    b = write_segments(tmp_path / "B", {0: whole[:3], 7: [make_batch(7, 10, 5), *whole[4:]]})
    for paths in ([a, b], [b, a]):
        assert read(paths, **LENIENT) == rows(*range(7), 11, 12)
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets 7 to 10"):
            read(paths)


def test_torn_bytes_alone_say_nothing_of_earlier_offsets(tmp_path: Path) -> None:
    """Retention has deleted what they belong to in the other copy. A read begins there, and `verify` agrees."""
    a = write_log(tmp_path / "A", [make_batch(0, 2)[:6]])
    b = write_segments(tmp_path / "B", {3: [make_batch(3, 5), make_batch(6, 7)]})
    c = write_segments(tmp_path / "C", {3: [make_batch(3, 5), spoil(make_batch(6, 7))]})
    assert read([a, b, c]) == rows(*range(3, 8))
    assert kafkaseg.verify([a, b, c]).problems == ()
