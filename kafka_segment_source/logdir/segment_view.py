"""Gives planning access to one segment: its `.log` and its index files.

Each file is opened when it is first needed. All are closed together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.cut_segments import find_lost_end
from kafka_segment_source.logdir.indexes import (
    OffsetEntries,
    TimeEntries,
    read_last_offsets,
    read_offset_index,
    read_offsets_behind,
    read_time_ends,
    read_time_index,
)
from kafka_segment_source.logdir.offset_proof import (
    follows,
    has_jumped,
    limit_of,
    may_have_fallen,
    may_have_risen,
    overlaps,
)
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.storage.ahead import run_together
from kafka_segment_source.storage.files import UNUSABLE, InputFile
from kafka_segment_source.trust import Trust

_ATTEMPTS = 8  # index entries to try on each side; after that more bytes are read
_HEAD_BATCHES = 1024  # batches to check before a time index is rejected; real files need 2 (median) to 65 (worst)
_MOST_WALKED = 4 * 1024 * 1024  # bytes to walk for the end of a log; a broker's index leaves 4 KiB and a batch
_MOST_WITHOUT_INDEX = 1024 * 1024
_WHOLE_INDEX = 32 * 1024  # bytes of a `.timeindex` that one request reads sooner than two requests read its ends


class SegmentEnd(NamedTuple):
    """Where the batches of a segment end.

    offset: after the last batch that can be believed.
    misplaced: the last batch, or the one before it, if its offsets contradict its segment or the other one.
    allowed: the offsets that are left for it, both inclusive.
    is_hidden: whether enough bytes follow to hide batches. Only reading them shows whether they end the log.
    """

    offset: int
    misplaced: BatchHeader | None = None
    allowed: tuple[int, int] = (0, 0)
    is_hidden: bool = False


class SegmentView:
    """A context manager over one segment.

    If trust.trust_indexes is False, both indexes are empty, as if the files did not exist.

    faults: gets a sentence for each index file that was needed and cannot be used.
    """

    def __init__(self, segment: Segment, trust: Trust, faults: list[str] | None = None) -> None:
        self.segment = segment
        self._faults = [] if faults is None else faults
        self._trust = trust
        self._file: InputFile | None = None
        self._probe: HeaderProbe | None = None
        self._strict_probe: HeaderProbe | None = None
        self._offsets: OffsetEntries | None = None
        self._last_offsets: OffsetEntries | None = None
        self._times: TimeEntries | None = None
        self._time_ends: TimeEntries | None = None
        self._end_position: int | None = None  # of the last whole batch, where `_find_log_end` has found it
        self._has_proven_head: bool | None = None
        self._cost = segment.storage.read_cost(segment.path)

    @property
    def trusts_indexes(self) -> bool:
        return self._trust.trust_indexes

    @property
    def probe(self) -> HeaderProbe:
        """Reads headers in the `.log`."""
        if self._probe is None:
            self._file = InputFile(self.segment.path, self.segment.storage, self.segment.version)
            self._probe = HeaderProbe(self._file, self.segment.size, self._trust.check_crcs, self.segment.base_offset)
        return self._probe

    @property
    def strict_probe(self) -> HeaderProbe:
        """A probe that always checks CRCs. It gives evidence about batches that no task will read."""
        probe = self.probe
        if self._strict_probe is None:
            assert self._file is not None
            self._strict_probe = (
                probe
                if self._trust.check_crcs
                else HeaderProbe(self._file, self.segment.size, True, self.segment.base_offset)
            )
        return self._strict_probe

    @property
    def offsets(self) -> OffsetEntries:
        """Valid entries of the `.index`. They are hints: the header that an entry points to must prove it."""
        if self._offsets is None:
            segment = self.segment
            size = segment.index_size if self._trust.trust_indexes else None
            self._offsets = read_offset_index(
                segment.index_path, segment.storage, size, segment.base_offset, segment.size
            )
            self._note_fault(self._offsets.fault)
        return self._offsets

    @property
    def times(self) -> TimeEntries:
        """Valid entries of the `.timeindex`, trusted or not."""
        if self._times is None:
            segment = self.segment
            size = segment.time_index_size if self._trust.trust_indexes else None
            self._times = read_time_index(
                segment.time_index_path,
                segment.storage,
                size,
                segment.base_offset,
                segment.next_base_offset,
                segment.size,
            )
            self._note_fault(self._times.fault)
        return self._times

    @property
    def time_ends(self) -> TimeEntries:
        """The first and the last entries of `times`. In a bucket, a large `.timeindex` is not read whole for them."""
        if self._times is not None:
            return self._times
        if self._time_ends is None:
            segment = self.segment
            size = (segment.time_index_size or 0) if self._trust.trust_indexes else 0
            ends = None
            if self._cost.takes_round_trips and size > _WHOLE_INDEX:
                ends = read_time_ends(
                    segment.time_index_path,
                    segment.storage,
                    size,
                    segment.base_offset,
                    segment.next_base_offset,
                    segment.size,
                )
            if ends is not None and ends.fault is not None:
                self._times = ends
                self._note_fault(ends.fault)
            self._time_ends = self.times if ends is None else ends
        return self._time_ends

    def times_around(self, timestamp: int) -> TimeEntries:
        """Returns `times`, or its ends if they have the entries before and after a timestamp (ms)."""
        ends = self.time_ends
        is_inside = len(ends) and ends.timestamps[0] < timestamp <= ends.timestamps[-1]
        return self.times if is_inside else ends

    def read_together(self, since: int, stop: int | None) -> None:
        """Reads what a search for `since` (ms) needs, in few round trips. The ends of the time index say what that is.

        A segment that begins at `since` or later needs nothing. One that ends before needs the proofs that it can be
        left out: its head, its tail, and the end of its offset index. Any other needs its head, and the places of both
        timestamps.

        stop: the timestamp that makes a batch a witness (ms), if the search goes on to it.
        """
        if not self.segment.time_index_size:
            return
        ends, probe = self.time_ends, self.probe
        if not len(ends) or ends.timestamps[0] >= since:
            return
        if ends.timestamps[-1] < since and self.segment.latest is not None and self.segment.latest < since:
            probe.at(0)  # its manifest stands for the tail
            return
        if ends.timestamps[-1] < since:
            run_together(lambda: probe.at(0), self._read_tail, self._read_last_offsets)
            return
        run_together(lambda: self.times, lambda: self.offsets, lambda: probe.at(0))
        times = self.times
        if stop is not None and len(times) and times.timestamps[-1] >= stop:
            offsets = int(times.offsets[times.before(since)]), int(times.offsets[times.before(stop) + 1])
            entries = [self.offsets.floor(offset) + 1 for offset in offsets]  # a search looks at the next one too
            positions = [int(self.offsets.positions[at]) for at in entries if at < len(self.offsets)]
            run_together(*(partial(self._read_block, position) for position in positions))

    def _read_tail(self) -> None:
        self._read_block(self.segment.size - 1)

    def _read_block(self, position: int) -> None:
        """Reads the bytes around a position, to be at hand when `probe` asks for them."""
        assert self._file is not None
        self._file.read_at(position, 1)

    def _read_last_offsets(self) -> None:
        """Reads the end of the `.index`, where it can stand for all of it."""
        segment = self.segment
        size = (segment.index_size or 0) if self._trust.trust_indexes else 0
        if self._offsets is not None or self._last_offsets is not None or not size or not self._cost.takes_round_trips:
            return
        entries = read_last_offsets(segment.index_path, segment.storage, size, segment.base_offset, segment.size)
        if entries is None:
            self._last_offsets = self.offsets
        elif entries.fault is not None:
            self._offsets = entries
            self._note_fault(entries.fault)
        else:
            self._last_offsets = entries

    def _offsets_near(self, offset: int) -> OffsetEntries:
        """Returns `offsets`, or its last entries if they are at hand and `offset` is not before them."""
        last = self._last_offsets
        if self._offsets is None and last is not None and len(last) and last.offsets[0] <= offset:
            return last
        return self.offsets

    @property
    def has_trusted_times(self) -> bool:
        """Whether there is a time index, and the head proof holds (docs/pruning-rules.md, 2)."""
        if self._has_proven_head is None:
            times = self.time_ends
            self._has_proven_head = len(times) > 0 and self._is_head_proven(times)
        return self._has_proven_head

    def start_position(self, first_offset: int) -> int:
        """Returns the largest position, among index entries near `first_offset`, before which every offset is lower.

        Only a proven header at that position counts. So the result does not depend on any property of the index.
        """
        offsets = self._offsets_near(first_offset)
        slot = offsets.floor(first_offset)
        # try later entries while they are usable
        for candidate in range(slot + 1, min(slot + 1 + _ATTEMPTS, len(offsets))):
            header = self.probe.at(int(offsets.positions[candidate]))
            if header is None or header.base_offset > first_offset:
                break
            slot = candidate
        # take the first proven entry, or the one before it if its batch may be wrong: a walk then sees its neighbours
        is_in_doubt = False
        for candidate in range(slot, max(slot - 2 * _ATTEMPTS, -1), -1):
            header = self.probe.proven(int(offsets.positions[candidate]))
            if header is None or first_offset < header.base_offset:
                continue
            if candidate > 0 and header.base_offset <= offsets.offsets[candidate - 1]:
                is_in_doubt = True  # it has fallen below the append before it
                continue
            following = self.probe.at(header.end)
            if not may_have_fallen(header, following) or (is_in_doubt and not overlaps(header, following)):
                return header.position
            is_in_doubt = True
        return 0

    def end_position(self, end_offset: int) -> int | None:
        """Returns the least position, among index entries near `end_offset`, from which on every offset is ≥
        `end_offset`.

        None if no header proves one. The reader then uses headers alone.
        """
        offsets = self.offsets
        slot = offsets.ceiling(end_offset)
        for candidate in range(slot, min(slot + _ATTEMPTS, len(offsets))):
            header = self.probe.proven(int(offsets.positions[candidate]))
            # a compressed v0 or v1 wrapper states only its last offset, so it may begin earlier
            if header is None or header.is_wrapper:
                continue
            entry = int(offsets.offsets[candidate])
            if header.base_offset >= end_offset and not may_have_risen(header, self.probe.at(header.end), entry):
                return header.position
        return None

    def headers_from(
        self, offset: int, strict: bool = False, known: BatchHeader | None = None
    ) -> Iterator[BatchHeader | None]:
        """Yields proven headers, from the batch that holds `offset` or the first after it, to the end of the file.

        At the first batch that cannot be proven it yields one None and ends. strict: uses `strict_probe`. known: a
        header that this has yielded before; without an index file, a search for a later offset goes on there.
        """
        probe = self.strict_probe if strict else self.probe
        position = self._find_place(offset)
        if known is not None and known.last_offset < offset:
            position = max(position, known.position)
        for header in probe.walk(position):
            if header is None or header.last_offset >= offset:
                yield header

    def _find_place(self, offset: int) -> int:
        """Returns a position before which every offset is lower. At the first entry of a time index, 0 does as well as
        what another read could find. The head proof has been there."""
        if self._offsets is None and (self._cost.takes_round_trips or self._has_proven_head):
            times = self._times or self._time_ends
            if times is not None and len(times) > 0 and offset <= times.offsets[0]:
                return 0
        return self.start_position(offset)

    def end_offset(self) -> int:
        """Returns the offset after the last proven batch, or the base offset if there is none (`find_end`)."""
        return self.find_end().offset

    def find_end(self) -> SegmentEnd:
        """Finds the offset after the last proven batch.

        Batches with wrong offsets before it do not end the search. The read of them reports them. But the last batch
        may lie below the one before it, or at offsets that its segment cannot have. Then one of the two is wrong, and
        no batch follows that could prove the end.
        """
        segment, position = self.segment, self.start_position(kafka_format.MAX_OFFSET)
        ends = deque((header for header in self.probe.walk(position, in_order=False) if header is not None), maxlen=3)
        behind = ends[-1].end if ends else position
        is_hidden = behind + kafka_format.MAGIC_END <= segment.size
        if not ends:
            return SegmentEnd(segment.base_offset, is_hidden=is_hidden)
        last, least = ends[-1], segment.base_offset - 1
        limit = limit_of(segment.base_offset, None) if segment.is_last else kafka_format.MAX_OFFSET
        *_, earlier, before = [least] * 2 + [max(header.last_offset, least) for header in ends][:-1]
        if follows(last, before) and last.last_offset < limit:
            return SegmentEnd(last.last_offset + 1, is_hidden=is_hidden)
        if len(ends) > 1 and ends[-2].base_offset > earlier + 1 and has_jumped(ends[-2], last, earlier):
            return SegmentEnd(last.last_offset + 1, ends[-2], (earlier + 1, last.base_offset - 1))
        return SegmentEnd(before + 1, last, (before + 1, limit - 1))

    def log_end(self) -> int | None:
        """Returns the offset after the last whole batch. The segment is the last one of a log.

        None if damage or a failing disk hides the offset, as reading will report that. None also if the search costs
        too much. The manifest of a tier states it.
        """
        stated = self.segment.last_offset
        if stated is not None and self._trust.trust_indexes:
            return stated + 1
        with suppress(*UNUSABLE):
            return self._find_log_end()
        return None

    def _find_log_end(self) -> int | None:
        if self._cost.takes_round_trips and self._offsets is None and self.segment.index_size and self.probe:
            run_together(self._read_tail, self._read_last_offsets)
        reached, position = self.segment.base_offset, self.start_position(kafka_format.MAX_OFFSET)
        if self.segment.size - position > (
            _MOST_WALKED if len(self._offsets_near(kafka_format.MAX_OFFSET)) else _MOST_WITHOUT_INDEX
        ):
            return None
        for header in self.probe.walk(position):
            if header is None:
                if not self.probe.is_legal_tail(position):
                    return None
                break
            reached, position = header.last_offset + 1, header.end
        self._end_position = position
        return reached

    def find_last_indexed(self) -> int | None:
        """Returns the last offset of the `.index` entries that lead behind the last whole batch of a log. None if none
        leads there, or if the end is not known.

        A broker appends a batch before it adds the entry for it. So the `.log` was longer than it is.
        """
        segment, trust = self.segment, self._trust
        if segment.last_offset is not None or not segment.index_size or not trust.trust_indexes:
            return None
        with suppress(FileChangedError, *UNUSABLE):  # then a read finds it again, or reports it
            if self._end_position is None:
                self._find_log_end()
            if self._end_position is not None:
                entries = self._offsets_near(kafka_format.MAX_OFFSET)
                inside = entries.offsets[entries.positions >= self._end_position]
                found = inside[-1:].tolist()
                if entries is self._offsets:  # else they are the last ones of the file, and none lies behind
                    behind = read_offsets_behind(entries, segment.storage, segment.index_size, segment.base_offset)
                    found += behind[-1:].tolist()
                return max(found, default=None)
        return None

    def find_lost_end(self, end: int) -> int | None:
        """Returns the last offset that the `.index` has behind the batches of a segment that another one follows, if
        that shows a loss (`cut_segments.py`). end: the offset after its last batch, where its bytes end."""
        segment = self.segment
        limit = segment.next_base_offset
        if limit is None or not segment.index_size or not self._trust.trust_indexes:
            return None
        size, index_size = segment.size, segment.index_size
        return find_lost_end(
            segment.path, segment.storage, segment.base_offset, size, index_size, limit, end, self.probe
        )

    def _note_fault(self, fault: str | None) -> None:
        if fault is not None:
            self._faults.append(f"{fault}; reads do without it")

    def _is_head_proven(self, times: TimeEntries) -> bool:
        """Whether the head proof holds: the head of the `.log` proves the first entry of the time index.

        The first entry then proves the running maximum of the others. The first batch must be magic 2, because older
        writers left wrong maxima. No batch up to the first entry's offset may be later than that entry. Otherwise the
        index was created empty over existing data, and its entries are too low.
        """
        seen = 0
        for header in self.probe.walk(0):
            if header is None or header.magic != kafka_format.MAGIC_V2 or seen == _HEAD_BATCHES:
                return False
            if header.base_offset > times.offsets[0]:
                break
            if header.max_timestamp > times.timestamps[0]:
                return False
            seen += 1
        return seen > 0

    def __enter__(self) -> SegmentView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def find_header(segment: Segment, offset: int, trust: Trust) -> BatchHeader | None:
    """Returns the header of the batch that holds `offset`, or of the first after it. None if none is proven."""
    with SegmentView(segment, trust) as view:
        return next(view.headers_from(offset), None)
