"""One thing is wrong where one copy ends and another one goes on, or in a log with gaps that no checkpoint explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import CorruptRecordError, DataLossError, PathError
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from tests.support import writer
from tests.support.layouts import encode_batches, write_copies
from tests.support.writer import Rec

TURNS = pytest.mark.parametrize("turn", [1, -1])


def offsets(paths: list[str], **options: Any) -> list[int]:
    """The offsets of a read, whose values are those of their offsets."""
    table = kafkaseg.scan(paths, ["offset", "value"], **options).read_all().to_pydict()
    for offset, value in zip(table["offset"], table["value"], strict=True):
        assert value.decode().startswith(f"v{offset} of ")
    found: list[int] = table["offset"]
    return found


def mark_as_compacted(paths: list[str], marked: tuple[int, ...]) -> None:
    """Adds a `cleaner-offset-checkpoint` to some of the copies, by their numbers."""
    for copy in marked:
        Path(paths[copy], CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")


# --- where one copy ends ---------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("epoch", [3, 4])
@pytest.mark.parametrize("hurt", [{10: "[10-11 e3]", 12: "[12-14 e3 @28]"}, {10: "[10-11 e3] [12-14 e3 @28]"}])
def test_a_last_batch_that_states_an_offset_behind_the_other_copy(
    hurt: dict[int, str], epoch: int, turn: int, tmp_path: Path
) -> None:
    paths = write_copies(tmp_path, hurt, {15: f"[15-27 e{epoch}]"})[::turn]
    with pytest.raises(DataLossError, match="offsets 12 to 14 of partition t-0 are missing"):
        offsets(paths)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("hurt", [{14: "[14-16 e0]", 17: "[10-13 e0]"}, {14: "[10-13 e0]"}])
def test_a_last_file_with_the_bytes_of_a_file_of_the_other_copy(
    hurt: dict[int, str], turn: int, tmp_path: Path
) -> None:
    paths = write_copies(tmp_path, hurt, {10: "[10-13 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match=r"no copy holds the offsets 1\d on whole"):
        offsets(paths)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
def test_a_batch_from_an_emptied_file_at_the_end(turn: int, tmp_path: Path) -> None:
    """It is no batch of another copy's file: its own file is there by its name."""
    paths = write_copies(tmp_path, {10: "", 12: "[12-15 e0] [10-11 e0]"}, {10: "[10-11 e0] [12-15 e0]"})[::turn]
    assert offsets(paths) == list(range(10, 16))


@TURNS
def test_the_only_batch_of_a_follower_that_states_an_offset_below_its_file(turn: int, tmp_path: Path) -> None:
    """It is no batch of another file: the other copy has another one at that offset."""
    paths = write_copies(tmp_path, {18: "[18-19 e0 @16]"}, {10: "[10-15 e0] [16-17 e0] [18-19 e0]"})[::turn]
    assert offsets(paths) == list(range(10, 20))


MARKED = pytest.mark.parametrize("marked", [(), (0,), (0, 1)])


@TURNS
@MARKED
def test_a_torn_end_before_the_start_of_the_next_copy(marked: tuple[int, ...], turn: int, tmp_path: Path) -> None:
    """Compaction may explain offsets that are missing, and no bytes that are no whole batch."""
    paths = write_copies(tmp_path, {0: "[0-3 e0]"}, {7: "[7-9 e0] [10 e0]"})
    mark_as_compacted(paths, marked)
    if marked:
        assert offsets(paths[::turn]) == [*range(4), *range(7, 11)]
    segment = Path(paths[0], "t-0", writer.segment_name(0))
    segment.write_bytes(segment.read_bytes() + encode_batches("[4-6 e0]")[:-5])
    with pytest.raises(DataLossError, match=r"ends there in bytes that are no whole batch, .* the offsets 4 to 6"):
        offsets(paths[::turn])
    assert offsets(paths[::turn], failOnDataLoss=False) == [*range(4), *range(7, 11)]
    assert not kafkaseg.verify(paths[::turn]).is_ok


