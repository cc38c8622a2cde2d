"""Options as Python keywords: their names, their types, and their conversion into texts.

A test compares these classes with the table in `option_table.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

from kafka_segment_source import times
from kafka_segment_source.errors import OptionError
from kafka_segment_source.storage.settings import looks_like_setting, suggest

PathLike = str | os.PathLike[str]
PathsLike = PathLike | Sequence[PathLike]
Flag = bool | str | None
Number = int | str | None
Duration = timedelta | int | str | None
Moment = datetime | timedelta | int | str | None  # a negative timedelta is a time ago
Names = str | Sequence[str] | None  # several names, or one text with commas between them
Keys = str | bytes | Sequence[str | bytes | int] | int | None  # texts as those of the option `key`
ByPartition = dict[str, Any] | str | None  # {"topic": {"0": 23}}, or the same as JSON

STORAGE_OPTIONS = "storage_options"


class TopicOptions(TypedDict, total=False):
    """Options that select partitions, and those of object stores, which every function takes."""

    storage_options: Mapping[str, object] | None
    subscribe: Names
    subscribePattern: str | None
    assign: ByPartition
    topic: str | None
    partition: Number
    tieredKeys: Mapping[str, str | os.PathLike[str]] | str | None


class DecodeOptions(TopicOptions, total=False):
    """Options of the functions that decode whole partitions: `verify`, and those that make zone maps."""

    maxBatchBytes: Number


class OffsetOptions(TopicOptions, total=False):
    """Options of `offsets_for_time`."""

    timeZone: str | None
    checkCrcs: Flag
    trustIndexes: Flag
    mode: str | None
    endAt: str | None
    isolationLevel: str | None


class ReadingOptions(DecodeOptions, OffsetOptions, total=False):
    """Options of batch reads and of streams."""

    key: Keys
    includeHeaders: Flag
    includeMetadata: Flag
    includeControl: Flag
    valueFormat: str | None
    keyFormat: str | None
    schemas: str | None
    valueSchema: str | None
    keySchema: str | None
    schemaContext: str | None
    valueMode: str | None
    columnNameOfCorruptRecord: str | None
    since: Moment
    until: Moment
    timestampDisorder: Duration
    zoneMaps: str | os.PathLike[str] | None
    startingOffsets: ByPartition
    startingTimestamp: Moment
    startingOffsetsByTimestamp: ByPartition
    startingOffsetsByTimestampStrategy: str | None
    failOnDataLoss: Flag
    minPartitions: Number
    maxRecordsPerPartition: Number
    packBytes: Number


class ScanOptions(ReadingOptions, total=False):
    """Options of `plan`, `scan` and `read`."""

    view: str | None
    history: Flag
    includeTombstones: Flag
    offsetMapBytes: Number
    endingOffsets: ByPartition
    endingTimestamp: Moment
    endingOffsetsByTimestamp: ByPartition


class StreamOptions(ReadingOptions, total=False):
    """Options of `read_stream`."""

    maxOffsetsPerTrigger: Number
    maxBytesPerTrigger: Number
    minOffsetsPerTrigger: Number
    maxTriggerDelay: Duration


class RebuildOptions(DecodeOptions, total=False):
    """Options of `rebuild`: those of a read that select batches, and those that decide what damage and loss mean."""

    timeZone: str | None
    trustIndexes: Flag
    mode: str | None
    endAt: str | None
    since: Moment
    until: Moment
    timestampDisorder: Duration
    startingOffsets: ByPartition
    startingTimestamp: Moment
    startingOffsetsByTimestamp: ByPartition
    startingOffsetsByTimestampStrategy: str | None
    endingOffsets: ByPartition
    endingTimestamp: Moment
    endingOffsetsByTimestamp: ByPartition
    failOnDataLoss: Flag


def option_names(keywords: type) -> tuple[str, ...]:
    """The names of the options in one of the classes above, in its order; `storage_options` last."""
    names = dict.fromkeys(keywords.__annotations__)
    return (*(name for name in names if name != STORAGE_OPTIONS), STORAGE_OPTIONS)


def check_names(given: Collection[str], keywords: type, who_takes: str) -> None:
    """Raises OptionError for a name that is not among the keywords.

    who_takes: words for the message, such as "zone maps, which take".
    """
    names = option_names(keywords)
    known = {name.lower() for name in names}
    for name in given:
        if name.lower() not in known:
            raise OptionError(f"option {name!r} is not for {who_takes} {', '.join(names)}", options=(name,))


def option_texts(path: PathsLike, keywords: Mapping[str, object]) -> dict[str, str]:
    """Converts Python keywords into option texts, as Spark would send them.

    Values may be booleans, numbers, datetimes with a zone, timedeltas, dicts and lists. None leaves the option out.
    Raises OptionError for a value of another type.
    """
    texts = {"path": _path_text(path)}
    for name, value in keywords.items():
        if value is None:
            continue
        if name == STORAGE_OPTIONS:
            texts |= _make_storage_texts(value)
        else:
            texts[name] = value_text(name, value)
    return texts


def _make_storage_texts(options: object) -> dict[str, str]:
    """Converts the options of object stores into texts. No error has a value, as it may be a secret."""
    if not isinstance(options, Mapping):
        raise OptionError(f"{STORAGE_OPTIONS} is a {type(options).__name__}, expected a dict of names and texts")
    texts = {}
    for name, value in options.items():
        if not looks_like_setting(str(name).lower()):
            raise OptionError(f"storage option {name!r} is unknown{suggest(str(name).lower())}")
        if value is not None:
            texts[str(name)] = value_text(str(name), value)
    return texts


def _path_text(path: object) -> str:
    """Converts one path, or several, into text. Raises OptionError for anything else."""
    if isinstance(path, str):
        return path
    several = isinstance(path, Iterable) and not isinstance(path, (os.PathLike, bytes, bytearray, memoryview, Mapping))
    texts = []
    for entry in path if several else [path]:  # type: ignore[attr-defined]
        text = os.fspath(entry) if isinstance(entry, (str, os.PathLike)) else None
        if not isinstance(text, str):
            raise OptionError(
                f"option 'path' is {path!r}: expected a path (str or os.PathLike), or a list of paths",
                options=("path",),
            )
        texts.append(text)
    return json.dumps(texts) if several else texts[0]


def value_text(name: str, value: object) -> str:
    """Converts one value into text. Raises OptionError with the option's name for a value that has no text.

    Those are a datetime without a zone, and topic names that are not text.
    """
    if name.lower() == "subscribe" and isinstance(value, (list, tuple)):
        if not all(isinstance(item, str) for item in value):
            raise OptionError(f"option {name!r} is {value!r}: expected topic names (str)", options=(name,))
        return ",".join(value)
    if name.lower() == "key":
        return _key_text(value)
    if isinstance(value, (str, bool)):
        return value if isinstance(value, str) else str(value).lower()
    if isinstance(value, (datetime, timedelta)):
        return _time_text(name, value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    return str(value)


def _key_text(value: object) -> str:
    """Converts one key, or several. Bytes become 0x and digits. Raises OptionError for anything but keys."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return json.dumps([_key_text(key) if isinstance(key, (str, bytes, bytearray)) else key for key in value])
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"0x{value.hex()}"
    return value if isinstance(value, str) else json.dumps(value)


def _time_text(name: str, value: datetime | timedelta) -> str:
    """Converts a moment, or a duration. A negative duration is the text of a time ago."""
    if isinstance(value, timedelta):
        return f"{-(-value // timedelta(milliseconds=1))} ms"  # rounded up, as times are
    try:
        return times.millis_text(times.datetime_to_millis(value))
    except ValueError as error:
        raise OptionError(f"option {name!r} is {value!r}: {error}", options=(name,)) from error


def count_threads(threads: object) -> int:
    """Returns the number of threads that a caller asks for. None is one.

    Raises OptionError for anything but a whole number of at least 1.
    """
    return check_threads(threads) or 1


def check_threads(threads: object) -> int | None:
    """Returns the number of threads that a caller asks for, or None if the read chooses it.

    Raises OptionError for anything but a whole number of at least 1.
    """
    if threads is None:
        return None
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError(f"threads is {threads!r}: expected a number of at least 1")
    return threads
