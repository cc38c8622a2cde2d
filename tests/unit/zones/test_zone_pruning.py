"""zone_pruning: what zones leave out, what has to be proven first, and what a plan says about maps that
cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.planning import planner
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import zone_table
from tests.support.batches import BatchSpec, control, data
from tests.support.logs import Segment, simple_log, simple_segment
from tests.support.maps import make_maps, map_path, table_of

TOPIC_ID = "A" * 22


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory to be, with one partition."""
    return tmp_path / "logs"


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    return tmp_path / "maps"


def write(logs: Path, *segments: Segment, topic_id: str | None = None) -> Path:
    """Puts a partition there, in place of the one before."""
    folder = logs / "orders-0"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for segment in simple_log(*segments).segments:
        (folder / f"{segment.base_offset:020d}.log").write_bytes(segment.log)
    if topic_id is not None:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return folder


def segment(*specs: BatchSpec) -> Segment:
    return simple_segment(specs, base=specs[0].base_offset)


def offsets(logs: Path, **options: Any) -> list[int]:
    found: list[int] = kafkaseg.scan(logs, ["offset"], **options).read_all()["offset"].to_pylist()
    return found


def ranges(plan: ReadPlan) -> list[tuple[int, int]]:
    return [(split.start, split.end) for split in plan.splits]


def ends(part: Segment) -> list[int]:
    return [0, *(batch.end for batch in part.batches)]


LATE = segment(data(0, 100), data(1, 200), data(2, 300), data(3, 110), data(4, 400))
"""A late row at offset 3."""


def test_disjoint_pieces_of_one_segment(logs: Path, maps: Path) -> None:
    """Data far out of order: two ranges of one segment, nothing between, offsets that do not meet, in one task."""
    write(logs, LATE)
    make_maps(logs, maps)

    plan = kafkaseg.plan(logs, since=100, until=150, zoneMaps=maps)

    at = ends(LATE)
    assert ranges(plan) == [(0, at[1]), (at[3], at[4])]
    assert [(split.start_offset, split.end_offset) for split in plan.splits] == [(0, 1), (3, 4)]
    assert len(plan.tasks) == 1
    assert plan.bytes_saved_by_zone_maps == at[5] - plan.bytes_to_read
    assert plan.warnings == ()
    assert offsets(logs, since=100, until=150, zoneMaps=maps) == [0, 3]


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"since": 300}, [2, 4]),
        ({"since": 301}, [4]),
        ({"until": 110}, [0]),
        ({"until": 111}, [0, 3]),
        ({"since": 401}, []),
        ({"until": 100}, []),
    ],
)
def test_bounds_are_those_of_rows(logs: Path, maps: Path, bounds: dict[str, int], kept: list[int]) -> None:
    """since is met by equality, until is not; a segment of which no zone is left is dropped, and the plan says why."""
    write(logs, LATE)
    make_maps(logs, maps)

    plan = kafkaseg.plan(logs, **bounds, zoneMaps=maps)

    batches = [LATE.batches[n] for n in kept]
    assert plan.bytes_to_read == sum(len(batch.data) for batch in batches)
    if not kept:
        assert [dropped.reason for dropped in plan.dropped] == ["no row inside the time bounds (zone map)"]


def test_missing_timestamps_and_markers(logs: Path, maps: Path) -> None:
    """A row without a timestamp counts as -1 ms, as in every bound; a marker counts for nothing."""
    part = segment(data(0, 100), data(1, 100, magic=0), control(2, 105))
    write(logs, part)
    make_maps(logs, maps)

    assert ranges(kafkaseg.plan(logs, until=0, zoneMaps=maps)) == [(ends(part)[1], ends(part)[2])]
    assert offsets(logs, until=0, zoneMaps=maps) == [1]
    assert ranges(kafkaseg.plan(logs, since=101, zoneMaps=maps)) == []


# ---- what has to be proven ----


def lost(now: Segment, logs: Path, before: Segment, maps: Path, **bounds: int) -> list[str]:
    """Asserts that no row is lost of a log that has become another since it was mapped; answers what the plan says."""
    write(logs, before)
    make_maps(logs, maps, cell=ends(before)[2])  # two batches a zone
    write(logs, now)
    assert offsets(logs, **bounds, zoneMaps=maps) == offsets(logs, **bounds)
    return list(kafkaseg.plan(logs, **bounds, zoneMaps=maps).warnings)


def test_the_first_batch_of_a_run_is_looked_at(logs: Path, maps: Path) -> None:
    """Compaction may move an edge and leave the run's last batch in its place, if an earlier one grew as much."""
    before = segment(data(3, 100), data(4, 100), data(5, 900, payload=202), data(6, 900))
    now = segment(data(3, 100, payload=100), data(4, 100, payload=100), data(5, 900), data(6, 900))
    assert now.batches[-1] == before.batches[-1]

    said = lost(now, logs, before, maps, since=0, until=200)

    assert "the zone map of partition orders-0 is stale for 1 of its segments" in said[0]


