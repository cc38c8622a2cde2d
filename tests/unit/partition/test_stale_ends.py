"""A follower that a later leader has left behind, whose last segment has no sound batch: its history is compared all
the same."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Literal

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError, PathError
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


def read(paths: list[Path]) -> list[bytes]:
    return kafkaseg.scan(paths, ["value"]).read_all()["value"].to_pylist()


def values(batches: list[tuple[int, int, int]], who: str) -> list[bytes]:
    return [f"{who}{offset - first}".encode() for first, last, _ in batches for offset in range(first, last + 1)]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_lost_segment_is_read_from_a_follower_with_a_stale_end(turn: int, tmp_path: Path) -> None:
    """Both note epoch 2 at 6: below it they are of one history. Of what epoch 2 has written nothing is known."""
    common = [(0, 1, 0), (2, 3, 1), (4, 5, 1), (6, 7, 2)]
    first, lost, last = [make_batch(*common[0], "both")], [make_batch(*each, "both") for each in common[1:]], (9, 9, 3)
    a = write_replica(tmp_path / "A", {0: first[0], 9: make_batch(*last, "leader")}, [(0, 0), (1, 2), (2, 6), (3, 8)])
    stale = make_batch(8, 9, 2, "stale")
    b = write_replica(tmp_path / "B", {0: b"".join([*first, *lost, stale])}, [(0, 0), (1, 2), (2, 6)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    assert read([a, b][::turn]) == [*values(common[:3], "both"), *values([last], "leader")]
    said = kafkaseg.plan([a, b][::turn]).warnings
    assert any("the offsets 6 to 9 of" in warning and "up to 7 nothing shows" in warning for warning in said)


@pytest.mark.parametrize("turn", [1, -1])
def test_damage_right_before_the_difference(turn: int, tmp_path: Path) -> None:
    """The damaged batch has the header of the sound one, so it is the same: it is read from the copy that has it."""
    common, leader = make_batch(0, 1, 0, "both"), [(2, 3, 1), (4, 5, 1)]
    hurt = common[:-1] + bytes([common[-1] ^ 1])
    a = write_replica(
        tmp_path / "A", {0: hurt + b"".join(make_batch(*each, "leader") for each in leader)}, [(0, 0), (1, 2)]
    )
    b = write_replica(tmp_path / "B", {0: common + make_batch(2, 5, 0, "stale")}, [(0, 0)])
    assert read([a, b][::turn]) == [*values([(0, 1, 0)], "both"), *values(leader, "leader")]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_batch_that_steps_back_decides_nothing(turn: int, tmp_path: Path) -> None:
    """In a compacted copy, it may be the one before it that is wrong. So neither is compared with other copies."""
    thin = [(0, 3, 1), (21, 21, 1), (26, 31, 1), (32, 33, 1)]
    whole = [make_batch(*each, "both") for each in thin]
    thinned = [Rec(3, 1003, b"k3", b"thinned")]
    whole[2] = writer.record_batch(thinned, base_offset=26, leader_epoch=1, last_offset_delta=5)
    fallen = (18).to_bytes(8, "big") + whole[2][8:]
    a = write_replica(tmp_path / "A", {0: b"".join([*whole[:2], fallen, whole[3]])}, [(1, 0)])
    b = write_replica(tmp_path / "B", {0: b"".join(whole[:3]) + whole[3][:-1] + b"?"}, [(1, 0)])
    c = write_replica(tmp_path / "C", {0: b"".join(whole)}, [(1, 0)])
    for root in (a, b, c):
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    assert read([a, b, c][::turn]) == [*values(thin[:2], "both"), b"thinned", *values(thin[3:], "both")]


@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_last_batch_with_an_epoch_that_its_checkpoint_does_not_know(turn: int, kept: int, tmp_path: Path) -> None:
    """No CRC covers the epoch, and a broker notes an epoch before it appends: a follower that lags does not win by it.

    kept: how many of its batches the follower has.
    """
    history = [(0, 1, 0), (2, 3, 0), (4, 5, 0), (6, 7, 0), (8, 9, 1)]
    batches = [make_batch(*each, "both") for each in history]
    lagging = bytearray(b"".join(batches[:kept]))
    lagging[len(lagging) - len(batches[kept - 1]) + 15] ^= 64  # the leader epoch, 12 to 16 of a batch
    a = write_replica(tmp_path / "A", {0: b"".join(batches)}, [(0, 0), (1, 8)])
    b = write_replica(tmp_path / "B", {0: bytes(lagging)}, [(0, 0)])
    assert read([a, b][::turn]) == values(history, "both")


@pytest.mark.parametrize("turn", [1, -1])
def test_two_batches_of_an_epoch_that_the_checkpoint_does_not_know(turn: int, tmp_path: Path) -> None:
    """The checkpoint was copied before the log: two batches bear each other out."""
    common, leader, stale = (0, 1, 0), [(2, 3, 2), (4, 5, 2)], [(2, 3, 1), (4, 5, 1)]
    both = make_batch(*common, "both")
    a = write_replica(tmp_path / "A", {0: both + b"".join(make_batch(*each, "leader") for each in leader)}, [(0, 0)])
    b = write_replica(
        tmp_path / "B", {0: both + b"".join(make_batch(*each, "stale") for each in stale)}, [(0, 0), (1, 2)]
    )
    assert read([a, b][::turn]) == [*values([common], "both"), *values(leader, "leader")]


COMMON, NEW_END, STALE_END = [(0, 1, 5), (2, 3, 5)], (4, 5, 6), (4, 6, 5)


def write_common(root: Path, end: bytes, epochs: list[tuple[int, int]]) -> Path:
    return write_replica(root, {0: b"".join(make_batch(*each, "both") for each in COMMON) + end}, epochs)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_checkpoint_older_than_the_last_batch(turn: int, tmp_path: Path) -> None:
    """It was copied before the log. Epoch 5 gave the offset to the stale batch, so the other one is later."""
    a = write_common(tmp_path / "A", make_batch(*NEW_END, "leader"), [(5, 0)])
    b = write_common(tmp_path / "B", make_batch(*STALE_END, "stale"), [(5, 0)])
    assert read([a, b][::turn]) == [*values(COMMON, "both"), *values([NEW_END], "leader")]


@pytest.mark.parametrize("order", list(permutations("ABC")))
@pytest.mark.parametrize("stale", [5, 6])
def test_an_older_checkpoint_beside_one_that_has_the_epoch(order: Sequence[str], stale: int, tmp_path: Path) -> None:
    """Whatever the order of the paths: the checkpoint of another copy has the epoch of the same batch."""
    write_common(tmp_path / "A", make_batch(4, 5, 7, "leader"), [(5, 0)])
    write_common(tmp_path / "B", make_batch(4, 5, 7, "leader"), [(5, 0), (7, 4)])
    write_common(tmp_path / "C", make_batch(4, 6, stale, "stale"), [(5, 0)])
    assert read([tmp_path / name for name in order]) == [*values(COMMON, "both"), *values([(4, 5, 7)], "leader")]


@pytest.mark.parametrize("left", [[], [(4, 4, 6), (5, 6, 6)]])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_wrong_last_epoch_that_is_the_one_of_a_line(
    turn: int, left: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    """Compaction left the leader nothing there, or other batches without a record. A line alone proves no epoch."""
    stale = make_batch(*STALE_END, "stale")
    emptied = [
        writer.record_batch([], base_offset=first, leader_epoch=epoch, last_offset_delta=last - first)
        for first, last, epoch in left
    ]
    a = write_common(tmp_path / "A", b"".join(emptied) + make_batch(8, 9, 6, "leader"), [(5, 0), (6, 4)])
    b = write_common(tmp_path / "B", stale[:12] + (6).to_bytes(4) + stale[16:], [(5, 0)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    with pytest.raises(PathError, match=r"epoch 6, and the leader-epoch-checkpoint there ends with 5.*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_an_older_checkpoint_beside_damage_in_the_same_batch(turn: int, tmp_path: Path) -> None:
    """The header of the damaged batch is that of the whole one, so it is read from there."""
    new, later = make_batch(*NEW_END, "leader"), make_batch(6, 7, 7, "later")
    a = write_common(tmp_path / "A", new, [(5, 0)])
    b = write_common(tmp_path / "B", new[:-1] + b"?" + later, [(5, 0), (6, 4), (7, 6)])
    wanted = [*values(COMMON, "both"), *values([NEW_END], "leader"), *values([(6, 7, 7)], "later")]
    assert read([a, b][::turn]) == wanted


@pytest.mark.parametrize("order", list(permutations("ABC")))
def test_an_older_checkpoint_beside_a_copy_without_one(order: Sequence[str], tmp_path: Path) -> None:
    """It has the same batch of the same epoch. An emptied file of it changes nothing."""
    batches, last = [(0, 1, 5), (2, 3, 5)], make_batch(4, 5, 7, "leader")
    write_common(tmp_path / "A", last, [(5, 0)])
    b = write_replica(tmp_path / "B", {0: make_batch(*batches[0], "both"), 2: b"", 4: last}, [])
    (b / "t-0" / "leader-epoch-checkpoint").unlink()
    (b / "t-0" / writer.segment_name(2)).with_suffix(".timeindex").write_bytes(writer.time_index([(1001, 3)], 2))
    write_common(tmp_path / "C", make_batch(4, 6, 6, "stale"), [(5, 0), (6, 4)])
    assert read([tmp_path / name for name in order]) == [*values(COMMON, "both"), *values([(4, 5, 7)], "leader")]


@pytest.mark.parametrize("turn", [1, -1])
def test_an_older_checkpoint_beside_an_epoch_between(turn: int, tmp_path: Path) -> None:
    """The checkpoint of A is older than its last batch, or the epoch of that batch is damaged. B counts only then."""
    a = write_common(tmp_path / "A", make_batch(4, 5, 9, "leader"), [(5, 0)])
    b = write_common(tmp_path / "B", make_batch(4, 6, 7, "stale"), [(5, 0), (7, 4)])
    for options in ({}, {"mode": "DROPMALFORMED", "failOnDataLoss": "false"}):
        with pytest.raises(PathError, match=r"epoch 9, and the leader-epoch-checkpoint there ends with 5.*give one of"):
            kafkaseg.plan([a, b][::turn], **options)


@pytest.mark.parametrize("order", [*permutations("ABC")])
def test_older_checkpoints_beside_a_batch_of_the_last_epoch_there(order: Sequence[str], tmp_path: Path) -> None:
    """The batch of C shows that the last ones of A and B are of later epochs than their checkpoints have. Their epochs
    are what they state, or a flipped bit made 13 of 5 + 8: nothing says so."""
    write_common(tmp_path / "A", make_batch(4, 5, 7, "leader"), [(5, 0)])
    write_common(tmp_path / "B", make_batch(4, 4, 13, "other"), [(5, 0)])
    write_common(tmp_path / "C", make_batch(4, 6, 5, "stale"), [(5, 0)])
    for options in ({}, {"mode": "DROPMALFORMED", "failOnDataLoss": "false"}):
        with pytest.raises(PathError, match=r"different batches at offset 4.*is older than its files; give one of"):
            kafkaseg.plan([tmp_path / name for name in order], **options)
    assert read([tmp_path / name for name in order if name != "B"])[-2:] == values([(4, 5, 7)], "leader")


@pytest.mark.parametrize("order", [*permutations("ABC")])
def test_a_wrong_last_epoch_beside_a_wrong_offset(order: Sequence[str], tmp_path: Path) -> None:
    """The last batch of C states an offset of that of B, and differs there: but A has the one of B, with its epoch."""
    a = write_common(tmp_path / "A", make_batch(4, 5, 5, "both") + make_batch(6, 7, 5, "both"), [(5, 0)])
    (a / "t-0" / "leader-epoch-checkpoint").unlink()
    write_common(tmp_path / "B", make_batch(4, 5, 7, "both"), [(5, 0)])
    moved = (5).to_bytes(8, "big") + make_batch(2, 3, 5, "both")[8:]
    write_replica(tmp_path / "C", {0: make_batch(0, 1, 5, "both"), 2: moved}, [(5, 0)])
    assert read([tmp_path / name for name in order]) == values([*COMMON, (4, 5, 5), (6, 7, 5)], "both")


@pytest.mark.parametrize("start", [6, 7])
@pytest.mark.parametrize("epoch", [5, 7])
@pytest.mark.parametrize("turn", [1, -1])
def test_an_older_checkpoint_before_batches_of_an_earlier_epoch(
    turn: int, epoch: int, start: int, tmp_path: Path
) -> None:
    """They go on where the last batch ends, unless its epoch is what it states."""
    a = write_common(tmp_path / "A", make_batch(4, 5, 9, "leader"), [(5, 0)])
    b = write_replica(tmp_path / "B", {start: make_batch(start, start + 1, epoch, "stale")}, [])
    with pytest.raises(PathError, match=r"epoch 9, and the leader-epoch-checkpoint there ends with 5.*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("end", [[(4, 4, 5)], [(4, 4, 6), (5, 5, 7)]])
@pytest.mark.parametrize("turn", [1, -1])
def test_an_earlier_last_epoch_than_its_checkpoint_has(
    turn: int, end: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    """A flipped bit made 5 or 7 of the leader's 13 or 15, or its batch is older than its checkpoint. B counts only
    then."""
    lines = [(5, 0), (13, 4)] if len(end) == 1 else [(5, 0), (6, 4), (15, 5)]
    a = write_common(tmp_path / "A", b"".join(make_batch(*batch, "leader") for batch in end), lines)
    b = write_common(tmp_path / "B", make_batch(4, 4, 8, "stale"), [(5, 0), (8, 4)])
    for options in ({}, {"mode": "DROPMALFORMED", "failOnDataLoss": "false"}):
        with pytest.raises(PathError, match=r"checkpoint there ends with 1[35].*or the epoch is damaged; give one of"):
            kafkaseg.plan([a, b][::turn], **options)


@pytest.mark.parametrize("turn", [1, -1])
def test_an_older_checkpoint_and_a_wrong_last_epoch(turn: int, tmp_path: Path) -> None:
    """The batch before is of an epoch that the checkpoint lacks too, and contradicts the leader's. But a leader of the
    epoch 17 may have had it."""
    a = write_common(tmp_path / "A", make_batch(4, 5, 7, "leader"), [(5, 0), (7, 4)])
    b = write_common(tmp_path / "B", make_batch(4, 4, 6, "stale") + make_batch(5, 5, 17, "stale"), [(5, 0)])
    with pytest.raises(PathError, match=r"epoch 17, and the leader-epoch-checkpoint there ends with 5.*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_an_older_checkpoint_of_a_leader_that_took_an_earlier_log(turn: int, tmp_path: Path) -> None:
    """After two elections that were not clean, the leader has the lower epoch where the two part."""
    earlier = make_batch(4, 5, 5, "leader") + make_batch(6, 7, 7, "leader")
    a = write_common(tmp_path / "A", earlier, [(5, 0)])
    b = write_common(tmp_path / "B", make_batch(4, 5, 6, "stale") + make_batch(6, 6, 6, "stale"), [])
    with pytest.raises(PathError, match=r"epoch 7, and the leader-epoch-checkpoint there ends with 5.*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("left", [30, 61, -1])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_torn_last_batch_that_states_the_offsets_of_a_stale_one(turn: int, left: int, tmp_path: Path) -> None:
    """It has no records to compare."""
    a = write_common(tmp_path / "A", make_batch(4, 5, 6, "leader")[:left], [])
    b = write_common(tmp_path / "B", make_batch(4, 5, 5, "stale"), [])
    with pytest.raises(DataLossError, match="of a later leader epoch than the batches of another copy"):
        read([a, b][::turn])
    assert kafkaseg.scan([a, b][::turn], failOnDataLoss=False).read_all().num_rows == 6


@pytest.mark.parametrize("turn", [1, -1])
def test_a_last_batch_with_a_lower_epoch_than_its_checkpoint(turn: int, tmp_path: Path) -> None:
    """It has that of the last line. So the line of the leader contradicts it, where compaction left nothing."""
    stale = make_batch(4, 5, 5, "stale")
    a = write_common(tmp_path / "A", make_batch(8, 9, 6, "leader"), [(5, 0), (6, 4)])
    b = write_common(tmp_path / "B", stale[:12] + (1).to_bytes(4) + stale[16:], [(5, 0)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    assert read([a, b][::turn]) == [*values(COMMON, "both"), *values([(8, 9, 6)], "leader")]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_wrong_last_epoch_that_is_the_one_of_the_leader(turn: int, tmp_path: Path) -> None:
    """Compaction left the batch of the leader no record. So only the epoch would say that the stale one is the same."""
    before, stale = make_batch(4, 5, 5, "stale"), make_batch(6, 7, 5, "stale")
    emptied = writer.record_batch([], base_offset=6, leader_epoch=6, last_offset_delta=1)
    a = write_common(tmp_path / "A", emptied + make_batch(8, 9, 6, "leader"), [(5, 0), (6, 4)])
    b = write_common(tmp_path / "B", before + stale[:12] + (6).to_bytes(4) + stale[16:], [(5, 0)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    with pytest.raises(PathError, match=r"and the leader-epoch-checkpoint there ends with .*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_a_wrong_last_epoch_hides_no_stale_end(turn: int, tmp_path: Path) -> None:
    """The leader's line contradicts the batch before, and its next batch bears the line out."""
    stale = bytearray(b"".join(make_batch(*each, who) for each, who in [((0, 1, 0), "both"), ((2, 3, 0), "stale")]))
    last = make_batch(4, 5, 0, "stale")
    stale += last[:15] + bytes([64]) + last[16:]
    leader = make_batch(0, 1, 0, "both") + make_batch(8, 9, 1, "leader")
    a = write_replica(tmp_path / "A", {0: leader}, [(0, 0), (1, 2)])
    b = write_replica(tmp_path / "B", {0: bytes(stale)}, [(0, 0)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    with pytest.raises(PathError, match=r"and the leader-epoch-checkpoint there ends with .*give one of"):
        kafkaseg.plan([a, b][::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_a_marker_of_the_history_that_lost(turn: int, tmp_path: Path) -> None:
    """The stale copy has the row at 2, and committed it at 9. There the leader's history is another one, which aborted
    it at 12. Damage of the leader's copy hides the way there, so nobody knows the end of the transaction."""

    def data(offset: int, epoch: int) -> bytes:
        row = [Rec(0, 1000 + offset, b"k", b"v%d" % offset)]
        return writer.record_batch(
            row, base_offset=offset, leader_epoch=epoch, producer_id=7, producer_epoch=0, transactional=True
        )

    def end(marker: Literal["commit", "abort"], offset: int, epoch: int) -> bytes:
        return writer.control_batch(
            marker, offset=offset, timestamp=1000 + offset, producer_id=7, producer_epoch=0, leader_epoch=epoch
        )

    damaged = bytearray(make_batch(5, 7, 2, "leader"))
    damaged[-3] ^= 4
    leader = {0: bytes(damaged), 8: make_batch(8, 8, 3, "leader") + end("abort", 12, 3)}
    a = write_replica(tmp_path / "A", {0: data(2, 0) + end("commit", 9, 2)}, [(0, 0), (2, 4)])
    b = write_replica(tmp_path / "B", leader, [(0, 0), (2, 4), (3, 8)])
    (tmp_path / "B" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    options = {"mode": "DROPMALFORMED", "failOnDataLoss": False}
    found = kafkaseg.scan([a, b][::turn], ["value"], isolationLevel="read_committed", **options).read_all()  # type: ignore[arg-type]
    assert found["value"].to_pylist() == [b"leader0"]
    every = kafkaseg.scan([a, b][::turn], ["value"], **options).read_all()  # type: ignore[arg-type]
    assert every["value"].to_pylist() == [b"v2", b"leader0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_wrong_epoch_behind_a_stale_end(turn: int, tmp_path: Path) -> None:
    """The batch of the leader right behind the stale end has a wrong epoch. The one after it shows the difference."""
    batches = [(0, 1, 1), (8, 8, 1 << 29), (9, 10, 1), (11, 12, 1)]
    leader = write_replica(
        tmp_path / "A", {0: b"".join(make_batch(*each, "led") for each in batches)}, [(1, 0), (8, 13)]
    )
    stale = b"".join(make_batch(*each, "led" if not at else "stale") for at, each in enumerate([(0, 1, 1), (2, 3, 4)]))
    follower = write_replica(tmp_path / "B", {0: stale}, [(1, 0), (4, 2)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    assert read([leader, follower][::turn]) == values(batches, "led")


@pytest.mark.parametrize("turn", [1, -1])
def test_damage_at_the_start_of_a_stale_copy(turn: int, tmp_path: Path) -> None:
    """Retention took the start of the stale copy, and damage its first batch. The next one is of a lower epoch than the
    last one of the leader."""
    batches = [(0, 1, 1), (2, 3, 3)]
    leader = write_replica(tmp_path / "A", {0: b"".join(make_batch(*each, "led") for each in batches)}, [])
    torn = bytearray(make_batch(6, 7, 1, "stale"))
    torn[-1] ^= 1
    follower = write_replica(tmp_path / "B", {6: bytes(torn) + make_batch(8, 9, 1, "stale")}, [(1, 6), (2, 10)])
    assert read([leader, follower][::turn]) == values(batches, "led")


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_no_line_notes_casts_no_doubt_on_the_next_batch(turn: int, tmp_path: Path) -> None:
    batches = [(0, 1, 1), (2, 2, 5), (9, 10, 5)]
    leader = write_replica(
        tmp_path / "A", {0: b"".join(make_batch(*each, "led") for each in batches)}, [(1, 0), (5, 2)]
    )
    stale = make_batch(0, 1, 1, "led") + make_batch(2, 2, 2049, "led") + make_batch(3, 5, 1, "stale")
    follower = write_replica(tmp_path / "B", {0: stale}, [(1, 0), (3, 6)])
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 8\n")
    assert read([leader, follower][::turn]) == values(batches, "led")


@pytest.mark.parametrize("turn", [1, -1])
def test_a_batch_that_follows_where_damage_says_so(turn: int, tmp_path: Path) -> None:
    """The last batch of the leader has a wrong offset, and its first one is damaged. The one between begins where the
    damage states its end, so its epoch counts, and the other copy is stale."""
    torn = bytearray(make_batch(0, 2, 1, "led"))
    torn[-1] ^= 1
    data = bytes(torn) + make_batch(3, 7, 10, "led") + make_batch(1 << 20, 1 << 20, 10, "led")
    leader = write_replica(tmp_path / "A", {0: data}, [])
    follower = write_replica(tmp_path / "B", {0: make_batch(0, 2, 1, "led") + make_batch(3, 5, 9, "stale")}, [])
    table = kafkaseg.scan(
        [leader, follower][::turn], ["offset", "value"], mode="DROPMALFORMED", failOnDataLoss=False
    ).read_all()
    rows = dict(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert [rows[offset] for offset in range(3, 8)] == values([(3, 7, 10)], "led")


@pytest.mark.parametrize("order", [*permutations("ABC")])
def test_a_wrong_last_epoch_beside_a_batch_that_is_left_out(order: Sequence[str], tmp_path: Path) -> None:
    """The last batch of C states wrong offsets, so it is left out. It does not show that that of B, which it overlaps,
    is of a later leader than the checkpoints have."""
    emptied = writer.record_batch([], base_offset=4, leader_epoch=5, last_offset_delta=1)
    common = make_batch(0, 1, 5, "both") + make_batch(2, 3, 5, "both")
    write_replica(tmp_path / "A", {0: common + emptied + make_batch(6, 7, 5, "both")}, [(5, 0)])
    write_replica(tmp_path / "B", {0: common + make_batch(4, 5, 7, "both")}, [(5, 0)])
    moved = (3).to_bytes(8, "big") + make_batch(2, 3, 5, "both")[8:]
    write_replica(tmp_path / "C", {0: make_batch(0, 1, 5, "both") + moved}, [(5, 0)])
    with pytest.raises(
        PathError, match=r"B/t-0' is of leader epoch 7, and the leader-epoch-checkpoint there ends with 5"
    ):
        kafkaseg.plan([tmp_path / name for name in order])


@pytest.mark.parametrize("largest", [2**63 - 1, 2**63 - 3])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_first_batch_with_an_offset_that_none_can_follow(turn: int, largest: int, tmp_path: Path) -> None:
    """It is damaged. The other copy, whose end is stale, has it whole. `verify` names the fault."""
    led = [(0, 2, 3), (3, 7, 3), (8, 8, 3), (9, 13, 3), (14, 16, 3), (17, 17, 4), (18, 18, 4)]
    batches = [make_batch(*spec, "led") for spec in led]
    first = largest.to_bytes(8, "big") + batches[0][8:]
    a = write_replica(tmp_path / "A", {0: b"".join([first, *batches[1:]])}, [(3, 0), (4, 17)])
    stale = make_batch(17, 21, 3, "stale") + make_batch(22, 26, 3, "stale")
    b = write_replica(tmp_path / "B", {0: b"".join(batches[:3]), 9: b"".join(batches[3:5]), 17: stale}, [(3, 0)])
    assert read([a, b][::turn]) == values(led, "led")
    report = kafkaseg.verify([a, b][::turn])
    named = [finding.what for partition in report.partitions for finding in partition.findings if not finding.position]
    assert any(what.startswith("batch of impossible offsets") for what in named)


@pytest.mark.parametrize("behind", [[(5, 6, 1), (7, 9, 1)], [(5, 6, 1)]])
@pytest.mark.parametrize("more", [1, 100, 2**30])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_batch_that_states_more_offsets_than_it_has(
    turn: int, more: int, behind: list[tuple[int, int, int]], tmp_path: Path
) -> None:
    """Its CRC is right, so no flipped bit made that. What lies behind it is there, in both copies, and is not lost."""
    recs = [Rec(at, 1000 + at, b"k%d" % at, b"led%d" % at) for at in range(3)]
    wrong = writer.record_batch(recs, base_offset=2, leader_epoch=1, last_offset_delta=2 + more)
    rest = [make_batch(*spec, "led") for spec in behind]
    ends = [len(make_batch(0, 1, 1, "led")), len(make_batch(0, 1, 1, "led") + wrong)]
    a = write_replica(tmp_path / "A", {0: b"".join([make_batch(0, 1, 1, "led"), wrong, *rest])}, [(1, 0)])
    b = write_replica(
        tmp_path / "B", {0: b"".join([make_batch(0, 1, 1, "led"), make_batch(2, 4, 1, "led"), *rest])}, [(1, 0)]
    )
    for path in (a, b):
        index = path / "t-0" / writer.segment_name(0)
        index.with_suffix(".index").write_bytes(writer.offset_index([(4, ends[0]), (6, ends[1])], 0))
    paths, end = [a, b][::turn], behind[-1][1] + 1
    if (more == 1 and len(behind) == 1) or (turn == -1 and len(behind) > 1):  # the sound copy is read
        assert read(paths) == values([(0, 1, 1), (2, 4, 1), *behind], "led")
    else:
        with pytest.raises(CorruptRecordError, match=r"batch out of order.*found 5 to 6"):
            read(paths)
    for start, stop in [(0, 2), (0, 3), (2, 5), (5, end)]:
        bounds = {"startingOffsets": {"t": {"0": start}}, "endingOffsets": {"t": {"0": stop}}}
        try:
            offsets = kafkaseg.scan(paths, ["offset"], **bounds).read_all()["offset"].to_pylist()
        except CorruptRecordError:
            assert start == 5  # no other offsets are in doubt
        else:
            assert offsets == list(range(start, stop))
    assert not kafkaseg.verify([a, b][::turn]).is_ok


@pytest.mark.parametrize("turn", [1, -1])
def test_an_offset_that_none_can_follow_before_a_batch_of_as_many_offsets(turn: int, tmp_path: Path) -> None:
    """The other copy has a batch of as many offsets further on. The two are compared, and are not the same."""
    wrong = (2**63 - 1).to_bytes(8, "big") + make_batch(3, 7, 1, "led")[8:]
    behind = make_batch(8, 12, 1, "behind")
    a = write_replica(tmp_path / "A", {0: make_batch(0, 2, 1, "led") + wrong, 8: behind}, [(1, 0)])
    b = write_replica(tmp_path / "B", {8: behind}, [(1, 8)])
    with pytest.raises(CorruptRecordError, match=r"of impossible offsets \(no copy holds the offsets 3 to 7 whole"):
        read([a, b][::turn])
