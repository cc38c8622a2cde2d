"""Finds the transactions that are open at the end of a log. It runs on the driver.

The newest `.snapshot` has the transactions that were open at its offset. The batches after it, up to the end of the
log, show how this changed (Kafka: ProducerStateManager, ProducerAppendInfo). Without a usable snapshot, the log is read
from its start. A scan that ends at its own offset needs only the transactions that began before that offset. Once none
of them is open, reading stops.

If a marker is damaged (mode=DROPMALFORMED), its transaction stays open. Then more rows are withheld than necessary, and
a warning reports it.

Where offsets are missing, nothing is guessed. A transaction that was open before them may have ended in them. So it
does not end the log here, and a warning reports it. Reading judges its rows: lost, or withheld (failOnDataLoss).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit, anchored, place_of
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.producer_snapshots import ProducerState, newest_state
from kafka_segment_source.logdir.segment_view import SegmentView, find_header
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.planning.withheld_rows import describe_undecided, describe_withheld
from kafka_segment_source.reading.following import list_whole, whole_split
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.ahead import map_ahead
from kafka_segment_source.storage.files import file_version
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.storage.store import FileVersion
from kafka_segment_source.transactions.producers import DATA, HOLE, Event, Producers, Runs, list_events
from kafka_segment_source.transactions.small_segments import SegmentEvents, read_small_segment
from kafka_segment_source.transactions.stretches import Stretch, first_void
from kafka_segment_source.transactions.walk import walk_split
from kafka_segment_source.trust import Policy

_MOST_SKIPPED = 100  # places of damage that a stream looks at again


class _Skipped(NamedTuple):
    """A place of damage in a file, and the whole batch there, if there was one: its offsets are wrong."""

    path: str
    position: int
    batch: BatchHeader | None


@dataclass(slots=True)
class ProducerMemory:
    """The producers' state as it was found last, for a stream that asks at each trigger.

    last: the batch before the state's offset, in the file at `path`. While it is there, the log up to it is the same,
        but for damage that was skipped.
    skipped: the first such places, _MOST_SKIPPED at most. One may be mended, in place or by another copy.
    """

    state: ProducerState | None = None
    path: str = ""
    last: BatchPlace | None = None
    skipped: tuple[_Skipped, ...] = ()


def find_stable_end(
    log: PartitionLog,
    end: int,
    source: Source,
    policy: Policy,
    warnings: Warnings,
    memory: ProducerMemory | None = None,
) -> int:
    """Finds the offset where a scan up to `end` ends under read_committed. It warns of withheld rows.

    memory: what the last call found. This call goes on from there, and leaves out the warning of withheld rows.
    Raises CorruptRecordError for damage on the way to the end of the log, under FAILFAST.
    """
    last = log.segments[-1]
    end = min(end, last.offsets.end, last.span.end)
    whole = log if log.is_whole or log.copies else list_whole(log.directories, source, policy)
    replay = _Replay(whole, source, policy, warnings, memory)
    replay.run(end)
    waiting = {producer: first for producer, first in replay.producers.open.items() if first < end}
    undecided = [transaction for transaction in replay.undecided if transaction[1] < end]
    if waiting or undecided:
        replay.confirm()
    if undecided and memory is None:
        warnings.add(describe_undecided(replay.log, undecided, replay.missing, policy.trust), "undecided transactions")
    if not waiting:
        # a broker may write a new transaction after this offset, into preallocated space
        return min(end, replay.reached) if replay.is_at_end else end
    stable = min(waiting.values())
    if memory is not None:
        return stable
    said = describe_withheld(replay.log, waiting, replay.missing, stable, end, policy.trust)
    warnings.add(said, "open transactions")
    return stable


@dataclass(slots=True)
class _Replay:
    """Follows the producers of a log to find the open transactions.

    producers: with the transactions that are open.
    undecided: producer id and first offset of each transaction that was open before missing offsets.
    hidden: the same, where a copy has a gap that no file states: compaction made it, unless nothing of the producer
        follows.
    missing: the first of these offsets, None if none are missing.
    skipped: as in `ProducerMemory`.
    reached: the offset after the last batch that was read.
    is_at_end: whether no batch follows in the log.

    With endAt=highWatermark, the log ends at its high watermark. A marker after that does not end a transaction.
    """

    log: PartitionLog
    source: Source
    policy: Policy
    warnings: Warnings
    memory: ProducerMemory | None = None
    producers: Producers = field(default_factory=lambda: Producers({}))
    undecided: list[tuple[int, int]] = field(default_factory=list)
    hidden: dict[int, int] = field(default_factory=dict)
    missing: int | None = None
    walked: list[tuple[str, FileVersion]] = field(default_factory=list)
    skipped: list[_Skipped] = field(default_factory=list)
    reached: int = 0
    is_at_end: bool = False

    def confirm(self) -> None:
        """Raises FileChangedError if another file has replaced one that was read.

        The log cleaner may have removed a marker between two of the files.
        """
        storage = self.log.storage
        at_once = storage.read_cost(self.log.directory).at_once
        versions = map_ahead(lambda walked: file_version(walked[0], storage), self.walked, at_once)
        for (path, version), now in zip(self.walked, versions, strict=True):
            if now is None or not now.is_same_file(version):
                raise FileChangedError(f"file {path!r} was replaced while the log was planned; plan the read again")

    def run(self, end: int) -> None:
        """Follows the producers up to `end`.

        It goes on while a transaction that began before `end` may be open, at most to the end of the log.
        """
        state = self._recall_state()
        if state is None and self.policy.trust.trust_indexes:
            state = self._find_state()
        since = ProducerState(0, {}) if state is None else state
        self.producers = Producers(since.open_transactions)
        self.reached, read = since.offset, 0
        holes = self._list_holes(since.offset)
        parts = self._walk_segments(since.offset)
        while self.reached < end or any(first < end for first in self._list_waiting()):
            part = next(parts, None)
            if part is None:
                self.is_at_end = True
                break
            events = part.events
            if holes and holes[0] < part.end:
                passed = bisect_left(holes, part.end)
                events = sorted([*events, *((hole, HOLE, 0) for hole in holes[:passed])])
                holes = holes[passed:]
            self._apply_events(events, since.offset)
            read += part.size
            self.reached = max(self.reached, part.end)
        if self.is_at_end:
            self._apply_events([(hole, HOLE, 0) for hole in holes], since.offset)
        parts.close()
        self.undecided += self.hidden.items()
        self._keep_state()
        if state is None and len(self.log.segments) > 1 and self.policy.trust.trust_indexes:
            self.warnings.add(
                f"partition {self.log.topic}-{self.log.partition} has no usable .snapshot: {read:,} bytes were read from"
                " its start in planning, to find the last stable offset (isolationLevel=read_committed)",
                "no usable .snapshot",
            )

    def _list_waiting(self) -> list[int]:
        """Lists the first offsets of the transactions that a later batch may decide."""
        return [*self.producers.open.values(), *self.hidden.values()]

    def _recall_state(self) -> ProducerState | None:
        """Returns the state that the last call found, if the log still has the batch before it."""
        memory = self.memory
        if memory is None or memory.state is None or memory.state.offset > self.log.offsets.end:
            return None
        place = self._find_place(memory.state.offset)
        if place != (memory.path, memory.last) or any(self._look_at(*place[:2]) != place for place in memory.skipped):
            return None
        self.skipped = [*memory.skipped]
        return memory.state

    def _look_at(self, path: str, position: int) -> _Skipped | None:
        """Looks at a place of damage. None if its file is not read any more."""
        segment = next((segment for segment in self.log.segments if segment.path == path), None)
        if segment is None:
            return None
        with SegmentView(segment, self.policy.trust) as view:
            return _Skipped(path, position, view.probe.proven(position))

    def _keep_state(self) -> None:
        """Keeps the state at the end of what was read. Events after the high watermark do not count yet."""
        if self.memory is None:
            return
        offset = min(self.reached, self.log.offsets.end)
        path, last = self._find_place(offset) or ("", None)
        state = None if last is None else ProducerState(offset, dict(self.producers.open))
        self.memory.state, self.memory.path, self.memory.last = state, path, last
        self.memory.skipped = tuple(self.skipped[:_MOST_SKIPPED])

    def _find_place(self, offset: int) -> tuple[str, BatchPlace] | None:
        """Finds the batch that ends right before an offset, and its file. None if there is no such batch."""
        for segment in self.log.segments:
            if segment.base_offset < offset <= min(segment.span.end, segment.offsets.end):
                header = find_header(segment, offset - 1, self.policy.trust)
                if header is not None and header.last_offset == offset - 1:
                    return segment.path, place_of(header)
        return None

    def _find_state(self) -> ProducerState | None:
        """Finds the newest producer state that belongs to the segments of this log and has all open transactions.

        A copy that begins later than another one may have been fetched from there on. Then its broker knows no batch
        from before (Kafka: ProducerStateManager.truncateFullyAndStartAt). Its state counts if another state shows that
        no transaction from before was still open.
        """
        latest_state: ProducerState | None = None
        late = dict(self.log.late)
        for directory in sorted(self.log.directories, key=lambda path: late.get(path, -1)):
            if directory in late and not _has_ended_before(latest_state, late[directory]):
                continue
            state = newest_state(directory, self.log.storage, partial(self._is_read_from, directory), self.warnings)
            if state is not None and (latest_state is None or state.offset > latest_state.offset):
                latest_state = state
        return latest_state

    def _is_read_from(self, directory: str, offset: int) -> bool:
        """Whether the segment up to this offset is read from this directory. Otherwise, the state is another log's."""
        first = self.log.segments[0]
        if offset == first.base_offset:
            return parent_of(first.path) == directory
        if offset > self.log.offsets.end:
            return False
        for segment in self.log.segments:
            after = segment.next_base_offset
            inside = segment.base_offset < offset and (after is None or offset <= after)
            if (
                inside
                and parent_of(segment.path) == directory
                and segment.offsets.start < offset <= segment.offsets.end
            ):
                return offset == after or find_header(segment, offset - 1, self.policy.trust) is not None
        return False

    def _walk_segments(self, offset: int) -> Generator[SegmentEvents, None, None]:
        """Yields the events of the log in order, from the batch that holds `offset`."""
        end = 0
        wanted = []
        for at, segment in enumerate(self.log.segments):
            first = max(offset, segment.offsets.start)
            if first < min(segment.span.end, segment.offsets.end):
                wanted.append((at, first))
        at_once = self.log.storage.read_cost(self.log.directory).at_once
        small = map_ahead(lambda place: self._read_small(*place), wanted, at_once)
        for (at, first), small_segment in zip(wanted, small, strict=True):
            segment = self.log.segments[at]
            self.walked.append((segment.path, segment.version))
            if small_segment is not None:
                end = small_segment.end
                yield small_segment
                continue
            for stretch in walk_split(self._make_split(at, first), self.source, self.policy, after=end):
                events = self._collect_events(stretch, end)
                end = events.end
                yield events

    def _read_small(self, at: int, first: int) -> SegmentEvents | None:
        """Reads the events of segment number `at`, if all of it is wanted and the segment is small and usual."""
        segment = self.log.segments[at]
        if self.log.copies or segment.base_offset < first:
            return None
        events = read_small_segment(segment, self.policy.trust)
        if events is None or events.end == segment.next_base_offset:
            return events
        if self.log.gap_is_loss(at):
            return None  # the other reader knows whether offsets are missing
        with SegmentView(segment, self.policy.trust) as view:
            is_cut = view.find_lost_end(events.end) is not None
        return None if is_cut else events

    def _make_split(self, at: int, first: int) -> SegmentSplit:
        """Makes a split of segment number `at`, from the batch that holds the offset `first`."""
        segment = self.log.segments[at]
        split = whole_split(self.log, at)
        if segment.base_offset >= first:
            return split
        with SegmentView(segment, self.policy.trust) as view:
            return anchored(split._replace(start=view.start_position(first)), view.probe)

    def _collect_events(self, stretch: Stretch, before: int) -> SegmentEvents:
        """Collects the events of a stretch. before: the offset after the batch before the stretch."""
        self._end_lost_transactions(stretch)
        skipped = "skipped in looking for the last stable offset (mode=DROPMALFORMED)"
        self.warnings.add_all([f"{skipped}: {error}" for error in stretch.errors], skipped)
        if self.memory is not None and len(self.skipped) < _MOST_SKIPPED:
            places = [(error.path, error.position) for error in stretch.errors if error.position is not None]
            self.skipped += filter(None, (self._look_at(*place) for place in places))
        headers, holes = stretch.headers, [] if stretch.loss is None else [before]
        events = list_events(Runs(headers, stretch.markers, holes), stretch.markers, holes)
        end = int(headers[batch_headers.LAST_OFFSET, -1]) + 1 if headers.shape[1] else before
        return SegmentEvents(events, end, int(headers[batch_headers.SIZE].sum()))

    def _apply_events(self, events: list[Event], offset: int) -> None:
        """Opens and ends transactions by the events from `offset` on. The state has the earlier events already."""
        producers, end = self.producers, self.log.offsets.end
        for at, kind, producer_id in events:
            if not offset <= at < end:
                continue
            if kind != HOLE:
                self.hidden.pop(producer_id, None)
            if kind == DATA:
                producers.take_data(producer_id, at)
            elif kind == HOLE:
                self.undecided += producers.take_hole(at).items()
                self.missing = at if self.missing is None else self.missing
            else:
                producers.take_marker(producer_id)

    def _list_holes(self, offset: int) -> list[int]:
        """Lists where offsets are missing, as far as planning knows, from `offset` on."""
        wanted = OffsetRange(offset, self.log.offsets.end)
        missing = (offsets.intersect(wanted) for offsets in self.log.list_missing())
        return sorted(offsets.start for offsets in missing if not offsets.is_empty)

    def _end_lost_transactions(self, stretch: Stretch) -> None:
        """Ends the transactions that were open before offsets that one of several copies has lost.

        The log cleaner stays below the first offset of every open transaction (Kafka:
        LogCleanerManager.cleanableOffsets). So these transactions have ended, if it made the gap. But the marker may be
        gone too, and then it is not known how they ended. Their rows are withheld when they are read.
        """
        void = first_void(stretch, self.reached) if self.log.copies else None
        if void is not None:
            hidden = self.producers.take_hole(void)
            self.hidden |= hidden
            if hidden and self.missing is None:
                self.missing = void


def _has_ended_before(state: ProducerState | None, offset: int) -> bool:
    """Whether a state shows that every transaction which began before an offset has ended."""
    return state is not None and min([state.offset, *state.open_transactions.values()]) >= offset