def test_another_batch_where_the_run_began(logs: Path, maps: Path) -> None:
    """A whole batch may stand at the very place, and be an earlier one: its offset and CRC decide."""
    before = segment(data(3, 100), data(4, 100), data(5, 900, payload=77), data(6, 900))
    now = segment(data(3, 100, payload=77), data(4, 100), data(5, 900), data(6, 900))
    assert now.batches[-1] == before.batches[-1] and now.batches[1].position == before.batches[2].position

    assert "stale" in lost(now, logs, before, maps, since=0, until=200)[0]


def test_the_last_batch_of_a_run_is_looked_at(logs: Path, maps: Path) -> None:
    """Truncated in the middle and refilled: the first batch is there still."""
    before = segment(data(0, 900), data(1, 900), data(2, 950), data(3, 950))
    now = segment(data(0, 900), data(1, 900), data(2, 100), data(3, 951))

    assert "stale" in lost(now, logs, before, maps, since=0, until=200)[0]


def test_the_leader_epoch_is_looked_at(logs: Path, maps: Path) -> None:
    """Refilled by a new leader so that the last batch is the same, byte for byte but for its epoch."""
    before = segment(data(0, 900), data(1, 900), data(2, 950), data(3, 950))
    refilled = BatchSpec(3, 3, ((3, 950),), leader_epoch=1)
    now = segment(data(0, 900), data(1, 900), data(2, 100), refilled)
    assert now.batches[-1].data[16:] == before.batches[-1].data[16:]

    assert "stale" in lost(now, logs, before, maps, since=0, until=200)[0]


def test_a_later_end_is_looked_at(logs: Path, maps: Path) -> None:
    """What is left of a truncated file is read by the zones that it still has."""
    write(logs, LATE)
    make_maps(logs, maps)
    write(logs, segment(data(0, 100), data(1, 200), data(2, 300)))

    plan = kafkaseg.plan(logs, until=150, zoneMaps=maps)

    assert ranges(plan) == [(0, ends(LATE)[1])]
    assert plan.warnings == ()


@pytest.mark.parametrize("says", [1, 2**40])
def test_a_piece_sees_the_batch_before_one_in_doubt(logs: Path, maps: Path, says: int) -> None:
    """Damage since the map was made: the batch after a run says another offset, which no CRC covers.

    It alone would be out of the bounds of its piece, and so be lost in silence."""
    part = segment(data(0, 900), data(1, 900), data(2, 100), data(3, 900))
    folder = write(logs, part)
    make_maps(logs, maps)
    at = ends(part)
    log = bytearray(part.log)
    log[at[2] : at[2] + 8] = says.to_bytes(8, "big")
    (folder / f"{0:020d}.log").write_bytes(log)

    assert ranges(kafkaseg.plan(logs, until=200, zoneMaps=maps)) == [(at[1], at[3])]
    with pytest.raises(kafkaseg.CorruptRecordError):
        offsets(logs, until=200, zoneMaps=maps)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_zones_without_a_neighbour_are_ignored(logs: Path, maps: Path, missing: int) -> None:
    """A table with a hole: a run over it would leave out what nobody looked at."""
    write(logs, segment(data(0, 900), data(1, 900), data(2, 100), data(3, 900)))
    make_maps(logs, maps)
    zone_table.write_zone_map(
        str(map_path(maps)), LOCAL, zone_table.ZoneMap(np.delete(table_of(maps), missing, axis=1))
    )

    plan = kafkaseg.plan(logs, until=200, zoneMaps=maps)

    assert offsets(logs, until=200, zoneMaps=maps) == [2]
    assert "is not used: it is damaged: its zones do not follow one another" in plan.warnings[0]


def test_a_wrong_checksum_is_noticed(logs: Path, maps: Path) -> None:
    """A maximum that is not what was written costs rows; no proof in the log can show it."""
    write(logs, LATE)
    make_maps(logs, maps)
    whole = zone_table.to_parquet(zone_table.ZoneMap(table_of(maps)))
    lower = table_of(maps)
    lower[zone_table.MAX_TIMESTAMP, 4] = 0
    other = zone_table.to_parquet(zone_table.ZoneMap(lower))
    checksums = [data[data.index(b"xxh64") :][5:40] for data in (other, whole)]
    assert checksums[0] != checksums[1] and other.count(checksums[0]) >= 1
    map_path(maps).write_bytes(other.replace(*checksums))

    plan = kafkaseg.plan(logs, since=400, zoneMaps=maps)

    assert offsets(logs, since=400, zoneMaps=maps) == [4]
    assert "is not used: it is damaged" in plan.warnings[0]


# ---- what the plan says ----


