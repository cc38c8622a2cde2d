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

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.record_rows import KeepRecords, RecordRows, keep_wanted
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import Reading, SplitTable
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.kernels import batch_headers, offset_map
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.latest.offset_map import OffsetMap
from kafka_segment_source.reporting import REMARK, logger
from kafka_segment_source.request import Content
from kafka_segment_source.schema import RECORD_COLUMNS

Offsets = npt.NDArray[np.int64]
ChooseBatches = Callable[[Chunk], Chunk]

_NO_COLUMNS = pa.schema([])


class ReadSplit(Protocol):
    """Reads the rows of one split, as `scanning.read_split` does. choose: leaves out batches without a wanted row."""

    def __call__(
        self, split: SegmentSplit, reading: Reading, schema: pa.Schema, *, choose: ChooseBatches | None = None
    ) -> Iterator[pa.RecordBatch]: ...


def read_newest(
    splits: Iterable[SegmentSplit],
    reading: Reading,
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
        the_map = OffsetMap(reading.content.offset_map_bytes)
        is_first = True
        while the_map.has_more:
            without_key = _note_all(parts, reading, the_map, read_split)
            if without_key and is_first:
                logger.warning(
                    "%s-%d has %s without a key: they are in no row of view=latest",
                    *(topic, partition, f"{without_key:,} {'record' if without_key == 1 else 'records'}"),
                    extra=REMARK,
                )
            newest = the_map.take_newest(reading.content.include_tombstones)
            yield from _read_offsets(parts, reading, schema, newest, read_split, advance if is_first else _ignore)
            is_first = False


def _ignore(_: int) -> None: ...


def _note_all(splits: Sequence[SegmentSplit], reading: Reading, the_map: OffsetMap, read_split: ReadSplit) -> int:
    """Notes every record of the splits in the map. Returns how many have no key."""
    without_key = 0

    def note(records: RecordColumns) -> None:
        nonlocal without_key
        without_key += the_map.note(records)

    table = SplitTable(RECORD_COLUMNS, lambda: partial(_NotedRows, note))
    content = reading.content._replace(typed=None)  # a key is the bytes that are stored
    noting = reading._replace(content=content, table=table)
    for split in reversed(splits):  # later segments first, so that most entries are written once
        for _ in read_split(split, noting, _NO_COLUMNS):
            pass  # it makes no rows
    return without_key


class _NotedRows:
    """Notes the records of each chunk, and makes no rows of them (a `RowMaker`)."""

    def __init__(
        self,
        note: Callable[[RecordColumns], None],
        source: SplitFile,
        content: Content,
        schema: pa.Schema,
        scratch: Scratch,
    ) -> None:
        self._note = note
        self._decoder = source.decoder(content.include_control, False, scratch, keep_wanted(content.raw_keys))

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for records in self._decoder.decode(chunk):
            self._note(records)
        yield from ()


def _read_offsets(
    splits: Sequence[SegmentSplit],
    reading: Reading,
    schema: pa.Schema,
    wanted: Offsets,
    read_split: ReadSplit,
    advance: Callable[[int], None],
) -> Iterator[pa.RecordBatch]:
    """Yields the records with these offsets. A split without any is not read again. wanted: sorted.

    Raises FileChangedError at the end if one of them is gone. failOnDataLoss=false logs it.
    """
    read_schema = schema
    if reading.content.typed is None:
        keep = partial(_keep_newest, wanted, keep_wanted(reading.content.raw_keys))
        reading = reading._replace(table=SplitTable(RECORD_COLUMNS, lambda: partial(RecordRows, keep=keep)))
    elif "offset" not in schema.names:
        read_schema = schema.append(pa.field("offset", pa.int64()))
    returned = 0
    for split in splits:
        first, after = np.searchsorted(wanted, [split.start_offset, _limit_of(split)])
        if first < after:
            end = min(split.bounds.offsets.end, int(wanted[after - 1]) + 1)
            bounds = split.bounds._replace(offsets=OffsetRange(split.bounds.offsets.start, end))
            choose = partial(_choose_batches, wanted=wanted)
            for batch in read_split(split._replace(bounds=bounds), reading, read_schema, choose=choose):
                newest = batch if reading.content.typed is None else _take_newest(wanted, batch).select(schema.names)
                returned += newest.num_rows
                if newest.num_rows:
                    yield newest
        advance(split.size)
    if returned < len(wanted) and reading.content.typed_keys is None:
        lost = f"{len(wanted) - returned:,} of the newest records of {splits[0].topic}-{splits[0].partition}"
        error = FileChangedError(
            f"view=latest: {lost} were there when its keys were read, and are gone: files were replaced meanwhile, as a"
            " log cleaner does",
            "read again, or give failOnDataLoss=false to read what is left",
        )
        report_lost_rows(error, reading.policy)


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


def _limit_of(split: SegmentSplit) -> int:
    return kafka_format.MAX_OFFSET if split.end_offset is None else split.end_offset


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
