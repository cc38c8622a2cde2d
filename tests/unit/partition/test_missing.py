"""What should be there and is not: hard evidence is an error, soft evidence a warning with the number,
the rest silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import DataError, DataLossError, OptionError, PathError
from kafka_segment_source.logdir.checkpoints import Checkpoints
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import parse_options
from kafka_segment_source.partition.logs import examined_logs, shown_logs
from kafka_segment_source.partition.missing import notice
from kafka_segment_source.planning import selection
from kafka_segment_source.storage import retrying, store
from kafka_segment_source.storage.store import LOCAL
from tests.cli.runner import answer, run
from tests.support import simulated_reads, writer
from tests.support.batches import data as batch
from tests.support.layouts import write_copies
from tests.support.logs import Segment, simple_log, simple_segment
from tests.support.reads import plan_in
from tests.support.rows import FIXTURES, LOG_DIRECTORIES, ORDERS, offsets

HIGH_WATERMARK = "replication-offset-checkpoint"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"


def segment(base: int) -> Segment:
    """Ten offsets in five batches, with index files whose last entries tell all of them."""
    specs = [batch(at, 10 * at, 10 * at + 10) for at in range(base, base + 10, 2)]
    entries = {"index": [(base + 3, 1), (base + 9, 4)], "timeindex": [(10 * base + 90, base + 9)]}
    return simple_segment(specs, base=base, **entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """orders-0 of the log directory `data`, with segments 0, 10, 20 and 30."""
    return simple_log(*[segment(base) for base in (0, 10, 20, 30)]).write(tmp_path / "data")


def file(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020d}{suffix}"


def warnings(path: Any, **options: Any) -> tuple[str, ...]:
    return kafkaseg.plan(path, **options).warnings


def checkpoint(directory: Path, name: str, *entries: str) -> None:
    (directory / name).write_text("\n".join(["0", str(len(entries)), *entries, ""]))


def between(start: int, end: int) -> dict[str, Any]:
    return {"startingOffsets": {"orders": {"0": start}}, "endingOffsets": {"orders": {"0": end}}}


# --- hard: an index with entries
# ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [(".index", ".timeindex"), (".index",), (".timeindex",)])
def test_the_last_segment_is_missing(kept: tuple[str, ...], folder: Path) -> None:
    """Its index says which offsets it held: an error that names them, unless the bounds do without them."""
    for suffix in {".log", ".index", ".timeindex"} - set(kept):
        file(folder, 30, suffix).unlink()
    with pytest.raises(DataLossError) as caught:
        kafkaseg.plan(folder)
    assert str(caught.value) == (
        f"'{file(folder, 30, kept[0])}' is there without the .log of its segment: no file holds the offsets 30 to 39 of"
        " partition orders-0; give offsets that are there, or failOnDataLoss=false to read what is"
    )
    assert offsets(folder, endingOffsets={"orders": {"0": 30}}) == list(range(30))
    assert offsets(folder, failOnDataLoss=False) == list(range(30))
    (warning,) = warnings(folder, failOnDataLoss=False)
    assert warning.endswith("offsets 30 to 39 of partition orders-0: reading what is there (failOnDataLoss=false)")
    assert offsets([file(folder, base) for base in (0, 10, 20)]) == list(range(30))
    with pytest.raises(DataLossError, match="the offsets 30 to 39"):  # one of them may have this timestamp
        kafkaseg.plan(folder, startingTimestamp=5000)
    with pytest.raises(OptionError, match="no offset of partition orders-0 has a timestamp at or after"):
        kafkaseg.plan(folder, startingTimestamp=5000, failOnDataLoss=False)


def test_a_transaction_index_tells_offsets_too(folder: Path) -> None:
    """An abort has an offset of its own."""
    for suffix in (".log", ".index", ".timeindex"):
        file(folder, 30, suffix).unlink()
    file(folder, 30, ".txnindex").write_bytes(writer.transaction_index([(1, 31, 34, 31)]))
    with pytest.raises(DataLossError, match="no file holds the offsets 30 to 34 of"):
        kafkaseg.plan(folder)


def test_all_segments_are_missing(folder: Path) -> None:
    """Index files without a single `.log`: an error, named by the path itself or in a log directory among others."""
    shutil.copytree(folder, folder.parent / "orders-1")
    for base in (0, 10, 20, 30):
        file(folder, base).unlink()
    for path in (folder, folder.parent):
        with pytest.raises(
            DataLossError, match=r"index files of 3 more segments are there without their \.log: no file"
        ):
            kafkaseg.plan(path)
        assert "no file holds the offsets 0 to 39 of partition orders-0" in warnings(path, failOnDataLoss=False)[0]
    assert offsets(folder, failOnDataLoss=False) == []
    assert offsets(folder.parent, failOnDataLoss=False) == list(range(40))
    checkpoint(folder.parent, LOG_START, "orders 0 40")
    assert offsets(folder) == []


def test_a_segment_between_others_is_missing(folder: Path) -> None:
    """Planning says so too, where no segment before it is read to its end."""
    file(folder, 10).unlink()
    for options in ({}, between(10, 20), between(15, 40)):
        with pytest.raises(DataLossError, match=r"the \.log of its segment: no file holds the offsets 1[05] to 19"):
            kafkaseg.plan(folder, **options)
    assert offsets(folder, **between(20, 40)) == list(range(20, 40))


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("base", [0, 10])
def test_a_file_of_no_bytes_beside_an_index_with_entries(base: int, is_compacted: bool, folder: Path) -> None:
    """The entries were records once: compaction writes none without records."""
    file(folder, base).write_bytes(b"")
    if is_compacted:
        checkpoint(folder.parent, "cleaner-offset-checkpoint", "orders 0 30")
    with pytest.raises(DataLossError, match=f"no file holds the offsets {base} to {base + 9} of"):
        kafkaseg.plan(folder)
    assert offsets(folder, failOnDataLoss=False) == [n for n in range(40) if not base <= n < base + 10]
    assert len(warnings(folder, failOnDataLoss=False)) == 1
    problems = [f for p in kafkaseg.verify(folder).partitions for f in p.findings if f.problem]
    assert any(f"no file holds the offsets {base} to" in f.what or f.is_loss for f in problems)


@pytest.mark.parametrize("emptied", [0, 1])
def test_a_file_of_no_bytes_beside_damage_of_another_copy(emptied: int, tmp_path: Path) -> None:
    """Two compacted copies: what one has damaged, the emptied file of the other held. It is no compaction."""
    copies = [simple_log(*[segment(base) for base in (0, 10, 20)]).write(tmp_path / name) for name in ("a", "b")]
    for copy in copies:
        checkpoint(copy.parent, "cleaner-offset-checkpoint", "orders 0 20")
    damaged = file(copies[1 - emptied], 10)
    data = bytearray(damaged.read_bytes())
    data[2 * len(data) // 5 + 100] ^= 1  # offsets 16 and 17
    damaged.write_bytes(data)
    assert offsets(copies) == list(range(30))
    file(copies[emptied], 10).write_bytes(b"")
    (said,) = [warning for warning in warnings(copies) if "no bytes" in warning]
    assert said == (
        f"'{file(copies[emptied], 10, '.index')}' has entries, but the .log beside has no bytes: this copy lacks the"
        " offsets 10 to 19 of partition orders-0; harmless where the other copy, which is read instead, holds them"
    )
    with pytest.raises(DataError, match="no copy holds the offsets 16 to 17 whole"):
        offsets(copies)
    assert offsets(copies, mode="DROPMALFORMED") == [n for n in range(30) if n not in (16, 17)]
    problems = [f for p in kafkaseg.verify(copies, deep=True).partitions for f in p.findings if f.problem]
    assert problems
    for suffix in (".index", ".timeindex"):  # as the cleaner leaves a segment without records
        file(copies[emptied], 10, suffix).write_bytes(b"")
    assert offsets(copies) == [n for n in range(30) if n not in (16, 17)]


def test_a_file_of_no_bytes_at_a_seam(tmp_path: Path) -> None:
    """One compacted copy ends inside the emptied file of another. It is not the last one there, so a broker that runs
    did not leave it."""
    longer = simple_log(*[segment(base) for base in (0, 10, 20)]).write(tmp_path / "a")
    shorter = simple_log(segment(0), simple_segment([batch(10, 100, 110)], base=10)).write(tmp_path / "b")
    checkpoint(longer.parent, "cleaner-offset-checkpoint", "orders 0 20")
    file(longer, 10).write_bytes(b"")
    with pytest.raises(DataLossError, match="no file holds the offsets 12 to 19 of"):
        kafkaseg.plan([longer, shorter])
    assert offsets([longer, shorter], failOnDataLoss=False) == [*range(12), *range(20, 30)]


@pytest.mark.parametrize("base", [0, 10])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_file_of_no_bytes_right_before_a_starting_timestamp(base: int, is_compacted: bool, folder: Path) -> None:
    """Nobody knows whether one of its rows is the first with that time."""
    if is_compacted:
        checkpoint(folder.parent, "cleaner-offset-checkpoint", "orders 0 20")
    file(folder, base).write_bytes(b"")
    with pytest.raises(DataLossError, match=f"(no file holds the )?offsets {base} to {base + 9}"):
        offsets(folder, startingTimestamp=10 * base + 50)
    found = offsets(folder, startingTimestamp=10 * base + 50, failOnDataLoss=False)
    assert found == list(range(base + 10, 40))
    assert offsets(folder, startingTimestamp=10 * base + 110) == list(range(base + 11, 40))


def test_a_last_file_of_no_bytes_beside_an_index_with_entries(folder: Path) -> None:
    """A copy of a running broker may have it, and a disk that lost its power: a warning, as of a checkpoint."""
    file(folder, 30).write_bytes(b"")
    (warning,) = warnings(folder)
    assert warning == (
        f"'{file(folder, 30, '.index')}' has entries, but the .log beside has no bytes: no file holds the offsets 30 to 39"
        " of partition orders-0; harmless in a copy that was taken while the broker ran, or of a machine that lost its"
        " power"
    )
    assert offsets(folder) == list(range(30))
    assert warnings(folder, **between(0, 30)) == ()


def test_a_new_segment_has_no_entry(folder: Path) -> None:
    """A broker allocates its index files ahead, and creates an empty `.log`."""
    file(folder, 40).write_bytes(b"")
    file(folder, 40, ".index").write_bytes(bytes(10_485_760))
    file(folder, 40, ".timeindex").write_bytes(bytes(10_485_756))
    assert warnings(folder) == ()
    assert offsets(folder) == list(range(40))


# --- soft
# --------------------------------------------------------------------------------------------------------------


def test_the_first_segment_is_missing(folder: Path) -> None:
    """Retention takes first segments, also while a directory is copied: a warning, and none where nobody asks."""
    file(folder, 0).unlink()
    (warning,) = warnings(folder)
    assert warning == (
        f"'{file(folder, 0, '.index')}' is there without the .log of its segment: no file holds the offsets 0 to 9 of"
        " partition orders-0; harmless where retention has deleted them"
    )
    assert offsets(folder) == list(range(10, 40))
    assert warnings(folder, **between(10, 40)) == ()
    assert warnings(folder, startingTimestamp=50) == (warning,)  # one of them may have this timestamp
    checkpoint(folder.parent, LOG_START, "orders 0 10")
    assert warnings(folder) == () and warnings(folder, startingTimestamp=50) == ()


def test_a_segment_of_a_compacted_log(folder: Path) -> None:
    """Its records may be in the segment before, or gone by rule; if that segment reaches so far, nothing is said."""
    checkpoint(folder.parent, "cleaner-offset-checkpoint", "orders 0 30")
    file(folder, 10).unlink()
    (warning,) = warnings(folder)
    assert warning.endswith(
        "offsets 10 to 19 of partition orders-0; harmless where compaction has moved or removed them"
    )
    file(folder, 0).write_bytes(simple_segment([batch(3, 30), batch(19, 190)], base=0).log)
    assert warnings(folder) == ()


def test_an_index_without_entries(folder: Path) -> None:
    """Its segment may have been empty: a warning after the end, nothing before."""
    for base in (0, 30):
        file(folder, base).unlink()
        for suffix in (".index", ".timeindex"):
            file(folder, base, suffix).write_bytes(bytes(1000))
    (warning,) = warnings(folder)
    assert "no file holds the offsets 30 to 30" in warning and warning.endswith("harmless where that segment was empty")


@pytest.mark.parametrize(
    ("name", "what"), [(HIGH_WATERMARK, "the high watermark is"), (RECOVERY_POINT, "the recovery point is")]
)
def test_a_checkpoint_beyond_the_end(name: str, what: str, folder: Path) -> None:
    """The log once reached further: a warning says how far, and how that can be harmless."""
    checkpoint(folder.parent, name, "orders 0 40")
    assert warnings(folder) == ()
    checkpoint(folder.parent, name, "orders 0 17081")
    for last in (b"", bytes(90), segment(40).log[:70]):  # as right after a roll, or without a whole batch
        file(folder, 40).write_bytes(last)
        for level in ("read_uncommitted", "read_committed"):
            assert any(warning.startswith(f"{what} 17081") for warning in warnings(folder, isolationLevel=level))
    file(folder, 40).unlink()
    assert warnings(folder) == (
        f"{what} 17081 by '{folder.parent / name}': no file holds the offsets 40 to 17080 of partition orders-0; harmless"
        " in a copy that was taken while the broker ran, or of a machine that lost its power",
    )
    assert offsets(folder) == list(range(40))
    assert warnings(folder, **between(0, 40)) == ()
    for base in (0, 10, 20, 30):
        for suffix in (".log", ".index", ".timeindex"):
            file(folder, base, suffix).unlink()
    file(folder, 17000, ".snapshot").write_bytes(b"")
    assert "no file holds the offsets 0 to 17080" in warnings(folder)[0]


def test_a_leader_epoch_beyond_the_end(folder: Path) -> None:
    """A broker notes a leader epoch at the end of its log. So the log once reached that offset."""
    checkpoint(folder, LEADER_EPOCHS, "1 0", "4 40")
    assert warnings(folder) == ()
    checkpoint(folder, LEADER_EPOCHS, "1 0", "4 40", "6 47")
    said = (
        f"leader epoch 6 began at 47 by '{folder / LEADER_EPOCHS}': no file holds the offsets 40 to 46 of partition"
        " orders-0; harmless in a copy that was taken while the broker ran, or of a machine that lost its power"
    )
    assert warnings(folder) == (said,)
    assert offsets(folder) == list(range(40))
    assert warnings(folder, **between(0, 40)) == ()
    verified = run("verify", str(folder))
    assert verified.exit_code == 0 and "leader epoch 6 began at 47" in " ".join(verified.output.split())
    assert "40 to 46" in " ".join(run("ls", str(folder)).output.split())
    plan = kafkaseg.plan([folder], since=10_000)
    assert plan.warnings == (said,) and len(plan.dropped) == 4  # what is missing may have these times
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 45")
    assert warnings(folder) == (said,)  # the later one of the two
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 50")
    assert "no file holds the offsets 40 to 49" in warnings(folder)[0]


@pytest.mark.parametrize("copies", [1, 2])
def test_an_older_line_that_the_last_batch_refutes(copies: int, tmp_path: Path) -> None:
    """The broker has removed the line since, as the batches of that leader were truncated."""
    files = [{10: "[10-13 e0] [14-15 e8]"}] * copies
    paths = write_copies(tmp_path, *files, epochs=["0 0, 7 18"] * copies)
    assert not [warning for warning in kafkaseg.plan(paths).warnings if "no file holds" in warning]


@pytest.mark.parametrize("lines", [(), ("0 0",), ("0 0", "6 47")])
@pytest.mark.parametrize("kept", [2, 4])
def test_a_leader_epoch_beyond_the_end_of_all_copies(kept: int, lines: tuple[str, ...], folder: Path) -> None:
    """Whatever another copy has, as long as the line of neither is contradicted."""
    checkpoint(folder, LEADER_EPOCHS, "0 0", "6 47")
    other = folder.parent.parent / "other" / folder.name
    shutil.copytree(folder, other)
    (other / LEADER_EPOCHS).unlink()
    if lines:
        checkpoint(other, LEADER_EPOCHS, *lines)
    for base in range(10 * kept, 40, 10):
        for suffix in (".log", ".index", ".timeindex"):
            file(other, base, suffix).unlink()
    for paths in ([folder, other], [other, folder]):
        said = [warning for warning in kafkaseg.plan(paths).warnings if "no file holds" in warning]
        assert len(said) == 1 and "no file holds the offsets 40 to 46 of partition orders-0" in said[0]


def test_a_snapshot_beyond_the_end(folder: Path) -> None:
    """A clean stop writes one exactly at the end, and a roll at each base; one beyond says that the log
    went further."""
    for offset in (0, 1, 10, 20, 30, 35, 40):
        file(folder, offset, ".snapshot").write_bytes(b"")
    assert warnings(folder) == ()
    file(folder, 50, ".snapshot").write_bytes(b"")
    (warning,) = warnings(folder)
    assert warning.startswith(
        f"the log has reached 50 by '{file(folder, 50, '.snapshot')}': no file holds the offsets 40 "
    )


def test_an_empty_last_segment(folder: Path) -> None:
    """The end of the files is its base then."""
    file(folder, 40).write_bytes(b"")
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 40")
    assert warnings(folder) == ()
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 45")
    assert "no file holds the offsets 40 to 44" in warnings(folder)[0]


def test_a_log_start_below_the_first_segment(folder: Path) -> None:
    """Retention moves the log start; its checkpoint follows within a minute, as long as the files lie
    about as .deleted."""
    for suffix in (".log", ".index", ".timeindex"):
        file(folder, 0, suffix).unlink()
    checkpoint(folder.parent, LOG_START, "orders 0 4")
    (warning,) = warnings(folder)
    assert "the log start is 4 by " in warning and "no file holds the offsets 4 to 9" in warning
    assert warnings(folder, **between(10, 40)) == ()
    file(folder, 0, ".log.deleted").write_bytes(b"")
    assert warnings(folder) == ()


def test_partitions_without_a_directory(folder: Path) -> None:
    """Those that a log directory's high watermarks list; not those that were never written, are internal,
    or not asked for."""
    entries = (
        "orders 0 40",
        "orders 1 5",
        "orders 2 0",
        "clicks 0 9",
        "__consumer_offsets 0 7",
        "gone 0 3",
        "trimmed 0 8",
    )
    checkpoint(folder.parent, HIGH_WATERMARK, *entries)
    checkpoint(folder.parent, LOG_START, "trimmed 0 8")
    (folder.parent / f"gone-0.{'ab' * 16}-delete").mkdir()
    path = folder.parent / HIGH_WATERMARK
    assert warnings(folder.parent) == (
        f"'{path}' lists 2 partitions without a directory: clicks-0, orders-1; harmless where they were left out on purpose",
    )
    assert "lists 1 partition without a directory: orders-1;" in warnings(folder.parent, subscribe="orders")[0]
    for quiet in (folder, folder.parent / "orders-*"):
        assert warnings(quiet) == ()
    assert warnings(folder.parent, assign={"orders": [0]}) == ()
    checkpoint(folder.parent, HIGH_WATERMARK, *[f"more {number} 1" for number in range(100)])
    assert "more-0, more-1, more-2, more-3, more-4 and 95 more" in warnings(folder.parent)[0]


def test_many_partitions_are_said_together(folder: Path) -> None:
    """A copy of a running broker with a thousand partitions gives one sentence of each kind, not a thousand."""
    for number in range(1, 20):
        shutil.copytree(folder, folder.parent / f"orders-{number}")
    checkpoint(folder.parent, HIGH_WATERMARK, *[f"orders {number} 45" for number in range(20)])
    checkpoint(folder.parent, LOG_START, *[f"orders {number} 4" for number in range(20)])
    said = warnings(folder.parent)
    assert len(said) == 1 and said[0].endswith("(and 19 more like it)")
    found = kafkaseg.offsets_for_time(folder.parent, 0)
    assert [*found.warnings] == [*said]


# --- explained
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
@pytest.mark.parametrize("base", [0, 30])
def test_what_stands_for_a_log(base: int, suffix: str, folder: Path) -> None:
    """A broker renames the `.log` first: its index files are on their way."""
    file(folder, base).rename(file(folder, base, f".log{suffix}"))
    assert [each for each in warnings(folder) if "no file holds" in each] == []


def test_index_files_below_the_end(folder: Path) -> None:
    """Left over from before a truncation, and the log has grown past them: nothing is missing."""
    file(folder, 33, ".index").write_bytes(file(folder, 30, ".index").read_bytes())
    assert warnings(folder) == ()


def test_directories_that_are_being_removed(folder: Path) -> None:
    """A broker removes their files one by one, the `.log` first."""
    dead = folder.rename(folder.parent / f"orders-0.{'ab' * 16}-delete")
    file(dead, 30).unlink()
    assert offsets(dead, topic="orders", partition=0) == list(range(30))


class Changing(store.LocalStorage):
    """Calls `change` once, when a directory was listed for the `at`-th time."""

    def __init__(self, directory: Path, at: int, change: Callable[[], object]) -> None:
        self.directory, self.left, self.change = str(directory), at, change

    def list(self, directory: str) -> Any:
        found = super().list(directory)
        if directory == self.directory:
            self.left -= 1
            if self.left == 0:
                self.change()
        return found


@pytest.mark.parametrize("at", [1, 2])
def test_a_deletion_under_way(at: int, folder: Path) -> None:
    """A broker that has renamed the `.log` renames its index files next: two listings tell that from a loss."""
    file(folder, 30).unlink()

    def go_on() -> None:
        for suffix in (".index", ".timeindex"):
            file(folder, 30, suffix).rename(file(folder, 30, f"{suffix}.deleted"))

    storage = Changing(folder, at, go_on)
    assert plan_in(storage, folder).to_reader(["offset"]).read_all()["offset"].to_pylist() == list(range(30))
    assert retrying.SECOND_LOOK >= 0.05


def test_a_directory_that_is_made_again(folder: Path) -> None:
    """Listed between the last of the old files and the first of the new ones, it is listed again."""
    data = file(folder, 30).read_bytes()
    for base in (0, 10, 20, 30):
        file(folder, base).unlink()
    storage = Changing(folder, 1, lambda: file(folder, 30).write_bytes(data))
    plan = plan_in(storage, folder, startingOffsets={"orders": {"0": 30}})
    assert plan.to_reader(["offset"]).read_all()["offset"].to_pylist() == list(range(30, 40))


@pytest.mark.parametrize("rolls", [False, True])
def test_a_log_that_grows(rolls: bool, folder: Path) -> None:
    """A high watermark that is newer than the listing is of what was appended since."""
    more = segment(40).log

    def append() -> None:
        if rolls:
            file(folder, 40).write_bytes(more)
        else:
            with file(folder, 30).open("ab") as out:
                out.write(more)
        checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 50")

    assert plan_in(Changing(folder, 2, append), folder).warnings == ()


@pytest.mark.parametrize("rolls", [False, True])
def test_a_log_that_grows_in_a_new_leader_epoch(rolls: bool, folder: Path) -> None:
    """So is a leader epoch that began behind what the listing shows."""
    checkpoint(folder, LEADER_EPOCHS, "1 0", "6 41")
    more = segment(40).log

    def append() -> None:
        with file(folder, 40 if rolls else 30).open("ab") as out:
            out.write(more)

    assert "began at 41" in warnings(folder)[0]
    assert plan_in(Changing(folder, 1, append), folder).warnings == ()


def test_a_replica_that_has_it(folder: Path) -> None:
    """What one directory lacks and another holds is not missing; what both lack is."""
    other = folder.parent.parent / "other" / "orders-0"
    shutil.copytree(folder, other)
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 40")
    file(folder, 30).unlink()
    both = [folder.parent, other.parent]
    assert offsets(both) == list(range(40))
    assert [each for each in warnings(both) if "no file holds" in each] == []
    file(other, 30).unlink()
    with pytest.raises(DataLossError, match="no file holds the offsets 30 to 39"):
        kafkaseg.plan(both)


@pytest.mark.parametrize("compacted", [True, False])
@pytest.mark.parametrize("turn", [1, -1])
def test_a_seam_that_no_copy_reaches(turn: int, compacted: bool, folder: Path) -> None:
    """A follower ends inside the segment whose `.log` the other directory has lost."""
    other = simple_log(simple_segment([batch(0, 0, 10), batch(2, 20, 30)])).write(folder.parent.parent / "other")
    if compacted:
        for directory in (folder.parent, other.parent):
            checkpoint(directory, "cleaner-offset-checkpoint", "orders 0 30")
    file(folder, 0).unlink()
    both = [folder.parent, other.parent][::turn]
    if compacted:
        assert offsets(both) == [*range(4), *range(10, 40)]
        (said,) = [each for each in warnings(both) if "no file holds" in each]
        assert "offsets 4 to 9 of partition orders-0; harmless where compaction" in said
    else:
        with pytest.raises(DataLossError, match="no file holds the offsets 4 to 9"):
            offsets(both)
    file(other, 0).write_bytes(simple_segment([batch(0, 0, 10), batch(9, 90)]).log)
    assert [each for each in warnings(both) if "no file holds" in each] == []


# --- no false alarm
# ----------------------------------------------------------------------------------------------------

REAL = sorted({path.parent for path in [*FIXTURES.glob("*/*/*-checkpoint"), *ORDERS.glob("*/*-checkpoint")]})


@pytest.mark.parametrize("path", REAL, ids=lambda path: "-".join(path.parts[-2:]))
def test_no_fixture_gives_evidence(path: Path) -> None:
    """What real brokers left behind, at rest, compacted, trimmed, copied while they ran: not one word."""
    options, _ = parse_options({"path": str(path)})
    said: list[str] = []
    logs = examined_logs(options.source, options.policy, said)
    assert said == [] and [log.evidence for log in logs if log.evidence] == []
    assert kafkaseg.plan(path).warnings == ()
    listed = answer("ls", path, "--json")["partitions"]
    assert [each["missing"] for each in listed if each["missing"]] == []
    copies = shown_logs(options.source)
    assert any(
        log.reach is not None
        for log in notice([PartitionLog.of(each) for each in copies], copies, Checkpoints([], LOCAL), 0.0)
    )
    assert len(REAL) >= 9


def test_no_hard_evidence_beside_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two operations of planning a broker takes a step: appends, rolls, retention,
    compaction, truncation."""
    found: list[str] = []
    check = selection.check_missing

    def checked(log: Any, evidence: Any, *more: Any) -> Any:
        found.extend(each.why for each in evidence if each.is_hard)
        return check(log, evidence, *more)

    monkeypatch.setattr(selection, "check_missing", checked)
    assert {simulated_reads.tried(seed).word for seed in range(7_000_000, 7_000_200)} >= {"rows"}
    assert found == []


