"""Which segments an update of zone maps decodes, and which zones stay.

`plan_updates` lists the partitions that the options select. It compares each partition's map with its segments. The
result is a `PartitionUpdate`: the zones that stay, and a split for each segment that must be decoded. A split begins at
the first byte or at the segment's last zone.

Which segments are decoded again affects speed only, not correctness, because every use of a map proves it. So the file
system's data about a file decides this.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit, split_of
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.logdir.segments import PartitionLog, Segment
from kafka_segment_source.partition.logs import available_logs
from kafka_segment_source.reporting import Warnings, log_warnings, logger
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.files import exists, file_version
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.storage.store import NO_VERSION, FileVersion, Storage
from kafka_segment_source.trust import Policy, Trust
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.key_filters import Blocks, filter_path, filters_directory, identify, read_filters
from kafka_segment_source.zones.pruning import is_there
from kafka_segment_source.zones.zone_table import ZoneMap, ZoneTable, no_zones, read_zone_map, zone_map_path


@dataclass(frozen=True, slots=True)
class PartitionUpdate:
    """The work that one partition's map needs.

    source, policy, directory: the arguments of the plan.
    before: the existing map, if it can be used.
    known: the version of the file that the update replaces: NO_VERSION if there is none, None if it cannot be read.
    kept: zones that stay, by the base offset of their segment.
    splits: the parts to decode, each from the end of its segment's kept zones on.
    keys: whether zones have key filters too.
    """

    source: Source
    policy: Policy
    directory: str
    log: PartitionLog
    path: str
    topic_id: str | None
    before: ZoneMap | None
    known: FileVersion | None
    kept: dict[int, ZoneTable]
    splits: tuple[SegmentSplit, ...]
    keys: bool = False

    @property
    def filters_directory(self) -> str:
        """Where the key filters of this partition are."""
        return filters_directory(self.path)


def plan_updates(source: Source, policy: Policy, directory: str, keys: bool = False) -> list[PartitionUpdate]:
    """Returns the updates that the maps in `directory` need for the selected partitions. keys: whether zones have key
    filters too.

    Raises the errors of the listing. A map that is damaged or of another topic is made again, and the log reports this.
    """
    return try_again(lambda: _plan_updates(source, policy, directory, keys))


def _plan_updates(source: Source, policy: Policy, directory: str, keys: bool) -> list[PartitionUpdate]:
    warnings = Warnings()
    logs = available_logs(source, policy, warnings)
    log_warnings(warnings)
    at_once = requests_at_once((log.storage, log.directory) for log in logs)
    return list(map_ahead(lambda log: _plan_update(log, source, policy, directory, keys), logs, at_once))


def plan_again(update: PartitionUpdate) -> PartitionUpdate:
    """Returns the update for the partition's directories as they are now. It returns the same update if they are
    gone."""
    try:
        logs = try_again(lambda: available_logs(update.source, update.policy, Warnings()))
    except PathError:
        return update
    for log in logs:
        if log.topic_partition == update.log.topic_partition:
            return _plan_update(log, update.source, update.policy, update.directory, update.keys)
    return update


def _plan_update(log: PartitionLog, source: Source, policy: Policy, directory: str, keys: bool) -> PartitionUpdate:
    path = zone_map_path(directory, log.topic, log.partition)
    topic_id = read_topic_id(log.directory, log.storage)
    before, known = _read_usable(path, source.storage, topic_id)
    old = before or ZoneMap(no_zones())
    segments = {segment.base_offset: segment for segment in reversed(log.segments) if segment.size}
    kept = {base: old.of_segment(base) for base in _find_unlisted(old, log)}
    splits = []
    at_once = log.storage.read_cost(log.directory).at_once
    filters = filters_directory(path) if keys else None
    states = map_ahead(
        lambda base: _keep_zones(segments[base], old.of_segment(base), filters), sorted(segments), at_once
    )
    for base, (zones, start) in zip(sorted(segments), states, strict=True):
        kept[base], segment = zones, segments[base]
        if start is not None:
            splits.append(split_of(log, segment, ScanBounds(), start)._replace(anchor=_find_place(old, base, start)))
    return PartitionUpdate(source, policy, directory, log, path, topic_id, before, known, kept, tuple(splits), keys)


def _read_usable(path: str, storage: Storage, topic_id: str | None) -> tuple[ZoneMap | None, FileVersion | None]:
    """Returns the existing map and the version of its file. None and any version if there is none of this topic."""
    try:
        zone_map = read_zone_map(path, storage)
    except ValueError as error:
        logger.warning("zone map %r is made again: %s", path, error)
        return None, None
    if zone_map is None:
        return None, NO_VERSION
    if None not in (topic_id, zone_map.topic_id) and topic_id != zone_map.topic_id:
        logger.warning("zone map %r is made again: it was made of another topic of that name", path)
        return None, zone_map.version
    return zone_map, zone_map.version


def _find_unlisted(old: ZoneMap, log: PartitionLog) -> list[int]:
    """Returns the segments of a map that exist but were not listed. The path may name single files of a directory."""
    listed = {segment.base_offset for segment in log.segments}
    others = sorted(set(old.zones[zone_table.SEGMENT].tolist()) - listed)
    names = {base: kafka_format.segment_file(base) for base in others}
    return [
        base
        for base, name in names.items()
        if any(exists(join_path(directory, name), log.storage) for directory in log.directories)
    ]


def _keep_zones(segment: Segment, zones: ZoneTable, filters: str | None) -> tuple[ZoneTable, int | None]:
    """Returns the zones of a segment that stay, and the position to decode it from. None if nothing must be decoded.

    filters: the directory of key filters, without which no zone stays. None: they are not wanted.
    """
    kept, start = _keep_present_zones(segment, zones)
    if filters is None or not kept.shape[1]:
        return kept, start
    known = read_usable_filters(filter_path(filters, segment.base_offset), segment.storage)
    with_filter = [identity in known for identity in identify(kept)]
    if all(with_filter):
        return kept, start
    first = with_filter.index(False)
    return kept[:, :first], int(kept[zone_table.START, first])


def read_usable_filters(path: str, storage: Storage) -> dict[int, Blocks | None]:
    """Returns the key filters of a segment, by the identity of their zone. None at all if they cannot be used."""
    try:
        return read_filters(path, storage)
    except FileChangedError:
        return {}
    except ValueError as error:
        logger.warning("key filters %r are made again: %s", path, error)
        return {}


def _keep_present_zones(segment: Segment, zones: ZoneTable) -> tuple[ZoneTable, int | None]:
    """Returns the zones of a segment that stay, and the position to decode it from. None if nothing must be decoded."""
    if not zones.shape[1]:
        return zones, 0
    stored = FileVersion(*zones[[zone_table.FILE_SIZE, zone_table.FILE_INODE, zone_table.FILE_CHANGED], 0].tolist())
    end = int(zones[zone_table.END, -1])
    present = file_version(segment.path, segment.storage)
    if present is None:
        return no_zones(), 0  # the file is gone; decoding it reports that
    version = FileVersion(*present.as_numbers())
    if stored == version and end == segment.size:
        return zones, None
    if stored.is_same_file(version) and end <= segment.size:  # the file has grown, or only its time has changed
        with suppress(FileChangedError), SegmentView(segment, Trust(trust_indexes=False)) as view:
            if is_there(view.probe, zones, 0, zones.shape[1] - 1):
                return zones[:, :-1], int(zones[zone_table.START, -1])
    return no_zones(), 0


def _find_place(old: ZoneMap, base: int, start: int) -> BatchPlace | None:
    """Returns the first batch of the zone of a segment where decoding continues. None if it starts at 0."""
    if start == 0:
        return None
    zones = old.of_segment(base)
    zone = zones[:, zones[zone_table.START].searchsorted(start)]
    return BatchPlace(*zone[[zone_table.START, zone_table.FIRST_OFFSET, zone_table.FIRST_CRC]].tolist())
