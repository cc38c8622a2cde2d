"""Detects a missing segment file: a segment was read to its end, and its last offset is not next to the next segment.

Kafka omits offsets only where it compacts. So a gap is a loss, unless this partition was compacted. A broker's
checkpoint shows compaction, and planning checks that. Gaps among the batches of the segment show it too. Message sets
(magic 0 and 1) do not have enough fields to decide. A segment that was not read to its end is not judged. Offsets
of skipped damage are no sign of compaction: bytes are skipped there, and compaction leaves no bytes between batches.
Gaps are no sign of it either where a batch before the split steps back: it may belong into one of them. Nor is the gap
before the last batch of a segment: no batch follows that bears out its offset, and no CRC covers it. An entry of an
index file bears it out, if it has the last offset of the batch.
"""

from __future__ import annotations

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import OffsetRange, ScanBounds
from kafka_segment_source.decoding.batches import BatchReader
from kafka_segment_source.decoding.damage import NotedDamage
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.errors import DataLossError
from kafka_segment_source.kernels import batch_headers, batch_rules
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.cut_segments import find_lost_end
from kafka_segment_source.logdir.indexes import find_last_offset
from kafka_segment_source.logdir.probe import HeaderProbe
from kafka_segment_source.storage.files import InputFile, file_version
from kafka_segment_source.trust import Trust

_PLACES = [batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.POSITION, batch_headers.SIZE]


class GapInCopyError(DataLossError):
    """One of several copies has a gap between two of its batches, and the other copies were not asked yet. A read asks
    them, so it is never raised to a user.

    gap: the offsets between the two batches, some of them wanted. path: of the file. is_of_message_set: whether a
    message of magic 0 or 1 follows.
    """

    def __init__(self, gap: OffsetRange, path: str, *, is_of_message_set: bool = False) -> None:
        super().__init__(f"{path!r} has no batch of the offsets {gap.start} to {gap.end - 1}")
        self.gap = gap
        self.path = path
        self.is_of_message_set = is_of_message_set


