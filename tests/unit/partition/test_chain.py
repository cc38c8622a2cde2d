"""replicas: one partition in several directories gives every offset once, and the plan says where from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import CorruptRecordError, DataLossError, PathError
from kafka_segment_source.partition.choice import choose
from tests.support.batches import data as batch
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES, TOPIC, expected, keep, offsets, scanned

FOLLOWER = FIXTURES / "follower"
BROKERS = [FOLLOWER / "broker-1", FOLLOWER / "broker-2"]
TOPICS = ["copied", "copied-lz4", "copied-sets"]
ID = "version: 0\ntopic_id: {:A<22}"


def copy(directory: Path, *ranges: tuple[int, int]) -> Path:
    """orders-0 in a directory of its own: a segment for each range of offsets, in batches of five."""
    segments = [
        simple_segment(
            [batch(at, *[10 * n for n in range(at, min(at + 5, end))]) for at in range(base, end, 5)], base=base
        )
        for base, end in ranges
    ]
    return simple_log(*segments).write(directory).parent


def dropped(plan: Any) -> dict[str, str]:
    """Why segments are not read, by copy and base offset."""
    paths = {each.path: each.reason for each in plan.dropped}
    return {f"{Path(path).parts[-3]}/{int(Path(path).stem)}": reason for path, reason in paths.items()}


# --- the choice ------------------------------------------------------------------------------------------------------

CHOICES = {
    "nothing": ([], []),
    "one": ([(3, 9)], [(0, 3, 9)]),
    "the same twice: the first": ([(0, 9), (0, 9)], [(0, 0, 9)]),
    "one inside the other": ([(2, 5), (0, 9)], [(1, 0, 9)]),
    "one goes on": ([(5, 12), (0, 8)], [(1, 0, 8), (0, 8, 12)]),
    "one after the other": ([(0, 5), (5, 9)], [(0, 0, 5), (1, 5, 9)]),
    "furthest first": ([(0, 3), (0, 6), (2, 9), (5, 10)], [(1, 0, 6), (3, 6, 10)]),
    "a hole": ([(7, 9), (0, 3), (1, 5)], [(1, 0, 3), (2, 3, 5), (0, 7, 9)]),
    "empty ones": ([(4, 4), (0, 0), (9, 7), (5, 6)], [(3, 5, 6)]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choose(name: str) -> None:
    """From the lowest offset on, each time the one that reaches furthest, up to its end."""
    spans, wanted = CHOICES[name]
    assert [(at, part.start, part.end) for at, part in choose([OffsetRange(*span) for span in spans])] == wanted


# --- real replicas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paths", [BROKERS, BROKERS[::-1], FOLLOWER / "broker-*", [*BROKERS, *BROKERS]])
def test_a_leader_and_its_follower(paths: Any) -> None:
    """Two brokers' directories together give what a consumer saw, each row once, whichever comes first."""
    assert scanned(paths) == expected(BROKERS[0])


def test_the_plan_of_replicas() -> None:
    """The plan names the directory that is read; the other's segments are dropped with that reason."""
    plan = kafkaseg.plan(BROKERS)
    first, second = (str(broker / "copied-0") for broker in BROKERS)
    assert plan.warnings[0] == f"partition copied-0 is found in 2 directories: all its offsets are read from '{first}'"
    assert len(plan.warnings) == len(TOPICS)
    reasons = {each.path: each.reason for each in plan.dropped if each.path.startswith(second + "/")}
    assert set(reasons.values()) == {f"the same offsets are read from '{first}'"} and len(reasons) == 3
    assert plan.segments_total == 26 and plan.segments_kept == 13
    assert plan.bytes_total == sum(path.stat().st_size for broker in BROKERS for path in broker.glob("copied*/*.log"))
    assert kafkaseg.plan(BROKERS[0]).warnings == ()


