"""`export`: reads what the logs have gained since the last run, writes it into a table, and ends.

A run is a stream with a fixed end (`streams/stream.py`). A commit has files and the next offset of every partition. So
each record is in the table once, wherever a run dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any, Unpack

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.decoding.tables import SPLIT_TABLES
from kafka_segment_source.errors import OptionError
from kafka_segment_source.exporting.data_files import DataFiles, Part, parse_by
from kafka_segment_source.exporting.delta_table import DeltaExport
from kafka_segment_source.exporting.folders import Folder
from kafka_segment_source.exporting.iceberg_table import IcebergExport
from kafka_segment_source.exporting.parquet_table import ParquetTable
from kafka_segment_source.exporting.tables import FORMATS, ExportTable, State
from kafka_segment_source.keywords import PathsLike, StreamOptions, count_threads, option_texts
from kafka_segment_source.option_values import RECORDS, Context, TopicPartition, parse_positive_bytes
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.reporting import logger
from kafka_segment_source.storage.settings import looks_like_setting, make_settings
from kafka_segment_source.streams.positions import Positions
from kafka_segment_source.streams.stream import LogStream

TARGET_BYTES = "128m"
_TOPIC = "{topic}"  # in a target: a table for each topic
_STARTS = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")


@dataclass(frozen=True)
class TableReport:
    """What a run did with one table.

    target: the path or name. begin, end: the next offset of each partition before the run and after it. rows, files,
    bytes: that were written; of a dry run, 0. commits: their number. bytes_to_read: of `.log` files.
    """

    target: str
    begin: Positions
    end: Positions
    rows: int
    files: int
    bytes: int
    commits: int
    bytes_to_read: int

    def to_dict(self) -> dict[str, Any]:
        """The report as `kafkaseg export --json` prints it."""
        state = State(self.begin, {}).to_json()["offsets"], State(self.end, {}).to_json()["offsets"]
        return {
            "target": self.target,
            "begin": state[0],
            "end": state[1],
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "commits": self.commits,
            "bytesToRead": self.bytes_to_read,
        }


OnProgress = Callable[[int, int], None]
"""Is called with the bytes of `.log` files that are done, and with all of a table's."""


def export(  # noqa: PLR0913  # each is a question of its own
    path: PathsLike,
    to: str,
    format: str = "parquet",
    *,
    by: Sequence[str] = (),
    target_bytes: int | str = TARGET_BYTES,
    catalog: Mapping[str, str] | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    on_progress: OnProgress = lambda _, __: None,
    **options: Unpack[StreamOptions],
) -> list[TableReport]:
    """Adds to a table what the logs have gained since the last run, each record once, and ends.

    The first run begins at the start of the logs, or where the starting options say. A run may be killed at any moment.
    The next one goes on where the table ends. One run at a time writes into a table: a second one ends with an error,
    before it adds anything.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these.
        to: The table: a directory or a bucket's URL for Parquet and Delta, CATALOG.NAMESPACE.TABLE for Iceberg. With
            `{topic}` in it, each topic has a table of its own.
        format: `parquet`, `delta` or `iceberg`.
        by: How the table is divided: `topic`, `partition`, `day(timestamp)`, `hour(timestamp)`, in order.
        target_bytes: The size of a file, as a number or as `128m`. The last file of a run and those of a divided table
            may be smaller.
        catalog: Properties of the Iceberg catalog, over those of `.pyiceberg.yaml`.
        threads: How many threads read and decode. By default, one.
        dry_run: True: read and write nothing, and report what a run would read.
        on_progress: Is called with the bytes of `.log` files that are done, and with all of them.
        options: The options of a stream under their own names (docs/streaming.md). By default, isolationLevel is
            read_committed.

    Returns:
        A report for each table.

    Raises:
        UsageError: An invalid request. TargetError: the target is no table of an export, has another schema, or was
            changed by somebody else during the run.
        DataLossError: Offsets that were not exported yet are gone.
        DataError: Data is damaged.
        StorageError: A file cannot be read or written. A retry may help.

    Example:
        >>> import kafka_segment_source, tempfile
        >>> target = tempfile.mkdtemp()
        >>> [first] = kafka_segment_source.export("examples/data/orders/data", target, subscribe="orders")
        >>> [second] = kafka_segment_source.export("examples/data/orders/data", target, subscribe="orders")
        >>> first.rows, second.rows
        (4000, 0)
    """
    if format not in FORMATS:
        raise OptionError(f"format is {format!r}: expected one of {', '.join(FORMATS)}")
    try:
        size = parse_positive_bytes(str(target_bytes), Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"target_bytes is {target_bytes!r}: {error}") from error
    parts = parse_by(by)
    texts = option_texts(path, options)
    given = {name.lower() for name in texts}
    if not given.intersection(_STARTS):
        texts["startingOffsets"] = "earliest"
    if "isolationlevel" not in given:
        texts["isolationLevel"] = "read_committed"
    parsed, warnings = parse_options(texts, is_stream=True)
    for warning in warnings:
        logger.warning("%s", warning)
    of_stores = {name: text for name, text in texts.items() if looks_like_setting(name.lower())}

    def open_table(target: str) -> ExportTable:
        if format == "iceberg":
            return IcebergExport(target, parts, catalog or {})
        folder = Folder(target, make_settings(of_stores))
        return ParquetTable(folder, parts) if format == "parquet" else DeltaExport(folder, parts, of_stores)

    run = _Run(parts, size, count_threads(threads), dry_run, on_progress)
    return [run.export_table(open_table(target), target, of_table) for target, of_table in _find_tables(to, parsed)]


