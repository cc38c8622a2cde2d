"""Transactions whose end is not known: their batches are left out.

The marker of such a transaction was damaged, is missing, or was compacted away. A broker takes the next marker of the
producer for its own, so rows that were aborted could come out as committed. A read of `read_committed` withholds these
rows, and a rebuilt log does not have them. `view=transactions` judges it: the state `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.header_table import is_transactional_data
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.segments import PartitionLog
from kafka_segment_source.rebuilding.rebuild_report import LeftOut
from kafka_segment_source.source import Source
from kafka_segment_source.trust import Policy
from kafka_segment_source.views.transaction_table import UNKNOWN
from kafka_segment_source.views.transaction_walk import find_transactions
from kafka_segment_source.views.transactions import make_task


class Unended(NamedTuple):
    """The batches of one producer in a transaction whose end is not known: first ≤ offset < end.

    batches: how many.
    """

    producer_id: int
    first: int
    end: int
    batches: int

    def describe(self) -> LeftOut:
        why = (
            f"nobody knows how the transaction of producer {self.producer_id} that begins at offset {self.first} ended:"
            f" its marker is damaged, missing or compacted away; batches of it that are left out: {self.batches:,}"
        )
        return LeftOut("unended transaction", self.first, None, why)


def find_unended(log: PartitionLog, source: Source, policy: Policy) -> tuple[Unended, ...]:
    """Returns the transactions of a partition whose end is not known. It reads the whole log.

    Raises what a read raises.
    """
    unended: list[Unended] = []
    following: dict[int, int] = {}  # producer id → where its next transaction begins
    rows = sorted(
        find_transactions(make_task(log, source, policy), source, policy), key=lambda row: -int(row["firstOffset"])
    )
    for row in rows:
        producer_id, first = int(row["producerId"]), int(row["firstOffset"])
        if row["state"] == UNKNOWN and row["batches"]:
            unended.append(
                Unended(producer_id, first, following.get(producer_id, kafka_format.MAX_OFFSET), row["batches"])
            )
        following[producer_id] = first
    return tuple(reversed(unended))


def is_ended(headers: HeaderTable, unended: Sequence[Unended]) -> npt.NDArray[np.bool_]:
    """Marks the batches that are in no transaction of `unended`. headers: int64[FIELDS, n]. Returns bool[n]."""
    ended = np.ones(headers.shape[1], np.bool_)
    if unended:
        is_data = is_transactional_data(headers)
        producers, bases = headers[[batch_headers.PRODUCER_ID, batch_headers.BASE_OFFSET]]
        for transaction in unended:
            is_within = (bases >= transaction.first) & (bases < transaction.end)
            ended &= ~(is_data & (producers == transaction.producer_id) & is_within)
    return ended
