"""Files that are missing, vanish, shrink, cannot be read, or change while they are read: an error or one warning."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import (
    DataError,
    DataLossError,
    FileChangedError,
    PathError,
    RetentionError,
    StorageError,
)
from kafka_segment_source.logdir import catalog, segment_view
from kafka_segment_source.logdir import listing as listings
from kafka_segment_source.partition import logs as available
from kafka_segment_source.storage import store
from tests.support import writer
from tests.support.batches import control, empty
from tests.support.batches import data as batch
from tests.support.logs import Segment, simple_log, simple_segment
from tests.support.maps import make_maps
from tests.support.reads import plan_in
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS, expected, offsets, scanned

LOGGER = "kafka_segment_source"


def segment(base: int, end: int, **more: Any) -> Segment:
    """A segment of batches of two records, ten milliseconds apart."""
    specs = [batch(at, *[10 * n for n in range(at, min(at + 2, end))]) for at in range(base, end, 2)]
    return simple_segment(specs, base=base, **more)


def written(directory: Path, *segments: Segment) -> Path:
    return simple_log(*segments).write(directory)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 with segments 0, 10, 20 and 30, of ten offsets each."""
    return written(tmp_path, *[segment(base, base + 10) for base in (0, 10, 20, 30)])


def log(folder: Path, base: int) -> Path:
    return folder / f"{base:020d}.log"


def all_of(reader: pa.RecordBatchReader) -> list[int]:
    return [offset for found in reader for offset in found["offset"].to_pylist()]


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Its `messages` are what was logged."""
    with caplog.at_level(logging.WARNING, LOGGER):
        yield caplog


# --- a missing segment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [10, 20])
@pytest.mark.parametrize(
    "options", [{}, {"minPartitions": 12}, {"checkCrcs": False}, {"since": 35}, {"trustIndexes": False}]
)
def test_a_missing_segment(base: int, options: dict[str, Any], folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Offsets between two segments that no file holds are an error that names them, the file before and what to do."""
    before = log(folder, base - 10)
    log(folder, base).unlink()
    with pytest.raises(DataLossError) as caught:
        offsets(folder, **options)
    assert str(caught.value) == (
        f"offsets {base} to {base + 9} of partition orders-0 are missing: '{before}' ends before {base}, the next segment"
        f" begins at {base + 10}, so a segment file between them is not there, or compaction left it out and the broker's"
        " cleaner-offset-checkpoint is not here to say so; failOnDataLoss=false reads what is there"
    )
    with caplog.at_level(logging.WARNING, LOGGER):
        found = offsets(folder, failOnDataLoss=False, **options)
    since = options.get("since", 0) / 10
    assert found == [n for n in range(40) if n >= since and not base <= n < base + 10]
    assert caplog.messages == [f"{caught.value.what}; going on without it (failOnDataLoss=false)"]


def test_a_segment_missing_behind_one_whose_batches_are_swapped(tmp_path: Path) -> None:
    """The swapped batches leave gaps, which are no sign of compaction. A read behind them does not see them itself."""
    swapped = [batch(at, *[10 * n for n in (at, at + 1)]) for at in (2, 0, 4, 6, 8)]
    first = simple_segment(swapped, base=0, index=[(5, 2), (7, 3)], timeindex=[(50, 5)])
    folder = written(tmp_path, first, segment(20, 30))
    for start in (6, 12):
        with pytest.raises(DataLossError, match=f"offsets {max(start, 10)} to 19 of partition orders-0 are missing"):
            offsets(folder, startingOffsets={"orders": {"0": start}})
        found = offsets(folder, startingOffsets={"orders": {"0": start}}, failOnDataLoss=False)
        assert found == [*range(start, 10), *range(20, 30)]


