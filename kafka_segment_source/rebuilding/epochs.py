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

Run = tuple[int, int, int]
"""Batches of one leader epoch that follow each other: the epoch, the first offset, the last one."""


def note_epochs(runs: list[Run], headers: HeaderTable) -> None:
    """Adds the leader epochs of some batches."""
    epochs, bases, lasts = headers[[batch_headers.LEADER_EPOCH, batch_headers.BASE_OFFSET, batch_headers.LAST_OFFSET]]
    edges = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(epochs)]
    for start, end in pairwise(edges):
        run = int(epochs[start]), int(bases[start]), int(lasts[end - 1])
        if runs and runs[-1][0] == run[0]:
            run = run[0], runs.pop()[1], run[2]
        runs.append(run)


def _join_runs(runs: Iterable[Run]) -> dict[int, tuple[int, int]]:
    """Returns epoch → its first and its last offset.

    No CRC covers an epoch. Epochs never fall along a log, so a run between two of one epoch is wrong. What belongs to
    no epoch (-1) is left out.
    """
    joined: list[Run] = []
    for run in runs:
        same = next((at for at in (-1, -2) if len(joined) >= -at and joined[at][0] == run[0]), None)
        if same is None:
            joined.append(run)
        else:
            joined[same:] = [(run[0], joined[same][1], run[2])]
    return {epoch: (first, last) for epoch, first, last in joined if epoch >= 0}


def join_epochs(runs: Iterable[Run], checkpoints: Iterable[Epochs], start: int, end: int) -> Epochs:
    """Returns the leader epochs and their start offsets.

    start, end: the first offset of the log, and the offset after its last one.
    """
    spans = _join_runs(runs)
    known: dict[int, int] = {}
    highest = -1
    for epoch, (first, _) in sorted(spans.items()):
        if first > highest or not known:
            known[epoch] = first
            highest = first
    for entries in checkpoints:
        for epoch, offset in entries:
            first = max(offset, start)
            before = max((last for other, (_, last) in spans.items() if other < epoch), default=-1)
            after = min((begin for other, (begin, _) in spans.items() if other >= epoch), default=end)
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
        (other < epoch) <= (begin <= first) and (other > epoch) <= (begin >= first) for other, begin in known.items()
    )


def to_bytes(epochs: Epochs) -> bytes:
    """Returns the bytes of a `leader-epoch-checkpoint`."""
    lines = [str(kafka_format.CHECKPOINT_VERSION), str(len(epochs)), *(f"{epoch} {first}" for epoch, first in epochs)]
    return ("\n".join(lines) + "\n").encode()
