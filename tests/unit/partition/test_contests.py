"""A copy that counts has lost a file, and other copies contradict each other there, or contradict its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataError, DataLossError, PathError
from tests.support import writer
from tests.support.layouts import mark, offsets, write_copies
from tests.unit.partition.test_stale_ends import make_batch, read, write_replica

Batch = tuple[int, int, int, str]  # first offset, last one, leader epoch, who wrote it
Line = tuple[int, int]  # leader epoch, first offset
COMMON, STALE, LED, LAST = (0, 0, 2, "all"), (1, 1, 4, "stale"), (1, 1, 2, "led"), (2, 2, 5, "led")
LINES = [(2, 0), (5, 2)]
ORDERS = list(permutations("ABC"))
LOSSES = ["empty", "gone"]


def join(*batches: Batch) -> bytes:
    return b"".join(make_batch(*batch) for batch in batches)


def write_leader(root: Path, loss: str, lines: list[tuple[int, int]] | None) -> Path:
    """The copy that counts has lost its file of offset 1."""
    lost = {1: b""} if loss == "empty" else {}
    write_replica(root, {0: join(COMMON), **lost, 2: join(LAST)}, lines or [])
    if lines is None:
        (root / "t-0" / "leader-epoch-checkpoint").unlink()
    return root


def write_stale(root: Path, end: Sequence[Batch] = (STALE,)) -> Path:
    return write_replica(root, {0: join(COMMON, *end)}, [(2, 0), (4, 1)])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("lines", [LINES, None])
def test_a_follower_beside_a_replaced_leader(
    lines: list[tuple[int, int]] | None, loss: str, order: Sequence[str], tmp_path: Path
) -> None:
    """The last leader had followed either of the two. In a compacted topic its checkpoint need not say which."""
    paths = {
        "A": write_leader(tmp_path / "A", loss, lines),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED)}, [(2, 0)]),
        "C": write_stale(tmp_path / "C"),
    }
    with pytest.raises(PathError, match=r"at offset 1 .* names the latest leader epoch, and has no batch there"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("led", [{0: "[0 e0]", 2: "[2 e3] [3 e3]"}, {0: "[0 e0]", 1: "", 2: "[2-3 e3]"}])
def test_a_follower_with_a_stale_end_beside_a_replaced_leader(
    led: dict[int, str], marked: bool, turn: int, tmp_path: Path
) -> None:
    """Nothing shows whether the last leader's log had offset 1 of the follower, or that of the other copy."""
    follower, replaced = {0: "[0 e0] [1 e2] [2 e2]"}, {0: "[0 e0] [1 e1]"}
    paths = write_copies(tmp_path, led, replaced, follower, epochs=("", "0 0, 1 1", "0 0, 2 1"))
    if marked:
        mark(paths[0])
    with pytest.raises(PathError, match=r"at offset 1 .* names the latest leader epoch, and has no batch there"):
        offsets(paths[::turn])
    assert offsets([paths[0], paths[1]][::turn]) == [0, 1, 2, 3]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_follower_that_shares_what_lies_behind_an_undecided_batch(turn: int, tmp_path: Path) -> None:
    led, follower, replaced = "[0 e0] [2 e1] [3 e5]", "[0 e0] [1 e1] [2 e1]", "[0 e0] [1 e0] [2 e4]"
    paths = write_copies(tmp_path, {0: led}, {0: follower}, {0: replaced})
    table = kafkaseg.scan(paths[::turn], ["value"]).read_all()
    assert table["value"].to_pylist() == [b"v0 of e0", b"v1 of e1", b"v2 of e1", b"v3 of e5"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_follower_that_shares_what_lies_behind(loss: str, order: Sequence[str], tmp_path: Path) -> None:
    paths = {
        "A": write_leader(tmp_path / "A", loss, LINES),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED, LAST)}, LINES),
        "C": write_stale(tmp_path / "C"),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_follower_that_is_damaged_before(order: Sequence[str], tmp_path: Path) -> None:
    """What lies behind damage is read too. It shows that the other follower is right."""
    common, led, last = [(offset, offset, 2, "all") for offset in range(3)], (3, 3, 2, "led"), (4, 4, 5, "led")
    damaged = bytearray(join(*common, led, last))
    damaged[len(join(common[0])) + 9] ^= 1  # of the length
    lines = [(2, 0), (5, 4)]
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(*common), 4: join(last)}, lines),
        "B": write_replica(tmp_path / "B", {0: bytes(damaged)}, lines[:1]),
        "C": write_replica(tmp_path / "C", {0: join(*common, (3, 3, 4, "stale"))}, [(2, 0), (4, 3)]),
    }
    short = write_replica(tmp_path / "D", {0: join(*common, led)}, lines[:1])
    assert read([short, *(paths[name] for name in order)]) == [b"all0", b"all0", b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shown", ["batch", "line"])
def test_a_follower_that_shares_an_epoch_behind(shown: str, order: Sequence[str], tmp_path: Path) -> None:
    """Both have the batch of epoch 7, or note epoch 5 at one offset. So they are of one history below it."""
    last = [LAST, (3, 3, 7, "led"), (4, 4, 8, "led")]
    leader = write_replica(tmp_path / "A", {0: join(COMMON), 2: join(*last)}, [*LINES, (7, 3), (8, 4)])
    end = join(*last[:2]) if shown == "batch" else join(LAST)[:-1]
    follower = write_replica(tmp_path / "B", {0: join(COMMON, LED) + end}, LINES)
    if shown == "batch":
        (follower / "t-0" / "leader-epoch-checkpoint").unlink()
    paths = {"A": leader, "B": follower, "C": write_stale(tmp_path / "C")}
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_follower_whose_common_batch_is_damaged(order: Sequence[str], tmp_path: Path) -> None:
    """Its header is that of the sound one. So it is the same batch."""
    last = join(LAST)
    paths = {
        "A": write_replica(tmp_path / "A", {2: last + join((3, 3, 7, "led"))}, [(5, 2), (7, 3)]),
        "B": write_replica(
            tmp_path / "B", {0: join(COMMON, (1, 1, 4, "led")), 2: last[:-1] + bytes([last[-1] ^ 1]), 3: b""}, []
        ),
        "C": write_replica(tmp_path / "C", {0: join(COMMON, (1, 1, 3, "old"))}, [(2, 0), (3, 1)]),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_follower_with_another_batch_of_the_same_leader(order: Sequence[str], tmp_path: Path) -> None:
    """The leader of epoch 5 has written what was lost, and what lies behind."""
    paths = {
        "A": write_replica(
            tmp_path / "A", {0: join(COMMON), 2: join(LAST, (3, 3, 7, "led"))}, [(2, 0), (5, 1), (7, 3)]
        ),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, (1, 1, 5, "led"))}, []),
        "C": write_stale(tmp_path / "C"),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loss", ["empty", "gone", "damaged"])
