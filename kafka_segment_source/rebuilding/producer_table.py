"""What a broker knows of the producers of a log: `.snapshot` files and the entries of `.txnindex` files.

Comes in: headers of batches and transaction markers, in the order of offsets. Goes out: the bytes of a `.snapshot`, and
an entry for each aborted transaction. Kafka: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry, AbortedTxn.
A broker leaves out producers that were idle for `producer.id.expiration.ms`; here all stay, and a broker that loads the
file leaves out what is too old for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.header_table import has_producer, is_control, is_transactional_data
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc32c
from kafka_segment_source.logdir.index_entries import ABORTED_TXN
from kafka_segment_source.transactions.markers import Marker

_MOST_SEQUENCE = 2**31 - 1
_NONE = -1  # no sequence, no offset, no coordinator epoch, no open transaction

_FIELDS = [
    batch_headers.PRODUCER_ID,
    batch_headers.PRODUCER_EPOCH,
    batch_headers.BASE_SEQUENCE,
    batch_headers.BASE_OFFSET,
    batch_headers.LAST_OFFSET,
    batch_headers.MAX_TIMESTAMP,
]


@dataclass(slots=True)
class _Producer:
    """One entry of a snapshot, in the order of its fields."""

    epoch: int
    last_sequence: int = kafka_format.NO_SEQUENCE
    last_offset: int = _NONE
    offset_delta: int = 0
    timestamp: int = kafka_format.NO_TIMESTAMP
    coordinator_epoch: int = _NONE
    first_open: int = _NONE

    def set_epoch(self, epoch: int) -> None:
        """Another epoch forgets the batches of the one before (ProducerStateEntry.maybeUpdateProducerEpoch)."""
        if epoch != self.epoch:
            self.epoch, self.last_sequence, self.last_offset, self.offset_delta = epoch, _NONE, _NONE, 0


class ProducerTable:
    """The producers of a log up to an offset."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    @property
    def open(self) -> dict[int, int]:
        """The open transactions: producer id → first offset."""
        return {
            number: producer.first_open for number, producer in self._producers.items() if producer.first_open != _NONE
        }

    def take(self, headers: HeaderTable, markers: Iterable[Marker]) -> list[bytes]:
        """Takes batches, and the markers among them. Returns the `.txnindex` entries of transactions that they abort.

        headers: int64[FIELDS, n], in the order of offsets.
        """
        data = headers[:, has_producer(headers) & ~is_control(headers)]
        transactional = is_transactional_data(data)
        aborted = []
        at = 0
        for marker in markers:
            end = int(np.searchsorted(data[batch_headers.BASE_OFFSET], marker.offset))
            self._take_data(data[:, at:end], transactional[at:end])
            at = end
            aborted += self._take_marker(marker, headers)
        self._take_data(data[:, at:], transactional[at:])
        return aborted

    def _take_data(self, data: HeaderTable, transactional: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        """Takes batches of data with no marker between them. Only the first and the last of a producer count."""
        if not data.shape[1]:
            return
        ids = data[batch_headers.PRODUCER_ID]
        _, last = np.unique(ids[::-1], return_index=True)
        firsts: dict[int, int] = {}
        if transactional.any():
            begun = data[:, transactional]
            _, first = np.unique(begun[batch_headers.PRODUCER_ID], return_index=True)
            columns = begun[[batch_headers.PRODUCER_ID, batch_headers.BASE_OFFSET]][:, first]
            firsts = dict(zip(*columns.tolist(), strict=True))
        columns = data[_FIELDS][:, np.sort(len(ids) - 1 - last)]
        for number, epoch, sequence, base, end, timestamp in columns.T.tolist():
            producer = self._producers.setdefault(number, _Producer(epoch))
            producer.set_epoch(epoch)
            producer.last_sequence = _add_to_sequence(sequence, end - base)
            producer.last_offset, producer.offset_delta, producer.timestamp = end, end - base, timestamp
            if producer.first_open == _NONE:
                producer.first_open = firsts.get(number, _NONE)

    def _take_marker(self, marker: Marker, headers: HeaderTable) -> list[bytes]:
        """Takes a marker. Returns the entry of the transaction that it aborts, if it aborts one."""
        column = int(np.searchsorted(headers[batch_headers.LAST_OFFSET], marker.offset))
        epoch = int(headers[batch_headers.PRODUCER_EPOCH, column])
        producer = self._producers.setdefault(marker.producer_id, _Producer(epoch))
        producer.set_epoch(epoch)
        producer.timestamp = marker.timestamp
        producer.coordinator_epoch = _NONE if marker.coordinator_epoch is None else marker.coordinator_epoch
        first, producer.first_open = producer.first_open, _NONE
        if first == _NONE or not marker.aborts:
            return []
        stable = min(self.open.values(), default=marker.offset + 1)
        return [np.array((0, marker.producer_id, first, marker.offset, stable), ABORTED_TXN).tobytes()]

    def to_bytes(self) -> bytes:
        """Returns the bytes of a `.snapshot`."""
        entries = b"".join(
            kafka_format.SNAPSHOT_ENTRY.pack(
                number,
                producer.epoch,
                producer.last_sequence,
                producer.last_offset,
                producer.offset_delta,
                producer.timestamp,
                producer.coordinator_epoch,
                producer.first_open,
            )
            for number, producer in self._producers.items()
        )
        count = len(self._producers)
        body = kafka_format.SNAPSHOT_HEADER.pack(0, 0, count)[kafka_format.SNAPSHOT_CRC_FROM :] + entries
        return kafka_format.SNAPSHOT_HEADER.pack(kafka_format.SNAPSHOT_VERSION, crc32c(body), count) + entries

    @classmethod
    def from_bytes(cls, data: bytes) -> ProducerTable | None:
        """Reads a `.snapshot`. None if it is not valid."""
        table = cls()
        header = kafka_format.SNAPSHOT_HEADER
        if len(data) < header.size:
            return None
        version, crc, count = header.unpack_from(data)
        if version != kafka_format.SNAPSHOT_VERSION or crc32c(data[kafka_format.SNAPSHOT_CRC_FROM :]) != crc:
            return None
        if len(data) != header.size + count * kafka_format.SNAPSHOT_ENTRY.size:
            return None
        for number, *fields in kafka_format.SNAPSHOT_ENTRY.iter_unpack(data[header.size :]):
            table._producers[number] = _Producer(*fields)
        return table


def _add_to_sequence(sequence: int, count: int) -> int:
    """Returns the sequence `count` records later. After the largest one comes 0 (DefaultRecordBatch)."""
    if sequence == kafka_format.NO_SEQUENCE:
        return kafka_format.NO_SEQUENCE
    return sequence + count if sequence <= _MOST_SEQUENCE - count else count - (_MOST_SEQUENCE - sequence) - 1
