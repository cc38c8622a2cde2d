"""Brings zone maps up to date with their logs: decodes what is new, joins it with the zones that stay, and writes the
files.

Input: the updates that `update_plan.py` plans. The caller runs `map_segment` on the splits of each, in this process or
in another one. `keep_filters` then writes a segment's key filters, if they are wanted, and `finish_update` the
partition's map if it has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np

from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.keywords import DecodeOptions, PathsLike, check_names, count_threads, option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.reporting import Advance, OnProgress, add_up, ignore_progress, logger
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import Turns, map_ahead, requests_at_once
from kafka_segment_source.storage.files import list_directory, remove, write_atomically
from kafka_segment_source.storage.paths import join_path, resolve_path
from kafka_segment_source.storage.retrying import Attempts
from kafka_segment_source.trust import Policy
from kafka_segment_source.zones import zone_table
from kafka_segment_source.zones.key_filters import (
    SUFFIX,
    filter_path,
    identify,
    to_bytes,
)
from kafka_segment_source.zones.making import MappedSegment, map_segment
from kafka_segment_source.zones.update_plan import PartitionUpdate, plan_again, plan_updates, read_usable_filters
from kafka_segment_source.zones.zone_table import (
    ZoneMap,
    ZoneTable,
    no_zones,
    write_zone_map,
)

_TRIES = 10  # to map a partition while a broker replaces its segments


@dataclass(slots=True)
class ZoneMapSummary:
    """The result of an update.

    segments_mapped: segments that were decoded, as a whole or at their end.
    filter_bytes: of the key filters that were written.
    damage: a sentence for each segment that could not be mapped to its end.
    """

    partitions: int = 0
    segments_mapped: int = 0
    segments_kept: int = 0
    zones: int = 0
    bytes_read: int = 0
    files_written: int = 0
    filter_bytes: int = 0
    damage: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Returns the summary as `kafkaseg zonemap --json` prints it."""
        return {
            "partitions": self.partitions,
            "segmentsMapped": self.segments_mapped,
            "segmentsKept": self.segments_kept,
            "zones": self.zones,
            "bytesRead": self.bytes_read,
            "filesWritten": self.files_written,
            "filterBytes": self.filter_bytes,
            "damage": list(self.damage),
        }


def update_zone_maps_locally(
    path: PathsLike,
    to: str | os.PathLike[str],
    *,
    keys: bool = False,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[DecodeOptions],
) -> ZoneMapSummary:
    """Makes zone maps in this process, or brings them up to date. `update_zone_maps` does the same by a Spark job.

    Only segments that are new or changed are decoded.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        to: The directory of the zone maps. It is made if it is not there.
        keys: Whether each zone gets a key filter too, by which a read of some keys leaves out zones.
        threads: How many threads read and decode. By default, one.
        on_progress: Is called with the number of bytes that are done, and the number of all bytes. Any thread may call
            it.
        options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes.

    Returns:
        What was done, and what damage kept from being mapped.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        StorageError: A file cannot be read, or a map cannot be written. A retry may help.

    Example:
        >>> import kafka_segment_source, tempfile
        >>> maps = tempfile.mkdtemp()
        >>> done = kafka_segment_source.update_zone_maps_locally("examples/data/orders/data", maps, subscribe="orders")
        >>> done.partitions, done.segments_mapped
        (3, 18)
    """
    source, policy = parse_update(path, options)
    updates = plan_updates(source, policy, resolve_path(os.fspath(to), source.storage), keys)
    size = sum(split.size for update in updates for split in update.splits)
    return run_updates(updates, policy.trust.max_batch_bytes, add_up(size, on_progress), count_threads(threads))


def _add_work(summary: ZoneMapSummary, other: ZoneMapSummary) -> None:
    """Adds the work of further partitions."""
    summary.partitions += other.partitions
    summary.segments_mapped += other.segments_mapped
    summary.segments_kept += other.segments_kept
    summary.zones += other.zones
    summary.bytes_read += other.bytes_read
    summary.files_written += other.files_written
    summary.filter_bytes += other.filter_bytes
    summary.damage += other.damage


def finish_update(update: PartitionUpdate, mapped: Sequence[MappedSegment | None], summary: ZoneMapSummary) -> None:
    """Writes a partition's map if it has changed, and adds the work to the summary.

    Raises PathError or StorageError if the map cannot be written.

    mapped: the zones for each split of the update, or None for a file that is gone. Of key filters, `keep_filters` was
    called for each.
    """
    tables = dict(update.kept)
    for split, mapped_segment in zip(update.splits, mapped, strict=True):
        if mapped_segment is None:
            tables.pop(split.base_offset, None)
            continue
        tables[split.base_offset] = _continue_zones(tables.get(split.base_offset, no_zones()), mapped_segment.zones)
        summary.bytes_read += mapped_segment.bytes_read
        summary.filter_bytes += mapped_segment.filter_bytes
        if mapped_segment.damage is not None:
            summary.damage.append(mapped_segment.damage)
    zones = np.concatenate([no_zones(), *(tables[base] for base in sorted(tables))], axis=1)
    after = ZoneMap(zones, update.topic_id)
    if update.before is None or not after.equals(update.before):
        try:
            write_zone_map(update.path, update.source.storage, after, update.known)
            summary.files_written += 1
        except FileChangedError as error:  # the other map is as good, or becomes so by the next update
            logger.warning("zone map %r is left as it is: %s", update.path, error)
    if update.keys:
        _remove_old_filters(update, tables)
    summary.partitions += 1
    summary.segments_mapped += len(update.splits)
    summary.segments_kept += len(tables.keys() - {split.base_offset for split in update.splits})
    summary.zones += zones.shape[1]


