"""The rows of records: chunks of one split → Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from kafka_segment_source.decoding.arrow import RECORD_BUILDERS, to_record_batch
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.row_builder import RowBuilder
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.kernels.record_batches import OFFSET
from kafka_segment_source.request import Content

KeepRecords = Callable[[RecordColumns], RecordColumns]


def keep_wanted(raw_keys: frozenset[bytes] | None) -> KeepRecords | None:
    """Returns what keeps the records with a wanted key. None where all are wanted."""
    if raw_keys is None:
        return None
    from kafka_segment_source.decoding.wanted_keys import find_wanted  # noqa: PLC0415  # most reads want all keys

    return find_wanted(raw_keys).keep


class RecordRows:
    """Decodes the wanted records of each chunk (a `RowMaker`)."""

    def __init__(
        self,
        source: SplitFile,
        content: Content,
        schema: pa.Schema,
        scratch: Scratch,
        *,
        keep: KeepRecords | None = None,
    ) -> None:
        """keep: as `Decoder` takes it. None: what the content says."""
        self._split = source.split
        self._schema = schema
        keep = keep or keep_wanted(content.raw_keys)
        self._decoder = source.decoder(content.include_control, "timestamp" in schema.names, scratch, keep)
        builds = keep is None and RowBuilder.can_make(schema)
        self._builder = RowBuilder(source.split, self._decoder, schema, scratch) if builds else None

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for group in self._decoder.groups(chunk):
            if self._builder is not None and not group.is_message_set:
                yield from self._builder.rows(group)
            else:
                for records in self._decoder.decode_group(group):
                    last = int(records.longs[OFFSET, records.count - 1])
                    yield to_record_batch(records, self._split, self._schema, RECORD_BUILDERS), last
