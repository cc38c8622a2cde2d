"""One run of `export`: the rows of a table since its last commit, in files, and the commits that add them.

A run is a stream with a fixed end (`streams/stream.py`). A commit has files and the next offset of every partition. So
each record is in the table once, wherever a run dies.

Rejected rows have a table of their own, with offsets of its own. Its commit comes first. So it may be ahead of the
other table when a run dies; the next run leaves out what it has already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.decoding.tables import split_table
from kafka_segment_source.errors import DataError, PathError, UnsupportedError
from kafka_segment_source.exporting.data_files import DataFiles, Part
from kafka_segment_source.exporting.delta_table import DeltaExport
from kafka_segment_source.exporting.iceberg_table import IcebergExport
from kafka_segment_source.exporting.parquet_table import ParquetTable
from kafka_segment_source.exporting.rejected import REJECTED_COLUMNS, RejectedRows
from kafka_segment_source.exporting.target_tables import ExportTable, State
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.plan import ReadPlan, read_rows
from kafka_segment_source.reporting import OnProgress, Warnings, add_up, log_warnings, logger
from kafka_segment_source.request import Content
from kafka_segment_source.schema_registry.typing import type_columns
from kafka_segment_source.source import Source
from kafka_segment_source.storage.folders import Folder
from kafka_segment_source.storage.paths import find_real_path, is_inside
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.streams.positions import Positions, to_json
from kafka_segment_source.streams.stream import LogStream
from kafka_segment_source.trust import Policy

TOPIC = "{topic}"  # in a target: a table for each topic


@dataclass(frozen=True)
class TableReport:
    """What a run did with one table.

    target: the path or name.
    is_new: whether there was no table before.
    begin, end: the next offset of each partition before the run and after it.
    rows, files, bytes: that were written; of a dry run, 0.
    commits: their number.
    rejected: rows in the table of rejected rows.
    bytes_to_read: of `.log` files.
    """

    target: str
    is_new: bool
    begin: Positions
    end: Positions
    rows: int
    files: int
    bytes: int
    commits: int
    rejected: int
    bytes_to_read: int

    def to_dict(self) -> dict[str, Any]:
        """The report as `kafkaseg export --json` prints it."""
        return {
            "target": self.target,
            "isNew": self.is_new,
            "begin": to_json(self.begin),
            "end": to_json(self.end),
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "commits": self.commits,
            "rejected": self.rejected,
            "bytesToRead": self.bytes_to_read,
        }


@dataclass(frozen=True)
class Targets:
    """How targets are opened."""

    format: str
    settings: Settings
    catalog: Mapping[str, str]

    def open(self, target: str, topic: str | None, parts: Sequence[Part]) -> ExportTable:
        """Opens the table of a topic, or of all topics. Nothing is made."""
        if self.format == "iceberg":  # the name of a topic may have dots
            return IcebergExport([_name_target(part, topic) for part in target.split(".")], parts, self.catalog)
        folder = Folder(_name_target(target, topic), self.settings)
        return ParquetTable(folder, parts) if self.format == "parquet" else DeltaExport(folder, parts)


def _name_target(target: str, topic: str | None) -> str:
    if topic in (".", ".."):  # no broker has such a topic, but a directory can be named so
        raise PathError(f"topic {topic!r} cannot name a target")
    return target if topic is None else target.replace(TOPIC, topic)


@dataclass(frozen=True)
class ExportRun:
    """What holds for all tables of one run."""

    parts: tuple[Part, ...]
    target_bytes: int
    threads: int | None
    dry_run: bool
    on_progress: OnProgress
    targets: Targets

    def export_table(self, to: str, rejected: str | None, topic: str | None, options: ReadOptions) -> TableReport:
        """Brings one table up to what is there now."""
        target = _name_target(to, topic)
        stream = LogStream(options)
        table = self.targets.open(to, topic, self.parts)
        beside = None if rejected is None else self.targets.open(rejected, topic, ())
        for path in (table, beside):
            if path is not None:
                _check_apart(path, options.source, stream.find_directories())
        before = table.read_state()
        rejected_before = None if beside is None else beside.read_state()
        if not self.dry_run:
            table.finish_last_run()
            if beside is not None:
                beside.finish_last_run()
        ids = stream.find_topic_ids()
        begin = dict(stream.find_initial() if before is None else _check_topic_ids(before, ids, options.policy))
        stream.set_target()
        end = stream.find_next(begin, limited=False)
        plan = stream.plan(begin, end)
        to_read = 0 if plan is None else plan.bytes_to_read
        if plan is None and before is not None and end == dict(before.positions):
            return TableReport(target, False, begin, end, 0, 0, 0, 0, 0, 0)
        # a value that is there has its schema in the registry by now
        content = _type_columns(options, rejected is not None)
        schema = _find_schema(content)
        table.check_schema(schema)
        if beside is not None:
            beside.check_schema(REJECTED_COLUMNS)
        if self.dry_run:
            return TableReport(target, before is None, begin, end, 0, 0, 0, 0, 0, to_read)
        commits = _Commits(table, before, ids)
        files = DataFiles(table, schema, self.parts, self.target_bytes, table.keeps_parts)
        rejects = None
        if beside is not None:
            known = {} if rejected_before is None else _forget_old_topics(rejected_before, ids)
            of_rejects = DataFiles(beside, REJECTED_COLUMNS, (), self.target_bytes, beside.keeps_parts)
            rejects = _Rejects(
                RejectedRows(options.formats.corrupt, known), of_rejects, _Commits(beside, rejected_before, ids)
            )
        try:
            self._write_and_commit(plan, content, files, rejects, commits, (begin, end))
            stream.check_end(end)
        finally:
            files.abandon()
            if rejects is not None:
                rejects.files.abandon()
        return TableReport(
            target,
            before is None,
            begin,
            end,
            commits.rows,
            commits.files,
            commits.bytes,
            commits.count,
            0 if rejects is None else rejects.commits.rows,
            to_read,
        )

    def _write_and_commit(
        self,
        plan: ReadPlan | None,
        content: Content,
        files: DataFiles,
        rejects: _Rejects | None,
        commits: _Commits,
        between: tuple[Positions, Positions],
    ) -> None:
        """Writes all rows, and commits them. Of damage, what comes before it is committed, and then it is raised.

        between: the positions where the rows begin and end.
        """
        reached, end = between
        try:
            for reached in self._write(plan, content, files, rejects, *between):
                if files.is_full or (rejects is not None and rejects.files.is_full):
                    _commit(commits, files, rejects, reached)
        except DataError:
            _commit(commits, files, rejects, reached)
            raise
        _commit(commits, files, rejects, end)

    def _write(
        self,
        plan: ReadPlan | None,
        content: Content,
        files: DataFiles,
        rejects: _Rejects | None,
        begin: Positions,
        end: Positions,
    ) -> Iterator[Positions]:
        """Writes all rows. Yields the next offset of each partition whenever a commit is possible."""
        if plan is None:
            return
        plan = replace(plan, options=plan.options._replace(content=content))
        positions = dict(begin)
        present = None
        advance = add_up(plan.bytes_to_read, self.on_progress)
        self.on_progress(0, plan.bytes_to_read)
        for batch in read_rows(plan, plan.schema(), advance, self.threads):
            key: TopicPartition = batch["topic"][0].as_py(), batch["partition"][0].as_py()
            if present is not None and key != present:
                positions[present] = end[present]  # splits come by partition
            present = key
            for rows in files.cut(batch):
                positions[key] = rows["offset"][-1].as_py() + 1
                if rejects is None:
                    files.write(rows)
                else:
                    fitting, others = rejects.rows.divide(rows, key)
                    files.write(fitting)
                    rejects.files.write(others)
                yield positions


@dataclass(frozen=True)
class _Rejects:
    """Where rejected rows go."""

    rows: RejectedRows
    files: DataFiles
    commits: _Commits


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
        self._table.commit(written, state)
        self._before = state
        self.rows += sum(file.rows for file in written)
        self.bytes += sum(file.size for file in written)
        self.files += len(written)
        self.count += 1


def _commit(commits: _Commits, files: DataFiles, rejects: _Rejects | None, positions: Positions) -> None:
    """Commits rejected rows, if there are any, and then the others."""
    if rejects is not None and not rejects.files.is_empty:
        rejects.commits.add(rejects.files, rejects.rows.advance(positions))
    commits.add(files, positions)


def _type_columns(options: ReadOptions, rejects: bool) -> Content:
    warnings = Warnings()
    content = type_columns(options, warnings).content
    log_warnings(warnings)
    return content if content.typed is None else content._replace(typed=replace(content.typed, rejects=rejects))


def _find_schema(content: Content) -> pa.Schema:
    """Returns the columns of the table: those of the read, but the one that says why a row is rejected."""
    table = split_table(content)
    typed = content.typed
    rejecting = typed.corrupt_column if typed is not None and typed.rejects else None
    return table.arrow_schema([name for name in table.default_names(content) if name != rejecting])


def _check_apart(table: ExportTable, source: Source, partitions: Sequence[str]) -> None:
    """Raises PathError for a target inside the logs."""
    try:
        target = find_real_path(table.find_location())
    except UnsupportedError:  # an Iceberg table may be where no log can be
        return
    for root in source.find_roots(partitions):
        if is_inside(target, root):
            raise PathError(
                f"{table.where} is inside {root!r}, which is read and never written to: export to another place"
            )


def _check_topic_ids(before: State, topic_ids: Mapping[str, str], policy: Policy) -> Positions:
    """Returns where to go on. Reports a loss for a topic that was deleted and made again since: it begins anew."""
    again = _find_made_again(before, topic_ids)
    for topic in again:
        lost = (
            f"topic {topic!r} was deleted and made again: the table holds the topic id {before.topic_ids[topic]}, and the"
            f" files {topic_ids[topic]}"
        )
        logger.warning("%s", report_lost_offsets(lost, policy, "it is exported from its start"))
    return {key: 0 if key[0] in again else offset for key, offset in before.positions.items()}


def _forget_old_topics(before: State, topic_ids: Mapping[str, str]) -> Positions:
    """Returns the offsets up to which rows were rejected, without those of topics that were made again."""
    again = _find_made_again(before, topic_ids)
    return {key: offset for key, offset in before.positions.items() if key[0] not in again}


def _find_made_again(before: State, topic_ids: Mapping[str, str]) -> list[str]:
    return [topic for topic, topic_id in topic_ids.items() if before.topic_ids.get(topic, topic_id) != topic_id]
