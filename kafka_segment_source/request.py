"""What a read asks for: what a row is, from when to when, how Spark partitions are cut, and the pace of a stream.

Where the files are is in `source.py`, and what is believed of them in `trust.py`. Each value is made once from the
options. A function takes those that it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT, TimeRange, intersect_sets
from kafka_segment_source.option_values import (
    BINARY,
    EARLIEST,
    FAILFAST,
    LATEST,
    PERMISSIVE,
    RECORDS,
    OffsetLimit,
    TopicPartition,
)

if TYPE_CHECKING:
    from kafka_segment_source.values.typed import TypedColumns

Offsets = Mapping[TopicPartition, int]


class Content(NamedTuple):
    """What a row is.

    view: the name of its table.
    keys: of the wanted records (key); all are bytes, or all are texts of typed keys. None: any.
    read_committed: whether rows of aborted and open transactions are left out (isolationLevel).
    include_headers, include_metadata: whether there are these columns by default.
    include_control: whether control records are rows.
    include_tombstones: whether view=latest has keys whose newest value is null.
    offset_map_bytes: memory for the keys of a partition, for view=latest.
    proves_entries: whether views of index files say of each entry if the log bears it out (checkCrcs).
    history: whether views of internal topics have every record, not the latest state.
    typed: the columns of keys and values, where these are not bytes (`schema_registry/resolving.py`).
    """

    view: str = RECORDS
    keys: frozenset[str | bytes] | None = None
    read_committed: bool = False
    include_headers: bool = False
    include_metadata: bool = False
    include_control: bool = False
    include_tombstones: bool = False
    offset_map_bytes: int = 0
    proves_entries: bool = False
    history: bool = False
    typed: TypedColumns | None = None

    @property
    def raw_keys(self) -> frozenset[bytes] | None:
        """The only stored keys that are wanted. None: any, or those of `typed_keys`."""
        if self.keys is None or self.typed_keys is not None:
            return None
        return frozenset(key for key in self.keys if isinstance(key, bytes))

    @property
    def typed_keys(self) -> frozenset[str] | None:
        """The only keys that are wanted, as texts of typed values. None: any, or those of `raw_keys`."""
        return frozenset(key for key in self.keys or () if isinstance(key, str)) or None

    def with_keys(self, pushed: frozenset[bytes] | None) -> Content:
        """Returns the content of those rows that have one of the `pushed` keys too. None: all of them."""
        if pushed is None or self.typed_keys is not None:
            return self
        return self._replace(keys=intersect_sets(self.raw_keys, pushed))


class Formats(NamedTuple):
    """What keys and values are, as the options say it.

    key, value: keyFormat and valueFormat.
    schemas: where schemas are. None: topic `_schemas` in the same paths.
    key_schema, value_schema: what keys and values are read as.
    context: of the registry (schemaContext).
    mode: valueMode.
    corrupt: columnNameOfCorruptRecord.
    """

    key: str = BINARY
    value: str = BINARY
    schemas: str | None = None
    key_schema: str = ""
    value_schema: str = ""
    context: str = ""
    mode: str = FAILFAST
    corrupt: str = ""

    @property
    def are_binary(self) -> bool:
        """Whether keys and values are bytes."""
        return self.key == self.value == BINARY

    @property
    def corrupt_column(self) -> str | None:
        """The corrupt column, or None where what does not fit ends the query."""
        return self.corrupt if self.mode == PERMISSIVE else None

    def of(self, column: str) -> tuple[str, str]:
        """Returns the format and the schema of a column, `key` or `value`."""
        return (self.key, self.key_schema) if column == "key" else (self.value, self.value_schema)


class ReadBounds(NamedTuple):
    """From when to when a read goes. Times are epoch ms.

    since, until: None: unbounded.
    time_zone: of times written without one.
    disorder: timestampDisorder, ms. `Policy.disorder` is what a reader may rely on.
    zone_maps: the absolute path of a directory, or None.
    starting_offsets, ending_offsets: by partition, or one for all.
    starting_timestamp, ending_timestamp: for all partitions, or None.
    starting_offsets_by_timestamp, ending_offsets_by_timestamp: timestamps by partition, or None.
    start_at_latest_if_no_match: whether a start that no record reaches is the end of the log, and no error
        (startingOffsetsByTimestampStrategy).
    """

    since: int | None = None
    until: int | None = None
    time_zone: str = "UTC"
    disorder: int | None = None
    zone_maps: str | None = None
    starting_offsets: Offsets | int = EARLIEST
    ending_offsets: Offsets | int = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_offsets_by_timestamp: Offsets | None = None
    ending_offsets_by_timestamp: Offsets | None = None
    start_at_latest_if_no_match: bool = False

    @property
    def times(self) -> TimeRange:
        return TimeRange(
            MIN_TIMESTAMP if self.since is None else self.since,
            TIMESTAMP_LIMIT if self.until is None else self.until,
        )

    @property
    def starting(self) -> OffsetLimit:
        by_timestamp = self.starting_offsets_by_timestamp
        return _make_limit("starting", self.starting_timestamp, by_timestamp, self.starting_offsets)

    @property
    def ending(self) -> OffsetLimit:
        return _make_limit("ending", self.ending_timestamp, self.ending_offsets_by_timestamp, self.ending_offsets)

    def without_start(self) -> ReadBounds:
        """Returns the bounds of a read that starts at the beginning of each log."""
        return self._replace(starting_offsets=EARLIEST, starting_timestamp=None, starting_offsets_by_timestamp=None)

    def start_of(self, is_wanted: Callable[[TopicPartition], bool]) -> ReadBounds:
        """Returns the bounds with the starts of some partitions alone."""
        offsets, by_time = self.starting_offsets, self.starting_offsets_by_timestamp
        return self._replace(
            starting_offsets=offsets if isinstance(offsets, int) else _keep(offsets, is_wanted),
            starting_offsets_by_timestamp=None if by_time is None else _keep(by_time, is_wanted),
        )


def _keep(offsets: Offsets, is_wanted: Callable[[TopicPartition], bool]) -> Offsets:
    return {key: number for key, number in offsets.items() if is_wanted(key)}


def _make_limit(side: str, timestamp: int | None, by_timestamp: Offsets | None, offsets: Offsets | int) -> OffsetLimit:
    """Makes the limit where a scan starts or ends, by the precedence in `options.py`. side: "starting" or "ending"."""
    if timestamp is not None:
        return OffsetLimit(f"{side}Timestamp", timestamp, by_time=True)
    if by_timestamp is not None:
        return OffsetLimit(f"{side}OffsetsByTimestamp", None, by_timestamp, by_time=True)
    if isinstance(offsets, int):
        return OffsetLimit(f"{side}Offsets", offsets)
    return OffsetLimit(f"{side}Offsets", None, offsets)


class Cutting(NamedTuple):
    """How Spark partitions are cut.

    min_partitions: at least this many (minPartitions). None: one a segment.
    max_records: the most of one (maxRecordsPerPartition). None: unlimited.
    pack_bytes: neighbouring small segments share one up to this size (packBytes).
    """

    min_partitions: int | None = None
    max_records: int | None = None
    pack_bytes: int = 0


class Pace(NamedTuple):
    """How much a stream takes at a time.

    most_offsets, most_bytes: of a micro-batch, over all partitions. None: no limit.
    least_offsets: a micro-batch waits for this many. None: it does not wait.
    longest_wait: ms; after it, a micro-batch takes what is there.
    """

    most_offsets: int | None = None
    most_bytes: int | None = None
    least_offsets: int | None = None
    longest_wait: int = 0

    @property
    def names(self) -> list[str]:
        """The options that set limits."""
        values = {
            "maxOffsetsPerTrigger": self.most_offsets,
            "maxBytesPerTrigger": self.most_bytes,
            "minOffsetsPerTrigger": self.least_offsets,
        }
        return [name for name, value in values.items() if value is not None]
