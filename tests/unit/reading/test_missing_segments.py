"""read_committed where a segment is missing: what was open before it may have ended in it, and nothing is guessed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataLossError
from tests.support import writer
from tests.support.ledgers import data, marker, snapshot, write


def plain(base: int, count: int = 5) -> bytes:
    """A batch outside of transactions."""
    return data(base, None, count)


def inside(base: int, producer: int, count: int = 5) -> bytes:
    """A batch in the transaction of a producer."""
    return data(base, producer, count)


def offsets(path: Any, start: int | None = None, end: int | None = None, **options: Any) -> list[int]:
    if start is not None:
        options["startingOffsets"] = {"ledger": {"0": start}}
    if end is not None:
        options["endingOffsets"] = {"ledger": {"0": end}}
    options = {"isolationLevel": "read_committed", **options}
    return kafkaseg.scan(path, columns=["offset"], **options).read_all()["offset"].to_pylist()


def warnings_of(path: Any, **options: Any) -> str:
    return " | ".join(kafkaseg.plan(path, isolationLevel="read_committed", **options).warnings)


BEFORE = [plain(0), inside(5, 7)]
AFTER = [plain(20, 10), inside(30, 8, 2), marker("commit", 32, 8), plain(33)]
GIVEN = [*range(5), *range(20, 32), *range(33, 38)]


@pytest.fixture
def holed(tmp_path: Path) -> Path:
    """Producer 7 is open before the missing offsets 10 to 19."""
    return write(tmp_path, {0: BEFORE, 20: AFTER})


def test_a_transaction_that_is_open_before_a_missing_segment(holed: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ends as read_uncommitted does. Or its rows are withheld, and what follows is read; nobody is told to abort
    it."""
    for level in ("read_uncommitted", "read_committed"):
        with pytest.raises(DataLossError, match="offsets 10 to 19 of partition ledger-0 are missing"):
            offsets(holed, isolationLevel=level)
    with caplog.at_level(logging.WARNING):
        assert offsets(holed, failOnDataLoss=False) == GIVEN
    said = " | ".join(caplog.messages)
    assert "offsets 10 to 19 of partition ledger-0 are missing" in said
    assert "producer 7" in said and "is not known" in said
    assert "hanging" not in said and "abort" not in said and "last stable offset, 5" not in said


def test_the_plan_says_that_the_end_is_not_known(holed: Path) -> None:
    """It names the producer, where its transaction began, and where offsets are missing."""
    said = warnings_of(holed)
    assert "producer 7 since offset 5 (" in said and "from 10 on" in said and "hanging" not in said
    assert "producer 7" not in warnings_of(holed, endingOffsets={"ledger": {"0": 5}})


def test_bounds_that_end_before_the_hole(holed: Path) -> None:
    """What was committed for certain is given. Rows whose marker may be in the hole are lost."""
    assert offsets(holed, end=5) == [0, 1, 2, 3, 4]
    for end in (6, 10):
        with pytest.raises(DataLossError, match=r"producer 7 around offset 5 in .* has no marker .* offsets 10 to 19"):
            offsets(holed, end=end)
        assert offsets(holed, end=end, failOnDataLoss=False) == [0, 1, 2, 3, 4]


def test_bounds_behind_the_hole(holed: Path) -> None:
    """They need nothing from before it."""
    assert offsets(holed, start=20) == GIVEN[5:]


def test_the_marker_before_the_hole(tmp_path: Path) -> None:
    """A transaction that ended before the hole is known; only a read across the hole is a loss."""
    folder = write(tmp_path, {0: [inside(0, 7), marker("commit", 5, 7), plain(6, 4)], 20: AFTER})
    assert offsets(folder, end=10) == [*range(5), *range(6, 10)]
    with pytest.raises(DataLossError, match="offsets 10 to 19"):
        offsets(folder)


