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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.data_loss import report_lost_offsets
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.logdir.checkpoints import read_topic_id
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.logdir.topic_choice import is_selected
from kafka_segment_source.option_values import EARLIEST, LATEST, TopicPartition
from kafka_segment_source.options import ReadOptions
from kafka_segment_source.partition.logs import examined_logs
from kafka_segment_source.planning.batch_queries import check_map
from kafka_segment_source.planning.offset_bounds import find_start
from kafka_segment_source.planning.plan import ReadPlan
from kafka_segment_source.planning.planner import plan_listed
from kafka_segment_source.reporting import Warnings, logger, name_some
from kafka_segment_source.request import Pace
from kafka_segment_source.storage.ahead import map_ahead, requests_at_once
from kafka_segment_source.storage.files import lasting_version
from kafka_segment_source.storage.retrying import try_again, wait
from kafka_segment_source.storage.store import NO_VERSION, FileVersion
from kafka_segment_source.streams.batch_edges import cut_at_offset, cut_by_bytes
from kafka_segment_source.streams.limits import spread
from kafka_segment_source.streams.log_ends import LOSS_REMEDY, LogEnds, LogSpan
from kafka_segment_source.streams.log_watch import LogWatch
from kafka_segment_source.streams.positions import Positions

LISTING_SECONDS = 1.0
"""How long a listing answers. An idle query of Spark asks about a hundred times a second."""
GONE_SECONDS = 10.0
"""How long a partition or a path may be away before that is a loss or an error. A broker renames directories."""
_PAUSE = 0.5  # s between two listings while something is away
_HANGING_SECONDS = 60.0  # after this, a warning says why a stream does not go on
_MOST_NAMED = 5  # partitions in one sentence
_MOST_REMEMBERED = 1000  # sentences that were said; a query may run for months


@dataclass(slots=True)
class _Listing:
    """What was there at one moment.

    seen: time.monotonic of that moment.
    spans: what can be read of each partition.
    """

    seen: float
    spans: dict[TopicPartition, LogSpan]


