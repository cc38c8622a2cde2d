"""checkpoints: what a broker's small files say, and what is done about one that cannot be right."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataLossError, OptionError
from kafka_segment_source.logdir.checkpoints import parse_checkpoint, parse_topic_id, read_topic_id
from kafka_segment_source.storage.store import LOCAL, Entry, Kind, Storage
from tests.support.batches import data as batch
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES, LOG_DIRECTORIES, OFFSET, PARTITION, TOPIC, expected, keep, offsets, scanned

COMPACTED = LOG_DIRECTORIES["compacted"]
LIVE = LOG_DIRECTORIES["live"]
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"


# --- parsing ---------------------------------------------------------------------------------------------------------


def test_what_brokers_write() -> None:
    """Entries are topic, partition and offset; a file without a byte, or with no entries, says nothing."""
    assert parse_checkpoint(b"0\n2\ntrimmed 1 137\nmy.topic-2_x 0 14\n") == {
        ("trimmed", 1): 137,
        ("my.topic-2_x", 0): 14,
    }
    assert parse_checkpoint(b"") == parse_checkpoint(b"0\n0\n") == parse_checkpoint(b"0\n0") == {}
    assert parse_checkpoint(b"0\r\n1\r\na 0 9223372036854775807\r\n") == {("a", 0): 2**63 - 1}


@pytest.mark.parametrize("name", [LOG_START, HIGH_WATERMARK, "cleaner-offset-checkpoint"])
def test_real_checkpoints(name: str) -> None:
    """Every checkpoint that a real broker left in the fixtures can be parsed."""
    found = sorted(FIXTURES.glob(f"*/*/{name}"))
    assert len(found) > 5
    for path in found:
        assert len(parse_checkpoint(path.read_bytes())) == max(len(path.read_text().splitlines()) - 2, 0)


DAMAGED = {
    b"1\n0\n": "found version '1', expected 0",
    b"\n0\n": "found version '', expected 0",
    b"0\n": "found 0 entries, expected none",
    b"0\n2\na 0 1\n": "found 1 entries, expected 2",
    b"0\n1\na 0 1\nb 0 1\n": "found 2 entries, expected 1",
    b"0\nx\na 0 1\n": "found 1 entries, expected x",
    b"0\n1\na 0\n": "found 'a 0', expected topic, partition and offset",
    b"0\n1\na 0 -1\n": "found 'a 0 -1'",
    b"0\n1\na 0 9223372036854775808\n": "found 'a 0 9223372036854775808'",
    b"0\n1\na 0 " + b"9" * 5000 + b"\n": "found 'a 0 999",
    b"0\n1\na b c d\n": "found 'a b c d'",
    b"\x00" * 100: "found version",
    b"\xff\xfe": "found version",
}


@pytest.mark.parametrize("content", DAMAGED)
def test_what_cannot_be_right(content: bytes) -> None:
    """Another version, a wrong count or anything that is no entry makes the whole file useless, and says why."""
    with pytest.raises(ValueError, match="found") as caught:
        parse_checkpoint(content)
    assert str(caught.value).startswith(DAMAGED[content]) and len(str(caught.value)) < 150


def test_topic_ids(tmp_path: Path) -> None:
    """A topic's id is read as it stands; a file that is missing, is a directory or says something else gives none."""
    assert parse_topic_id(b"version: 0\ntopic_id: Ht4NcAGnQQiE9nSXCvjgUQ") == "Ht4NcAGnQQiE9nSXCvjgUQ"
    for content in (b"", b"version: 0", b"topic_id: short", b"\xff" * 40, b"topic: Ht4NcAGnQQiE9nSXCvjgUQ"):
        assert parse_topic_id(content) is None
    assert read_topic_id(str(LIVE / "live-0"), LOCAL) == "Ht4NcAGnQQiE9nSXCvjgUQ"
    assert read_topic_id(str(tmp_path), LOCAL) is None
    (tmp_path / "partition.metadata").mkdir()
    assert read_topic_id(str(tmp_path), LOCAL) is None


# --- the log start ---------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with orders-0: segments 0, 10 and 20 of two batches of five records each."""
    segments = [simple_segment([ten_ms(base, 5), ten_ms(base + 5, 5)], base=base) for base in (0, 10, 20)]
    simple_log(*segments).write(tmp_path / "data")
    return tmp_path / "data"


def ten_ms(base: int, count: int) -> Any:
    return batch(base, *[10 * (base + n) for n in range(count)])


def checkpoint(directory: Path, name: str, *entries: str) -> None:
    (directory / name).write_text("\n".join(["0", str(len(entries)), *entries, ""]))


