"""The tables whose rows lie in byte ranges of `.log` files: `records` and `batches`, and what makes their rows.

Planning needs only the columns and their types. What makes rows needs the kernels, so a task loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka_segment_source.option_values import BATCHES, NEWEST
from kafka_segment_source.option_values import RECORDS as RECORDS_VIEW
from kafka_segment_source.schema import BATCH_COLUMNS, RECORD_COLUMNS, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from kafka_segment_source.decoding.batches import Chunk
    from kafka_segment_source.decoding.scratch import Scratch
    from kafka_segment_source.decoding.split_file import SplitFile
    from kafka_segment_source.request import Content
    from kafka_segment_source.source import Source
    from kafka_segment_source.trust import Policy, Trust


class RowMaker(Protocol):
    """Makes the rows of one open split."""

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yields the wanted rows of a chunk, and the last offset of each Arrow batch. None is empty."""


class MakeRows(Protocol):
    """Makes the row maker of an open split. scratch: arrays for it alone."""

    def __call__(self, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch, /) -> RowMaker: ...


@dataclass(frozen=True)
class SplitTable(Table):
    """A table of rows in splits.

    load_maker: loads what makes the row maker of a split.
    """

    load_maker: Callable[[], MakeRows]


def _load_record_rows() -> MakeRows:
    from kafka_segment_source.decoding.record_rows import RecordRows

    return RecordRows


def _load_batch_rows() -> MakeRows:
    from kafka_segment_source.decoding.batch_rows import BatchRows

    return BatchRows


RECORDS = SplitTable(RECORD_COLUMNS, _load_record_rows)
SPLIT_TABLES: Mapping[str, SplitTable] = {
    RECORDS_VIEW: RECORDS,
    BATCHES: SplitTable(BATCH_COLUMNS, _load_batch_rows),
    NEWEST: RECORDS,
}
"""By the name of the view."""


class Reading(NamedTuple):
    """What a task must know beside its splits.

    source: where a file is looked for that was replaced, or another copy.
    policy: what is believed, and what happens with damage and loss.
    content: what a row is.
    table: what makes the rows.
    """

    source: Source
    policy: Policy
    content: Content
    table: SplitTable


def split_table(content: Content) -> SplitTable:
    """The table of a read whose rows lie in splits. That of records may have typed keys and values."""
    return SPLIT_TABLES[content.view] if content.typed is None else content.typed.table


def reads_headers_only(content: Content, trust: Trust) -> bool:
    """Whether a task needs no bytes of batches but their headers."""
    return content.view == BATCHES and not trust.check_crcs and not content.read_committed
