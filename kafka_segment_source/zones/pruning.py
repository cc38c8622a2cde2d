"""A segment's byte range, time bounds and its zones → the byte ranges in which rows of that time can be.

A run of zones is left out only if the file, as it is now, still has the run's first batch and its last batch where the
table has them: same offset and CRC, of the last one leader epoch and end as well. Then

- the bytes between are the offsets of the run, since offsets grow along a file;
- nothing at or below the last batch was ever truncated, since truncation removes what comes after a point, and what is
  written in its place has another epoch or another CRC. So every offset has the timestamp that it had, unless it is
  gone.

That costs two headers a run. No size, time or name is believed, nor any part of a run that is not proven: it is read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafka_segment_source.bounds import TimeRange
from kafka_segment_source.logdir.catalog import PartitionLog
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.logdir.segment_view import SegmentView
from kafka_segment_source.options import ReadOptions, TopicPartition
from kafka_segment_source.pruning.ranges import ByteRange
from kafka_segment_source.zones import table as z
from kafka_segment_source.zones.table import ZoneMap, ZoneTable, read_zone_map, zone_map_path

_MOST_NAMED = 5  # partitions in one warning


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is left of a byte range: disjoint pieces in order, with disjoint offsets.

    covered: the byte position up to which the zones tell what is to be read; is_stale: some zones are not of this file.
    """

    pieces: tuple[ByteRange, ...]
    covered: int = 0
    is_stale: bool = False


def prune(view: SegmentView, found: ByteRange, times: TimeRange, zones: ZoneTable) -> Pruned:
    """The pieces of `found` that hold every data row inside `times`; `zones` are those of the view's segment."""
    zones = zones[:, zones[z.END] <= view.segment.size]
    runs = list(_runs(zones, found, times))
    proven = [run for run in runs if is_there(view.probe, zones, *run)]
    is_stale = len(proven) < len(runs)
    covered = 0 if is_stale or not zones.shape[1] else int(zones[z.END, -1])
    if not proven:
        return Pruned((found,), covered, is_stale)
    pieces = []
    rest = found
    for first, last in proven:
        begin, first_offset = int(zones[z.START, first]), int(zones[z.FIRST_OFFSET, first])
        end, after = int(zones[z.END, last]), int(zones[z.LAST_OFFSET, last]) + 1
        pieces.append(ByteRange(rest.start, begin, rest.first_offset, first_offset))
        rest = ByteRange(end, found.end, max(rest.first_offset, after), found.end_offset)
    pieces.append(rest)
    return Pruned(tuple(piece for piece in pieces if _may_hold_rows(piece)), covered, is_stale)


def _runs(zones: ZoneTable, found: ByteRange, times: TimeRange) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbours that reach into `found` and hold no row inside `times`."""
    outside = (zones[z.END] > found.start) & (zones[z.START] < found.end)
    wanted = np.ones(zones.shape[1], np.bool_)
    if times.has_since:
        wanted &= zones[z.MAX_TIMESTAMP] >= times.since
    if times.has_until:
        wanted &= zones[z.MIN_TIMESTAMP] < times.until
    outside &= ~wanted
    borders = np.flatnonzero(np.diff(np.concatenate(([False], outside, [False]))))
    for first, after in borders.reshape(-1, 2).tolist():
        yield first, after - 1


def is_there(probe: HeaderProbe, zones: ZoneTable, first: int, last: int) -> bool:
    """Whether the first batch of zone `first` and the last of zone `last` are in the file where the table has them."""
    head = probe.at(int(zones[z.START, first]))
    if head is None or (head.base_offset, head.crc) != tuple(zones[[z.FIRST_OFFSET, z.FIRST_CRC], first].tolist()):
        return False
    tail = probe.at(int(zones[z.LAST_POSITION, last]))
    told = zones[[z.LAST_OFFSET, z.LAST_CRC, z.LAST_EPOCH, z.END], last].tolist()
    return tail is not None and [tail.last_offset, tail.crc, tail.leader_epoch, tail.end] == told


def _may_hold_rows(piece: ByteRange) -> bool:
    return piece.start < piece.end and piece.first_offset < piece.end_offset


def update_command(options: ReadOptions) -> str:
    """The command that makes, or renews, the zone maps that a read could use."""
    named = [("--topic", options.topic), ("--partition", options.partition), ("--to", options.zone_maps or "DIR")]
    flags = [word for flag, value in named if value is not None for word in (flag, str(value))]
    return shlex.join(["kafkaseg", "zonemap", *options.paths, *flags])


class ZoneMaps:
    """The zone maps that one plan uses: each read once, and what is wrong with any of them, to be said once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._read: tuple[TopicPartition | None, ZoneMap | None] = (None, None)
        self._missing: list[TopicPartition] = []
        self._faults: dict[TopicPartition, str] = {}
        self._stale: dict[TopicPartition, set[str]] = {}
        self._says_nothing = False

    def of(self, log: PartitionLog) -> ZoneMap | None:
        """The zone map of a partition, to be asked for one partition after the other; None where there is
        none to use."""
        if self._options.zone_maps is None:
            return None
        if self._options.include_control:
            self._says_nothing = True
            return None
        if self._read[0] != log.topic_partition:
            self._read = log.topic_partition, self._usable(log, self._options.zone_maps)
        return self._read[1]

    def note_stale(self, log: PartitionLog, path: str) -> None:
        """Takes note of a segment that the partition's map does not describe as it is now."""
        self._stale.setdefault(log.topic_partition, set()).add(path)

    def warnings(self) -> list[str]:
        """What was wrong with maps that could have spared reading, a sentence for each partition, and what mends it."""
        command, directory = update_command(self._options), self._options.zone_maps
        said = [
            f"the zone map of partition {topic}-{partition} is not used: {fault}; `{command}` makes it anew"
            for (topic, partition), fault in self._faults.items()
        ]
        said += [
            f"the zone map of partition {topic}-{partition} is stale for {len(paths)} of its segments, which were compacted,"
            f" truncated or replaced since; `{command}` renews it"
            for (topic, partition), paths in self._stale.items()
        ]
        if self._missing:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in self._missing[:_MOST_NAMED])
            more = f" and {len(self._missing) - _MOST_NAMED} more" if len(self._missing) > _MOST_NAMED else ""
            said.append(
                f"{directory!r} (zoneMaps) holds no zone map of {names}{more}; `{command}` makes what is missing"
            )
        if self._says_nothing:
            said.append("zoneMaps is not used with includeControl=true: zone maps say nothing about control records")
        return said

    def _usable(self, log: PartitionLog, directory: str) -> ZoneMap | None:
        try:
            found = read_zone_map(zone_map_path(directory, log.topic, log.partition))
        except ValueError as error:
            self._faults[log.topic_partition] = str(error)
            return None
        if found is None:
            self._missing.append(log.topic_partition)
            return None
        topic_id = None if found.topic_id is None else read_topic_id(log.directory)
        if topic_id is not None and topic_id != found.topic_id:
            fault = f"it was made of another topic of that name, of id {found.topic_id}, and this one's is {topic_id}"
            self._faults[log.topic_partition] = fault
            return None
        return found
