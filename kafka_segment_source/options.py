"""Options: every name, default and help once, in `OPTIONS`; `parse_options` turns them into `ReadOptions`.

Text comes in (Spark hands over strings), a frozen value goes out; OptionError or UnsupportedError is raised
before any file is touched. Keys are case-insensitive, as Spark's are.

Precedence, as in Spark's kafka source (`KafkaSourceProvider`), for where a scan starts and, alike, where it ends:

1. startingTimestamp
2. startingOffsetsByTimestamp
3. startingOffsets

`since` and `until` are another thing: they keep rows, the options above cut at an offset. All of them hold together.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from typing import Any

from kafka_segment_source import times
from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT, TimeRange
from kafka_segment_source.errors import OptionError, UnsupportedError
from kafka_segment_source.storage.paths import local_path

EARLIEST = -2  # in offset maps, as in Kafka's ListOffsets
LATEST = -1
FAILFAST = "FAILFAST"
DROPMALFORMED = "DROPMALFORMED"
_LARGEST_BATCH = 2**30  # Arrow offsets are 32-bit: a batch's bytes must leave room beside others

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which topics a scan wants: by name, by pattern, by partition, or (all None) every topic that is not internal."""

    subscribe: tuple[str, ...] | None = None
    pattern: str | None = None  # matches the whole name
    assign: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """Where a scan begins or ends: EARLIEST, LATEST or an offset, for each partition named or for all.

    option: which one said so. by_time: the numbers are epoch milliseconds, and stand for the first offset with a
    timestamp ≥ that.
    """

    option: str
    everywhere: int | None = None
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_time: bool = False

    def at(self, topic_partition: TopicPartition) -> int:
        """What it says of one partition; KeyError where a map does not name it."""
        return self.by_partition[topic_partition] if self.everywhere is None else self.everywhere


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of one read, parsed; times are absolute epoch milliseconds."""

    paths: tuple[str, ...]
    topics: TopicSelection = TopicSelection()
    topic: str | None = None
    partition: int | None = None
    times: TimeRange = TimeRange()
    starting: OffsetLimit = OffsetLimit("startingOffsets", EARLIEST)
    ending: OffsetLimit = OffsetLimit("endingOffsets", LATEST)
    start_at_latest_if_no_match: bool = False  # startingOffsetsByTimestampStrategy
    read_committed: bool = False  # isolationLevel
    include_headers: bool = False
    include_metadata: bool = False
    include_control: bool = False
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    pack_bytes: int = 64 * 1024 * 1024
    timestamp_disorder: int | None = None  # ms
    zone_maps: str | None = None  # absolute path of a directory
    fail_on_data_loss: bool = True
    end_at_high_watermark: bool = False  # endAt
    check_crcs: bool = True
    trust_indexes: bool = True
    mode: str = FAILFAST
    max_batch_bytes: int = 256 * 1024 * 1024

    @property
    def drop_malformed(self) -> bool:
        return self.mode == DROPMALFORMED


@dataclass(frozen=True, slots=True)
class _Context:
    """What parsing a value may need besides its text; fixed once a read."""

    zone: tzinfo
    now_ms: int


# ---- values: each takes text and says by ValueError what it expected ----


def _boolean(text: str, _: _Context) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def _moment(text: str, context: _Context) -> int:
    return times.parse_moment(text, context.zone, context.now_ms)


def _name(text: str, _: _Context) -> str:
    if not text.strip():
        raise ValueError("expected a name")
    return text.strip()


def _directory(text: str, _: _Context) -> str:
    return local_path(_name(text, _))


def _partition(text: str, _: _Context) -> int:
    if not re.fullmatch(r"\d{1,10}", text.strip(), re.ASCII) or int(text) >= 2**31:
        raise ValueError("expected a partition number, from 0 to 2147483647")
    return int(text)


def _names(text: str, _: _Context) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise ValueError("expected one topic name or more, separated by commas")
    return names


def _pattern(text: str, _: _Context) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression ({error})") from error
    return text


def _json_object(text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON like {example} ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected JSON like {example}")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object as a dict; ValueError for a key that it has twice, of which one would be lost."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is there twice")
        found[key] = value
    return found


def _assign(text: str, _: _Context) -> frozenset[TopicPartition]:
    example = '{"topicA":[0,1],"topicB":[2]}'
    found: set[TopicPartition] = set()
    for topic, partitions in _json_object(text, example).items():
        if not isinstance(partitions, list) or not all(type(p) is int and p >= 0 for p in partitions):
            raise ValueError(f"expected JSON like {example}; topic {topic!r} has {partitions!r}")
        found.update((topic, partition) for partition in partitions)
    if not found:
        raise ValueError(f"expected JSON like {example} with at least one partition")
    return frozenset(found)


def _partition_map(text: str, least: int, example: str) -> dict[TopicPartition, int]:
    """{"topic": {"0": number}} with every number ≥ least."""
    numbers: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(text, example).items():
        if not isinstance(partitions, dict):
            raise ValueError(f"expected {example}; topic {topic!r} has {partitions!r}")
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int or not least <= number < 2**63:
                raise ValueError(f"expected {example}; topic {topic!r} has {partition!r}: {number!r}")
            if (topic, int(partition)) in numbers:
                raise ValueError(f"expected {example}; topic {topic!r} has partition {int(partition)} twice")
            numbers[topic, int(partition)] = number
    return numbers


def _offsets(text: str, _: _Context) -> dict[TopicPartition, int] | int:
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    return _partition_map(
        text, EARLIEST, 'earliest, latest, or JSON like {"topicA":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
    )


def _offsets_by_timestamp(text: str, _: _Context) -> dict[TopicPartition, int]:
    moments = _partition_map(text, 0, 'JSON like {"topicA":{"0":1773133200000}}, in epoch milliseconds')
    for (topic, partition), moment in moments.items():
        meant = times.other_meaning(str(moment))
        if meant is not None:
            raise ValueError(
                f"partition {topic}-{partition} has {moment}, which as epoch milliseconds is"
                f" {times.format_millis(moment)}; write {times.parse_moment(meant, UTC, 0)} if {meant} is meant"
            )
    return moments


def _strategy(text: str, _: _Context) -> bool:
    if text.strip().lower() not in ("error", "latest"):
        raise ValueError("expected error or latest")
    return text.strip().lower() == "latest"


def _positive(text: str, _: _Context) -> int:
    if not re.fullmatch(r"[0-9]+", text.strip()) or int(text) == 0:
        raise ValueError("expected a number, 1 or more")
    return int(text)


def _duration(text: str, _: _Context) -> int:
    return times.parse_duration(text)


def _mode(text: str, _: _Context) -> str:
    if text.strip().upper() not in (FAILFAST, DROPMALFORMED):
        raise ValueError(f"expected {FAILFAST} or {DROPMALFORMED}")
    return text.strip().upper()


def _byte_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmg]?)(?:i?b)?", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError("expected bytes (268435456, 256m, 1g)")
    return int(match[1]) * {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}[match[2].lower()]


def _batch_bytes(text: str, _: _Context) -> int:
    size = _byte_size(text)
    if not 0 < size <= _LARGEST_BATCH:
        raise ValueError(f"expected bytes from 1 to {_LARGEST_BATCH} (1g)")
    return size


def _pack_bytes(text: str, _: _Context) -> int:
    return _byte_size(text)


def _end_at(text: str, _: _Context) -> bool:
    if text.strip().lower() not in ("end", "highwatermark"):
        raise ValueError("expected end or highWatermark")
    return text.strip().lower() == "highwatermark"


def _read_committed(text: str, _: _Context) -> bool:
    if text.strip().lower() not in ("read_uncommitted", "read_committed"):
        raise ValueError("expected read_uncommitted or read_committed")
    return text.strip().lower() == "read_committed"


# ---- the table ----

_Parser = Callable[[str, _Context], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name in documents, its default in words, its help, and what makes a value of its text."""

    name: str
    default: str
    help: str
    parse: _Parser


