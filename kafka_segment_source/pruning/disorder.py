"""What `timestampDisorder` proves: the user's word D that a later data record is never older than an earlier one by
more than D ms. Then a data record w decides about everything after it, or before it:

- until = U: if w has a timestamp ≥ U + D, every data record after w is ≥ U. The batch that holds w, the *witness*, is
  read whole; everything after it is not.
- since = T: if w has a timestamp < T - D, every data record up to w is < T.

A batch is certain to hold such a record only if its header says so and its CRC holds (CRCs are checked here even
under checkCrcs=false: no task will see what is dropped on this word): magic 2, not a control batch (markers of a
backfill carry today's clock), at least one record (an empty batch keeps the maximum of records that are gone). A time
index entry is a hint where to look, never evidence: it may lie in a control batch.

Records without a timestamp are outside the user's word. They count as -1 ms, so `until` stops early only where a
`since` ≥ 0 keeps them out.
"""

from __future__ import annotations

from typing import Any

from kafka_segment_source import format as fmt
from kafka_segment_source.bounds import TimeRange
from kafka_segment_source.logdir.probe import BatchHeader
from kafka_segment_source.logdir.segment_view import SegmentView

_HINTS = 8  # index entries tried; past them the tasks find the witness themselves
_WALK = 64  # batches looked at onward from a hint that was none


def usable_disorder(disorder: int | None, include_control: bool) -> int | None:
    """The declared disorder (ms) where it proves something: it is the user's word about data records alone."""
    return None if include_control else disorder


def stop_timestamp(times: TimeRange, disorder: int | None) -> int | None:
    """The timestamp that makes a batch a witness for `until` (ms), or None where nothing may end a scan early.

    disorder: what `usable_disorder` gives.
    """
    if disorder is None or not times.has_until or times.since < 0:
        return None
    stop = times.until + disorder
    return stop if stop < 2**63 else None


def has_data(magic: Any, attributes: Any, count: Any) -> Any:
    """Whether a batch surely holds data records, by its header; ints, or arrays with one value a batch."""
    return (magic == fmt.MAGIC_V2) & (attributes & fmt.CONTROL_MASK == 0) & (count > 0)


def is_witness(magic: Any, attributes: Any, count: Any, max_timestamp: Any, stop: int) -> Any:
    """Whether a batch proves that no later data record is wanted, given that its CRC holds; ints or arrays.

    stop: `stop_timestamp`, ms. Planning asks for single batches, the reader for all headers of a chunk.
    """
    return has_data(magic, attributes, count) & (max_timestamp >= stop)


def find_witness(view: SegmentView, stop: int) -> BatchHeader | None:
    """The first batch near a time index entry ≥ `stop` that is a witness; None if none is found."""
    times = view.times
    first = times.before(stop) + 1
    for slot in range(first, min(first + _HINTS, len(times))):
        for seen, header in enumerate(view.headers_from(int(times.offsets[slot]), strict=True)):
            if header is None or seen == _WALK:
                break
            if is_witness(header.magic, header.attributes, header.count, header.max_timestamp, stop):
                return header
    return None


def settled_offset(view: SegmentView, before: int) -> int:
    """An offset below which every data record is older than `before` + D, by binary search over the offset index.

    before: since - D, in ms. Answers 0 where nothing is proven.
    """
    positions = view.offsets.positions
    low, high, settled = 0, len(positions), 0
    while low < high:
        middle = (low + high) // 2
        header = _data_batch_at(view, int(positions[middle]))
        if header is not None and 0 <= header.max_timestamp < before:
            settled = max(settled, header.last_offset + 1)
            low = middle + 1
        else:
            high = middle
    return settled


def _data_batch_at(view: SegmentView, position: int) -> BatchHeader | None:
    """The first batch with data at `position` or just after: markers say nothing about data."""
    for seen, header in enumerate(view.strict_probe.walk(position)):
        if header is None or seen == _HINTS:
            return None
        if has_data(header.magic, header.attributes, header.count):
            return header
    return None
