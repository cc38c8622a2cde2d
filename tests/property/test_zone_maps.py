"""Zone maps never lose or add a row: of any log, made when it was this one or another, whole, in part or damaged.

And they prune: of a log that they fit, nothing is read but zones that hold the times asked for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import kafka_segment_source as kafkaseg
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.scanning import read_split
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import zone_table
from tests.property.test_pruning import (
    COLUMNS,
    KeyedRow,
    in_order,
    poison,
    rows,
    wanted,
    ways,
)
from tests.support import naive
from tests.support.histories import compacted, cut, refilled, share_a_batch
from tests.support.logs import GeneratedLog
from tests.support.maps import make_maps, map_path, table_of
from tests.support.strategies import SINCE, UNTIL, Bounds, bounds, logs_and_bounds, options_of, partition_logs

MANY = settings(max_examples=settings().max_examples * 4)

CELLS = st.sampled_from([1, 100, 300, 1000])
"""Sizes of zones: each batch its own, or a few batches together."""

any_log = partition_logs(magics=(0, 1, 2), index_damage=True, log_damage=True, far_future=True, wrong_wrappers=True)
later_log = partition_logs(
    log_damage=True, far_future=True
)  # with leader epochs, as a log that is cut and refilled has

IDENTITY = (
    zone_table.SEGMENT, zone_table.START, zone_table.END, zone_table.FIRST_OFFSET, zone_table.LAST_OFFSET, zone_table.FIRST_CRC, zone_table.LAST_POSITION, zone_table.LAST_CRC, zone_table.LAST_EPOCH,
    zone_table.FILE_SIZE, zone_table.FILE_INODE, zone_table.FILE_CHANGED,
)  # fmt: skip
"""What of a table says where its zones are, and of which file."""


class Case:
    """A log on disk, and a directory of zone maps."""

    def __init__(self) -> None:
        self._keeper = tempfile.TemporaryDirectory()
        self.root = Path(self._keeper.name)
        self.logs, self.maps = self.root / "logs", self.root / "maps"
        self.map_path = map_path(self.maps)

    def __enter__(self) -> Case:
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.cleanup()

    def write(self, log: GeneratedLog, topic_id: str | None = None) -> None:
        """Puts a log in place of the one that is there, into the same files where they have the same names."""
        fresh = log.write(Path(tempfile.mkdtemp(dir=self.root)))
        folder = self.logs / fresh.name
        folder.mkdir(parents=True, exist_ok=True)
        for old in set(os.listdir(folder)) - set(os.listdir(fresh)):
            (folder / old).unlink()
        for path in fresh.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        if topic_id is not None:
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")

    def make_maps(self, cell: int, keys: bool = False) -> None:
        """Makes the maps, or brings them up to date. keys: with key filters."""
        make_maps(self.logs, self.maps, cell, keys)

    def table(self) -> zone_table.ZoneTable:
        return table_of(self.maps)

    def options(self, asked: Bounds, **more: Any) -> ReadOptions:
        texts = option_texts(self.logs, {**options_of(asked), "zoneMaps": str(self.maps), **more})
        return parse_options(texts)[0]


def read(plan: ReadPlan) -> list[KeyedRow]:
    schema = RECORDS.arrow_schema(COLUMNS)
    return [row for split in plan.splits for batch in read_split(split, plan.reading, schema) for row in rows(batch)]


def zones_of(segment: bytes, cell: int) -> list[tuple[int, ...]]:
    """The zones of a `.log` by the naive decoder: start, end, last offset, records, least and largest timestamp."""
    cells: dict[int, list[naive.Batch]] = {}
    for batch in naive.decode_batches(segment):
        cells.setdefault(batch.position // cell, []).append(batch)
    told = []
    for batches in cells.values():
        times = [record.timestamp for batch in batches for record in batch.records if not record.is_control]
        told.append(
            (
                batches[0].position,
                batches[-1].position + batches[-1].size,
                batches[-1].last_offset,
                len(times),
                min(times, default=2**63 - 1),
                max(times, default=-(2**63)),
            )
        )
    return told


@MANY
@given(log=any_log, cell=CELLS)
def test_a_map_is_what_the_naive_decoder_says(log: GeneratedLog, cell: int) -> None:
    """Positions, offsets, counts and bounds of each zone are those of its records, whatever their format."""
    with Case() as case:
        case.write(log)
        case.make_maps(cell)
        columns = [
            zone_table.SEGMENT,
            zone_table.START,
            zone_table.END,
            zone_table.LAST_OFFSET,
            zone_table.RECORDS,
            zone_table.MIN_TIMESTAMP,
            zone_table.MAX_TIMESTAMP,
        ]
        expected = [(each.base_offset, *zone) for each in log.segments for zone in zones_of(each.log, cell)]
        assert [tuple(zone) for zone in case.table()[columns].T.tolist()] == expected


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, GeneratedLog, GeneratedLog]:
    """What happened, the log that a map was made of, and the log that is read."""
    what = draw(st.sampled_from(["nothing", "grown", "shrunk", "refilled", "compacted", "another log"]))
    event(what)
    if what in ("nothing", "another log"):
        now = draw(any_log)
        return what, draw(any_log) if what == "another log" else now, now
    log = draw(later_log)
    at = draw(st.integers(0, sum(len(segment.batches) for segment in log.segments)))
    if what == "grown":
        return what, cut(log, at), log
    if what == "shrunk":
        return what, log, cut(log, at)
    if what == "refilled":
        return what, log, refilled(log, at, draw(st.integers(-50, 50)))
    return what, log, compacted(log, draw(st.binary(min_size=4, max_size=8)), draw(st.booleans()))


@st.composite
def stories(draw: st.DrawFn) -> tuple[str, GeneratedLog, GeneratedLog, Bounds]:
    """A history, and bounds that suit what is read."""
    what, before, now = draw(histories())
    asked = draw(bounds(now))
    assume(in_order(asked))
    return what, before, now, asked


def edited(table: zone_table.ZoneTable, how: str, salt: bytes) -> zone_table.ZoneTable:
    """A table as somebody might have left it; its bounds are never touched: nobody could tell."""
    if not table.shape[1] or how == "as it was":
        return table
    column = salt[0] % table.shape[1]
    if how == "cut":
        return table[:, :column]
    if how == "without a segment":
        return table[:, table[zone_table.SEGMENT] != table[zone_table.SEGMENT, column]]
    if how == "without a zone":
        return np.delete(table, column, axis=1)
    changed = table.copy()
    row = IDENTITY[salt[1] % len(IDENTITY)]
    changed[row, column] += int.from_bytes(salt[2:4], "big", signed=True) or 1
    return changed


EDITS = ("as it was", "cut", "without a segment", "without a zone", "changed")


@MANY
@given(
    story=stories(), cell=CELLS, edit=st.sampled_from(EDITS), salt=st.binary(min_size=4, max_size=4), how=ways,
    same_topic=st.booleans(), update=st.booleans(),
)  # fmt: skip
def test_rows_are_the_naive_ones(
    story: tuple[str, GeneratedLog, GeneratedLog, Bounds],
    cell: int,
    edit: str,
    salt: bytes,
    how: dict[str, Any],
    same_topic: bool,
    update: bool,
) -> None:
    """Whatever a map was made of and has gone through, the rows are those of filtering every record; once planned,
    every byte outside the planned ranges may turn into noise."""
    what, before, now, asked = story
    other_topic = what == "another log" and not same_topic
    # by chance another log may have the very batch in the very place; only the topic's id tells that it is another
    assume(what != "another log" or other_topic or not share_a_batch(before, now))
    with Case() as case:
        case.write(before, "A" * 22)
        case.make_maps(cell)
        table = edited(case.table(), edit, salt)
        zone_table.write_zone_map(str(case.map_path), LOCAL, zone_table.ZoneMap(table, "A" * 22))
        case.write(now, "B" * 22 if other_topic else "A" * 22)
        if update:
            case.make_maps(cell)
        options = case.options(asked, **how)
        plan = make_plan(options)
        event(f"zone maps save: {plan.bytes_saved_by_zone_maps > 0}")
        event(f"pieces of one segment: {min(len(plan.splits) - plan.segments_kept, 2)}")
        plan = poison(plan, case.logs)
        assert read(plan) == wanted(now, asked)


PARTS = 2**12
"""Places in a file as parts of its length, which varies: a map says when its log was written."""


@given(
    log=any_log, data=st.data(), cell=CELLS, end=st.just(PARTS) | st.integers(0, PARTS),
    flips=st.lists(st.tuples(st.integers(0, PARTS - 1), st.integers(0, 7)), max_size=3),
)  # fmt: skip
def test_damaged_files_are_ignored(
    log: GeneratedLog, data: st.DataObject, cell: int, end: int, flips: list[tuple[int, int]]
) -> None:
    """Any byte of a map's file may change, and any part of its end be missing: the rows are the same."""
    asked = data.draw(bounds(log))
    assume(in_order(asked))
    with Case() as case:
        case.write(log)
        case.make_maps(cell)
        changed = bytearray(case.map_path.read_bytes())
        whole = len(changed)
        for place, bit in flips:
            changed[place * whole // PARTS] ^= 1 << bit
        del changed[end * whole // PARTS :]
        case.map_path.write_bytes(changed)
        options = case.options(asked)
        plan = make_plan(options)
        has_times = asked.since is not None or asked.until is not None
        if len(changed) < whole and has_times:
            assert any("is not used" in warning for warning in plan.warnings)
        assert read(plan) == wanted(log, asked)


def overlap(zone: Sequence[int], asked: Bounds) -> bool:
    since, until = (-(2**63) if asked.since is None else asked.since), (2**63 if asked.until is None else asked.until)
    return zone[4] < until and zone[5] >= since


@MANY
@given(pair=logs_and_bounds(any_log, times=(SINCE, UNTIL, SINCE | UNTIL)), cell=CELLS)
def test_nothing_else_is_read(pair: tuple[GeneratedLog, Bounds], cell: int) -> None:
    """Under a fresh map each byte to read is in a zone whose span reaches into the bounds, or in no zone at all.

    Only the last batch of a zone may be read before one that it does not bear out.
    """
    log, asked = pair
    assume(in_order(asked))
    with Case() as case:
        case.write(log)
        case.make_maps(cell)
        plan = make_plan(case.options(asked))
        assert not any("zone map" in warning and "stale" in warning for warning in plan.warnings)
        for split in plan.splits:
            [segment] = [each for each in log.segments if each.base_offset == split.base_offset]
            outside = [zone for zone in zones_of(segment.log, cell) if not overlap(zone, asked)]
            positions = [batch.position for batch in segment.batches]
            read_too = [zone for zone in outside if zone[0] < split.end and split.start < zone[1]]
            assert [zone for zone in read_too if any(split.start < at < zone[1] for at in positions)] == []
        without = make_plan(case.options(asked, zoneMaps=None))
        assert plan.bytes_to_read + plan.bytes_saved_by_zone_maps == without.bytes_to_read


@given(log=any_log, data=st.data(), cell=CELLS)
def test_files_that_shrink_give_no_row_twice(log: GeneratedLog, data: st.DataObject, cell: int) -> None:
    """A file cut after the plan was made is read by offsets alone: pieces of one segment still share none."""
    asked = data.draw(bounds(log))
    assume(in_order(asked))
    with Case() as case:
        case.write(log)
        case.make_maps(cell)
        options = case.options(asked)
        plan = make_plan(options)
        for path in case.logs.glob("*/*.log"):
            os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
        found: list[KeyedRow] = []
        with suppress(kafkaseg.errors.CorruptRecordError):  # cut inside a batch before another segment
            for split in plan.splits:
                for batch in read_split(split, plan.reading, RECORDS.arrow_schema(COLUMNS)):
                    found += rows(batch)
        assert len({offset for offset, _, _ in found}) == len(found)
        assert set(found) <= set(wanted(log, asked))


@given(story=histories(), cell=CELLS)
def test_maps_brought_up_to_date_are_as_if_made_again(story: tuple[str, GeneratedLog, GeneratedLog], cell: int) -> None:
    """A log that grew, was cut or was refilled: what an update decodes and what it keeps make the table
    of the whole log."""
    what, before, now = story
    assume(what in ("nothing", "grown", "shrunk", "refilled"))
    with Case() as case:
        case.write(before)
        case.make_maps(cell)
        case.write(now)
        case.make_maps(cell)
        updated = case.table()
        case.map_path.unlink()
        case.make_maps(cell)
        of_file = [zone_table.FILE_SIZE, zone_table.FILE_INODE, zone_table.FILE_CHANGED]
        assert np.array_equal(np.delete(updated, of_file, axis=0), np.delete(case.table(), of_file, axis=0))