OPTIONS = (
    Option(
        "path",
        "required",
        "a partition directory, a log directory, a .log file, or a glob; load([…]) takes several",
        _name,
    ),
    Option("subscribe", "every topic but internal ones", "topic names, separated by commas", _names),
    Option(
        "subscribePattern", "", "a regular expression that matches whole topic names (never internal ones)", _pattern
    ),
    Option("assign", "", 'partitions, as JSON: {"topicA":[0,1]}', _assign),
    Option("topic", "from the directory's name", "topic of a directory whose own name does not say", _name),
    Option(
        "partition", "from the directory's name", "partition of a directory whose own name does not say", _partition
    ),
    Option(
        "since",
        "",
        "keep rows with timestamp ≥ this: ISO-8601, epoch milliseconds (not seconds), or a time ago (-2h)",
        _moment,
    ),
    Option("until", "", "keep rows with timestamp < this", _moment),
    Option(
        "timeZone", "UTC", "zone of times written without one, as Spark names it: Europe/Berlin, +01:00, UTC+1", _name
    ),
    Option("startingOffsets", "earliest", 'earliest, or JSON: {"topicA":{"0":23,"1":-2}}', _offsets),
    Option("endingOffsets", "latest", "latest, or JSON; exclusive", _offsets),
    Option("startingTimestamp", "", "start at the first offset with timestamp ≥ this", _moment),
    Option("endingTimestamp", "", "end before the first offset with timestamp ≥ this", _moment),
    Option("startingOffsetsByTimestamp", "", "the same, per partition, as JSON", _offsets_by_timestamp),
    Option("endingOffsetsByTimestamp", "", "the same, per partition, as JSON", _offsets_by_timestamp),
    Option(
        "startingOffsetsByTimestampStrategy", "error", "what to do where no offset matches: error or latest", _strategy
    ),
    Option("isolationLevel", "read_uncommitted", "read_uncommitted or read_committed", _read_committed),
    Option("includeHeaders", "false", "add the column headers", _boolean),
    Option("includeMetadata", "false", "add the column metadata: batch, file and position of each row", _boolean),
    Option("includeControl", "false", "keep control records", _boolean),
    Option(
        "minPartitions", "one a segment", "split large segments until there are so many Spark partitions", _positive
    ),
    Option("maxRecordsPerPartition", "unlimited", "split large segments so that none has more records", _positive),
    Option("timestampDisorder", "", "no record is older than the newest before it by more than this", _duration),
    Option(
        "failOnDataLoss",
        "true",
        "true: offsets that the files do not hold, or no longer, are an error; false: a warning",
        _boolean,
    ),
    Option(
        "mode", FAILFAST, "FAILFAST: a damaged batch ends the query; DROPMALFORMED: it is skipped and reported", _mode
    ),
    Option("checkCrcs", "true", "verify each batch's CRC before believing its header", _boolean),
    Option("trustIndexes", "true", "false: ignore index files and walk every segment", _boolean),
    Option("maxBatchBytes", "256m", "the most that one batch may decompress to", _batch_bytes),
    Option("packBytes", "64m", "neighbouring small segments share a Spark partition up to so many bytes", _pack_bytes),
    Option(
        "zoneMaps",
        "",
        "directory of the zone maps that `kafkaseg zonemap` makes: time bounds then read little more than what matches",
        _directory,
    ),
    Option(
        "endAt",
        "end",
        "end: read to the end of the files; highWatermark: to the offset that replication-offset-checkpoint, beside the"
        " partition's directory, lists for it",
        _end_at,
    ),
)
_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_ALIASES = {
    "isolation.level": "isolationlevel",
    "kafka.isolation.level": "isolationlevel",
    "check.crcs": "checkcrcs",
    "kafka.check.crcs": "checkcrcs",
    "paths": "path",
}
# options whose value goes into ReadOptions as it is parsed
_FIELDS = {
    "topic": "topic",
    "partition": "partition",
    "startingoffsetsbytimestampstrategy": "start_at_latest_if_no_match",
    "isolationlevel": "read_committed",
    "includeheaders": "include_headers",
    "includemetadata": "include_metadata",
    "includecontrol": "include_control",
    "minpartitions": "min_partitions",
    "maxrecordsperpartition": "max_records_per_partition",
    "packbytes": "pack_bytes",
    "timestampdisorder": "timestamp_disorder",
    "zonemaps": "zone_maps",
    "failondataloss": "fail_on_data_loss",
    "endat": "end_at_high_watermark",
    "checkcrcs": "check_crcs",
    "trustindexes": "trust_indexes",
    "mode": "mode",
    "maxbatchbytes": "max_batch_bytes",
}
_MEANINGLESS = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_MEANINGLESS_KEYS = ("groupidprefix",)
_STREAMING_KEYS = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "maxbytespertrigger")


