"""Zone maps by a Spark job: one task for each segment that must be decoded. The driver writes the files.

This module uses the DataFrame API alone, so Spark Connect works. Splits and zone tables are pickled: both are small,
and this package writes and reads them.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Unpack

from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

from kafka_segment_source.keywords import DecodeOptions, PathsLike
from kafka_segment_source.spark.hadoop import hadoop_options
from kafka_segment_source.storage.paths import resolve_path
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import (
    ZoneMapSummary,
    finish_update,
    keep_filters,
    map_or_none,
    parse_update,
    run_update,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_segment_source.decoding.split import SegmentSplit
    from kafka_segment_source.zones.making import MappedSegment
    from kafka_segment_source.zones.update_plan import PartitionUpdate

    _Work = tuple[PartitionUpdate, SegmentSplit]

_MOST_AT_ONCE = 32 * 2**30  # bytes of log whose key filters the driver collects at a time: some 500 MB of filters


def update_zone_maps(
    spark: SparkSession, path: PathsLike, to: str, *, keys: bool = False, **options: Unpack[DecodeOptions]
) -> ZoneMapSummary:
    """Makes zone maps by a Spark job, or updates them. `update_zone_maps_locally` does the same without Spark.

    One Spark task decodes each segment that is new or changed. Other segments are not decoded.

    Args:
        spark: The session.
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        to: The directory of the zone maps. It is made if it does not exist. The driver lists and writes it.
        keys: Whether each zone gets a key filter too, by which a read of some keys leaves out zones.
        options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes.

    Returns:
        A summary of the work, with the damage that could not be mapped.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.
        StorageError: A directory cannot be listed, or a map cannot be written. A retry may help.

    Example:
        >>> import tempfile
        >>> maps = tempfile.mkdtemp()
        >>> done = kafka_segment_source.update_zone_maps(spark, "examples/data/orders/data", maps, subscribe="orders")
        >>> done.partitions, done.segments_mapped
        (3, 18)
    """
    storage_options = hadoop_options(spark) | dict(options.pop("storage_options", None) or {})
    source, policy = parse_update(path, {**options, "storage_options": storage_options})
    updates = plan_updates(source, policy, resolve_path(to, source.storage), keys)
    todo = [(update, split) for update in updates for split in update.splits]
    answered: list[MappedSegment | None] = []
    for part in _divide(todo, _MOST_AT_ONCE if keys else sys.maxsize):
        mapped_splits = _map_splits(spark, [split for _, split in part], policy.trust.max_batch_bytes, keys)
        answered += [keep_filters(*of, mapped) for of, mapped in zip(part, mapped_splits, strict=True)]
    mapped = iter(answered)
    summary = ZoneMapSummary()
    for update in updates:
        answers = [next(mapped) for _ in update.splits]
        if None in answers:  # a file was replaced meanwhile: map this partition again, on the driver
            run_update(update, policy.trust.max_batch_bytes, summary)
        else:
            finish_update(update, answers, summary)
    return summary


def _divide(todo: list[_Work], most: int) -> Iterator[list[_Work]]:
    """Yields parts of the work, in order: each has at most so many bytes of log, or one segment."""
    part: list[_Work] = []
    size = 0
    for work in todo:
        if part and size + work[1].size > most:
            yield part
            part, size = [], 0
        part.append(work)
        size += work[1].size
    if part:
        yield part


def _map_splits(
    spark: SparkSession, splits: list[SegmentSplit], max_batch_bytes: int, keys: bool
) -> list[MappedSegment | None]:
    """Runs `map_or_none` for each split in a Spark job. The results have the order of the splits."""
    rows = [(number, pickle.dumps(split)) for number, split in enumerate(splits)]
    # repartition spreads one partition round-robin, so each task gets exactly one row
    work = spark.createDataFrame(rows, "number long, split binary").coalesce(1).repartition(len(rows))
    mapped = F.udf(partial(_map_pickled, max_batch_bytes, keys), "binary", useArrow=False)  # Arrow's UDFs need pandas
    answers = work.select("number", mapped("split")).collect()
    return [pickle.loads(answer) for _, answer in sorted(answers, key=lambda row: row[0])]


def _map_pickled(max_batch_bytes: int, keys: bool, split: bytearray) -> bytes:
    """Runs in a task: takes a pickled split, and returns a pickled result."""
    return pickle.dumps(map_or_none(pickle.loads(split), max_batch_bytes, keys=keys))
