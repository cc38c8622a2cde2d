"""Options: each has one entry in `OPTIONS`. `parse_options` turns their texts into `ReadOptions`.

Input: texts, because Spark passes strings. Output: a frozen value. OptionError or UnsupportedError is raised before any
file is opened. Names are case-insensitive, as Spark's are. The table is also the source for the defaults of a read, the
flags of the command line and the documentation.

Three options can say where a scan starts. As in Spark's kafka source (`KafkaSourceProvider`), the first that is given
counts, and the same holds for where it ends:

1. startingTimestamp
2. startingOffsetsByTimestamp
3. startingOffsets

`since` and `until` keep rows by their timestamp; the options above cut at an offset. All of them apply together.

The table says which options a stream has, and which only a stream has. Other rules for one kind of read are elsewhere:
those of a batch read are in `planning/batch_queries.py`, those of a stream in `streams/`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from kafka_segment_source import option_values as values
from kafka_segment_source import times
from kafka_segment_source.errors import OptionError, PathError, UnsupportedError
from kafka_segment_source.option_values import Context, TopicSelection
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content, Cutting, Formats, Pace, ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.storage.routed import make_storage
from kafka_segment_source.storage.settings import Settings, looks_like_setting, make_settings, suggest
from kafka_segment_source.trust import Policy, Trust

WHAT = "what is read"
TYPED = "what keys and values mean"
WHEN = "from when to when"
TRUST = "what is trusted"
CUTTING = "how Spark partitions are cut"
PACE = "how much a stream takes at a time"

_OF_LOGS = (*values.OF_SPLITS, values.TRANSACTIONS, *values.OF_INTERNAL_TOPICS)  # views that read whole batches
_OF_ROWS = (values.RECORDS, values.BATCHES)  # views whose rows do not depend on other rows
_WITH_RECORDS = (values.RECORDS, values.NEWEST)  # views whose rows are records
_OF_PARTITIONS = (*values.OF_SPLITS, values.SEGMENTS, *values.OF_INDEXES, values.TRANSACTIONS)  # a user selects these

_NO_END = "a stream has no end; a batch read has it"


class Option(NamedTuple):
    """One option.

    group: its topic.
    name: its name for users.
    field: where its value is: the name of a part of `ReadOptions`, or of a part of such a part, and a field of it.
    takes: one word for the form of its value.
    parse: turns a text into a value.
    default: the text that is parsed where the user gives none; None for no value.
    without: describes in words what happens without a text, where the default does not show it.

    views: the views that take it.
    view_defaults: the default of some views, where that is another one.
    no_stream: why a stream cannot have it; empty if it can.
    stream_only: whether only a stream has it.
    stream_default: the default of a stream, where that is another one. "" means no value.
    stream_without: the same as `without` for a stream, where that is something else.
    """

    group: str
    name: str
    field: str
    takes: str
    parse: Callable[[str, Context], Any]
    help: str
    default: str | None = None
    without: str = ""
    views: tuple[str, ...] = values.OF_SPLITS
    view_defaults: Mapping[str, str] | None = None
    no_stream: str = ""
    stream_only: bool = False
    stream_default: str | None = None
    stream_without: str = ""

    @property
    def default_words(self) -> str:
        """The default, as documents show it."""
        usual = self.without or self.default or ""
        others = ", ".join(f"{default} for view={view}" for view, default in (self.view_defaults or {}).items())
        return f"{usual}; {others}" if others else usual

    @property
    def stream_words(self) -> str:
        """What documents say of it in a stream: its default where that is another one, "yes" or "no"."""
        return self.stream_without or self.stream_default or ("no" if self.no_stream else "yes")

    def default_for(self, is_stream: bool, view: str = values.RECORDS) -> str | None:
        """The text that is parsed where the user gives none, or None for no value."""
        if self.view_defaults is not None and view in self.view_defaults:
            return self.view_defaults[view]
        if is_stream and self.stream_default is not None:
            return self.stream_default or None
        return self.default


# fmt: off
OPTIONS = (
    Option(WHAT, "path", "source.paths", "PATH", values.parse_paths,
           "a partition directory, a log directory, a .log file, or a glob; load([…]) takes several",
           default="", without="required",
           views=values.VIEWS),
    Option(WHAT, "view", "content.view", "NAME", values.parse_view,
           f"what a row is: {', '.join(values.VIEWS)} (docs/views.md)", default=values.RECORDS, views=values.VIEWS,
           no_stream="a stream gives records"),
    Option(WHAT, "subscribe", "topics.subscribe", "TOPICS", values.parse_names, "topic names, separated by commas",
           without="every topic but internal ones",
           views=_OF_PARTITIONS),
    Option(WHAT, "subscribePattern", "topics.pattern", "REGEX", values.parse_pattern,
           "a regular expression that matches whole topic names (never internal ones)",
           views=_OF_PARTITIONS),
    Option(WHAT, "assign", "topics.assign", "JSON", values.parse_assignment, 'partitions, as JSON: {"topicA":[0,1]}',
           views=_OF_PARTITIONS),
    Option(WHAT, "topic", "source.topic", "NAME", values.parse_name, "topic of a directory whose own name does not say",
           without="from the directory's name",
           views=_OF_PARTITIONS),
    Option(WHAT, "partition", "source.partition", "N", values.parse_partition,
           "partition of a directory whose own name does not say", without="from the directory's name",
           views=_OF_PARTITIONS),
    Option(WHAT, "tieredKeys", "storage.keys", "KEYS", values.parse_tiered_keys,
           'private keys of encrypted tiers: {"KEY ID":"PATH OF A PEM FILE"} (docs/tiered-storage.md)', default="{}",
           without="none", views=values.VIEWS),
    Option(WHAT, "key", "content.keys", "KEY", values.parse_record_keys,
           'keep records with this key: text, bytes as 0x00ff or base64:AP8=, or several as a JSON list (docs/pushdown.md)',
           views=_WITH_RECORDS),
    Option(WHAT, "isolationLevel", "content.read_committed", "read_uncommitted|read_committed", values.parse_isolation_level,
           "read_uncommitted or read_committed", default="read_uncommitted"),
    Option(WHAT, "includeHeaders", "content.include_headers", "true|false", values.parse_boolean, "add the column headers",
           default="false",
           views=_WITH_RECORDS),
    Option(WHAT, "includeMetadata", "content.include_metadata", "true|false", values.parse_boolean,
           "add the column metadata: batch, file and position of each row", default="false",
           views=_WITH_RECORDS),
    Option(WHAT, "includeControl", "content.include_control", "true|false", values.parse_boolean,
           "keep control records, and add the column controlType: COMMIT, ABORT and others", default="false",
           views=_OF_ROWS, view_defaults={values.BATCHES: "true"}),
    Option(WHAT, "includeTombstones", "content.include_tombstones", "true|false", values.parse_boolean,
           "view=latest: keep the newest record of a key whose value is null", default="false",
           views=(values.NEWEST,), no_stream="a stream gives records"),
    Option(WHAT, "offsetMapBytes", "content.offset_map_bytes", "BYTES", values.parse_positive_bytes,
           "view=latest: memory for the keys of a partition, 40 bytes each; with more keys, the log is read more often",
           default="256m", views=(values.NEWEST,), no_stream="a stream gives records"),
    Option(WHAT, "history", "content.history", "true|false", values.parse_boolean,
           "consumerOffsets, shareOffsets, transactionalIds, schemas: every record and every tombstone, instead of the latest state", default="false",
           views=(values.CONSUMER_OFFSETS, values.SHARE_OFFSETS, values.TRANSACTIONAL_IDS, values.SCHEMAS), no_stream="a stream gives records"),

    Option(TYPED, "valueFormat", "formats.value", "FORMAT", values.parse_format,
           f"what values are: {', '.join(values.FORMATS)}; value is a typed column then (docs/values.md)",
           default=values.BINARY, views=_WITH_RECORDS),
    Option(TYPED, "keyFormat", "formats.key", "FORMAT", values.parse_format, "the same of keys", default=values.BINARY,
           views=_WITH_RECORDS),
    Option(TYPED, "schemas", "formats.schemas", "PATH", values.parse_directory,
           "where schemas are: a log directory that holds _schemas, a directory of .avsc or .proto files, or one such file",
           without="the topic _schemas in the same paths", views=_WITH_RECORDS),
    Option(TYPED, "valueSchema", "formats.value_schema", "SCHEMA", values.parse_name,
           "the schema that values are read as: latest, a version of TOPIC-value, id:7, subject:NAME, the path of a"
           " file, or DDL for JSON; #MESSAGE behind it names one of Protobuf", default="latest", views=_WITH_RECORDS),
    Option(TYPED, "keySchema", "formats.key_schema", "SCHEMA", values.parse_name,
           "the same for keys and TOPIC-key", default="latest", views=_WITH_RECORDS),
    Option(TYPED, "schemaContext", "formats.context", "NAME", values.parse_name,
           "the context of the registry that ids belong to", default=".", views=_WITH_RECORDS),
    Option(TYPED, "valueMode", "formats.mode", "FAILFAST|PERMISSIVE", values.parse_value_mode,
           "FAILFAST: a key or value that does not fit ends the query; PERMISSIVE: it is null, and its bytes are in the"
           " corrupt column", default="FAILFAST", views=_WITH_RECORDS),
    Option(TYPED, "columnNameOfCorruptRecord", "formats.corrupt", "NAME", values.parse_name,
           "the corrupt column of valueMode=PERMISSIVE", default="_corrupt_record", views=_WITH_RECORDS),

    Option(WHEN, "since", "bounds.since", "TIME", values.parse_moment,
           "keep rows with timestamp ≥ this: ISO-8601, epoch milliseconds (not seconds), or a time ago (-2h)"),
    Option(WHEN, "until", "bounds.until", "TIME", values.parse_moment, "keep rows with timestamp < this",
           views=(*values.OF_SPLITS, *values.OF_INTERNAL_TOPICS)),
    Option(WHEN, "timeZone", "bounds.time_zone", "ZONE", values.parse_name,
           "zone of times written without one, as Spark names it: Europe/Berlin, +01:00, UTC+1", default="UTC",
           views=values.VIEWS),
    Option(WHEN, "timestampDisorder", "bounds.disorder", "DURATION", values.parse_duration,
           "largest lateness: no record is older, by more than this, than the newest record before it in its partition"),
    Option(WHEN, "zoneMaps", "bounds.zone_maps", "DIRECTORY", values.parse_directory,
           "directory of the zone maps that `kafkaseg zonemap` makes: time bounds and keys then read little more than what matches"),
    Option(WHEN, "startingOffsets", "bounds.starting_offsets", "earliest|JSON", values.parse_offsets,
           'earliest, or JSON: {"topicA":{"0":23,"1":-2}}', default="earliest", stream_default="latest"),
    Option(WHEN, "endingOffsets", "bounds.ending_offsets", "latest|JSON", values.parse_offsets, "latest, or JSON; exclusive",
           default="latest", no_stream=_NO_END),
    Option(WHEN, "startingTimestamp", "bounds.starting_timestamp", "TIME", values.parse_moment,
           "start at the first offset with timestamp ≥ this"),
    Option(WHEN, "endingTimestamp", "bounds.ending_timestamp", "TIME", values.parse_moment,
           "end before the first offset with timestamp ≥ this", no_stream=_NO_END),
    Option(WHEN, "startingOffsetsByTimestamp", "bounds.starting_offsets_by_timestamp", "JSON",
           values.parse_offsets_by_timestamp, "the same, per partition, as JSON"),
    Option(WHEN, "endingOffsetsByTimestamp", "bounds.ending_offsets_by_timestamp", "JSON", values.parse_offsets_by_timestamp,
           "the same, per partition, as JSON", no_stream=_NO_END),
    Option(WHEN, "startingOffsetsByTimestampStrategy", "bounds.start_at_latest_if_no_match", "error|latest",
           values.parse_strategy, "what to do where no offset matches: error or latest", default="error"),
    Option(WHEN, "endAt", "source.end_at_high_watermark", "end|highWatermark", values.parse_end_at,
           "end: read to the end of the files; highWatermark: to the offset that replication-offset-checkpoint, beside the"
           " partition's directory, lists for it", default="end", stream_default="",
           stream_without="highWatermark where that file is, else end"),

    Option(TRUST, "failOnDataLoss", "policy.fail_on_data_loss", "true|false", values.parse_boolean,
           "true: offsets that the files do not hold, or no longer, are an error; false: a warning", default="true",
           views=_OF_LOGS),
    Option(TRUST, "mode", "policy.drop_malformed", "FAILFAST|DROPMALFORMED", values.parse_mode,
           "FAILFAST: a damaged batch ends the query; DROPMALFORMED: it is skipped and reported", default="FAILFAST",
           views=_OF_LOGS),
    Option(TRUST, "checkCrcs", "trust.check_crcs", "true|false", values.parse_boolean,
           "verify each batch's CRC before believing its header", default="true",
           views=(*_OF_LOGS, *values.OF_INDEXES),
           view_defaults=dict.fromkeys((values.BATCHES, *values.OF_INDEXES, values.TRANSACTIONS), "false")),
    Option(TRUST, "trustIndexes", "trust.trust_indexes", "true|false", values.parse_boolean,
           "false: ignore index files and walk every segment", default="true"),
    Option(TRUST, "maxBatchBytes", "trust.max_batch_bytes", "BYTES", values.parse_batch_bytes,
           "the most that one batch may decompress to", default="256m",
           views=_OF_LOGS),

    Option(CUTTING, "minPartitions", "cutting.min_partitions", "N", values.parse_positive,
           "split large segments into at least this many Spark partitions", without="one a segment", views=_OF_ROWS),
    Option(CUTTING, "maxRecordsPerPartition", "cutting.max_records", "N", values.parse_positive,
           "split large segments so that none has more records", without="unlimited", views=_OF_ROWS),
    Option(CUTTING, "packBytes", "cutting.pack_bytes", "BYTES", values.parse_byte_size,
           "neighbouring small segments share a Spark partition up to this size", default="64m", views=_OF_ROWS),

    Option(PACE, "maxOffsetsPerTrigger", "pace.most_offsets", "N", values.parse_positive,
           "the most offsets of a micro-batch, over all partitions (Spark 4.2 or later)", without="unlimited",
           stream_only=True),
    Option(PACE, "maxBytesPerTrigger", "pace.most_bytes", "BYTES", values.parse_positive_bytes,
           "the most bytes of `.log` files of a micro-batch; a single larger batch is taken alone (Spark 4.2 or later)",
           without="unlimited", stream_only=True),
    Option(PACE, "minOffsetsPerTrigger", "pace.least_offsets", "N", values.parse_positive,
           "a micro-batch waits until this many offsets are there (Spark 4.2 or later)", without="1", stream_only=True),
    Option(PACE, "maxTriggerDelay", "pace.longest_wait", "DURATION", values.parse_duration,
           "the longest that minOffsetsPerTrigger waits", default="15m", stream_only=True),
)
# fmt: on

_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_PLACES = {key: option.field.split(".") for key, option in _BY_KEY.items()}
_ALIASES = {
    "isolation.level": "isolationlevel",
    "kafka.isolation.level": "isolationlevel",
    "check.crcs": "checkcrcs",
    "kafka.check.crcs": "checkcrcs",
    "paths": "path",
}
_MEANINGLESS = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_MEANINGLESS_KEYS = ("groupidprefix",)


class ReadOptions(NamedTuple):
    """All options of one read, parsed, in the values that functions take. Times are absolute epoch milliseconds.

    Without a value for a part, nothing is asked. The defaults of users are those of the table.

    source: where the files are, and which partitions of them are wanted.
    content: what a row is.
    formats: what keys and values are said to be.
    bounds: from when to when.
    policy: what is believed, and what happens with damage and loss.
    cutting: how Spark partitions are cut.
    pace: how much a stream takes at a time.
    """

    source: Source
    content: Content = Content()
    formats: Formats = Formats()
    bounds: ReadBounds = ReadBounds()
    policy: Policy = Policy()
    cutting: Cutting = Cutting()
    pace: Pace = Pace()


def parse_options(
    given: Mapping[str, str],
    now_ms: int | None = None,
    parameters: Sequence[str] = (),
    is_stream: bool = False,
) -> tuple[ReadOptions, Warnings]:
    """Parses option names and texts, as Spark passes them. Returns ReadOptions, and warnings of one sentence each.

    now_ms: the moment that times ago are counted from; by default the present. parameters: other parameter names of
    the caller; the error about an unknown name may suggest one of them. is_stream: the options are those of a stream,
    not of a batch read. Nothing is opened: the storage of the source finds its buckets and tiers when it is asked.

    Raises OptionError for an unknown, malformed or contradictory option. Raises UnsupportedError for an option that has
    a meaning, but is not built.
    """
    texts, of_stores, ignored = _sort_texts(given, parameters, is_stream)
    view = find_view(texts)
    _check_view(view, texts)
    settings = make_settings(of_stores)
    try:
        zone = times.zone(texts.get("timezone", _BY_KEY["timezone"].default or ""))
    except ValueError as error:
        raise OptionError(f"option 'timeZone': {error}", options=("timeZone",)) from error
    context = Context(zone, int(time.time() * 1000) if now_ms is None else now_ms)
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, (part, field) in _PLACES.items():
        parts[part][field] = (
            _parse_value(_BY_KEY[key], texts[key], context) if key in texts else _parse_default(key, is_stream, view)
        )
    options = _put_together(parts, settings)
    _check_conflicts(options)
    return options, _make_warnings(ignored)


def _put_together(parts: Mapping[str, Mapping[str, Any]], settings: Settings) -> ReadOptions:
    """Makes the values of a read. parts: by the first word of `Option.field`, the parsed values by its second word."""
    formats, bounds = Formats(**parts["formats"]), ReadBounds(**parts["bounds"])
    content, trust = Content(**parts["content"]), Trust(**parts["trust"])
    content = content._replace(
        keys=_store_keys(content.keys, formats.key),
        proves_entries=content.view in values.OF_INDEXES and trust.check_crcs,
    )
    return ReadOptions(
        Source(make_storage(settings, **parts["storage"]), topics=TopicSelection(**parts["topics"]), **parts["source"]),
        content,
        formats,
        bounds,
        Policy(
            trust,
            disorder=None if content.include_control else bounds.disorder,  # it is about data records alone
            reads_control=content.include_control or content.read_committed,
            **parts["policy"],
        ),
        Cutting(**parts["cutting"]),
        Pace(**parts["pace"]),
    )


def find_view(given: Mapping[str, str]) -> str:
    """Returns the view that option texts ask for, by its name in `VIEWS`. Raises OptionError for an unknown one."""
    text = next((text for name, text in given.items() if name.lower() == "view"), values.RECORDS)
    try:
        return values.parse_view(text, Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"option 'view' is {text!r}: {error}", options=("view",)) from error


def _check_view(view: str, keys: Iterable[str]) -> None:
    """Raises OptionError for an option that the view does not take. keys: of the given options, in lower case."""
    for key in keys:
        if view not in _BY_KEY[key].views:
            taken = ", ".join(option.name for option in OPTIONS if view in option.views and option.name != "view")
            raise OptionError(
                f"option {_BY_KEY[key].name!r} is not for view={view}, which takes {taken}",
                options=(_BY_KEY[key].name,),
            )


def _sort_texts(
    given: Mapping[str, str], parameters: Sequence[str], is_stream: bool
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Sorts texts: by lower-case key for options of the table, by name for those of object stores, and the names of
    options without meaning here."""
    texts: dict[str, str] = {}
    of_stores: dict[str, str] = {}
    ignored: list[str] = []
    for name, text in given.items():
        key = _ALIASES.get(name.lower(), name.lower())
        if key in _BY_KEY:
            if is_stream and _BY_KEY[key].no_stream:
                raise OptionError(
                    f"option {_BY_KEY[key].name!r} is not for streams: {_BY_KEY[key].no_stream}",
                    options=(_BY_KEY[key].name,),
                )
            if _BY_KEY[key].stream_only and not is_stream:
                ignored.append(name)
                continue
            if key in texts and texts[key] != text:
                values_given = "" if key == "tieredkeys" else f", as {texts[key]!r} and {text!r}"
                raise OptionError(
                    f"option {_BY_KEY[key].name!r} is given twice{values_given}", options=(_BY_KEY[key].name,)
                )
            texts[key] = text
        elif looks_like_setting(key):
            of_stores[name] = text
        elif key.startswith(_MEANINGLESS) or key in _MEANINGLESS_KEYS:
            ignored.append(name)
        else:
            known = {key: option.name for key, option in _BY_KEY.items()} | {name: name for name in parameters}
            near = get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"; did you mean {known[near[0]]!r}?" if near else suggest(key)
            raise OptionError(f"option {name!r} is unknown{hint}", options=(name,))
    return texts, of_stores, ignored


