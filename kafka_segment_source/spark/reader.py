"""The reader of Spark's data source. Spark plans with it on the driver, and reads with it on the executors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafka_segment_source.bounds import EVERY_ROW, RowFilter
from kafka_segment_source.decoding.split import Columns, SegmentSplit, from_columns, to_columns
from kafka_segment_source.decoding.tables import Reading, split_table
from kafka_segment_source.option_values import NEWEST
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import Warnings, log_warnings
from kafka_segment_source.request import Content
from kafka_segment_source.source import Source
from kafka_segment_source.spark.limit import first_rows, group_splits
from kafka_segment_source.trust import Policy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from kafka_segment_source.values.typed import TypedColumns


T = TypeVar("T")
R = TypeVar("R")
_LEAST_AHEAD = 8 * 1024 * 1024  # bytes of a task; for fewer, a thread is not worth its start

PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
PUSHES_FILTERS = hasattr(DataSourceReader, "pushFilters")  # Spark 4.0 has no such hook, and no classes of filters


class SegmentPartition(InputPartition):
    """One Spark partition: the split of one segment, or several small ones of the same topic-partition."""

    def __init__(self, splits: tuple[SegmentSplit, ...], typed: TypedColumns | None = None) -> None:
        """typed: the typed columns of a micro-batch, as its schemas may be newer than its reader."""
        super().__init__(splits[0].path)
        self.splits = splits
        self.typed = typed

    def __reduce__(self) -> tuple[Callable[..., SegmentPartition], tuple[Columns, int, TypedColumns | None]]:
        """Spark sends each one to an executor, so its bytes count: splits that share a task share values."""
        return _unpack, (to_columns(self.splits), len(self.splits), self.typed)


def _unpack(columns: Columns, count: int, typed: TypedColumns | None = None) -> SegmentPartition:
    return SegmentPartition(from_columns(columns, count), typed)


class KafkaSegmentReader(DataSourceReader):
    """Plans once on the driver. Each task reads the splits of one Spark partition.

    The driver sends this reader with options and column names to the executors.
    """

    def __init__(self, options: ReadOptions, warnings: Warnings, columns: tuple[str, ...]) -> None:
        self._options = options
        self._warnings = warnings
        self._columns = columns
        self._pushed = EVERY_ROW
        self._has_filters = False
        self._limit: int | None = None  # it comes with the reader to the executors

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:
        """Spark's hook, as a callable whose `__func__` is the function of the base class.

        With `spark.sql.python.filterPushdown.enabled` off, Spark refuses every reader that overrides `pushFilters`. It
        compares `__func__` for that. It calls the hook only with the conf on. A reader cannot read the conf.
        """
        return _hide(self._push_all, DataSourceReader.pushFilters)

    @property
    def pushLimit(self) -> Callable[[int], bool]:
        """Spark's hook (SPARK-58551), in the same way. Its conf is `spark.sql.python.limitPushdown.enabled`."""
        return _hide(self._push_limit, getattr(DataSourceReader, "pushLimit", None))

    def push(self, new: RowFilter) -> None:
        """Takes the rows that the filters above one scan leave possible. The next plan may leave out all others."""
        self._pushed = new

    def _push_all(self, filters: list[Filter]) -> list[Filter]:
        from kafka_segment_source.spark.pushdown import row_filter  # it needs Spark's filters

        self._has_filters = True
        self.push(row_filter(filters, self._options.content.view, self._options.formats.key))
        return filters  # Spark applies every filter again, so a bound may be too wide

    def _push_limit(self, limit: int) -> bool:
        if self._has_filters:  # Spark applies these to what is read: the first rows may be none of its rows
            return False
        self._limit = limit
        return True

    def make_plan(self) -> ReadPlan:
        """Makes the plan of this read, for the pushed filters."""
        return make_plan(self._options, self._warnings, self._pushed)

    def partitions(self) -> Sequence[InputPartition]:
        plan = self.make_plan()
        log_warnings(plan.warnings)
        tasks = plan.tasks if self._limit is None else group_splits(plan, self._limit)
        return [SegmentPartition(splits) for splits in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        content = self._options.content.with_keys(self._pushed.keys)
        rows = read_rows(partition, self._options.source, self._options.policy, content, self._columns)
        return rows if self._limit is None else first_rows(rows, self._limit)


def _hide(hook: Callable[[T], R], of_base: Callable[..., R] | None) -> Callable[[T], R]:
    """Makes a hook that Spark takes for the one of the base class."""
    hidden = partial(hook)
    hidden.__func__ = of_base  # type: ignore[attr-defined]
    return hidden


def read_rows(
    partition: InputPartition, source: Source, policy: Policy, content: Content, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one Spark partition, in an executor's Python worker."""
    is_first = "kafka_segment_source.scanning" not in sys.modules
    # planning runs in its own process, which does not need the kernels
    from kafka_segment_source.scanning import read_splits

    if is_first:
        _exempt_loaded_modules()
    if isinstance(partition, SegmentPartition):  # Spark passes InputPartition(None) for an empty plan
        if partition.typed is not None:
            content = content._replace(typed=partition.typed)
        reading = Reading(source, policy, content, split_table(content))
        schema = reading.table.arrow_schema(columns)
        if _decodes_ahead(partition, content):
            from kafka_segment_source.scanning_threads import read_splits_in_threads

            yield from read_splits_in_threads(partition.splits, reading, schema, lambda _: None, threads=2)
        else:
            yield from read_splits(partition.splits, reading, schema)


def _decodes_ahead(partition: SegmentPartition, content: Content) -> bool:
    """Whether a second thread decodes rows while Spark takes the ones before.

    Spark's worker writes a batch to a socket, and waits until Spark has taken most of it. Typed values take as long to
    decode as Spark takes for them. Bytes take far less.
    """
    size = sum(split.size for split in partition.splits)
    return content.typed is not None and content.view != NEWEST and size >= _LEAST_AHEAD


def _exempt_loaded_modules() -> None:
    """Exempts what is loaded by now from garbage collection.

    Spark's Python workers collect garbage after each task (`pyspark/daemon.py`). With pyarrow and this package
    loaded, that takes longer than reading a small partition.
    """
    gc.collect()
    gc.freeze()
