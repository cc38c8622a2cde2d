"""Batches → the files of one partition directory, segment by segment.

A segment ends where the source's segment ends, or at a number of bytes. It ends too where an offset would not fit into
the 4 bytes of an index entry, and before a `.log` would have more than 2^31 - 1 bytes (Kafka: LogSegment.shouldRoll).

A segment that follows another one is named by the offset after its last batch, unless compaction explains the gap
before the source's own name. So no reader takes a gap between two names for lost records.

After each whole segment, the state is kept (`journal.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.header_table import is_control, is_transactional_data, is_wrapper, record_counts
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import CorruptRecordError, StorageError
from kafka_segment_source.kafka_format import LARGEST_LOG
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.rebuilding import epochs
from kafka_segment_source.rebuilding.indexes import IndexEntries
from kafka_segment_source.rebuilding.pieces import Batches
from kafka_segment_source.rebuilding.producer_table import ProducerTable
from kafka_segment_source.rebuilding.target_files import NewFile, remove_unfinished, replace_file
from kafka_segment_source.rebuilding.unended import Unended, is_ended
from kafka_segment_source.storage.paths import join_path, parent_of
from kafka_segment_source.transactions.markers import Marker

_PLACES = [batch_headers.POSITION, batch_headers.SIZE, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]
_MOST_DELTA = 2**31 - 1  # a relative offset has 4 bytes


class LogWriter:
    """Writes one partition.

    directory: exists.
    is_compacted: whether gaps between names are no loss.
    notes_gaps: whether the selection takes all batches between two others.
    segment_bytes: where segments are rolled; None for the sources' own segments.
    producers: a `.snapshot` at the start of the log, or None.
    unended: transactions that are left out.
    on_segment: is called after each whole segment but the last, when the state can be kept.

    start, end: the first offset, and the offset after the last batch; start is None before the first batch.
    gaps: offsets that were lost between batches, (first, last). Where two batches follow each other in one file,
    nothing was lost between them: compaction or an old broker left the gap.
    has_transactions: whether there was data of one. is_in_doubt: whether offsets are missing after it, or another copy
    is read on. A marker may have been there, and the next one of its producer may belong to another transaction.
    """

    def __init__(
        self,
        directory: str,
        *,
        is_compacted: bool,
        notes_gaps: bool,
        segment_bytes: int | None,
        producers: bytes | None,
        unended: Sequence[Unended],
        on_segment: Callable[[LogWriter], None],
    ) -> None:
        self.directory = directory
        self.start: int | None = None
        self.end = self._kept_end = 0
        self.segments = self.batches = self.records = self.bytes = 0
        self.has_wrappers = False
        self.gaps: list[tuple[int, int]] = []
        self.sources: dict[str, None] = {}
        self.epoch_runs: list[epochs.Run] = []
        self.has_transactions = self.is_in_doubt = False
        self._unended = unended
        self._is_compacted = is_compacted
        self._notes_gaps = notes_gaps
        self._on_segment = on_segment
        self._segment_bytes = segment_bytes
        self.producers = (None if producers is None else ProducerTable.from_bytes(producers)) or ProducerTable()
        self._segment: _NewSegment | None = None
        self._last_place = "", 0  # the file that the last batch came from, and where it ends there

    def write(self, batches: Batches) -> None:
        """Appends batches. Raises CorruptRecordError for a batch whose offsets another one holds in part."""
        if batches.is_extra.any():
            batches = self._leave_foreign_markers(batches)
        headers = batches.headers
        if not headers.shape[1]:
            return
        first = 0
        if self.start is not None:  # two copies may both have the batch where one follows the other
            first = int(np.searchsorted(headers[batch_headers.LAST_OFFSET], self.end))
            if first == headers.shape[1]:
                return
        base = _base_of(headers[:, first])
        if self.start is None:
            self.start = self._name_first(batches, base)
            self.end = self._kept_end = self.start
        self._check_order(batches, first, base)
        self._roll_if_needed(batches.split, headers[:, first])
        while first < headers.shape[1]:
            assert self._segment is not None
            count = self._segment.count_fitting(headers[:, first:], self._segment_bytes or LARGEST_LOG)
            if not count:
                self._roll(self._name_next(batches.split, headers[:, first]), batches.split.base_offset)
                continue
            self._append(batches, first, first + count)
            first += count

    def _leave_foreign_markers(self, batches: Batches) -> Batches:
        """Leaves out the markers of other times that end no transaction of which there is data."""
        headers = batches.headers
        producers = headers[batch_headers.PRODUCER_ID]
        begun = {*self.producers.open, *producers[is_transactional_data(headers)].tolist()}
        return batches.select(~batches.is_extra | np.isin(producers, [*begun]))

    def _append(self, batches: Batches, first: int, end: int) -> None:
        headers = batches.headers[:, first:end]
        base, last = int(_base_of(headers[:, 0])), int(headers[batch_headers.LAST_OFFSET, -1])
        self._note_doubt(batches, headers)
        if self._notes_gaps:
            self._note_gaps(batches, first, end)
        self.sources.setdefault(parent_of(batches.split.path))
        epochs.note_epochs(self.epoch_runs, headers)
        markers = [marker for marker in batches.markers if base <= marker.offset <= last]
        kept = is_ended(headers, self._unended)
        edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            self._append_kept(batches, first + start, first + stop, markers)
        self.end = last + 1

    def _append_kept(self, batches: Batches, first: int, end: int, markers: Iterable[Marker]) -> None:
        assert self._segment is not None
        headers = batches.headers[:, first:end]
        base, last = int(_base_of(headers[:, 0])), int(headers[batch_headers.LAST_OFFSET, -1])
        aborted = self.producers.take(headers, [marker for marker in markers if base <= marker.offset <= last])
        self._segment.append(headers, batches.bytes_of(first, end), aborted)
        self.batches += headers.shape[1]
        wrappers = is_wrapper(headers)
        self.records += int(record_counts(headers)[~is_control(headers) & ~wrappers].sum())
        self.has_wrappers |= bool(wrappers.any())
        self.bytes += int(headers[batch_headers.SIZE].sum())
        self._kept_end = last + 1

    def _note_doubt(self, batches: Batches, headers: HeaderTable) -> None:
        """Notes whether the marker of a transaction may be missing.

        Compaction of one copy alone explains its gaps: the cleaner stays below the first open transaction.
        """
        self.has_transactions |= bool(is_transactional_data(headers).any())
        is_other_copy = bool(self.sources) and parent_of(batches.split.path) not in self.sources
        lasts = np.concatenate(([self.end - 1], headers[batch_headers.LAST_OFFSET, :-1]))
        has_gap = not self._is_compacted and bool((headers[batch_headers.BASE_OFFSET] > lasts + 1).any())
        self.is_in_doubt |= self.has_transactions and (is_other_copy or has_gap)

    def _note_gaps(self, batches: Batches, first: int, end: int) -> None:
        positions, sizes, bases, lasts = batches.headers[_PLACES, first:end]
        path, position = self._last_place
        expected = np.concatenate(([self.end], lasts[:-1] + 1))
        before = np.concatenate(([position], (positions + sizes)[:-1]))
        is_apart = (bases > expected) & (positions != before)
        if path != batches.split.path:  # the next file, or another copy of this one
            is_apart[0] = bases[0] > expected[0] and bool(self.batches) and not self._is_compacted
        is_apart &= ~is_wrapper(batches.headers[:, first:end])
        self.gaps += [(int(expected[at]), int(bases[at]) - 1) for at in np.flatnonzero(is_apart)]
        self._last_place = batches.split.path, int(positions[-1] + sizes[-1])

    def _check_order(self, batches: Batches, first: int, base: int) -> None:
        if base < self.end and self.batches:
            header = batches.headers[:, first].tolist()
            raise CorruptRecordError(
                "a batch begins with offsets that another batch holds already",
                path=batches.split.path,
                position=header[batch_headers.POSITION],
                offset=header[batch_headers.BASE_OFFSET],
                found=f"base offset {base}",
                expected=f"{self.end} or more",
            )

    def _name_first(self, batches: Batches, base: int) -> int:
        """Returns the name of the first segment: the source's, unless batches before the first one are left out."""
        is_first = batches.headers[batch_headers.POSITION, 0] == 0
        states_base = batches.headers[batch_headers.MAGIC, 0] == kafka_format.MAGIC_V2
        return (
            batches.split.base_offset if (is_first or not states_base) and batches.split.base_offset <= base else base
        )

    def _roll_if_needed(self, split: SegmentSplit, header: HeaderTable) -> None:
        """Begins a segment where there is none, or where the source's next one begins. header: of the next batch."""
        if self._segment is None:
            self._segment = _NewSegment(self.directory, self._name_next(split, header), split.base_offset)
        elif self._segment_bytes is None and split.base_offset > self._segment.source_base and self._segment.size:
            self._roll(self._name_next(split, header), split.base_offset)

    def _name_next(self, split: SegmentSplit, header: HeaderTable) -> int:
        """Returns the base offset of a new segment, whose first batch has this header.

        It is the source's own where compaction explains the gap before it, else the offset after the last batch. Where
        a relative offset of 4 bytes would not reach the batch, the batch names its segment.
        """
        is_explained = self._is_compacted and self._kept_end < split.base_offset <= _base_of(header)
        name = split.base_offset if is_explained else self._kept_end
        return name if int(header[batch_headers.LAST_OFFSET]) - name <= _MOST_DELTA else _base_of(header)

    def _roll(self, base: int, source_base: int) -> None:
        self._end_segment()
        if base > self.end and self._notes_gaps and not self._is_compacted:
            self.gaps.append((self.end, base - 1))
        self.end, self._kept_end = max(self.end, base), max(self._kept_end, base)
        self._on_segment(self)
        self._segment = _NewSegment(self.directory, base, source_base)

    def _end_segment(self) -> None:
        assert self._segment is not None
        self._segment.close()
        self.segments += 1

    def close(self, end: int | None) -> None:
        """Ends the last segment, and writes the producers at the end of the log.

        end: the base offset of an empty last segment that follows, or None. It is the name of the only segment if no
            batch was written.
        """
        if self._segment is not None:
            self._end_segment()
        self.end = self._kept_end
        if self.start is None:
            self.start = self.end = end or 0
        if end is not None and self.batches and not self._is_compacted:
            end = self._name_empty(end)
        if end is not None and end >= self.end and (self._segment is None or end > self._segment.base_offset):
            _NewSegment(self.directory, end, end).close()
            self.segments += 1
            self.end = end
        self._segment = None
        remove_unfinished(self.directory)
        name = kafka_format.segment_file(self.end, kafka_format.SNAPSHOT_SUFFIX)
        replace_file(join_path(self.directory, name), self.producers.to_bytes())

    def _name_empty(self, end: int) -> int:
        """Returns the name of an empty last segment: the offset after the last batch, as readers take a gap before it
        for a loss. end: its name in the source."""
        if end > self.end and self._notes_gaps:
            self.gaps.append((self.end, end - 1))
        return min(end, self.end)

    def abandon(self) -> None:
        """Closes the file of an unfinished segment, after an error."""
        if self._segment is not None:
            with suppress(StorageError):  # the error that ends the rebuild is the one to raise
                self._segment.abandon()

    def keep_state(self) -> dict[str, Any]:
        """Returns the state after the last whole segment, for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            "keptEnd": self._kept_end,
            "counts": [self.segments, self.batches, self.records, self.bytes],
            "marks": [self.has_wrappers, self.has_transactions, self.is_in_doubt],
            "producers": self.producers.to_bytes().hex(),
            "gaps": self.gaps,
            "sources": list(self.sources),
            "epochRuns": self.epoch_runs,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state. Files of segments that were not ended are written again."""
        self.start, self.end, self._kept_end = state["start"], state["end"], state["keptEnd"]
        self.segments, self.batches, self.records, self.bytes = state["counts"]
        self.has_wrappers, self.has_transactions, self.is_in_doubt = state["marks"]
        self.gaps = [(first, last) for first, last in state["gaps"]]
        self.sources = dict.fromkeys(state["sources"])
        self.epoch_runs = [(epoch, first, last) for epoch, first, last in state["epochRuns"]]
        self.producers = ProducerTable.from_bytes(bytes.fromhex(state["producers"])) or ProducerTable()