@TURNS
@MARKED
def test_a_first_file_with_bytes_and_no_whole_batch(marked: tuple[int, ...], turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, {10: ""}, {13: "[13-18 e0]"})
    mark_as_compacted(paths, marked)
    Path(paths[0], "t-0", writer.segment_name(10)).write_bytes(encode_batches("[10-12 e0]")[:-3])
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 12"):
        offsets(paths[::turn])
    assert not kafkaseg.verify(paths[::turn]).is_ok
    assert offsets(paths[::turn], failOnDataLoss=False) == list(range(13, 19))


@TURNS
def test_a_starting_timestamp_right_behind_a_hole_between_two_copies(turn: int, tmp_path: Path) -> None:
    """One of the missing rows might have been the first."""
    paths = write_copies(tmp_path, {10: "[10-13 e0]", 14: "", 18: "[18-19 e0]"}, {10: "[10-13 e0]"})[::turn]
    with pytest.raises(DataLossError, match="offsets 14 to 17"):
        offsets(paths, startingTimestamp=1000 + 10 * 15)


@TURNS
@pytest.mark.parametrize("epochs", [(), ("2 0, 3 19", "2 0")])
@pytest.mark.parametrize("hurt", [{10: "[10-18 e2]", 19: "[19-21 e3 !]"}, {10: "[10-18 e2] [19-21 e3 !]"}])
def test_damage_at_the_end_that_states_a_later_leader(
    hurt: dict[int, str], epochs: tuple[str, ...], turn: int, tmp_path: Path
) -> None:
    """The other copy has a batch of an earlier leader there: it may be stale, and does not hold what is damaged."""
    paths = write_copies(tmp_path, hurt, {10: "[10-18 e2] [19-21 e2]"}, epochs=epochs)[::turn]
    said = "offsets 19 on whole|files end at 19" if epochs else r"damage, of a later leader .* offsets 19 to 2\d"
    for bounds in ({}, {"endingOffsets": {"t": {"0": 21}}}):
        with pytest.raises((CorruptRecordError, DataLossError), match=said):
            offsets(paths, **bounds)
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize("hurt", [{10: "[10-18 e2]", 19: ""}, {10: "[10-18 e2]"}])
def test_a_torn_end_that_states_a_later_leader(hurt: dict[int, str], turn: int, tmp_path: Path) -> None:
    """The log ends there if the checkpoint says the same. Without one, nothing says whether the other copy is stale."""
    paths = write_copies(tmp_path, hurt, {10: "[10-18 e2] [19-21 e2]"}, epochs=("2 0, 3 19", "2 0"))
    file = Path(paths[0], "t-0", writer.segment_name(max(hurt)))
    file.write_bytes(file.read_bytes() + encode_batches("[19-20 e3]")[:-4])
    assert offsets(paths[::turn]) == list(range(10, 19))
    (file.parent / "leader-epoch-checkpoint").unlink()
    for bounds in ({}, {"endingOffsets": {"t": {"0": 21}}}):
        with pytest.raises(DataLossError, match=r"damage, of a later leader .* offsets 19 to 20"):
            offsets(paths[::turn], **bounds)
    assert offsets(paths[::turn], endingOffsets={"t": {"0": 19}}) == list(range(10, 19))
    assert not kafkaseg.verify(paths[::turn]).is_ok


