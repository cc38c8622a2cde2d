"""Reads a partition's `leader-epoch-checkpoint`: the leader epochs that a broker recorded, and their start offsets.

Comes in: a partition directory. Goes out: pairs (epoch, start offset) in order, with both values growing. The epoch of
an offset is that of the last entry at or below it. Below the first entry the epoch is unknown. A missing or invalid
file has no entries, as the batches carry their epochs too.

Kafka: LeaderEpochFileCache, LeaderEpochCheckpointFile, KIP-101.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import Storage

Epochs = tuple[tuple[int, int], ...]
UNKNOWN = -1
_HEAD_LINES = 2  # version, number of entries
_ENTRY_WORDS = 2  # epoch, first offset
_MOST_DIGITS = 19  # a number of 63 bits has no more
_MOST_BYTES = 16 * 1024 * 1024


def parse_epochs(data: bytes) -> Epochs:
    """Returns the entries of a `leader-epoch-checkpoint`. It returns none if the file is empty or invalid."""
    lines = [line.split() for line in data.decode("ascii", "replace").splitlines() if line.strip()]
    numbers = [[int(word) for word in line if word.isdigit() and len(word) <= _MOST_DIGITS] for line in lines]
    whole = all(len(words) == len(line) for words, line in zip(numbers, lines, strict=True))
    if (
        len(lines) < _HEAD_LINES
        or not whole
        or numbers[0] != [kafka_format.CHECKPOINT_VERSION]
        or numbers[1] != [len(lines) - _HEAD_LINES]
    ):
        return ()
    if any(len(entry) != _ENTRY_WORDS for entry in numbers[_HEAD_LINES:]):
        return ()
    entries = tuple((epoch, start) for epoch, start in numbers[_HEAD_LINES:])
    grows = all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(entries))
    return entries if grows else ()


def read_epochs(directory: str, storage: Storage) -> Epochs:
    """Returns the entries of a partition directory's `leader-epoch-checkpoint`. It returns none for a missing or
    invalid file."""
    try:
        with InputFile(join_path(directory, kafka_format.LEADER_EPOCH_CHECKPOINT), storage) as file:
            return parse_epochs(file.read_all(_MOST_BYTES))
    except KafkaSegmentError:
        return ()


def epoch_at(epochs: Epochs, offset: int) -> int:
    """Returns the leader epoch of an offset, or UNKNOWN below the first entry."""
    at = bisect_right([start for _, start in epochs], offset) - 1
    return UNKNOWN if at < 0 else epochs[at][0]
