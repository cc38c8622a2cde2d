"""One wrong baseOffset, or one empty file, in one of two copies: the other one gives its rows, once, and a stale copy
does not win by it."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.streams import log_ends
from tests.support import writer
from tests.support.cases import choose_cases
from tests.support.layouts import encode_batches, write_copies

TURNS = pytest.mark.parametrize("turn", [1, -1])


def read(paths: list[str], **options: Any) -> list[tuple[int, str]]:
    table = kafkaseg.scan(paths, ["offset", "value"], **options).read_all().to_pydict()
    return [(offset, value.decode()) for offset, value in zip(table["offset"], table["value"], strict=True)]


def offsets(paths: list[str], **options: Any) -> list[int]:
    return [offset for offset, _ in read(paths, **options)]


def rows(*parts: tuple[int, int, int]) -> list[tuple[int, str]]:
    """Parts: first offset, last one, leader epoch."""
    return [(at, f"v{at} of e{epoch}") for first, last, epoch in parts for at in range(first, last + 1)]


@TURNS
@pytest.mark.parametrize(
    "options", [{"maxRecordsPerPartition": 1}, {"maxRecordsPerPartition": 3}, {"minPartitions": 4}]
)
@pytest.mark.parametrize(
    ("good", "hurt", "after"), [("[8-12 e0]", "[8-12 e0 @11]", 13), ("[8-9 e0]", "[8-9 e0 @9]", 10)]
)
def test_no_piece_begins_at_a_batch_that_reaches_past_the_next_segment(
    good: str, hurt: str, after: int, options: dict[str, Any], turn: int, tmp_path: Path
) -> None:
    last = f"[{after}-{after + 1} e0]"
    paths = write_copies(tmp_path, {7: f"[7 e0] {hurt}", after: last}, {7: f"[7 e0] {good}", after: last})[::turn]
    assert offsets(paths, **options) == offsets(paths) == list(range(7, after + 2))


STALE = {0: "[0-7 e0] [8-10 e0] [11-14 e0]"}
LEADER = {0: "[0-7 e0] [8-9 e1] [10-12 e1]"}


@TURNS
@pytest.mark.parametrize("epochs", [(), ("0 0, 1 8", "0 0")])
def test_a_stale_copy_with_a_wrong_offset_before_its_tail(epochs: tuple[str, ...], turn: int, tmp_path: Path) -> None:
    """The wrong batch fits exactly between its neighbours. So its neighbours are right, and are compared."""
    stale = {0: "[0-7 e0] [8-10 e0 @24] [11-14 e0]"}
    paths = write_copies(tmp_path, LEADER, stale, epochs=epochs)[::turn]
    assert read(paths) == rows((0, 7, 0), (8, 12, 1))


@TURNS
def test_a_leader_with_a_wrong_offset_before_its_tail(turn: int, tmp_path: Path) -> None:
    """No copy of the leader's history has offsets 8 and 9 whole; the stale rows there do not count."""
    hurt = {0: "[0-7 e0] [8-9 e1 @24] [10-12 e1]"}
    paths = write_copies(tmp_path, hurt, STALE, epochs=("0 0, 1 8", "0 0"))[::turn]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 8 to 9 whole"):
        read(paths)
    assert read(paths, mode="DROPMALFORMED", failOnDataLoss=False) == rows((0, 7, 0), (10, 12, 1))


@TURNS
@pytest.mark.parametrize("epochs", [(), ("0 0, 1 5", "0 0")])
def test_the_first_file_of_a_copy_is_empty(epochs: tuple[str, ...], turn: int, tmp_path: Path) -> None:
    """It begins at its first file with bytes. What the other copy has below that is read, as if the file were gone."""
    behind = {0: "[0-1 e0] [2-4 e0] [5-6 e0]"}
    paths = write_copies(tmp_path, {0: "", 5: "[5 e1] [6 e1]"}, behind, epochs=epochs)[::turn]
    assert read(paths) == rows((0, 4, 0), (5, 6, 1))


