"""Says where a marker may be gone: in gaps where another copy is read, and behind damage that was mended.

The gaps are behind a seam: where the reading of a log goes over to another copy, or comes back.

`walk.py` asks it on the way to the markers that follow a chunk. Records of a transaction that was open before such a
gap are withheld, unless a marker before the gap ends it. view=transactions has no copy of its own to ask, as it walks
all of them: there each gap behind a seam counts (`views/transaction_walk.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.logs import available_copies, existing_copies
from kafka_segment_source.source import Source
from kafka_segment_source.storage.paths import parent_of
from kafka_segment_source.transactions.stretches import Stretch, find_voids
from kafka_segment_source.trust import Policy


def list_copies_of(split: SegmentSplit, source: Source, policy: Policy) -> list[CopyView]:
    """Returns the copies of a split's partition as they are now, up to the end of their files."""
    directories = existing_copies(split.copies, source.storage) or split.copies
    return available_copies(source.at(directories).to_end_of_files(), policy)


class Voids:
    """Finds where batches are gone behind a seam, in another copy than that of a split, or at the seam back to that
    copy: they may have been markers.

    Where nothing marks a copy as compacted, the others are asked in its gaps. So a gap there hides no marker of records
    that the split's copy has, if that one is sound around the gap: it has their marker too.
    """

    def __init__(self, split: SegmentSplit, source: Source, policy: Policy) -> None:
        self._split, self._source, self._policy = split, source, policy
        self._directory = parent_of(split.path)
        self._part = split  # the part that is read
        self._is_back = False  # whether the part before was of another copy, and no batch of this one was read yet
        self._own: CopyView | None = None  # the split's copy, once it is needed
        self._is_listed = False

    def note_part(self, part: SegmentSplit) -> None:
        """Notes which part of the log is read next."""
        was_away = self._is_away()
        self._part = part
        self._is_back = (was_away or self._is_back) and not self._is_away()

    def _is_away(self) -> bool:
        return bool(self._split.copies) and parent_of(self._part.path) != self._directory

    def find_first(self, stretch: Stretch, reached: int) -> int | None:
        """Returns the first offset of a stretch of the part after `reached` where batches are gone, or None.

        Raises FileChangedError, StorageError or PathError if the copies can no longer be listed.
        """
        voids = self._find_here(stretch, reached)
        is_believed = self._is_away() and not self._part.asks_in_gaps
        return next((void.start for void in voids if is_believed or not self._is_sound_around(void)), None)

    def _find_here(self, stretch: Stretch, reached: int) -> Iterator[OffsetRange]:
        """Yields where batches are gone: in another copy, before the first batch on the way back, and where a part was
        mended."""
        since = reached if self._is_away() or self._is_back else stretch.void
        if since is None:
            return
        if not stretch.headers.shape[1]:  # the end of a part
            yield from () if stretch.void is None else (OffsetRange(since, since + 1),)
            return
        self._is_back = False
        yield from (void for void in find_voids(stretch, reached) if void.start >= since)

    def _is_sound_around(self, gap: OffsetRange) -> bool:
        """Whether the split's copy has the batch behind a gap, and lacks the same offsets without damage."""
        if not self._is_listed:
            copies = list_copies_of(self._split, self._source, self._policy)
            self._own = next((copy for copy in copies if copy.log.directory == self._directory), None)
            self._is_listed = True
        following = None if self._own is None else self._own.batch_at(gap.start)
        return following is not None and following.base_offset >= gap.end