@pytest.mark.parametrize("start", [0, 1, 3, 4, 5, 9, 10, 11, 19, 20, 29, 30, 1000])
def test_log_start_anywhere(start: int, data: Path) -> None:
    """Wherever the log start lies, in a batch, between batches or segments, or past the end, rows begin
    there exactly."""
    checkpoint(data, LOG_START, f"orders 0 {start}", "orders 1 7", "order 0 8")
    wanted = list(range(min(start, 30), 30))
    assert offsets(data) == offsets(data / "orders-0") == offsets(data, trustIndexes=False) == wanted
    assert offsets(data / "orders-0" / "*.log") == wanted


def test_segments_below_the_log_start() -> None:
    """Of the fixture, whole segments below the log start are dropped with that reason, and rows are the consumer's."""
    plan = kafkaseg.plan(COMPACTED, subscribe="trimmed")
    assert [dropped.reason for dropped in plan.dropped] == [
        "ends before offset 70, the log starts at 137 (log-start-offset-checkpoint)"
    ]
    found = scanned(COMPACTED, subscribe="trimmed")
    assert found == keep(expected(COMPACTED), lambda row: row[TOPIC] == "trimmed")
    assert [min(row[OFFSET] for row in found if row[PARTITION] == p) for p in (0, 1)] == [14, 137]


def test_the_log_start_is_the_earliest_offset() -> None:
    """An offset below the log start is one that the files no longer hold: an error, or a warning."""
    below = {"startingOffsets": {"trimmed": {"0": 13, "1": -2}}, "subscribe": "trimmed"}
    with pytest.raises(
        DataLossError, match=r"asks for offset 13, but the log starts at 14 \(checkpoint\) of partition"
    ):
        kafkaseg.plan(COMPACTED, **below)
    assert "reading what is there" in kafkaseg.plan(COMPACTED, **below, failOnDataLoss=False).warnings[0]
    wanted = keep(expected(COMPACTED), lambda row: row[TOPIC] == "trimmed")
    assert scanned(COMPACTED, **below, failOnDataLoss=False) == wanted
    exact = {"trimmed": {"0": 14, "1": 137}}
    assert scanned(COMPACTED, startingOffsets=exact, subscribe="trimmed") == wanted
    with pytest.raises(DataLossError, match="asks for offsets below 3"):
        kafkaseg.plan(COMPACTED, endingOffsets={"trimmed": {"0": 3, "1": -1}}, subscribe="trimmed")


def test_timestamps_do_not_find_deleted_records(data: Path) -> None:
    """startingTimestamp finds the first record that is not deleted, not one that merely lies in the file still."""
    checkpoint(data, LOG_START, "orders 0 7")
    assert offsets(data, startingTimestamp=0) == list(range(7, 30))
    assert offsets(data, startingTimestamp=0, endingTimestamp=10) == []
    assert offsets(data, startingTimestamp=70)[0] == 7


def test_a_checkpoint_of_another_directory(data: Path) -> None:
    """A checkpoint speaks of directories by name: a renamed one is not the partition that it lists."""
    checkpoint(data, LOG_START, "orders 0 7", "clicks 0 9")
    assert offsets(data / "orders-0", topic="clicks")[0] == 7
    (data / "orders-0").rename(data / "backup")
    assert offsets(data / "backup", topic="orders", partition=0)[0] == 0


@pytest.mark.parametrize("name", [LOG_START, "cleaner-offset-checkpoint"])
@pytest.mark.parametrize("content", [b"1\n1\norders 0 7\n", b"0\n5\norders 0 7\n", b"\x00" * 30])
def test_a_damaged_checkpoint_is_not_used(content: bytes, name: str, data: Path) -> None:
    """One warning names the file and what is wrong with it, and every record in the files is read."""
    (data / name).write_bytes(content)
    (warning,) = kafkaseg.plan(data).warnings
    assert warning.startswith(f"checkpoint '{data / name}' is damaged: found ") and warning.endswith("is used")
    assert offsets(data) == list(range(30))


@pytest.mark.parametrize("content", [None, b"", b"0\n0\n"])
def test_a_checkpoint_that_says_nothing(content: bytes | None, data: Path) -> None:
    """A missing checkpoint, an empty one and one without entries are no cause for a word."""
    if content is not None:
        (data / LOG_START).write_bytes(content)
    assert kafkaseg.plan(data).warnings == ()
    assert offsets(data) == list(range(30))


