"""Reads the newest record of each key: a pass over keys and offsets, and one over the batches that hold the newest.

The log cleaner does the same (`LogCleaner`): it builds its offset map from the log, and then keeps each record whose
offset is the one of the map. With more keys than the map takes, there are two passes for each part of the keys.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.record_rows import KeepRecords, RecordRows, keep_wanted
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import Reading, RowMaker, SplitTable
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.kernels import batch_headers, offset_map
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.latest.hashed_keys import SCHEMA, hashes_of, read_hashes
from kafka_segment_source.latest.offset_map import OffsetMap
from kafka_segment_source.reporting import REMARK, logger
from kafka_segment_source.request import Content
from kafka_segment_source.schema import RECORD_COLUMNS

Offsets = npt.NDArray[np.int64]

_secret = np.frombuffer(secrets.token_bytes(16), np.uint64).copy()


class ReadSplits(Protocol):
    """Reads the rows of splits, one split after another, as `scanning.read_splits` does for records."""

    def __call__(
        self,
        splits: Sequence[SegmentSplit],
        reading: Reading,
        schema: pa.Schema,
        advance: Callable[[int], None],
    ) -> Iterator[pa.RecordBatch]: ...


def read_newest(
    splits: Iterable[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    advance: Callable[[int], None],
    read_splits: ReadSplits,
) -> Iterator[pa.RecordBatch]:
    """Yields the newest record of each key, by partition, in offset order. A record without a key is never one.

    splits: all of each partition, one partition after another. schema: of the rows. advance: is called with the size
    of each split that is done. With more keys than fit into the map, rows come in the order of the parts of the keys,
    and of their offsets in each part.
    """
    for (topic, partition), of_partition in groupby(splits, key=lambda split: (split.topic, split.partition)):
        parts = tuple(of_partition)
        the_map = OffsetMap(reading.content.offset_map_bytes)
        is_first = True
        while the_map.has_more:
            without_key = _note_all(parts, reading, the_map, read_splits)
            if without_key and is_first:
                logger.warning(
                    "%s-%d has %s without a key: they are in no row of view=latest",
                    *(topic, partition, f"{without_key:,} {'record' if without_key == 1 else 'records'}"),
                    extra=REMARK,
                )
            newest = the_map.take_newest(reading.content.include_tombstones)
            yield from _read_offsets(parts, reading, schema, newest, read_splits, advance if is_first else _ignore)
            is_first = False


def _ignore(_: int) -> None: ...


def _note_all(splits: Sequence[SegmentSplit], reading: Reading, the_map: OffsetMap, read_splits: ReadSplits) -> int:
    """Notes every record of the splits in the map. Returns how many have no key."""
    without_key = 0
    noting = reading._replace(
        content=reading.content._replace(typed=None), table=hashes_of(_secret)
    )  # a key is the bytes that are stored
    later_first = splits[::-1]  # so that most entries are written once
    for batch in read_splits(later_first, noting, SCHEMA, _ignore):
        hashed = read_hashes(batch)
        the_map.note(hashed)
        without_key += hashed.without_key
    return without_key


def _read_offsets(
    splits: Sequence[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    wanted: Offsets,
    read_splits: ReadSplits,
    advance: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Yields the records with these offsets. A split without any is not read again. wanted: sorted.

    Raises FileChangedError at the end if one of them is gone. failOnDataLoss=false logs it.
    """
    kept = []
    for split in splits:
        first, after = np.searchsorted(wanted, [split.start_offset, split.span.end])
        if first < after:
            end = min(split.bounds.offsets.end, int(wanted[after - 1]) + 1)
            offsets = OffsetRange(split.bounds.offsets.start, end)
            kept.append(split._replace(bounds=split.bounds._replace(offsets=offsets)))
        else:
            advance(split.size)
    table = SplitTable(RECORD_COLUMNS, lambda: partial(_NewestRows, wanted))
    returned = 0
    for batch in read_splits(kept, reading._replace(table=table), schema, advance):
        returned += batch.num_rows
        yield batch
    if returned < len(wanted) and reading.content.typed_keys is None:
        lost = f"{len(wanted) - returned:,} of the newest records of {splits[0].topic}-{splits[0].partition}"
        error = FileChangedError(
            f"view=latest: {lost} were there when its keys were read, and are gone: files were replaced meanwhile, as a"
            " log cleaner does",
            "read again, or give failOnDataLoss=false to read what is left",
        )
        report_lost_rows(error, reading.policy)


class _NewestRows:
    """Makes the rows of the records with a wanted offset (a `RowMaker`). wanted: sorted."""

    def __init__(
        self, wanted: Offsets, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch
    ) -> None:
        self._wanted = wanted
        self._names = schema.names
        self._is_typed = content.typed is not None
        self._maker: RowMaker
        if content.typed is None:
            keep = partial(_keep_newest, wanted, keep_wanted(content.raw_keys))
            self._maker = RecordRows(source, content, schema, scratch, keep=keep)
        else:
            if "offset" not in schema.names:
                schema = schema.append(pa.field("offset", pa.int64()))
            self._maker = content.typed.table.load_maker()(source, content, schema, scratch)

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch, last in self._maker.rows(_choose_batches(chunk, self._wanted)):
            newest = _take_newest(self._wanted, batch).select(self._names) if self._is_typed else batch
            if newest.num_rows:
                yield newest, last


def _keep_newest(wanted: Offsets, keep: KeepRecords | None, records: RecordColumns) -> RecordColumns:
    """Returns the records with a wanted offset, and what else they must have (`keep`), in the same arrays."""
    if keep is not None:
        records = keep(records)
    if not records.count:
        return records
    sizes = np.empty(2, np.int64)
    at = int(np.searchsorted(wanted, records.longs[OFFSET, 0]))
    count: int = offset_map.keep_offsets(wanted, at, records.longs, records.ints, records.count, sizes)
    return replace(records, count=count, key_bytes=int(sizes[0]), value_bytes=int(sizes[1]))


def _take_newest(wanted: Offsets, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows with a wanted offset. There is at least one of these."""
    offsets = batch.column("offset").to_numpy()
    places = np.minimum(np.searchsorted(wanted, offsets), len(wanted) - 1)
    return batch.filter(pa.array(np.equal(wanted[places], offsets)))


def _choose_batches(chunk: Chunk, wanted: Offsets) -> Chunk:
    """Leaves out the batches that hold no wanted offset. A wrapper states only its last offset, so it stays."""
    headers = chunk.headers
    first = np.searchsorted(wanted, headers[batch_headers.BASE_OFFSET])
    after = np.searchsorted(wanted, headers[batch_headers.LAST_OFFSET], side="right")
    chosen = (first < after) | (headers[batch_headers.MAGIC] != kafka_format.MAGIC_V2)
    return chunk if chosen.all() else replace(chunk, headers=np.ascontiguousarray(headers[:, chosen]))