class GapWatch:
    """Takes the headers of one split's batches in their order. Then it finds the wanted offsets missing after them.

    position: the byte after the last batch that was taken. next_offset: the offset after that batch. Before the first
    batch it is None if the split does not start at byte 0.
    """

    def __init__(self, split: SegmentSplit) -> None:
        self._split = split
        self._has_gaps = False
        self._has_old_formats = False
        self._is_behind_gap = False  # the last batch, and nothing else shows compaction there
        self._first_offset: int | None = None  # of the first batch
        self._last_base = -1  # of the last batch
        self.position = split.start
        self.next_offset = split.base_offset if split.start == 0 else None

    def see(self, headers: HeaderTable) -> None:
        """Takes the headers of the next batches: int64[FIELDS, n], n ≥ 1."""
        first, last = int(headers[batch_headers.BASE_OFFSET, 0]), int(headers[batch_headers.LAST_OFFSET, -1])
        if self._first_offset is None:
            self._first_offset = first
        expected = first if self.next_offset is None else self.next_offset
        flags: int = batch_rules.look_for_gaps(headers, self.position, expected)
        self._has_gaps = self._has_gaps or self._is_behind_gap or flags & batch_rules.HAS_GAPS != 0
        self._is_behind_gap = flags & batch_rules.ENDS_BEHIND_GAP != 0
        self._has_old_formats = self._has_old_formats or flags & batch_rules.HAS_OLD_FORMATS != 0
        self._last_base = int(headers[batch_headers.BASE_OFFSET, -1])
        self.next_offset = last + 1
        self.position = int(headers[batch_headers.POSITION, -1] + headers[batch_headers.SIZE, -1])

    def find_first(self, headers: HeaderTable) -> tuple[int, OffsetRange] | None:
        """Finds the first of the next batches that lies directly behind the one before it, and not with its offset, if
        the batch or the gap has wanted offsets. It returns the number of this batch and the gap, or None. headers: as
        `see` takes them, with the first offset of each wrapper of magic 0 or 1, or -1 where it is not known.
        """
        base, last, start, size = headers[_PLACES]
        expected = np.append(base[0] if self.next_offset is None else self.next_offset, last[:-1] + 1)
        follows = start == np.append(self.position, (start + size)[:-1])
        wanted = self._split.bounds.offsets
        is_wanted = (last >= wanted.start) & (expected < wanted.end)
        is_gap = follows & (base > expected) & is_wanted
        if not is_gap.any():
            return None
        at = int(np.argmax(is_gap))
        return at, OffsetRange(int(expected[at]), int(base[at]))

    @property
    def is_undecided(self) -> bool:
        """Whether formats before magic 2 make it impossible to tell a missing file from compaction."""
        return self._split.gap_is_loss and self._has_old_formats

    def missing(self, file: InputFile) -> OffsetRange | None:
        """The wanted offsets between the last batch and the next segment, if only a missing file explains the gap.

        After the last segment of a tier, they are those up to the offset that its manifest states.
        """
        split, gap = self._split, self._find_wanted_behind()
        is_loss = split.gap_is_loss or split.next_base_offset is None  # no tier is compacted
        if not is_loss or self._has_gaps or self._has_old_formats or gap.is_empty:
            return None
        if split.start > 0 and self._has_gaps_before(file):
            return None
        is_compaction = self._is_behind_gap and self._is_borne_out_by_index()
        return None if is_compaction else gap

    def find_lost_end(self, file: InputFile) -> int | None:
        """Returns the last offset that the index has behind the end of a segment that another one follows, if offsets
        between the two are wanted. None if there is none: then compaction explains the gap."""
        split, end, limit = self._split, self.next_offset, self._split.next_base_offset
        if limit is None or end is None or not split.index_size or self._find_wanted_behind().is_empty:
            return None
        probe, size = HeaderProbe(file, split.segment_size, check_crcs=False), split.segment_size
        return find_lost_end(split.path, split.storage, split.base_offset, size, split.index_size, limit, end, probe)

    def _find_wanted_behind(self) -> OffsetRange:
        """Returns the wanted offsets between the last batch and the next segment, or the end that a manifest states. It
        returns an empty range if the segment was not read to its end."""
        split, end = self._split, self._split.stated_end
        if self.position != split.segment_size or self.next_offset is None or end is None:
            return OffsetRange(0, 0)
        return OffsetRange(self.next_offset, end).intersect(split.bounds.offsets)

    def _is_borne_out_by_index(self) -> bool:
        """Whether an index file ends with the last offset that was read. A broker writes what it has appended there. A
        later offset shows that more was there. When it ends a segment, it adds the last batch of the latest timestamp
        to the time index.

        Kafka: LogSegment.onBecomeInactiveSegment.
        """
        split, storage = self._split, self._split.storage
        stem = split.path.removesuffix(kafka_format.LOG_SUFFIX)
        for suffix in (kafka_format.TIME_INDEX_SUFFIX, kafka_format.INDEX_SUFFIX):
            version = file_version(stem + suffix, storage)
            last = (
                None if version is None else find_last_offset(stem + suffix, storage, version.size, split.base_offset)
            )
            if last is not None and last + 1 == self.next_offset:
                return True
        return False

    def _has_gaps_before(self, file: InputFile) -> bool:
        """Whether the batches before the split show compaction, or are of old formats. Damage among them shows nothing.

        It reads them up to the first gap, or all of them. It is rarely called.
        """
        split = self._split._replace(start=0, end=self._split.start, bounds=ScanBounds(), stop_timestamp=None)
        before, noted, had_gaps = GapWatch(split), NotedDamage(drop=True), False
        for chunk in BatchReader(file, split, Trust(check_crcs=False), noted).chunks():
            before.see(chunk.headers)
            if had_gaps or before._has_old_formats or before.position >= self._split.start:
                break
            had_gaps = before._has_gaps  # damage ends a chunk: it is noted before the next one
        self._has_old_formats = before._has_old_formats
        end = before.next_offset if before.position == self._split.start else None
        is_behind_gap = end is not None and self._first_offset is not None and self._first_offset > end
        is_borne_out = self._first_offset != self._last_base  # by the next batch
        has_gaps = before._has_gaps or before._is_behind_gap or (is_behind_gap and is_borne_out)
        counts = not noted.skipped or not self._steps_back_before(file)
        self._is_behind_gap = self._is_behind_gap or (is_behind_gap and counts)
        return before._has_old_formats or (has_gaps and counts)

    def _steps_back_before(self, file: InputFile) -> bool:
        """Whether a batch before the split begins at or below the one before it. Then a gap may be the place of that
        batch, and shows no compaction. A read of all the file reports it."""
        highest = -1
        for header in HeaderProbe(file, self._split.start, check_crcs=False).walk(0, in_order=False):
            if header is None:
                break
            if header.base_offset <= highest:
                return True
            highest = header.last_offset
        return False
