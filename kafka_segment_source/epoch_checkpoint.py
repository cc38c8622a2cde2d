"""Parses a `leader-epoch-checkpoint`: the leader epochs that a broker recorded, and their start offsets.

Comes in: the bytes of the file in a partition directory, of the object `leader_epoch_checkpoint` of LocalTieredStorage,
or of the part `leaderEpoch` of Aiven's plugin. They have one format: a version, the number of entries, then one
`epoch offset` on each line. Goes out: pairs (epoch, start offset) in order. Epochs grow, and no start falls.

The file states how many entries it has, and each line has an end. So a file that was cut shows it, and is damage: its
entries are not a shorter history. Kafka: LeaderEpochFileCache, LeaderEpochCheckpointFile, CheckpointFile.
"""

from __future__ import annotations

from itertools import pairwise

from kafka_segment_source import kafka_format

Epochs = tuple[tuple[int, int], ...]
"""Leader epochs and their start offsets, in order."""

_HEAD_LINES = 2  # version, number of entries
_ENTRY_WORDS = 2  # epoch, first offset
_MOST_DIGITS = 19  # a number of 63 bits has no more


class EpochsError(ValueError):
    """Why the bytes are no whole checkpoint: what was found, and what was expected."""


def parse_epochs(data: bytes) -> Epochs:
    """Returns the entries. Raises EpochsError, with what was found and what was expected, if the file is not whole."""
    if not data.endswith(b"\n"):
        raise EpochsError("found no line end as its last byte, expected whole lines")
    lines = [line.split() for line in data.decode("ascii", "replace").splitlines() if line.strip()]
    if lines[:1] != [[str(kafka_format.CHECKPOINT_VERSION)]]:
        raise EpochsError(f"found version {_show(lines[:1])}, expected {kafka_format.CHECKPOINT_VERSION}")
    count, entries = lines[1:_HEAD_LINES], lines[_HEAD_LINES:]
    if not count:
        raise EpochsError("found its first line alone, expected the number of entries")
    if count != [[str(len(entries))]]:
        raise EpochsError(f"found {len(entries)} entries, expected {_show(count)}, as its second line says")
    pairs = tuple(_parse_entry(entry) for entry in entries)
    if any(one[0] >= other[0] or one[1] > other[1] for one, other in pairwise(pairs)):
        raise EpochsError("found entries that fall, expected epochs and offsets that grow")
    return pairs


def _parse_entry(entry: list[str]) -> tuple[int, int]:
    is_right = len(entry) == _ENTRY_WORDS and all(word.isdigit() and len(word) <= _MOST_DIGITS for word in entry)
    if not is_right:
        raise EpochsError(f"found {' '.join(entry)[:60]!r}, expected an epoch and an offset")
    return int(entry[0]), int(entry[1])


def _show(lines: list[list[str]]) -> str:
    return repr(" ".join(lines[0])[:20]) if lines else "nothing"
