"""view=transactions: one row a transaction of a producer in a partition. One task reads one partition.

`transaction_walk.py` makes the rows. This file has what planning needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafka_segment_source.bounds import EVERY_ROW
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.planner import plan_selected
from kafka_segment_source.planning.selection import Selection, Sources, select
from kafka_segment_source.reading.following import list_whole, whole_split
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.transaction_table import TABLE, TransactionTask
from kafka_segment_source.views.view import View, to_batches


def _plan(options: ReadOptions, warnings: Warnings) -> list[TransactionTask]:
    """Plans as for a read of all records, and raises its errors. But each task reads its log from the first byte on."""
    logs: list[PartitionLog] = []

    def select_all(sources: Sources, noted: Warnings) -> Selection:
        logs[:] = sources.logs
        return select(sources, [EVERY_ROW], noted)[0]

    warnings += plan_selected(options, (), select_all).warnings
    return [make_task(log, options.source, options.policy) for log in logs if log.segments]


def make_task(log: PartitionLog, source: Source, policy: Policy) -> TransactionTask:
    """Returns what is read to tell the transactions of a partition."""
    is_part = not log.is_whole and not log.copies
    walked = try_again(lambda: list_whole(log.directories, source, policy)) if is_part else log
    return TransactionTask(
        topic=log.topic,
        partition=log.partition,
        splits=tuple(whole_split(walked, at) for at, segment in enumerate(walked.segments) if segment.size),
        start=walked.offsets.start,
        holes=log.lost_places,
        compacted=log.compacted,
        shown=tuple(segment.span for segment in log.segments) if is_part else None,
    )


def _read(task: TransactionTask, source: Source, policy: Policy) -> Iterator[pa.RecordBatch]:
    from kafka_segment_source.views.transaction_walk import find_transactions

    yield from to_batches(find_transactions(task, source, policy), TABLE)


VIEW = View(TABLE, _plan, _read)
