"""LIMIT of a query: how few rows a task reads, and whether the first splits of a plan hold them all.

The hook is `DataSourceReader.pushLimit(limit) -> bool` (SPARK-58551), which no released Spark has. Spark applies the
limit again. So each task may end after so many rows. Where the headers of the first batches state as many, one task
reads the whole plan in order: it ends in the first segments. It has the other splits too, as compaction may remove rows
before it reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError, StorageError
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.option_values import BATCHES, RECORDS
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.storage.files import InputFile

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 100_000  # a task reads so many in the time of its start; more are worth several tasks
_MOST_HEADERS = 128
_MOST_REQUESTS = 8  # headers in a bucket: each may be a request


def group_splits(plan: ReadPlan, limit: int) -> tuple[tuple[SegmentSplit, ...], ...]:
    """Returns the splits of the plan, grouped as Spark partitions for `limit` rows: one task, or the plan's own tasks.

    It is one task if the headers at the begin of the plan state that it ends early.
    """
    if 0 < limit <= MOST_ROWS and len(plan.tasks) > 1 and _head_holds(plan, limit):
        return (plan.splits,)
    return plan.tasks


def first_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    """Yields the first `limit` rows. It asks for no batch after them."""
    for batch in batches:
        if batch.num_rows >= limit:
            yield batch.slice(0, limit)
            return
        limit -= batch.num_rows
        yield batch


def _head_holds(plan: ReadPlan, limit: int) -> bool:
    """Whether the first headers of the plan state at least `limit` rows. False where few of them would prove it."""
    options = plan.options
    if options.content.view not in (RECORDS, BATCHES) or options.content.keys is not None:
        return False
    left = _MOST_HEADERS
    for split in plan.splits:
        if split.copies:  # what each copy holds is known when they are read
            return False
        left = min(left, _MOST_REQUESTS) if split.storage.read_cost(split.path).takes_round_trips else left
        try:
            for header in _walk(split):
                limit -= _count_rows(header, split, options.content.view, options.content.include_control)
                left -= 1
                if limit <= 0 or left <= 0:
                    return limit <= 0
        except (DataError, StorageError):  # the tasks read the same file, and say what is wrong
            return False
    return False


def _walk(split: SegmentSplit) -> Iterator[BatchHeader]:
    with InputFile(split.path, split.storage, split.version) as file:
        probe = HeaderProbe(file, min(split.end, split.segment_size), check_crcs=False)
        position = split.start
        while (header := probe.at(position)) is not None:
            yield header
            position = header.end


def _count_rows(header: BatchHeader, split: SegmentSplit, view: str, include_control: bool) -> int:
    """The rows that a header states. 0 for a batch that is only partly inside the bounds."""
    offsets, times = split.bounds
    is_inside = (
        header.base_offset >= offsets.start
        and header.last_offset < offsets.end
        and header.first_timestamp >= times.since
        and header.max_timestamp < times.until
    )
    if not is_inside or (header.is_control and not include_control):
        return 0
    if view == BATCHES or header.magic < kafka_format.MAGIC_V2:  # an entry of magic 0 or 1 states no count
        return 1
    return header.count
