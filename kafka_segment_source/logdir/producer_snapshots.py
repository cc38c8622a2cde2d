"""Producer state as brokers save it: which transactions were open at an offset, so that a log need not be read from
its start to know.

A directory and an offset come in, the newest state at or before it goes out. A `.snapshot` carries a CRC, so what is
believed of it is what a broker wrote; one that is torn, garbled or of another version is passed over for an older one,
as a broker does (`ProducerStateManager.loadFromSnapshot`). No error is raised for any of it: without a snapshot the
log itself tells, from further back. One that the system does not let us read is said: a broker would not go on.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

from crc32c import crc32c

from kafka_segment_source import format as fmt
from kafka_segment_source.errors import KafkaSegmentError
from kafka_segment_source.logdir.listing import MOST_SNAPSHOT
from kafka_segment_source.storage.files import UNUSABLE, InputFile, list_directory, try_again
from kafka_segment_source.storage.store import Kind


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a `.snapshot` says of the log up to `offset` (exclusive): open transactions, producer id → first offset."""

    offset: int
    open_transactions: dict[int, int]


def newest_state(
    directory: str, usable: Callable[[int], bool], faults: list[str] | None = None
) -> ProducerState | None:
    """The state of the newest valid `.snapshot` of a partition directory whose offset is `usable`; None if there is
    none.

    faults: takes a sentence for each that the system does not let us read.
    """
    for offset, path, size in sorted(_listed(directory), reverse=True):
        if usable(offset):
            transactions = _open_transactions(path, size, faults)
            if transactions is not None:
                return ProducerState(offset, transactions)
    return None


def saved_states(directory: str) -> list[tuple[str, int, bool]]:
    """Every `.snapshot` of a partition directory: path, bytes, and whether it can be believed."""
    found = sorted(try_again(lambda: _listed(directory)))
    return [(path, size, _open_transactions(path, size) is not None) for _, path, size in found]


def _listed(directory: str) -> list[tuple[int, str, int]]:
    """The snapshots of a directory by their names: offset, path, bytes. Digits may be of any locale."""
    try:
        entries = list_directory(directory)
    except UNUSABLE:
        return []
    found = []
    for entry in entries:
        digits = entry.name.removesuffix(fmt.SNAPSHOT_SUFFIX)
        named = len(digits) == fmt.BASE_OFFSET_DIGITS and digits.isdecimal()
        if named and entry.name.endswith(fmt.SNAPSHOT_SUFFIX) and entry.kind is Kind.FILE:
            found.append((int(digits), os.path.join(directory, entry.name), entry.size))
    return found


def _open_transactions(path: str, size: int, faults: list[str] | None = None) -> dict[int, int] | None:
    """Producer id → first offset of its open transaction; None if the file cannot be believed."""
    if not fmt.SNAPSHOT_HEADER.size <= size <= MOST_SNAPSHOT:
        return None
    try:
        with InputFile(path) as file:
            version, crc, count = fmt.SNAPSHOT_HEADER.unpack(file.read_at(0, fmt.SNAPSHOT_HEADER.size))
            if version != fmt.SNAPSHOT_VERSION or size != fmt.SNAPSHOT_HEADER.size + count * fmt.SNAPSHOT_ENTRY.size:
                return None  # before a byte more is read
            data = file.read_at(fmt.SNAPSHOT_CRC_FROM, size - fmt.SNAPSHOT_CRC_FROM)
    except UNUSABLE as error:
        if faults is not None:
            faults.append(f"{error}; the last stable offset is looked for without it (isolationLevel=read_committed)")
        return None
    except (KafkaSegmentError, struct.error):  # it is gone, or cut by now
        return None
    if len(data) != size - fmt.SNAPSHOT_CRC_FROM or crc32c(data) != crc:
        return None
    producers = fmt.SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[fmt.SNAPSHOT_HEADER.size - fmt.SNAPSHOT_CRC_FROM :])
    return {producer_id: first for producer_id, *_, first in producers if first >= 0}