@TURNS
@pytest.mark.parametrize("cut", [0, 4])
@pytest.mark.parametrize("own", ["[19-20 e3]", "[19-20 e3] [21-22 e3]"])
@pytest.mark.parametrize("follower", [(), ({10: "[10-18 e2] [19-21 e2]"},)])
def test_a_replaced_leader_that_died_while_it_wrote(
    follower: tuple[dict[int, str], ...],
    own: str,
    cut: int,
    turn: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A still later leader went on with the batches of the earlier one, also those that only a follower has beside."""
    copies = {10: "[10-18 e2]"}, {10: "[10-18 e2] [19-21 e2] [22-25 e9]"}, *follower
    paths = write_copies(tmp_path, *copies, epochs=("2 0, 3 19", "2 0, 9 22", *(["2 0"] if follower else [])))
    file = Path(paths[0], "t-0", writer.segment_name(10))
    batches = encode_batches(own)
    file.write_bytes(file.read_bytes() + batches[: len(batches) - cut])
    assert offsets(paths[::turn]) == list(range(10, 26))
    assert offsets(paths[::turn], endingOffsets={"t": {"0": 21}}) == list(range(10, 21))
    assert "no batch there shows it" not in caplog.text
    assert kafkaseg.verify(paths[::turn]).is_ok


@TURNS
@MARKED
@pytest.mark.parametrize("epochs", [("0 10, 4 11", "0 10, 5 18"), ("", "")])
def test_a_batch_of_a_replaced_leader_below_one_of_an_earlier_leader(
    epochs: tuple[str, str], marked: tuple[int, ...], turn: int, tmp_path: Path
) -> None:
    """Compaction left nothing of the log there. The next batch shows that its leader was an earlier one."""
    stale, log = {10: "[10 e0] [11-14 e4] [15-17 e4]"}, {10: "[10 e0] [15-17 e0] [18-20 e5]"}
    paths = write_copies(tmp_path, stale, log, epochs=epochs)
    mark_as_compacted(paths, marked)
    assert offsets(paths[::turn]) == [10, *range(15, 21)]


@TURNS
def test_damage_at_the_end_that_another_copy_holds(turn: int, tmp_path: Path) -> None:
    hurt = {10: "[10-18 e2] [19-21 e3 !]"}
    paths = write_copies(tmp_path, hurt, {10: "[10-18 e2] [19-21 e3]"})[::turn]
    assert offsets(paths) == list(range(10, 22))


# --- a log with gaps -------------------------------------------------------------------------------------------------


@TURNS
@pytest.mark.parametrize("fallen", ["[22-24 e0 @18]", "[22-24 e0 @15]"])
def test_a_batch_that_fell_into_a_gap(fallen: str, turn: int, tmp_path: Path) -> None:
    """The other copy has it at its place, right before the next one."""
    hurt = {10: f"[10-12 e0] {fallen} [25-27 e0]"}
    paths = write_copies(tmp_path, hurt, {10: "[10-12 e0] [22-24 e0] [25-27 e0]"})[::turn]
    assert offsets(paths) == [10, 11, 12, *range(22, 28)]


@TURNS
def test_a_batch_that_fell_to_where_it_fits(turn: int, tmp_path: Path) -> None:
    """In one copy the batch before it is next to it, in the other one the batch behind it: nothing says which is
    wrong. It never comes twice."""
    hurt = {10: "[10-12 e0] [17-19 e0 @13] [20-22 e0]"}
    paths = write_copies(tmp_path, hurt, {10: "[10-12 e0] [17-19 e0] [20-22 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match="batch with a wrong offset"):
        offsets(paths)
    third = write_copies(tmp_path / "more", {10: "[10-12 e0] [17-19 e0] [20-22 e0]"})
    if turn == -1:
        assert offsets([*paths, *third]) == [10, 11, 12, *range(17, 23)]
    else:  # its rows have come already when the gap behind it is met
        with pytest.raises(CorruptRecordError, match="batch with a wrong offset"):
            offsets([*paths, *third])


@TURNS
def test_two_gaps_beside_a_copy_that_lags(turn: int, tmp_path: Path) -> None:
    log = "[10-15 e0] [18-20 e0]"
    paths = write_copies(tmp_path, {10: log}, {10: f"{log} [24-26 e0]"})[::turn]
    assert offsets(paths) == [*range(10, 16), *range(18, 21), *range(24, 27)]


@TURNS
def test_verify_of_a_damaged_copy_beside_a_gap(turn: int, tmp_path: Path) -> None:
    """A read of both takes the gap for compaction. So does `verify`."""
    paths = write_copies(tmp_path, {10: "[10 e0] [11-12 e0] [17 e0]"}, {10: "", 11: "[11-12 e0]"})
    Path(paths[1], "t-0", writer.segment_name(10)).write_bytes(bytes(80))
    assert offsets(paths[::turn]) == [10, 11, 12, 17]
    assert kafkaseg.verify(paths[::turn]).is_ok


def test_an_index_that_ends_behind_its_file(tmp_path: Path) -> None:
    """A broker writes the last offset that it has appended: a later one does not bear out the last batch."""
    [path] = write_copies(tmp_path, {10: "[12-13 e0]", 16: "[16-17 e0]"})
    index = Path(path, "t-0", writer.segment_name(10, ".timeindex"))
    for last, is_sound in ((13, True), (15, False)):
        index.write_bytes(writer.time_index([(1000 + 10 * last, last)], 10))
        if is_sound:
            assert offsets([path]) == [12, 13, 16, 17]
        else:
            with pytest.raises(DataLossError, match="offsets 14 to 15"):
                offsets([path])


@TURNS
@pytest.mark.parametrize("options", [{}, {"isolationLevel": "read_committed"}])
@pytest.mark.parametrize(
    "hurt",
    [
        {10: "[10 e0] [11 e0]", 12: "[14 e0] [15 e0]", 14: "[12 e0] [13 e0]", 16: "[16-19 e0]"},  # exchanged
        {10: "[10 e0] [15 e0]", 12: "[12 e0] [13 e0]", 14: "[14 e0] [11 e0]", 16: "[16-19 e0]"},  # two batches swapped
        {10: "[10 e0] [11 e0]", 12: "[14 e0] [15 e0]", 14: "[14 e0] [15 e0]", 16: "[16-19 e0]"},  # bytes of the next
    ],
)
def test_files_of_one_size(hurt: dict[int, str], options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """Names and sizes of the copies are the same. The other one has every batch at its place."""
    whole = {10: "[10 e0] [11 e0]", 12: "[12 e0] [13 e0]", 14: "[14 e0] [15 e0]", 16: "[16-19 e0]"}
    paths = write_copies(tmp_path, hurt, whole)[::turn]
    assert offsets(paths, **options) == list(range(10, 20))
    assert kafkaseg.verify(paths).is_ok


@TURNS
def test_a_file_with_the_bytes_of_the_next_one_beside_a_shorter_copy(turn: int, tmp_path: Path) -> None:
    """The batches lie at one position of both files, so they are there twice, and not lost."""
    hurt = {10: "[10-11 e0]", 12: "[14 e0] [15 e0]", 14: "[14 e0] [15 e0]", 16: "[16-19 e0]"}
    paths = write_copies(tmp_path, hurt, {10: "[10-11 e0] [12 e0] [13 e0]"})[::turn]
    assert offsets(paths) == list(range(10, 20))


@TURNS
def test_a_transaction_of_the_other_copy_before_a_gap(turn: int, tmp_path: Path) -> None:
    """The copy with its rows has its marker, and so has the one that goes on."""
    begin = writer.record_batch(
        [Rec(at, 1000, b"k", b"v") for at in range(3)], producer_id=1, producer_epoch=0, transactional=True
    )
    rest = encode_batches("[3-5 e0] [10-12 e0]")
    end = writer.control_batch("commit", offset=13, timestamp=1000, producer_id=1, producer_epoch=0)
    paths = []
    for at, first in enumerate((bytes(len(begin)), begin)):
        folder = tmp_path / f"r{at}" / "t-0"
        folder.mkdir(parents=True)
        (folder / writer.segment_name(0)).write_bytes(first + rest + end)
        paths.append(str(folder.parent))
    table = kafkaseg.scan(paths[::turn], ["offset"], isolationLevel="read_committed").read_all()
    assert table["offset"].to_pylist() == [*range(6), 10, 11, 12]


@TURNS
@pytest.mark.parametrize("last", [14, 18])
@MARKED
def test_a_file_that_is_gone_where_a_shorter_copy_ends(
    marked: tuple[int, ...], last: int, turn: int, tmp_path: Path
) -> None:
    """Its index file is left. Compaction may have moved records of a file between others, and none of the last one."""
    files = {10: "[10-13 e0]", 14: "[14-15 e0] [16-17 e0]"} | ({18: "[18-19 e0]"} if last > 14 else {})
    paths = write_copies(tmp_path, files, {10: "[10-13 e0]", 14: "[14-15 e0]"})
    mark_as_compacted(paths, marked)
    gone = Path(paths[0], "t-0", writer.segment_name(14))
    gone.with_suffix(".index").write_bytes(writer.offset_index([(17, gone.stat().st_size // 2)], 14))
    gone.unlink()
    rest = [*range(10, 16), *range(18, 20 if last > 14 else 18)]
    if marked and last > 14:
        assert offsets(paths[::turn]) == rest
        said = kafkaseg.plan(paths[::turn]).warnings
        assert any("no file holds the offsets 16 to 17" in warning and "compaction" in warning for warning in said)
    else:
        with pytest.raises(DataLossError, match="no file holds the offsets 16 to 17"):
            offsets(paths[::turn])
        assert offsets(paths[::turn], failOnDataLoss=False) == rest


# --- a checkpoint that the batches of its own copy contradict ---------------------------------------------------------

STALE_TAIL = {10: "[10-13 e0]", 14: "[14-15 e0] [16-18 e0] [19-23 e0]"}
LED = {10: "[10-13 e0]", 14: "[14-15 e0] [16-17 e1] [18-19 e1]", 20: "[20-21 e1] [22 e1]"}


@TURNS
@pytest.mark.parametrize(
    "hurt",
    [
        LED | {14: STALE_TAIL[14]},  # a file from before the truncation
        LED | {14: "[14-15 e0] [16-18 e0] [19 e0]"},
        {10: "[10-13 e0]", 14: "[14-15 e0] [18-19 e1] [18-19 e1]"},  # a batch over the first one of the epoch
        {10: "[10-13 e0]", 14: "[10-13 e0]"},  # the last file has the bytes of another one
    ],
)
def test_a_copy_whose_batches_contradict_its_own_checkpoint(hurt: dict[int, str], turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, hurt, STALE_TAIL, epochs=("0 0, 1 16", "0 0"))[::turn]
    said = "began at offset 16, and that copy has something else there|no copy holds the offsets 16 to 17 whole"
    for bounds in ({}, {"endingOffsets": {"t": {"0": 18}}}):
        with pytest.raises((PathError, CorruptRecordError), match=said):
            offsets(paths, **bounds)
    assert offsets(paths, failOnDataLoss=False, mode="DROPMALFORMED")[:6] == list(range(10, 16))
    assert not kafkaseg.verify(paths).is_ok


@TURNS
@pytest.mark.parametrize(
    ("left", "lines"),
    [
        ({10: "[10-13 e0]"}, "0 0, 1 16"),  # the epoch began behind the end
        ({10: "[10-13 e0]", 14: ""}, "0 0, 1 16"),
        ({10: "[10-13 e0]", 14: "[14-15 e0]"}, "0 0, 1 16, 2 18"),  # the next epoch began behind it
        ({10: "[10-13 e0]", 14: "[14-15 e0]", 16: ""}, "0 0, 1 16, 2 18"),
    ],
)
def test_a_copy_without_its_last_file(left: dict[int, str], lines: str, turn: int, tmp_path: Path) -> None:
    """No trace of the file is left. But its checkpoint says that the log went on."""
    paths = write_copies(tmp_path, left, STALE_TAIL, epochs=(lines, "0 0"))
    for bounds in ({}, {"endingOffsets": {"t": {"0": 18}}}):
        with pytest.raises(
            PathError, match="began at offset 16, and that copy has something else there, or has lost it"
        ):
            offsets(paths[::turn], **bounds)
    assert not kafkaseg.verify(paths[::turn]).is_ok
    assert offsets(paths[::turn], failOnDataLoss=False)[:6] == list(range(10, 16))


@TURNS
def test_an_index_without_its_log_beside_a_torn_batch(turn: int, tmp_path: Path) -> None:
    """No copy has a whole batch. Whatever the order of the paths: the offsets of the index file are lost."""
    paths = write_copies(tmp_path, {4: "[4-5 e0]"}, {0: "[0-3 e0]"})
    log = Path(paths[0], "t-0", writer.segment_name(4))
    log.write_bytes(log.read_bytes()[:20])
    gone = Path(paths[1], "t-0", writer.segment_name(0))
    gone.with_suffix(".index").write_bytes(writer.offset_index([(3, 70)], 0))
    gone.unlink()
    with pytest.raises(DataLossError, match="no file holds the offsets 0 to 3"):
        offsets(paths[::turn])


@TURNS
@pytest.mark.parametrize("base", [4, 7, 13, 5 + (1 << 40), 1_000_001])
def test_a_wrong_offset_right_before_a_stale_end(base: int, turn: int, tmp_path: Path) -> None:
    """The rest of the header is that of the other copy's batch, and just its offsets are missing."""
    led = {2: "[2-4 e0] [5-7 e0] [8-10 e1] [11-13 e1]"}
    paths = write_copies(tmp_path, led, {2: "[2-4 e0] [5-7 e0] [8-10 e0] [11-13 e0]"})
    log = Path(paths[0], "t-0", writer.segment_name(2))
    whole, at = log.read_bytes(), len(encode_batches("[2-4 e0]"))
    log.write_bytes(whole[:at] + base.to_bytes(8) + whole[at + 8 :])
    table = kafkaseg.scan(paths[::turn], ["offset", "value"]).read_all().to_pydict()
    assert table["offset"] == list(range(2, 14))
    assert table["value"][6:] == [b"v%d of e1" % offset for offset in range(8, 14)]


@TURNS
def test_a_lost_file_is_no_leader_that_wrote_nothing(turn: int, tmp_path: Path) -> None:
    """Its index file is left. The stale tail of the other copy reaches as far."""
    led = {10: LED[10], 14: "[14-15 e0]"}
    paths = write_copies(tmp_path, led, STALE_TAIL, epochs=("0 0, 1 16", "0 0"))
    index = Path(paths[0], "t-0", writer.segment_name(16)).with_suffix(".index")
    index.write_bytes(writer.offset_index([(20, 300)], 16))
    for bounds in ({}, {"endingOffsets": {"t": {"0": 18}}}):
        with pytest.raises(PathError, match="began at offset 16, and that copy has something else there"):
            offsets(paths[::turn], **bounds)
    assert not kafkaseg.verify(paths[::turn]).is_ok


@TURNS
@pytest.mark.parametrize("marked", [(), (0,)])
def test_a_batch_that_is_gone_before_the_histories_part(marked: tuple[int, ...], turn: int, tmp_path: Path) -> None:
    """The line of an epoch says where they part, unless a follower may have noted it behind what compaction removed."""
    led = {10: "[10-13 e0] [15-17 e1] [18 e1]"}
    stale = {10: "[10-13 e0] [14 e0] [15-16 e0]"}
    paths = write_copies(tmp_path, led, stale, epochs=("0 0, 1 15", "0 0"))
    mark_as_compacted(paths, marked)
    assert offsets(paths[::turn]) == [*range(10, 14), *([] if marked else [14]), *range(15, 19)]


@TURNS
@pytest.mark.parametrize("marked", [(0,), (1,), (2,)])
def test_one_marked_copy_says_that_the_topic_is_compacted(marked: tuple[int, ...], turn: int, tmp_path: Path) -> None:
    """The cleaner removed 8 to 11 of epoch 1 before any follower fetched them."""
    led = {4: "[4-7 e0] [12-14 e1]"}
    stale = {0: "[0-1 e0] [2-3 e0]", 4: "[4-7 e0] [8-11 e0] [12-13 e0]"}
    bare = {12: "[12-14 e1 (13)] [15-16 e1]"}
    paths = write_copies(tmp_path, led, stale, bare, epochs=("0 2, 1 12", "0 0", "1 12"))
    mark_as_compacted(paths, marked)
    assert not {8, 9, 10, 11}.intersection(offsets(paths[::turn]))


@TURNS
def test_a_leader_that_wrote_nothing_is_no_contradiction(turn: int, tmp_path: Path) -> None:
    paths = write_copies(tmp_path, {10: "[10-13 e0] [14-15 e0]"}, STALE_TAIL, epochs=("0 0, 1 16", "0 0"))[::turn]
    assert offsets(paths) == list(range(10, 24))


@TURNS
@pytest.mark.parametrize(
    ("noted", "third", "is_said"),
    [
        ("0 0, 2 7", {}, True),
        ("0 0, 2 7, 3 25", {}, False),
        ("0 0, 2 7", {7: "[7-11 e2] [12-18 e2] [25-30 e3 (30)]"}, False),
    ],
)
def test_a_gap_where_the_other_checkpoint_lacks_an_epoch(
    noted: str, third: dict[int, str], is_said: bool, turn: int, tmp_path: Path
) -> None:
    """Compaction may have removed all of epoch 2 before the copy with the gap fetched any. If not, it is of a replaced
    leader. A copy that names the later leader shows that he kept it."""
    stale = {0: "[0-6 e0]", 7: "[7-11 e2] [12-18 e2]"}
    copies = ({0: "[25-30 e3 (30)] [31-35 e3]"}, stale, *([third] if third else []))
    paths = write_copies(tmp_path, *copies, epochs=("0 0, 1 7, 3 25", noted, ""))[::turn]
    said = [warning for warning in kafkaseg.plan(paths).warnings if "has no line of leader epoch 2" in warning]
    assert ["up to offset 18" in warning for warning in said] == [True] * is_said
    assert offsets(paths) == [*range(19), *range(30, 36)]


@TURNS
def test_an_end_from_before_a_truncation_is_said(turn: int, tmp_path: Path) -> None:
    copies = ({10: "[10-13 e0]", 14: "[14-15 e0] [16-18 e0]"}, {10: "[10-13 e0]"})
    paths = write_copies(tmp_path, *copies, epochs=("0 0, 1 16", "0 0"))[::turn]
    (said,) = [warning for warning in kafkaseg.plan(paths).warnings if "replaced leader" in warning]
    assert "leader epoch 1 of partition t-0 began at offset 16, and its last batch, at offset 16, is of" in said


@TURNS
def test_a_file_from_before_a_truncation(turn: int, tmp_path: Path) -> None:
    """Two batches contradict the line of its own checkpoint: no single wrong epoch explains that."""
    copies = ({10: "[10-13 e0]", 14: "[14-15 e0] [16-18 e0] [19 e0]"}, {10: "[10-13 e0]"})
    paths = write_copies(tmp_path, *copies, epochs=("0 0, 1 16", "0 0"))[::turn]
    with pytest.raises(
        PathError, match="began at offset 16, and its last batches, up to offset 19, are of leader epoch 0"
    ):
        offsets(paths)
    assert offsets(paths, failOnDataLoss=False) == list(range(10, 20))
    assert not kafkaseg.verify(paths).is_ok
    later = write_copies(
        tmp_path / "later", copies[0], {10: "[10-15 e0] [16-18 e2]"}, epochs=("0 0, 1 16", "0 0, 2 16")
    )
    assert offsets(later[::turn]) == list(range(10, 19))
    lost = write_copies(tmp_path / "lost", copies[0], {10: "[10-15 e0] [16-18 e1]"}, epochs=("0 0, 1 16", "0 0, 1 16"))
    with pytest.raises(PathError, match="nothing says which one counts"):
        offsets(lost[::turn])


@TURNS
@pytest.mark.parametrize("left", ["", "zeros"])
def test_entries_that_lead_behind_the_batches_of_the_last_leader(left: str, turn: int, tmp_path: Path) -> None:
    """It wrote something, as its `.index` says, and lost it at a batch boundary. What the other copy has is stale."""
    stale = {10: "[10-13 e0]", 14: "[14-15 e0] [16-18 e0]"}
    paths = write_copies(tmp_path, {10: "[10-13 e0]", 14: "[14-15 e0]"}, stale, epochs=("0 0, 1 16", "0 0"))
    log = Path(paths[0], "t-0", writer.segment_name(14))
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + (bytes(200) if left else b""))
    log.with_suffix(".index").write_bytes(writer.offset_index([(17, size), (20, size + 100)], 14) + bytes(80))
    with pytest.raises(PathError, match="began at offset 16, and that copy has something else there, or has lost it"):
        offsets(paths[::turn])
    for options in ({"isolationLevel": "read_committed"}, {"since": 1 << 50}, {}):
        (said,) = [warning for warning in kafkaseg.plan([paths[0]], **options).warnings if "no file holds" in warning]
    assert said.startswith(f"the log has reached 21 by the entries of '{log.with_suffix('.index')}'")
    log.with_suffix(".index").write_bytes(writer.offset_index([(17, size), (20, size + 100), (19, 900)], 14))
    assert bool(left) == bool(
        kafkaseg.plan([paths[0]]).warnings
    )  # entries behind the file that are not in order say nothing


