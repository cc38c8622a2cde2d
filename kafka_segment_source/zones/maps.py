"""The zone maps and the key filters that one plan uses, and one warning for each problem with them."""

from __future__ import annotations

import shlex
import threading
from functools import partial
from typing import TYPE_CHECKING

from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.reporting import Warnings, name_some
from kafka_segment_source.source import Source
from kafka_segment_source.zones.key_lookup import KeyFilters

if TYPE_CHECKING:
    from kafka_segment_source.zones.zone_table import ZoneMap

_MOST_NAMED = 5  # most partitions that one warning names
MOST_KEYS = 256
"""The most keys that filters are asked for. With an error of 0.6 % for each key, four of five zones would be read."""


def update_command(source: Source, zone_maps: str | None, keys: bool = False) -> str:
    """Returns the shell command that makes or renews the zone maps that a read could use. keys: with key filters."""
    named = [("--topic", source.topic), ("--partition", source.partition), ("--to", zone_maps or "DIR")]
    flags = [word for flag, value in named if value is not None for word in (flag, str(value))]
    return shlex.join(["kafkaseg", "zonemap", *source.paths, *flags, *(["--keys"] if keys else [])])


class ZoneMaps:
    """The zone maps that one plan uses. Each map is read once, and each problem is reported once."""

    def __init__(self, source: Source, directory: str | None, include_control: bool) -> None:
        """directory: of the maps, or None. include_control: whether the read wants control records: maps have none."""
        self._source = source
        self._directory = directory
        self._include_control = include_control
        self._read = threading.local()  # `of`: the partition and its map. Each thread plans another partition
        self._missing: list[TopicPartition] = []
        self._faults: dict[TopicPartition, str] = {}
        self._stale: dict[TopicPartition, set[str]] = {}
        self._says_nothing = False
        self._unfiltered: dict[TopicPartition, set[str]] = {}
        self._filter_faults: dict[TopicPartition, list[str]] = {}
        self._has_many_keys = False

    def of(self, log: PartitionLog) -> ZoneMap | None:
        """Returns the zone map of a partition, or None if there is none to use.

        Ask for all segments of one partition before the next one, in one thread.
        """
        if self._directory is None:
            return None
        if self._include_control:
            self._says_nothing = True
            return None
        read: tuple[TopicPartition | None, ZoneMap | None] = getattr(self._read, "of", (None, None))
        if read[0] != log.topic_partition:
            read = self._read.of = log.topic_partition, self._read_usable(log, self._directory)
        return read[1]

    def filters_of(self, log: PartitionLog, keys: frozenset[bytes]) -> KeyFilters | None:
        """Returns the key filters of a partition that has a zone map. None if filters say nothing of so many keys."""
        assert self._directory is not None
        if len(keys) > MOST_KEYS:
            self._has_many_keys = True
            return None
        from kafka_segment_source.zones.key_filters import filters_directory  # noqa: PLC0415  # it loads xxhash
        from kafka_segment_source.zones.zone_table import zone_map_path  # noqa: PLC0415  # it loads xxhash

        directory = filters_directory(zone_map_path(self._directory, log.topic, log.partition))
        return KeyFilters(directory, self._source.storage, keys, partial(self._note_filter, log))

    def _note_filter(self, log: PartitionLog, path: str, fault: str | None) -> None:
        """Notes a segment without key filters for all its zones. fault: why its file is not used, if there is one."""
        if fault is None:
            self._unfiltered.setdefault(log.topic_partition, set()).add(path)
        else:
            self._filter_faults.setdefault(log.topic_partition, []).append(f"{path!r}: {fault}")

    def note_stale(self, log: PartitionLog, path: str) -> None:
        """Notes a segment that the partition's map does not describe in its present state."""
        self._stale.setdefault(log.topic_partition, set()).add(path)

    def report_problems(self, warnings: Warnings) -> None:
        """Warns of each partition whose map could not be used. The sentence states the problem and the command that
        solves it."""
        command, directory = update_command(self._source, self._directory), self._directory
        warnings.add_all(
            [
                f"the zone map of partition {topic}-{partition} is not used: {fault}; `{command}` makes it again"
                for (topic, partition), fault in sorted(self._faults.items())
            ],
            "unusable zone map",
        )
        warnings.add_all(
            [
                f"the zone map of partition {topic}-{partition} is stale for {len(paths)} of its segments, which were compacted,"
                f" truncated or replaced since; `{command}` renews it"
                for (topic, partition), paths in sorted(self._stale.items())
            ],
            "stale zone map",
        )
        if self._missing:
            names = name_some([f"{topic}-{partition}" for topic, partition in sorted(self._missing)], _MOST_NAMED)
            warnings.add(f"{directory!r} (zoneMaps) holds no zone map of {names}; `{command}` makes what is missing")
        with_keys = update_command(self._source, self._directory, keys=True)
        warnings.add_all(
            [
                f"key filters of partition {topic}-{partition} are not used, {len(faults)} in all: {min(faults)};"
                f" `{with_keys}` makes them again"
                for (topic, partition), faults in sorted(self._filter_faults.items())
            ],
            "unusable key filters",
        )
        if self._unfiltered:
            count = sum(map(len, self._unfiltered.values()))
            warnings.add(
                f"{directory!r} (zoneMaps) lacks key filters of {count:,} of the segments, which are read whole;"
                f" `{with_keys}` makes what is missing"
            )
        if self._has_many_keys:
            warnings.add(f"key filters are not used for more than {MOST_KEYS} keys: most zones would seem to hold one")
        if self._says_nothing:
            warnings.add("zoneMaps is not used with includeControl=true: zone maps say nothing about control records")

    def _read_usable(self, log: PartitionLog, directory: str) -> ZoneMap | None:
        from kafka_segment_source.zones.zone_table import read_zone_map, zone_map_path  # noqa: PLC0415  # it loads xxhash

        try:
            zone_map = read_zone_map(zone_map_path(directory, log.topic, log.partition), self._source.storage)
        except ValueError as error:
            self._faults[log.topic_partition] = str(error)
            return None
        if zone_map is None:
            self._missing.append(log.topic_partition)
            return None
        topic_id = None if zone_map.topic_id is None else read_topic_id(log.directory, log.storage)
        if topic_id is not None and topic_id != zone_map.topic_id:
            fault = (
                f"it was made of another topic of that name, of id {zone_map.topic_id}, and this one's is {topic_id}"
            )
            self._faults[log.topic_partition] = fault
            return None
        return zone_map
