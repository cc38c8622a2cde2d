"""Facts of blocks → the statistics of a topic."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kafka_segment_source.statistics.blocks import SUMS
from kafka_segment_source.statistics.distinct import STANDARD_ERROR, Distinct
from kafka_segment_source.statistics.heavy import COUNTERS, Heaviest

MOST_IDS = 10_000  # of header names, producers and schemas that are told apart; all further ones are one


@dataclass(slots=True)
class Share:
    """Records (or headers) of one kind, and their bytes."""

    records: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """A record, by the bytes of its key, value and headers.

    key: cut to 256 bytes.
    """

    partition: int
    offset: int
    size: int
    key: bytes | None


@dataclass(slots=True)
class Shares:
    """Shares by an id: the first MOST_IDS of them, and all others together."""

    of: dict[Hashable, Share] = field(default_factory=dict)
    others: Share = field(default_factory=Share)

    def add(self, key: Hashable, records: int, size: int) -> None:
        share = self.of.get(key)
        if share is None:
            share = self.of.setdefault(key, Share()) if len(self.of) < MOST_IDS else self.others
        share.records += records
        share.size += size

    def ordered(self) -> list[tuple[Any, Share]]:
        """The shares by their bytes, largest first."""
        return sorted(self.of.items(), key=lambda item: (-item[1].size, str(item[0])))


@dataclass(slots=True)
class TopicStats:
    """The statistics of one topic. All of `sums` are exact (`blocks.SUMS`), and so are the shares.

    by_records, by_bytes: the heaviest keys.
    largest: the largest records, largest first.
    producers: by id, -1 for those without one.
    key_schemas, value_schemas: by the id in Confluent's prefix; bytes that only look like it count too.
    """

    topic: str
    most: int
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SUMS, 0))
    by_records: Heaviest = field(default_factory=Heaviest)
    by_bytes: Heaviest = field(default_factory=Heaviest)
    largest: list[LargeRecord] = field(default_factory=list)
    header_names: Shares = field(default_factory=Shares)
    producers: Shares = field(default_factory=Shares)
    key_schemas: Shares = field(default_factory=Shares)
    value_schemas: Shares = field(default_factory=Shares)
    _distinct: Distinct = field(default_factory=Distinct)

    @property
    def distinct_keys(self) -> int:
        """About how many different keys there are; the standard error is 0.81 % (`distinct.STANDARD_ERROR`)."""
        return self._distinct.estimate()

    def to_dict(self) -> dict[str, Any]:
        """The statistics as `kafkaseg stats --json` prints them. Bytes of keys that are not UTF-8 are escaped."""
        return {
            "topic": self.topic,
            **self.sums,
            "distinctKeys": self.distinct_keys,
            "distinctKeysStandardError": round(STANDARD_ERROR, 4),
            "heaviestKeysByRecords": _heavy_dicts(self.by_records, self.most),
            "heaviestKeysByBytes": _heavy_dicts(self.by_bytes, self.most),
            "largestRecords": [
                {
                    "partition": record.partition,
                    "offset": record.offset,
                    "bytes": record.size,
                    "key": None if record.key is None else as_text(record.key),
                }
                for record in self.largest
            ],
            "headerNames": _share_dicts(self.header_names, "name", "headers"),
            "producers": _share_dicts(self.producers, "producerId", "records"),
            "keySchemas": _share_dicts(self.key_schemas, "schemaId", "records"),
            "valueSchemas": _share_dicts(self.value_schemas, "schemaId", "records"),
        }


def add_block(stats: TopicStats, row: pa.RecordBatch) -> None:
    """Adds the facts of a block: one row of `blocks.block_table`."""
    for name in SUMS:
        stats.sums[name] += row.column(name)[0].as_py()
    stats._distinct.add(_values(row, "hashes").to_numpy(zero_copy_only=False))
    for heaviest, name, error in (
        (stats.by_records, "heavyByRecords", "recordsError"),
        (stats.by_bytes, "heavyByBytes", "bytesError"),
    ):
        hashes, weights, keys = _values(row, name).flatten()
        heaviest.add(_to_numpy(hashes), _to_numpy(weights), keys, row.column(error)[0].as_py())
    for shares, name in (
        (stats.header_names, "headerNames"),
        (stats.producers, "producers"),
        (stats.key_schemas, "keySchemas"),
        (stats.value_schemas, "valueSchemas"),
    ):
        for value in _values(row, name).to_pylist():
            shares.add(value["id"], value["records"], value["bytes"])
    _add_largest(stats, _values(row, "largest"))


def _add_largest(stats: TopicStats, largest: pa.Array) -> None:
    if len(stats.largest) == stats.most and not any(_to_numpy(largest.field("size")) >= stats.largest[-1].size):
        return
    records = [LargeRecord(*fields.values()) for fields in largest.to_pylist()]
    ordered = sorted(stats.largest + records, key=lambda record: (-record.size, record.partition, record.offset))
    stats.largest = ordered[: stats.most]


def as_text(data: bytes) -> str:
    """Bytes as text, with `\\\\xff` for what is not UTF-8."""
    return data.decode("utf-8", "backslashreplace")


def _heavy_dicts(heaviest: Heaviest, most: int) -> dict[str, Any]:
    keys = [{"key": as_text(key), "atLeast": weight} for key, weight in heaviest.top(most)]
    return {"keys": keys, "error": heaviest.error, "counters": COUNTERS}


def _share_dicts(shares: Shares, name: str, counted: str) -> dict[str, Any]:
    def make(share: Share) -> dict[str, int]:
        return {counted: share.records, "bytes": share.size}

    rows = [{name: as_text(key) if isinstance(key, bytes) else key, **make(share)} for key, share in shares.ordered()]
    return {"found": rows, "others": make(shares.others)}


def _values(row: pa.RecordBatch, name: str) -> pa.Array:
    return row.column(name).flatten()


def _to_numpy(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)
