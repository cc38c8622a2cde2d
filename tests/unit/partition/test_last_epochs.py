"""The leader epoch of a last batch is wrong, and other copies show it, or nothing does. No CRC covers it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from kafka_segment_source.errors import PathError
from tests.support import writer
from tests.unit.partition.test_contests import COMMON, Batch, join
from tests.unit.partition.test_stale_ends import read, write_replica

ORDERS = list(permutations("ABC"))
STALE = (1, 1, 5, "stale")


def write_copy(root: Path, batches: Sequence[Batch], lines: list[tuple[int, int]] | None) -> Path:
    write_replica(root, {0: join(*batches)}, lines or [])
    if lines is None:
        (root / "t-0" / "leader-epoch-checkpoint").unlink()
    return root


def write_three(
    root: Path, one: tuple[int, list[tuple[int, int]] | None], other: tuple[int, list[tuple[int, int]] | None]
) -> dict[str, Path]:
    """Two copies with the same last batch, each with the epoch that it states for it and the lines of its checkpoint,
    and the copy of another leader, of epoch 5."""
    copies = [
        write_copy(root / name, [COMMON, (1, 1, epoch, "led")], lines)
        for name, (epoch, lines) in (("A", one), ("B", other))
    ]
    return {"A": copies[0], "B": copies[1], "C": write_copy(root / "C", [COMMON, STALE], [(2, 0), (5, 1)])}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lines", [[(2, 0)], None])
def test_two_epochs_of_one_batch_with_another_leader_between(
    lines: list[tuple[int, int]] | None, order: Sequence[str], tmp_path: Path
) -> None:
    """The checkpoints are older than the batch, or not there. So either epoch may be right."""
    paths = write_three(tmp_path, (6, lines), (4, lines))
    with pytest.raises(PathError, match=r"of leader epoch 6, and another copy has it with 4: .* give one of the paths"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_that_a_checkpoint_has(order: Sequence[str], tmp_path: Path) -> None:
    """A flipped bit made 6 of 2. That it made 2 of 6, just the epoch of the line, is unlikely."""
    paths = write_three(tmp_path, (6, None), (2, [(2, 0)]))
    assert read([paths[name] for name in order]) == [b"all0", b"stale0"]


@pytest.mark.parametrize("order", ORDERS)
def test_an_older_checkpoint_beside_two_epochs(order: Sequence[str], tmp_path: Path) -> None:
    """Both are later than all lines of it. So the copy counts more than one of the last line's leader."""
    paths = write_three(tmp_path, (6, None), (4, [(2, 0)]))
    paths["C"] = write_copy(tmp_path / "D", [COMMON, (1, 2, 2, "stale")], [(2, 0)])
    assert read([paths[name] for name in order]) == [b"all0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_checkpoints_that_go_on_behind_the_batch(turn: int, tmp_path: Path) -> None:
    """They were written after the batch, so that they have its epoch."""
    paths = [
        write_copy(tmp_path / "A", [COMMON, (1, 1, 2, "led"), (2, 2, 9, "led")], [(2, 0), (9, 2)]),
        write_copy(tmp_path / "B", [COMMON, (1, 1, 5, "led")], [(2, 0), (8, 2)]),
    ]
    assert read(paths[::turn]) == [b"all0", b"led0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_that_follows_in_another_copy(order: Sequence[str], tmp_path: Path) -> None:
    """Epochs never fall along a log. So the batch has the epoch of the copy that goes on with epoch 4."""
    paths = write_three(tmp_path, (6, None), (4, None))
    write_copy(tmp_path / "D", [COMMON, (1, 1, 4, "led"), (2, 2, 4, "led")], None)
    names = [*order, "D"]
    assert read([{**paths, "D": tmp_path / "D"}[name] for name in names]) == [b"all0", b"stale0"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_line_that_begins_at_the_batch(order: Sequence[str], tmp_path: Path) -> None:
    """B noted the epoch when it took the batch. So the epoch of the other one is wrong."""
    paths = {
        "A": write_copy(tmp_path / "A", [COMMON, (1, 1, 6, "led")], None),
        "B": write_copy(tmp_path / "B", [COMMON, (1, 1, 4, "led")], [(2, 0), (4, 1)]),
        "C": write_copy(tmp_path / "C", [COMMON, (1, 1, 4, "led")], [(2, 0)]),
        "D": write_copy(tmp_path / "D", [COMMON, (1, 2, 2, "stale")], [(2, 0)]),
    }
    assert read([*(paths[name] for name in order), paths["D"]]) == [b"all0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_an_epoch_below_that_of_a_common_batch(turn: int, tmp_path: Path) -> None:
    """The other copy has the batch before, with its epoch. So the last epoch is the wrong one of the two."""
    paths = [
        write_copy(tmp_path / "A", [COMMON], [(2, 0)]),
        write_copy(tmp_path / "B", [COMMON, (1, 1, 0, "led")], None),
    ]
    assert read(paths[::turn]) == [b"all0", b"led0"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_stale_end_behind_a_wrong_epoch(turn: int, tmp_path: Path) -> None:
    """The other copy has the batch before with another epoch. So the last epoch is right, and the line is later."""
    common = (0, 0, 0, "all")
    leader = write_copy(tmp_path / "A", [common, (2, 2, 2, "led")], [(0, 0), (2, 1)])
    (leader / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    stale = write_copy(tmp_path / "B", [(0, 0, 4, "all"), (1, 1, 0, "stale")], None)
    assert read([leader, stale][::turn]) == [b"all0", b"led0"]


@pytest.mark.parametrize("order", ORDERS)
def test_two_batches_of_one_epoch_beside_a_third(order: Sequence[str], tmp_path: Path) -> None:
    """A flipped bit made the leader's last epoch the one of another batch. The order of the paths does not matter."""
    paths = {
        "A": write_copy(tmp_path / "A", [COMMON, (1, 1, 4, "led")], [(2, 0)]),
        "B": write_copy(tmp_path / "B", [COMMON, (1, 1, 5, "stale")], [(2, 0), (5, 1)]),
        "C": write_copy(tmp_path / "C", [COMMON, (1, 2, 4, "old")], [(2, 0), (4, 1)]),
    }
    with pytest.raises(PathError, match="give one of the paths"):
        read([paths[name] for name in order])


@pytest.mark.parametrize("turn", [1, -1])
def test_an_emptied_batch_that_looks_like_one_of_the_replaced_leader(turn: int, tmp_path: Path) -> None:
    """Compaction has emptied both, so that only their epochs tell one from the other. The checkpoint has the right
    one."""
    ours, theirs = (
        writer.record_batch(
            [], base_offset=1, leader_epoch=2, last_offset_delta=0, producer_id=producer, producer_epoch=0
        )
        for producer in (1, 2)
    )
    paths = [
        write_replica(tmp_path / "A", {0: join(COMMON) + ours}, [(2, 0), (4, 1)]),
        write_replica(tmp_path / "B", {0: join(COMMON) + theirs + join((2, 2, 2, "stale"))}, [(2, 0)]),
    ]
    with pytest.raises(PathError, match="give one of the paths"):
        read(paths[::turn])


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("lines", [[(2, 0)], None])
def test_a_wrong_epoch_right_before_the_last_batch(
    lines: list[tuple[int, int]] | None, turn: int, tmp_path: Path
) -> None:
    """The checkpoint is older than both, or not there. So the lower one of the two may be right."""
    stale = write_copy(tmp_path / "A", [COMMON, (1, 1, 13, "stale"), (2, 2, 5, "end")], lines)
    leader = write_copy(tmp_path / "B", [COMMON, (1, 1, 6, "led")], [(2, 0), (6, 1)])
    assert read([stale, leader][::turn]) == [b"all0", b"led0"]
