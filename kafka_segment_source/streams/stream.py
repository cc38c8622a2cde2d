"""A log that is read piece by piece: where it begins, how far the next piece goes, and the plan of a piece.

A piece (Spark's micro-batch) is a range of offsets for each partition. It is planned and read as a batch read of these
offsets is. This module needs no Spark.

It runs in one process for as long as a query runs, in one thread. So it remembers what it found. Nothing else carries
from one piece to the next: after a restart, the positions of the checkpoint are all that is known.

What must hold:

- Positions never go back. One exception: a topic that was deleted and made again begins anew at its first offset, under
  failOnDataLoss=false.
- A piece ends where the whole batches end, at the high watermark (`endAt`), and at the last stable offset
  (`isolationLevel=read_committed`). It ends before offsets that may still come (`log_ends.py`).
- Offsets that a partition had, or must have had, and that no file holds are a loss (failOnDataLoss).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.planning.batch_queries import check_map
from kafka_segment_source.planning.offset_bounds import find_start
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import plan_listed
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Pace
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.streams.gone import GonePartitions
from kafka_segment_source.streams.listings import PAUSE, Listings, Spans
from kafka_segment_source.streams.log_ends import LogEnds, LogSpan
from kafka_segment_source.streams.log_watch import LogWatch
from kafka_segment_source.streams.piece_ends import PieceEnds
from kafka_segment_source.streams.piece_logs import choose_logs
from kafka_segment_source.streams.positions import Positions, name_partition
from kafka_segment_source.streams.said import SaidOnce
from kafka_segment_source.streams.starting import find_beginning
from kafka_segment_source.streams.topic_ids import TopicIds
from kafka_segment_source.streams.withheld import WithheldOffsets


class LogStream:
    """One stream over the logs that the options select.

    options: parsed for a stream.
    clock: seconds of any origin.
    now: seconds since 1970.
    """

    def __init__(
        self,
        options: ReadOptions,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.options = options
        self._source = options.source
        self._said = SaidOnce(options.policy)
        self._ends = LogEnds(options.source, options.policy, options.content.read_committed, clock, now)
        self._piece_ends = PieceEnds(options.policy.trust, clock)
        self._topic_ids = TopicIds()
        self._withheld = WithheldOffsets(clock)
        self._gone = GonePartitions(options.source.topics, self._said, clock)
        watch = LogWatch(options.source.paths, options.source.storage)
        self._listings = Listings(watch, self._list_logs, self._find_spans, clock)
        self._initial: dict[TopicPartition, int] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._came_to: dict[TopicPartition, int] = {}  # the position up to which pieces were planned
        self._made_again: set[TopicPartition] = set()  # since the last piece

    # ---- positions ----

    def find_initial(self) -> dict[TopicPartition, int]:
        """Returns the position where a new stream begins, by the starting… options.

        Raises OptionError for a topic that is not there, for a map that does not name exactly the partitions that are,
        and for a timestamp that no record reaches. Raises DataLossError for an offset that the files do not hold.
        """
        if self._initial is None:
            spans = self._listings.list_anew(needs_all=True)
            limit = self.options.bounds.starting
            check_map(limit, spans.keys())

            def find_by_time(log: PartitionLog) -> int:
                return find_start(log, self.options.bounds, self.options.source, self.options.policy)

            self._initial = {key: find_beginning(span, limit, find_by_time, self._said) for key, span in spans.items()}
            self._came_to.update(self._initial)
        return self._initial

    def find_directories(self) -> list[str]:
        """Returns the directories of the partitions."""
        return [span.log.directory for span in self._listings.find().values()]

    def find_topic_ids(self) -> dict[str, str]:
        """Returns the id of each topic whose `partition.metadata` is there."""
        self._listings.find()
        return self._topic_ids.by_topic()

    def set_target(self) -> None:
        """Fixes the end of the stream at what is there now. Nothing that comes later is read (Trigger.AvailableNow)."""
        self._target = {key: span.end for key, span in self._listings.find().items()}

    def find_latest(self) -> dict[TopicPartition, int]:
        """Returns the position up to which the logs can be read now. Partitions that are away keep theirs."""
        ends = {key: span.end for key, span in self._listings.find().items()}
        return self._came_to | {key: max(end, self._came_to.get(key, 0)) for key, end in ends.items()}

    def find_next(self, start: Positions | None, limited: bool) -> dict[TopicPartition, int]:
        """Returns the position where the next piece ends. It is `start` if there is nothing to read.

        start: where the piece begins; None where Spark does not say, as 4.1: then where the last one ended.
        limited: whether the limits of the options count.
        Raises DataLossError for partitions that are gone, that begin after `start`, or that end before it.
        """
        begin = dict(self._came_to if start is None else start)
        self._came_to.update(begin)
        there = self._gone.wait_for(begin, self._listings.find(), self._listings.list_anew)
        spans = {key: span for key, span in there.items() if self._target is None or key in self._target}
        result = dict(begin)
        waiting: dict[TopicPartition, OffsetRange] = {}
        late: list[TopicPartition] = []
        for key, span in spans.items():
            if key in self._made_again and begin.get(key, 0) > span.start:
                result[key] = span.start  # the one case in which a position goes back
                continue
            self._check_damage(span, None if start is None else begin.get(key, 0))
            waiting[key], is_late = self._find_waiting(span, begin)
            if is_late:
                late.append(key)
        self._made_again.clear()
        if self._target is not None:
            self._wait_for_late(late, spans, begin, waiting)
        limits = self.options.pace if limited else Pace()
        # a fixed end is not waited for
        if self._target is None and self._piece_ends.must_wait(waiting, limits):
            return result
        result |= self._piece_ends.cut({key: span.log for key, span in spans.items()}, waiting, limits)
        if result != begin:
            self._piece_ends.note_piece()
        return result

    def check_end(self, position: Positions) -> None:
        """Raises the error of damage that begins at a position, as the next call of `find_next` does."""
        for key, span in self._listings.find().items():
            self._check_damage(span, position.get(key, 0))

    def _check_damage(self, span: LogSpan, start: int | None) -> None:
        """Raises the error of damage behind the end of a partition's files, once all before it was read.

        Until then it is a warning.

        start: up to where the partition was read. None where Spark does not say, and may not ask again.
        """
        if span.damage is None:
            return
        if start is None or max(start, span.start) >= span.end:
            raise span.damage
        self._said.warn([f"partition {name_partition(span.log.topic_partition)} is read up to damage: {span.damage}"])

    def _find_waiting(self, span: LogSpan, begin: Positions) -> tuple[OffsetRange, bool]:
        """Finds the offsets of a partition that can be read now, and whether missing ones behind them may still come.

        A new partition is read from its start. Reports a loss if the files end before what was read of them.
        """
        key = span.log.topic_partition
        if span.files_end < begin.get(key, 0):
            self._said.report_loss(
                f"partition {name_partition(key)} was read up to offset {begin[key]}, but its files end at"
                f" {span.files_end}: it was cut, or another log is in its place; it is read on from {begin[key]}"
            )
        start = begin.get(key, 0)
        end = span.end if self._target is None else min(self._target[key], span.end)
        warnings = Warnings()
        # what is withheld may have ended in offsets that are missing
        reach = span.files_end if span.is_withheld and end == span.end else end
        lacks_end = reach >= span.files_end and self._ends.may_lack_end(span, warnings)
        is_late = False
        if reach > start:
            whole_end, is_late = self._ends.find_whole_end(span.log, start, reach, warnings)
            start, end = start if is_late else begin.get(key, span.start), min(end, whole_end)
        self._said.warn(warnings)
        return OffsetRange(start, max(start, end)), is_late or lacks_end

    def _wait_for_late(
        self,
        late: list[TopicPartition],
        spans: dict[TopicPartition, LogSpan],
        begin: Positions,
        waiting: dict[TopicPartition, OffsetRange],
    ) -> None:
        """Waits until offsets that may still come are there, or are a loss: a minute at most for all partitions.

        A run with a fixed end would end before them otherwise, and the next one would not know for how long they are
        missing. It changes `spans` and `waiting`.
        """
        while late:
            retrying.wait(PAUSE)
            listed = self._listings.list_anew()
            for key in list(late):
                spans[key] = listed.get(key, spans[key])
                waiting[key], is_late = self._find_waiting(spans[key], begin)
                if not is_late:
                    late.remove(key)

    # ---- pieces ----

    def plan(self, start: Positions, end: Positions) -> ReadPlan | None:
        """Plans the rows from `start` to `end` (exclusive). None if there is nothing to read.

        After a restart, Spark asks for the last piece again, before it asks for anything else. Raises DataLossError for
        offsets that the files no longer hold.
        """
        self._came_to.update(end)
        wanted = {
            key: OffsetRange(start.get(key, 0), offset) for key, offset in end.items() if start.get(key, 0) < offset
        }
        if not wanted:
            return None

        def plan_of(logs: list[PartitionLog]) -> ReadPlan:
            return plan_listed(choose_logs(wanted, start, logs, self._ends.find_files, self._said), self.options)

        try:
            plan = plan_of(self._find_listed(wanted))
        except FileChangedError:
            plan = retrying.try_again(lambda: plan_of(self._list_logs(needs_all=False)))
        self._said.warn(plan.warnings)
        return plan

    def _find_listed(self, wanted: Mapping[TopicPartition, OffsetRange]) -> list[PartitionLog]:
        """Returns the logs of the last listing if it covers the wanted offsets, else those of a new one."""
        spans = self._listings.last
        if spans is not None and all(key in spans and offsets.end <= spans[key].end for key, offsets in wanted.items()):
            return [spans[key].log for key in wanted]
        return self._list_logs(needs_all=False)

    # ---- what is there ----

    def _list_logs(self, needs_all: bool) -> list[PartitionLog]:
        warnings = Warnings()
        logs = examined_logs(self._source, self.options.policy, warnings, needs_all)
        self._said.warn(warnings)
        return logs

    def _find_spans(self, logs: list[PartitionLog]) -> Spans:
        """Finds what can be read of listed logs. Reports a loss if a topic was deleted and made again."""
        for log, before, now in self._topic_ids.look(logs):
            key = log.topic_partition
            self._made_again.add(key)
            if self._came_to.get(key):
                self._said.report_loss(
                    f"topic {log.topic!r} was deleted and made again: partition {name_partition(key)} was read up to offset"
                    f" {self._came_to[key]} under the topic id {before}, and has the id {now} now"
                )
        at_once = requests_at_once((log.storage, log.directory) for log in logs)
        spans = dict(zip((log.topic_partition for log in logs), map_ahead(self._ends.find, logs, at_once), strict=True))
        self._withheld.note(spans, self._say_withheld)
        return spans

    def _say_withheld(self, span: LogSpan) -> None:
        self._said.warn(self._ends.describe_withheld(span.log, span.files_end))