@cache
def _parse_default(key: str, is_stream: bool, view: str) -> Any:
    """Returns the value of an option that is not given. It depends on no context."""
    text = _BY_KEY[key].default_for(is_stream, view)
    return None if text is None else _parse_value(_BY_KEY[key], text, Context(UTC, 0))


def _parse_value(option: Option, text: str, context: Context) -> Any:
    try:
        return option.parse(text, context)
    except UnsupportedError as error:
        raise UnsupportedError(f"option {option.name!r}: {error}") from error
    except (OptionError, PathError):
        raise  # its message names the option already, or must not repeat the text
    except ValueError as error:
        raise OptionError(f"option {option.name!r} is {text!r}: {error}", options=(option.name,)) from error


def _store_keys(keys: frozenset[str | bytes] | None, key_format: str) -> frozenset[str | bytes] | None:
    """Returns text keys as the bytes that are stored, where keys are bytes or text in UTF-8."""
    if keys is None:
        return None
    if key_format in values.FORMATS_OF_TEXT:
        try:
            return frozenset(key.encode() if isinstance(key, str) else key for key in keys)
        except UnicodeEncodeError as error:
            raise OptionError(
                f"option 'key' is not text in UTF-8 ({error}); write its bytes as 0x00ff", options=("key",)
            ) from error
    if len({type(key) for key in keys}) > 1:
        raise OptionError(
            f"option 'key' mixes values and bytes: under keyFormat={key_format} a text is compared with the typed"
            " key, and 0x… or base64:… with the stored bytes; give all keys in one form",
            options=("key", "keyFormat"),
        )
    return keys


