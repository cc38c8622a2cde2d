"""Zone maps by a Spark job: one task a segment that has to be decoded, the files written by the driver.

The DataFrame API alone is used, so that Spark Connect works. Splits go out and zone tables come back pickled: both are
small, and both ends are this package.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING, Unpack

from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

from kafka_segment_source.keywords import DecodeOptions, PathsLike
from kafka_segment_source.storage.paths import local_path
from kafka_segment_source.zones.updates import (
    ZoneMapSummary,
    finish_update,
    map_or_none,
    parse_update,
    plan_updates,
    run_update,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_segment_source.decoding.split import SegmentSplit
    from kafka_segment_source.zones.making import MappedSegment


def update_zone_maps(spark: SparkSession, path: PathsLike, to: str, **options: Unpack[DecodeOptions]) -> ZoneMapSummary:
    """Makes zone maps by a Spark job, or brings them up to date. `update_zone_maps_locally` does the same without
    Spark.

    Only segments that are new or changed are decoded, by a Spark task each.

    Args:
        spark: The session.
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        to: The directory of the zone maps. It is made if it is not there. The driver lists, and writes there.
        options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes.

    Returns:
        What was done, and what damage kept from being mapped.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served.

    Example:
        >>> import tempfile
        >>> maps = tempfile.mkdtemp()
        >>> done = kafka_segment_source.update_zone_maps(spark, "examples/data/orders/data", maps, subscribe="orders")
        >>> done.partitions, done.segments_mapped
        (3, 18)
    """
    parsed = parse_update(path, options)
    updates = plan_updates(parsed, local_path(to))
    mapped = iter(_map_splits(spark, [split for update in updates for split in update.splits], parsed.max_batch_bytes))
    summary = ZoneMapSummary()
    for update in updates:
        answers = [next(mapped) for _ in update.splits]
        if None in answers:  # a file was replaced meanwhile: this one partition again, here
            run_update(update, parsed.max_batch_bytes, summary)
        else:
            finish_update(update, answers, summary)
    return summary


def _map_splits(spark: SparkSession, splits: list[SegmentSplit], max_batch_bytes: int) -> list[MappedSegment | None]:
    """What `map_or_none` answers for each split, in their order."""
    if not splits:
        return []
    rows = [(number, pickle.dumps(split)) for number, split in enumerate(splits)]
    # dealt out in turn from one partition: each task gets exactly one
    work = spark.createDataFrame(rows, "number long, split binary").coalesce(1).repartition(len(rows))
    mapped = F.udf(partial(_map_pickled, max_batch_bytes), "binary", useArrow=False)  # Arrow's UDFs need pandas
    answers = work.select("number", mapped("split")).collect()
    return [pickle.loads(answer) for _, answer in sorted(answers, key=lambda row: row[0])]


def _map_pickled(max_batch_bytes: int, split: bytearray) -> bytes:
    """A task: a pickled split in, a pickled answer out."""
    return pickle.dumps(map_or_none(pickle.loads(split), max_batch_bytes))
