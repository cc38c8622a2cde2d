"""Batches of one copy at a wrong place, beside a stale or compacted copy: no stale row, and no loss in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from tests.support.layouts import write_copies

TURNS = pytest.mark.parametrize("turn", [1, -1])
UP_TO = [{}, {"endingOffsets": {"t": {"0": 9}}}, {"startingOffsets": {"t": {"0": 8}}, "endingOffsets": {"t": {"0": 9}}}]
STALE = {0: "[0-3 e0] [4-7 e0] [8-9 e0]"}


def read(paths: list[str], **options: Any) -> list[tuple[int, str]]:
    table = kafkaseg.scan(paths, ["offset", "value"], **options).read_all().to_pydict()
    return [(offset, value.decode()) for offset, value in zip(table["offset"], table["value"], strict=True)]


def mark(path: str) -> None:
    """Notes that the cleaner of a broker has been at a copy."""
    (Path(path) / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")


@TURNS
@pytest.mark.parametrize("options", UP_TO)
@pytest.mark.parametrize(
    "leader",
    [
        {0: "[10 e1] [0-3 e0] [4-7 e0]", 8: "[8-9 e1]", 10: ""},  # into a file that a read up to 9 does not read
        {0: "[0-3 e0]", 4: "[4-7 e0]", 8: "[10 e1] [8-9 e1]"},  # changed places in the last file
        {0: "[0-3 e0]", 4: "[4-7 e0] [10 e1] [8-9 e1]", 11: "[11 e1]"},  # in a file that others follow
        {0: "[0-3 e0]", 4: "[11 e1]", 8: "[4-7 e0] [8-10 e1]", 11: ""},  # two files have each other's batches
    ],
)
def test_no_row_of_a_stale_copy(leader: dict[int, str], options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """The place of the leader's batch is in doubt, but its epoch is later than that of the other copy's batch there."""
    paths = write_copies(tmp_path, leader, STALE)[::turn]
    try:
        found = read(paths, **options)
    except (CorruptRecordError, DataLossError):
        return
    assert {offset: value for offset, value in found if offset >= 8} == {
        offset: f"v{offset} of e1" for offset, _ in found if offset >= 8
    }


@TURNS
@pytest.mark.parametrize("options", UP_TO)
def test_batches_of_two_epochs_at_one_offset_where_a_read_is_mended(
    options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    """Nothing says which of the two counts. So a strict read says so, and a lenient one has neither."""
    paths = write_copies(tmp_path, {0: "[0-3 e0]", 4: "[4-7 e0]", 8: "[10 e1] [8-9 e1]"}, STALE)[::turn]
    with pytest.raises((CorruptRecordError, DataLossError)):
        read(paths, **options)
    assert not [row for row in read(paths, mode="DROPMALFORMED", failOnDataLoss=False) if "of e1" in row[1]]


@TURNS
def test_the_only_batch_of_a_last_file_in_a_file_that_is_not_read(turn: int, tmp_path: Path) -> None:
    """A copy that counts as compacted has it in a file whose offsets another copy gives. No gap explains it."""
    paths = write_copies(
        tmp_path, {0: "[0-3 e0] [8-9 e0]", 4: "[4-5 e0] [6-7 e0]", 8: ""}, {0: "[0-3 e0]", 4: "[4-5 e0]"}
    )
    mark(paths[0])
    with pytest.raises(DataLossError, match="the offsets 8 to 9"):
        read(paths[::turn])
    assert [finding.offset for finding in kafkaseg.verify(paths[::turn]).together if finding.problem] == [8]
    lenient = read(paths[::turn], mode="DROPMALFORMED", failOnDataLoss=False)
    assert [offset for offset, _ in lenient] == list(range(8))


@TURNS
def test_a_moved_batch_of_another_part_of_its_file(turn: int, tmp_path: Path) -> None:
    """The plan reads 0 to 3 and 6 to 7 from the compacted copy's file, and 4 to 5 from the other copy. It knows the
    batch, as it reads the file where it does not begin as its name says."""
    hurt = {0: "[6-7 e0] [0-3 e0] [4-5 e0] [8-9 e0]", 10: "[10 e0]"}
    paths = write_copies(tmp_path, hurt, {0: "[0-3 e0]", 4: "[4-5 e0]"})
    mark(paths[0])
    with pytest.raises(DataLossError, match=r"has them at a wrong place: no file holds the offsets 6 to 7"):
        read(paths[::turn])


@TURNS
@pytest.mark.parametrize(
    ("hurt", "first"),
    [("[0-3 e0] [6-7 e0] [4-5 e0] [8-9 e0]", 4), ("[0-3 e0] [4-5 e0] [6-7 e0 !] [8-9 e0]", 6)],
)
def test_damage_where_compaction_has_thinned_the_other_copy(
    hurt: str, first: int, turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both copies are what they may be, but rows that one of them had are gone: a read says so."""
    paths = write_copies(tmp_path, {0: hurt, 10: "[10 e0]"}, {0: "[0-3 e0] [8-9 e0]", 10: "[10 e0]"})
    mark(paths[1])
    assert [offset for offset, _ in read(paths[::turn])] == [*range(first), 8, 9, 10]
    said = [message for message in caplog.messages if "records that compaction removed are not returned" in message]
    assert len(said) == 1 and said[0].startswith(f"offsets {first} to 7 of partition t-0 are read from a copy that was")


