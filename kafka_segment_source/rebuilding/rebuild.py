"""`rebuild`: takes the chain that a read of some paths takes, and writes one clean log directory."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Unpack

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import EVERY_ROW, OffsetRange, TimeRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError, OptionError, PathError, StorageError, UnsupportedError
from kafka_segment_source.kafka_format import LARGEST_LOG
from kafka_segment_source.keywords import (
    STORAGE_OPTIONS,
    PathsLike,
    RebuildOptions,
    check_names,
    count_threads,
    option_texts,
)
from kafka_segment_source.logdir.checkpoints import Checkpoints, read_topic_id
from kafka_segment_source.logdir.leader_epochs import read_epochs
from kafka_segment_source.logdir.producer_snapshots import MOST_SNAPSHOT
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import BATCHES, Context, TopicPartition, TopicSelection, parse_positive_bytes
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.partition.logs import shown_logs
from kafka_segment_source.planning.planner import plan_selected
from kafka_segment_source.planning.selection import Selection, Sources, select
from kafka_segment_source.rebuilding import epochs
from kafka_segment_source.rebuilding.files import count_free_bytes, make_directory, remove_tree, replace_file
from kafka_segment_source.rebuilding.journal import Journal
from kafka_segment_source.rebuilding.log_writer import LogWriter
from kafka_segment_source.rebuilding.pieces import Notes, read_batches
from kafka_segment_source.rebuilding.report import LeftOut, RebuildReport, RebuiltPartition, parse_left_out
from kafka_segment_source.rebuilding.unended import Unended, find_unended
from kafka_segment_source.reporting import Advance, OnProgress, Warnings, add_up, ignore_progress, logger
from kafka_segment_source.request import Content
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import InputFile, exists
from kafka_segment_source.storage.paths import find_real_path, is_inside, is_remote, join_path, parent_of

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "_schemas")
"""The topics that `internal` adds: those that groups, transactions and schemas live in."""

_MOMENTS = ("since", "until", "starting_timestamp", "ending_timestamp")  # which may be given as a time ago
_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka: Topic.validate
_SPARE_BYTES = 16 * 1024 * 1024  # of a file system, beside the bytes of the logs and a hundredth for index files


def rebuild(
    path: PathsLike,
    to: str | os.PathLike[str],
    *,
    segment_bytes: int | str | None = None,
    internal: bool = False,
    threads: int | None = None,
    on_progress: OnProgress = ignore_progress,
    **options: Unpack[RebuildOptions],
) -> RebuildReport:
    """Writes what a read of some paths takes as one clean log directory: batches byte for byte, and new index files.

    Nothing of the paths is changed. A run that was interrupted goes on if it is called again in the same way. What is
    left out is in the result, and in `rebuild.json` of the target.

    Args:
        path: A partition directory, a log directory, a `.log` file or a glob; or a list of these, as copies.
        to: The target: a local directory that is empty, that does not exist yet, or that holds an interrupted rebuild
            of the same request.
        segment_bytes: Where segments are rolled, as a number or as `1g`. By default, segments end where those of the
            sources do.
        internal: Whether `__consumer_offsets`, `__transaction_state` and `_schemas` are rebuilt too, beside what the
            options select.
        threads: How many partitions are written at the same time. By default, one.
        on_progress: Is called with the number of bytes that are done and the number of all bytes. Any thread may call
            it.
        options: The options of a read under their own names: those that select topics, partitions, offsets and times,
            and mode, failOnDataLoss, endAt, trustIndexes and maxBatchBytes. A batch is taken whole if it may hold a
            selected row.

    Returns:
        What was written, by partition, and what was left out.

    Raises:
        UsageError: An invalid request: an option, a path or a topic that cannot be served, or a target that cannot be
            used.
        DataLossError: Offsets are missing (failOnDataLoss).
        DataError: Data is damaged (mode), and no copy helps.
        StorageError: A file cannot be read or written, or the target has too little room.

    Example:
        >>> import kafka_segment_source, tempfile
        >>> report = kafka_segment_source.rebuild(
        ...     "examples/data/orders/data", tempfile.mkdtemp(), subscribe="orders"
        ... )
        >>> len(report.partitions), report.records, report.left_out
        (3, 4000, ())
    """
    check_names(options, RebuildOptions, "rebuild, which takes")
    count = count_threads(threads)
    size = _parse_segment_bytes(segment_bytes)
    texts = option_texts(path, options)
    parsed, warnings = parse_options(texts)
    shown = {name: str(value) for name, value in options.items() if name != STORAGE_OPTIONS and value is not None}
    return rebuild_parsed(
        parsed, warnings, to, shown, segment_bytes=size, internal=internal, threads=count, on_progress=on_progress
    )


def rebuild_parsed(
    parsed: ReadOptions,
    warnings: Warnings,
    to: str | os.PathLike[str],
    shown: Mapping[str, str],
    *,
    segment_bytes: int | None = None,
    internal: bool = False,
    threads: int = 1,
    on_progress: OnProgress = ignore_progress,
) -> RebuildReport:
    """Rebuilds what parsed options select. shown: their texts, which tell two requests apart."""
    parsed = parsed._replace(
        source=_select_topics(parsed.source, internal),
        content=Content(BATCHES, include_control=True),
        policy=parsed.policy.with_control().with_crcs(),
    )
    target = _resolve_target(to)
    _check_apart(target, parsed.source)
    request = {
        "paths": [find_real_path(path) for path in parsed.source.paths],
        "options": dict(shown),
        "segmentBytes": segment_bytes,
        "internal": internal,
    }
    with Journal(target, request) as journal:
        moments = journal.agree(request, {name: getattr(parsed.bounds, name) for name in _MOMENTS})
        run = _Run(parsed._replace(bounds=parsed.bounds._replace(**moments)), segment_bytes, journal)
        return run.write_all(warnings, threads, on_progress)


def _parse_segment_bytes(value: int | str | None) -> int | None:
    if value is None:
        return None
    from datetime import UTC  # noqa: PLC0415

    try:
        size = parse_positive_bytes(str(value), Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"segment_bytes is {value!r}: {error}") from error
    if size > LARGEST_LOG:
        raise OptionError(f"segment_bytes is {value!r}, expected at most {LARGEST_LOG:,}: positions have 4 bytes")
    return size


def _resolve_target(to: str | os.PathLike[str]) -> str:
    text = os.fspath(to)
    if not text.strip():
        raise OptionError("the name of the target is empty")
    target = find_real_path(text)
    if is_remote(target):
        raise UnsupportedError(f"the target {text!r} is in a bucket: a log directory is rebuilt on a local disk")
    return target


def _check_apart(target: str, source: Source) -> None:
    """Raises PathError for a target inside a source, or that a source is inside."""
    logs = shown_logs(source)
    given = {find_real_path(path) for path in source.paths}
    directories = {find_real_path(log.directory) for log in logs}
    roots = given | directories | {find_real_path(parent_of(path)) for path in directories - given}
    roots |= {
        parent for parent in map(parent_of, roots) if exists(join_path(parent, "meta.properties"), source.storage)
    }
    for root in sorted(root for root in roots if not is_remote(root)):
        if is_inside(target, root):
            raise PathError(
                f"the target {target!r} is inside {root!r}, which is read and never written to: give another"
            )
        if is_inside(root, target):
            raise PathError(f"the source {root!r} is inside the target {target!r}: give another target")


def _select_topics(source: Source, internal: bool) -> Source:
    """Returns the source with the internal topics beside the selected ones."""
    if not internal:
        return source
    there = {log.topic_partition for log in shown_logs(source.at(source.paths))}
    topics = sorted({topic for topic, _ in there})
    added = [topic for topic in topics if topic in INTERNAL_TOPICS]
    if not added:
        return source
    subscribe, pattern, assign = source.topics
    if assign is not None:
        beside = {topic_partition for topic_partition in there if topic_partition[0] in added}
        return source._replace(topics=TopicSelection(assign=assign | beside))
    if subscribe is not None:
        chosen = [*subscribe]
    else:
        chosen = [topic for topic in topics if not topic.startswith(kafka_format.INTERNAL_TOPIC_PREFIX)]
        chosen = [topic for topic in chosen if pattern is None or re.fullmatch(pattern, topic)]
    return source._replace(topics=TopicSelection(tuple(dict.fromkeys([*chosen, *added]))))


@dataclass(frozen=True)
class _Job:
    """One partition to write."""

    name: str
    log: PartitionLog
    splits: tuple[SegmentSplit, ...]
    size: int

    @property
    def fingerprint(self) -> str:
        """Changes whenever the files to read do."""
        told = [
            (split.path, split.start, split.end, split.base_offset, split.bounds, split.version)
            for split in self.splits
        ]
        return hashlib.sha256(repr(told).encode()).hexdigest()


@dataclass(frozen=True)
class _Run:
    """One run.

    options: of the read, with view=batches.
    """

    options: ReadOptions
    segment_bytes: int | None
    journal: Journal

    def write_all(self, warnings: Warnings, threads: int, on_progress: OnProgress) -> RebuildReport:
        """Writes every partition, and what lies beside them."""
        finished = self.journal.finish_again()
        if finished is not None:
            parts_before = tuple(map(_load_partition, finished["partitions"]))
            return RebuildReport(self.journal.target, parts_before, tuple(finished["warnings"]))
        jobs, warnings = self._plan(self.options, warnings)
        for warning in warnings:
            logger.warning("%s", warning)
        total = sum(job.size for job in jobs)
        self._check_room(jobs)
        on_progress(0, total)
        advance = add_up(total, on_progress)
        largest_first = sorted(range(len(jobs)), key=lambda at: -jobs[at].size)
        parts: list[RebuiltPartition | None] = [None] * len(jobs)
        if threads > 1 and len(jobs) > 1:
            with ThreadPoolExecutor(threads) as pool:
                for at, part in zip(
                    largest_first, pool.map(lambda at: self._write(jobs[at], advance), largest_first), strict=True
                ):
                    parts[at] = part
        else:
            for at, job in enumerate(jobs):
                parts[at] = self._write(job, advance)
        written = tuple(part for part in parts if part is not None)
        self._write_checkpoints(jobs, written)
        report = RebuildReport(self.journal.target, written, tuple(warnings))
        self.journal.finish(report.to_dict())
        return report

    @property
    def _is_timed(self) -> bool:
        """Whether rows of some time are wanted."""
        return self.options.bounds.times != TimeRange()

    def _plan_whole(self, job: _Job) -> _Job:
        """Returns a partition with all its files, those of other times too, as they may hold markers."""
        topics = TopicSelection(assign=frozenset({job.log.topic_partition}))
        options = self.options._replace(
            source=self.options.source._replace(topics=topics),
            bounds=self.options.bounds._replace(since=None, until=None),
        )
        [whole] = self._plan(options, Warnings())[0]
        return whole

    def _plan(self, options: ReadOptions, warnings: Warnings) -> tuple[list[_Job], Warnings]:
        """Plans the read. Returns the partitions, and the warnings of the plan."""
        logs: list[PartitionLog] = []

        def select_all(sources: Sources, said: Warnings) -> Selection:
            logs[:] = sources.logs
            return select(sources, [EVERY_ROW], said)[0]

        plan = plan_selected(options, warnings, select_all)
        splits = {
            key: tuple(group) for key, group in groupby(plan.splits, key=lambda split: (split.topic, split.partition))
        }
        jobs = []
        for log in logs:
            own = splits.get(log.topic_partition, ())
            name = f"{log.topic}-{log.partition}"
            if not _LEGAL_NAME.fullmatch(log.topic):  # of a manifest or an option; it names a directory here
                raise PathError(f"topic {log.topic!r} cannot name a directory of the target: Kafka has no such topic")
            jobs.append(_Job(name, log, own, sum(split.size for split in own)))
        return jobs, Warnings(plan.warnings)

    def _check_room(self, jobs: Iterable[_Job]) -> None:
        todo = [job for job in jobs if not os.path.isdir(join_path(self.journal.target, job.name))]
        needed = sum(job.size + job.size // 100 for job in todo) + _SPARE_BYTES
        there = sum(
            entry.stat().st_size
            for job in todo
            if os.path.isdir(self.journal.folder_of(job.name))
            for entry in os.scandir(self.journal.folder_of(job.name))
        )
        free = count_free_bytes(self.journal.target) + there
        if free < needed:
            raise StorageError(
                f"the target {self.journal.target!r} has too little room: found {free:,} free bytes, expected"
                f" {needed:,}",
                errno=errno.ENOSPC,
                strerror=os.strerror(errno.ENOSPC),
                filename=self.journal.target,
            )

    def _write(self, job: _Job, advance: Advance) -> RebuiltPartition:
        state = self.journal.load(job.name)
        if state is not None and "report" in state:
            self.journal.finish_partition(job.name)
            advance(job.size)
            return _load_partition(state["report"])
        if state is None or state["fingerprint"] != job.fingerprint:
            state = None
        unended = () if state is None else tuple(Unended(*fields) for fields in state["unended"])
        part = self._write_log(job, state, unended, advance)
        if part is None:  # a marker may be missing, so all transactions are followed
            unended = find_unended(job.log, self.options.source, self.options.policy)
            self.journal.save(job.name, {"fingerprint": None})  # nothing goes on from what is there
            whole = self._plan_whole(job) if self._is_timed else job
            part = self._write_log(whole, None, unended, lambda _: None, is_judged=True)
        assert part is not None
        self.journal.save(job.name, {"report": part.to_dict()})
        self.journal.finish_partition(job.name)
        return part

    def _write_log(
        self,
        job: _Job,
        state: Mapping[str, Any] | None,
        unended: tuple[Unended, ...],
        advance: Advance,
        is_judged: bool = False,
    ) -> RebuiltPartition | None:
        """Writes the files of a partition, from a state on or from the start. Returns what it has now.

        It returns None if a transaction may have lost its marker, and `unended` does not judge that yet.
        """
        folder = self.journal.folder_of(job.name)
        notes = Notes()
        if state is None:
            remove_tree(folder)
        make_directory(folder)
        left_before = [] if state is None else [parse_left_out(item) for item in state["leftOut"]]
        is_judged = is_judged or bool(unended)

        def keep(writer: LogWriter) -> None:
            left = [*left_before, *_list_errors(notes)]
            kept = {"fingerprint": job.fingerprint, "unended": unended, "leftOut": [item.to_dict() for item in left]}
            self.journal.save(job.name, {**kept, **writer.keep_state()})

        times = self.options.bounds.times
        writer = LogWriter(
            folder,
            is_compacted=job.log.compacted,
            notes_gaps=not (times.has_since or times.has_until),
            segment_bytes=self.segment_bytes,
            producers=self._find_first_state(job),
            unended=unended,
            on_segment=keep,
        )
        if state is not None:
            writer.restore(state)
        try:
            for split in job.splits:
                following = split.next_base_offset
                if state is None or following is None or following > writer.end:
                    rest = split if state is None else _cut_front(split, writer.end)
                    for batches in read_batches(
                        rest, self.options.source, self.options.policy, notes, times, is_judged
                    ):
                        writer.write(batches)
                advance(split.size)
            writer.close(self._find_empty_end(job, writer))
        except BaseException:
            writer.abandon()
            raise
        left_out = tuple(dict.fromkeys([*left_before, *_list_errors(notes)]))
        is_in_doubt = writer.is_in_doubt or bool(left_out) or self._is_timed
        if not is_judged and writer.has_transactions and is_in_doubt:
            return None
        return self._write_beside(job, writer, notes, (*left_out, *(transaction.describe() for transaction in unended)))

    def _find_first_state(self, job: _Job) -> bytes | None:
        """Returns the producers at the start of the log, as the source's first `.snapshot` has them, or None."""
        if not job.splits or job.splits[0].start:
            return None
        first = job.splits[0]
        path = first.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.SNAPSHOT_SUFFIX
        if not first.path.endswith(kafka_format.LOG_SUFFIX) or not exists(path, first.storage):
            return None
        with InputFile(path, first.storage) as file:
            return file.read_all(MOST_SNAPSHOT)

    def _find_empty_end(self, job: _Job, writer: LogWriter) -> int | None:
        """Returns the base offset of an empty last segment, if the selection goes that far."""
        log = job.log
        if not log.segments:
            return log.offsets.start
        last = log.segments[-1]
        if last.size == 0:
            return last.base_offset
        return None if writer.start is not None else max(last.base_offset, log.offsets.start)

    def _write_beside(
        self, job: _Job, writer: LogWriter, notes: Notes, left_out: tuple[LeftOut, ...]
    ) -> RebuiltPartition:
        """Writes the other files of a partition directory. Returns what the partition has now."""
        log, storage = job.log, job.log.storage
        start = writer.start or 0
        directories = log.copies or (log.directory,)
        sources = tuple(writer.sources) or (log.directory,)
        checkpoints = [read_epochs(source, storage)[0] for source in sources]
        known = epochs.join_epochs(writer.epoch_runs, checkpoints, max(start, log.offsets.start), writer.end)
        replace_file(join_path(writer.directory, kafka_format.LEADER_EPOCH_CHECKPOINT), epochs.to_bytes(known))
        ids = [topic_id for directory in directories if (topic_id := read_topic_id(directory, storage)) is not None]
        if ids:
            metadata = f"version: 0\n{kafka_format.TOPIC_ID_KEY}: {ids[0]}"
            replace_file(join_path(writer.directory, kafka_format.PARTITION_METADATA), metadata.encode())
        left = [
            *left_out,
            *(
                LeftOut("missing offsets", first, last, f"no batch holds the offsets {first} to {last}")
                for first, last in writer.gaps
            ),
        ]
        if notes.torn is not None:
            path, position, count = notes.torn
            why = f"{path!r} ends in {count:,} bytes that are no whole batch"
            left.append(LeftOut("torn end", writer.end, None, why, path, position, count))
        left += [
            LeftOut(
                "open transaction",
                first,
                None,
                f"the transaction of producer {number} that begins at offset {first} has no end; it is kept open",
            )
            for number, first in sorted(writer.producers.open.items(), key=lambda item: item[1])
        ]
        return RebuiltPartition(
            log.topic,
            log.partition,
            join_path(self.journal.target, job.name),
            ids[0] if ids else None,
            max(start, log.offsets.start),
            writer.end,
            writer.segments,
            writer.batches,
            None if writer.has_wrappers else writer.records,
            writer.bytes,
            sources,
            tuple(left),
        )

    def _write_checkpoints(self, jobs: list[_Job], parts: tuple[RebuiltPartition, ...]) -> None:
        """Writes the checkpoints of the log directory, as a broker does when it stops."""
        ends = {(part.topic, part.partition): part.end_offset for part in parts}
        starts = {
            job.log.topic_partition: part.start_offset
            for job, part in zip(jobs, parts, strict=True)
            if job.log.offsets.start > _first_base(part.directory)
        }
        cleaned = {
            job.log.topic_partition: self._find_clean_end(job, part)
            for job, part in zip(jobs, parts, strict=True)
            if job.log.compacted
        }
        for name, entries in (
            (kafka_format.RECOVERY_POINT_CHECKPOINT, ends),
            (kafka_format.HIGH_WATERMARK_CHECKPOINT, ends),
            (kafka_format.LOG_START_CHECKPOINT, starts),
            (kafka_format.CLEANER_CHECKPOINT, cleaned),
        ):
            if entries or name != kafka_format.CLEANER_CHECKPOINT:
                replace_file(join_path(self.journal.target, name), _format_checkpoint(entries))

    def _find_clean_end(self, job: _Job, part: RebuiltPartition) -> int:
        """Returns the offset up to which every copy was compacted, as far as checkpoints say it."""
        checkpoints = Checkpoints(Warnings(), job.log.storage)
        offsets = [
            checkpoints.entry(replace(job.log, directory=source), kafka_format.CLEANER_CHECKPOINT)
            for source in part.sources
        ]
        lowest = min((offset or 0 for offset in offsets), default=0)
        return min(max(lowest, part.start_offset), part.end_offset)