@pytest.mark.parametrize("start", [0, 1, 104, 105, 350, 699])
def test_bounds_over_replicas(start: int) -> None:
    """Bounds by offset and by timestamp are those of the partition, not of a directory."""
    rows = keep(expected(BROKERS[0]), lambda row: row[TOPIC] == "copied")
    chosen: dict[str, Any] = {"subscribe": "copied", "startingOffsets": {"copied": {"0": start}}}
    assert scanned(BROKERS, **chosen, endingOffsets={"copied": {"0": 700}}) == rows[start:]
    moment = rows[start][3]
    since = keep(rows, lambda row: row[3] >= moment)
    assert scanned(BROKERS, subscribe="copied", since=moment) == since
    assert scanned(BROKERS, subscribe="copied", startingTimestamp=moment)[0] == since[0]


def test_copies_cut_in_the_middle(tmp_path: Path) -> None:
    """The first segments from one broker's backup and the last ones from the other's: together the whole partition."""
    names = sorted(path.name for path in (BROKERS[0] / "copied-lz4-0").glob("*.log"))
    for side, broker, kept in (("a", BROKERS[0], names[:4]), ("b", BROKERS[1], names[3:])):
        shutil.copytree(broker / "copied-lz4-0", tmp_path / side / "copied-lz4-0")
        for path in (tmp_path / side / "copied-lz4-0").glob("0*"):
            if path.with_suffix(".log").name not in kept:
                path.unlink()
    rows = keep(expected(BROKERS[0]), lambda row: row[TOPIC] == "copied-lz4")
    for paths in ([tmp_path / "a", tmp_path / "b"], [tmp_path / "b", tmp_path / "a"]):
        assert scanned(paths) == rows
        (warning,) = kafkaseg.plan(paths).warnings
        assert warning == (
            f"partition copied-lz4-0 is found in 2 directories: offsets 0 to 423 from '{tmp_path}/a/copied-lz4-0',"
            f" those from 424 on from '{tmp_path}/b/copied-lz4-0'"
        )


# --- overlaps --------------------------------------------------------------------------------------------------------


@pytest.fixture
def overlapping(tmp_path: Path) -> list[Path]:
    """a: offsets 0 to 19 in segments 0, 10; b: 5 to 34 in 5, 15, 25; c: 10 to 14, which adds nothing."""
    a = copy(tmp_path / "a", (0, 10), (10, 20))
    b = copy(tmp_path / "b", (5, 15), (15, 25), (25, 35))
    return [a, b, copy(tmp_path / "c", (10, 15))]


@pytest.mark.parametrize("options", [{}, {"trustIndexes": False}, {"minPartitions": 9}, {"maxRecordsPerPartition": 3}])
def test_segments_that_overlap(options: dict[str, Any], overlapping: list[Path]) -> None:
    """Segments of different copies need not begin alike: a seam inside one loses and doubles nothing."""
    assert offsets(overlapping, **options) == offsets(overlapping[::-1], **options) == list(range(35))


def test_the_plan_of_overlapping_copies(overlapping: list[Path]) -> None:
    """Each directory is read for one range; segments wholly outside it are dropped, with the directory
    that has them."""
    plan = kafkaseg.plan(overlapping)
    a, b, _ = (f"{path}/orders-0" for path in overlapping)
    (warning,) = plan.warnings
    assert warning == (
        f"partition orders-0 is found in 3 directories: offsets 0 to 19 from '{a}', those from 20 on from '{b}'"
    )
    assert dropped(plan) == {
        "b/5": f"the same offsets are read from '{a}'",
        "c/10": f"the same offsets are read from '{a}'",
    }
    assert [(split.start_offset, split.end_offset) for split in plan.splits] == [
        (0, 10),
        (10, 20),
        (20, 25),
        (25, None),
    ]


def test_a_witness_beyond_the_seam(tmp_path: Path) -> None:
    """A batch that ends the scan early counts only among the offsets that its directory is read for."""
    early = [batch(at, 10 * at) for at in range(10)]
    a = simple_log(simple_segment([*early, batch(10, 10**6)], index=[(10, 10)], timeindex=[(10**6, 10)], base=0))
    a.write(tmp_path / "a")
    b = simple_log(simple_segment([batch(at, 10 * at) for at in range(5, 30)], base=5))
    b.write(tmp_path / "b")
    paths = [tmp_path / "a", tmp_path / "b"]
    checkpoint = "0\n1\norders 0 8\n"
    (tmp_path / "a" / "replication-offset-checkpoint").write_text(checkpoint)
    (tmp_path / "b" / "replication-offset-checkpoint").write_text(checkpoint.replace(" 8", " 25"))
    options: dict[str, Any] = {"since": 0, "until": 1000, "timestampDisorder": 0, "endAt": "highWatermark"}
    assert offsets(paths, **options) == list(range(25))
    assert offsets(paths, startingTimestamp=120, endAt="highWatermark") == list(range(12, 25))