def parse_options(given: Mapping[str, str], now_ms: int | None = None) -> tuple[ReadOptions, list[str]]:
    """ReadOptions and warnings (one sentence each) from option names and their text, as Spark gives them.

    now_ms: the moment that times ago are counted from; the present by default. Raises OptionError for what is
    unknown, malformed or contradictory, UnsupportedError for what has a meaning, but is not built.
    """
    texts, ignored = _sort_out(given)
    try:
        zone = times.zone(texts.get("timezone", "UTC"))
    except ValueError as error:
        raise OptionError(f"option 'timeZone': {error}") from error
    context = _Context(zone, int(time.time() * 1000) if now_ms is None else now_ms)
    values = {key: _parse_value(_BY_KEY[key], text, context) for key, text in texts.items() if key != "path"}
    _check_together(values)
    options = ReadOptions(
        paths=_paths(texts.get("path")),
        topics=TopicSelection(values.get("subscribe"), values.get("subscribepattern"), values.get("assign")),
        times=TimeRange(values.get("since", MIN_TIMESTAMP), values.get("until", TIMESTAMP_LIMIT)),
        starting=_limit("starting", values, EARLIEST),
        ending=_limit("ending", values, LATEST),
        **{field: values[key] for key, field in _FIELDS.items() if key in values},
    )
    return options, _warnings(ignored)