def test_a_checkpoint_that_cannot_be_read(data: Path) -> None:
    """What keeps a checkpoint from being read is in a warning."""
    (data / LOG_START).mkdir()
    (warning,) = kafkaseg.plan(data).warnings
    assert f"checkpoint '{data / LOG_START}' cannot be read (" in warning


# --- the high watermark ----------------------------------------------------------------------------------------------


def test_end_at_the_high_watermark_of_a_live_copy() -> None:
    """The fixture's checkpoint is older than its last records: reading ends where it says, for every partition."""
    marks = parse_checkpoint((LIVE / HIGH_WATERMARK).read_bytes())
    wanted = keep(expected(LIVE), lambda row: row[OFFSET] < marks[row[TOPIC], row[PARTITION]])
    assert 0 < len(wanted) < len(expected(LIVE))
    assert scanned(LIVE, endAt="highWatermark") == wanted
    assert scanned(LIVE, endAt="HIGHWATERMARK", includeControl=True, minPartitions=20) == wanted
    assert scanned(LIVE, endAt="end") == expected(LIVE)


@pytest.mark.parametrize("mark", [0, 3, 5, 10, 12, 29, 30, 99])
def test_high_watermark_anywhere(mark: int, data: Path) -> None:
    """Wherever the high watermark lies, rows end there exactly; segments from there on are dropped."""
    checkpoint(data, HIGH_WATERMARK, f"orders 0 {mark}")
    assert offsets(data, endAt="highWatermark") == list(range(min(mark, 30)))
    assert offsets(data) == list(range(30))
    plan = kafkaseg.plan(data, endAt="highWatermark")
    assert plan.segments_kept == len([base for base in (0, 10, 20) if base < mark])


def test_bounds_beyond_the_high_watermark(data: Path) -> None:
    """For a consumer the log ends at the high watermark: an offset beyond is not there, nor is a later timestamp."""
    checkpoint(data, HIGH_WATERMARK, "orders 0 12")
    to = {"endAt": "highWatermark"}
    assert offsets(data, endingOffsets={"orders": {"0": 12}}, **to) == list(range(12))
    with pytest.raises(DataLossError, match="asks for offsets up to 13, but the high watermark is 12 of partition"):
        kafkaseg.plan(data, endingOffsets={"orders": {"0": 13}}, **to)
    with pytest.raises(DataLossError, match="asks for offsets up to 25, but the high watermark is 12"):
        kafkaseg.plan(data, startingOffsets={"orders": {"0": 25}}, **to)
    assert offsets(data, startingTimestamp=110, **to) == [11]
    with pytest.raises(OptionError, match="no offset of partition orders-0 has a timestamp at or after"):
        kafkaseg.plan(data, startingTimestamp=120, **to)
    assert offsets(data, startingTimestamp=120, startingOffsetsByTimestampStrategy="latest", **to) == []


def test_both_ends(data: Path) -> None:
    """Log start and high watermark hold together; a log whose start is its end is empty."""
    checkpoint(data, HIGH_WATERMARK, "orders 0 12")
    checkpoint(data, LOG_START, "orders 0 8")
    assert offsets(data, endAt="highWatermark") == [8, 9, 10, 11]
    checkpoint(data, LOG_START, "orders 0 12")
    assert offsets(data, endAt="highWatermark") == []


def test_a_high_watermark_that_cannot_be_had(data: Path) -> None:
    """Asked for what is not on record, the plan is an error that names the file, never everything instead."""
    asked: dict[str, Any] = {"endAt": "highWatermark"}
    where = (
        f"option 'endAt' is 'highWatermark', but of '{data / 'orders-0'}' it is not known: '{data / HIGH_WATERMARK}'"
    )
    for content, why in (
        (None, "does not exist"),
        ("", "does not list that directory"),
        ("0\n1\norders 1 5\n", "does not list that directory"),
        ("0\n9\norders 0 5\n", "is damaged: found 1 entries, expected 9, as its second line says"),
    ):
        if content is not None:
            (data / HIGH_WATERMARK).write_text(content)
        with pytest.raises(OptionError) as caught:
            kafkaseg.plan(data, **asked)
        assert str(caught.value) == f"{where} {why}; endAt=end reads to the end of the files"


# --- what a compaction leaves ----------------------------------------------------------------------------------------


def test_compacted_directories_hold_dead_files() -> None:
    """Beside the fixture's segments lie those that they replaced: none of them is read, nor missed."""
    names = {path.name.rsplit(".", 1)[1] for path in COMPACTED.glob("compacted*/*.log*")}
    assert names == {"log", "deleted"}
    plan = kafkaseg.plan(COMPACTED)
    assert plan.segments_total == len(list(COMPACTED.glob("[ct]*/*.log"))) and plan.warnings == ()
    assert scanned(COMPACTED) == expected(COMPACTED)