@pytest.mark.parametrize("first", [{0: "", 5: "[5 e0]"}, {0: ""}])
def test_an_export_begins_where_a_first_file_without_a_byte_does(
    first: dict[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream and an export take the first offset of the log. That file counts, though no copy is read there."""
    monkeypatch.setattr(log_ends, "LATE_SECONDS", 0.0)  # what is new is waited for
    paths = write_copies(tmp_path, first, {5: "[5 e0] [6 e0]"})
    if len(first) == 1:
        (tmp_path / "copy0" / "t-0" / f"{0:020d}.index").write_bytes(writer.offset_index([(4, 99)], 0))
    with pytest.raises(DataLossError, match="no file holds the offsets 0 to 4 of partition t-0"):
        kafkaseg.export(paths, str(tmp_path / "target"))


WHOLE = {0: "[0-1 e0] [2-3 e0] [4-5 e0]", 6: "[6-7 e0] [8-9 e0]", 10: "[10-11 e0] [12-13 e0]"}


@TURNS
@pytest.mark.parametrize("cut", [{}, {"maxRecordsPerPartition": 1}, {"trustIndexes": False}])
@pytest.mark.parametrize(
    ("base", "name"), [(6, 1), (6, 2), (6, 5), (10, 3), (10, 7), (10, 8), (10, 9), (6, 12), (10, 11), (10, 12)]
)
def test_a_segment_file_with_a_wrong_name(base: int, name: int, cut: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """The offsets from a lower name up to the first batch are in the other copy, and in the segment before."""
    renamed = {name if at == base else at: text for at, text in WHOLE.items()}
    paths = write_copies(tmp_path, renamed, WHOLE)[::turn]
    assert offsets(paths, **cut) == list(range(14))
    assert offsets(paths, startingOffsets={"t": {"0": 3}}, **cut) == list(range(3, 14))
    assert not any(found.problem for found in kafkaseg.verify(paths).together)


@TURNS
@pytest.mark.parametrize("name", [1, 2, 3, 4, 5])
def test_a_segment_file_with_a_lower_name_beside_a_later_copy(name: int, turn: int, tmp_path: Path) -> None:
    """No other copy has the offsets that the name cuts off."""
    renamed = {name if at == 6 else at: text for at, text in WHOLE.items()}
    paths = write_copies(tmp_path, renamed, {at: text for at, text in WHOLE.items() if at >= 6})[::turn]
    with pytest.raises(
        DataLossError, match=rf"0000\.log' has them, although the next file, 0*{name}\.log, begins there"
    ):
        offsets(paths)


@TURNS
@pytest.mark.parametrize("later", ["[5 e0] [6 e0]", "[6 e0] [7 e0]"])
def test_a_first_file_without_a_byte_is_a_loss_that_no_later_copy_hides(later: str, turn: int, tmp_path: Path) -> None:
    """Another copy begins where retention left it. Neither has the offsets of the empty file."""
    first = int(later[1])
    paths = write_copies(tmp_path, {0: "", 2: "", 5: "[5 e0] [6 e0] [7 e0]"}, {first: f"{later} [{first + 2} e0]"})
    with pytest.raises(DataLossError, match=r"0000\.log' is empty: no file holds the offsets 0 to 1 of partition t-0"):
        read(paths[::turn])
    with pytest.raises(DataLossError, match=r"0002\.log' is empty: no file holds the offsets 3 to 4 of partition t-0"):
        read(paths[::turn], startingOffsets={"t": {"0": 3}})
    assert offsets(paths[::turn], startingOffsets={"t": {"0": 5}})[:3] == [5, 6, 7]
    assert offsets(paths[::turn], failOnDataLoss=False)[:3] == [5, 6, 7]
    problems = [found.what for found in kafkaseg.verify(paths[::turn]).together if found.problem]
    assert ["offsets 0 to 1" in problems[0], "offsets 2 to 4" in problems[1]] == [True, True]


@TURNS
@pytest.mark.parametrize(
    ("moved", "whole", "first"),
    [
        ({0: "[10-14 e0 @42]"}, {10: "[10-14 e0]"}, [*range(10, 15)]),
        ({0: "[0-4 e0] [10-14 e0 @42]"}, {0: "[0-4 e0] [7-9 e0] [10-14 e0]"}, [*range(5), *range(7, 15)]),
        ({0: "[0-4 e0] [10-14 e0 (13,14) @42]"}, {0: "[0-4 e0] [7-9 e0] [10-14 e0]"}, [*range(5), *range(7, 15)]),
        ({10: "[20-22 e0 @21]"}, {20: "[20-22 e0]"}, [20, 21, 22]),
    ],
)
def test_a_last_batch_whose_twin_lies_further_down_in_the_other_copy(
    moved: dict[int, str], whole: dict[int, str], first: list[int], turn: int, tmp_path: Path
) -> None:
    """Its rows come out once, at the offsets of the twin, wherever in the gap the twin is."""
    paths = write_copies(tmp_path, moved, whole)[::turn]
    assert offsets(paths) == first
    assert any("has a wrong offset" in warning for warning in kafkaseg.plan(paths).warnings)


@TURNS
def test_a_batch_that_is_there_twice_is_no_twin_of_itself(turn: int, tmp_path: Path) -> None:
    """A producer without idempotence may send one batch twice. The other copy has it at both places."""
    compacted = {0: "[0-4 e0] [5-6 e0 @20]"}
    paths = write_copies(tmp_path, compacted, {0: "[0-4 e0] [5-6 e0] [5-6 e0 @20]"})[::turn]
    assert offsets(paths) == [*range(7), 20, 21]
    assert not any("has a wrong offset" in warning for warning in kafkaseg.plan(paths).warnings)


@TURNS
@pytest.mark.parametrize("bounds", [{}, {"endingOffsets": {"t": {"0": 13}}}])
def test_a_gap_before_a_last_batch_hides_no_damage(bounds: dict[str, Any], turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, {0: "[0-7 e0] [8-9 e0 @1032]"}, {0: "[0-7 e0] [8-9 e0 !] [10-12 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 8 to 9 whole"):
        read(paths, **bounds)


@TURNS
def test_a_gap_before_a_last_batch_hides_no_missing_segment(turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, {0: "[0-7 e0] [8-9 e0 @1032]"}, {0: "[0-7 e0]", 10: "[10-12 e0]"})[::turn]
    with pytest.raises(DataLossError, match="offsets 8 to 9 of partition t-0 are missing: no copy holds them"):
        read(paths)


@TURNS
@pytest.mark.parametrize("behind", ["[15 e0]", "[15 e0] [16 e0]", "[15 e0] [16 e0] [17 e0]"])
def test_a_batch_that_changed_places_and_a_wrong_offset_in_the_other_copy(
    behind: str, turn: int, tmp_path: Path
) -> None:
    """The gap that the moved batch leaves is no work of compaction, as the batch lies elsewhere in the file."""
    wrong = {0: f"[5-9 e0 (6)] [10-14 e0 @12] {behind}"}
    paths = write_copies(tmp_path, wrong, {0: f"[10-14 e0] [5-9 e0 (6)] {behind}"})[::turn]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 10 to 14 whole"):
        read(paths)


def test_a_batch_that_moved_behind_rows_that_were_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The other copy has the batch at its place. A read that was cut behind that place asks it where the gap is. In
    copies that are marked as compacted it has passed the place, and says so once."""
    sound = {0: "[0-7 e0]", 8: "[8-9 e0] [10-11 e0] [12-13 e0] [14-15 e0]", 16: "[16-17 e0]"}
    moved = {0: "[0-7 e0]", 8: "[10-11 e0] [12-13 e0] [8-9 e0] [14-15 e0]", 16: "[16-17 e0]"}
    paths = write_copies(tmp_path, moved, sound)
    assert read(paths) == read(paths[::-1]) == rows((0, 17, 0))
    assert offsets(paths, startingOffsets='{"t":{"0":10}}') == list(range(10, 18))
    assert read(paths, maxRecordsPerPartition=3) == rows((0, 17, 0))
    for path in paths:
        (Path(path) / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")
    with pytest.raises(CorruptRecordError, match="batch out of order"):
        read(paths, maxRecordsPerPartition=3)
    caplog.clear()
    assert offsets(paths, maxRecordsPerPartition=3, mode="DROPMALFORMED") == [*range(8), *range(10, 18)]
    assert sum("batch out of order" in record.getMessage() for record in caplog.records) == 1


def test_a_batch_that_moved_and_states_another_offset(tmp_path: Path) -> None:
    """The other copy shows which offsets the read has passed: neither the batch's place nor its offset does. It is
    asked for them where the gap is, unless the copies are marked as compacted."""
    sound = {0: "[0-7 e0]", 8: "[8-9 e0] [10-11 e0] [12-13 e0]", 14: "[14-16 e0]"}
    moved = sound | {8: "[8-9 e0] [12-13 e0] [10-11 e0 @524298]"}
    paths = write_copies(tmp_path, moved, sound)
    assert read(paths) == rows((0, 16, 0))
    for path in paths:
        (Path(path) / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")
    with pytest.raises(CorruptRecordError, match="batch out of order"):
        read(paths)
    assert offsets(paths, mode="DROPMALFORMED") == [*range(10), *range(12, 17)]


@TURNS
def test_an_index_leads_a_plan_past_the_first_batch_of_the_next_file(turn: int, tmp_path: Path) -> None:
    """The plan reads the file from its first byte then. The other copy begins later."""
    paths = write_copies(tmp_path, {0: "[4 e0] [0-1 e0] [2 e0] [3 e0]", 4: "[5-8 e0] [9 e0]"}, {5: "[5-8 e0]"})
    log = tmp_path / "copy0/t-0" / writer.segment_name(0)
    place = log.stat().st_size - len(encode_batches("[2 e0] [3 e0]"))
    log.with_suffix(".index").write_bytes(writer.offset_index([(2, place)], 0))
    with pytest.raises(DataLossError, match="offsets 4 to 4"):
        read(paths[::turn])


@TURNS
def test_a_batch_at_the_front_of_another_file_that_the_other_copy_has_thinned(turn: int, tmp_path: Path) -> None:
    """The plan does not see it. The read meets it at byte 0, where only its name says what is expected."""
    moved = {0: "[8-11 e0] [0-1 e0]", 2: "[2-7 e0] [12 e0]"}
    paths = write_copies(tmp_path, moved, {8: "[8-11 e0 (8,11)]", 12: "[12 e0]"})[::turn]
    (tmp_path / "copy1" / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 12\n")
    log = tmp_path / "copy0/t-0" / writer.segment_name(0)
    place = len(encode_batches("[8-11 e0]"))
    log.with_suffix(".index").write_bytes(writer.offset_index([(1, place)], 0))
    with pytest.raises(CorruptRecordError):
        read(paths)


@TURNS
def test_a_batch_in_the_last_file_that_the_other_copy_has_thinned(turn: int, tmp_path: Path) -> None:
    """The gap that it left is no work of compaction. So the other copy gives what it has there."""
    moved = {0: "[0-3 e0] [8-9 e0]", 10: "[10 e0] [4-7 e0]"}
    thinned = {4: "[4-7 e0 (5,6,7)]", 8: "[8-9 e0]", 10: "[10 e0]"}
    paths = write_copies(tmp_path, moved, thinned)[::turn]
    (tmp_path / "copy1" / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 9\n")
    assert offsets(paths) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("lenient", [{}, {"mode": "DROPMALFORMED", "failOnDataLoss": False}])
def test_rows_before_the_place_where_a_file_failed_again(lenient: dict[str, Any], tmp_path: Path) -> None:
    """The search finds the file sound from its first row on. The read of that row meets a batch at a wrong place."""
    behind = {8: "[8-9 e0]", 10: "[10-12 e0]"}
    moved = {0: "[6 e0] [2 e0] [3-5 e0] [0-1 e0] [7 e0]"} | behind
    paths = write_copies(tmp_path, moved, {0: "[2 e0] [3-5 e0 (4,5)] [7 e0]"} | behind)
    assert offsets(paths, startingOffsets={"t": {"0": 5}}, **lenient) == [5, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("turns", list(permutations(range(3))))
def test_damage_behind_a_batch_whose_offset_is_too_high(turns: tuple[int, ...], tmp_path: Path) -> None:
    """A doubled batch states the last offset of the damaged one that follows it. Two other copies are whole."""
    whole = {0: "[0-2 e0]", 3: "[3 e0] [4-11 e0]", 12: "[12-13 e0]"}
    hurt = {3: "[3 e0] [3 e0 @11] [4-11 e0 !]", 12: "[12-13 e0]"}
    paths = write_copies(tmp_path, whole, whole, hurt)
    given = [paths[turn] for turn in turns]
    for first in (0, 5):
        try:
            found = offsets(given, startingOffsets={"t": {"0": first}})
        except CorruptRecordError:
            continue  # never fewer rows
        assert found == list(range(first, 14))


WRONG_ENDS = {
    "last batch at the offsets of the one before": (
        {0: "[0-11 e0] [12 e0] [13-15 e0 @12]"},
        {0: "[0-11 e0] [12 e0]"},
        "0 0",
    ),
    "last batch at the offsets of another one": (
        {0: "[0-11 e0] [12-16 e0] [17-18 e0 @13]"},
        {0: "[0-11 e0] [12-16 e0]"},
        "0 0",
    ),
    "last batch in the first file, and a stale copy": (
        {0: "[24-25 e1] [0-21 e0]", 22: "[22-23 e1]"},
        {0: "[0-21 e0]", 22: "[22-30 e0]"},
        "0 0, 1 22",
    ),
    "first batch of a file in the one before, and a stale copy": (
        {0: "[0-11 e0] [12 e1]", 12: "[13-16 e1]"},
        {0: "[0-11 e0]", 12: "[12-16 e0]"},
        "0 0, 1 12",
    ),
}


@TURNS
@pytest.mark.parametrize(("hurt", "other", "epochs"), WRONG_ENDS.values(), ids=WRONG_ENDS)
def test_other_records_at_its_offsets_do_not_hold_a_batch(
    hurt: dict[int, str], other: dict[int, str], epochs: str, turn: int, tmp_path: Path
) -> None:
    """The other copy has a batch at the offsets that one at a wrong place states, but not the same one."""
    paths = write_copies(tmp_path, hurt, other, epochs=(epochs, "0 0"))[::turn]
    with pytest.raises((CorruptRecordError, DataLossError)):
        read(paths)
    assert not kafkaseg.verify(paths).is_ok


BATCHES = "[12-13 e0]", "[14-15 e0]", "[16-17 e0]", "[18-19 e0]"
CUTS: list[dict[str, Any]] = [{}, {"maxRecordsPerPartition": 2}, {"minPartitions": 9}]
DOUBLED = [[*BATCHES[:at], batch, *BATCHES[at:]] for batch in BATCHES for at in range(5)]


def ends_twice(order: list[str]) -> bool:
    """Whether the last of the batches is there twice, and an earlier one of the two lies at its place."""
    return order[-1] in order[:-1] and (order[-1] != BATCHES[-1] or order[-2] == order[-1])


@pytest.mark.parametrize("order", choose_cases([*map(list, permutations(BATCHES)), *DOUBLED], 3), ids="".join)
def test_batches_of_a_last_segment_in_any_order_and_twice(order: list[str], tmp_path: Path) -> None:
    """The other copy ends anywhere. Where it ends with the log it has every batch, so nothing is at fault, unless the
    segment was cut: then a piece may meet a batch that belongs into another one. A batch that is there twice, the
    second time at the end, may lie over one that no copy has."""
    before, is_over = {0: "[0-5 e0]", 6: "[6-11 e0]"}, ends_twice(order)
    for end in range(len(BATCHES) + 1):
        whole = before | {12: " ".join(BATCHES[:end])}
        paths = write_copies(tmp_path / str(end), before | {12: " ".join(order)}, whole)
        for given, first, cut in product((paths, paths[::-1]), (0, 13), CUTS):
            try:
                assert offsets(given, startingOffsets={"t": {"0": first}}, **cut) == list(range(first, 20))
                assert not is_over
            except (CorruptRecordError, DataLossError):
                assert end < len(BATCHES) or cut or is_over
                assert order != list(BATCHES)


@pytest.mark.parametrize("options", [{}, {"mode": "DROPMALFORMED", "failOnDataLoss": False}])
@pytest.mark.parametrize("doubled", DOUBLED, ids="".join)
def test_a_time_behind_a_batch_that_is_there_twice(doubled: list[str], options: dict[str, Any], tmp_path: Path) -> None:
    """The search for a time reads on in the other copy from where it was, as a read does. A batch that is there twice,
    the second time at the end of the log, may lie over one that no copy has."""
    for behind in ({}, {20: "[20-21 e0]"}):
        log = {0: "[0-5 e0]", 6: "[6-11 e0]"}
        hurt, whole = log | {12: " ".join(doubled)} | behind, log | {12: " ".join(BATCHES)} | behind
        paths = write_copies(tmp_path / str(len(behind)), hurt, whole)
        for first in (13, 14, 17, 19, *(at + 1 for at in behind)):
            expected = list(range(first, 22 if behind else 20))
            if ends_twice(doubled) and not behind and not options:
                with pytest.raises(CorruptRecordError, match="no copy holds the offsets 20 on"):
                    offsets(paths, startingTimestamp=1000 + 10 * first)
            else:
                assert offsets(paths, startingTimestamp=1000 + 10 * first, **options) == expected
            assert kafkaseg.offsets_for_time(paths, 1000 + 10 * first).partitions[0].offset == first


@TURNS
def test_a_wrong_offset_at_the_end_of_a_segment_is_no_second_loss(turn: int, tmp_path: Path) -> None:
    """The gap before the next segment's name has just the room of the batch. So nothing is missing where it says."""
    last = "[10-14 e0]"
    hurt = {0: "[0-4 e0] [5-9 e0 @1029]", 10: last}, {0: "[0-4 e0] [5-9 e0 !]", 10: last}
    paths = write_copies(tmp_path, *hurt)[::turn]
    problems = [found.what for found in kafkaseg.verify(paths).together if found.problem]
    assert len(problems) == 1 and "no copy holds the offsets 5 to 9 whole" in problems[0]


@TURNS
def test_a_last_batch_against_one_that_another_copy_has_at_its_place(turn: int, tmp_path: Path) -> None:
    """The last batch steps back into a gap, so it or the one before it is wrong. The other copy has the one before
    (replica sets 14010021)."""
    hurt = {0: "[0-12 e0] [21 e0] [22-23 e0 @20]"}
    compacted = {0: "[0-12 e0]", 21: "[21 e0] [22-23 e0 (22)] [24 e0]"}
    paths = write_copies(tmp_path, hurt, compacted)[::turn]
    (tmp_path / "copy1" / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")
    assert read(paths) == rows((0, 12, 0), (21, 22, 0), (24, 24, 0))


@TURNS
def test_a_last_segment_of_a_compacted_copy_that_begins_above_its_name(turn: int, tmp_path: Path) -> None:
    """What another compacted copy has below its first batch is read from there."""
    before = {0: "[0-11 e0]"}
    paths = write_copies(tmp_path, before | {12: "[14-15 e0] [16-19 e0]"}, before | {12: "[12-13 e0]"})
    for path in paths:
        (Path(path) / CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")
    assert offsets(paths[::turn]) == [*range(20)]


@TURNS
def test_a_copy_of_an_old_format_from_which_a_message_is_gone(turn: int, tmp_path: Path) -> None:
    """Offsets of messages of magic 1 show no compaction: the copy with more bytes has more of them."""
    messages = [
        writer.message_set_v1([writer.Rec(0, 1000 + 10 * at, b"k", b"v%d of e0" % at)], base_offset=at)
        for at in range(6)
    ]
    paths = []
    for name, kept in (("whole", messages), ("thinned", [*messages[:2], *messages[3:]])):
        folder = tmp_path / name / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(0)).write_bytes(b"".join(kept))
        paths.append(str(folder.parent))
    assert offsets(paths[::turn]) == [*range(6)]


@TURNS
def test_a_thinned_copy_beside_one_whose_damage_hides_its_bytes(turn: int, tmp_path: Path) -> None:
    """Another copy has more bytes than the sound ones of this one up to the damage, and shows that records are gone."""
    damaged = {0: "[0-2 e0] [3-5 e0 !] [6-8 e0]", 9: "[9 e0]"}
    thinned = {0: "[0-2 e0 (1)] [3-5 e0]", 6: "[6-8 e0] [9 e0]"}
    assert offsets(write_copies(tmp_path, damaged, thinned)[::turn]) == [*range(10)]


@TURNS
@pytest.mark.parametrize("order", ["exchanged", "backward"])
def test_many_batches_at_wrong_places(order: str, turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read grows with the number of batches, also where no index file says where they are."""
    headers = [f"[{at} e0]" for at in range(200)]
    exchanged = {0: " ".join(headers[100:]), 100: " ".join(headers[:100])}
    backward = {0: " ".join(headers[100::-1]), 101: " ".join(headers[101:])}
    hurt = exchanged if order == "exchanged" else backward
    paths = write_copies(tmp_path, hurt, {0: " ".join(headers)})[::turn]
    asked: list[int] = []
    proven = HeaderProbe.proven

    def note_position(probe: HeaderProbe, position: int) -> object:
        asked.append(position)
        return proven(probe, position)

    monkeypatch.setattr(HeaderProbe, "proven", note_position)
    assert offsets(paths) == [*range(200)]
    assert len(asked) < 40 * len(headers)
