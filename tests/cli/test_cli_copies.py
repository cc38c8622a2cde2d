"""`ls` and `verify` of several copies of a partition follow the chain that a read of all paths follows."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import DataLossError, KafkaSegmentError, StorageError
from kafka_segment_source.inspection import copies as combined
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.storage import store
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support.layouts import write_copies
from tests.support.rows import OFFSET, scanned
from tests.support.small_logs import pl, put

MIDDLE = "00000000000000000174.log"
DAMAGED_OFFSET = 226  # of the batch at byte 2,338 of MIDDLE
NEXT_OFFSET = 382  # of the segment after it


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Two copies of a real partition of six segments, with the offsets 0 to 1163."""
    return [copy_of(LOGS / "orders-0", tmp_path / name) for name in ("a", "b")]


def damage(copy: Path) -> None:
    file = copy / MIDDLE
    data = bytearray(file.read_bytes())
    data[3000] ^= 4
    file.write_bytes(data)


def remove(copy: Path, base: int) -> None:
    for file in copy.glob(f"{base:020d}.*"):
        file.unlink()


def is_complete(copies: list[Path]) -> bool:
    """Whether a strict query of all copies succeeds with all rows."""
    try:
        return [row[OFFSET] for row in scanned(copies)] == list(range(1164))
    except KafkaSegmentError:
        return False


