"""Uses a largest lateness in ms, which callers take from `Policy.disorder`, to prove that rows are not wanted.

The option is the user's statement that no data record is older, by more than D ms, than any earlier one. So one data
record w decides about everything after it, or before it:

- until = U: if w has a timestamp ≥ U + D, every data record after w is ≥ U. The batch that holds w is the *witness*. It
  is read whole, and nothing after it is read.
- since = T: if w has a timestamp < T - D, every data record up to w is < T.

A batch certainly holds such a record only if its header shows this and its CRC matches. CRCs are checked here even
under checkCrcs=false, because no task will read the batches that are dropped. The batch must be of magic 2. It must not
be a control batch, as markers of a backfill have the current time. It must have at least one record, as an empty batch
keeps the maximum of records that are gone. A time index entry is a hint where to look, never evidence. It may point
into a control batch.

The user's statement does not include records without a timestamp. They count as -1 ms. So `until` stops early only if a
`since` ≥ 0 excludes them.
"""

from __future__ import annotations

from typing import Any

from kafka_segment_source import batch_kinds
from kafka_segment_source.bounds import TimeRange
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView

_HINTS = 8  # index entries to try; after them the tasks find the witness themselves
_WALK = 64  # batches to check after a hint that leads to no witness


def stop_timestamp(times: TimeRange, disorder: int | None) -> int | None:
    """Returns the timestamp that makes a batch a witness for `until` (ms), or None if a scan may not end early.

    disorder: that of the policy, ms.
    """
    if disorder is None or not times.has_until or times.since < 0:
        return None
    stop = times.until + disorder
    return stop if stop < 2**63 else None


def is_witness(magic: Any, attributes: Any, count: Any, max_timestamp: Any, stop: int) -> Any:
    """Whether a batch proves that no later data record is wanted, if its CRC matches. The arguments are ints or arrays.

    Planning calls this for single batches. The reader calls it for all headers of a chunk.

    stop: the result of `stop_timestamp`, ms.
    """
    return batch_kinds.has_data(magic, attributes, count) & (max_timestamp >= stop)


def find_witness(view: SegmentView, stop: int) -> BatchHeader | None:
    """Returns the first witness near a time index entry ≥ `stop`, or None if none is found."""
    times = view.times_around(stop)
    first = times.before(stop) + 1
    for slot in range(first, min(first + _HINTS, len(times))):
        for seen, header in enumerate(view.headers_from(int(times.offsets[slot]), strict=True)):
            if header is None or seen == _WALK:
                break
            if is_witness(header.magic, header.attributes, header.count, header.max_timestamp, stop):
                return header
    return None


def settled_offset(view: SegmentView, before: int) -> int:
    """Returns an offset below which every data record is older than `before` + D. It is 0 if nothing is proven.

    It uses a binary search over the offset index.

    before: since - D, in ms.
    """
    positions = view.offsets.positions
    low, high, settled = 0, len(positions), 0
    while low < high:
        middle = (low + high) // 2
        header = _find_data_batch(view, int(positions[middle]))
        if header is not None and 0 <= header.max_timestamp < before:
            settled = max(settled, header.last_offset + 1)
            low = middle + 1
        else:
            high = middle
    return settled


def _find_data_batch(view: SegmentView, position: int) -> BatchHeader | None:
    """Returns the first batch with data at `position` or shortly after it. Markers prove nothing about data."""
    for seen, header in enumerate(view.strict_probe.walk(position)):
        if header is None or seen == _HINTS:
            return None
        if header.has_data:
            return header
    return None
