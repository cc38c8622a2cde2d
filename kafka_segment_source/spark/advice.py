"""Says in the log what would prune, where Spark cannot push `.filter()` down to a read by `load()`."""

from __future__ import annotations

from functools import cache

from rich.filesize import decimal

from kafka_segment_source.bounds import TimeRange
from kafka_segment_source.option_values import EARLIEST, LATEST
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import logger
from kafka_segment_source.request import ReadBounds
from kafka_segment_source.spark.reader import PUSHES_FILTERS

LARGE_READ = 10 * 10**9  # bytes of `.log` files; a smaller read is worth no word

_BY_OPTIONS = "give the bounds as options (since, until, startingOffsets, assign …)"
_BY_READ = ", or load by kafka_segment_source.read(spark, path)" if PUSHES_FILTERS else ""


@cache
def advise_about_filter() -> None:
    """Says once for each planning process that a filter was not pushed."""
    logger.warning(
        "this Spark cannot push .filter() down without wrong rows elsewhere, so every segment is read and filtered after:"
        " %s%s",
        _BY_OPTIONS,
        _BY_READ,
    )


def advise_about_size(plan: ReadPlan) -> None:
    """Says how much a plan reads, if it is at least LARGE_READ bytes, and its options bound neither offsets nor times.

    Spark plans each query in a process of its own, so a query says it once.
    """
    if plan.bytes_to_read < LARGE_READ or _is_bounded(plan.options.bounds):
        return
    logger.warning(
        "this query reads %s, also if a .filter() keeps few rows of them: %s%s",
        decimal(plan.bytes_to_read),
        _BY_OPTIONS,
        _BY_READ,
    )


def _is_bounded(bounds: ReadBounds) -> bool:
    starting, ending = bounds.starting, bounds.ending
    is_whole = starting.everywhere == EARLIEST and ending.everywhere == LATEST
    return not is_whole or starting.by_time or ending.by_time or bounds.times != TimeRange()
