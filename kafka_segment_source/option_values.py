"""Values of options: their types, and one parser for each kind of text.

A parser takes the text of one option. It returns a value, or raises ValueError with the text that it expected.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any, NamedTuple

from kafka_segment_source import times
from kafka_segment_source.errors import OptionError
from kafka_segment_source.storage.paths import resolve_path
from kafka_segment_source.storage.tiered.encryption import TierKeys, parse_keys

EARLIEST = -2  # in offset maps, as in Kafka's ListOffsets
LATEST = -1
FAILFAST = "FAILFAST"
DROPMALFORMED = "DROPMALFORMED"
# Views: the kinds of tables that a log can be read as
RECORDS = "records"
BATCHES = "batches"
NEWEST = "latest"
SEGMENTS = "segments"
OFFSET_INDEX = "offsetIndex"
TIME_INDEX = "timeIndex"
ABORTED_TRANSACTIONS = "abortedTransactions"
TRANSACTIONS = "transactions"
CONSUMER_OFFSETS = "consumerOffsets"
SHARE_OFFSETS = "shareOffsets"
TRANSACTIONAL_IDS = "transactionalIds"
TOPICS = "topics"
SCHEMAS = "schemas"
OF_SPLITS = (RECORDS, BATCHES, NEWEST)  # their rows lie in byte ranges of `.log` files, which bounds and filters narrow
OF_INDEXES = (OFFSET_INDEX, TIME_INDEX, ABORTED_TRANSACTIONS)
OF_INTERNAL_TOPICS = (CONSUMER_OFFSETS, SHARE_OFFSETS, TRANSACTIONAL_IDS, TOPICS, SCHEMAS)
VIEWS = (*OF_SPLITS, SEGMENTS, *OF_INDEXES, TRANSACTIONS, *OF_INTERNAL_TOPICS)

# Formats: what the bytes of keys and values are
BINARY = "binary"
STRING = "string"
AVRO = "avro"
JSON = "json"
PROTOBUF = "protobuf"
AUTO = "auto"
FORMATS = (BINARY, STRING, AVRO, JSON, PROTOBUF, AUTO)
FORMATS_OF_TEXT = (BINARY, STRING)  # the same key is always the same bytes
PERMISSIVE = "PERMISSIVE"

_LARGEST_BATCH = 2**30  # Arrow offsets are 32-bit: a batch's bytes must leave room beside others

TopicPartition = tuple[str, int]


class TopicSelection(NamedTuple):
    """The topics of a scan: by name, by pattern or by partition. If all are None, every topic that is not internal."""

    subscribe: tuple[str, ...] | None = None
    pattern: str | None = None  # matches the whole name
    assign: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where a scan begins or ends: EARLIEST, LATEST or an offset, for all partitions or for each named one.

    option: the name of the option that gave it.
    everywhere: the number for all partitions; None if there is a map.
    by_time: the numbers are epoch milliseconds. Each stands for the first offset with a timestamp ≥ the number.
    """

    option: str
    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_time: bool = False

    def at(self, topic_partition: TopicPartition) -> int:
        """The number for one partition. Raises KeyError if a map does not name it."""
        return self.by_partition[topic_partition] if self.everywhere is None else self.everywhere


class Context(NamedTuple):
    """The values that a parser may need besides the text. They are the same for all options of one read."""

    zone: tzinfo
    now_ms: int


def parse_boolean(text: str, _: Context) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def parse_moment(text: str, context: Context) -> int:
    return times.parse_moment(text, context.zone, context.now_ms)


def parse_name(text: str, _: Context) -> str:
    if not text.strip():
        raise ValueError("expected a name")
    return text.strip()


def parse_record_keys(text: str, _: Context) -> frozenset[str | bytes]:
    """Parses one key, or several as a JSON list: text, or bytes where it is written as 0x… or base64:….

    text:… is text, whatever it looks like. A blank counts.
    """
    if not text.startswith("["):
        return frozenset([_parse_key(text)])
    example = '["one key","another"]; a key that begins with [ is written as text:['
    try:
        several = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a JSON list of keys, as {example} ({error})") from error
    if not several:
        raise ValueError("expected at least one key")
    if None in several:
        raise ValueError("a null key is no key; the condition `key IS NULL` finds records without one")
    return frozenset(_parse_key(key) if isinstance(key, str) else json.dumps(key) for key in several)


def _parse_key(text: str) -> str | bytes:
    form, colon, rest = text.partition(":")
    if colon and form == "text":
        return rest
    try:
        if text[:2] == "0x":
            return bytes.fromhex(_without_blanks(text[2:]))
        if colon and form == "base64":
            return base64.b64decode(rest, validate=True)
    except ValueError as error:
        raise ValueError(
            f"expected bytes as 0x00ff or base64:AP8=; text that begins like this is written as text:{text} ({error})"
        ) from error
    return text


def _without_blanks(digits: str) -> str:
    if any(digit.isspace() for digit in digits):
        raise ValueError("found a blank")
    return digits


def parse_directory(text: str, context: Context) -> str:
    return resolve_path(parse_name(text, context))


def parse_tiered_keys(text: str, _: Context) -> TierKeys:
    return parse_keys(text)


def parse_partition(text: str, _: Context) -> int:
    if not re.fullmatch(r"\d{1,10}", text.strip(), re.ASCII) or int(text) >= 2**31:
        raise ValueError("expected a partition number, from 0 to 2147483647")
    return int(text)


def parse_names(text: str, _: Context) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise ValueError("expected one topic name or more, separated by commas")
    return names


def parse_pattern(text: str, _: Context) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression ({error})") from error
    return text


def _parse_json_object(text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_refuse_repeats)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected {example} ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected {example}")
    return value


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Converts a JSON object into a dict. A key that is there twice raises ValueError: one value would be lost."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"{key!r} is there twice")
        values[key] = value
    return values


