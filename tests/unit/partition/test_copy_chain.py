"""copies: what any copy of a partition holds whole comes out once; only what none holds is damage or loss."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding import payloads
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.epoch_checkpoint import Epochs, EpochsError, parse_epochs
from kafka_segment_source.errors import CorruptRecordError, DataLossError, PathError, StorageError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.logdir.leader_epochs import epoch_at
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition import survey
from kafka_segment_source.partition.choice import THIN, VOID, WHOLE, choose
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.storage.store import LocalStorage
from tests.cli.runner import run
from tests.support import writer
from tests.support.rows import FIXTURES, offsets, scanned
from tests.support.small_logs import bad, marker, pl, put, txn
from tests.support.writer import Rec

LOGGER = "kafka_segment_source"


def checkpoint(root: Path, name: str, text: str = "0\n1\nt 0 9\n") -> None:
    (root / name).write_text(text)


def values(path: Any, **options: Any) -> dict[int, bytes]:
    found = kafkaseg.scan(path, ["offset", "value"], **options).read_all()
    rows = list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert rows == sorted(rows) and len(dict(rows)) == len(rows)
    return dict(rows)


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return tmp_path / "A"


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return tmp_path / "B"


# --- damage ----------------------------------------------------------------------------------------------------------


def old(base: int) -> bytes:
    """A message of magic 0, whose segment does not show whether offsets after it are missing."""
    return writer.message_set_v0([Rec(0, -1, None, b"v%d" % base)], base_offset=base)


@pytest.mark.parametrize("turn", [1, -1])
def test_bytes_of_later_offsets_do_not_explain_a_damaged_end(turn: int, a: Path, b: Path) -> None:
    """The other copy has enough bytes after the damage begins, but no batch where it begins."""
    put(a, 0, old(0))
    put(a, 2, old(2), old(3))
    put(b, 0, old(0), bad(old(1)))
    with pytest.raises(CorruptRecordError, match="at byte 28, offset 1"):
        offsets([a, b][::turn])
    assert offsets([a, b][::turn], mode="DROPMALFORMED") == [0, 2, 3]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_end_that_another_copy_holds_behind_damage(turn: int, a: Path, b: Path) -> None:
    """Damage before the batch in question does not keep it from being found."""
    put(a, 0, bad(pl(0, 1)), pl(1, 2), pl(3, 3))
    put(b, 0, pl(0, 1), pl(1, 2), bad(pl(3, 3)))
    assert offsets([a, b][::turn]) == list(range(6))


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_end_that_one_of_two_other_copies_explains(turn: int, a: Path, b: Path, tmp_path: Path) -> None:
    """Both reach equally far. One lacks a segment, so it has too few bytes to be what the damage was."""
    put(a, 0, pl(0, 2), bad(pl(2, 2)), bad(pl(4, 2)), pl(6, 1)[:-3])
    put(b, 0, pl(0, 2))
    put(b, 6, pl(6, 1))
    put(tmp_path / "C", 0, pl(0, 2), pl(2, 2), pl(4, 2), pl(6, 1))
    assert offsets([a, *[b, tmp_path / "C"][::turn]]) == [*range(7)]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_copy_without_a_segment_takes_nothing_from_one_that_has_it(
    turn: int, a: Path, b: Path, tmp_path: Path
) -> None:
    """A copy that lacks a segment shows no compaction there. So the whole one goes before the thinned one."""
    put(a, 0, pl(0, 6), pl(6, 3))
    put(a, 9, pl(9, 3))
    put(b, 0, pl(0, 6))
    put(b, 12, pl(12, 1))
    put(tmp_path / "C", 0, pl(0, 6), pl(6, 3), pl(9, 3, keep=[2]))
    put(tmp_path / "C", 12, pl(12, 1), pl(13, 3))
    assert offsets([a, b, tmp_path / "C"][::turn]) == [*range(16)]


@pytest.mark.parametrize("turn", [1, -1])
def test_compaction_shows_beside_a_damaged_copy(turn: int, a: Path, b: Path) -> None:
    """Damage hides how many bytes the whole copy had. The gaps of the other one say that it was compacted."""
    put(a, 0, pl(2, 1), pl(3, 2))
    put(a, 5, pl(5, 2))
    put(b, 0, pl(0, 2), bad(pl(2, 1)), bad(pl(3, 2)), pl(5, 2))
    assert offsets([a, b][::turn], mode="DROPMALFORMED") == list(range(7))


@pytest.mark.parametrize("turn", [1, -1])
def test_a_segment_with_damage_ends_where_its_last_batch_does(turn: int, a: Path, b: Path) -> None:
    """The segment after it is missing. That these offsets have no bytes in the copy is no compaction."""
    put(a, 0, pl(4, 2), pl(6, 3))
    put(a, 9, pl(9, 2), pl(11, 3), pl(14, 4))
    checkpoint(a, "cleaner-offset-checkpoint")
    put(b, 0, pl(0, 2), bad(pl(2, 2)), pl(4, 2))
    put(b, 14, pl(14, 4))
    assert offsets([a, b][::turn], mode="DROPMALFORMED") == [0, 1, *range(4, 18)]


@pytest.mark.parametrize("turn", [1, -1])
def test_damage_in_the_longer_copy(turn: int, a: Path, b: Path) -> None:
    """What the longer copy holds behind its damage comes out; what no copy holds whole is an error that names both."""
    log = put(a, 0, pl(0, 10), bad(pl(10, 10)), pl(20, 10))
    put(b, 0, pl(0, 10), pl(10, 10)[:-3])
    paths = [a, b][::turn]
    with pytest.raises(CorruptRecordError) as caught:
        offsets(paths)
    assert caught.value.path == str(log) and caught.value.offset == 10
    named = ", ".join(repr(f"{path}/t-0") for path in paths)
    assert f"(no copy holds the offsets 10 to 19 whole, of {named})" in str(caught.value)
    assert offsets(paths, mode="DROPMALFORMED") == [*range(10), *range(20, 30)]
    put(b, 0, pl(0, 10), pl(10, 10))
    assert offsets(paths) == list(range(30))


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(
    "options", [{}, {"mode": "DROPMALFORMED"}, {"minPartitions": 7}, {"isolationLevel": "read_committed"}]
)
def test_damage_in_an_earlier_segment(options: dict[str, Any], turn: int, a: Path, b: Path) -> None:
    """A damaged batch in the middle of one copy is read from another one, and this one goes on after it."""
    put(a, 0, pl(0, 10), bad(pl(10, 10)))
    put(a, 20, pl(20, 12))
    put(b, 0, pl(0, 10), pl(10, 10), pl(20, 12)[:-20])
    assert offsets([a, b][::turn], **options) == list(range(32))


def test_damage_in_both_copies_at_different_places(a: Path, b: Path) -> None:
    """Each copy serves what is damaged in the other."""
    put(a, 0, pl(0, 5), bad(pl(5, 5)), pl(10, 5), pl(15, 5))
    put(b, 0, pl(0, 5), pl(5, 5), pl(10, 5), bad(pl(15, 5)))
    for paths in ([a, b], [b, a]):
        assert offsets(paths) == list(range(20))
        assert offsets(paths, startingOffsets={"t": {"0": 7}}, endingOffsets={"t": {"0": 17}}) == list(range(7, 17))
        assert offsets(paths, since=1007, until=1017) == list(range(7, 17))


def test_a_batch_that_cannot_be_decoded(a: Path, b: Path) -> None:
    """A batch whose CRC holds and whose records do not is damaged as well, and no row of it comes out twice."""
    wrong = writer.record_batch([Rec(0, 0, b"k", b"v")] * 2, base_offset=5, last_offset_delta=4)  # twice offset 5
    put(a, 0, pl(0, 5), wrong, pl(10, 5))
    put(b, 0, pl(0, 5), pl(5, 5))
    assert offsets([a, b]) == list(range(15))


def test_rows_that_went_out_before_damage_do_not_come_again(a: Path, b: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage that the decoder finds late in a chunk: what was given out of it before comes once."""
    monkeypatch.setattr(payloads, "GROUP_BYTES", 1)  # each batch goes out on its own
    wrong = writer.record_batch(
        [Rec(0, 0, b"k", os.urandom(500))] * 2, base_offset=10, last_offset_delta=4, codec="lz4"
    )
    put(a, 0, pl(0, 5, codec="lz4"), pl(5, 5, codec="lz4"), wrong, pl(15, 5, codec="lz4"))
    put(b, 10, pl(10, 5, codec="lz4"))
    assert offsets([a, b]) == list(range(20))


