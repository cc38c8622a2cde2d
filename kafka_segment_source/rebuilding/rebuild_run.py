"""One run of `rebuild`: plans the partitions, and writes each of them into its directory of the target.

A partition that is finished stays. One that an interrupted run left goes on where its state says.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import EVERY_ROW, OffsetRange, TimeRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataError, PathError, StorageError
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.leader_epochs import read_epochs
from kafka_segment_source.logdir.producer_snapshots import MOST_SNAPSHOT
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import EARLIEST, OffsetLimit, TopicSelection
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.planning.planner import plan_selected
from kafka_segment_source.planning.selection import Selection, Sources, select
from kafka_segment_source.rebuilding import epochs
from kafka_segment_source.rebuilding.broker_checkpoints import write_checkpoints
from kafka_segment_source.rebuilding.journal import Journal
from kafka_segment_source.rebuilding.log_writer import LogWriter
from kafka_segment_source.rebuilding.pieces import Notes, read_batches
from kafka_segment_source.rebuilding.rebuild_report import LeftOut, RebuildReport, RebuiltPartition, parse_left_out
from kafka_segment_source.rebuilding.target_files import count_free_bytes, make_directory, remove_tree, replace_file
from kafka_segment_source.rebuilding.unended import Unended, find_unended
from kafka_segment_source.reporting import Advance, OnProgress, Warnings, add_up, log_warnings
from kafka_segment_source.storage.files import InputFile, exists
from kafka_segment_source.storage.paths import join_path

_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka: Topic.validate


_SPARE_BYTES = 16 * 1024 * 1024  # of a file system, beside the bytes of the logs and a hundredth for index files


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
class RebuildRun:
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
        log_warnings(warnings)
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
        write_checkpoints(self.journal.target, [job.log for job in jobs], written)
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
        left_out += tuple(_list_missing_outside(job, writer, self.options.bounds.starting))
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


def _cut_front(split: SegmentSplit, start: int) -> SegmentSplit:
    """Returns the split without the offsets below `start`."""
    offsets = split.bounds.offsets.intersect(OffsetRange(start))
    return split._replace(bounds=split.bounds._replace(offsets=offsets))


def _list_missing_outside(job: _Job, writer: LogWriter, starting: OffsetLimit) -> Iterator[LeftOut]:
    """Yields the wanted offsets before and behind what was written, of which other files show that the log had them.

    starting: where the options begin. The splits begin where files have something.
    """
    bounds = [split.bounds.offsets for split in job.splits]
    is_from_start = not starting.by_time and starting.at(job.log.topic_partition) == EARLIEST
    start = job.log.offsets.start if is_from_start else min((offsets.start for offsets in bounds), default=0)
    end = max((offsets.end for offsets in bounds), default=kafka_format.MAX_OFFSET)
    outside = OffsetRange(start, writer.start or 0), OffsetRange(writer.end, end)
    missing = [(hole.why, hole.offsets) for hole in job.log.holes]
    missing += [(evidence.why, evidence.offsets) for evidence in job.log.evidence if evidence.is_hard]
    for why, offsets in missing:
        for gone in (offsets.intersect(side) for side in outside):
            if not gone.is_empty:
                said = f"{why}: no file holds the offsets {gone.start} to {gone.end - 1}"
                yield LeftOut("missing offsets", gone.start, gone.end - 1, said)


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