@pytest.mark.parametrize("moment", [120, 190, 200])
def test_a_segment_missing_right_before_a_starting_timestamp(moment: int, folder: Path) -> None:
    """Nobody knows whether one of its rows is the first with that time."""
    options: dict[str, Any] = {"startingTimestamp": moment}
    assert offsets(folder, **options)[0] == moment // 10
    log(folder, 10).unlink()
    with pytest.raises(DataLossError, match="offsets 10 to 19 of partition orders-0 are missing"):
        offsets(folder, **options)
    assert offsets(folder, failOnDataLoss=False, **options) == list(range(20, 40))
    assert offsets(folder, startingTimestamp=210) == list(range(21, 40))
    answer = kafkaseg.offsets_for_time(folder, moment)
    assert answer.partitions[0].offset == 20
    assert [said for said in answer.warnings if "offsets 10 to 19 of partition orders-0" in said]
    assert kafkaseg.offsets_for_time(folder, 210).warnings == ()


@pytest.mark.parametrize("turn", [1, -1])
def test_damage_right_before_a_starting_timestamp(turn: int, tmp_path: Path) -> None:
    """Damage hides the end of the segment before it, and the other copy shows that no offset is missing there."""
    folder = written(tmp_path / "A", segment(0, 10), segment(10, 20))
    data = bytearray(log(folder, 0).read_bytes())
    data[-3] ^= 4
    log(folder, 0).write_bytes(data)
    paths = [folder, written(tmp_path / "B", segment(0, 20))][::turn]
    assert offsets(paths, startingTimestamp=100) == list(range(10, 20))
    answer = kafkaseg.offsets_for_time(paths, 100)
    assert answer.partitions[0].offset == 10
    assert not [said for said in answer.warnings if "missing" in said]


@pytest.mark.parametrize("by", ["time index", "zone map", "key filter"])
def test_a_segment_missing_behind_one_that_is_left_out(by: str, tmp_path: Path) -> None:
    """Nobody knows the times and keys of its rows, so the end of the segment before is looked at."""
    made = [segment(base, base + 10, timeindex=[(10 * base + 90, base + 9)]) for base in (0, 10, 20)]
    folder = written(tmp_path / "logs", *made)
    options: dict[str, Any] = {"key": "k25"} if by == "key filter" else {"since": 150}
    if by != "time index":
        make_maps(tmp_path / "logs", tmp_path / "maps", keys=True)
        options["zoneMaps"] = str(tmp_path / "maps")
    wanted = offsets(folder, **options)
    assert kafkaseg.plan(folder, **options).segments_kept == (2 if "since" in options else 1)

    for path in folder.glob("*10.*"):
        path.unlink()
    with pytest.raises(DataLossError, match="offsets 10 to 19 of partition orders-0 are missing"):
        offsets(folder, **options)
    found = offsets(folder, failOnDataLoss=False, **options)
    assert found == [offset for offset in wanted if not 10 <= offset < 20]
    bounds = {"startingOffsets": {"orders": {"0": 20}}}
    assert offsets(folder, **options, **bounds) == found
    checkpoint = "0\n1\norders 0 20\n"
    (tmp_path / "logs" / "cleaner-offset-checkpoint").write_text(checkpoint)
    assert offsets(folder, **options) == found