def parse_assignment(text: str, _: Context) -> frozenset[TopicPartition]:
    example = 'JSON like {"topicA":[0,1],"topicB":[2]}'
    assigned: set[TopicPartition] = set()
    for topic, partitions in _parse_json_object(text, example).items():
        if not isinstance(partitions, list) or not all(type(p) is int and p >= 0 for p in partitions):
            raise ValueError(f"expected {example}; topic {topic!r} has {partitions!r}")
        assigned.update((topic, partition) for partition in partitions)
    if not assigned:
        raise ValueError(f"expected {example} with at least one partition")
    return frozenset(assigned)


def _parse_partition_map(text: str, least: int, example: str) -> dict[TopicPartition, int]:
    """Parses {"topic": {"0": number}}, where every number must be ≥ least."""
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _parse_json_object(text, example).items():
        if not isinstance(partitions, dict):
            raise ValueError(f"expected {example}; topic {topic!r} has {partitions!r}")
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int or not least <= number < 2**63:
                raise ValueError(f"expected {example}; topic {topic!r} has {partition!r}: {number!r}")
            if (topic, int(partition)) in numbers:
                raise ValueError(f"expected {example}; topic {topic!r} has partition {int(partition)} twice")
            numbers[topic, int(partition)] = number
    return numbers


def parse_offsets(text: str, _: Context) -> dict[TopicPartition, int] | int:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    return _parse_partition_map(
        text, EARLIEST, 'earliest, latest, or JSON like {"topicA":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
    )


def parse_offsets_by_timestamp(text: str, _: Context) -> dict[TopicPartition, int]:
    moments = _parse_partition_map(text, 0, 'JSON like {"topicA":{"0":1773133200000}}, in epoch milliseconds')
    for (topic, partition), moment in moments.items():
        meant = times.other_meaning(str(moment))
        if meant is not None:
            raise ValueError(
                f"partition {topic}-{partition} has {moment}, which as epoch milliseconds is"
                f" {times.format_millis(moment)}; write {times.parse_moment(meant, UTC, 0)} if {meant} is meant"
            )
    return moments


def parse_strategy(text: str, _: Context) -> bool:
    """Whether a read starts at the end of a partition that has no offset for the timestamp."""
    if text.strip().lower() not in ("error", "latest"):
        raise ValueError("expected error or latest")
    return text.strip().lower() == "latest"


def parse_positive(text: str, _: Context) -> int:
    if not re.fullmatch(r"[0-9]+", text.strip()) or int(text) == 0:
        raise ValueError("expected a number, 1 or more")
    return int(text)


def parse_duration(text: str, _: Context) -> int:
    return times.parse_duration(text)


def parse_mode(text: str, _: Context) -> bool:
    """Whether damaged batches are skipped."""
    if text.strip().upper() not in (FAILFAST, DROPMALFORMED):
        raise ValueError(f"expected {FAILFAST} or {DROPMALFORMED}")
    return text.strip().upper() == DROPMALFORMED


def parse_format(text: str, _: Context) -> str:
    if text.strip().lower() not in FORMATS:
        raise ValueError(f"expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    return text.strip().lower()


def parse_value_mode(text: str, _: Context) -> str:
    if text.strip().upper() not in (FAILFAST, PERMISSIVE):
        raise ValueError(f"expected {FAILFAST} or {PERMISSIVE}")
    return text.strip().upper()


def _count_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError("expected bytes (268435456, 256m, 1g)")
    return int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}[match[2].lower()]


def parse_batch_bytes(text: str, _: Context) -> int:
    size = _count_bytes(text)
    if not 0 < size <= _LARGEST_BATCH:
        raise ValueError(f"expected bytes from 1 to {_LARGEST_BATCH} (1g)")
    return size


def parse_byte_size(text: str, _: Context) -> int:
    return _count_bytes(text)


def parse_positive_bytes(text: str, _: Context) -> int:
    size = _count_bytes(text)
    if size == 0:
        raise ValueError("expected bytes, 1 or more (268435456, 256m, 1g)")
    return size


def parse_end_at(text: str, _: Context) -> bool:
    """Whether a read ends at the high watermark."""
    if text.strip().lower() not in ("end", "highwatermark"):
        raise ValueError("expected end or highWatermark")
    return text.strip().lower() == "highwatermark"


def parse_view(text: str, _: Context) -> str:
    """Returns the name of a view as `VIEWS` spells it. Case does not count."""
    known = {name.lower(): name for name in VIEWS}
    if text.strip().lower() not in known:
        raise ValueError(f"expected {', '.join(VIEWS[:-1])} or {VIEWS[-1]}")
    return known[text.strip().lower()]


def parse_isolation_level(text: str, _: Context) -> bool:
    """Whether a read returns committed rows only."""
    if text.strip().lower() not in ("read_uncommitted", "read_committed"):
        raise ValueError("expected read_uncommitted or read_committed")
    return text.strip().lower() == "read_committed"


def parse_paths(text: str, _: Context) -> tuple[str, ...]:
    """Parses one path, or several as a JSON list. Spark passes `load([…])` as such a list."""
    if not text.strip():
        raise OptionError(
            "option 'path' is missing: give load(path) a partition directory, a log directory or a .log file",
            options=("path",),
        )
    if not text.lstrip().startswith("["):
        return (text,)
    try:
        several = json.loads(text)
    except ValueError:
        return (text,)
    if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
        return (text,)
    if not several:
        raise OptionError(
            "option 'path' is an empty list: no path was given, so there is nothing to read", options=("path",)
        )
    if not all(path.strip() for path in several):
        raise OptionError(f"option 'path' is {text!r}: one of its paths is empty", options=("path",))
    return tuple(several)