def _cut_front(split: SegmentSplit, start: int) -> SegmentSplit:
    """Returns the split without the offsets below `start`."""
    offsets = split.bounds.offsets.intersect(OffsetRange(start))
    return split._replace(bounds=split.bounds._replace(offsets=offsets))


def _list_errors(notes: Notes) -> list[LeftOut]:
    """Returns what reading has passed over."""
    return [
        LeftOut(
            "damage" if isinstance(error, DataError) else "missing offsets",
            error.offset if isinstance(error, DataError) else None,
            None,
            str(error),
            error.path if isinstance(error, DataError) else None,
            error.position if isinstance(error, DataError) else None,
        )
        for error in notes.errors
    ]


def _load_partition(values: Mapping[str, Any]) -> RebuiltPartition:
    return RebuiltPartition(
        values["topic"],
        values["partition"],
        values["directory"],
        values["topicId"],
        values["startOffset"],
        values["endOffset"],
        values["segments"],
        values["batches"],
        values["records"],
        values["bytes"],
        tuple(values["sources"]),
        tuple(parse_left_out(value) for value in values["leftOut"]),
    )


def _first_base(directory: str) -> int:
    suffix = kafka_format.LOG_SUFFIX
    return min(int(name.removesuffix(suffix)) for name in os.listdir(directory) if name.endswith(suffix))


def _format_checkpoint(entries: Mapping[TopicPartition, int]) -> bytes:
    lines = [str(kafka_format.CHECKPOINT_VERSION), str(len(entries))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(entries.items())]
    return ("\n".join(lines) + "\n").encode()
