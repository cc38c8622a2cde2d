"""Filter pushdown on Spark 4.1 to 4.3. Delete this file and its imports when the oldest supported Spark is 5.

These versions keep the plan of a pushdown on the relation. All scans of one DataFrame share the relation. A scan takes
the plan that was stored last, even if it was made for another filter. Two readers make every query right, and Spark
4.0, which pushes no filter, takes the first of them:

- `load()`: plans every row, and logs once what to do instead (AdvisingReader).
- `read()`: a scan takes a plan that leaves out none of its rows (RememberingReader).

For `read()`, each relation has a file of the filters that were pushed for it. Every plan is for all of them. The file
keeps every filter. A cached, explained or adaptively re-planned query may take a plan long after it pushed its filter.
An always-true predicate makes sure that every scan pushes a filter. Plans of one relation are made strictly one after
another, under a lock. The lock is held until the whole answer is written. The next plan then waits SETTLE_SECONDS more,
while the JVM stores the answer.

A file that is missing or damaged stands for every row. A process that cannot write the file deletes it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.functions import col

from kafka_segment_source.bounds import EVERY_ROW, OffsetRange, RowFilter, ScanBounds, TimeRange, unite_sets
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import OptionError, UsageError
from kafka_segment_source.option_values import BATCHES, NEWEST, RECORDS
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import plan_selected
from kafka_segment_source.planning.selection import Selection, SplitOf, select
from kafka_segment_source.reporting import Warnings, logger
from kafka_segment_source.schema import Table
from kafka_segment_source.spark.advice import advise_about_filter, advise_about_size
from kafka_segment_source.spark.reader import PUSHDOWN_CONF, PUSHES_FILTERS, KafkaSegmentReader
from kafka_segment_source.storage.private import make_private_directory

try:
    import fcntl
except ImportError:  # this system has no file locks, so nothing is pushed
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameReader

MEMORY_OPTION = "pushedfiltersfile"  # set by read() only
SETTLE_SECONDS = 0.1  # a new filter waits this long after the last answer, which another thread may still store
_SETTLED_LONG_AGO = 10  # s after the last answer; a later filter means that the DataFrame is used for a new question
_MOST_FILTERS = 8  # this many are remembered one by one; more are merged into the least range that holds all
_DIRECTORY = "kafkaseg-pushed"
_HEADER = "kafkaseg, filters pushed for one read(), 2"
_KEPT_SECONDS = 7 * 24 * 3600
_NEVER_NULL = {  # columns, by view
    RECORDS: ("offset", "partition", "topic", "timestamp", "timestampType"),
    NEWEST: ("offset", "partition", "topic", "timestamp", "timestampType"),
    BATCHES: ("lastOffset", "partition", "topic", "position", "size", "magic"),
}


def reader_of(
    given: Mapping[str, str], options: ReadOptions, warnings: Warnings, columns: tuple[str, ...]
) -> DataSourceReader:
    """Makes the reader for a query with the options `given`. It is a KafkaSegmentReader where Spark is repaired."""
    if is_repaired():
        return KafkaSegmentReader(options, warnings, columns)
    memory = given.get(MEMORY_OPTION)
    if memory is None:
        return AdvisingReader(options, warnings, columns)
    return RememberingReader(options, warnings, columns, memory)


def is_repaired() -> bool:
    """Whether this Spark keeps the plan of a pushdown with its scan. The change that did so also added `pushLimit`."""
    return hasattr(DataSourceReader, "pushLimit")


def needed() -> bool:
    """Whether this Spark pushes filters, and keeps the plan on the relation."""
    return PUSHES_FILTERS and not is_repaired()


def without_memory(options: Mapping[str, str]) -> dict[str, str]:
    """The options that users may give: all except MEMORY_OPTION."""
    return {name: text for name, text in options.items() if name.lower() != MEMORY_OPTION}


# ---- load() ----


class AdvisingReader(KafkaSegmentReader):
    """Pushes nothing. It logs how to prune instead."""

    def push(self, new: RowFilter) -> None:
        if new != EVERY_ROW:
            advise_about_filter()

    def make_plan(self) -> ReadPlan:
        plan = super().make_plan()
        advise_about_size(plan)
        return plan


# ---- read() ----


def load(reader: DataFrameReader, view: str, table: Table, columns: tuple[str, ...] | None) -> DataFrame:
    """Makes the DataFrame of `reader`. Every scan of it pushes filters to a RememberingReader.

    view: one of records or batches. table: its columns. columns: None for the default columns.
    """
    never_null = _NEVER_NULL[view]
    if not needed():
        return reader.load() if columns is None else reader.schema(table.spark_ddl(columns)).load()
    try:
        memory = _make_memory()
    except OSError as error:
        logger.warning("no private file can be made for pushed filters (%s), so .filter() prunes nothing here", error)
        return reader.load() if columns is None else reader.schema(table.spark_ddl(columns)).load()
    reader = reader.option(MEMORY_OPTION, memory)
    if columns is None:
        return reader.load().where(col(never_null[0]).isNotNull())
    tested = next((name for name in columns if name in never_null), never_null[0])
    loaded = dict.fromkeys((*columns, tested))
    return reader.schema(table.spark_ddl(loaded)).load().where(col(tested).isNotNull()).select(*columns)


class RememberingReader(KafkaSegmentReader):
    """Plans for every filter that was ever pushed for its relation."""

    def __init__(self, options: ReadOptions, warnings: Warnings, columns: tuple[str, ...], memory: str) -> None:
        super().__init__(options, warnings, columns)
        if not Path(memory).parent.name.startswith(
            f"{_DIRECTORY}-"
        ):  # this class must not write or delete another program's file
            raise OptionError(
                f"option {MEMORY_OPTION!r} is for kafka_segment_source.read() alone", options=(MEMORY_OPTION,)
            )
        self._memory = memory
        self._planned_by_push = False
        self._filters: tuple[RowFilter, ...] = (EVERY_ROW,)

    def push(self, new: RowFilter) -> None:
        self._planned_by_push = True
        turn = _Turn(self._memory)
        # Spark's worker drops the reader after its whole answer is written
        weakref.finalize(self, turn.end)
        self._filters = turn.remember(new)
        super().push(_hull_of_filters(self._filters))

    def make_plan(self) -> ReadPlan:
        return plan_for_any(self._options, self._warnings, self._filters)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if self._planned_by_push:
            _check_conf()
        return super().read(partition)


def _check_conf() -> None:
    """Raises UsageError if the conf is off. Such a query pushes nothing, and would take an earlier query's plan."""
    task = TaskContext.get()
    if task is None or task.getLocalProperty("spark.sql.execution.id") is None:  # df.rdd carries no conf
        return
    if (task.getLocalProperty(PUSHDOWN_CONF) or "").lower() != "true":
        raise UsageError(
            f"{PUSHDOWN_CONF} was turned off under a DataFrame of kafka_segment_source.read(): turn it on again,"
            ' or use spark.read.format("kafkaseg").load(path)'
        )