def test_a_segment_missing_behind_a_wrong_offset(tmp_path: Path) -> None:
    """The last batch of the segment before states an offset that its segment cannot have, so it says nothing of its
    end (hurt copies 12019934). Another copy is read for what is missing, where it has it (13015232)."""
    made = [segment(base, base + 10, timeindex=[(10 * base + 90, base + 9)]) for base in (0, 10, 20)]
    folder = written(tmp_path / "one", *made)
    compacted = written(tmp_path / "other", segment(14, 20))
    (tmp_path / "other" / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    data = bytearray(log(folder, 0).read_bytes())
    data[data.index((8).to_bytes(8)) + 3] ^= 1
    log(folder, 0).write_bytes(data)
    assert offsets(folder, since=150) == [*range(15, 30)]
    for path in folder.glob("*10.*"):
        path.unlink()
    with pytest.raises(DataError, match=r"batch out of order .* found 4294967304"):
        offsets(folder, since=150)
    lenient = {"since": 150, "mode": "DROPMALFORMED", "failOnDataLoss": False}
    assert offsets(folder, **lenient) == [*range(20, 30)]
    assert offsets([folder, compacted], **lenient) == [*range(15, 30)]


def test_a_missing_segment_after_damage(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Skipped damage is no sign of compaction: the loss after the segment is still an error."""
    damaged = log(folder, 0)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    log(folder, 10).unlink()
    with pytest.raises(DataLossError, match="offsets 10 to 19 of partition orders-0 are missing"):
        offsets(folder, mode="DROPMALFORMED")
    with caplog.at_level(logging.WARNING, LOGGER):
        found = offsets(folder, mode="DROPMALFORMED", failOnDataLoss=False)
    assert set(found) < {*range(10), *range(20, 40)} and set(found) > {*range(20, 40)}
    assert sum("are missing" in message for message in caplog.messages) == 1


def test_a_missing_segment_that_nobody_asked_for(folder: Path) -> None:
    """Bounds that leave the missing offsets out read on as if nothing were missing."""
    log(folder, 10).unlink()
    assert offsets(folder, endingOffsets={"orders": {"0": 10}}) == list(range(10))
    assert offsets(folder, startingOffsets={"orders": {"0": 20}}) == list(range(20, 40))
    assert offsets(log(folder, 0)) == list(range(10))
    assert offsets([log(folder, 0), log(folder, 30)]) == [*range(10), *range(30, 40)]
    assert offsets(folder, since=0, until=50, timestampDisorder="0ms") == list(range(5))
    with pytest.raises(DataLossError, match="offsets 10 to 11 of partition orders-0 are missing"):
        offsets(folder, endingOffsets={"orders": {"0": 12}})
    with pytest.raises(DataLossError, match="offsets 15 to 19 of partition"):
        offsets(written(folder.parent / "b", segment(0, 15), segment(20, 30)), startingOffsets={"orders": {"0": 3}})


def test_the_first_and_the_last_segment_may_be_missing(folder: Path) -> None:
    """Retention takes the first segments, and without a trace nobody can tell that a last one is missing."""
    log(folder, 0).unlink()
    log(folder, 30).unlink()
    assert offsets(folder) == list(range(10, 30))


def test_an_empty_file_between_others(folder: Path, warned: pytest.LogCaptureFixture) -> None:
    """A segment file without a byte, a half-made copy perhaps, is as good as missing; the last one may be empty."""
    log(folder, 20).write_bytes(b"")
    with pytest.raises(DataLossError, match=f"'{log(folder, 20)}' is empty: no file holds the offsets 20 to 29 of"):
        kafkaseg.plan(folder)
    assert offsets(folder, failOnDataLoss=False) == [*range(20), *range(30, 40)]
    assert len(warned.messages) == 1 and "reading what is there" in warned.messages[0]
    assert offsets(folder, startingOffsets={"orders": {"0": 30}}) == list(range(30, 40))
    log(folder, 20).write_bytes(segment(20, 30).log)
    log(folder, 30).write_bytes(b"")
    assert offsets(folder) == list(range(30))


COMPACTED = {
    "a gap between batches": simple_segment([batch(0, 0), batch(3, 30), batch(4, 40)], base=0),
    "a gap before the first batch": simple_segment([batch(2, 20), batch(3, 30)], base=0),
    "a gap before the last batch": simple_segment([batch(0, 0), batch(3, 30)], timeindex=[(30, 3)], base=0),
    "a gap before the only batch": simple_segment([batch(2, 20)], timeindex=[(20, 2)], base=0),
    "a gap that an offset index shows": simple_segment([batch(0, 0), batch(3, 30)], index=[(3, 1)], base=0),
    "a gap inside a batch": simple_segment([batch(0, 0, last=3)], base=0),
    "an empty batch": simple_segment([batch(0, 0), empty(1, 3, 30)], base=0),
    "a message set": simple_segment([batch(0, 0, 10, magic=1)], base=0),
    "a compressed message set": simple_segment([batch(0, 0, 10, magic=0, codec="gzip")], base=0),
}


@pytest.mark.parametrize("name", COMPACTED)
def test_gaps_of_compaction(name: str, tmp_path: Path) -> None:
    """Where the segment itself shows compaction, or is too old to show it, a gap after it is no loss."""
    first = COMPACTED[name]
    folder = written(tmp_path, first, segment(100, 110))
    wanted = [*(record.offset for record in first.records), *range(100, 110)]
    assert offsets(folder) == offsets(folder, minPartitions=4) == wanted


UNPROVEN = {
    "before the last batch": [batch(0, 0), batch(13, 30)],
    "before the only batch": [batch(13, 30)],
    "behind many batches": [*(batch(offset, offset) for offset in range(8)), batch(13, 30)],
}


@pytest.mark.parametrize("name", UNPROVEN)
@pytest.mark.parametrize("entries", [None, (), ((0, 0),)])
def test_a_gap_before_the_last_batch_proves_no_compaction(
    name: str, entries: tuple[tuple[int, int], ...] | None, tmp_path: Path
) -> None:
    """No CRC covers the offset of a batch, and no batch follows the last one. So its offset may be wrong, and the
    segment behind it may be missing. An entry of an index file below that offset says nothing else."""
    folder = written(tmp_path, simple_segment(UNPROVEN[name], timeindex=entries, base=0), segment(100, 110))
    for options in ({}, {"startingOffsets": {"orders": {"0": 13}}}, {"minPartitions": 4}):
        with pytest.raises(DataLossError, match="offsets 14 to 99 of partition orders-0 are missing"):
            offsets(folder, **options)
    assert [finding.offset for finding in kafkaseg.verify(folder).problems] == [14]


def test_gaps_before_a_split_that_starts_late(tmp_path: Path) -> None:
    """A read that starts late in its segment looks at the batches before, too, before it says that a file
    is missing."""
    gapped = simple_segment([batch(0, 0), batch(3, 30), batch(4, 40)], index=[(3, 1), (4, 2)], base=0)
    folder = written(tmp_path, gapped, segment(100, 110))
    assert offsets(folder, startingOffsets={"orders": {"0": 4}}) == [4, *range(100, 110)]
    assert kafkaseg.plan(folder, startingOffsets={"orders": {"0": 4}}).splits[0].start > 0


def test_control_batches_are_no_gaps(tmp_path: Path) -> None:
    """Markers take an offset and give no row: neither a loss by themselves, nor a sign of compaction."""
    marked = simple_segment([batch(0, 0), control(1, 10), control(2, 20)], base=0)
    assert offsets(written(tmp_path / "a", marked, segment(3, 9))) == [0, *range(3, 9)]
    with pytest.raises(DataLossError, match="offsets 3 to 4 of"):
        offsets(written(tmp_path / "b", marked, segment(5, 9)))


def test_what_the_brokers_checkpoint_explains(folder: Path) -> None:
    """A partition that the broker's cleaner-offset-checkpoint lists may have any gap; another's entry
    explains nothing."""
    log(folder, 10).unlink()
    checkpoint = folder.parent / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 1 30\n")
    with pytest.raises(DataLossError):
        offsets(folder)
    checkpoint.write_text("0\n1\norders 0 30\n")
    assert offsets(folder) == [*range(10), *range(20, 40)]
    log(folder, 20).write_bytes(b"")
    assert offsets(folder) == [*range(10), *range(30, 40)]


def test_skipped_damage_explains_a_gap(folder: Path, warned: pytest.LogCaptureFixture) -> None:
    """A damaged last batch that was skipped and reported is not reported a second time as a missing file."""
    content = bytearray(log(folder, 10).read_bytes())
    content[-1] ^= 1
    log(folder, 10).write_bytes(content)
    assert offsets(folder, mode="DROPMALFORMED") == [*range(18), *range(20, 40)]
    assert len(warned.messages) == 1 and "CRC" in warned.messages[0]


@pytest.mark.parametrize("name", [*LOG_DIRECTORIES, *MESSAGE_SETS])
def test_real_logs_have_no_loss(name: str) -> None:
    """No gap of a real broker's logs, compacted, transactional or old, is taken for a missing segment."""
    directory = {**LOG_DIRECTORIES, **MESSAGE_SETS}[name]
    for options in ({}, {"minPartitions": 50}, {"maxRecordsPerPartition": 3}):
        assert scanned(directory, **options) == expected(directory)
        assert kafkaseg.plan(directory, **options).warnings == ()
    assert len(scanned(directory, includeControl=True)) >= len(expected(directory))


def test_real_compacted_partitions_without_their_checkpoint(tmp_path: Path) -> None:
    """Copied without what lies beside it, a real compacted partition still shows that it was compacted."""
    for name in ("compacted-0", "compacted-zstd-0", "compacted-transactions-0"):
        (tmp_path / name).symlink_to(LOG_DIRECTORIES["compacted"] / name)
    topics = ("compacted", "compacted-transactions", "compacted-zstd")
    assert scanned(tmp_path) == [row for row in expected(LOG_DIRECTORIES["compacted"]) if row[0] in topics]


# --- files that change between planning and reading ------------------------------------------------------------------


@pytest.mark.parametrize("base", [0, 10, 30])
def test_a_file_that_vanished(base: int, folder: Path, warned: pytest.LogCaptureFixture) -> None:
    """A `.log` that retention took after planning is an error that names it; without failOnDataLoss, one warning."""
    readers = [kafkaseg.scan(folder, ["offset"], failOnDataLoss=fails) for fails in (True, False)]
    log(folder, base).unlink()
    with pytest.raises(FileChangedError) as caught:
        all_of(readers[0])
    assert f"offsets {base} to {base + 9} of partition orders-0 are" in str(caught.value)
    if base == 0:  # retention takes the first segments
        assert isinstance(caught.value, RetentionError)
        assert str(caught.value).endswith(
            ": the files begin at offset 10 now, as the broker has removed them since the read was planned; give"
            " failOnDataLoss=false to read what is left"
        )
    else:
        assert str(caught.value).endswith(
            f"file '{log(folder, base)}' was there when it was listed, but is gone now, deleted by retention or compaction, or"
            " not on this machine; plan the read again"
        )
    assert all_of(readers[1]) == [n for n in range(40) if not base <= n < base + 10]
    assert warned.messages == [f"{caught.value.what}; going on without it (failOnDataLoss=false)"]


@pytest.mark.parametrize("left", [0, 1, 100, 300, 350])
@pytest.mark.parametrize("base", [0, 30])
def test_a_file_that_shrank(base: int, left: int, folder: Path, warned: pytest.LogCaptureFixture) -> None:
    """A file cut after planning gives its whole batches, and then an error; without failOnDataLoss, one warning."""
    whole = log(folder, base).read_bytes()
    readers = [kafkaseg.scan(folder, ["offset"], failOnDataLoss=fails) for fails in (True, False)]
    log(folder, base).write_bytes(whole[:left])
    with pytest.raises(FileChangedError) as caught:
        all_of(readers[0])
    assert str(caught.value).endswith(
        f"file '{log(folder, base)}' has shrunk since it was listed: found {left} bytes, expected {len(whole)}, so it was"
        " compacted or truncated; plan the read again"
    )
    kept = [record.offset for each in segment(base, base + 10).batches if each.end <= left for record in each.records]
    assert all_of(readers[1]) == [n for n in range(40) if not base <= n < base + 10 or n in kept]
    assert warned.messages == [f"{caught.value.what}; going on without it (failOnDataLoss=false)"]


def test_a_file_that_a_compaction_replaced(folder: Path, warned: pytest.LogCaptureFixture) -> None:
    """Planned positions mean nothing in another file of the same name: what is left of the offsets comes out once, and
    nothing is lost."""
    folder_options: dict[str, Any] = {"startingOffsets": {"orders": {"0": 4}}}
    log(folder, 0).with_suffix(".index").write_bytes(
        writer.offset_index(segment(0, 10, index=[(3, 1)]).offset_entries, 0)
    )
    assert kafkaseg.plan(folder, **folder_options).splits[0].start > 0
    readers = [kafkaseg.scan(folder, ["offset"], **{**folder_options, **more}) for more in ({}, {"minPartitions": 9})]
    merged = simple_segment([batch(2, 20), batch(5, 50), batch(13, 130)], base=0)
    for base in (0, 10):
        log(folder, base).rename(log(folder, base).with_suffix(".log.deleted"))
    log(folder, 0).write_bytes(merged.log)
    for reader in readers:
        assert all_of(reader) == [5, 13, *range(20, 40)]
    assert warned.messages == []


def test_a_preallocated_file_that_was_trimmed(tmp_path: Path, warned: pytest.LogCaptureFixture) -> None:
    """A broker that rolls a segment cuts off its preallocated zeros: nothing is lost, and the next
    segment is not read."""
    folder = written(tmp_path, segment(0, 10))
    whole = log(folder, 0).read_bytes()
    log(folder, 0).write_bytes(whole + bytes(100_000))
    readers = [kafkaseg.scan(folder, ["offset"]), kafkaseg.scan(folder, ["offset"], startingTimestamp=50)]
    log(folder, 0).write_bytes(whole)
    log(folder, 10).write_bytes(segment(10, 20).log)
    assert [all_of(reader) for reader in readers] == [list(range(10)), list(range(5, 10))]
    assert warned.messages == []


def test_a_live_broker_goes_on(folder: Path) -> None:
    """What is appended, rolled or created after planning is not read; what was planned is, whole."""
    reader = kafkaseg.scan(folder, ["offset"])
    with log(folder, 30).open("ab") as file:
        file.write(segment(40, 50).log)
    log(folder, 50).write_bytes(segment(50, 60).log)
    assert all_of(reader) == list(range(40))
    assert offsets(folder) == list(range(60))


def test_a_deletion_while_a_file_is_open(folder: Path) -> None:
    """A file that is deleted while it is read is read to its end."""
    reader = kafkaseg.scan(written(folder.parent / "one", segment(0, 10)), ["offset"])
    first = reader.read_next_batch()["offset"].to_pylist()
    log(folder.parent / "one" / "orders-0", 0).unlink()
    assert [*first, *all_of(reader)] == list(range(10))


# --- a directory that changes while it is planned --------------------------------------------------------------------


class Retention:
    """Deletes a file the moment that planning opens it, as often as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *victims: Path) -> None:
        self.left = list(victims)
        opened = segment_view.InputFile

        def opening(path: str, *rest: Any) -> Any:
            if any(path == str(victim) for victim in self.left):
                self.left.remove(Path(path))
                Path(path).unlink()
            return opened(path, *rest)

        monkeypatch.setattr(segment_view, "InputFile", opening)


def test_retention_while_planning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that goes while it is planned is as if planning had begun a moment later."""
    retention = Retention(monkeypatch, log(folder, 0), log(folder, 10))
    plan = kafkaseg.plan(folder, timestampDisorder="0ms", since=0, until=10**6, maxRecordsPerPartition=3)
    assert retention.left == [] and {Path(split.path) for split in plan.splits} == {log(folder, 20), log(folder, 30)}


def test_a_directory_that_never_rests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning does not try for ever: after some listings the error is the one of a file that is gone."""
    stale = catalog.list_logs
    gone = stale(kafkaseg.options.parse_options({"path": str(folder)})[0].source)
    for base in (0, 10, 20, 30):
        log(folder, base).unlink()
    calls: list[int] = []
    monkeypatch.setattr(available, "list_logs", lambda *_: calls.append(1) or gone)
    with pytest.raises(FileChangedError, match="is gone now"):
        kafkaseg.plan(folder, maxRecordsPerPartition=3)
    assert 1 < len(calls) < 50


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_index_files_that_vanish(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index file that was listed and is gone, shrank or cannot be read is a hint less: same rows, no error."""
    entries: dict[str, Any] = {"index": [(3, 1), (7, 3)], "timeindex": [(30, 3), (70, 7)]}
    folder = written(tmp_path, segment(0, 10, **entries), segment(10, 20))
    index = log(folder, 0).with_suffix(suffix)
    listed = listings.list_directory

    def listing(*where: str) -> list[store.Entry]:
        found = listed(*where)
        index.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(listings, "list_directory", listing)
    assert offsets(folder, since=60) == list(range(6, 20))
    index.mkdir()
    stale = store.Entry(index.name, store.Kind.FILE, store.FileVersion(96, 1, 1))
    monkeypatch.setattr(
        listings,
        "list_directory",
        lambda *where: [*(each for each in listed(*where) if each.name != index.name), stale],
    )
    assert offsets(folder, since=60, startingOffsets={"orders": {"0": 5}}) == list(range(6, 20))


def test_a_listing_of_a_directory_that_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition directory that is deleted between two listings has no rows; others are read."""
    other = folder.parent / "orders-1"
    folder.rename(other)
    written(folder.parent, segment(0, 4))
    listed = listings.list_files

    def listing(directory: str, storage: store.Storage) -> dict[str, store.Entry]:
        if directory == str(other) and other.exists():
            for path in other.iterdir():
                path.unlink()
            other.rmdir()
        return listed(directory, storage)

    monkeypatch.setattr(listings, "list_files", listing)
    assert offsets(folder.parent) == [0, 1, 2, 3]


# --- files that cannot be read ---------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps a `.log` from being opened is one error with the system's reason, whatever
    failOnDataLoss and mode say."""
    reader = kafkaseg.scan(folder, ["offset"], failOnDataLoss=False, mode="DROPMALFORMED")
    log(folder, 10).unlink()
    log(folder, 10).mkdir()
    with pytest.raises(PathError, match=f"file '{log(folder, 10)}' cannot be read: .+"):
        all_of(reader)


class _Failing:
    """A file whose disk fails."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read_into(self, *_: Any) -> int:
        raise OSError(5, "Input/output error")

    def read_at(self, *_: int) -> bytes:
        raise PermissionError(13, "Permission denied")


def test_a_file_whose_bytes_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails in the middle of a read is an error that names the file, while planning as while reading."""
    from kafka_segment_source.storage import files  # noqa: PLC0415

    opened = files.InputFile.__init__

    def failing(self: Any, path: str, *rest: Any) -> None:
        opened(self, path, *rest)
        self._file = _Failing(self._file)

    monkeypatch.setattr(files.InputFile, "__init__", failing)
    reader = kafkaseg.scan(folder, ["offset"])
    with pytest.raises(
        StorageError, match=rf"file '{log(folder, 0)}' cannot be read: (\[Errno 5\] )?Input/output error"
    ):
        all_of(reader)
    with pytest.raises(StorageError, match=r"cannot be read: (\[Errno 13\] )?Permission denied"):
        kafkaseg.plan(folder, maxRecordsPerPartition=3)


def test_a_directory_that_cannot_be_listed(folder: Path) -> None:
    """A directory that may not be listed is an error that names it."""

    class Locked(store.LocalStorage):
        def list(self, directory: str) -> Any:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(StorageError, match=rf"path '{folder}' cannot be listed: .*Permission denied"):
        plan_in(Locked(), folder)
