"""Reads the producer state that brokers save: which transactions were open at an offset.

With this state, a read need not start at the beginning of the log. A directory and a condition on offsets come in, and
the newest state with such an offset goes out.

A `.snapshot` has a CRC, so a valid one is exactly what a broker wrote. A snapshot that is torn, damaged or of another
version is skipped, and an older one is used. A broker does the same (`ProducerStateManager.loadFromSnapshot`). This
raises no error, as the log itself has the same facts. Without a snapshot, a longer part of the log must be read. If the
system denies the read of a snapshot, `faults` gets a sentence, because a broker would stop there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.checksums import crc32c
from kafka_segment_source.storage.files import UNUSABLE, InputFile, list_directory
from kafka_segment_source.storage.paths import join_path
from kafka_segment_source.storage.retrying import try_again
from kafka_segment_source.storage.store import Kind, Storage

MOST_SNAPSHOT = 64 * 1024 * 1024  # bytes of a `.snapshot`; a producer takes 46


class ProducerState(NamedTuple):
    """The content of a `.snapshot` for the log up to `offset` (exclusive): producer id → first offset of its open
    transaction."""

    offset: int
    open_transactions: dict[int, int]


def newest_state(
    directory: str, storage: Storage, usable: Callable[[int], bool], faults: list[str] | None = None
) -> ProducerState | None:
    """Returns the state of the newest valid `.snapshot` whose offset is `usable`, or None if there is none.

    A snapshot has every transaction that was open at its offset (Kafka: ProducerStateManager.takeSnapshot). So one that
    began before the offset of an older snapshot stands in both. If it does not, one of both is of another moment, and
    neither is used.

    faults: gets a sentence for each snapshot that the system does not allow to be read, and for two that contradict
    each other.
    """
    later: tuple[ProducerState, str] | None = None
    for offset, path, size in sorted(_list_snapshots(directory, storage), reverse=True):
        if later is not None and not any(first < offset for first in later[0].open_transactions.values()):
            break
        transactions = _read_open_transactions(path, storage, size, faults) if usable(offset) else None
        if transactions is None:
            continue
        if later is None:
            later = ProducerState(offset, transactions), path
            continue
        from_before = {(producer, first) for producer, first in later[0].open_transactions.items() if first < offset}
        if from_before <= transactions.items():
            break
        if faults is not None:
            faults.append(
                f"{path!r} and {later[1]!r} contradict each other about open transactions: neither is used"
                " (isolationLevel=read_committed)"
            )
        later = None
    return None if later is None else later[0]


def saved_states(directory: str, storage: Storage) -> list[tuple[str, int, bool]]:
    """Returns every `.snapshot` of a partition directory: its path, its bytes, and whether it is valid."""
    snapshots = sorted(_list_snapshots(directory, storage))
    return [(path, size, _read_open_transactions(path, storage, size) is not None) for _, path, size in snapshots]


def _list_snapshots(directory: str, storage: Storage) -> list[tuple[int, str, int]]:
    """Returns the snapshots of a directory: offset, path, bytes. The offset is in the name. Its digits may be of any
    locale."""
    entries = try_again(lambda: list_directory(directory, storage))
    snapshots = []
    for entry in entries:
        digits = entry.name.removesuffix(kafka_format.SNAPSHOT_SUFFIX)
        named = len(digits) == kafka_format.BASE_OFFSET_DIGITS and digits.isdecimal()
        if named and entry.name.endswith(kafka_format.SNAPSHOT_SUFFIX) and entry.kind is Kind.FILE:
            snapshots.append((int(digits), join_path(directory, entry.name), entry.size))
    return snapshots


def _read_open_transactions(
    path: str, storage: Storage, size: int, faults: list[str] | None = None
) -> dict[int, int] | None:
    """Returns producer id → first offset of its open transaction, or None if the file is not valid."""
    if not kafka_format.SNAPSHOT_HEADER.size <= size <= MOST_SNAPSHOT:
        return None
    try:
        with InputFile(path, storage) as file:
            version, crc, count = kafka_format.SNAPSHOT_HEADER.unpack(
                file.read_at(0, kafka_format.SNAPSHOT_HEADER.size)
            )
            if (
                version != kafka_format.SNAPSHOT_VERSION
                or size != kafka_format.SNAPSHOT_HEADER.size + count * kafka_format.SNAPSHOT_ENTRY.size
            ):
                return None  # no further byte is read
            data = file.read_at(kafka_format.SNAPSHOT_CRC_FROM, size - kafka_format.SNAPSHOT_CRC_FROM)
    except UNUSABLE as error:
        if faults is not None:
            faults.append(f"{error}; the last stable offset is looked for without it (isolationLevel=read_committed)")
        return None
    except (FileChangedError, struct.error):  # the file is gone or was cut
        return None
    if len(data) != size - kafka_format.SNAPSHOT_CRC_FROM or crc32c(data) != crc:
        return None
    producers = kafka_format.SNAPSHOT_ENTRY.iter_unpack(
        memoryview(data)[kafka_format.SNAPSHOT_HEADER.size - kafka_format.SNAPSHOT_CRC_FROM :]
    )
    return {producer_id: first for producer_id, *_, first in producers if first >= 0}
