"""Which batches may be believed: no CRC covers the offset of a batch, so those around it have to bear it out.

Input: the headers of batches that follow each other in a file, and what was believed before them. The rules are those
of `offset_order.py` and `logdir/offset_proof.py`; where they leave two answers, other copies decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batch_search import BatchSearch
from kafka_segment_source.decoding.faults import Faults
from kafka_segment_source.decoding.header_table import end_of, is_wrapper
from kafka_segment_source.decoding.offset_order import (
    Disorder,
    find_disorder,
    is_misplaced,
    needs_witness,
    overlap,
    shows_gaps,
)
from kafka_segment_source.decoding.split import BatchPlace, SegmentSplit
from kafka_segment_source.errors import DataError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc_of
from kafka_segment_source.logdir.offset_proof import limit_of
from kafka_segment_source.storage.files import Bytes, InputFile

_WITNESSES = 64  # batches behind damage that are at hand, to look at before the file is searched


class Skipped(NamedTuple):
    """The batch that was left out right before some others.

    end: the position after it.
    first, last: the offsets that it states.
    is_whole: whether it has the CRC that it states.
    """

    end: int = -1
    first: int = -1
    last: int = -1
    is_whole: bool = False


class Belief:
    """What is believed of one split, up to a batch, and what that says of the batches behind it.

    last: the last batch that was believed; None before the first one.
    skipped: the batch that was left out last.
    """

    def __init__(self, file: InputFile, split: SegmentSplit, search: BatchSearch, faults: Faults) -> None:
        """search: its `last_offset` is the last one that was believed."""
        self._file = file
        self._split = split
        self._search = search
        self._faults = faults
        self._offset_limit = limit_of(split.base_offset, split.next_base_offset)  # exclusive, of the segment
        # the position after the last batch that was believed; 0: the offset before byte 0 is known
        self._believed_end = 0
        self.last: BatchPlace | None = None
        self.skipped = Skipped()

    def note(self, headers: HeaderTable) -> None:
        """Notes that these batches are believed. There is at least one."""
        last = headers[:, -1].tolist()
        self._believed_end = last[batch_headers.POSITION] + last[batch_headers.SIZE]
        self._search.last_offset = last[batch_headers.LAST_OFFSET]
        self.last = BatchPlace(last[batch_headers.POSITION], last[batch_headers.BASE_OFFSET], last[batch_headers.CRC])

    def find_first_fault(
        self, headers: HeaderTable, bad: npt.NDArray[np.bool_], data: Bytes, start: int
    ) -> tuple[int, DataError] | None:
        """Finds the first batch that cannot be believed: its column and the error.

        bad: the batches with a wrong CRC. start: where data[0] lies in the file.
        """
        first = int(bad.argmax())
        count = first if bad[first] else headers.shape[1]
        before, limit = self._search.last_offset, self._offset_limit
        is_behind_plan = self.last is None and self._split.start > 0
        if self._is_stated_by_damage(headers) or (is_behind_plan and self._is_borne_out(headers)):
            before = max(before, int(headers[batch_headers.BASE_OFFSET, 0]) - 1)
        following = limit
        good = headers[:, :count]
        is_before_damage = False
        if count and needs_witness(good, self._search.last_offset):
            earlier = int(headers[batch_headers.LAST_OFFSET, count - 2]) if count > 1 else before
            is_before_damage = count < headers.shape[1]
            later = _find_later_offset(headers[:, count:], bad[count:], earlier)
            if later is None:
                next_position = self._search.find_following(end_of(good), earlier)
                later = limit if next_position is None else self._search.read_base_offset(next_position)
                is_before_damage = is_before_damage or next_position != end_of(good)
            following, is_before_damage = later, is_before_damage and later != limit
        is_behind_damage = int(headers[batch_headers.POSITION, 0]) != self._believed_end
        wrong = find_disorder(good, before, limit, following, is_behind_damage)
        if count > 1 and (wrong is None or (wrong.column == 1 and overlap(good))):
            wrong = self._doubt_first(headers, count, before) or wrong
        if wrong is None and count and headers[batch_headers.POSITION, 0] == self.skipped.end:
            wrong = self._doubt_behind_skipped(headers)
        if wrong is None and is_before_damage:
            wrong = self._doubt_last(good, earlier, following)
            after = self._read_following(headers, count - 1)
            if wrong is None and after is not None and is_misplaced(headers, count - 1, earlier, after):
                wrong = Disorder(count - 1, earlier + 1, after - 1)
        if wrong is not None:
            fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]
            place, base, last = headers[fields, wrong.column].tolist()
            error = self._faults.out_of_order(place, (base, last), (wrong.first, wrong.last))
            return self._find_gap_for(good, wrong.column), error
        if count == headers.shape[1]:
            return None
        size, magic, stated, position, offset = headers[
            [
                batch_headers.SIZE,
                batch_headers.MAGIC,
                batch_headers.CRC,
                batch_headers.POSITION,
                batch_headers.BASE_OFFSET,
            ],
            count,
        ].tolist()
        crc = crc_of(memoryview(data[position - start : position - start + size]), magic)  # type: ignore[arg-type]
        return count, self._faults.bad_crc(position, offset, crc, stated)

    def _find_gap_for(self, good: HeaderTable, column: int) -> int:
        """Returns the column of the batch behind an earlier gap that a wrong batch fits into, or else its own column.

        Where other copies are searched for the wanted offsets of the wrong batch, the rows behind the gap must not be
        returned before. good: batches with the row AFTER. column: of the wrong one.
        """
        is_alone = len(self._split.copies) <= 1
        if is_alone or good[batch_headers.MAGIC, column] != kafka_format.MAGIC_V2:
            return column
        base, last = good[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], column]
        first = max(base, self._split.bounds.offsets.start)  # of the wanted ones
        before = good[:, :column]
        has_room = (first <= last) & (before[batch_headers.AFTER] < first) & (before[batch_headers.BASE_OFFSET] > last)
        return int(has_room.argmax()) if has_room.any() else column

    def _is_borne_out(self, headers: HeaderTable) -> bool:
        """Whether the first batch of a range inside the file has its offset from more than its own header.

        The plan begins at a batch that its neighbours bear out. The batch after it may be damaged: a number that fits
        is no accident. A wrapper of magic 0 or 1 states only its last offset.
        """
        if headers[batch_headers.MAGIC, 0] != kafka_format.MAGIC_V2:
            return False
        base, last = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET], 0].tolist()
        return bool(base == self._split.bounds.offsets.start or self._read_following(headers, 0) == last + 1)

    def _is_stated_by_damage(self, headers: HeaderTable) -> bool:
        """Whether the first batch begins where the damage right before it states its end.

        That damage must state too that it begins where the batch before it ends. Two numbers that fit are no accident.
        A wrapper of magic 0 or 1 states only its last offset.
        """
        if is_wrapper(headers[:, :1])[0]:
            return False
        position, base = headers[[batch_headers.POSITION, batch_headers.BASE_OFFSET], 0].tolist()
        skipped, expected = self.skipped, self._search.last_offset + 1
        return skipped.end == position and (skipped.first, skipped.last + 1) == (expected, base)

    def _read_following(self, headers: HeaderTable, at: int) -> int | None:
        """Returns the first offset that the batch after batch `at` states, also where the table or the range ends.

        None if there is none, or if it is a wrapper of magic 0 or 1, which states only its last offset.
        """
        if at + 1 < headers.shape[1]:
            magic, base = headers[[batch_headers.MAGIC, batch_headers.BASE_OFFSET], at + 1].tolist()
            return int(base) if magic == kafka_format.MAGIC_V2 else None
        header = self._file.read_at(end_of(headers), kafka_format.MAGIC_END)
        is_v2 = len(header) == kafka_format.MAGIC_END and header[kafka_format.MAGIC_AT] == kafka_format.MAGIC_V2
        return int.from_bytes(header[: kafka_format.LENGTH_AT], "big", signed=True) if is_v2 else None

    def _doubt_behind_skipped(self, headers: HeaderTable) -> Disorder | None:
        """Decides about the batch right behind one that was left out.

        If it states offsets of that one, and leaves a gap behind the batch before, the gap must have room for it.
        Without a gap, the one that was left out is foreign. A wrapper of magic 0 or 1 states only its last offset. As
        that one may be foreign in any case, only another copy is believed more.
        """
        skipped, after = self.skipped, self._read_following(headers, 0)
        if after is not None and is_misplaced(headers, 0, skipped.last, after):
            return Disorder(0, skipped.last + 1, after - 1)
        magic, first = headers[[batch_headers.MAGIC, batch_headers.BASE_OFFSET], 0].tolist()
        expected = self._search.last_offset + 1
        least = expected + skipped.last - skipped.first + 1
        is_in_gap = magic == kafka_format.MAGIC_V2 and expected < first < least
        is_either = self._split.copies and is_in_gap and skipped.is_whole and first <= skipped.last
        return Disorder(0, least, self._offset_limit - 1) if is_either else None

    def _doubt_first(self, headers: HeaderTable, count: int, before: int) -> Disorder | None:
        """Decides about a batch behind damage: in a file that shows no compaction, the batch after it begins where it
        ends. If there are other copies, they have it at the right place.

        headers: it and the batches after it. count: of those before the next damage, two or more. before: the last
        offset before the damage.
        """
        good = headers[:, :count]
        is_behind_damage = self.last is not None or not self._split.start
        if not self._split.copies or not is_behind_damage or self._is_stated_by_damage(headers):
            return None
        fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT]
        (position, _), (base, following), (last, _), (records, _) = good[fields, :2].tolist()
        if position == self._believed_end or following == last + 1 or records != last - base + 1:
            return None
        if is_misplaced(headers, 1, last, self._read_following(headers, 1)):
            return None
        return None if shows_gaps(good[:, 2:]) else Disorder(0, before + 1, following - 1)

    def _doubt_last(self, good: HeaderTable, earlier: int, following: int) -> Disorder | None:
        """Decides about a batch between a gap and damage. In a file that shows no compaction, it stands at a wrong
        place. If there are other copies, they have it at the right one.

        good: the batches up to it; the rule before has filled in AFTER. earlier: the last offset before the gap.
        following: the offset of the next sound batch. An index entry decides nothing, as an index may be damaged too.
        """
        fields = [batch_headers.POSITION, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.COUNT]
        position, base, last, count = good[fields, -1].tolist()
        if good[batch_headers.MAGIC, -1] != kafka_format.MAGIC_V2:
            return None  # a wrapper states only its last offset, so every wrapper seems to leave a gap
        ends = end_of(good[:, :-1]) if good.shape[1] > 1 else self._believed_end
        first = 1 if self.last is None and self._split.start else 0  # what lies before the range is not known
        is_whole = not shows_gaps(good[:, first:-1]) and count == last - base + 1
        if self._split.copies and is_whole and position == ends:
            return Disorder(good.shape[1] - 1, earlier + 1, following - 1)
        return None

    def is_end_in_doubt(self, headers: HeaderTable, at: int) -> bool:
        """Whether the batch that ends the wanted offsets leaves a gap before it, and batch `at`, the first one that is
        out of order behind it, states wanted offsets below it: then either of them may be wrong (`offset_proof.py`)."""
        end = self._split.bounds.offsets.end
        base, last, before = headers[[batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.AFTER]]
        reaching = int(np.argmax(last[:at] >= end - 1))
        return bool(base[reaching] > before[reaching] + 1 and base[at] < min(end, base[reaching]))


def _find_later_offset(headers: HeaderTable, bad: npt.NDArray[np.bool_], before: int) -> int | None:
    """Returns the offset of the first sound batch above the offset `before`, of the next few batches. None if none is.

    bad: the batches with a wrong CRC.
    """
    bases = headers[batch_headers.BASE_OFFSET, :_WITNESSES]
    later = bases[~bad[:_WITNESSES] & (bases > before)]
    return int(later[0]) if len(later) else None