def _find_tables(to: str, options: ReadOptions) -> Iterator[tuple[str, ReadOptions]]:
    """Yields each table with the options of its read."""
    if _TOPIC not in to:
        yield to, options
        return
    for topic in sorted({topic for topic, _ in LogStream(options).find_latest()}):
        yield to.replace(_TOPIC, topic), replace(options, subscribe=(topic,), subscribe_pattern=None, assign=None)


@dataclass(frozen=True)
class _Run:
    """What holds for all tables of one run."""

    parts: tuple[Part, ...]
    target_bytes: int
    threads: int
    dry_run: bool
    on_progress: OnProgress

    def export_table(self, table: ExportTable, target: str, options: ReadOptions) -> TableReport:
        """Brings one table up to what is there now."""
        stream = LogStream(options)
        before = table.read_state()
        ids = stream.find_topic_ids()
        begin = dict(stream.find_initial() if before is None else _check_topic_ids(before, ids, options))
        stream.set_target()
        end = stream.find_next(begin, limited=False)
        plan = stream.plan(begin, end)
        to_read = 0 if plan is None else plan.bytes_to_read
        if self.dry_run or (plan is None and before is not None and end == dict(before.positions)):
            return TableReport(target, begin, end, 0, 0, 0, 0, to_read)
        rows_table = SPLIT_TABLES[RECORDS]
        schema = rows_table.arrow_schema(rows_table.default_names(options))
        table.check_schema(schema)
        commits = _Commits(table, before, ids)
        files = DataFiles(table, schema, self.parts, self.target_bytes, table.keeps_parts)
        try:
            for positions in self._write(plan, schema, files, begin, end):
                if files.is_full:
                    commits.add(files, positions)
            commits.add(files, end)
        finally:
            files.abandon()
        return TableReport(target, begin, end, commits.rows, commits.files, commits.bytes, commits.count, to_read)

    def _write(
        self, plan: ReadPlan | None, schema: pa.Schema, files: DataFiles, begin: Positions, end: Positions
    ) -> Iterator[Positions]:
        """Writes all rows. Yields the next offset of each partition whenever a commit is possible."""
        if plan is None:
            return
        positions = dict(begin)
        done, total, present = 0, plan.bytes_to_read, None

        def advance(size: int) -> None:
            nonlocal done
            done += size
            self.on_progress(done, total)

        for batch in plan.batches(schema, advance, self.threads):
            key: TopicPartition = batch["topic"][0].as_py(), batch["partition"][0].as_py()
            if present is not None and key != present:
                positions[present] = end[present]  # splits come by partition
            present = key
            for rows in files.write(batch):
                positions[key] = rows["offset"][-1].as_py() + 1
                yield positions


class _Commits:
    """The commits of one table in one run."""

    def __init__(self, table: ExportTable, before: State | None, topic_ids: Mapping[str, str]) -> None:
        self._table = table
        self._before = before
        self._ids = topic_ids
        self.rows = self.files = self.bytes = self.count = 0

    def add(self, files: DataFiles, positions: Positions) -> None:
        """Commits all that was written, if there is anything new."""
        known = dict(self._ids) if self._before is None else {**self._before.topic_ids, **self._ids}
        state = State(dict(positions), known)
        written = files.take()
        if not written and state == self._before:
            return
        self._table.commit(written, state, self._before)
        self._before = state
        self.rows += sum(file.rows for file in written)
        self.bytes += sum(file.size for file in written)
        self.files += len(written)
        self.count += 1


def _check_topic_ids(before: State, found: Mapping[str, str], options: ReadOptions) -> Positions:
    """Returns where to go on. Reports a loss for a topic that was deleted and made again since: it begins anew."""
    positions = dict(before.positions)
    for topic, topic_id in found.items():
        known = before.topic_ids.get(topic)
        if known is None or known == topic_id:
            continue
        lost = f"topic {topic!r} was deleted and made again: the table holds the topic id {known}, and the files {topic_id}"
        logger.warning("%s", report_lost_offsets(lost, options, "it is exported from its start"))
        positions = {key: 0 if key[0] == topic else offset for key, offset in positions.items()}
    return positions
