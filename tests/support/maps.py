"""Zone maps for tests: as `kafkaseg zonemap` makes them, with zones of any size."""

from __future__ import annotations

from pathlib import Path

from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.making import MappedSegment, map_segment
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import ZoneMapSummary, finish_update, keep_filters, parse_update

EACH_BATCH = 1
"""A size of zones that makes each batch a zone."""


def make_maps(logs: Path, maps: Path, cell: int = EACH_BATCH, keys: bool = False) -> ZoneMapSummary:
    """Makes the maps of a log directory, or brings them up to date. keys: with key filters."""
    summary = ZoneMapSummary()
    for update in plan_updates(*parse_update(logs, {}), str(maps), keys):
        mapped = [keep_filters(update, split, _map_or_none(split, cell, keys)) for split in update.splits]
        finish_update(update, mapped, summary)
    return summary


def _map_or_none(split: SegmentSplit, cell: int, keys: bool) -> MappedSegment | None:
    """As `zones.updates.map_or_none`, with zones of any size: None too where a map was edited, and its last zone does
    not say where the file stands."""
    try:
        return map_segment(split, 2**28, cell=cell, keys=keys)
    except FileChangedError:
        return None


def map_path(maps: Path, topic: str = "orders", partition: int = 0) -> Path:
    return Path(zone_table.zone_map_path(str(maps), topic, partition))


def table_of(maps: Path, topic: str = "orders", partition: int = 0) -> zone_table.ZoneTable:
    """The zones in a partition's map."""
    found = zone_table.read_zone_map(str(map_path(maps, topic, partition)), LOCAL)
    assert found is not None
    return found.zones