@dataclass(frozen=True, slots=True)
class _Withheld:
    """A last stable offset before the end of a log.

    seen: when it was found first.
    is_said: whether a warning named it.
    """

    end: int
    seen: float
    is_said: bool = False


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
        self._clock = clock
        self._ends = LogEnds(options.source, options.policy, options.content.read_committed, clock, now)
        self._watch: LogWatch | None = None
        self._listing: _Listing | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._initial: dict[TopicPartition, int] | None = None
        self._came_to: dict[TopicPartition, int] = {}  # the position up to which pieces were planned
        self._given_up: set[TopicPartition] = set()
        self._ids: dict[TopicPartition, tuple[FileVersion, str | None]] = {}
        self._made_again: set[TopicPartition] = set()
        self._last_piece: float | None = None
        self._said: set[str] = set()
        self._withheld: dict[TopicPartition, _Withheld] = {}

    # ---- positions ----

    def find_initial(self) -> dict[TopicPartition, int]:
        """Returns the position where a new stream begins, by the starting… options.

        Raises OptionError for a topic that is not there, for a map that does not name exactly the partitions that are,
        and for a timestamp that no record reaches. Raises DataLossError for an offset that the files do not hold.
        """
        if self._initial is None:
            listing = self._list(needs_all=True, is_new=True)
            check_map(self.options.bounds.starting, listing.spans.keys())
            self._initial = {
                topic_partition: self._find_initial_of(span) for topic_partition, span in listing.spans.items()
            }
            self._came_to.update(self._initial)
        return self._initial

    def _find_initial_of(self, span: LogSpan) -> int:
        limit = self.options.bounds.starting
        if not limit.by_time:
            number = limit.at(span.log.topic_partition)
            if number in (EARLIEST, LATEST):
                return span.start if number == EARLIEST else span.end
            if not span.start <= number <= span.files_end:
                self._report_loss(
                    f"option {limit.option!r} asks for offset {number} of partition {_name(span.log.topic_partition)},"
                    f" but the files hold the offsets {span.start} to {span.files_end - 1}"
                )
            return min(max(number, span.start), span.files_end)
        return min(
            max(find_start(span.log, self.options.bounds, self.options.source, self.options.policy), span.start),
            span.files_end,
        )

    def find_directories(self) -> list[str]:
        """Returns the directories of the partitions."""
        return [span.log.directory for span in self._list().spans.values()]

    def find_topic_ids(self) -> dict[str, str]:
        """Returns the id of each topic whose `partition.metadata` is there."""
        self._list()
        return {topic: known for (topic, _), (_, known) in self._ids.items() if known is not None}

    def set_target(self) -> None:
        """Fixes the end of the stream at what is there now. Nothing that comes later is read (Trigger.AvailableNow)."""
        self._target = {key: span.end for key, span in self._list().spans.items()}

    def find_latest(self) -> dict[TopicPartition, int]:
        """Returns the position up to which the logs can be read now. Partitions that are away keep theirs."""
        ends = {key: span.end for key, span in self._list().spans.items()}
        return self._came_to | {key: max(end, self._came_to.get(key, 0)) for key, end in ends.items()}

    def find_next(self, start: Positions | None, limited: bool) -> dict[TopicPartition, int]:
        """Returns the position where the next piece ends. It is `start` if there is nothing to read.

        start: where the piece begins; None where Spark does not say, as 4.1: then where the last one ended.
        limited: whether the limits of the options count.
        Raises DataLossError for partitions that are gone, that begin after `start`, or that end before it.
        """
        begin = dict(self._came_to if start is None else start)
        self._came_to.update(begin)
        spans = self._list_with(begin)
        spans = {key: span for key, span in spans.items() if self._target is None or key in self._target}
        result = dict(begin)
        waiting: dict[TopicPartition, OffsetRange] = {}
        late: list[TopicPartition] = []
        for key, span in spans.items():
            if key in self._made_again and begin.get(key, 0) > span.start:
                result[key] = span.start  # the one case in which a position goes back
                continue
            waiting[key], is_late = self._find_waiting(span, begin)
            if is_late:
                late.append(key)
        self._made_again.clear()
        if self._target is not None:
            self._wait_for_late(late, spans, begin, waiting)
        limits = self.options.pace if limited else Pace()
        if self._must_wait(waiting, limits):
            return result
        result |= {key: offsets.end for key, offsets in waiting.items()} | self._cut(spans, waiting, limits)
        if result != begin:
            self._last_piece = self._clock()
        return result

    def _find_waiting(self, span: LogSpan, begin: Positions) -> tuple[OffsetRange, bool]:
        """Finds the offsets of a partition that can be read now, and whether missing ones behind them may still come.

        A new partition is read from its start.
        """
        key = span.log.topic_partition
        if key in begin:
            self._check_end(span, begin[key])
        start = begin.get(key, 0)
        end = span.end if self._target is None else min(self._target[key], span.end)
        if end <= start:
            return OffsetRange(start, start), False
        warnings = Warnings()
        end, is_late = self._ends.find_whole_end(span.log, start, end, warnings)
        self._warn(warnings)
        start = start if is_late else begin.get(key, span.start)
        return OffsetRange(start, max(start, end)), is_late

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
            wait(_PAUSE)
            listed = self._list(is_new=True).spans
            for key in list(late):
                spans[key] = listed.get(key, spans[key])
                waiting[key], is_late = self._find_waiting(spans[key], begin)
                if not is_late:
                    late.remove(key)

    def _must_wait(self, waiting: Mapping[TopicPartition, OffsetRange], limits: Pace) -> bool:
        """Whether too few offsets are there for a piece (minOffsetsPerTrigger). A fixed end is not waited for."""
        if limits.least_offsets is None or self._target is not None or self._last_piece is None:
            return False
        if self._clock() - self._last_piece >= limits.longest_wait / 1000:
            return False
        return sum(max(offsets.end - offsets.start, 0) for offsets in waiting.values()) < limits.least_offsets

    def _cut(
        self, spans: Mapping[TopicPartition, LogSpan], waiting: Mapping[TopicPartition, OffsetRange], limits: Pace
    ) -> dict[TopicPartition, int]:
        """Returns the ends of the partitions from which the limits leave only a part."""
        waiting = {key: offsets for key, offsets in waiting.items() if not offsets.is_empty}
        ends: dict[TopicPartition, int] = {}
        if limits.most_offsets is not None:
            shares = spread(limits.most_offsets, {key: offsets.end - offsets.start for key, offsets in waiting.items()})
            for key, offsets in waiting.items():
                if shares[key] < offsets.end - offsets.start:
                    cut = OffsetRange(offsets.start, offsets.start + shares[key])
                    ends[key] = cut_at_offset(spans[key].log, cut, self.options.policy.trust)
        if limits.most_bytes is not None:
            left = {key: OffsetRange(offsets.start, ends.get(key, offsets.end)) for key, offsets in waiting.items()}
            logs = {key: spans[key].log for key in left}
            ends |= cut_by_bytes(logs, left, limits.most_bytes, self.options.policy.trust)
        return ends

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
        try:
            plan = self._plan_once(wanted, start, self._find_listing(wanted))
        except FileChangedError:
            plan = try_again(lambda: self._plan_once(wanted, start, self._list_files(needs_all=False)))
        self._warn(plan.warnings)
        return plan

    def _find_listing(self, wanted: Mapping[TopicPartition, OffsetRange]) -> list[PartitionLog]:
        """Returns the logs of the last listing if it covers the wanted offsets, else those of a new one."""
        listing = self._listing
        if listing is not None and all(
            key in listing.spans and offsets.end <= listing.spans[key].end for key, offsets in wanted.items()
        ):
            return [listing.spans[key].log for key in sorted(wanted)]
        return self._list_files(needs_all=False)

    def _plan_once(
        self, wanted: Mapping[TopicPartition, OffsetRange], start: Positions, logs: list[PartitionLog]
    ) -> ReadPlan:
        there = {log.topic_partition: log for log in logs}
        chosen: list[PartitionLog] = []
        for key, offsets in sorted(wanted.items()):
            if key not in there:
                self._report_loss(
                    f"the directory of partition {_name(key)} is gone, and offsets up to {offsets.end} with it"
                )
                continue
            first, end = self._ends.find_files(there[key])
            self._check_begin(key, first, offsets.start, is_new=key not in start)
            if end < offsets.end:
                self._report_loss(
                    f"the files of partition {_name(key)} end at offset {end}, but a micro-batch up to {offsets.end} was"
                    " begun"
                )
            # the high watermark does not count: after a crash, it may have gone back below what was begun
            chosen.append(replace(there[key], offsets=OffsetRange(max(first, offsets.start), min(offsets.end, end))))
        return plan_listed([log for log in chosen if not log.offsets.is_empty], self.options)

    # ---- what can be lost between two pieces ----

    def _check_begin(self, key: TopicPartition, first: int, position: int, is_new: bool) -> None:
        """Reports a loss if the log begins after `position`. first: where it begins."""
        if first > position:
            came = "is new" if is_new else f"was read up to offset {position}"
            self._report_loss(
                f"partition {_name(key)} {came}, but its files begin at {first}: the offsets {position} to {first - 1} are"
                " gone"
            )

    def _check_end(self, span: LogSpan, position: int) -> None:
        """Reports a loss if the files end before what was read of them."""
        if span.files_end < position:
            self._report_loss(
                f"partition {_name(span.log.topic_partition)} was read up to offset {position}, but its files end at"
                f" {span.files_end}: it was cut, or another log is in its place; it is read on from {position}"
            )

    def _list_with(self, begin: Positions) -> dict[TopicPartition, LogSpan]:
        """Returns what can be read of each partition. Waits for those that are away, and then reports their loss."""
        listing = self._list()
        self._check_selection(begin, listing)
        gone = self._find_gone(begin, listing)
        end = self._clock() + GONE_SECONDS
        while gone and self._clock() < end:
            wait(_PAUSE)
            listing = self._list(is_new=True)
            gone = self._find_gone(begin, listing)
        if gone:
            self._given_up.update(gone)
            named = _join_names(gone, begin)
            self._report_loss(
                f"no directory holds what this stream has read of {named}: records after that may be lost"
            )
        return listing.spans

    def _check_selection(self, begin: Positions, listing: _Listing) -> None:
        """Reports a loss if a checkpoint has partitions that the options do not select."""
        others = [key for key in self._find_gone(begin, listing) if not is_selected(key, self.options.source.topics)]
        if others:
            self._given_up.update(others)
            self._report_loss(
                f"the options select other partitions than before: not {_join_names(others, begin)}; give the old options,"
                " or begin anew with another checkpoint or target"
            )

    def _find_gone(self, begin: Positions, listing: _Listing) -> list[TopicPartition]:
        self._given_up -= listing.spans.keys()
        return sorted(key for key in begin if key not in listing.spans and key not in self._given_up)

    def _check_ids(self, logs: list[PartitionLog]) -> None:
        """Reports a loss if a topic has another id than before: it was deleted and made again."""
        for log in logs:
            key, version = log.topic_partition, log.beside.metadata
            known = self._ids.get(key)
            if version == NO_VERSION or (known is not None and known[0] == version):
                continue
            topic_id = read_topic_id(log.directory, self.options.source.storage)
            self._ids[key] = lasting_version(version), topic_id
            if known is None or None in (topic_id, known[1]) or topic_id == known[1]:
                continue
            self._made_again.add(key)
            if self._came_to.get(key):
                self._report_loss(
                    f"topic {log.topic!r} was deleted and made again: partition {_name(key)} was read up to offset"
                    f" {self._came_to[key]} under the topic id {known[1]}, and has the id {topic_id} now"
                )

    # ---- listings ----

    def _list(self, needs_all: bool = False, is_new: bool = False) -> _Listing:
        """Returns a listing that is not older than a second, or that nothing has changed since."""
        listing = self._listing
        moment = self._clock()
        if listing is not None and not is_new:
            if moment - listing.seen < LISTING_SECONDS:
                return listing
            if self._watch is not None and self._watch.is_unchanged([span.log for span in listing.spans.values()]):
                listing.seen = moment
                return listing
        listing = try_again(lambda: self._list_once(needs_all))
        self._listing = listing
        return listing

    def _list_once(self, needs_all: bool) -> _Listing:
        known = [] if self._listing is None else [span.log for span in self._listing.spans.values()]
        if self._watch is None:
            self._watch = LogWatch(self.options.source.paths, self.options.source.storage)
        self._watch.begin(known)
        seen = self._clock()
        logs = self._list_waiting(needs_all)
        self._check_ids(logs)
        at_once = requests_at_once((log.storage, log.directory) for log in logs)
        spans = dict(zip((log.topic_partition for log in logs), map_ahead(self._ends.find, logs, at_once), strict=True))
        self._note_withheld(spans)
        return _Listing(seen, spans)

    def _note_withheld(self, spans: Mapping[TopicPartition, LogSpan]) -> None:
        """Says why a stream does not go on, once a transaction has withheld the same offsets for a while."""
        now = self._clock()
        before = self._withheld
        self._withheld = {}
        for key, span in spans.items():
            if not span.is_withheld:
                continue
            since = before[key] if key in before and before[key].end == span.end else _Withheld(span.end, now)
            if not since.is_said and now - since.seen > _HANGING_SECONDS:
                self._warn(self._ends.describe_withheld(span.log, span.files_end))
                since = replace(since, is_said=True)
            self._withheld[key] = since

    def _list_waiting(self, needs_all: bool) -> list[PartitionLog]:
        """Lists the files. A path that was there before may be away for a moment."""
        end = self._clock() + GONE_SECONDS
        while True:
            try:
                return self._list_files(needs_all)
            except PathError:
                if self._listing is None or self._clock() >= end:
                    raise
                wait(_PAUSE)

    def _list_files(self, needs_all: bool) -> list[PartitionLog]:
        warnings = Warnings()
        logs = examined_logs(self.options.source, self.options.policy, warnings, needs_all)
        self._warn(warnings)
        return logs

    # ---- what is said ----

    def _report_loss(self, lost: str) -> None:
        self._warn([report_lost_offsets(lost, self.options.policy, LOSS_REMEDY)])

    def _warn(self, warnings: Iterable[str]) -> None:
        """Logs each sentence once."""
        for warning in warnings:
            if warning not in self._said:
                if len(self._said) >= _MOST_REMEMBERED:
                    self._said.clear()
                self._said.add(warning)
                logger.warning("%s", warning)


def _name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition[0]}-{topic_partition[1]}"


def _join_names(keys: list[TopicPartition], begin: Positions) -> str:
    return name_some(keys, _MOST_NAMED, lambda key: f"{_name(key)} (read up to offset {begin[key]})")