def keep_filters(update: PartitionUpdate, split: SegmentSplit, mapped: MappedSegment | None) -> MappedSegment | None:
    """Writes the key filters of a segment that was mapped: those of the zones that stay, and the new ones. Returns the
    rest of what was mapped.

    Raises PathError or StorageError if they cannot be written.
    """
    if mapped is None or mapped.filters is None:
        return mapped
    path, storage = filter_path(update.filters_directory, split.base_offset), update.source.storage
    kept = update.kept.get(split.base_offset, no_zones())
    known = read_usable_filters(path, storage) if kept.shape[1] else {}
    stay = [(identity, known[identity]) for identity in identify(kept) if identity in known]
    data = to_bytes([*stay, *mapped.filters])
    write_atomically(path, storage, data)
    return replace(mapped, filters=None, filter_bytes=len(data))


def _remove_old_filters(update: PartitionUpdate, tables: Mapping[int, ZoneTable]) -> None:
    """Removes the key filters of segments that are gone."""
    directory, storage = update.filters_directory, update.source.storage
    present = {filter_path(directory, base) for base in tables}
    for entry in list_directory(directory, storage):
        path = join_path(directory, entry.name)
        if path.endswith(SUFFIX) and path not in present:
            remove(path, storage)


def run_updates(
    updates: Iterable[PartitionUpdate], max_batch_bytes: int, advance: Advance = lambda _: None, threads: int = 1
) -> ZoneMapSummary:
    """Runs all updates in this process. Where a read takes a round trip, it runs several at a time in any case.

    advance: is called with the number of further bytes that are done.
    """
    todo = list(updates)
    turns = Turns(threads, requests_at_once((update.log.storage, update.log.directory) for update in todo))

    def run(update: PartitionUpdate) -> ZoneMapSummary:
        done = ZoneMapSummary()
        run_update(update, max_batch_bytes, done, advance, turns)
        return done

    summary = ZoneMapSummary()
    for done in map_ahead(run, todo, turns.count):
        _add_work(summary, done)
    return summary


def run_update(
    update: PartitionUpdate,
    max_batch_bytes: int,
    summary: ZoneMapSummary,
    advance: Advance = lambda _: None,
    turns: Turns | None = None,
) -> None:
    """Updates one partition's map. If a file was replaced since planning, it plans and maps the partition again.

    turns: of its segments, with those of other partitions. None: several are mapped at a
    time only where a read takes a round trip.
    """
    turns = turns or Turns(at_once=update.log.storage.read_cost(update.log.directory).at_once)
    attempts = Attempts(_TRIES - 1)
    while True:
        mapped = list(turns.map(partial(_map_split, update, max_batch_bytes, advance), update.splits))
        if None not in mapped or not attempts.may_go_on():
            break
        update = plan_again(update)
    finish_update(update, mapped, summary)


def _map_split(
    update: PartitionUpdate, max_batch_bytes: int, advance: Advance, split: SegmentSplit
) -> MappedSegment | None:
    return keep_filters(update, split, map_or_none(split, max_batch_bytes, advance, update.keys))


def map_or_none(
    split: SegmentSplit, max_batch_bytes: int, advance: Advance = lambda _: None, keys: bool = False
) -> MappedSegment | None:
    """Calls `map_segment`. Returns None if retention or compaction has removed the file since it was listed."""
    try:
        return map_segment(split, max_batch_bytes, advance, keys=keys)
    except FileChangedError:
        return None


def parse_update(path: PathsLike, options: Mapping[str, object]) -> tuple[Source, Policy]:
    """Returns what `plan_updates` takes, from a path and Python keywords.

    Raises OptionError for an option that zone maps do not take.
    """
    check_names(options, DecodeOptions, "zone maps, which take")
    parsed, _ = parse_options(option_texts(path, options))
    return parsed.source, parsed.policy


def _continue_zones(kept: ZoneTable, added: ZoneTable) -> ZoneTable:
    """Joins the kept zones of a segment with those that were decoded after them. All are of the file as it was then."""
    zones = np.concatenate((kept, added), axis=1)
    of_file = [zone_table.FILE_SIZE, zone_table.FILE_INODE, zone_table.FILE_CHANGED]
    zones[of_file] = added[of_file, :1] if added.shape[1] else zones[of_file]
    return zones
