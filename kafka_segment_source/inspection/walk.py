"""Batch headers of a whole `.log`, chunk by chunk, as fast as the disk. No CRC is checked, and nothing is decompressed.

Input: an open file of a segment. Output: header tables (kernels.batch_headers) of whole batches, in file order, and
then where and why they end. If a batch is larger than a chunk, only its header is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.probe import BatchHeader, HeaderProbe
from kafka_segment_source.reporting import Advance
from kafka_segment_source.storage.files import InputFile

CHUNK_BYTES = 1024 * 1024
_HEADERS = CHUNK_BYTES // kafka_format.BATCH_OVERHEAD + 1  # a chunk of batches without records


class Stop(Enum):
    """The kind of bytes after the last whole batch of a `.log`."""

    END = "the end of the file"
    TORN = "a batch that the file ends in the middle of"
    ZEROS = "zeros"
    DAMAGE = "bytes that cannot be a batch"


class HeaderWalk:
    """Walks one `.log` of `size` bytes. After `tables` has ended, `position` and `stop` are where and why it ended."""

    def __init__(self, file: InputFile, size: int, advance: Advance) -> None:
        self.position = 0
        self.stop = Stop.END
        self._file = file
        self._size = size
        self._advance = advance

    def tables(self) -> Iterator[HeaderTable]:
        """Yields the headers of consecutive whole batches. The next table uses the same memory."""
        buffer = np.empty(min(CHUNK_BYTES, self._size), np.uint8)
        table = np.empty((batch_headers.FIELDS, _HEADERS), np.int64)
        report = np.zeros(2, np.int64)
        probe = HeaderProbe(self._file, self._size, check_crcs=False)
        while self.position < self._size and self.stop is Stop.END:
            before = self.position
            count = min(len(buffer), self._size - before)
            self._file.read_into(before, buffer[:count])
            whole = batch_headers.walk_headers(buffer, count, before, table, report)
            if whole:
                self.position = int(table[batch_headers.POSITION, whole - 1] + table[batch_headers.SIZE, whole - 1])
                yield table[:, :whole]
            if report[batch_headers.STOPPED_BY] == batch_headers.INCOMPLETE:
                header = probe.at(self.position)
                if header is None:
                    torn = self.position + int(report[batch_headers.FOUND]) > self._size
                    self.stop = Stop.TORN if torn else Stop.DAMAGE
                else:
                    self.position = header.end
                    yield _table_of(header)
            elif report[batch_headers.STOPPED_BY] != batch_headers.USED_UP:
                self.stop = Stop.ZEROS if report[batch_headers.STOPPED_BY] == batch_headers.ZEROS else Stop.DAMAGE
            self._advance(self.position - before)
        self._advance(self._size - self.position)


def _table_of(header: BatchHeader) -> HeaderTable:
    """Makes a table of one batch. Fields that a BatchHeader does not have are -1."""
    column = np.full((batch_headers.FIELDS, 1), -1, np.int64)
    column[batch_headers.POSITION] = header.position
    column[batch_headers.SIZE] = header.size
    column[batch_headers.MAGIC] = header.magic
    column[batch_headers.CRC] = header.crc
    column[batch_headers.ATTRIBUTES] = header.attributes
    column[batch_headers.BASE_OFFSET] = header.base_offset
    column[batch_headers.LAST_OFFSET] = header.last_offset
    column[batch_headers.BASE_TIMESTAMP] = header.base_timestamp
    column[batch_headers.MAX_TIMESTAMP] = header.max_timestamp
    column[batch_headers.COUNT] = header.count
    column[batch_headers.LEADER_EPOCH] = header.leader_epoch
    return column
