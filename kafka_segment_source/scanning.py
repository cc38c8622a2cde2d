"""Reads splits as record batches. This one page has all steps of a task. Spark's tasks and `ReadPlan.to_reader` use
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_rows
from kafka_segment_source.decoding.arrow import to_record_batch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import RECORDS
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reading.committed import committed_chunks
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.reading.mending import damage_in


def read_splits(
    splits: Iterable[SegmentSplit],
    options: ReadOptions,
    schema: pa.Schema,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of splits, one split after another. It opens a split only when a row of it is needed.

    advance: is called with the size of each split that is done.
    """
    for split in splits:
        yield from read_split(split, options, schema)
        advance(split.size)


def read_split(split: SegmentSplit, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one split as batches of exactly `schema`, in offset order. No batch is empty.

    Raises DataError for damage, and DataLossError for records that no longer exist. failOnDataLoss=false logs the
    latter.
    """
    follower = Follower(split, options, microseconds="timestamp" in schema.names)
    try:
        yield from follower.run(lambda part: _read_part(part, options, schema, follower))
    except DataLossError as error:
        report_lost_rows(error, options)


def _read_part(
    split: SegmentSplit, options: ReadOptions, schema: pa.Schema, follower: Follower
) -> Iterator[pa.RecordBatch]:
    damage = damage_in(split, options)
    builders = RECORDS.load_builders()
    with SplitFile(split, options.trust, damage) as source:
        decoder = source.decoder(options.include_control, microseconds="timestamp" in schema.names)
        chunks = source.chunks()
        if options.read_committed:
            chunks = committed_chunks(chunks, source, options)
        for chunk in chunks:
            for records in decoder.decode(chunk):
                last = int(records.longs[OFFSET, records.count - 1])
                yield to_record_batch(records, split, schema, builders)
                follower.note_returned(last)
            follower.note_passed(source)
        source.finish()
        follower.note_end(source)
