"""The leader epochs of a rebuilt log: those of its batches, and what the sources' checkpoints add to them.

A checkpoint also has epochs in which nothing was written, and the first offset of an epoch whose first batches were
compacted away. An entry of a checkpoint counts if no batch contradicts it. Kafka: LeaderEpochFileCache.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.epoch_checkpoint import Epochs
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable

Spans = dict[int, tuple[int, int]]
"""Leader epoch → the first offset of its first batch, and the last offset of its last batch."""


def note_epochs(spans: Spans, headers: HeaderTable) -> None:
    """Adds the leader epochs of some batches."""
    epochs = headers[batch_headers.LEADER_EPOCH]
    edges = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(epochs)]
    for start, end in pairwise(edges):
        epoch = int(epochs[start])
        if epoch >= 0:
            last = int(headers[batch_headers.LAST_OFFSET, end - 1])
            first = spans[epoch][0] if epoch in spans else int(headers[batch_headers.BASE_OFFSET, start])
            spans[epoch] = first, last


def join_epochs(spans: Spans, checkpoints: Iterable[Epochs], start: int, end: int) -> Epochs:
    """Returns the leader epochs and their start offsets.

    start, end: the first offset of the log, and the offset after its last one.
    """
    known: dict[int, int] = {}
    highest = -1
    for epoch, (first, _) in sorted(spans.items()):
        if first > highest or not known:
            known[epoch] = first
            highest = first
    for entries in checkpoints:
        for epoch, offset in entries:
            first = max(offset, start)
            before = max((last for each, (_, last) in spans.items() if each < epoch), default=-1)
            after = min((begin for each, (begin, _) in spans.items() if each >= epoch), default=end)
            if before < first <= after and _fits(known, epoch, first):
                known[epoch] = first
    # of several epochs that begin before the log, the last one holds its first offset
    kept = sorted(known.items())
    while len(kept) > 1 and kept[1][1] <= start:
        del kept[0]
    return tuple((epoch, max(first, start)) for epoch, first in kept)


def _fits(known: dict[int, int], epoch: int, first: int) -> bool:
    """Whether the entries stay in order with this one."""
    return all(
        (each < epoch) <= (begin <= first) and (each > epoch) <= (begin >= first) for each, begin in known.items()
    )


def to_bytes(epochs: Epochs) -> bytes:
    """Returns the bytes of a `leader-epoch-checkpoint`."""
    lines = [str(kafka_format.CHECKPOINT_VERSION), str(len(epochs)), *(f"{epoch} {first}" for epoch, first in epochs)]
    return ("\n".join(lines) + "\n").encode()
