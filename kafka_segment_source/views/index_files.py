"""What the views of segments and of their index files share: tasks of many segments, and entries as Arrow columns.

A task holds whole segments of one partition or of many. So a million segments are a few hundred tasks. Where the logs
are read to prove the entries, a task holds about `_TASK_BYTES` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.inspection.index_order import (
    sound_aborts,
    sound_offsets,
    sound_times,
    written_aborts_of,
    written_offsets_of,
    written_times_of,
)
from kafka_segment_source.logdir.index_entries import most_entries
from kafka_segment_source.logdir.indexes import AbortEntries, OffsetEntries, TimeEntries
from kafka_segment_source.logdir.segments import ListedLog, Segment
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import listed_logs, warn_of_listed
from kafka_segment_source.reporting import Warnings, few, logger
from kafka_segment_source.schema import Column, Table
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.trust import Policy, Trust

Mask = npt.NDArray[np.bool_]
Task = tuple[ListedLog, ...]
"""Logs, each with the segments of it that the task reads."""

_MOST_TASKS = 256
_LEAST_SEGMENTS = 64  # of a task, if there are so few that _MOST_TASKS do not matter
_TASK_BYTES = 256 * 1024 * 1024  # of `.log` files that a task reads
_BATCH_ROWS = 64 * 1024
_AT_ONCE = 16  # segments whose index files are read at the same time, in a bucket

T = TypeVar("T")
Index = TypeVar("Index", OffsetEntries, TimeEntries, AbortEntries)


def plan_segments(options: ReadOptions, warnings: Warnings) -> list[Task]:
    """Returns the tasks for all segments of the selected partitions, of each copy of them. It opens no file."""
    logs = listed_logs(options.source)
    warn_of_listed(logs, warnings)
    return group_segments(logs, _TASK_BYTES if options.content.proves_entries else None)


def group_segments(logs: Sequence[ListedLog], most_bytes: int | None) -> list[Task]:
    """Divides segments into tasks, in order. most_bytes: of `.log` files in a task, unless it is a single segment."""
    most = max(_LEAST_SEGMENTS, -(-sum(len(log.segments) for log in logs) // _MOST_TASKS))
    tasks: list[Task] = []
    runs: list[ListedLog] = []
    count = size = 0
    for log in logs:
        run: list[Segment] = []
        for segment in log.segments:
            if count and (count == most or (most_bytes is not None and size + segment.size > most_bytes)):
                tasks.append((*runs, *_part_of(log, run)))
                runs, run, count, size = [], [], 0, 0
            run.append(segment)
            count, size = count + 1, size + segment.size
        runs += _part_of(log, run)
    return [*tasks, tuple(runs)] if runs else tasks


def _part_of(log: ListedLog, segments: list[Segment]) -> list[ListedLog]:
    if not segments:
        return []
    return [ListedLog(log.topic, log.partition, log.directory, tuple(segments), storage=log.storage)]


def read_segments(task: Task, read: Callable[[ListedLog, Segment], T]) -> Iterator[T]:
    """Yields the result of `read` for each segment of a task, in order. In a bucket it works ahead."""
    pairs = [(log, segment) for log in task for segment in log.segments]
    at_once = requests_at_once((log.storage, log.directory) for log in task)
    return map_ahead(lambda pair: read(*pair), pairs, min(at_once, _AT_ONCE))


# ---- index files, and what is wrong with them ----


def read_offsets(segment: Segment) -> tuple[OffsetEntries, str | None]:
    """Returns every entry of the `.index`, and what is wrong with the file, if anything is."""
    index = written_offsets_of(segment)
    sound = sound_offsets(index, segment.base_offset)
    return index, _find_fault(index, segment.index_path, segment.index_size, sound, segment)


def read_times(segment: Segment) -> tuple[TimeEntries, str | None]:
    """Returns the written entries of a `.timeindex`, and its fault or None."""
    index = written_times_of(segment)
    sound = sound_times(index, segment.base_offset)
    return index, _find_fault(index, segment.time_index_path, segment.time_index_size, sound, segment)


def read_aborts(segment: Segment) -> tuple[AbortEntries, str | None]:
    """Returns the written entries of a `.txnindex`, and its fault or None. Most segments need no such file."""
    index = written_aborts_of(segment)
    good = sound_aborts(index, segment) if len(index) else np.ones(0, np.bool_)
    sound = len(good) if good.all() else int(np.argmin(good))
    return index, _find_fault(
        index, segment.transaction_index_path, segment.transaction_index_size or 0, sound, segment
    )


def _find_fault(
    index: OffsetEntries | TimeEntries | AbortEntries, path: str, size: int | None, sound: int, segment: Segment
) -> str | None:
    if size is None:
        return f"file {path!r} does not exist"
    if index.fault is not None:
        return index.fault
    if len(index) > most_entries(segment.size):
        return (
            f"file {path!r} holds more than {most_entries(segment.size):,} entries beside a .log of"
            f" {segment.size:,} bytes: it is no index of its segment"
        )
    if sound < len(index):
        return f"entry {sound} of {len(index):,} in {path!r} breaks the order of the index"
    return None


# ---- the views of index entries ----


@dataclass(frozen=True, slots=True)
class Entries(Generic[Index]):
    """How the entries of one kind of index become rows.

    read: a segment → its index, and what is wrong with the file.
    columns: those of this kind alone, with builders.
    """

    read: Callable[[Segment], tuple[Index, str | None]]
    columns: tuple[tuple[Column, Callable[[Index], pa.Array]], ...]

    @property
    def table(self) -> Table:
        """The columns. `isProven` is there by default where it is not null."""
        return Table(
            (
                Column("topic", "string", pa.string()),
                Column("partition", "int", pa.int32()),
                Column("baseOffset", "bigint", pa.int64()),
                Column("slot", "int", pa.int32()),
                *(column for column, _ in self.columns),
                Column("isProven", "boolean", pa.bool_(), lambda content: content.proves_entries),
                Column("file_path", "string", pa.string()),
            )
        )

    def rows(self, task: Task, _: Source, policy: Policy) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task. It logs a few sentences about files that are damaged or missing."""
        schema = self.table.arrow_schema([column.name for column in self.table.columns])
        faults: list[str] = []
        segments = read_segments(task, lambda log, segment: self._read_segment(log, segment, policy.trust, schema))
        held: list[pa.RecordBatch] = []
        count = 0
        for rows, said in segments:
            faults += said
            if rows is not None:
                held.append(rows)
                count += rows.num_rows
            if count >= _BATCH_ROWS:
                yield from _join(held)
                held, count = [], 0
        yield from _join(held)
        for fault in few(faults):
            logger.warning("%s", fault)

    def _read_segment(
        self, log: ListedLog, segment: Segment, trust: Trust, schema: pa.Schema
    ) -> tuple[pa.RecordBatch | None, list[str]]:
        index: Index
        index, fault = self.read(segment)
        faults = [] if fault is None else [fault]
        count = len(index)
        if not count:
            return None, faults
        proven = pa.nulls(count, pa.bool_())
        if trust.check_crcs:
            from kafka_segment_source.views.proof import prove_entries  # noqa: PLC0415  # it loads the kernels

            proven, said = prove_entries(log, segment, index, trust.max_batch_bytes)
            faults += said
        arrays = [
            pa.repeat(pa.scalar(log.topic, pa.string()), count),
            pa.repeat(pa.scalar(log.partition, pa.int32()), count),
            pa.repeat(pa.scalar(segment.base_offset, pa.int64()), count),
            pa.array(np.arange(count, dtype=np.int32)),
            *(build(index) for _, build in self.columns),
            proven,
            pa.repeat(pa.scalar(index.path, pa.string()), count),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema), faults


def _join(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Makes one batch of many. Most index files are short."""
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches()) if batches else []
