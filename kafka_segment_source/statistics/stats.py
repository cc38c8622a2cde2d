"""The public function `stats`: a path and keyword options → the statistics of each topic."""

from __future__ import annotations

from typing import Unpack

from kafka_segment_source.errors import OptionError
from kafka_segment_source.in_order import count_processors
from kafka_segment_source.keywords import PathsLike, ScanOptions, count_threads, option_texts
from kafka_segment_source.option_values import RECORDS
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan, read_rows
from kafka_segment_source.planning.planner import make_plan
from kafka_segment_source.reporting import OnProgress, Warnings, add_up, ignore_progress, log_warnings
from kafka_segment_source.statistics.totals import TopicStats, add_block

MOST = 10


def stats(
    path: PathsLike,
    *,
    most: int = MOST,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[ScanOptions],
) -> list[TopicStats]:
    """Adds up what the records of each topic are like, in one pass and bounded memory.

    Sums, the largest records, and shares by producer, schema and header name are exact. The number of different keys is
    an estimate with a standard error of 0.81 %. The weight of a heavy key is exact as long as a topic has few keys, and
    otherwise known up to the error that is given with it.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        most: How many of the largest records and of the heaviest keys are kept.
        threads: How many threads read and decode. By default, one for each processor.
        on_progress: Is called with the bytes that are done, and with all bytes.
        options: The options of docs/options.md under their own names, with Python values.

    Returns:
        The statistics of each topic, by name.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        DataLossError: The query asks for offsets that the files do not hold.
        DataError: The data is damaged.
        StorageError: A file or directory cannot be read. A retry may help.

    Example:
        >>> import kafka_segment_source
        >>> [orders] = kafka_segment_source.stats("examples/data/orders/data", subscribe="orders")
        >>> orders.sums["records"], orders.sums["nullKeys"]
        (4000, 0)
    """
    parsed, warnings = parse_options(option_texts(path, options), parameters=("most", "threads", "on_progress"))
    plan = plan_stats(parsed, warnings, most)
    log_warnings(plan.warnings)
    return read_stats(plan, most, count_processors() if threads is None else count_threads(threads), on_progress)


def plan_stats(options: ReadOptions, warnings: Warnings, most: int) -> ReadPlan:
    """Returns the plan of a read whose rows are facts about blocks of records."""
    from kafka_segment_source.statistics.blocks import block_table  # noqa: PLC0415  # it loads the kernels

    if options.content.view != RECORDS:
        raise OptionError(f"option 'view' is {options.content.view!r}: statistics read {RECORDS}", options=("view",))
    if options.content.typed_keys is not None:
        raise OptionError(
            "option 'key' with 'keyFormat' compares typed keys: statistics take stored keys, without 'keyFormat'",
            options=("key", "keyFormat"),
        )
    return make_plan(options, warnings, table=block_table(most))


def read_stats(plan: ReadPlan, most: int, threads: int, on_progress: OnProgress) -> list[TopicStats]:
    """Reads the facts of a plan, and adds them up."""
    topics = {topic: TopicStats(topic, most) for topic in sorted({split.topic for split in plan.splits})}
    for row in read_rows(plan, plan.schema(), add_up(plan.bytes_to_read, on_progress), threads):
        add_block(topics[row.column("topic")[0].as_py()], row)
    return list(topics.values())