# --- commands
# ----------------------------------------------------------------------------------------------------------


def test_commands_say_hard_evidence(folder: Path) -> None:
    """`plan` ends with it, `verify` counts it as a problem, `ls` notes it, `offsets` says it; the exit code is 1."""
    file(folder, 30).unlink()
    held = "no file holds the offsets 30 to 39 of"
    planned = run("plan", folder)
    assert planned.exit_code == 1 and held in planned.stderr
    verified = run("verify", folder, columns=300)
    assert verified.exit_code == 1 and held in verified.stdout and "1 problem" in verified.stdout
    assert json.loads(run("verify", folder, "--json").stdout)["problems"][0]["offset"] == 30
    listed = run("ls", folder, columns=300)
    assert listed.exit_code == 1 and held in listed.stdout
    assert answer_of("ls", folder)["partitions"][0]["missing"][0]["endOffset"] == 40
    asked = run("offsets", folder, "--time", "latest")
    assert asked.exit_code == 0 and held in asked.stderr


def answer_of(command: str, path: Path) -> Any:
    return json.loads(run(command, path, "--json").stdout)


def test_commands_say_soft_evidence(folder: Path) -> None:
    """A note, a warning, and no other exit code."""
    checkpoint(folder.parent, HIGH_WATERMARK, "orders 0 45", "orders 1 7")
    held, lost = "no file holds the offsets 40 to 44 of", "lists 1 partition without a directory: orders-1"
    for command in (["plan"], ["verify"], ["ls"], ["offsets", "--time", "latest"]):
        done = run(command[0], folder.parent, *command[1:], columns=300)
        assert done.exit_code == 0
        assert held in done.stdout + done.stderr and lost in done.stdout + done.stderr


def test_nothing_at_all(tmp_path: Path) -> None:
    """A directory without segments and without traces of any is an error of the path, as ever."""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(PathError, match="holds no log segments"):
        kafkaseg.plan(tmp_path / "orders-0")
    assert LOG_DIRECTORIES