class _NewSegment:
    """The files of one segment.

    source_base: the base offset of the source's segment that its batches come from.
    """

    def __init__(self, directory: str, base_offset: int, source_base: int) -> None:
        self.base_offset = base_offset
        self.source_base = source_base
        self.size = 0
        self._path = join_path(directory, kafka_format.segment_file(base_offset, ""))
        self._file = NewFile(self._path + kafka_format.LOG_SUFFIX)
        self._entries = IndexEntries(base_offset)
        self._aborted: list[bytes] = []

    def count_fitting(self, headers: HeaderTable, most: int) -> int:
        """Returns how many of the batches the segment takes. An empty one takes the first one, however large."""
        fits = self.size + np.cumsum(headers[batch_headers.SIZE]) <= most
        fits &= headers[batch_headers.LAST_OFFSET] - self.base_offset <= _MOST_DELTA
        count = len(fits) if fits.all() else int(np.argmin(fits))
        return max(count, 0 if self.size else 1)

    def append(self, headers: HeaderTable, parts: Iterable[memoryview], aborted: Iterable[bytes]) -> None:
        """Appends batches. parts: their bytes. aborted: entries of the `.txnindex`."""
        for part in parts:
            self._file.write(part)
        self._entries.add(headers, self.size)
        self._aborted += aborted
        self.size += int(headers[batch_headers.SIZE].sum())

    def close(self) -> None:
        """Ends the segment: the `.log` is whole, and its indexes are written."""
        self._file.close()
        index, time_index = self._entries.close()
        replace_file(self._path + kafka_format.INDEX_SUFFIX, index)
        replace_file(self._path + kafka_format.TIME_INDEX_SUFFIX, time_index)
        if self._aborted:
            replace_file(self._path + kafka_format.TRANSACTION_INDEX_SUFFIX, b"".join(self._aborted))

    def abandon(self) -> None:
        """Closes the file of a segment that is not whole."""
        self._file.abandon()


def _base_of(header: HeaderTable) -> int:
    """Returns the first offset of a batch. A wrapper of magic 0 or 1 states its last one alone, which is returned.

    header: one column of a header table.
    """
    return int(header[batch_headers.BASE_OFFSET])