def test_a_follower_with_the_line_of_what_was_lost(loss: str, order: Sequence[str], tmp_path: Path) -> None:
    """Both note epoch 3 at 1. Or the damaged batch has the header of the sound one."""
    led = (1, 1, 3, "led")
    lost = {"empty": {1: b""}, "gone": {}, "damaged": {1: join(led)[:-1] + bytes([join(led)[-1] ^ 1])}}[loss]
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(COMMON), **lost, 2: join(LAST)}, [(2, 0), (3, 1), (5, 2)]),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, led)}, [(2, 0), (3, 1)]),
        "C": write_stale(tmp_path / "C"),
    }
    if loss == "damaged":
        (tmp_path / "B" / "t-0" / "leader-epoch-checkpoint").unlink()
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_replaced_leader_that_the_third_copy_has_not_followed(order: Sequence[str], tmp_path: Path) -> None:
    """Retention took what the others differ in. No log has a batch of epoch 4 before one of epoch 2."""
    paths = {
        "A": write_replica(tmp_path / "A", {1: join(LED, LAST)}, [(2, 1), (5, 2)]),
        "B": write_replica(tmp_path / "B", {0: join((0, 0, 1, "old"))}, [(1, 0)]),
        "C": write_replica(tmp_path / "C", {0: join((0, 0, 4, "stale"))}, [(4, 0)]),
    }
    assert read([paths[name] for name in order]) == [b"old0", b"led0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_line_stands_against_what_is_left_of_a_copy(loss: str, turn: int, tmp_path: Path) -> None:
    """The last batch of the stale copy is of a later epoch than the line, and is not read. The one before is not."""
    lost = {1: b""} if loss == "empty" else {}
    lines = [(1, 0), (3, 1), (6, 2)]
    common = (0, 0, 1, "all")
    leader = write_replica(tmp_path / "A", {0: join(common), **lost, 2: join((2, 2, 6, "led"))}, lines)
    stale = [common, (1, 1, 2, "stale"), (2, 2, 4, "stale")]
    paths = [leader, write_replica(tmp_path / "B", {0: join(*stale)}, [(1, 0), (2, 1), (4, 2)])][::turn]
    with pytest.raises(DataLossError, match="1 to 1"):
        read(paths)
    rows = kafkaseg.scan(paths, ["value"], failOnDataLoss="false").read_all()["value"].to_pylist()
    assert rows == [b"all0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_replaced_leader_whose_batch_is_damaged(order: Sequence[str], tmp_path: Path) -> None:
    """Its line stands against the follower, which shares what lies behind with the copy that counts."""
    behind, stale = (2, 2, 2, "led"), join(STALE)
    paths = {
        "A": write_replica(tmp_path / "A", {0: b"", 2: join(behind, (3, 3, 5, "led"))}, [(2, 0), (5, 3)]),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED, behind)}, [(2, 0)]),
        "C": write_replica(tmp_path / "C", {0: join(COMMON), 1: stale[:-1] + bytes([stale[-1] ^ 1])}, [(2, 0), (4, 1)]),
    }
    with pytest.raises(PathError, match=r"at offset 1 .* names the latest leader epoch, and has no batch there"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("order", ORDERS)
def test_two_copies_of_a_replaced_leader(order: Sequence[str], tmp_path: Path) -> None:
    """They share what lies behind, and one of them has lost what lies before. Both count less than the third."""
    stale = [STALE, (2, 2, 4, "stale")]
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(COMMON, LED, LAST)}, LINES),
        "B": write_stale(tmp_path / "B", stale),
        "C": write_replica(tmp_path / "C", {0: join(COMMON), 2: join(stale[1])}, [(2, 0), (4, 1)]),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_leader_whose_log_begins_behind(order: Sequence[str], tmp_path: Path) -> None:
    """Retention took what the others differ in."""
    paths = {
        "A": write_replica(tmp_path / "A", {2: join(LAST)}, [(5, 2)]),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED)}, [(2, 0)]),
        "C": write_stale(tmp_path / "C"),
    }
    with pytest.raises(PathError, match=r"at offset 1 .* names the latest leader epoch, and has no batch there"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("order", ORDERS)
def test_a_leader_that_wrote_nothing_and_ends_before(order: Sequence[str], tmp_path: Path) -> None:
    """A later leader may have kept what it lacked. So the plan warns, and the rows come."""
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(COMMON)}, [(2, 0), (5, 1)]),
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED)}, [(2, 0)]),
        "C": write_stale(tmp_path / "C"),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"stale0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_stale_copy_that_has_nothing_there(order: Sequence[str], tmp_path: Path) -> None:
    """It counts less than the others, so that it does not decide between them."""
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(COMMON, LED, LAST)}, LINES),
        "B": write_replica(tmp_path / "B", {0: join(COMMON), 2: join((2, 2, 3, "old"))}, [(2, 0), (3, 2)]),
        "C": write_stale(tmp_path / "C"),
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", list(permutations("ABCD")))
@pytest.mark.parametrize("has_lines", [True, False])
def test_a_follower_that_ends_there_beside_one_that_goes_on(
    has_lines: bool, order: Sequence[str], tmp_path: Path
) -> None:
    """One of the two that have the batch is shown to be of the last leader's history."""
    leader = write_replica(tmp_path / "A", {0: join(COMMON), 2: join(LAST, (3, 3, 7, "led"))}, [*LINES, (7, 3)])
    further = write_replica(tmp_path / "D", {0: join(COMMON, LED, LAST)}, LINES)
    if not has_lines:
        (further / "t-0" / "leader-epoch-checkpoint").unlink()
    paths = {
        "A": leader,
        "B": write_replica(tmp_path / "B", {0: join(COMMON, LED)}, [(2, 0)]),
        "C": write_stale(tmp_path / "C"),
        "D": further,
    }
    assert read([paths[name] for name in order]) == [b"all0", b"led0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_two_replaced_leaders(order: Sequence[str], tmp_path: Path) -> None:
    """Neither of them is read there. So what they differ in does not matter."""
    named = {
        "A": write_leader(tmp_path / "A", "gone", LINES),
        "B": write_stale(tmp_path / "B"),
        "C": write_replica(tmp_path / "C", {0: join(COMMON, (1, 1, 3, "old"))}, [(2, 0), (3, 1)]),
    }
    paths = [named[name] for name in order]
    with pytest.raises(DataLossError, match="1 to 1"):
        read(paths)
    rows = kafkaseg.scan(paths, ["value"], failOnDataLoss="false").read_all()["value"].to_pylist()
    assert rows == [b"all0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("last", [1, 2])
def test_an_epoch_that_the_other_checkpoint_lacks(last: int, loss: str, turn: int, tmp_path: Path) -> None:
    """Without compaction, a broker notes each epoch. So the copy with epoch 4 is of another history.

    last: the offset of its last batch. The other copy has lost two offsets.
    """
    lost = {1: b""} if loss == "empty" else {}
    leader = {0: join(COMMON), **lost, 3: join((3, 3, 5, "led"))}
    stale = [(offset, offset, 4, "stale") for offset in range(1, last + 1)]
    paths = [
        write_replica(tmp_path / "A", leader, [(2, 0), (5, 3)]),
        write_stale(tmp_path / "B", stale),
    ][::turn]
    with pytest.raises(DataLossError, match="1 to 2"):
        read(paths)
    rows = kafkaseg.scan(paths, ["value"], failOnDataLoss="false").read_all()["value"].to_pylist()
    assert rows == [b"all0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_both_copies_have_and_one_checkpoint_lacks(turn: int, tmp_path: Path) -> None:
    """No CRC covers a checkpoint. The common batch shows that it is wrong."""
    paths = [
        write_replica(tmp_path / "A", {0: join(COMMON, STALE, LAST)}, LINES),
        write_stale(tmp_path / "B"),
    ][::turn]
    assert not any("different histories" in warning for warning in kafkaseg.plan(paths).warnings)


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_compaction_took_from_the_other_checkpoint(turn: int, tmp_path: Path) -> None:
    """A broker that fetched a compacted log did not see epoch 4. So the two need not differ."""
    paths = [write_leader(tmp_path / "A", "gone", LINES), write_stale(tmp_path / "B")][::turn]
    (tmp_path / "A" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert not any("different histories" in warning for warning in kafkaseg.plan(paths).warnings)


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_compaction_took_as_a_third_copy_shows(turn: int, tmp_path: Path) -> None:
    """One marked copy says that the topic is compacted."""
    paths = [write_leader(tmp_path / "A", "gone", LINES), write_stale(tmp_path / "B")]
    paths.append(write_replica(tmp_path / "C", {3: join(LAST)}, LINES[-1:]))
    (tmp_path / "C" / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert not any("different histories" in warning for warning in kafkaseg.plan(paths[::turn]).warnings)


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_that_compaction_took_as_the_gap_shows(turn: int, tmp_path: Path) -> None:
    """No copy is marked. But nothing else leaves a gap between two whole batches of one file."""
    paths = [write_replica(tmp_path / "A", {0: join(COMMON, LAST)}, LINES), write_stale(tmp_path / "B")]
    assert not any("different histories" in warning for warning in kafkaseg.plan(paths[::turn]).warnings)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_line_that_no_batch_bears_out(turn: int, tmp_path: Path) -> None:
    """The leader of epoch 5 wrote nothing. A later one may have had what is of epoch 4."""
    bare = write_replica(tmp_path / "A", {0: join(COMMON)}, LINES)
    assert read([bare, write_stale(tmp_path / "B")][::turn]) == [b"all0", b"stale0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_copy_that_has_had_the_later_leader_too(turn: int, tmp_path: Path) -> None:
    """Both note epoch 5. The checkpoint of one of them lacks epoch 4, and no CRC covers it."""
    paths = [
        write_leader(tmp_path / "A", "gone", LINES),
        write_replica(tmp_path / "B", {0: join(COMMON, STALE)}, [(2, 0), (4, 1), (5, 2)]),
    ]
    assert read(paths[::turn]) == [b"all0", b"stale0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_copy_that_begins_behind_what_the_others_differ_in(order: Sequence[str], tmp_path: Path) -> None:
    """Retention moves the line of its first epoch to where it begins. So the line says nothing of what lies before."""
    lost = b"\xff" * len(join((1, 1, 5, "led")))
    leader = write_unnoted(tmp_path / "A", join(COMMON) + lost + join((2, 2, 5, "led")))
    stale = [(offset, offset, 2, "stale") for offset in (1, 2, 3)]
    paths = {
        "A": leader,
        "B": write_replica(tmp_path / "B", {3: join((3, 3, 5, "led"))}, [(5, 3)]),
        "C": write_replica(tmp_path / "C", {1: join(*stale)}, [(2, 1)]),
    }
    with pytest.raises(CorruptRecordError, match="offsets 1 to 1 whole"):
        read([paths[name] for name in order])


PARTS = [(1, 2), (2, 3), (1, 3), (0, 4)]


def read_part(paths: list[Path], start: int, end: int) -> list[bytes]:
    bounds = {"startingOffsets": {"t": {"0": start}}, "endingOffsets": {"t": {"0": end}}}
    return kafkaseg.scan(paths, ["value"], **bounds).read_all()["value"].to_pylist()


def hurt(*batches: Batch, at: int) -> bytes:
    """Joins batches, of which the one at a number is damaged."""
    data = bytearray(join(*batches))
    data[len(join(*batches[: at + 1])) - 1] ^= 1
    return bytes(data)


def write_unnoted(root: Path, data: bytes) -> Path:
    """Writes a copy without a checkpoint."""
    path = write_replica(root, {0: data}, [])
    (path / "t-0" / "leader-epoch-checkpoint").unlink()
    return path


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("is_torn", [True, False])
@pytest.mark.parametrize("is_noted", [True, False])
def test_a_damaged_last_batch_that_names_the_latest_leader(
    is_noted: bool, is_torn: bool, turn: int, tmp_path: Path
) -> None:
    """No CRC covers its epoch, and no line bears it out. So nothing says which copy counts."""
    batches = [COMMON, LED, (2, 2, 5, "last")]
    data = join(*batches)[:-9] if is_torn else hurt(*batches, at=2)
    paths = [write_unnoted(tmp_path / "A", data), write_unnoted(tmp_path / "B", join(COMMON, STALE))]
    if is_noted:
        (tmp_path / "A" / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    with pytest.raises(PathError, match="and damaged bytes there state 5"):
        read(paths[::turn])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("stale", [[(1, 2, 2, "stale")], [(1, 1, 2, "old"), (2, 2, 2, "stale")]])
def test_a_damaged_batch_that_names_a_later_leader(stale: list[Batch], turn: int, tmp_path: Path) -> None:
    """What an earlier leader wrote there is no copy of it."""
    data = hurt(COMMON, (1, 2, 4, "led"), (3, 3, 4, "last"), at=1)
    paths = [write_unnoted(tmp_path / "A", data), write_unnoted(tmp_path / "B", join(COMMON, *stale))]
    with pytest.raises(CorruptRecordError, match="offsets 1 to 2 whole"):
        read(paths[::turn])
    for start, end in PARTS:
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets"):
            read_part(paths[::turn], start, end)
    lenient = {"failOnDataLoss": "false", "mode": "DROPMALFORMED"}
    rows = kafkaseg.scan(paths[::turn], ["value"], **lenient).read_all()["value"].to_pylist()
    assert rows == [b"all0", b"last0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_batch_that_names_a_later_leader_beside_damage_of_the_other_copy(turn: int, tmp_path: Path) -> None:
    """That copy has no index. So its batch there is found by reading the file behind its own damage."""
    data = hurt(COMMON, (1, 2, 4, "led"), (3, 3, 4, "last"), at=1)
    stale = hurt(COMMON, (1, 2, 3, "stale"), at=0)
    paths = [write_unnoted(tmp_path / "A", data), write_unnoted(tmp_path / "B", stale)]
    for start, end in [(0, 4), *PARTS]:
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets"):
            read_part(paths[::turn], start, end)


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("stated", [0, 3, 5, 2**40])
@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("stale", [[(1, 2, 2, "stale")], [(1, 1, 2, "old"), (2, 2, 2, "stale")]])
def test_a_batch_with_a_wrong_offset_that_names_a_later_leader(
    stale: list[Batch], first: int, stated: int, turn: int, tmp_path: Path
) -> None:
    """Just its offsets are missing there. So it belongs there, and what an earlier leader wrote does not."""
    moved = stated.to_bytes(8) + join((1, 2, 4, "led"))[8:]
    before = b"" if first else join(COMMON)
    paths = [
        write_replica(tmp_path / "A", {first: before + moved + join((3, 3, 4, "last"))}, []),
        write_unnoted(tmp_path / "B", join(COMMON, *stale)),
    ]
    for start, end in PARTS:
        with pytest.raises((CorruptRecordError, DataLossError)):
            read_part(paths[::turn], start, end)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_moved_batch_that_the_other_copy_has(turn: int, tmp_path: Path) -> None:
    moved = (5).to_bytes(8) + join((1, 2, 4, "led"))[8:]
    data = join(COMMON) + moved + join((3, 3, 4, "last"))
    paths = [
        write_unnoted(tmp_path / "A", data),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 2, 4, "led"))),
    ]
    assert read_part(paths[::turn], 1, 2) == [b"led0"]
    assert read_part(paths[::turn], 2, 3) == [b"led1"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_batch_of_an_earlier_leader_than_the_other_copy_names(turn: int, tmp_path: Path) -> None:
    """That copy has followed a later leader, so it may be the right one."""
    stale = write_unnoted(tmp_path / "A", hurt(COMMON, (1, 1, 4, "stale"), at=1))
    leader = write_replica(tmp_path / "B", {0: hurt(COMMON, LED, (2, 2, 5, "last"), at=0)}, LINES)
    assert read([stale, leader][::turn]) == [b"all0", b"led0", b"last0"]


@pytest.mark.parametrize("order", ORDERS)
def test_two_copies_with_the_line_of_a_later_leader(order: Sequence[str], tmp_path: Path) -> None:
    """One of them shows that this leader wrote, whatever the order of the paths is."""
    lines = [(2, 0), (5, 1)]
    lost = write_replica(tmp_path / "B", {0: join(COMMON)}, lines)
    (lost / "t-0" / f"{1:020d}.index").write_bytes((1).to_bytes(4) + (78).to_bytes(4))
    paths = {
        "A": write_replica(tmp_path / "A", {0: join(COMMON)}, lines),
        "B": lost,
        "C": write_unnoted(tmp_path / "C", join(COMMON, (1, 1, 2, "stale"), (2, 2, 2, "stale"))),
    }
    with pytest.raises((PathError, DataLossError)):
        read([paths[name] for name in order])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("wrong", [1, 7])
def test_an_epoch_that_its_own_line_and_the_other_copy_contradict(wrong: int, turn: int, tmp_path: Path) -> None:
    """Its own checkpoint has the epoch with which the other copy has the batch: it decides nothing by its own."""
    follower = [(0, 0, 2, "a"), (1, 1, 3, "b"), (2, 2, 3, "c")]
    paths = [
        write_replica(tmp_path / "A", {0: join(*follower)}, [(2, 0), (3, 1)]),
        write_replica(tmp_path / "B", {2: join((2, 2, wrong, "c"), (3, 3, 5, "d"))}, [(3, 2), (5, 3)]),
    ]
    assert read(paths[::turn]) == [b"a0", b"b0", b"c0", b"d0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_line_that_a_later_leader_contradicts(order: Sequence[str], tmp_path: Path) -> None:
    """The leader of epoch 3 has what the follower ends with. So the copy that notes epoch 2 there is the stale one."""
    led = [(0, 1, 1, "led"), (2, 3, 1, "led"), (4, 5, 1, "led")]
    paths = {
        "A": write_replica(
            tmp_path / "A", {0: b"", 1: join((2, 4, 2, "stale")), 5: join((5, 7, 2, "stale"))}, [(2, 0)]
        ),
        "B": write_replica(tmp_path / "B", {0: join(*led, (6, 7, 1, "led"), (8, 8, 3, "last"))}, [(1, 0), (3, 8)]),
        "C": write_replica(tmp_path / "C", {0: join(*led)}, [(1, 0)]),
    }
    assert read([paths[name] for name in order]) == [*[b"led0", b"led1"] * 4, b"last0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_end_behind_a_batch_that_its_checkpoint_lacks(turn: int, tmp_path: Path) -> None:
    """Whatever the epoch of the last whole batch is, the damaged one behind it may be of the latest leader."""
    data = hurt(COMMON, (1, 1, 3, "led"), (2, 2, 6, "last"), at=2)
    paths = [
        write_replica(tmp_path / "A", {0: data}, [(2, 0)]),
        write_replica(tmp_path / "B", {0: join(COMMON, (1, 1, 5, "other"))}, [(2, 0), (5, 1)]),
    ]
    with pytest.raises(PathError, match="nothing says which one counts"):
        read(paths[::turn])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("part", PARTS)
def test_a_damaged_batch_where_the_other_copy_has_a_gap(part: tuple[int, int], turn: int, tmp_path: Path) -> None:
    """Nothing shows that the topic is compacted. A read of a few offsets says so, as one of all does."""
    paths = [
        write_unnoted(tmp_path / "A", hurt(COMMON, (1, 2, 2, "led"), (3, 3, 2, "last"), at=1)),
        write_unnoted(tmp_path / "B", join(COMMON, (3, 3, 2, "last"))),
    ]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets"):
        read_part(paths[::turn], *part)


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("how", ["damaged", "torn", "moved", "alone"])
def test_a_left_out_batch_at_the_end_of_a_file(how: str, part: tuple[int, int], turn: int, tmp_path: Path) -> None:
    """The first batch of the next file bears out its epoch."""
    batch, last = (1, 2, 4, "led"), join((3, 3, 4, "last"))
    data = {
        "damaged": hurt(COMMON, batch, at=1),
        "torn": join(COMMON, batch)[:-9],
        "moved": join(COMMON) + (9).to_bytes(8) + join(batch)[8:],
    }
    files = {0: data[how]} if how in data else {0: join(COMMON), 1: hurt(batch, at=0)}
    paths = [
        write_unnoted(tmp_path / "A", b""),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 2, 2, "stale"))),
    ]
    for base, content in {**files, 3: last}.items():
        (tmp_path / "A" / "t-0" / f"{base:020d}.log").write_bytes(content)
    with pytest.raises((CorruptRecordError, DataLossError)):
        read_part(paths[::turn], *part)


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_batch_whose_epoch_the_batches_around_contradict(turn: int, tmp_path: Path) -> None:
    """Its epoch is damaged too. So it says nothing about the other copy."""
    paths = [
        write_unnoted(tmp_path / "A", hurt(COMMON, (1, 2, 5, "led"), (3, 3, 4, "last"), at=1)),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 2, 2, "kept"))),
    ]
    assert read(paths[::turn]) == [b"all0", b"kept0", b"kept1", b"last0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_batch_with_another_epoch_than_its_twin(turn: int, tmp_path: Path) -> None:
    paths = [
        write_unnoted(tmp_path / "A", hurt(COMMON, (1, 2, 3, "led"), (3, 3, 4, "last"), at=1)),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 2, 2, "led"))),
    ]
    assert read(paths[::turn]) == [b"all0", b"led0", b"led1", b"last0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_line_that_a_later_leader_without_the_end_does_not_contradict(order: Sequence[str], tmp_path: Path) -> None:
    """The leader of epoch 3 does not have what the third copy ends with."""
    paths = {
        "A": write_replica(tmp_path / "A", {0: b""}, [(2, 0)]),
        "B": write_replica(tmp_path / "B", {2: join((2, 2, 2, "led"), (4, 4, 3, "last"))}, []),
        "C": write_replica(tmp_path / "C", {2: join((2, 3, 1, "stale"))}, [(1, 2)]),
    }
    (tmp_path / "A" / "t-0" / f"{0:020d}.index").write_bytes((3).to_bytes(4) + (78).to_bytes(4))
    with pytest.raises(PathError, match="began at offset 0, and that copy has something else there"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("turn", [1, -1])
def test_a_damaged_batch_that_states_a_later_last_offset(turn: int, tmp_path: Path) -> None:
    """Compaction has removed what lies behind it. The other copy still has that, of the next leader."""
    data = bytearray(join(COMMON, (1, 1, 3, "led"), (4, 4, 4, "last")))
    data[len(join(COMMON)) + 26] ^= 1  # the last byte of lastOffsetDelta
    paths = [
        write_unnoted(tmp_path / "A", bytes(data)),
        write_unnoted(tmp_path / "B", join(COMMON, (2, 2, 4, "next"), (3, 3, 4, "then"))),
    ]
    for path in paths:
        (path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    rows = kafkaseg.scan(paths[::turn], ["value"], mode="DROPMALFORMED").read_all()["value"].to_pylist()
    assert rows == [b"all0", b"next0", b"then0", b"last0"]


def flip(data: bytes, *bits: int) -> bytes:
    """Flips bits of bytes: byte * 8 + bit, 0 being the lowest bit of a byte."""
    flipped = bytearray(data)
    for bit in bits:
        flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


# the sign of baseOffset, length and lastOffsetDelta; a length below the least one; the magic
IMPOSSIBLE = [7, 71, 191, 94, *range(128, 136)]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("lines", [None, [(2, 0)]])
@pytest.mark.parametrize("bit", IMPOSSIBLE)
def test_an_impossible_header_of_a_last_batch(bit: int, lines: list[Line] | None, turn: int, tmp_path: Path) -> None:
    """Its place and its leader are certain but for one bit. So what an earlier leader wrote there is no copy of it."""
    leader = write_replica(tmp_path / "A", {0: join(COMMON) + flip(join((1, 2, 4, "led")), bit)}, lines or [])
    if lines is None:
        (leader / "t-0" / "leader-epoch-checkpoint").unlink()
    paths = [leader, write_unnoted(tmp_path / "B", join(COMMON, (1, 1, 3, "stale")))]
    for start, end in [(0, 3), (1, 2)]:
        with pytest.raises((DataError, DataLossError, PathError)):
            read_part(paths[::turn], start, end)
    assert not kafkaseg.verify(paths).is_ok


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("bit", IMPOSSIBLE)
def test_an_impossible_header_between_sound_batches(bit: int, turn: int, tmp_path: Path) -> None:
    data = join(COMMON) + flip(join((1, 2, 4, "led")), bit) + join((3, 3, 4, "last"))
    paths = [
        write_unnoted(tmp_path / "A", data),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 1, 3, "stale"))),
    ]
    for start, end in PARTS:
        with pytest.raises(DataError):
            read_part(paths[::turn], start, end)


@pytest.mark.parametrize("turn", [1, -1])
def test_the_only_batch_of_the_last_file_names_the_latest_leader(turn: int, tmp_path: Path) -> None:
    batches = [COMMON, (1, 1, 3, "led")]
    last = flip(join((2, 3, 6, "last")), 94)
    paths = [
        write_replica(tmp_path / "A", {0: join(*batches), 2: last}, [(2, 0)]),
        write_unnoted(tmp_path / "B", join(COMMON, (1, 2, 5, "stale"))),
    ]
    with pytest.raises(PathError, match="nothing says which one counts"):
        read(paths[::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_a_last_epoch_with_a_wrong_sign(turn: int, tmp_path: Path) -> None:
    """A batch of magic 2 has no epoch below -1."""
    data = join(COMMON) + flip(join((1, 2, 4, "led")), 103)
    assert read([write_unnoted(tmp_path / "A", data)]) == [b"all0", b"led0", b"led1"]
    stale = write_unnoted(tmp_path / "B", join(COMMON, (1, 1, 3, "stale")))
    with pytest.raises(PathError, match="damaged bytes there state 4"):
        read([tmp_path / "A", stale][::turn])


@pytest.mark.parametrize("turn", [1, -1])
def test_only_damaged_bytes_name_a_leader(turn: int, tmp_path: Path) -> None:
    """That copy has no whole batch."""
    paths = [
        write_unnoted(tmp_path / "A", join((0, 0, 2, "all"))[:-5]),
        write_replica(tmp_path / "B", {0: join((0, 0, 1, "stale"))}, [(1, 0)]),
    ]
    with pytest.raises(DataLossError, match="of a later leader epoch than the batches of another copy"):
        read(paths[::turn])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("length", [17, 42, 53])
@pytest.mark.parametrize("is_apart", [True, False])
def test_zeros_over_the_head_of_a_last_batch(is_apart: bool, length: int, turn: int, tmp_path: Path) -> None:
    """What is left of the batch lies behind them: they are no room that was preallocated."""
    hurt_batch = bytes(length) + join((1, 2, 6, "led"))[length:]
    files = {0: join(COMMON), 1: hurt_batch} if is_apart else {0: join(COMMON) + hurt_batch}
    paths = [
        write_replica(tmp_path / "A", files, [(2, 0), (6, 1)]),
        write_replica(tmp_path / "B", {0: join(COMMON, (1, 1, 2, "stale"))}, [(2, 0)]),
    ]
    with pytest.raises(PathError, match="that copy has something else there"):
        read(paths[::turn])
    assert not kafkaseg.verify(paths).is_ok


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("bit", [140, 80, 91, 520])  # of the CRC, of the length, of the records
def test_a_damaged_twin_shows_that_a_checkpoint_is_old(bit: int, turn: int, tmp_path: Path) -> None:
    """The header of the batch is the same in the other copy but for one bit, and that copy notes its epoch."""
    batches = [(0, 0, 0, "a"), (1, 1, 0, "b")]
    last = join((2, 2, 1, "c"))
    paths = [
        write_replica(tmp_path / "A", {0: join(*batches) + last}, [(0, 0)]),
        write_replica(tmp_path / "B", {0: join(*batches) + flip(last, bit)}, [(0, 0), (1, 2)]),
    ]
    assert read(paths[::turn]) == [b"a0", b"b0", b"c0"]


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("count", [1, 2])
def test_a_damaged_end_of_an_old_format(count: int, magic: int, turn: int, tmp_path: Path) -> None:
    """The CRC of a message stands where a batch has its epoch. So it is no later leader than the one of the others."""
    messages = [writer.message(at, b"k", b"v%d" % at, magic=magic) for at in range(2)]
    data = b"".join(messages[:count])
    paths = [
        write_unnoted(tmp_path / "A", flip(data, len(data) * 8 - 1)),
        write_unnoted(tmp_path / "B", b"".join([*messages, join((2, 2, 3, "last"))])),
    ]
    assert read(paths[::turn]) == [b"v0", b"v1", b"last0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_two_files_that_changed_their_bytes(turn: int, tmp_path: Path) -> None:
    """The first batch of one is as long as the gap that they leave, but the others of it lie there too. Its leader says
    nothing of the gap (misplaced batches 3300016865)."""
    files = {0: "[0-3 e0]", 4: "[4-5 e0] [6-7 e0]", 8: "[8-9 e1]"}
    paths = write_copies(tmp_path, files | {4: files[8], 8: files[4], 10: "[10-12 e1]"}, files)
    assert offsets(paths[::turn]) == list(range(13))
