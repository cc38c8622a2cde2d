"""Every error this package raises on purpose. Whose fault it is decides the branch:

    KafkaSegmentError
    ├── UsageError (also ValueError)     what the caller gave
    │   ├── OptionError                    an unknown, malformed or contradictory option
    │   ├── UnsupportedError               meaningful, but not built
    │   ├── SchemaError                    a column or type that is not served
    │   └── PathError                      nothing there, or nothing that is Kafka's
    ├── StorageError (also OSError)      a disk, a permission or a network that fails: worth a retry
    ├── DataLossError                    offsets asked for that the files do not hold (failOnDataLoss)
    │   └── FileChangedError               a file that vanished or shrank after it was listed
    └── DataError                        what the files hold
        ├── CorruptRecordError             a batch or record that cannot be right
        ├── CorruptIndexError              an index entry that cannot be right
        └── UnsupportedFormatError         a magic or codec that is not read

A `DataError` carries where it happened, so that a program can act on it: `path`, `position` (absolute byte
position in the file), `offset` (Kafka offset of the batch, None where unknown), `found`, `expected`.
"""

from __future__ import annotations

from typing import Any


class KafkaSegmentError(Exception):
    """Base of all errors of this package."""


class UsageError(KafkaSegmentError, ValueError):
    """The caller asked for something that cannot be answered."""


class OptionError(UsageError):
    """An option is unknown, malformed, or contradicts another."""


class UnsupportedError(UsageError):
    """An option or a shape of input that has a meaning, but is not built yet."""


class SchemaError(UsageError):
    """A column or a type that this source does not serve."""


class PathError(UsageError):
    """A path leads to nothing, or to something that is not Kafka's."""


class StorageError(KafkaSegmentError, OSError):
    """A file or directory cannot be read, listed or written: a disk fails or is full, a permission is missing, a network
    breaks. The same request may be answered later, so it is worth a retry.

    errno, strerror, filename: as of any OSError.
    """

    def __init__(
        self, what: str, *, errno: int | None = None, strerror: str | None = None, filename: str | None = None
    ) -> None:
        super().__init__(errno, strerror, filename)
        self.what = what

    def __str__(self) -> str:
        return self.what

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (
            type(self),
            self.what,
            {name: getattr(self, name) for name in ("errno", "strerror", "filename")},
        )


class DataLossError(KafkaSegmentError):
    """Offsets were asked for that the files no longer hold, do not hold yet, or never did: a segment is missing."""


class FileChangedError(DataLossError):
    """A file vanished or shrank after it was listed: a broker at work deletes, compacts and truncates."""


class DataError(KafkaSegmentError):
    """The files hold something that cannot be returned as rows.

    path: the file; position: bytes from its start; offset: Kafka offset, or None where unknown;
    found, expected: what the message says of both.
    """

    def __init__(
        self, what: str, *, path: str, position: int, offset: int | None = None, found: object, expected: object
    ) -> None:
        self.what = what
        self.path = path
        self.position = position
        self.offset = offset
        self.found = found
        self.expected = expected
        at_offset = "" if offset is None else f", offset {offset}"
        super().__init__(f"{what} in {path} at byte {position}{at_offset}: found {found}, expected {expected}")

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in ("path", "position", "offset", "found", "expected")}
        return _rebuild, (type(self), self.what, fields)


class CorruptRecordError(DataError):
    """A batch or record that cannot be right (Kafka: CorruptRecordException)."""


class CorruptIndexError(DataError):
    """An index entry that cannot be right (Kafka: CorruptIndexException)."""


class UnsupportedFormatError(DataError):
    """A magic or a codec that this version does not read."""


def _rebuild(kind: type[DataError] | type[StorageError], what: str, fields: dict[str, Any]) -> KafkaSegmentError:
    return kind(what, **fields)