def test_nothing_is_read_where_sound_copies_agree(a: Path, b: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound copies cost no reading beyond their ends, neither in planning nor later."""
    for base in (0, 10, 20):
        put(a, base, pl(base, 5), pl(base + 5, 5))
    shutil.copytree(a, b)
    put(b, 0, pl(0, 5))
    put(b, 5, pl(5, 5))
    monkeypatch.setattr(survey, "survey", lambda *_, **__: pytest.fail("read"))
    assert offsets([a, b]) == list(range(30))


# --- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cleaned", ["", "A", "B", "AB"])
@pytest.mark.parametrize("single", [False, True])
def test_a_missing_segment_that_another_copy_has(cleaned: str, single: bool, a: Path, b: Path) -> None:
    """A gap between two segments of one copy is filled from another one, whatever the checkpoints say of compaction."""
    files = [put(a, 0, pl(0, 10)), put(a, 20, pl(20, 10))]
    filler = put(b, 10, pl(10, 10))
    if not single:
        put(b, 0, pl(0, 10))
        put(b, 20, pl(20, 5))
    for name in cleaned:
        checkpoint(a.parent / name, "cleaner-offset-checkpoint")
    paths = [*files, filler] if single else [a, b]
    assert offsets(paths) == offsets(paths[::-1]) == list(range(30))


def test_a_missing_segment_that_no_copy_has(a: Path, b: Path) -> None:
    """What no copy has is loss, and said with the offsets; the rest is read under failOnDataLoss=false."""
    put(a, 0, pl(0, 10))
    put(a, 20, pl(20, 10))
    put(b, 0, pl(0, 10), pl(10, 3))
    put(b, 20, pl(20, 5))
    with pytest.raises(DataLossError, match="offsets 13 to 19 of partition t-0 are missing"):
        offsets([a, b])
    assert offsets([a, b], failOnDataLoss=False) == [*range(13), *range(20, 30)]


def test_a_gap_that_another_copy_ends(a: Path, b: Path) -> None:
    """Another copy that begins inside a gap fills the end of it; the rest of the gap is still loss."""
    put(a, 0, pl(0, 10))
    put(a, 20, pl(20, 10))
    put(b, 15, pl(15, 5), pl(20, 10))
    put(b, 30, pl(30, 5))
    with pytest.raises(DataLossError, match="offsets 10 to 14 of partition t-0 are missing"):
        offsets([a, b])
    assert offsets([a, b], failOnDataLoss=False) == [*range(10), *range(15, 35)]


# --- compaction ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cleaned", [True, False])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_compacted_copy_and_one_that_is_not(cleaned: bool, turn: int, a: Path, b: Path) -> None:
    """What compaction took from one copy comes from the other as far as that goes, said by a checkpoint or not."""
    put(a, 0, pl(0, 5), pl(5, 5), pl(10, 5))
    put(b, 0, pl(0, 5, keep=[4]), pl(10, 5, keep=[0, 3]), pl(15, 5))
    put(b, 20, pl(20, 5, keep=[1]), pl(25, 5))
    if cleaned:
        checkpoint(b, "cleaner-offset-checkpoint")
    assert offsets([a, b][::turn]) == [*range(20), 21, *range(25, 30)]


def test_one_segment_in_two_places_of_the_chain(a: Path, b: Path) -> None:
    """A segment that is read before and after another copy's: each offset is read once."""
    put(a, 10, pl(10, 5), pl(15, 5))
    put(b, 0, pl(0, 5, keep=[0]), pl(5, 5), pl(10, 5, keep=[2]), pl(15, 5), pl(20, 5, keep=[3]), pl(25, 5))
    put(b, 30, pl(30, 5))
    wanted = [0, *range(5, 20), 23, *range(25, 35)]
    assert offsets([a, b]) == offsets([b, a]) == wanted


# --- contradictions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("written", ["", "A", "B", "AB"])
def test_the_stale_tail_of_a_leader_that_was_replaced(turn: int, written: str, a: Path, b: Path) -> None:
    """Where copies diverge, the higher leader epoch counts, also against a longer copy, and the plan says
    who loses what."""
    put(a, 0, pl(0, 5), pl(5, 5), pl(10, 10, word="old"), pl(20, 10, word="old"))
    put(b, 5, pl(5, 5), pl(10, 5, leader=1, word="new"), pl(15, 5, leader=1, word="new"))
    for name, text in (("A", "0\n1\n0 0\n"), ("B", "0\n2\n0 0\n1 10\n")):
        if name in written:
            checkpoint(a.parent / name / "t-0", "leader-epoch-checkpoint", text)
    paths = [a, b][::turn]
    found = values(paths)
    assert list(found) == list(range(20))
    assert [value[:1] for value in found.values()] == [b"v"] * 10 + [b"n"] * 10
    (said,) = [each for each in kafkaseg.plan(paths).warnings if "histories" in each]
    assert "from offset 10 on, of the leader epochs 0 and 1" in said
    assert f"the offsets 10 to 29 of '{a}/t-0' are not read" in said


def test_copies_that_share_no_offsets(a: Path, b: Path) -> None:
    """A new leader's checkpoint tells what of an old copy is stale, also where the old copy ends before it begins."""
    put(a, 0, pl(0, 10), pl(10, 5, word="old"))
    put(b, 15, pl(15, 5, leader=1), pl(20, 5, leader=1))
    checkpoint(b / "t-0", "leader-epoch-checkpoint", "0\n2\n0 0\n1 10\n")
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 14"):
        offsets([a, b])
    assert offsets([a, b], failOnDataLoss=False) == [*range(10), *range(15, 25)]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_leader_that_has_written_nothing_yet(turn: int, a: Path, b: Path) -> None:
    """Its checkpoint alone proves nothing: the next leader may have kept what it lacked. All rows stay."""
    put(a, 0, pl(0, 5), pl(5, 5), pl(10, 5, word="old"))
    put(b, 0, pl(0, 5), pl(5, 5))
    checkpoint(a / "t-0", "leader-epoch-checkpoint", "0\n1\n0 0\n")
    for lines in ("0\n2\n0 0\n3 10\n", "0\n1\n3 10\n"):
        checkpoint(b / "t-0", "leader-epoch-checkpoint", lines)
        assert offsets([a, b][::turn]) == list(range(15))
        (said,) = [each for each in kafkaseg.plan([a, b][::turn]).warnings if "epoch" in each]
        assert "says that leader epoch 3 of partition t-0 began at offset 10, and no batch there shows it" in said
        assert f"'{a}/t-0' has batches of leader epoch 0 up to offset 14" in said
    checkpoint(a / "t-0", "leader-epoch-checkpoint", "0\n2\n0 0\n4 15\n")  # this copy has had a later leader
    assert offsets([a, b][::turn]) == list(range(15))
    assert not [each for each in kafkaseg.plan([a, b][::turn]).warnings if "epoch" in each]


@pytest.mark.parametrize("turn", [1, -1])
def test_checkpoints_that_differ_prove_nothing(turn: int, a: Path, b: Path) -> None:
    """A follower notes an epoch at the first batch that it fetches, which after compaction may be a later one."""
    put(a, 0, pl(0, 5), pl(20, 5, leader=1), pl(40, 5, leader=2), pl(45, 5, leader=2))
    put(b, 0, pl(0, 5), pl(30, 5, leader=1), pl(40, 5, leader=2, keep=[4]), pl(45, 5, leader=2), pl(50, 5, leader=2))
    checkpoint(a / "t-0", "leader-epoch-checkpoint", "0\n3\n0 0\n1 10\n2 40\n")
    checkpoint(b / "t-0", "leader-epoch-checkpoint", "0\n3\n0 0\n1 30\n2 35\n")
    found = offsets([a, b][::turn])
    assert found[-5:] == list(range(50, 55)) and set(found) >= {*range(5), 44, *range(45, 55)}
    assert not [each for each in kafkaseg.plan([a, b][::turn]).warnings if "epoch" in each]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_copy_of_the_latest_leader_wins(turn: int, a: Path, b: Path) -> None:
    """After two unclean elections its history may have the lower epoch at the first difference."""
    put(a, 0, pl(0, 10), pl(10, 5, leader=1, word="lost"))
    put(b, 0, pl(0, 10), pl(10, 5, word="kept"), pl(15, 5, leader=2))
    found = values([a, b][::turn])
    assert list(found) == list(range(20)) and found[12] == b"kept12"


@pytest.mark.parametrize("turn", [1, -1])
def test_a_stale_tail_below_a_gap_of_compaction(turn: int, a: Path, b: Path) -> None:
    """The last offsets of the stale copy are in no batch of the other one, and those below differ."""
    put(a, 0, pl(0, 10), pl(10, 5, word="old"), pl(15, 5, word="old"))
    put(b, 0, pl(0, 10), pl(10, 5, leader=1, keep=[2]), pl(25, 5, leader=1), pl(30, 5, leader=1))
    found = values([a, b][::turn])
    assert list(found) == [*range(10), 12, *range(25, 35)]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("bit", [16, 20, 40])
@pytest.mark.parametrize("place", [0, 12])
def test_a_batch_that_its_neighbours_contradict_decides_nothing(
    place: int, bit: int, turn: int, a: Path, b: Path
) -> None:
    """One flipped bit of an offset or of a leader epoch, where the shorter copy ends right after it."""
    hurt = bytearray(pl(12, 2, leader=1))
    if place:
        hurt[15 - bit // 10] ^= 1 << (bit % 8)
    else:
        hurt[7 - bit // 8] ^= 1 << (bit % 8)
    first = [pl(0, 10, leader=1), pl(10, 2, leader=1)]
    put(a, 0, *first, bytes(hurt), pl(14, 1, leader=3), pl(15, 5, leader=3), pl(20, 20, leader=3))
    put(b, 0, *first, pl(12, 2, leader=1), pl(14, 1, leader=3))
    assert offsets([a, b][::turn]) == list(range(40))
    assert not [each for each in kafkaseg.plan([a, b][::turn]).warnings if "histories" in each]


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_its_neighbours_contradict_decides_nothing(turn: int, a: Path, b: Path) -> None:
    """One flipped bit of a leader epoch, which no CRC covers, above the last batch that both copies still have."""
    put(a, 0, pl(0, 5, leader=1), pl(5, 5, leader=1 + 64), pl(10, 5, leader=1))
    put(b, 0, pl(0, 5, leader=1), pl(20, 5, leader=1))
    assert offsets([a, b][::turn], failOnDataLoss=False) == [*range(15), *range(20, 25)]
    assert not [each for each in kafkaseg.plan([a, b][::turn]).warnings if "histories" in each]


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_falls_between_copies_without_a_common_offset(turn: int, a: Path, b: Path) -> None:
    """A copy that begins after the end of another one, with batches of an earlier leader: they are stale."""
    put(a, 0, pl(0, 10), pl(10, 5, leader=2))
    put(b, 16, pl(16, 5, leader=1, word="old"))
    assert offsets([a, b][::turn]) == list(range(15))


@pytest.mark.parametrize("magic", [1, 2])
def test_copies_of_two_clusters(magic: int, a: Path, b: Path) -> None:
    """Different records under one leader epoch, or without epochs, are an error that asks for one path."""
    rec = [Rec(0, 1000, b"k", b"one")], [Rec(0, 1000, b"k", b"two")]
    for root, each in zip((a, b), rec, strict=True):
        batch = (
            writer.record_batch(each, base_offset=0)
            if magic == 2
            else writer.message_set_v1(each, base_offset=0, codec="none")
        )
        put(root, 0, batch)
    with pytest.raises(PathError) as caught:
        kafkaseg.plan([a, b])
    assert "hold different batches at offset 0 of partition t-0" in str(caught.value)
    assert "give one of the paths" in str(caught.value)
    assert offsets(a) == [0] == offsets(b)


# --- transactions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1", "ledger-v2-0"])
def test_read_committed_over_single_files_of_two_copies(partition: str, tmp_path: Path) -> None:
    """A directory without its last segments, and these as files of another copy: the rows of the whole partition."""
    log = FIXTURES / "transactions" / "data" / partition
    names = sorted(path.name for path in log.glob("*.log"))
    wanted = scanned(log, isolationLevel="read_committed")
    for gone in range(1, len(names)):
        copy = tmp_path / str(gone) / partition
        shutil.copytree(log, copy)
        for name in names[-gone:]:
            (copy / name).unlink()
        paths = [copy, *(log / name for name in names[-gone:])]
        assert scanned(paths, isolationLevel="read_committed") == wanted
        assert scanned(paths[::-1], isolationLevel="read_committed") == wanted


def test_a_marker_among_the_paths_given(a: Path, b: Path) -> None:
    """The marker of a transaction is looked for in the paths that are given, whatever else lies beside them."""
    put(a, 0, pl(0, 5), txn(5, 5, 7))
    put(b, 0, pl(0, 5), bad(txn(5, 5, 7)))
    end = put(b, 10, marker("commit", 10, 7), pl(11, 5))
    wanted = [*range(10), *range(11, 16)]
    assert offsets([a, end], isolationLevel="read_committed") == wanted
    last = put(b, 16, txn(16, 4, 7))
    assert offsets([a, end], isolationLevel="read_committed") == wanted
    assert offsets([a, last], isolationLevel="read_committed", failOnDataLoss=False) == list(range(5))


def test_a_seam_into_a_compacted_copy(a: Path, b: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whose marker compaction may have taken is withheld and named: the next one may be of a later transaction."""
    put(a, 0, pl(0, 10), txn(10, 5, 1)[:], pl(15, 5)[:-3])
    put(b, 14, txn(16, 2, 2), marker("commit", 18, 2), txn(20, 10, 1), marker("commit", 30, 1), marker("commit", 31, 1))
    checkpoint(b, "cleaner-offset-checkpoint")
    with caplog.at_level(logging.WARNING, LOGGER):
        found = offsets([a, b], isolationLevel="read_committed")
    assert found == [*range(10), 16, 17, *range(20, 30)]
    assert any("withheld" in each and "producer 1 around offset 10" in each for each in caplog.messages)


def test_a_seam_into_a_copy_from_which_nothing_is_gone(a: Path, b: Path) -> None:
    """Where every batch up to the marker is there, the marker is proven, whatever the copy's checkpoint says."""
    put(a, 0, pl(0, 10), txn(10, 5, 1), pl(15, 5)[:-3])
    put(b, 15, marker("abort", 15, 1), pl(16, 5), txn(21, 5, 1), marker("commit", 26, 1))
    checkpoint(b, "cleaner-offset-checkpoint")
    assert offsets([a, b], isolationLevel="read_committed") == [*range(10), *range(16, 26)]


def test_a_marker_that_is_damaged_in_one_copy(a: Path, b: Path) -> None:
    """The look ahead for markers takes them from whatever copy holds them, and so does the last stable offset."""
    put(a, 0, pl(0, 5), txn(5, 5, 7), bad(marker("commit", 10, 7)), pl(11, 5))
    put(a, 16, pl(16, 4))
    put(b, 0, pl(0, 5), txn(5, 5, 7), marker("commit", 10, 7), pl(11, 4)[:-2])
    for paths in ([a, b], [b, a]):
        assert offsets(paths, isolationLevel="read_committed") == [*range(10), *range(11, 20)]
        assert offsets(paths, isolationLevel="read_committed", endingOffsets={"t": {"0": 8}}) == list(range(8))


# --- the rest --------------------------------------------------------------------------------------------------------


def test_the_same_directory_twice_or_by_a_link(a: Path, tmp_path: Path) -> None:
    """A copy that is the same directory adds nothing, and its damage is damage."""
    put(a, 0, pl(0, 5), bad(pl(5, 5)), pl(10, 5))
    os.symlink(a, tmp_path / "L")
    for paths in ([a, a], [a, tmp_path / "L"]):
        with pytest.raises(CorruptRecordError):
            offsets(paths)
        assert offsets(paths, mode="DROPMALFORMED") == [*range(5), *range(10, 15)]


def test_the_offsets_command_follows_the_chain(a: Path, b: Path) -> None:
    """`kafkaseg offsets` finds a time in whatever copy holds it whole."""
    put(a, 0, pl(0, 10), bad(pl(10, 10)), pl(20, 10))
    put(b, 0, pl(0, 10), pl(10, 10))
    result = run("offsets", str(a), str(b), "--time", "1012", "--json")
    assert '"offset": 12' in result.stdout and '"logEndOffset": 30' in result.stdout


def test_a_file_that_vanishes_is_read_from_another_copy(a: Path, b: Path) -> None:
    """What is deleted between planning and reading is loss only where no copy has it."""
    for base in (0, 10, 20):
        put(a, base, pl(base, 10))
    shutil.copytree(a, b)
    put(a, 30, pl(30, 10))
    reader = kafkaseg.scan([a, b], ["offset"])
    (a / "t-0" / writer.segment_name(10)).unlink()
    assert reader.read_all()["offset"].to_pylist() == list(range(40))


def test_a_directory_that_vanishes_is_read_from_another_copy(a: Path, b: Path) -> None:
    """A broker gives up a whole directory and fetches the log again. What another copy has is not lost meanwhile."""
    for base in (0, 10, 20):
        put(a, base, pl(base, 10))
    shutil.copytree(a, b)
    put(a, 30, pl(30, 10))
    reader = kafkaseg.scan([a, b], ["offset"], failOnDataLoss=False)
    with_damage = kafkaseg.scan([a, b], ["offset"], failOnDataLoss=False)
    put(a, 0, bad(pl(0, 10)))
    assert with_damage.read_next_batch()["offset"].to_pylist() == [*range(10)]
    shutil.rmtree(a / "t-0")
    assert with_damage.read_all()["offset"].to_pylist() == [*range(10, 30)]
    assert reader.read_all()["offset"].to_pylist() == [*range(30)]
    shutil.rmtree(b / "t-0")
    lost = kafkaseg.plan([put(a, 0, pl(0, 10)).parent, put(b, 0, pl(0, 10)).parent])
    shutil.rmtree(a / "t-0")
    shutil.rmtree(b / "t-0")
    with pytest.raises(DataLossError, match=r"'.*t-0' does not exist"):
        lost.to_reader().read_all()


def test_the_last_segment_of_one_copy_may_be_followed_by_another_copys(a: Path, b: Path) -> None:
    """Where offsets were found again, the log ends after the last segment of the chain, not after one copy's last."""
    put(a, 0, pl(0, 10))
    log = put(b, 0, pl(0, 10), pl(12, 8), pl(20, 10))
    for root in (a, b):
        checkpoint(root, "cleaner-offset-checkpoint")
    reader = kafkaseg.scan([a, b], ["offset"])
    log.unlink()
    put(b, 12, pl(12, 8), pl(20, 10))
    assert reader.read_all()["offset"].to_pylist() == [*range(10), *range(12, 30)]


def test_a_copy_that_has_lost_all_its_segments(a: Path, b: Path) -> None:
    """Its empty directory is a copy of the partition. Without another copy it is a path that holds nothing."""
    put(a, 0, pl(0, 10))
    (b / "t-0").mkdir(parents=True)
    assert offsets([a / "t-0", b / "t-0"]) == offsets([b / "t-0", a / "t-0"]) == [*range(10)]
    other = b / "u-0"
    other.mkdir()
    for paths in ([b / "t-0"], [a / "t-0", other]):
        with pytest.raises(PathError, match="holds no log segments"):
            kafkaseg.scan(paths)


def test_damage_that_none_could_mend_leaves_the_pieces_after_it(a: Path, b: Path) -> None:
    """A piece that turns out to be damaged is skipped (DROPMALFORMED); those that follow it come all the same."""
    log = put(a, 0, pl(0, 10), bad(pl(10, 10)), pl(20, 10))
    put(b, 10, pl(10, 10))
    options, _ = parse_options(option_texts([str(a), str(b)], {"mode": "DROPMALFORMED"}))
    [split] = [each for each in make_plan(options).splits if each.base_offset == 0 and each.path == str(log)]
    seen: list[int] = []

    def read(piece: SegmentSplit) -> Iterator[int]:
        seen.append(piece.start_offset)
        if (
            len(seen) <= 2
        ):  # in the split, and in the first of the pieces that are left of it: other bytes than surveyed
            raise CorruptRecordError("rot", path=piece.path, position=0, offset=0, found=1, expected=2)
        yield piece.start_offset

    assert list(Follower(split, options.source, options.policy).run(read)) == [10, 20]
    assert seen == [0, 0, 10, 20]


def test_a_better_copy_goes_before_one_that_reaches_further() -> None:
    """What is held best is chosen, up to where something better begins."""
    spans = [OffsetRange(0, 30), OffsetRange(10, 20), OffsetRange(5, 12)]
    chosen = choose(spans, [THIN, WHOLE, VOID])
    assert [(at, part.start, part.end) for at, part in chosen] == [(0, 0, 10), (1, 10, 20), (0, 20, 30)]


EPOCHS: dict[str, tuple[bytes, Epochs | str]] = {
    "two": (b"0\n2\n0 0\n3 10\n", ((0, 0), (3, 10))),
    "none": (b"0\n0\n", ()),
    "another count": (b"0\n1\n0 0\n3 10\n", "found 2 entries, expected '1'"),
    "another version": (b"1\n1\n0 0\n", "found version '1', expected 0"),
    "epochs that fall": (b"0\n2\n3 0\n0 10\n", "found entries that fall"),
    "offsets that fall": (b"0\n2\n0 10\n3 0\n", "found entries that fall"),
    "no numbers": (b"0\n1\nx y\n", "found 'x y', expected an epoch and an offset"),
    "three numbers": (b"0\n1\n1 2 3\n", "found '1 2 3', expected an epoch and an offset"),
    "a large number": (b"0\n1\n1 " + b"9" * 20 + b"\n", "expected an epoch and an offset"),
    "empty": (b"", "found no line end"),
    "cut in a number": (b"0\n2\n0 0\n3 1", "found no line end"),
    "cut after a line": (b"0\n2\n0 0\n", "found 1 entries, expected '2'"),
    "cut after the version": (b"0\n", "found its first line alone"),
}


@pytest.mark.parametrize("name", EPOCHS)
def test_leader_epoch_checkpoints(name: str) -> None:
    """Entries that can be right are believed, anything else is damage."""
    data, wanted = EPOCHS[name]
    if isinstance(wanted, str):
        with pytest.raises(EpochsError, match=re.escape(wanted)):
            parse_epochs(data)
    else:
        assert parse_epochs(data) == wanted
    assert [epoch_at(((0, 5), (3, 10)), offset) for offset in (4, 5, 9, 10)] == [-1, 0, 0, 3]


def test_a_checkpoint_of_leader_epochs_that_is_cut(tmp_path: Path) -> None:
    """It is said, in a read of several copies and by `verify`, and costs no row."""
    for name in "ab":
        put(tmp_path / name, 0, pl(0, 10), pl(10, 10))
        (tmp_path / name / "t-0" / "leader-epoch-checkpoint").write_bytes(b"0\n2\n0 0\n")
    paths = [str(tmp_path / name) for name in "ab"]
    assert offsets(paths) == list(range(20))
    said = [each for each in kafkaseg.plan(paths).warnings if "leader-epoch-checkpoint' is damaged" in each]
    assert len(said) == 2 and all("found 1 entries, expected '2'" in each for each in said)
    report = kafkaseg.verify(paths)
    assert [finding.what for each in report.partitions for finding in each.problems] == said


# --- a disk that fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [1, -1])
def test_a_last_file_that_cannot_be_read(turn: int, a: Path, b: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same file of another copy is read instead. A shorter one may lack records, so then it is an error."""
    for root in (a, b):
        put(root, 0, pl(0, 10))
    broken = str(put(a, 10, pl(10, 10)))
    other = put(b, 10, pl(10, 10))
    opened = LocalStorage.open

    def fail(self: LocalStorage, path: str, version: Any = None) -> Any:
        if path == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(self, path, version)

    monkeypatch.setattr(LocalStorage, "open", fail)
    paths = [a, b][::turn]
    assert offsets(paths) == list(range(20))
    plan = kafkaseg.plan(paths)
    assert any(
        f"{broken}' cannot be read: Input/output error: '{other}' is read instead" in each for each in plan.warnings
    )
    assert broken in [each.path for each in plan.dropped]
    other.write_bytes(pl(10, 9))
    with pytest.raises(StorageError, match="Input/output error"):
        offsets(paths)