@TURNS
def test_a_last_batch_of_a_leader_that_its_own_checkpoint_does_not_have(turn: int, tmp_path: Path) -> None:
    """It is from before a truncation: the other copy has the batch that the checkpoint means."""
    copies = ({10: "[10-13 e0] [14-15 e0]"}, {10: "[10-13 e0] [14-15 e2]"})
    paths = write_copies(tmp_path, *copies, epochs=("0 0, 4 16", "0 0, 5 16"))[::turn]
    with pytest.raises(PathError, match="its last batches, up to offset 15, are of leader epoch 2"):
        offsets(paths)
    assert offsets(paths, failOnDataLoss=False) == list(range(10, 16))
    later = write_copies(tmp_path / "later", *copies, epochs=("0 0, 6 16", "0 0, 5 16"))[::turn]
    assert offsets(later) == list(range(10, 16))  # the one with that batch has lost


@TURNS
def test_entries_that_lead_behind_the_batches_of_a_shorter_copy(turn: int, tmp_path: Path) -> None:
    """It was the longer one. Neither has what it lost."""
    paths = write_copies(tmp_path, {10: "[10-13 e0]"}, {10: "[10-13 e0] [14-15 e0]"})
    log = Path(paths[0], "t-0", writer.segment_name(10))
    log.with_suffix(".index").write_bytes(writer.offset_index([(15, log.stat().st_size), (18, 999)], 10))
    for bounds in ({}, {"startingOffsets": {"t": {"0": 14}}}):
        said = [warning for warning in kafkaseg.plan(paths[::turn], **bounds).warnings if "no file holds" in warning]
        assert len(said) == 1 and "no file holds the offsets 16 to 18 of partition t-0" in said[0]