@TURNS
def test_a_last_file_whose_batches_all_lie_below_its_name(turn: int, tmp_path: Path) -> None:
    """Two files have each other's batches. Nothing has changed while they were read, and no error says so."""
    hurt = {0: "[8-9 e0] [10-12 e0]", 8: "[0-2 e0] [3-5 e0] [6-7 e0]"}
    paths = write_copies(tmp_path, hurt, {0: "[2 e0] [6-7 e0]", 8: "[8-9 e0] [10-12 e0]"})
    mark(paths[1])
    with pytest.raises((CorruptRecordError, DataLossError)):
        read(paths[::turn])
    found = read(paths[::turn], mode="DROPMALFORMED", failOnDataLoss=False)
    assert {value for _, value in found} <= {f"v{offset} of e0" for offset, _ in found}


@TURNS
def test_damage_of_a_compacted_copy_where_the_other_one_has_nothing(
    turn: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Compaction may have removed the batch there. Nothing shows it."""
    last = {8: "[8-9 e0] [10-11 e0]"}
    paths = write_copies(tmp_path, {0: "[0-3 e0]", 4: "[4-7 e0 !]"} | last, {0: "[0-3 e0]"} | last)
    for path in paths:
        mark(path)
    assert [offset for offset, _ in read(paths[::turn])] == [*range(4), *range(8, 12)]
    said = [message for message in caplog.messages if "records that compaction removed are not returned" in message]
    assert len(said) == 1 and said[0].startswith("offsets 4 to 7 of partition t-0 are read from a copy that was")


@TURNS
@pytest.mark.parametrize(("marked", "thinned"), [(True, False), (False, True), (False, False)])
def test_a_damaged_batch_that_is_gone_without_a_trace_from_the_other_copy(
    marked: bool, thinned: bool, turn: int, tmp_path: Path
) -> None:
    """Nothing but a marker, or a batch with fewer records, shows that compaction was there."""
    rest = "[8-11 e0 (9)]" if thinned else "[8-11 e0]"
    paths = write_copies(tmp_path, {0: "[0-3 e0] [4-7 e0 !] [8-11 e0] [12 e0]"}, {0: f"[0-3 e0] {rest} [12 e0]"})
    if marked:
        mark(paths[1])
    if marked or thinned:
        assert [offset for offset, _ in read(paths[::turn])][:4] == [*range(4)]
    else:
        with pytest.raises(CorruptRecordError, match="no copy holds the offsets 4 to 7 whole"):
            read(paths[::turn])
        assert not kafkaseg.verify(paths).is_ok
        lenient = read(paths[::turn], mode="DROPMALFORMED")
        assert [offset for offset, _ in lenient] == [*range(4), *range(8, 13)]
