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
        └── UnsupportedFormatError         a magic or codec newer than this package

A `DataError` carries where it happened, so that a program can act on it: `path`, `position` (absolute byte
position in the file), `offset` (Kafka offset of the batch, None where unknown), `inside` (the place of a record's fault
in its batch, in words, None where there is none), `found`, `expected`.
"""

from __future__ import annotations

import ast
import errno
import os
import re
from typing import Any

# The last line of a Python traceback, as Spark copies it into its own errors
_RAISED = re.compile(r"^kafka_segment_source\.errors\.(\w+): (.*)$", re.MULTILINE)
# The texts of DataError and of StorageError
_DATA = re.compile(
    r"(?P<what>.+?) in (?P<path>/.*?) at byte (?P<position>\d+)(?:, offset (?P<offset>-?\d+))?"
    r"(?:, (?P<inside>byte \d+ (?:of the batch|after decompression)))?: found (?P<found>.*?), expected (?P<expected>.*)"
)
_STORAGE = re.compile(r"(?:file|path) (?P<filename>'.*'|\".*\") cannot be \w+: (?P<strerror>.*)")


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
    """A file or directory cannot be read, listed or written: a disk fails or is full, a permission is missing, a
    network breaks. The same request may be answered later, so it is worth a retry.

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

    path: the file; position: bytes from its start; offset: Kafka offset, or None where unknown; inside: where in the
    batch the fault is, as the message says it, or None; found, expected: what the message says of both. is_skippable:
    whether mode=DROPMALFORMED may leave the batch out.
    """

    is_skippable = True

    def __init__(
        self,
        what: str,
        *,
        path: str,
        position: int,
        offset: int | None = None,
        inside: str | None = None,
        found: object,
        expected: object,
    ) -> None:
        self.what = what
        self.path = path
        self.position = position
        self.offset = offset
        self.inside = inside
        self.found = found
        self.expected = expected
        at_offset = "" if offset is None else f", offset {offset}"
        at_byte = "" if inside is None else f", {inside}"
        super().__init__(f"{what} in {path} at byte {position}{at_offset}{at_byte}: found {found}, expected {expected}")

    def with_what(self, what: str) -> DataError:
        """The same error, with other words for what it is."""
        return type(self)(what, **self._fields())

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "position", "offset", "inside", "found", "expected")}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self._fields())


class CorruptRecordError(DataError):
    """A batch or record that cannot be right (Kafka: CorruptRecordException)."""


class UnsupportedFormatError(DataError):
    """A magic or a codec that this version does not read, in a batch whose CRC is right: it is not damaged but newer.
    No mode skips it."""

    is_skippable = False


def _rebuild(kind: type[DataError] | type[StorageError], what: str, fields: dict[str, Any]) -> KafkaSegmentError:
    return kind(what, **fields)


def cause_of(exception: BaseException) -> KafkaSegmentError | None:
    """The error of this package that made Spark raise `exception`, or None if it was none.

    Spark hands over the text of a Python traceback, not the exception. So the error is made again from its class and
    its message, and its fields are read from the message: `found` and `expected` are text then. Where the text was
    cut, the class is KafkaSegmentError.

    Args:
        exception: anything; an error of this package, or one that was raised from one, gives that error itself.

    Example:
        try:
            df.write.parquet(target)
        except PySparkException as error:
            retry = not isinstance(cause_of(error), UsageError)
    """
    seen: BaseException | None = exception
    while seen is not None:
        if isinstance(seen, KafkaSegmentError):
            return seen
        seen = seen.__cause__
    raised = _RAISED.findall(str(exception))
    return _rebuild_from_text(*raised[-1]) if raised else None


def _rebuild_from_text(name: str, message: str) -> KafkaSegmentError:
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, KafkaSegmentError)):
        return KafkaSegmentError(message)
    if issubclass(kind, DataError):
        found = _DATA.fullmatch(message)
        if found is None:
            return KafkaSegmentError(message)
        fields: dict[str, Any] = found.groupdict()
        offset = fields["offset"]
        fields |= {"position": int(fields["position"]), "offset": None if offset is None else int(offset)}
        return kind(**fields)
    if issubclass(kind, StorageError):
        found = _STORAGE.fullmatch(message)
        return kind(message, **_find_storage_fields(**found.groupdict())) if found is not None else kind(message)
    return kind(message)


def _find_storage_fields(filename: str, strerror: str) -> dict[str, Any]:
    numbers = {os.strerror(number): number for number in errno.errorcode}
    try:
        name = ast.literal_eval(filename)
    except (SyntaxError, ValueError):
        name = None
    return {"errno": numbers.get(strerror), "strerror": strerror, "filename": name}
