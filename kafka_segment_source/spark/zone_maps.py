"""Zone maps by a Spark job: one task a segment that has to be decoded, the files written by the driver.

The DataFrame API alone is used, so that Spark Connect works. Splits go out and zone tables come back pickled: both are
small, and both ends are this package.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

from kafka_segment_source.keywords import PathsLike
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


def update_zone_maps(spark: SparkSession, path: PathsLike, to: str, **options: object) -> ZoneMapSummary:
    """Makes the zone maps of the partitions under `path` in the directory `to`, or brings them up to date.

    path: as for `scan`; to: a local directory, made if need be; it is the driver that lists, and that writes there;
    options: subscribe, subscribePattern, assign, topic, partition, maxBatchBytes. Only segments that are new or changed
    are decoded, by a Spark task each. Raises UsageError for what cannot be meant; damage is in the summary.
    """
    parsed = parse_update(path, options)
    updates = plan_updates(parsed, local_path(to))
    mapped = iter(_mapped(spark, [split for update in updates for split in update.splits], parsed.max_batch_bytes))
    summary = ZoneMapSummary()
    for update in updates:
        answers = [next(mapped) for _ in update.splits]
        if None in answers:  # a file was replaced meanwhile: this one partition again, here
            run_update(update, parsed.max_batch_bytes, summary)
        else:
            finish_update(update, answers, summary)
    return summary


def _mapped(spark: SparkSession, splits: list[SegmentSplit], max_batch_bytes: int) -> list[MappedSegment | None]:
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
