"""Batch headers of a whole `.log`, table by table. No CRC is checked, and nothing is decompressed.

Input: an open file of a segment. Output: header tables (kernels.batch_headers) of whole batches, in file order, and
then where and why they end. Of a local file with large batches only the headers are read. Otherwise all bytes are
read, chunk by chunk, but of a batch that is larger than a chunk only the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.header_table import end_of
from kafka_segment_source.decoding.header_walk import FIRST_LOOK, SMALL_BATCH
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
    """Walks one `.log` of `size` bytes from `start` on, where a batch begins.

    After `tables` has ended, `position` and `stop` are where and why it ended.
    """

    def __init__(self, file: InputFile, size: int, advance: Advance, start: int = 0) -> None:
        self.position = start
        self.stop = Stop.END
        self._file = file
        self._size = size
        self._advance = advance

    def tables(self) -> Iterator[HeaderTable]:
        """Yields the headers of consecutive whole batches. The next table uses the same memory."""
        report = np.zeros(2, np.int64)
        probe = HeaderProbe(self._file, self._size, check_crcs=False)
        read = _Headers(self._file, self._size, report)
        while self.position < self._size and self.stop is Stop.END:
            before = self.position
            table = read.read_from(before)
            if table.shape[1]:
                self.position = end_of(table)
                yield table
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


class _Headers:
    """Reads the headers of one file, from a position on.

    report: int64[2], is told by each call why it ended (kernels.batch_headers).
    """

    def __init__(self, file: InputFile, size: int, report: npt.NDArray[np.int64]) -> None:
        self._file = file
        self._size = size
        self._report = report
        self._descriptor = file.descriptor()
        self._table = np.empty((batch_headers.FIELDS, FIRST_LOOK), np.int64)  # at first, to judge the batches by
        self._buffer = np.empty(kafka_format.BATCH_OVERHEAD, np.uint8)
        if self._descriptor is None:
            self._take_bytes()

    def read_from(self, position: int) -> HeaderTable:
        """Reads some consecutive whole batches. The table is used by the next call, too."""
        if self._descriptor is not None:
            count: int = batch_headers.read_headers(
                self._descriptor, self._buffer, position, self._size, self._table, self._report
            )
            table = self._table[:, :count]
            is_unreadable = not count and self._report[batch_headers.STOPPED_BY] == batch_headers.USED_UP
            if is_unreadable or (count == FIRST_LOOK and end_of(table) - position < SMALL_BATCH * count):
                self._take_bytes()  # which says what is wrong with the file
            elif count == self._table.shape[1]:
                self._table = np.empty((batch_headers.FIELDS, _HEADERS), np.int64)
            if not is_unreadable:
                return table
        length = min(len(self._buffer), self._size - position)
        self._file.read_into(position, self._buffer[:length])
        count = batch_headers.walk_headers(self._buffer, length, position, self._table, self._report)
        return self._table[:, :count]

    def _take_bytes(self) -> None:
        self._descriptor = None
        self._table = np.empty((batch_headers.FIELDS, _HEADERS), np.int64)
        self._buffer = np.empty(min(CHUNK_BYTES, self._size), np.uint8)


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
