"""Reads a partition's `leader-epoch-checkpoint`: the leader epochs that a broker recorded, and their start offsets.

Comes in: a partition directory. Goes out: the entries of `epoch_checkpoint.py`. The epoch of an offset is that of the
last entry at or below it. Below the first entry the epoch is unknown. A missing file has no entries, and neither has an
empty one, as a broker makes it. A damaged file has none either, and says why: the batches carry their epochs too.

A file that the storage does not give is a StorageError. Nothing follows from a history that was not read.

Kafka: LeaderEpochFileCache, KIP-101.
"""

from __future__ import annotations

from bisect import bisect_right

from kafka_segment_source import kafka_format
from kafka_segment_source.epoch_checkpoint import Epochs, EpochsError, parse_epochs
from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.store import Storage

UNKNOWN = -1
_MOST_BYTES = 16 * 1024 * 1024


def read_epochs(directory: str, storage: Storage) -> tuple[Epochs, str | None]:
    """Returns the entries of a partition directory's `leader-epoch-checkpoint`, and a sentence if the file is damaged.

    Raises StorageError.
    """
    path = join_path(directory, kafka_format.LEADER_EPOCH_CHECKPOINT)
    try:
        with InputFile(path, storage) as file:
            data = file.read_all(_MOST_BYTES)
        return (parse_epochs(data) if data else ()), None
    except FileChangedError:
        return (), None
    except (PathError, EpochsError) as error:
        said = str(error) if isinstance(error, PathError) else f"checkpoint {path!r} is damaged: {error}"
        return (), f"{said}; the leader epochs of the batches are used instead"


def epoch_at(epochs: Epochs, offset: int) -> int:
    """Returns the leader epoch of an offset, or UNKNOWN below the first entry."""
    at = bisect_right([start for _, start in epochs], offset) - 1
    return UNKNOWN if at < 0 else epochs[at][0]