def test_a_topic_made_again(logs: Path, maps: Path) -> None:
    """The topic's id tells, although every batch is the same."""
    write(logs, LATE, topic_id=TOPIC_ID)
    make_maps(logs, maps)
    assert kafkaseg.plan(logs, until=1, zoneMaps=maps).warnings == ()
    write(logs, LATE, topic_id="B" * 22)

    [said] = kafkaseg.plan(logs, until=1, zoneMaps=maps).warnings[:1]

    assert f"is not used: it was made of another topic of that name, of id {TOPIC_ID}, and this one's is BBB" in said
    assert f"`kafkaseg zonemap {logs} --to {maps}` makes it again" in said


def test_no_map_is_a_warning_only_where_it_could_help(logs: Path, maps: Path) -> None:
    """Neither a missing directory nor a missing file is an error; a read without time bounds says nothing of it."""
    write(logs, LATE)
    assert kafkaseg.plan(logs, zoneMaps=maps).warnings == ()

    [said] = kafkaseg.plan(logs, since=1, zoneMaps=maps).warnings

    expected = f"'{maps}' (zoneMaps) holds no zone map of orders-0; `kafkaseg zonemap {logs} --to {maps}` makes what is missing"
    assert said == expected


def test_control_records_are_not_in_zones(logs: Path, maps: Path) -> None:
    """With includeControl=true no zone is left out, and the plan says why."""
    write(logs, segment(data(0, 900), control(1, 100)))
    make_maps(logs, maps)
    options = {"until": 200, "includeControl": True, "zoneMaps": maps}

    plan = kafkaseg.plan(logs, **options)

    assert offsets(logs, **options) == [1]
    assert "zoneMaps is not used with includeControl=true" in plan.warnings[0]


def test_until_without_a_map_names_the_command(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What until alone cannot leave out, and the one command that would, with the path as a shell takes it.

    Nothing is said of a few bytes, which cost nothing.
    """
    part = segment(data(0, 100), data(1, 900), data(2, 900), data(3, 900))
    index = simple_segment(
        [data(0, 100), data(1, 900), data(2, 900), data(3, 900)], index=[(1, 1)], timeindex=[(900, 1)]
    )
    assert index.log == part.log
    spaced = tmp_path / "kafka logs"
    simple_log(index).write(spaced)

    assert kafkaseg.plan(spaced, since=0, until=200).warnings == ()
    late = sum(len(batch.data) for batch in part.batches[1:])
    monkeypatch.setattr(planner, "WORTH_SAYING", late + 1)
    assert kafkaseg.plan(spaced, since=0, until=200).warnings == ()
    monkeypatch.setattr(planner, "WORTH_SAYING", late)
    [said] = kafkaseg.plan(spaced, since=0, until=200).warnings

    assert "option 'until' cannot end the read early" in said
    assert f"`kafkaseg zonemap '{spaced}' --to DIR` and then zoneMaps=DIR leaves out those that hold no row" in said
    assert "timestampDisorder=10s" in said


def test_only_bytes_in_no_zone_are_late(tmp_path: Path, maps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a map the warning counts what came after it was made."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    specs: Sequence[BatchSpec] = [data(0, 100), data(1, 900), data(2, 100), data(3, 900)]
    old = simple_segment(specs[:3], index=[(1, 1)], timeindex=[(900, 1)])
    new = simple_segment(specs, index=[(1, 1)], timeindex=[(900, 1)])
    folder = simple_log(old).write(tmp_path / "logs")
    make_maps(folder, maps)
    assert kafkaseg.plan(folder, since=0, until=200, zoneMaps=maps).warnings == ()
    (folder / f"{0:020d}.log").write_bytes(new.log)

    [said] = kafkaseg.plan(folder, since=0, until=200, zoneMaps=maps).warnings

    assert f"{len(new.batches[3].data):,} of the bytes to read" in said
    assert f"`kafkaseg zonemap {folder} --to {maps}` leaves out those" in said


def test_the_plan_tells_what_was_saved(logs: Path, maps: Path) -> None:
    """In the line of sums, and as JSON."""
    write(logs, LATE)
    make_maps(logs, maps)

    plan = kafkaseg.plan(logs, since=400, zoneMaps=maps)

    assert plan.to_dict()["bytesSavedByZoneMaps"] == plan.bytes_saved_by_zone_maps > 0
    assert f"{plan.bytes_saved_by_zone_maps} bytes less by zone maps" in " ".join(str(plan).split())
    assert "zone maps" not in str(kafkaseg.plan(logs))


@pytest.mark.parametrize("option", ["maxRecordsPerPartition", "minPartitions"])
def test_pieces_that_were_asked_for_are_not_put_together(logs: Path, maps: Path, option: str) -> None:
    """Pieces that zones leave share a Spark partition; what a limit cuts does not."""
    write(logs, LATE)
    make_maps(logs, maps)
    bounds = {"since": 100, "until": 150, "zoneMaps": maps}

    assert len(kafkaseg.plan(logs, **bounds).tasks) == 1
    assert len(kafkaseg.plan(logs, **bounds, **{option: 1}).tasks) == 2
    assert len(kafkaseg.plan(logs, **bounds, packBytes=0).tasks) == 2
