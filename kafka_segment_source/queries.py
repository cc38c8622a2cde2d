"""The public functions `plan` and `scan`. They take a path and keyword options, and return a plan or its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pyarrow as pa

from kafka_segment_source.keywords import PathsLike, ScanOptions, check_threads, option_texts
from kafka_segment_source.options import parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.schema_registry.typing import split_names, type_columns
from kafka_segment_source.views.by_name import view_of


def plan(path: PathsLike, **options: Unpack[ScanOptions]) -> ReadPlan:
    """Plans a read: which byte ranges it reads, what it leaves out, and why.

    It needs no Spark, and normally decodes no data.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        options: The options of docs/options.md under their own names, with Python values.

    Returns:
        The plan. It prints as a table, and `to_reader()` reads it. A view whose rows lie in no byte ranges of `.log`
        files (docs/views.md) gives a `ViewPlan`: it has no splits.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        DataLossError: The query asks for offsets that the files do not hold, or the files change faster than they are
            planned (FileChangedError).
        DataError: Data is damaged where planning needs it: for an offset by timestamp, for the last stable offset, or
            where copies of a partition differ.
        StorageError: A file or directory cannot be read. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> plan = kafka_segment_source.plan("examples/data/orders/data", subscribe="orders", since="2026-03-10T09:50")
        >>> plan.segments_kept, plan.segments_total
        (6, 18)
    """
    parsed, warnings = parse_options(option_texts(path, options))
    view = view_of(parsed.content.view)
    if view is not None:
        from kafka_segment_source.views.view import plan_view  # noqa: PLC0415  # records and batches do without

        return plan_view(view, parsed, warnings)
    return make_plan(type_columns(parsed, warnings), warnings)


def scan(
    path: PathsLike, columns: Sequence[str] | None = None, threads: int | None = None, **options: Unpack[ScanOptions]
) -> pa.RecordBatchReader:
    """Reads records, or the rows of another view, lazily as Arrow batches.

    For records and batches it is `plan(…).to_reader(columns, threads)`. `view="batches"` and the others are in
    docs/views.md.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        columns: The names of the wanted columns, in order. By default, the columns that the options ask for. Of typed
            values (docs/values.md), `value.customer_id` is the column `value` with this field alone.
        threads: How many threads read and decode records and batches. By default, one for each processor, and four at
            most, if the logs are compressed or `view` is "latest", and they are not in a bucket, and one for others.
            Rows come in the same order with any number. Each thread takes at most 64 MiB, beside a batch of Kafka that
            is larger. With 1, one Arrow batch is in memory at a time.
        options: The options of docs/options.md under their own names, with Python values
            (since=datetime(…, tzinfo=UTC), includeHeaders=True).

    Returns:
        A reader that gives segments one after another, by topic, partition and offset.

    Raises:
        UsageError: An invalid request: an option, a column, a path or a topic that cannot be served.
        DataLossError: The query asks for offsets that the files do not hold. For offsets that disappear after planning,
            the reader raises it.
        DataError: The data is damaged. The reader raises it. Planning raises it where it needs the data itself.
        StorageError: A file or directory cannot be read. The reader may raise it too. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> reader = kafka_segment_source.scan(
        ...     "examples/data/orders/data",
        ...     columns=["partition", "offset", "key"],
        ...     subscribe="orders",
        ...     since="2026-03-10T09:30",
        ...     until="2026-03-10T09:35",
        ... )
        >>> reader.read_all().num_rows
        346
    """
    parsed, warnings = parse_options(option_texts(path, options), parameters=("columns", "threads"))
    threads = check_threads(threads)
    view = view_of(parsed.content.view)
    if view is not None:
        from kafka_segment_source.views.view import plan_view  # noqa: PLC0415  # records and batches do without

        return plan_view(view, parsed, warnings).to_reader(columns)
    names, wanted = split_names(parsed.formats, columns)
    return make_plan(type_columns(parsed, warnings, wanted), warnings).to_reader(names, threads)
