"""The whole way on one page: a plan's splits → record batches, without Spark. Spark's tasks walk the second half."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafka_segment_source.decoding.arrow import to_record_batch
from kafka_segment_source.decoding.records import Decoder
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.options import PathsLike, ReadOptions, option_texts, parse_options
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reading.following import Follower
from kafka_segment_source.reading.mending import damage_in
from kafka_segment_source.reading.transactions import committed_chunks
from kafka_segment_source.reporting import logger
from kafka_segment_source.schema import arrow_schema, check_column_names, default_columns


def read_split(split: SegmentSplit, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one split as batches of exactly `schema`, in offset order, none of them empty.

    Raises DataError for damage, and DataLossError for what is no longer there; failOnDataLoss=false logs the latter.
    """
    follower = Follower(split, options, microseconds="timestamp" in schema.names)
    try:
        yield from follower.run(lambda part: _read(part, options, schema, follower))
    except DataLossError as error:
        if options.fail_on_data_loss:
            raise
        logger.warning("%s; going on without it (failOnDataLoss=false)", error)


def _read(split: SegmentSplit, options: ReadOptions, schema: pa.Schema, follower: Follower) -> Iterator[pa.RecordBatch]:
    damage = damage_in(split, options)
    limit = options.max_batch_bytes
    with SplitFile(split, check_crcs=options.check_crcs, max_batch_bytes=limit, damage=damage) as source:
        decoder = Decoder(
            split,
            check_crcs=options.check_crcs,
            max_batch_bytes=limit,
            include_control=options.include_control,
            damage=damage,
            microseconds="timestamp" in schema.names,
        )
        chunks = source.chunks()
        if options.read_committed:
            chunks = committed_chunks(chunks, source, options)
        for chunk in chunks:
            for records in decoder.decode(chunk):
                last = int(records.longs[OFFSET, records.count - 1])
                yield to_record_batch(records, split, schema)
                follower.took(last)
            follower.passed(source)
        source.finish()
        follower.ended(source)


def scan(path: PathsLike, columns: list[str] | None = None, **options: object) -> pa.RecordBatchReader:
    """The records under `path` as a pyarrow.RecordBatchReader, read lazily, one batch in memory at a time.

    path: as the option `path`, or a list of such; columns: names of the columns wanted, in order (all by default);
    options: those of the README under their own names, with Python values (since=datetime(…, tzinfo=UTC),
    includeHeaders=True). Segments follow one another by topic, partition and offset. Raises UsageError at once for
    what cannot be meant, DataError from the reader for damaged data.
    """
    parsed, warnings = parse_options(option_texts(path, options))
    names = default_columns(parsed.include_headers, parsed.include_metadata) if columns is None else tuple(columns)
    schema = arrow_schema(check_column_names(names))
    plan = make_plan(parsed, warnings)
    for warning in plan.warnings:
        logger.warning("%s", warning)
    batches = (batch for split in plan.splits for batch in read_split(split, parsed, schema))
    return pa.RecordBatchReader.from_batches(schema, batches)
