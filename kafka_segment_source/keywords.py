"""Options as Python keywords: their names, their types, and their conversion into texts.

A test compares these classes with the table in `options.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from kafka_segment_source import times
from kafka_segment_source.errors import OptionError

PathsLike = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Flag = bool | str | None
Number = int | str | None
Moment = datetime | int | str | None
ByPartition = dict[str, Any] | str | None  # {"topic": {"0": 23}}, or the same as JSON


class TopicOptions(TypedDict, total=False):
    """Options that select partitions."""

    subscribe: str | None
    subscribePattern: str | None
    assign: ByPartition
    topic: str | None
    partition: Number


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


class ScanOptions(DecodeOptions, OffsetOptions, total=False):
    """Options of `plan`, `scan` and `read`."""

    includeHeaders: Flag
    includeMetadata: Flag
    includeControl: Flag
    since: Moment
    until: Moment
    timestampDisorder: Number
    zoneMaps: str | os.PathLike[str] | None
    startingOffsets: ByPartition
    endingOffsets: ByPartition
    startingTimestamp: Moment
    endingTimestamp: Moment
    startingOffsetsByTimestamp: ByPartition
    endingOffsetsByTimestamp: ByPartition
    startingOffsetsByTimestampStrategy: str | None
    failOnDataLoss: Flag
    minPartitions: Number
    maxRecordsPerPartition: Number
    packBytes: Number


def option_names(keywords: type) -> tuple[str, ...]:
    """The names of the options in one of the classes above, in its order."""
    return tuple(keywords.__annotations__)


def check_names(given: Collection[str], keywords: type, who_takes: str) -> None:
    """Raises OptionError for a name that is not among the keywords.

    who_takes: words for the message, such as "zone maps, which take".
    """
    names = option_names(keywords)
    known = {name.lower() for name in names}
    for name in given:
        if name.lower() not in known:
            raise OptionError(f"option {name!r} is not for {who_takes} {', '.join(names)}")


def option_texts(path: PathsLike, keywords: Mapping[str, object]) -> dict[str, str]:
    """Converts Python keywords into option texts, as Spark would send them.

    Values may be booleans, numbers, datetimes with a zone, dicts and lists. None leaves the option out.
    """
    if isinstance(path, (str, os.PathLike)):
        texts = {"path": os.fspath(path)}
    else:
        texts = {"path": json.dumps([os.fspath(each) for each in path])}
    for name, value in keywords.items():
        if value is None:
            continue
        texts[name] = value_text(name, value)
    return texts


def value_text(name: str, value: object) -> str:
    """Converts one value into text. Raises OptionError with the option's name for a datetime without a zone."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        try:
            return times.millis_text(times.datetime_to_millis(value))
        except ValueError as error:
            raise OptionError(f"option {name!r} is {value!r}: {error}") from error
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    return str(value)
