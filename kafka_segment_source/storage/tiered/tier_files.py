"""Open files of a tier, as files of Kafka's own layout. `chunks.py` has those whose objects have chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_segment_source.errors import CorruptRecordError, DataError, UnsupportedFormatError
from kafka_segment_source.storage.store import FileInMemory, FileVersion, OpenFile, ServiceError
from kafka_segment_source.storage.tiered.chunks import FILLER
from kafka_segment_source.storage.tiered.encryption import WrongTextError, decrypt
from kafka_segment_source.storage.tiered.manifest import ManifestError


class DamagedPartError(ServiceError):
    """A part of an `.indexes` object is damaged: the storage gave what it has."""


class RenamedFile:
    """A file with the bytes of its object, and a version of its own."""

    def __init__(self, file: OpenFile, version: FileVersion) -> None:
        self._file = file
        self._version = version
        self.read_at = file.read_at
        self.read_into = file.read_into
        self.read_ahead = file.read_ahead
        self.is_all_under_way = file.is_all_under_way
        self.descriptor = file.descriptor
        self.close = file.close

    def version(self) -> FileVersion:
        return self._version


class BrokenFile(FileInMemory):
    """The `.log` of a segment whose manifest cannot be used, or that has no bytes: FILLER alone."""

    def __init__(self, path: str, version: FileVersion, fault: ManifestError) -> None:
        """path: of the damaged object."""
        self._path = path
        self._version = version
        self._fault = fault

    def version(self) -> FileVersion:
        return self._version

    def read_at(self, position: int, count: int) -> bytes:
        return FILLER * max(min(count, self._version.size - position), 0)

    def find_fault(self, position: int) -> DataError | None:
        return make_manifest_error(self._path, self._fault)


def make_manifest_error(path: str, fault: ManifestError) -> DataError:
    """Returns the error of a manifest that cannot be used."""
    kind = UnsupportedFormatError if fault.is_newer else CorruptRecordError
    return kind(fault.what, path=path, position=0, found=fault.found, expected=fault.expected)


class DataFile(FileInMemory):
    """A small file whose bytes are made when they are first needed."""

    def __init__(self, make: Callable[[], bytes], version: FileVersion) -> None:
        self._make = make
        self._version = version
        self._data: bytes | None = None

    def version(self) -> FileVersion:
        return self._version

    def read_at(self, position: int, count: int) -> bytes:
        if self._data is None:
            self._data = self._make()
        return self._data[position : position + count]


class PartFile:
    """A part of an object, whose bytes are those of the file."""

    def __init__(self, file: OpenFile, start: int, version: FileVersion) -> None:
        self._file = file
        self._start = start
        self._version = version

    def version(self) -> FileVersion:
        return self._version

    def read_at(self, position: int, count: int) -> bytes:
        return self._file.read_at(self._start + position, max(min(count, self._version.size - position), 0))

    def read_into(self, position: int, target: memoryview) -> int:
        count = max(min(len(target), self._version.size - position), 0)
        return self._file.read_into(self._start + position, target[:count]) if count else 0

    def read_ahead(self, start: int, end: int) -> None:
        self._file.read_ahead(self._start + start, self._start + min(end, self._version.size))

    def is_all_under_way(self) -> bool:
        return self._file.is_all_under_way()

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._file.close()


def decrypt_part(file: OpenFile, place: tuple[int, int], cipher: Any, aad: bytes, what: str) -> bytes:
    """Returns the text of an encrypted part of an `.indexes` object. place: its position and stored size.

    Raises DamagedPartError, with `what` it is.
    """
    position, size = place
    stored = bytearray(size)
    done = file.read_into(position, memoryview(stored))
    if done < size:
        raise DamagedPartError(f"{what} ends after {done} of {size} bytes")
    try:
        return decrypt(cipher, memoryview(stored), aad)
    except WrongTextError:
        raise DamagedPartError(f"{what} fails its authentication") from None
