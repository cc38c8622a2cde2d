"""Every error that this package raises on purpose. The cause of the error decides its branch::

    KafkaSegmentError
    ├── UsageError (also ValueError)     the request of the caller
    │   ├── OptionError                    an unknown, malformed or contradictory option
    │   ├── UnsupportedError               a request that has a meaning, but is not built
    │   ├── SchemaError                    a column or type that this source does not have
    │   └── PathError                      a path to nothing, or to a file that is not Kafka's
    ├── StorageError (also OSError)      a disk, a permission or a network that fails: worth a retry
    ├── DataLossError                    requested offsets that the files do not hold (failOnDataLoss)
    │   └── FileChangedError               a file that vanished, shrank or was replaced after it was listed
    │       └── RetentionError               offsets that a broker has removed since they were planned
    └── DataError                        the bytes in the files
        ├── CorruptRecordError             a batch or record that cannot be right
        ├── MisfitError                    a key or a value that its schema does not describe
        └── UnsupportedFormatError         a magic or codec newer than this package

A `DataError` has fields for programs:

- `path`: the file;
- `position`: the absolute byte position in the file;
- `offset`: the Kafka offset of the batch, None where it is not known;
- `inside`: the place of a record's fault in its batch, in words, None where there is none;
- `found` and `expected`.
"""

from __future__ import annotations

import ast
import errno
import os
import re
from typing import Any

# The last line of a Python traceback; Spark copies it into its own errors
_RAISED = re.compile(r"^kafka_segment_source\.errors\.(\w+): (.*)$", re.MULTILINE)
# The message formats of DataError and StorageError
_DATA = re.compile(
    r"(?P<what>.+?) in (?P<path>(?:[a-z0-9]+:/)?/.*?) at byte (?P<position>\d+)(?:, offset (?P<offset>-?\d+))?"
    r"(?:, (?P<inside>byte \d+ (?:of the batch|after decompression)))?: found (?P<found>.*?), expected (?P<expected>.*)"
)
_OPTIONS = re.compile(r"(?<!storage )\boptions? '(\w+)'(?: and '(\w+)')?")
_STORAGE = re.compile(r"(?:file|path) (?P<filename>'.*'|\".*\") cannot be \w+: (?P<strerror>.*)")


class KafkaSegmentError(Exception):
    """Base of all errors of this package."""


class UsageError(KafkaSegmentError, ValueError):
    """The request of the caller is invalid."""


class OptionError(UsageError):
    """An option is unknown, malformed, or contradicts another.

    options: the names of the options that it is about, as docs/options.md has them. Empty where it is about a parameter
    of one function, or about an option of an object store.
    """

    def __init__(self, what: str, *, options: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.options = options


class UnsupportedError(UsageError):
    """An option or a shape of input that has a meaning, but is not built yet."""


class SchemaError(UsageError):
    """A column or a type that this source does not have."""


class PathError(UsageError):
    """A path leads to nothing, or to something that is not Kafka's."""


class StorageError(KafkaSegmentError, OSError):
    """A file or directory cannot be read, listed or written.

    A disk fails or is full, a permission is missing, or a network breaks. The same request may succeed later, so it is
    worth a retry.

    errno, strerror, filename: the fields of any OSError.
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
    """The files do not hold requested offsets: no longer, not yet, or because a segment is missing.

    what: the message without its end.
    remedy: the end of the message, on what a user can do. Empty if there is none.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}; {remedy}" if remedy else what)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.remedy)


class FileChangedError(DataLossError):
    """A file vanished, shrank or was replaced after it was listed. A running broker deletes, compacts and truncates."""


class RetentionError(FileChangedError):
    """Offsets that were planned are gone: the broker has removed them since, by retention or DeleteRecords.

    The same read with failOnDataLoss=false reads what is left. A new plan begins after them.
    """


class DataError(KafkaSegmentError):
    """The files hold something that cannot be returned as rows.

    path: the file.
    position: bytes from its start.
    offset: Kafka offset, or None where it is not known.
    inside: the place of the fault in the batch, in the words of the message, or None.
    found, expected: the same two values as in the message.
    is_skippable: whether mode=DROPMALFORMED may skip the batch.
    advice: the end of the message.
    """

    is_skippable = True
    advice = ""

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
        where = f"{path} at byte {position}{at_offset}{at_byte}"
        super().__init__(f"{what} in {where}: found {found}, expected {expected}{self.advice}")

    def with_what(self, what: str) -> DataError:
        """Returns the same error with another description."""
        return type(self)(what, **self._fields())

    def _fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "position", "offset", "inside", "found", "expected")}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self._fields())


class CorruptRecordError(DataError):
    """A batch or record that cannot be right (Kafka: CorruptRecordException)."""


class UnsupportedFormatError(DataError):
    """A magic or a codec that this version does not read, in a batch with a right CRC.

    The batch is not damaged: a newer Kafka wrote it. No mode skips it.
    """

    is_skippable = False


class MisfitError(DataError):
    """A key or a value that its schema does not describe, or whose schema is not known.

    Its batch is whole, so mode=DROPMALFORMED does not skip it: valueMode=PERMISSIVE makes it a null.
    """

    is_skippable = False
    advice = " (valueMode=PERMISSIVE makes it null)"


def _rebuild(kind: type[DataError] | type[StorageError], what: str, fields: dict[str, Any]) -> KafkaSegmentError:
    return kind(what, **fields)


def cause_of(exception: BaseException) -> KafkaSegmentError | None:
    """Finds the error of this package that made Spark raise `exception`; None if there is no such error.

    Spark passes on the text of a Python traceback, not the exception. So the error is made again from its class and its
    message. Its fields are read from the message, so `found` and `expected` are text. If the text was cut, the class is
    KafkaSegmentError.

    Args:
        exception: Any exception. For an error of this package, or one raised from it, the result is that error itself.

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
        match = _DATA.fullmatch(message.removesuffix(kind.advice))
        if match is None:
            return KafkaSegmentError(message)
        fields: dict[str, Any] = match.groupdict()
        offset = fields["offset"]
        fields |= {"position": int(fields["position"]), "offset": None if offset is None else int(offset)}
        return kind(**fields)
    if issubclass(kind, OptionError):
        names = [name for pair in _OPTIONS.findall(message) for name in pair if name]
        return kind(message, options=tuple(dict.fromkeys(names)))
    if issubclass(kind, StorageError):
        match = _STORAGE.fullmatch(message)
        return kind(message, **_find_storage_fields(**match.groupdict())) if match is not None else kind(message)
    return kind(message)


def _find_storage_fields(filename: str, strerror: str) -> dict[str, Any]:
    numbers = {os.strerror(number): number for number in errno.errorcode}
    try:
        name = ast.literal_eval(filename)
    except (SyntaxError, ValueError):
        name = None
    return {"errno": numbers.get(strerror), "strerror": strerror, "filename": name}