def dead_files(folder: Path) -> None:
    """Copies of the first segment under the suffixes of dead and unfinished files."""
    whole = (folder / f"{0:020d}.log").read_bytes()
    for name in (f"{0:020d}.log.deleted", f"{5:020d}.log.cleaned", f"{3:020d}.log.deleted", f"{7:020d}.index.swap"):
        (folder / name).write_bytes(whole)


def test_leftovers_are_left_alone(data: Path) -> None:
    """Deleted and unfinished files, and directories of deleted, moving and stray partitions, add nothing."""
    dead_files(data / "orders-0")
    for suffix in ("delete", "future", "stray"):
        shutil.copytree(data / "orders-0", data / f"orders-0.{'ab' * 16}-{suffix}")
        shutil.copytree(data / "orders-0", data / f"other-0.{'cd' * 16}-{suffix}")
    shutil.copytree(data / "orders-0", data / "x-delete-0")
    shutil.copytree(data / "orders-0", data / "x.y-future-1")
    found = [(row[TOPIC], row[PARTITION], row[OFFSET]) for row in scanned(data)]
    topics = [("orders", 0), ("x-delete", 0), ("x.y-future", 1)]
    assert found == [(*name, offset) for name in topics for offset in range(30)]
    assert kafkaseg.plan(data).warnings == ()


def swap(folder: Path, base: int, *specs: Any, suffix: str = ".swap") -> Path:
    """A `.log.swap` with these batches."""
    path = folder / f"{base:020d}.log{suffix}"
    path.write_bytes(simple_segment(specs, base=base).log if specs else b"")
    return path


def test_a_swap_replaces_what_it_was_made_from(data: Path) -> None:
    """A crash between the two renames: the .swap stands for every segment up to its own last offset, and
    the plan says so."""
    folder = data / "orders-0"
    swap(folder, 0, batch(3, 30), batch(8, 80), batch(19, 190))
    plan = kafkaseg.plan(data)
    assert offsets(data) == offsets(folder) == [3, 8, 19, *range(20, 30)]
    assert [(Path(each.path).name, each.reason) for each in plan.dropped] == [
        (f"{0:020d}.log", f"replaced by {0:020d}.log.swap"),
        (f"{10:020d}.log", f"replaced by {0:020d}.log.swap"),
    ]
    (warning,) = plan.warnings
    assert warning == (
        f"a compaction of '{folder}' was interrupted, or is under way: {0:020d}.log.swap is read for the offsets 0 to 19,"
        " as a broker would on its next start"
    )


def test_originals_that_are_gone_already(data: Path) -> None:
    """The .swap is read, too, where the old segments have been renamed away; alone in its directory as well."""
    folder = data / "orders-0"
    swap(folder, 0, batch(3, 30), batch(19, 190))
    for base in (0, 10):
        path = folder / f"{base:020d}.log"
        path.rename(path.with_name(path.name + ".deleted"))
    assert offsets(data) == [3, 19, *range(20, 30)]
    (folder / f"{20:020d}.log").unlink()
    assert offsets(data) == offsets(folder) == [3, 19]


def test_swaps_of_a_split(data: Path) -> None:
    """Several .swap files replace together what lies from the lowest base to the end of the furthest."""
    folder = data / "orders-0"
    swap(folder, 10, ten_ms(10, 3))
    swap(folder, 14, ten_ms(14, 6))
    assert offsets(data) == [*range(10), 10, 11, 12, *range(14, 20), *range(20, 30)]
    assert "are read for the offsets 10 to 19" in kafkaseg.plan(data).warnings[0]


GARBAGE = b"\xabgarbage!" * 100


@pytest.mark.parametrize("base", [0, 5, 10, 15, 20, 25])
def test_a_damaged_swap_is_to_blame(base: int, data: Path) -> None:
    """Its error names the .swap, not the healthy segment that it lies over. Offsets beside it are read."""
    path = swap(data / "orders-0", base)
    path.write_bytes(GARBAGE)
    with pytest.raises(kafkaseg.CorruptRecordError) as caught:
        offsets(data)
    assert (caught.value.path, caught.value.position) == (str(path), 0)
    beside = {"startingOffsets": 20} if base < 20 else {"endingOffsets": 20}
    given = {name: {"orders": {"0": offset}} for name, offset in beside.items()}
    assert len(kafkaseg.scan(data, ["offset"], **given).read_all()) == (10 if base < 20 else 20)


