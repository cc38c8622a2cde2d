"""Batches of two copies that one history cannot have, where a read is mended: neither of them is read.

`histories.py` finds them for a plan. It does not compare a batch that damage puts in doubt, and a survey may give that
batch as sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from kafka_segment_source.bounds import OffsetRange
from kafka_segment_source.errors import CorruptRecordError, DataError
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.partition.batch_pairs import DIFFERENT, relate_places
from kafka_segment_source.partition.copy_view import CopyView
from kafka_segment_source.partition.survey import Survey

_COMPARED = [batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET, batch_headers.CRC, batch_headers.LEADER_EPOCH]


def find_conflicts(read: Sequence[tuple[CopyView, Survey]]) -> list[tuple[OffsetRange, DataError]]:
    """Returns the offsets at which two copies have different batches of different leader epochs, and an error that
    names one of them. One of the two copies is stale there, or states wrong offsets, and nothing says which one.

    Epochs alone show nothing, as no CRC covers them. read: surveys, each with its copy.
    """
    found: list[tuple[OffsetRange, DataError]] = []
    for (copy, one), (other_copy, other) in combinations(read, 2):
        if not one.batches.shape[1] or not other.batches.shape[1]:
            continue
        base, last, crc, epoch = one.batches[_COMPARED]
        at = np.searchsorted(other.batches[batch_headers.LAST_OFFSET], base)  # the batch that may share offsets
        has_other = at < other.batches.shape[1]
        their_base, _, their_crc, their_epoch = other.batches[_COMPARED][:, np.where(has_other, at, 0)]
        differs = has_other & (their_base <= last) & (crc != their_crc) & (epoch != their_epoch)
        for place in np.flatnonzero(differs & (np.minimum(epoch, their_epoch) >= 0)).tolist():
            header, twin = one.header(place), other.header(int(at[place]))
            if relate_places(copy, header, other_copy, twin) != DIFFERENT:
                continue
            start = max(header.base_offset, twin.base_offset)
            what = "batch of another leader epoch than a batch of another copy at its offsets"
            expected = f"leader epoch {twin.leader_epoch}, as at byte {twin.position} of {other.segment.path}"
            error = CorruptRecordError(
                what,
                path=one.segment.path,
                position=header.position,
                offset=start,
                found=f"leader epoch {header.leader_epoch}",
                expected=expected,
            )
            found.append((OffsetRange(start, min(header.last_offset, twin.last_offset) + 1), error))
    return found