def _check_conflicts(options: ReadOptions) -> None:
    topics, bounds, pace = options.source.topics, options.bounds, options.pace
    choices = {"subscribe": topics.subscribe, "subscribePattern": topics.pattern, "assign": topics.assign}
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) > 1:
        raise OptionError(
            f"options {' and '.join(map(repr, chosen))} exclude each other; give one", options=tuple(chosen)
        )
    since, until = bounds.since, bounds.until
    if since is not None and until is not None and since > until:
        raise OptionError(
            f"option 'since' ({times.format_millis(since)}) is after option 'until' ({times.format_millis(until)})",
            options=("since", "until"),
        )
    least, most = pace.least_offsets, pace.most_offsets
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' ({least}) is above option 'maxOffsetsPerTrigger' ({most})",
            options=("minOffsetsPerTrigger", "maxOffsetsPerTrigger"),
        )


def _make_warnings(ignored: list[str]) -> Warnings:
    of_streams = {name for name in ignored if name.lower() in _BY_KEY}
    of_brokers = set(ignored) - of_streams
    warnings = Warnings()
    if of_brokers:
        warnings.add(
            "these options mean nothing when segments are read without a broker, and were ignored:"
            f" {', '.join(sorted(of_brokers))}"
        )
    if of_streams:
        warnings.add(f"these options are for streams, and were ignored: {', '.join(sorted(of_streams))}")
    return warnings