@TURNS
def test_a_file_without_bytes_of_a_replaced_leader(turn: int, tmp_path: Path) -> None:
    """Its entries name more than is missing: from where a later leader wrote on, nothing of its log counts."""
    stale = {10: "[10-11 e0]", 12: "[12-13 e0] [14-19 e0]", 20: "[20-21 e0]"}
    paths = write_copies(tmp_path, {10: "[10-13 e0] [14-15 e1]"}, stale, epochs=("0 0, 1 14", "0 0"))
    log = Path(paths[1], "t-0", writer.segment_name(12))
    log.with_suffix(".index").write_bytes(writer.offset_index([(19, 100)], 12))
    log.write_bytes(b"")
    log.with_name(writer.segment_name(30)).with_suffix(".index").write_bytes(
        bytes(8)
    )  # nor does a file that names nothing
    plan = kafkaseg.plan(paths[::turn])
    assert plan.to_reader(["offset"]).read_all()["offset"].to_pylist() == list(range(10, 16))
    assert not [warning for warning in plan.warnings if "no file holds the offsets 30" in warning]


@TURNS
@pytest.mark.parametrize("options", [{}, {"startingOffsets": {"t": {"0": 14}}}])
def test_a_file_that_was_renamed_over_the_last_one(options: dict[str, Any], turn: int, tmp_path: Path) -> None:
    """Nothing is left of the last file. The other copy ends where it began."""
    paths = write_copies(tmp_path, {10: "[10-13 e0]", 16: "[14-15 e0]"}, {10: "[10-13 e0]", 14: "[14-15 e0]"})[::turn]
    with pytest.raises(CorruptRecordError, match="no copy holds the offsets 16 on whole"):
        offsets(paths, **options)
    assert not kafkaseg.verify(paths).is_ok


