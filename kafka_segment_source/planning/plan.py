"""ReadPlan: what a scan reads, what it leaves out and why. A plan can be printed, written as JSON and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.decoding.tables import Reading, SplitTable, reads_headers_only, split_table
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.in_order import count_processors
from kafka_segment_source.keywords import check_threads
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.logdir.segments import DroppedSegment
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.reporting import log_warnings
from kafka_segment_source.schema import Table
from kafka_segment_source.storage.files import InputFile

if TYPE_CHECKING:
    from rich.console import RenderableType

_BYTES_A_THREAD = 4 * 1024 * 1024  # a thread that would read less is not worth its start
_MOST_BY_DEFAULT = 4  # threads; each may take 64 MiB


@dataclass(frozen=True, repr=False)
class ReadPlan:
    """What a scan reads. Byte counts are of `.log` files.

    options: the options of the read; times ago are converted to moments.
    splits: in order of topic, partition and offset.
    tasks: the same splits, grouped as Spark partitions.
    bytes_total: of all segments of the selected partitions.
    warnings: one sentence each.
    bytes_saved_by_zone_maps: bytes that would be read without zone maps.
    bytes_saved_by_key_filters: those of them that only the keys leave out.
    requests: what planning has asked of object stores. A listing counts one for each 1,000 names, and a retry none.
    other_table: what makes the rows, where it is not the table of the options.
    """

    options: ReadOptions
    splits: tuple[SegmentSplit, ...]
    tasks: tuple[tuple[SegmentSplit, ...], ...]
    dropped: tuple[DroppedSegment, ...]
    bytes_total: int
    warnings: tuple[str, ...] = ()
    bytes_saved_by_zone_maps: int = 0
    bytes_saved_by_key_filters: int = 0
    requests: int = 0
    other_table: SplitTable | None = None

    @property
    def segments_total(self) -> int:
        return self.segments_kept + len(self.dropped)

    @property
    def segments_kept(self) -> int:
        return len({split.path for split in self.splits})

    @property
    def bytes_to_read(self) -> int:
        return sum(split.size for split in self.splits)

    def to_dict(self) -> dict[str, Any]:
        """The plan as `kafkaseg plan --json` prints it. endOffset is null where only reading finds it."""
        return {
            "segmentsTotal": self.segments_total,
            "segmentsKept": self.segments_kept,
            "bytesTotal": self.bytes_total,
            "bytesToRead": self.bytes_to_read,
            "bytesSavedByZoneMaps": self.bytes_saved_by_zone_maps,
            "bytesSavedByKeyFilters": self.bytes_saved_by_key_filters,
            "requests": self.requests,
            "splits": [
                {
                    "path": split.path,
                    "start": split.start,
                    "end": split.end,
                    "startOffset": split.start_offset,
                    "endOffset": split.end_offset,
                }
                for split in self.splits
            ],
            "dropped": [
                {"path": dropped.path, "kind": dropped.kind.value, "reason": dropped.reason} for dropped in self.dropped
            ],
            "warnings": list(self.warnings),
        }

    # Reading loads the kernels. Planning does not need them.

    def to_reader(self, columns: Sequence[str] | None = None, threads: int | None = None) -> pa.RecordBatchReader:
        """Reads the rows of this plan lazily.

        It reads exactly what the plan shows, and plans nothing again. Warnings of the plan go to the package's logger.

        Args:
            columns: Names of the wanted columns, in order. By default, the options decide.
            threads: How many threads read and decode. By default, one for each processor, and four at most, if the
                logs are compressed or `view` is "latest", and they are not in a bucket, and one for others. Rows come
                in the same order with any number. Each thread takes at most 64 MiB, beside a batch of Kafka that is
                larger. With 1, one Arrow batch is in memory at a time.

        Returns:
            A reader that returns the segments one after another, by topic, partition and offset.

        Raises:
            SchemaError: A column does not exist.
            OptionError: `threads` is not a number of at least 1.
            DataError: Data is damaged. The reader raises it.
            DataLossError: Offsets are no longer in the files. The reader raises it.
            StorageError: A file cannot be read. The reader raises it. A retry may help.

        Example:
            >>> import kafka_segment_source
            >>> path = "examples/data/orders/data"
            >>> plan = kafka_segment_source.plan(path, subscribe="orders", since="2026-03-10T09:50")
            >>> plan.segments_kept
            6
            >>> plan.to_reader(columns=["partition", "offset"]).read_all().num_rows
            712
        """
        schema = self.schema(columns)
        count = check_threads(threads)
        log_warnings(self.warnings)
        return pa.RecordBatchReader.from_batches(schema, read_rows(self, schema, threads=count))

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The Arrow schema of these columns; None: of the columns of the options. SchemaError for an unknown name."""
        table = self._table()
        return table.arrow_schema(
            table.default_names(self.options.content) if columns is None else table.check_names(columns)
        )

    def _table(self) -> Table:
        return self.reading.table

    @property
    def reading(self) -> Reading:
        """What a task must know beside its splits."""
        options = self.options
        table = split_table(options.content) if self.other_table is None else self.other_table
        return Reading(options.source, options.policy, options.content, table)

    def _read(self, schema: pa.Schema, advance: Callable[[int], None], threads: int | None) -> Iterator[pa.RecordBatch]:
        useful = min(self._choose_threads() if threads is None else threads, self._most_threads)
        if useful > 1:
            from kafka_segment_source.scanning_threads import read_splits_in_threads

            yield from read_splits_in_threads(self.splits, self.reading, schema, advance, useful)
            return
        from kafka_segment_source.scanning import read_splits

        yield from read_splits(self.splits, self.reading, schema, advance)

    @property
    def _most_threads(self) -> int:
        return -(-self.bytes_to_read // _BYTES_A_THREAD)

    def _choose_threads(self) -> int:
        """Returns one thread for each processor where several are faster: on a disk, for compressed batches, and for
        the newest record of each key."""
        if self._most_threads <= 1 or reads_headers_only(self.options.content, self.options.policy.trust):
            return 1
        split = max(self.splits, key=lambda split: split.size)
        gains = not _is_far(split) if self.options.content.view == NEWEST else _begins_compressed(split)
        return min(count_processors(), _MOST_BY_DEFAULT) if gains else 1

    # rich prints the plan, and is loaded only for that.

    def __rich__(self) -> RenderableType:
        from kafka_segment_source.planning.display import Row, as_table, sums_line

        segments = self.segments_kept, self.segments_total
        sizes = self.bytes_to_read, self.bytes_total
        saved = self.bytes_saved_by_zone_maps, self.bytes_saved_by_key_filters
        sums = sums_line(segments, sizes, saved, self.requests)
        rows = [Row(split.path, True, f"{split.start:,} to {split.end:,}") for split in self.splits]
        rows += [Row(dropped.path, False, dropped.reason, dropped.kind) for dropped in self.dropped]
        return as_table(sums, rows, self.warnings)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from kafka_segment_source.planning.display import as_text

        return as_text(self.__rich__())

    def _repr_html_(self) -> str:
        from kafka_segment_source.planning.display import as_html

        return as_html(self.__rich__())


def read_rows(
    plan: ReadPlan, schema: pa.Schema, advance: Callable[[int], None] = lambda _: None, threads: int | None = 1
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of a plan as batches of exactly `schema`, and says nothing of its warnings.

    advance: is called with the size of each read split. threads: how many read and decode. None: one batch of the logs
    is looked at to choose (docs/speed.md).
    """
    return plan._read(schema, advance, threads)


def _begins_compressed(split: SegmentSplit) -> bool:
    """Whether the first batch of a split is compressed. False for a bucket, and where it cannot be read: the read of it
    says why."""
    if _is_far(split):
        return False
    try:
        with InputFile(split.path, split.storage, split.version) as file:
            header = HeaderProbe(file, split.segment_size, check_crcs=False).at(split.start)
    except KafkaSegmentError:
        return False
    return header is not None and header.is_compressed


def _is_far(split: SegmentSplit) -> bool:
    """Whether each read of a split's file takes a round trip of the network."""
    return split.storage.read_cost(split.path).takes_round_trips