def _sort_out(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Texts by lower-case key for options of the table, and the names of those that mean nothing here."""
    texts: dict[str, str] = {}
    ignored: list[str] = []
    for name, text in given.items():
        key = _ALIASES.get(name.lower(), name.lower())
        if key in _BY_KEY:
            if key in texts and texts[key] != text:
                raise OptionError(f"option {_BY_KEY[key].name!r} is given twice, as {texts[key]!r} and {text!r}")
            texts[key] = text
        elif key.startswith(_MEANINGLESS) or key in _MEANINGLESS_KEYS or key in _STREAMING_KEYS:
            ignored.append(name)
        else:
            near = get_close_matches(key, _BY_KEY, n=1, cutoff=0.4)
            hint = f"; did you mean {_BY_KEY[near[0]].name!r}?" if near else ""
            raise OptionError(f"option {name!r} is unknown{hint}")
    return texts, ignored


def _parse_value(option: Option, text: str, context: _Context) -> Any:
    try:
        return option.parse(text, context)
    except UnsupportedError as error:
        raise UnsupportedError(f"option {option.name!r}: {error}") from error
    except ValueError as error:
        raise OptionError(f"option {option.name!r} is {text!r}: {error}") from error


def _check_together(values: Mapping[str, Any]) -> None:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in values]
    if len(chosen) > 1:
        raise OptionError(f"options {' and '.join(map(repr, chosen))} exclude each other; give one")
    _check_offsets("startingOffsets", values.get("startingoffsets"), LATEST, "latest", "earliest (-2) or an offset")
    _check_offsets("endingOffsets", values.get("endingoffsets"), EARLIEST, "earliest", "latest (-1) or an offset")
    since, until = values.get("since"), values.get("until")
    if since is not None and until is not None and since > until:
        raise OptionError(
            f"option 'since' ({times.format_millis(since)}) is after option 'until' ({times.format_millis(until)})"
        )


def _check_offsets(option: str, given: Any, wrong: int, word: str, expected: str) -> None:
    if given == wrong:
        raise OptionError(f"option {option!r} is {word!r}: a batch query would read nothing; expected {expected}")
    if isinstance(given, dict):
        for (topic, partition), offset in given.items():
            if offset == wrong:
                raise OptionError(
                    f"option {option!r} has {wrong} ({word}) for partition {topic}-{partition}:"
                    f" a batch query would read nothing of it; expected {expected}"
                )


def _limit(side: str, values: Mapping[str, Any], default: int) -> OffsetLimit:
    """Where the scan starts or ends, by the precedence above; `side` is "starting" or "ending"."""
    if f"{side}timestamp" in values:
        return OffsetLimit(f"{side}Timestamp", values[f"{side}timestamp"], by_time=True)
    if f"{side}offsetsbytimestamp" in values:
        name = f"{side}OffsetsByTimestamp"
        return OffsetLimit(name, None, values[f"{side}offsetsbytimestamp"], by_time=True)
    offsets = values.get(f"{side}offsets", default)
    if isinstance(offsets, dict):
        return OffsetLimit(f"{side}Offsets", None, offsets)
    return OffsetLimit(f"{side}Offsets", offsets)


def _paths(text: str | None) -> tuple[str, ...]:
    if text is None or not text.strip():
        raise OptionError(
            "option 'path' is missing: give load(path) a partition directory, a log directory or a .log file"
        )
    if not text.lstrip().startswith("["):
        return (text,)
    try:
        paths = json.loads(text)  # load([…]) arrives as a JSON list
    except ValueError:
        return (text,)
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        return (text,)
    if not paths:
        raise OptionError("option 'path' is an empty list: no path was given, so there is nothing to read")
    if not all(path.strip() for path in paths):
        raise OptionError(f"option 'path' is {text!r}: one of its paths is empty")
    return tuple(paths)


def _warnings(ignored: list[str]) -> list[str]:
    if not ignored:
        return []
    return [
        f"these options mean nothing when segments are read without a broker, and were ignored: {', '.join(sorted(ignored))}"
    ]


PathsLike = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def option_texts(path: PathsLike, keywords: Mapping[str, object]) -> dict[str, str]:
    """Option texts from Python keywords: booleans, numbers, aware datetimes, dicts and lists become what
    Spark would send."""
    if isinstance(path, (str, os.PathLike)):
        texts = {"path": os.fspath(path)}
    else:
        texts = {"path": json.dumps([os.fspath(each) for each in path])}
    for name, value in keywords.items():
        if value is None:
            continue
        texts[name] = _text(name, value)
    return texts


def _text(name: str, value: object) -> str:
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