@pytest.mark.parametrize("base", [0, 5, 10, 15, 20, 25])
def test_a_damaged_swap_takes_no_rows_of_segments(base: int, data: Path) -> None:
    """DROPMALFORMED reads the segments that hold its offsets, and says so."""
    path = swap(data / "orders-0", base)
    path.write_bytes(GARBAGE)
    plan = kafkaseg.plan(data, mode="DROPMALFORMED")
    assert plan.to_reader(["offset"]).read_all()["offset"].to_pylist() == [*range(30)]
    assert plan.warnings == (f"'{path}' begins with no whole batch: it is not read, as segments hold its offsets",)
    assert [(each.path, each.reason) for each in plan.dropped] == [(str(path), "begins with no whole batch")]


def test_a_damaged_swap_whose_originals_are_gone(data: Path) -> None:
    """DROPMALFORMED skips its damage, and reads its later batches: nothing else holds them."""
    folder = data / "orders-0"
    path = swap(folder, 10, batch(12, 120), batch(17, 170))
    damaged = path.read_bytes()
    path.write_bytes(damaged[:20] + b"\xff" + damaged[21:])
    (folder / f"{10:020d}.log").unlink()
    reader = kafkaseg.scan(data, ["offset"], mode="DROPMALFORMED")
    assert reader.read_all()["offset"].to_pylist() == [*range(10), 17, *range(20, 30)]


def test_a_damaged_swap_of_one_of_several_copies(data: Path, tmp_path: Path) -> None:
    """The other copy and the segments hold its offsets, so nothing is lost."""
    other = tmp_path / "other"
    shutil.copytree(data, other)
    swap(data / "orders-0", 5).write_bytes(GARBAGE)
    rows = kafkaseg.scan([data, other], ["offset"]).read_all()
    assert rows["offset"].to_pylist() == [*range(30)]


def test_swaps_that_an_unfinished_compaction_makes_again(data: Path) -> None:
    """A .swap whose base is not below the smallest .cleaned counts for nothing: its compaction was not finished."""
    folder = data / "orders-0"
    swap(folder, 10, batch(19, 190))
    swap(folder, 20, batch(20, 200), suffix=".cleaned")
    assert offsets(data) == [*range(10), 19, *range(20, 30)]
    (folder / f"{10:020d}.index.cleaned").write_bytes(b"")
    assert offsets(data) == list(range(30)) and kafkaseg.plan(data).warnings == ()


def test_a_swap_without_a_record(data: Path) -> None:
    """An empty .swap replaces the segment of its name, and no other."""
    swap(data / "orders-0", 10)
    assert offsets(data) == [*range(10), *range(20, 30)]


def test_indexes_beside_a_swap_are_not_used(data: Path) -> None:
    """Index files beside a .swap may belong to the old segment: they are not opened."""
    folder = data / "orders-0"
    swap(folder, 0, batch(3, 30), batch(8, 80), batch(19, 190))
    for suffix in (".index", ".timeindex", ".log.index", ".index.swap", ".log.swap.index"):
        (folder / f"{0:020d}{suffix}").write_bytes(b"\x7f" * 96)
    assert offsets(data, since=85) == [19, *range(20, 30)]
    assert offsets(data, startingOffsets={"orders": {"0": 9}}) == [19, *range(20, 30)]


def test_single_files_leave_swaps_alone(data: Path) -> None:
    """A path of .log files is read as these files, whatever lies beside them."""
    folder = data / "orders-0"
    swap(folder, 0, batch(19, 190))
    assert offsets(folder / f"{0:020d}.log") == list(range(10))


def test_a_listing_while_a_broker_swaps(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing that shows neither the old segment nor the new one is not taken: the next one shows where it went."""
    folder = data / "orders-0"
    swap(folder, 10, batch(19, 190))
    from kafka_segment_source.logdir import listing as listings  # noqa: PLC0415

    truth, seen = listings.list_files, []

    def racing(directory: str, storage: Storage) -> dict[str, Entry]:
        found = truth(directory, storage)
        if not seen and directory == str(folder):
            seen.append(directory)
            return {
                **{name: size for name, size in found.items() if not name.startswith(f"{10:020d}")},
                f"{10:020d}.log.deleted": Entry(f"{10:020d}.log.deleted", Kind.FILE),
            }
        return found

    monkeypatch.setattr(listings, "list_files", racing)
    assert offsets(data) == [*range(10), 19, *range(20, 30)]
    assert len(seen) == 1