# --- a batch over another one, in a copy that is marked as compacted --------------------------------------------------


@TURNS
@pytest.mark.parametrize("way", ["end", "before others", "first"])
def test_the_rest_of_a_batch_that_another_one_lies_over(way: str, turn: int, tmp_path: Path) -> None:
    """The bytes behind the upper one are damage where no offset is missing, and the gap before it is no compaction."""
    last = "[18-19 e0]" if way == "before others" else ""
    texts = {10: "[10-12 e0] [13 e0] [14-17 e0] " + last, 20: "[20-21 e0]"}
    first, one, upper, *rest = (encode_batches(f"[{part}") for part in texts[10].split("[")[1:])
    if way == "first":
        first, one, upper, rest = b"", first[:80], one, [upper, *rest]
    paths = write_copies(tmp_path, texts, texts)
    mark_as_compacted(paths, (0, 1))
    hurt = first + upper + (one + upper)[len(upper) :] + b"".join(rest)
    Path(paths[0], "t-0", writer.segment_name(10)).write_bytes(hurt)
    try:
        assert offsets(paths[::turn]) == [*range(10, 18 if not last else 20), 20, 21]
    except CorruptRecordError:
        assert not kafkaseg.verify(paths[::turn]).is_ok
    assert offsets(paths[::turn], startingOffsets={"t": {"0": 20}}) == [20, 21]