class _Turn:
    """One plan's turn at the file of its relation. It begins before the file is read, and ends after the answer."""

    _last: _Turn | None = None  # the last turn of this process, which makes one plan at a time

    def __init__(self, path: str) -> None:
        if _Turn._last is not None:
            _Turn._last.end()
        _Turn._last = self
        self._path = path
        self._file: int | None = None

    def remember(self, new: RowFilter) -> tuple[RowFilter, ...]:
        """Adds a filter to the file. Returns all filters that were pushed so far, with this one."""
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            return self._remember_in_file(self._file, new)
        except (FileNotFoundError, PermissionError) as error:  # every later plan will have the same error
            _warn_of_whole_read(str(error))
        except (OSError, ValueError, TypeError) as error:
            # this plan is for every row, but the file does not have it: later plans must be for every row too
            Path(self._path).unlink(missing_ok=True)
            _warn_of_whole_read(str(error))
        return (EVERY_ROW,)

    def end(self) -> None:
        """Ends the turn. The next plan may begin, and its waiting time is counted from now."""
        file, self._file = self._file, None
        if file is not None:
            os.utime(file)
            os.close(file)

    def _remember_in_file(self, file: int, new: RowFilter) -> tuple[RowFilter, ...]:
        status = os.fstat(file)
        if status.st_nlink == 0:
            raise FileNotFoundError(f"{self._path} was deleted")
        header, *lines = os.pread(file, status.st_size, 0).decode().split("\n")
        if header != _HEADER or lines.pop() != "":
            raise ValueError(f"{self._path} is damaged")
        before = tuple(_from_json(line) for line in lines)
        if any(_covers(filters, new) for filters in before):
            return before
        if before:
            age = time.time() - status.st_mtime
            if age > _SETTLED_LONG_AGO:
                _advise_new_read()
            time.sleep(min(max(SETTLE_SECONDS - age, 0), SETTLE_SECONDS))
        both = (*(filters for filters in before if not _covers(new, filters)), new)
        if len(both) > _MOST_FILTERS:
            both = (_hull_of_filters(both),)
        text = "".join(f"{line}\n" for line in (_HEADER, *map(_to_json, both))).encode()
        os.ftruncate(file, 0)
        if os.pwrite(file, text, 0) != len(text):
            raise OSError("the disk is full")
        return both


@cache
def _warn_of_whole_read(why: str) -> None:
    logger.warning("pushed filters cannot be remembered (%s), so a DataFrame of read() is read whole", why)


@cache
def _advise_new_read() -> None:
    logger.warning(
        "a DataFrame of kafka_segment_source.read() goes on reading for the filters that it had before;"
        " call read() again for one that reads only what a new filter needs"
    )


def _hull_of_filters(filters: tuple[RowFilter, ...]) -> RowFilter:
    whole = filters[0]
    for condition in filters[1:]:
        whole = whole.hull(condition)
    return whole