def test_a_hole_before_the_open_transaction(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is open at the end withholds rows. It may have begun in the hole, so no start offset is advised."""
    folder = write(tmp_path, {0: [plain(0)], 10: [plain(10), inside(15, 7), plain(20)]})
    with pytest.raises(DataLossError, match="offsets 5 to 9"):
        offsets(folder)
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, failOnDataLoss=False) == [*range(5), *range(10, 15)]
    said = " | ".join(caplog.messages)
    assert "ends at its last stable offset, 15" in said and "producer 7 since offset 15" in said
    assert "may have begun before" in said and "--start-offset" not in said


def test_several_holes(tmp_path: Path) -> None:
    """Each hole takes with it what was open before it."""
    segments = {0: BEFORE, 20: [inside(20, 8), inside(25, 7)], 40: [marker("commit", 40, 8), marker("commit", 41, 7)]}
    folder = write(tmp_path, {**segments, 42: [plain(42)]})
    assert offsets(folder, failOnDataLoss=False) == [*range(5), *range(42, 47)]
    with pytest.raises(DataLossError, match="offsets 30 to 39"):
        offsets(folder, start=20, end=30)
    assert offsets(folder, start=42) == [*range(42, 47)]


def test_a_hole_behind_the_stable_end(tmp_path: Path) -> None:
    """A snapshot behind the hole proves that the transaction is open still: the log ends where it began."""
    folder = write(tmp_path, {0: BEFORE, 20: AFTER})
    (folder / writer.segment_name(20, ".snapshot")).write_bytes(snapshot({7: 5}))
    assert offsets(folder) == [0, 1, 2, 3, 4]
    assert "ends at its last stable offset, 5" in warnings_of(folder) and "--start-offset 5" in warnings_of(folder)


def test_a_snapshot_at_the_hole(tmp_path: Path) -> None:
    """That of the missing segment says what was open before it, and no more."""
    folder = write(tmp_path, {0: BEFORE, 20: AFTER})
    (folder / writer.segment_name(10, ".snapshot")).write_bytes(snapshot({7: 5}))
    assert offsets(folder, failOnDataLoss=False) == GIVEN
    with pytest.raises(DataLossError):
        offsets(folder)


@pytest.mark.parametrize("orphan", [".index", ".txnindex"])
def test_a_missing_end_that_an_index_file_proves(tmp_path: Path, orphan: str, caplog: pytest.LogCaptureFixture) -> None:
    """The last segment is gone and its index file is there: its marker may have been there too."""
    folder = write(tmp_path, {0: BEFORE})
    entries = {".index": writer.offset_index([(12, 100)], 10), ".txnindex": writer.transaction_index([(7, 5, 12, 13)])}
    (folder / writer.segment_name(10, orphan)).write_bytes(entries[orphan])
    for end in (None, 10):
        with pytest.raises(DataLossError):
            offsets(folder, end=end)
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, failOnDataLoss=False) == [0, 1, 2, 3, 4]
    said = " | ".join(caplog.messages)
    assert "hanging" not in said and "abort" not in said and "producer 7" in said
    assert offsets(folder, end=5) == [0, 1, 2, 3, 4]


def test_an_empty_file_between_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that lost its bytes is a hole too."""
    folder = write(tmp_path, {0: BEFORE, 10: [], 20: AFTER})
    with pytest.raises(DataLossError):
        offsets(folder)
    with caplog.at_level(logging.WARNING):
        assert offsets(folder, failOnDataLoss=False) == GIVEN
    assert "abort" not in " ".join(caplog.messages)


def test_a_hole_that_another_copy_fills(tmp_path: Path) -> None:
    """With the segment from another directory nothing is missing. Where no copy has it, it is lost."""
    middle = [marker("commit", 10, 7), plain(11, 9)]
    one = write(tmp_path / "a", {0: BEFORE, 20: AFTER})
    other = write(tmp_path / "b", {0: BEFORE, 10: middle, 20: AFTER})
    assert offsets([one, other]) == [*range(10), *range(11, 32), *range(33, 38)]
    third = write(tmp_path / "c", {0: BEFORE, 20: AFTER})
    assert offsets([one, third], end=5) == [0, 1, 2, 3, 4]
    for end in (None, 10):
        with pytest.raises(DataLossError, match="offsets 10 to 19"):
            offsets([one, third], end=end)
    assert offsets([one, third], failOnDataLoss=False) == GIVEN
    assert "abort" not in warnings_of([one, third])


@pytest.mark.parametrize("end", [None, 15])
@pytest.mark.parametrize("following", ["", "commit", "data"])
def test_a_batch_that_is_gone_from_two_copies(following: str, end: int | None, tmp_path: Path) -> None:
    """A cleaner stays below what is open, so it made no gap behind that. If something of the producer follows, it may
    have."""
    follows = {"": [plain(25)], "commit": [marker("commit", 25, 7)], "data": [inside(25, 7)]}[following]
    held = {0: [*BEFORE, plain(12, 8), plain(20)], 25: follows}
    paths = [write(tmp_path / name, held).parent for name in "ab"]
    said = warnings_of(paths, startingOffsets={"ledger": {"0": 12}}, endingOffsets={"ledger": {"0": end or 20}})
    assert offsets(paths, 12, end or 20) == [*range(12, end or 20)]
    assert ("not known how the transactions of producer 7 since offset 5" in said) == (following == "")
    assert ("as offsets from 10 on are missing" in said) == (following == "")


def test_the_high_watermark_comes_before_the_hole(tmp_path: Path) -> None:
    """A marker behind the high watermark ends nothing, wherever it is: the transaction is open."""
    folder = write(tmp_path, {0: BEFORE, 20: AFTER})
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nledger 0 10\n")
    assert offsets(folder, endAt="highWatermark") == [0, 1, 2, 3, 4]
    assert "--start-offset 5" in warnings_of(folder, endAt="highWatermark")


def test_nothing_is_asked_about_rows_outside_the_bounds(tmp_path: Path) -> None:
    """They lie in the same bytes as the wanted ones. That their marker is missing is no loss."""
    folder = write(tmp_path, {0: [inside(0, 7), plain(5), inside(10, 8)], 20: AFTER})
    assert offsets(folder, start=5, end=10) == [5, 6, 7, 8, 9]
