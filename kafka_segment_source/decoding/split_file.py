"""The open file of one split: its batches, proof that it is the planned file, and the offsets that it lacks.

A split names rows by their offsets. Its byte positions are hints. These proofs are made:

- At the start: the system reports the same inode, size and time of change as when the file was listed. Two other cases
  are allowed: the last segment has only grown, or an earlier segment still has the listed size.
- At the start, inside a file: the split has an `anchor`, a batch at its start or just before. The file must have that
  batch at that position. This costs one small read.
- At the end of a byte range inside the file: the batch there begins after the wanted offsets. This costs one small
  read. If it begins before, reading goes on to the end of the file.
- At the end of the file: every offset up to the next segment has been read. This is checked only if the file may not be
  the listed one.
- Before damage is reported: the path still leads to this file, and the last believed batch is still in it.

If a proof fails, the file is another one: FileChangedError. `following.py` then looks for the remaining offsets. If the
file is the planned one, a gap before the next segment is DataLossError (`gaps.py`).

When the leader changes, a segment is truncated and written again in place (Kafka: UnifiedLog.truncateTo). All other
changes make another file: compaction, retention, a new replica, a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import CHUNK_BYTES, BatchReader, Chunk, TakeBuffer
from kafka_segment_source.decoding.damage import Damage, NotedDamage
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.gaps import GapInCopyError, GapWatch
from kafka_segment_source.decoding.header_table import is_wrapper
from kafka_segment_source.decoding.header_walk import read_headers_first
from kafka_segment_source.decoding.records import Decoder, RecordColumns
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataLossError, FileChangedError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.storage.files import InputFile, file_version
from kafka_segment_source.storage.store import NO_VERSION, FileVersion
from kafka_segment_source.trust import Trust

_REMEDY = "failOnDataLoss=false reads what is there"
_LOOK = 4096  # bytes of a look at one header (`probe.py`), which may begin at the end of the range


def open_split(split: SegmentSplit) -> InputFile:
    """Opens the file of a split to read its whole byte range. Raises what InputFile raises."""
    file = InputFile(split.path, split.storage, split.version)
    start = split.start if split.anchor is None else split.anchor.position
    file.read_ahead(start, min(split.end + _LOOK, split.segment_size))
    return file


class SplitFile:
    """A context manager over the file of one split. Raises what InputFile raises, and FileChangedError."""

    def __init__(
        self,
        split: SegmentSplit,
        trust: Trust,
        damage: Damage,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        file: InputFile | None = None,
        reads_all: bool = True,
        headers_only: bool = False,
        buffers: TakeBuffer | None = None,
    ) -> None:
        """file: from `open_split`, if it is open already. reads_all: whether the whole byte range will be read, most
        likely. headers_only: whether the chunks may come without the bytes of their batches. buffers: as in
        `BatchReader`."""
        self.split = split
        self.trust = trust
        self._damage = damage
        if file is None:
            file = open_split(split) if reads_all else InputFile(split.path, split.storage, split.version)
        self._file = file
        try:
            self._version = self._file.version()
            self._is_listed_one = split.version in (NO_VERSION, self._version)
            self._check_version()
            self._check_anchor()
        except BaseException:
            self._file.close()
            raise
        damage.confirm = self.confirm
        damage.explain = self._file.explain
        self._reader = BatchReader(self._file, split, trust, damage, chunk_bytes=chunk_bytes, buffers=buffers)
        self._headers_only = headers_only
        self._gaps = GapWatch(split)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last batch of the chunks so far.

        Before the first chunk, it is None if the split does not start at byte 0.
        """
        return self._gaps.next_offset

    @property
    def is_done(self) -> bool:
        """Whether a batch proved that no wanted row follows in this file. It is False where the file ended first."""
        return self._reader.is_done

    @property
    def is_end_undecided(self) -> bool:
        """Whether nothing can tell if offsets between the end of this file and the next segment are missing."""
        return self._gaps.is_undecided

    @property
    def version(self) -> FileVersion:
        """The state of the file when it was opened."""
        return self._version

    def read_at(self, position: int, count: int) -> bytes:
        """At most `count` bytes of the open file from `position`."""
        return self._file.read_at(position, count)

    def has_changed(self) -> bool:
        """Whether the open file has changed since it was opened."""
        return self._file.version() != self._version

    def probe(self) -> HeaderProbe:
        """A probe for batch headers of the file in its current state."""
        return HeaderProbe(self._file, self._file.version().size, check_crcs=False)

    def note_before(self, headers: HeaderTable) -> None:
        """Takes the headers of the batches just before the split: int64[FIELDS, n], n ≥ 1. Another reader read them."""
        self._reader.note_before(headers)
        self._gaps.see(headers)

    def decoder(
        self,
        include_control: bool,
        microseconds: bool = False,
        scratch: Scratch | None = None,
        keep: Callable[[RecordColumns], RecordColumns] | None = None,
    ) -> Decoder:
        """Makes the decoder for the chunks of this file.

        include_control: also decode control records. microseconds: a timestamp that microseconds cannot hold is damage.
        scratch: the arrays that it uses; None for new ones. keep: as `Decoder` takes it.
        """
        return Decoder(self.split, self.trust, self._damage, include_control, microseconds, scratch, keep)

    def chunks(self) -> Iterator[Chunk]:
        """Yields the chunks of the split, in order.

        Raises FileChangedError, under FAILFAST CorruptRecordError, and GapInCopyError where other copies are to be
        asked.
        """
        walks = self._headers_only
        for chunk in read_headers_first(self._reader, self._file, self.split) if walks else self._reader.chunks():
            gap = self._find_gap(chunk) if self.split.asks_in_gaps else None
            if gap is None:
                self._gaps.see(chunk.headers)
                yield chunk
                continue
            count, missing = gap
            if count:
                before = replace(chunk, headers=chunk.headers[:, :count])
                self._gaps.see(before.headers)
                yield before
            is_v2 = chunk.headers[batch_headers.MAGIC, count] == kafka_format.MAGIC_V2
            raise GapInCopyError(missing, self.split.path, is_of_message_set=not is_v2)

    def _find_gap(self, chunk: Chunk) -> tuple[int, OffsetRange] | None:
        """Returns what `GapWatch.find_first` does."""
        hides_first = is_wrapper(chunk.headers)
        if not hides_first.any():
            return self._gaps.find_first(chunk.headers)
        headers = chunk.headers.copy()
        everything = self.split._replace(bounds=ScanBounds())
        decoder = Decoder(everything, self.trust, NotedDamage(drop=True), include_control=True)
        firsts = {} if self._headers_only else decoder.find_first_offsets(chunk)
        positions = headers[batch_headers.POSITION, hides_first].tolist()
        headers[batch_headers.BASE_OFFSET, hides_first] = [firsts.get(position, -1) for position in positions]
        return self._gaps.find_first(headers)

    def finish(self) -> None:
        """Checks the end of the file. Call it after the last chunk.

        Raises DataLossError for a gap before the next segment, under FAILFAST CorruptRecordError for a segment that was
        cut short, and GapInCopyError as `chunks` does.
        """
        split = self.split
        if self._reader.is_done:
            self._ask_before(self._reader.next_base)
            return
        gap = self._gaps.missing(self._file)
        if gap is not None and split.next_base_offset is None:
            raise DataLossError(
                f"offsets {gap.start} to {gap.end - 1} of partition {split.topic}-{split.partition} are missing:"
                f" {split.path!r} ends before {self._gaps.next_offset}, and its manifest states that it holds"
                f" {gap.end - 1}",
                _REMEDY,
            )
        if gap is not None:
            raise DataLossError(
                f"offsets {gap.start} to {gap.end - 1} of partition {split.topic}-{split.partition} are missing:"
                f" {split.path!r} ends before {self._gaps.next_offset}, the next segment begins at"
                f" {split.next_base_offset}, so a segment file between them is not there, or compaction left it out and the"
                f" broker's {kafka_format.CLEANER_CHECKPOINT} is not here to say so",
                _REMEDY,
            )
        self.check_lost_end()

    def check_lost_end(self) -> None:
        """Reports a segment that was cut where a batch ends, if wanted offsets are lost with its end. `finish` calls
        it where compaction may explain the gap. Raises CorruptRecordError under FAILFAST."""
        size, end = self.split.segment_size, self._gaps.next_offset
        indexed = self._gaps.find_lost_end(self._file) if self.trust.trust_indexes else None
        if indexed is not None and end is not None:
            error = Faults(self.split.path).cut_segment(size, end, indexed)
            self._damage.allow(error)
            self._damage.skip(error, size)

    def _ask_before(self, base_offset: int | None) -> None:
        """Raises GapInCopyError if wanted offsets are missing before the batch that follows. base_offset: of that
        batch; None if it was not seen."""
        if not self.split.asks_in_gaps or base_offset is None or self.next_offset is None:
            return
        gap = OffsetRange(self.next_offset, base_offset)
        if not gap.intersect(self.split.bounds.offsets).is_empty:
            raise GapInCopyError(gap, self.split.path)

    def confirm(self) -> None:
        """Raises FileChangedError unless the path still leads to this file, and the file still has the batches read."""
        planned, now = self.split.version, file_version(self.split.path, self.split.storage)
        if now is None or not now.is_same_file(self._version):
            raise self._make_changed_error("it was replaced while it was read")
        if planned in (NO_VERSION, now):
            return
        if not self.split.is_of_last or not now.is_same_file(planned):
            raise self._make_changed_error("the system says so")
        last = self._reader.last or self.split.anchor
        if last is not None and not last.is_in(self.probe()):
            raise self._make_changed_error(
                f"the batch of offset {last.base_offset} is no longer at byte {last.position}"
            )

    def _check_version(self) -> None:
        planned, found = self.split.version, self._version
        if self._is_listed_one:
            return
        if self.split.is_of_last:
            if not found.is_same_file(planned):
                raise self._make_changed_error("it was replaced")
            if found.size < planned.size:
                raise self._make_shrunk_error()
        elif found.size != planned.size:
            raise (
                self._make_shrunk_error() if found.size < planned.size else self._make_changed_error("it was replaced")
            )

    def _check_anchor(self) -> None:
        anchor = self.split.anchor
        if anchor is not None and not anchor.is_in(self.probe()):
            raise self._make_changed_error(f"the batch of offset {anchor.base_offset} is not at byte {anchor.position}")

    def _make_shrunk_error(self) -> FileChangedError:
        return FileChangedError(
            f"file {self.split.path!r} has shrunk since it was listed: found {self._version.size} bytes, expected"
            f" {self.split.version.size}, so it was compacted or truncated; plan the read again"
        )

    def _make_changed_error(self, what: str) -> FileChangedError:
        return FileChangedError(
            f"file {self.split.path!r} has changed since it was listed: {what}; plan the read again"
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> SplitFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