def _covers(one: RowFilter, other: RowFilter) -> bool:
    """Whether every row that passes `other` also passes `one`; False where the hull does not prove it."""
    return one.hull(other) == one


def _to_json(row_filter: RowFilter) -> str:
    topics, prefixes, partitions = row_filter.topics, row_filter.topic_prefixes, row_filter.partitions
    return json.dumps(
        [
            None if topics is None else sorted(topics),
            sorted(prefixes),
            None if partitions is None else sorted(partitions),
            [row_filter.partition_range.start, row_filter.partition_range.end],
            [row_filter.offsets.start, row_filter.offsets.end],
            [row_filter.times.since, row_filter.times.until],
            None if row_filter.keys is None else sorted(key.hex() for key in row_filter.keys),
        ]
    )


def _from_json(line: str) -> RowFilter:
    topics, prefixes, partitions, partition_range, offsets, times, keys = json.loads(line)
    return RowFilter(
        None if topics is None else frozenset(topics),
        frozenset(prefixes),
        None if partitions is None else frozenset(partitions),
        OffsetRange(*partition_range),
        OffsetRange(*offsets),
        TimeRange(*times),
        None if keys is None else frozenset(map(bytes.fromhex, keys)),
    )


# ---- one plan for several filters ----


def plan_for_any(options: ReadOptions, warnings: Warnings, filters: Sequence[RowFilter]) -> ReadPlan:
    """Makes a plan that reads every row that passes any of `filters`. It reads each byte and each offset once."""
    return plan_selected(
        options, warnings, lambda sources, warnings: _join_selections(select(sources, filters, warnings))
    )


def _join_selections(selections: list[Selection]) -> Selection:
    """Joins selections into one that reads all their rows."""
    joined = Selection(
        kept=_merge_splits([split for selection in selections for split in selection.kept]),
        without_maps=_merge_splits([split for selection in selections for split in selection.without_maps]),
        faults=[fault for selection in selections for fault in selection.faults],
        late_bytes=max(selection.late_bytes for selection in selections),
        keys=reduce(unite_sets, (selection.keys for selection in selections)),
    )
    kept = {segment.path for segment, _ in joined.kept}
    joined.dropped = [segment for segment in selections[0].dropped if segment.path not in kept]
    for selection in selections:
        joined.missing += selection.missing
    return joined


def _merge_splits(kept: list[SplitOf]) -> list[SplitOf]:
    """Merges splits into splits that read the same rows, share nothing, and come in order."""
    by_segment: dict[tuple[str, OffsetRange], list[SplitOf]] = {}
    for segment, split in kept:
        by_segment.setdefault((segment.path, segment.offsets), []).append((segment, split))
    merged = [
        (several[0][0], split)
        for several in by_segment.values()
        for split in _merge_overlapping([split for _, split in several])
    ]
    return sorted(merged, key=lambda item: (item[1].topic, item[1].partition, item[1].start_offset))


def _merge_overlapping(splits: list[SegmentSplit]) -> list[SegmentSplit]:
    """Merges splits of one segment until no two share a byte or an offset. They come in order.

    Offsets matter too. If a file has shrunk, each split is read from the first byte, by its offsets alone.
    """
    merged: list[SegmentSplit] = []
    for split in sorted(splits, key=lambda split: (split.start, split.end)):
        whole = split
        while merged and (merged[-1].end > whole.start or _share_offsets(merged[-1], whole)):
            whole = _hull_of_splits(merged.pop(), whole)
        merged.append(whole)
    return merged


def _share_offsets(one: SegmentSplit, other: SegmentSplit) -> bool:
    return one.bounds.offsets.end > other.bounds.offsets.start


def _hull_of_splits(one: SegmentSplit, other: SegmentSplit) -> SegmentSplit:
    """Makes one split of the same segment with the rows of both splits and the rows between them."""
    stops = (one.stop_timestamp, other.stop_timestamp)
    return one._replace(
        start=min(one.start, other.start),
        anchor=one.anchor if one.start <= other.start else other.anchor,
        end=max(one.end, other.end),
        bounds=ScanBounds(one.bounds.offsets.hull(other.bounds.offsets), one.bounds.times.hull(other.bounds.times)),
        stop_timestamp=None if None in stops else max(stop for stop in stops if stop is not None),
    )


# ---- the file ----


def _make_memory() -> str:
    """Makes a new file of pushed filters, which only this user can read. It removes files older than a week."""
    if fcntl is None:
        raise OSError("this system has no file locks")
    directory = make_private_directory(_DIRECTORY) or Path(tempfile.mkdtemp(prefix=f"{_DIRECTORY}-"))
    for old in directory.iterdir():
        with suppress(FileNotFoundError):  # another process may remove it too
            if time.time() - old.lstat().st_mtime > _KEPT_SECONDS:
                old.unlink()
    handle, path = tempfile.mkstemp(dir=directory)
    with os.fdopen(handle, "w") as file:
        file.write(f"{_HEADER}\n")
    return path