def test_checkpoints_hold_for_their_own_directory(overlapping: list[Path]) -> None:
    """A log start or high watermark beside one directory says nothing about another."""
    a, b, _ = overlapping
    (a / "log-start-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    assert offsets([a, b]) == [*range(5, 35)]
    (b / "log-start-offset-checkpoint").write_text("0\n1\norders 0 12\n")
    assert offsets([a, b]) == [*range(7, 35)]
    (a / "replication-offset-checkpoint").write_text("0\n1\norders 0 14\n")
    (b / "replication-offset-checkpoint").write_text("0\n1\norders 0 31\n")
    assert offsets([a, b], endAt="highWatermark") == [*range(7, 31)]


def test_an_earliest_offset_of_the_partition(overlapping: list[Path]) -> None:
    """Offsets given by number are looked for in all directories together."""
    assert offsets(overlapping, startingOffsets={"orders": {"0": 30}}) == list(range(30, 35))
    assert offsets(overlapping, startingOffsets={"orders": {"0": 0}}, endingOffsets={"orders": {"0": 35}}) == [
        *range(35)
    ]
    with pytest.raises(DataLossError, match="asks for offsets up to 36, but the files end at 35"):
        kafkaseg.plan(overlapping, endingOffsets={"orders": {"0": 36}})
    with pytest.raises(DataLossError, match="asks for offset 0, but the files begin at 5"):
        kafkaseg.plan(overlapping[1:], startingOffsets={"orders": {"0": 0}})


# --- what may be wrong with them -------------------------------------------------------------------------------------


def test_different_topics_of_one_name(overlapping: list[Path]) -> None:
    """A topic that was deleted and made again is another: two ids are an error that names both directories."""
    a, b, c = (path / "orders-0" for path in overlapping)
    (a / "partition.metadata").write_text(ID.format("x"))
    assert offsets(overlapping) == list(range(35))
    (c / "partition.metadata").write_text(ID.format("x"))
    assert offsets(overlapping) == list(range(35))
    (c / "partition.metadata").write_text(ID.format("y"))
    with pytest.raises(PathError) as caught:
        kafkaseg.plan(overlapping)
    assert str(caught.value) == (
        f"'{a}' and '{c}' are different topics of one name: their topic ids are {'x':A<22} and {'y':A<22};"
        " give one of the directories"
    )
    assert b.exists() and offsets(overlapping[:2]) == list(range(35))


def test_a_hole_between_directories(tmp_path: Path) -> None:
    """Offsets that no directory goes on with are a loss, if they are asked for; a compacted partition may have gaps."""
    a, b = copy(tmp_path / "a", (0, 10)), copy(tmp_path / "b", (20, 30))
    with pytest.raises(DataLossError) as caught:
        kafkaseg.plan([a, b])
    assert str(caught.value).startswith(
        f"'{a}/orders-0' ends before, '{b}/orders-0' begins after: no file holds the offsets 10 to 19 of partition orders-0"
    )
    assert offsets([a, b], failOnDataLoss=False) == [*range(10), *range(20, 30)]
    assert offsets([a, b], startingOffsets={"orders": {"0": 20}}) == list(range(20, 30))
    (b / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    assert offsets([a, b]) == [*range(10), *range(20, 30)]


def test_an_empty_file_that_another_copy_has(tmp_path: Path) -> None:
    """Where one copy has an empty file, the other is read for its offsets."""
    a, b = copy(tmp_path / "a", (0, 10), (10, 20), (20, 30)), copy(tmp_path / "b", (0, 10), (10, 20))
    (a / "orders-0" / f"{10:020d}.log").write_bytes(b"")
    for paths in ([a, b], [b, a]):
        assert offsets(paths) == list(range(30))
    assert dropped(kafkaseg.plan([a, b]))["a/10"] == "empty file"


def test_directories_without_records(tmp_path: Path) -> None:
    """Empty copies add nothing, and two of them give no rows."""
    full, empty = copy(tmp_path / "a", (0, 10)), tmp_path / "b"
    (empty / "orders-0").mkdir(parents=True)
    none = tmp_path / "c"
    (none / "orders-0").mkdir(parents=True)
    (none / "orders-0" / f"{10:020d}.log").write_bytes(b"")
    for paths in ([full, empty, none], [none, empty, full]):
        assert offsets(paths) == list(range(10))
    assert offsets([none, empty]) == [] == offsets([empty, none])
    assert dropped(kafkaseg.plan([full, none])) == {"c/10": "empty file"}


def test_a_copy_with_a_torn_end(tmp_path: Path) -> None:
    """A copy that ends inside a batch gives its whole batches; the other one the rest, and the plan says why."""
    a, b = copy(tmp_path / "a", (0, 10), (10, 20)), copy(tmp_path / "b", (5, 15), (15, 30))
    last = a / "orders-0" / f"{10:020d}.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert offsets([a, b]) == list(range(30))
    chosen, torn = kafkaseg.plan([a, b]).warnings
    assert f"offsets 0 to 14 from '{a}/orders-0'" in chosen
    assert torn == (
        f"'{last}' ends in bytes after offset 14 that are no whole batch, torn or damaged; other directories are"
        " read for the offsets that follow"
    )
    last.write_bytes(
        simple_segment([batch(10, 100, 110, 120, 130, 140)], base=10).log + bytes(5000)
    )  # preallocated: no word
    assert offsets([a, b]) == list(range(30)) and kafkaseg.plan([a, b]).warnings == (chosen,)


def test_damage_is_not_hidden_by_the_choice(tmp_path: Path) -> None:
    """The directory that reaches furthest is read to its end: a damaged batch there is an error, not fewer rows."""
    a, b = copy(tmp_path / "a", (0, 10), (10, 30)), copy(tmp_path / "b", (0, 10))
    last = a / "orders-0" / f"{10:020d}.log"
    content = bytearray(last.read_bytes())
    content[len(content) // 2 + 80] ^= 1
    last.write_bytes(content)
    with pytest.raises(CorruptRecordError):
        offsets([a, b])
    assert offsets([a, b], mode="DROPMALFORMED") == [*range(20), *range(25, 30)]


def test_garbage_alone_is_not_hidden_either(tmp_path: Path) -> None:
    """A directory of which nothing can be believed is read, and fails, unless another has what it should hold."""
    a, b = copy(tmp_path / "a", (0, 10)), copy(tmp_path / "b", (10, 20))
    log = b / "orders-0" / f"{10:020d}.log"
    log.write_bytes(b"\xa5" * 500)
    with pytest.raises(CorruptRecordError):
        offsets([a, b])
    whole = copy(tmp_path / "c", (0, 30))
    assert offsets([a, b, whole]) == list(range(30))


def test_single_files_of_several_directories(tmp_path: Path) -> None:
    """Files picked from several copies make one log, each file once."""
    ranges = ((0, 10), (10, 20), (20, 30))
    a, b = copy(tmp_path / "a", *ranges) / "orders-0", copy(tmp_path / "b", *ranges) / "orders-0"
    picked = [a / f"{0:020d}.log", b / f"{10:020d}.log", a / f"{20:020d}.log"]
    assert offsets(picked) == offsets(picked[::-1]) == list(range(30))
    assert offsets([*picked, b / f"{0:020d}.log"]) == list(range(30))
    with pytest.raises(DataLossError, match="no file holds the offsets 10 to 19"):
        offsets([picked[0], b / f"{20:020d}.log"])


def test_an_interrupted_compaction_in_one_copy(tmp_path: Path) -> None:
    """A .swap is settled in its own directory before directories are compared."""
    a, b = copy(tmp_path / "a", (0, 10), (10, 20)), copy(tmp_path / "b", (10, 20), (20, 30))
    (a / "orders-0" / f"{0:020d}.log.swap").write_bytes(simple_segment([batch(4, 40), batch(9, 90)], base=0).log)
    assert offsets([a, b]) == [4, 9, *range(10, 30)]
