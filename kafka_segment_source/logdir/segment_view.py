"""Gives planning access to one segment: its `.log` and its index files.

Each file is opened when it is first needed. All are closed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.logdir.indexes import OffsetIndex, TimeIndex, read_offset_index, read_time_index
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.logdir.segments import Segment
from kafka_segment_source.storage.ahead import run_together
from kafka_segment_source.storage.files import UNUSABLE, InputFile
from kafka_segment_source.trust import Trust

_ATTEMPTS = 8  # index entries to try on each side; after that more bytes are read
_HEAD_BATCHES = 1024  # batches to check before a time index is rejected; real files need 2 (median) to 65 (worst)
_MOST_WALKED = 4 * 1024 * 1024  # bytes to walk for the end of a log; a broker's index leaves 4 KiB and a batch
_MOST_WITHOUT_INDEX = 1024 * 1024
_NO_LONGS = np.empty(0, np.int64)


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
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._trusted_times: TimeIndex | None = None

    @property
    def trusts_indexes(self) -> bool:
        return self._trust.trust_indexes

    @property
    def probe(self) -> HeaderProbe:
        """Reads headers in the `.log`."""
        if self._probe is None:
            self._file = InputFile(self.segment.path, self.segment.storage, self.segment.version)
            self._probe = HeaderProbe(self._file, self.segment.size, self._trust.check_crcs)
        return self._probe

    @property
    def strict_probe(self) -> HeaderProbe:
        """Does the same as `probe`, but always checks CRCs. It gives evidence about batches that no task will read."""
        probe = self.probe
        if self._strict_probe is None:
            assert self._file is not None
            self._strict_probe = probe if self._trust.check_crcs else HeaderProbe(self._file, self.segment.size, True)
        return self._strict_probe

    @property
    def offsets(self) -> OffsetIndex:
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
    def times(self) -> TimeIndex:
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

    def read_together(self, since: int, is_likely: bool) -> None:
        """Reads what a search for `since` (ms) needs, in one round trip or two.

        is_likely: whether the time index is most likely needed with the others. Otherwise it is read first, as a
            segment that begins at `since` or later needs no others.
        """
        if not self.segment.time_index_size:
            return
        if not is_likely and (not len(self.times) or self.times.timestamps[0] >= since):
            return
        run_together(lambda: self.times, lambda: self.offsets, lambda: self.probe.at(0))

    @property
    def trusted_times(self) -> TimeIndex:
        """The time index if the head proof holds, otherwise an empty one (docs/pruning-rules.md, 2)."""
        if self._trusted_times is None:
            times = self.times
            trusted = len(times) > 0 and self._is_head_proven(times)
            self._trusted_times = times if trusted else TimeIndex(times.path, _NO_LONGS, _NO_LONGS)
        return self._trusted_times

    def start_position(self, first_offset: int) -> int:
        """Returns the largest position, among index entries near `first_offset`, before which every offset is lower.

        Only a proven header at that position counts. So the result does not depend on any property of the index.
        """
        offsets = self.offsets
        slot = offsets.floor(first_offset)
        # try later entries while they are usable
        for candidate in range(slot + 1, min(slot + 1 + _ATTEMPTS, len(offsets))):
            header = self.probe.at(int(offsets.positions[candidate]))
            if header is None or header.base_offset > first_offset:
                break
            slot = candidate
        # take the first proven entry
        for candidate in range(slot, max(slot - 2 * _ATTEMPTS, -1), -1):
            header = self.probe.proven(int(offsets.positions[candidate]))
            if header is not None and header.base_offset <= first_offset:
                return header.position
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
            is_first_known = header is not None and (header.magic == kafka_format.MAGIC_V2 or not header.is_compressed)
            if header is not None and is_first_known and header.base_offset >= end_offset:
                return header.position
        return None

    def headers_from(self, offset: int, strict: bool = False) -> Iterator[BatchHeader | None]:
        """Yields proven headers, from the batch that holds `offset` or the first after it, to the end of the file.

        At the first batch that cannot be proven it yields one None and ends. strict: uses `strict_probe`.
        """
        probe = self.strict_probe if strict else self.probe
        for header in probe.walk(self.start_position(offset)):
            if header is None or header.last_offset >= offset:
                yield header

    def end_offset(self) -> int:
        """Returns the offset after the last proven batch, or the base offset if there is none."""
        end = self.segment.base_offset
        for header in self.probe.walk(self.start_position(kafka_format.MAX_OFFSET)):
            if header is not None:
                end = header.last_offset + 1
        return end

    def log_end(self) -> int | None:
        """Returns the offset after the last whole batch. The segment is the last one of a log.

        None if damage or a failing disk hides the offset, as reading will report that. None also if the search costs
        too much.
        """
        with suppress(*UNUSABLE):
            return self._find_log_end()
        return None

    def _find_log_end(self) -> int | None:
        reached, position = self.segment.base_offset, self.start_position(kafka_format.MAX_OFFSET)
        if self.segment.size - position > (_MOST_WALKED if len(self.offsets) else _MOST_WITHOUT_INDEX):
            return None
        for header in self.probe.walk(position):
            if header is None:
                return reached if self.probe.is_legal_tail(position) else None
            reached, position = header.last_offset + 1, header.end
        return reached

    def _note_fault(self, fault: str | None) -> None:
        if fault is not None:
            self._faults.append(f"{fault}; reads do without it")

    def _is_head_proven(self, times: TimeIndex) -> bool:
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