@pytest.mark.parametrize("damaged", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("shortened", [(), (0,), (1,), (0, 1)])
def test_verify_fails_where_a_query_of_all_copies_fails(
    copies: list[Path], damaged: tuple[int, ...], shortened: tuple[int, ...]
) -> None:
    """Each loss of one copy is a note if the other copy holds the records, and a problem if none does."""
    for at in damaged:
        damage(copies[at])
    for at in shortened:
        remove(copies[at], NEXT_OFFSET)
    whole = is_complete(copies)
    found = answer("verify", *copies, "--json", exit_code=0 if whole else 1)

    assert found["ok"] is whole
    assert whole == (len(damaged) < 2 and len(shortened) < 2)
    lost = {each["offset"] for each in found["problems"]}
    assert (DAMAGED_OFFSET in lost) == (len(damaged) == 2)
    assert (NEXT_OFFSET in lost) == (len(shortened) == 2)
    held = [each["offset"] for each in found["notes"] if "another of the given copies" in each["meaning"]]
    assert sorted(held) == [DAMAGED_OFFSET] * (len(damaged) == 1) + [NEXT_OFFSET] * (len(shortened) == 1)


def test_a_gap_between_sound_copies_is_a_problem(tmp_path: Path) -> None:
    """One copy ends at 9, the other begins at 20: each is sound, and a query of both ends with an error."""
    one = put(tmp_path / "a", 0, pl(0, 10)).parent
    other = put(tmp_path / "b", 20, pl(20, 10)).parent
    [problem] = kafkaseg.verify([one, other]).problems

    assert problem.offset == 10
    assert "no copy holds the offsets 10 to 19 of t-0" in problem.what
    with pytest.raises(KafkaSegmentError, match="10 to 19"):
        scanned([one, other])


def test_a_loss_at_the_end_of_all_copies_is_a_problem(copies: list[Path]) -> None:
    """An index with entries but without its `.log` proves a loss. Another copy that reaches further holds it."""
    (copies[0] / "00000000000000001006.log").unlink()
    assert kafkaseg.verify(copies).is_ok

    (copies[1] / "00000000000000001006.log").unlink()
    assert not kafkaseg.verify(copies).is_ok


def test_copies_that_contradict_each_other_are_a_problem(tmp_path: Path) -> None:
    """`verify` and `ls` say what a query says: no epoch decides between the copies."""
    paths = [put(tmp_path / word, 0, pl(0, 10, leader=-1, word=word)).parent for word in ("a", "b")]
    report = kafkaseg.verify(paths)
    listed = run("ls", *paths)

    assert [problem.meaning for problem in report.problems] == ["a query of all these paths ends with this error"]
    assert listed.exit_code == 0
    assert "a read of all copies of t-0 is not possible" in listed.stderr


@pytest.mark.parametrize("turn", [1, -1])
def test_verify_takes_copies_in_the_order_of_a_query(turn: int, tmp_path: Path) -> None:
    """Of copies that hold offsets equally well the first is read."""
    paths = write_copies(tmp_path, {0: "[1-2 e0 (2)]", 3: "[3-5 e0]"}, {0: "[0 e0]", 3: "[1-2 e0] [3-5 e0]"})[::turn]
    try:
        scanned(paths)
        is_whole = True
    except KafkaSegmentError:
        is_whole = False
    assert kafkaseg.verify(paths).is_ok == is_whole


def test_a_fenced_copy_is_noted(tmp_path: Path) -> None:
    """The copy with the lower leader epoch loses its end. `verify` says so, and it is no problem."""
    stale = put(tmp_path / "a", 0, pl(0, 10, leader=1), pl(10, 5, leader=1, word="x")).parent
    now = put(tmp_path / "b", 0, pl(0, 10, leader=1), pl(10, 5, leader=2, word="y")).parent
    report = kafkaseg.verify([stale, now])

    assert report.is_ok
    assert any("a broker would drop these records" in note.meaning for note in report.notes)


def test_ls_says_which_copy_is_read(copies: list[Path]) -> None:
    """The name of each copy says where it is, the sums are explained, and the JSON has the offsets that are read."""
    remove(copies[0], NEXT_OFFSET)
    remove(copies[1], 0)
    result = run("ls", *copies, columns=200)
    listed = answer("ls", *copies, "--json")["partitions"]

    assert [line.split()[0] for line in result.stdout.splitlines()[2:4]] == ["a/orders-0", "b/orders-0"]
    assert "orders-0: 2 directories hold it; the sums count each of them" in result.stdout
    assert "partition orders-0 is found in 2 directories: offsets " in result.stderr
    ranges = sorted((each["startOffset"], each["endOffset"]) for copy in listed for each in copy["read"])
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    assert ranges[-1][1] is None
    one, other = ([(each["startOffset"], each["endOffset"]) for each in copy["read"]] for copy in listed)
    assert any(start <= 0 for start, _ in one) and any(start <= NEXT_OFFSET for start, _ in other)
    assert "read" not in answer("ls", LOGS / "orders-0", "--json")["partitions"][0]
    assert run("ls", "-t", *copies).stdout.count("orders ") == 1


def test_a_copy_whose_end_cannot_be_read_is_a_problem(copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` goes on with the other segments and copies, and says what a query says."""
    broken = str(copies[0] / "00000000000000001006.log")
    opened = store.LocalStorage.open

    def fail(self: store.LocalStorage, path: str, version: Any = None) -> Any:
        if path == broken:
            raise OSError(errno.EIO, "Input/output error")
        return opened(self, path, version)

    monkeypatch.setattr(store.LocalStorage, "open", fail)
    report = kafkaseg.verify(copies)
    assert report.is_ok and len(report.partitions) == 2
    assert any(each.path == broken for each in report.notes)
    assert len(scanned(copies)) == len(scanned(copies[1]))

    with (copies[1] / "00000000000000001006.log").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 1)
    report = kafkaseg.verify(copies)
    assert "a query of all these paths ends with this error" in [each.meaning for each in report.problems]
    with pytest.raises(StorageError, match="1006"):
        scanned(copies)


def test_a_gap_before_a_last_segment_without_a_batch_is_a_problem(tmp_path: Path) -> None:
    """No copy holds the offsets 20 to 29, and only the name of the next segment shows that they were there."""
    one = put(tmp_path / "a", 0, pl(0, 10)).parent
    put(tmp_path / "a", 10, pl(10, 10))
    put(tmp_path / "a", 30, pl(30, 10)[:30])  # torn
    other = put(tmp_path / "b", 0, pl(0, 10)).parent

    assert 20 in [each.offset for each in kafkaseg.verify([one, other]).problems]
    with pytest.raises(DataLossError, match="20 to 29"):
        scanned([one, other])


def test_a_read_that_ends_with_a_loss_has_no_offset_of_its_own(tmp_path: Path) -> None:
    """Its error names offsets in words alone, so no offset stands in the finding. Damage states one."""
    gone, hurt = write_copies(tmp_path, {0: "[0-4 e0]", 10: "[10-12 e0]"}, {0: "[0-4 e0] [5-9 e0 !] [10-12 e0]"})
    options = [parse_options(option_texts(path, {}))[0] for path in (gone, hurt)]
    losses = [combined._read_once(each.source, each.policy) for each in options]

    assert [loss.offsets for [loss] in losses] == [None, OffsetRange(5, 6)]
    assert "5 to 9" in losses[0][0].what
