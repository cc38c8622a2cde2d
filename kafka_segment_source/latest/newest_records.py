"""Reads the newest record of each key: a pass over keys and offsets, and one over the batches that hold the newest.

The log cleaner does the same (`LogCleaner`): it builds its offset map from the log, and then keeps each record whose
offset is the one of the map. With more keys than the map takes, there are two passes for each part of the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.arrow import IS_TOMBSTONE
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.latest.offset_map import OffsetMap
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import logger

Offsets = npt.NDArray[np.int64]
ChooseBatches = Callable[[Chunk], Chunk]

_NOTED = pa.schema([pa.field("key", pa.binary()), pa.field("offset", pa.int64()), pa.field(IS_TOMBSTONE, pa.bool_())])


class ReadSplit(Protocol):
    """Reads the rows of one split, as `scanning.read_split` does. choose: leaves out batches without a wanted row."""

    def __call__(
        self, split: SegmentSplit, options: ReadOptions, schema: pa.Schema, *, choose: ChooseBatches | None = None
    ) -> Iterator[pa.RecordBatch]: ...


def read_newest(
    splits: Iterable[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None],
    read_split: ReadSplit,
) -> Iterator[pa.RecordBatch]:
    """Yields the newest record of each key, by partition, in offset order. A record without a key is never one.

    splits: all of each partition, one partition after another. schema: of the rows. advance: is called with the size
    of each split that is done. With more keys than fit into the map, rows come in the order of the parts of the keys,
    and of their offsets in each part.
    """
    for (topic, partition), of_partition in groupby(splits, key=lambda split: (split.topic, split.partition)):
        parts = tuple(of_partition)
        offset_map = OffsetMap(options.offset_map_bytes)
        is_first = True
        while offset_map.has_more:
            without_key = _note_all(parts, options, offset_map, read_split)
            if without_key and is_first:
                logger.warning(
                    "%s-%d has %s without a key: they are in no row of view=latest",
                    *(topic, partition, f"{without_key:,} {'record' if without_key == 1 else 'records'}"),
                )
            newest = offset_map.take_newest(options.include_tombstones)
            yield from _read_offsets(parts, options, schema, newest, read_split, advance if is_first else _ignore)
            is_first = False


def _ignore(_: int) -> None: ...


def _note_all(
    splits: Sequence[SegmentSplit], options: ReadOptions, offset_map: OffsetMap, read_split: ReadSplit
) -> int:
    """Notes every record of the splits in the map. Returns how many have no key."""
    as_bytes = options if options.typed is None else replace(options, typed=None)  # a key is the bytes that are stored
    without_key = 0
    for split in reversed(splits):  # later segments first, so that most entries are written once
        for batch in read_split(split, as_bytes, _NOTED):
            missing = batch.column("key").null_count
            without_key += missing
            keyed = batch.filter(pc.is_valid(batch.column("key"))) if missing else batch
            offset_map.note(*keyed.columns)
    return without_key


def _read_offsets(
    splits: Sequence[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    wanted: Offsets,
    read_split: ReadSplit,
    advance: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Yields the records with these offsets. A split without any is not read again. wanted: sorted.

    Raises FileChangedError at the end if one of them is gone. failOnDataLoss=false logs it.
    """
    with_offset = schema if "offset" in schema.names else schema.append(pa.field("offset", pa.int64()))
    returned = 0
    for split in splits:
        first, after = np.searchsorted(wanted, [split.start_offset, _limit_of(split)])
        if first < after:
            end = min(split.bounds.offsets.end, int(wanted[after - 1]) + 1)
            bounds = split.bounds._replace(offsets=OffsetRange(split.bounds.offsets.start, end))
            choose = partial(_choose_batches, wanted=wanted)
            for batch in read_split(split._replace(bounds=bounds), options, with_offset, choose=choose):
                kept = batch.filter(pa.array(_holds(wanted, batch.column("offset").to_numpy())))
                returned += kept.num_rows
                if kept.num_rows:
                    yield kept.select(schema.names)
        advance(split.size)
    if returned < len(wanted) and options.typed_keys is None:
        lost = f"{len(wanted) - returned:,} of the newest records of {splits[0].topic}-{splits[0].partition}"
        error = FileChangedError(
            f"view=latest: {lost} were there when its keys were read, and are gone: files were replaced meanwhile, as a"
            " log cleaner does; read again, or give failOnDataLoss=false to read what is left"
        )
        report_lost_rows(error, options)


def _limit_of(split: SegmentSplit) -> int:
    return kafka_format.MAX_OFFSET if split.end_offset is None else split.end_offset


def _holds(wanted: Offsets, offsets: Offsets) -> npt.NDArray[np.bool_]:
    """Whether each offset is a wanted one. There is at least one of these."""
    places = np.minimum(np.searchsorted(wanted, offsets), len(wanted) - 1)
    return np.equal(wanted[places], offsets)


def _choose_batches(chunk: Chunk, wanted: Offsets) -> Chunk:
    """Leaves out the batches that hold no wanted offset. A wrapper states only its last offset, so it stays."""
    headers = chunk.headers
    first = np.searchsorted(wanted, headers[batch_headers.BASE_OFFSET])
    after = np.searchsorted(wanted, headers[batch_headers.LAST_OFFSET], side="right")
    chosen = (first < after) | (headers[batch_headers.MAGIC] != kafka_format.MAGIC_V2)
    return chunk if chosen.all() else replace(chunk, headers=np.ascontiguousarray(headers[:, chosen]))
