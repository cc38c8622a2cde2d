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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_segment_source import option_values as values
from kafka_segment_source import times
from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT, TimeRange, intersect_sets
from kafka_segment_source.errors import OptionError, PathError, UnsupportedError
from kafka_segment_source.option_values import DROPMALFORMED, Context, OffsetLimit, TopicPartition, TopicSelection
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.source import Source
from kafka_segment_source.storage.routed import make_storage
from kafka_segment_source.storage.settings import looks_like_setting, make_settings, suggest
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.storage.tiered.encryption import TierKeys, parse_keys
from kafka_segment_source.trust import Policy, Trust

if TYPE_CHECKING:
    from kafka_segment_source.decoding.tables import SplitTable
    from kafka_segment_source.values.typed import TypedColumns

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
    field: its field in ReadOptions.
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
    Option(WHAT, "path", "paths", "PATH", values.parse_paths,
           "a partition directory, a log directory, a .log file, or a glob; load([…]) takes several",
           default="", without="required",
           views=values.VIEWS),
    Option(WHAT, "view", "view", "NAME", values.parse_view,
           f"what a row is: {', '.join(values.VIEWS)} (docs/views.md)", default=values.RECORDS, views=values.VIEWS,
           no_stream="a stream gives records"),
    Option(WHAT, "subscribe", "subscribe", "TOPICS", values.parse_names, "topic names, separated by commas",
           without="every topic but internal ones",
           views=_OF_PARTITIONS),
    Option(WHAT, "subscribePattern", "subscribe_pattern", "REGEX", values.parse_pattern,
           "a regular expression that matches whole topic names (never internal ones)",
           views=_OF_PARTITIONS),
    Option(WHAT, "assign", "assign", "JSON", values.parse_assignment, 'partitions, as JSON: {"topicA":[0,1]}',
           views=_OF_PARTITIONS),
    Option(WHAT, "topic", "topic", "NAME", values.parse_name, "topic of a directory whose own name does not say",
           without="from the directory's name",
           views=_OF_PARTITIONS),
    Option(WHAT, "partition", "partition", "N", values.parse_partition,
           "partition of a directory whose own name does not say", without="from the directory's name",
           views=_OF_PARTITIONS),
    Option(WHAT, "tieredKeys", "tiered_keys", "KEYS", values.parse_tiered_keys,
           'private keys of encrypted tiers: {"KEY ID":"PATH OF A PEM FILE"} (docs/tiered-storage.md)', without="none",
           views=values.VIEWS),
    Option(WHAT, "key", "keys", "KEY", values.parse_record_keys,
           'keep records with this key: text, bytes as 0x00ff or base64:AP8=, or several as a JSON list (docs/pushdown.md)',
           views=_WITH_RECORDS),
    Option(WHAT, "isolationLevel", "read_committed", "read_uncommitted|read_committed", values.parse_isolation_level,
           "read_uncommitted or read_committed", default="read_uncommitted"),
    Option(WHAT, "includeHeaders", "include_headers", "true|false", values.parse_boolean, "add the column headers",
           default="false",
           views=_WITH_RECORDS),
    Option(WHAT, "includeMetadata", "include_metadata", "true|false", values.parse_boolean,
           "add the column metadata: batch, file and position of each row", default="false",
           views=_WITH_RECORDS),
    Option(WHAT, "includeControl", "include_control", "true|false", values.parse_boolean,
           "keep control records, and add the column controlType: COMMIT, ABORT and others", default="false",
           views=_OF_ROWS, view_defaults={values.BATCHES: "true"}),
    Option(WHAT, "includeTombstones", "include_tombstones", "true|false", values.parse_boolean,
           "view=latest: keep the newest record of a key whose value is null", default="false",
           views=(values.NEWEST,), no_stream="a stream gives records"),
    Option(WHAT, "offsetMapBytes", "offset_map_bytes", "BYTES", values.parse_positive_bytes,
           "view=latest: memory for the keys of a partition, 40 bytes each; with more keys, the log is read more often",
           default="256m", views=(values.NEWEST,), no_stream="a stream gives records"),
    Option(WHAT, "history", "history", "true|false", values.parse_boolean,
           "consumerOffsets, shareOffsets, transactionalIds, schemas: every record and every tombstone, instead of the latest state", default="false",
           views=(values.CONSUMER_OFFSETS, values.SHARE_OFFSETS, values.TRANSACTIONAL_IDS, values.SCHEMAS), no_stream="a stream gives records"),

    Option(TYPED, "valueFormat", "value_format", "FORMAT", values.parse_format,
           f"what values are: {', '.join(values.FORMATS)}; value is a typed column then (docs/values.md)",
           default=values.BINARY, views=_WITH_RECORDS),
    Option(TYPED, "keyFormat", "key_format", "FORMAT", values.parse_format, "the same of keys", default=values.BINARY,
           views=_WITH_RECORDS),
    Option(TYPED, "schemas", "schemas", "PATH", values.parse_directory,
           "where schemas are: a log directory that holds _schemas, a directory of .avsc or .proto files, or one such file",
           without="the topic _schemas in the same paths", views=_WITH_RECORDS),
    Option(TYPED, "valueSchema", "value_schema", "SCHEMA", values.parse_name,
           "the schema that values are read as: latest, a version of TOPIC-value, id:7, subject:NAME, the path of a"
           " file, or DDL for JSON; #MESSAGE behind it names one of Protobuf", default="latest", views=_WITH_RECORDS),
    Option(TYPED, "keySchema", "key_schema", "SCHEMA", values.parse_name,
           "the same for keys and TOPIC-key", default="latest", views=_WITH_RECORDS),
    Option(TYPED, "schemaContext", "schema_context", "NAME", values.parse_name,
           "the context of the registry that ids belong to", default=".", views=_WITH_RECORDS),
    Option(TYPED, "valueMode", "value_mode", "FAILFAST|PERMISSIVE", values.parse_value_mode,
           "FAILFAST: a key or value that does not fit ends the query; PERMISSIVE: it is null, and its bytes are in the"
           " corrupt column", default="FAILFAST", views=_WITH_RECORDS),
    Option(TYPED, "columnNameOfCorruptRecord", "corrupt_column", "NAME", values.parse_name,
           "the corrupt column of valueMode=PERMISSIVE", default="_corrupt_record", views=_WITH_RECORDS),

    Option(WHEN, "since", "since", "TIME", values.parse_moment,
           "keep rows with timestamp ≥ this: ISO-8601, epoch milliseconds (not seconds), or a time ago (-2h)"),
    Option(WHEN, "until", "until", "TIME", values.parse_moment, "keep rows with timestamp < this",
           views=(*values.OF_SPLITS, *values.OF_INTERNAL_TOPICS)),
    Option(WHEN, "timeZone", "time_zone", "ZONE", values.parse_name,
           "zone of times written without one, as Spark names it: Europe/Berlin, +01:00, UTC+1", default="UTC",
           views=values.VIEWS),
    Option(WHEN, "timestampDisorder", "timestamp_disorder", "DURATION", values.parse_duration,
           "largest lateness: no record is older, by more than this, than the newest record before it in its partition"),
    Option(WHEN, "zoneMaps", "zone_maps", "DIRECTORY", values.parse_directory,
           "directory of the zone maps that `kafkaseg zonemap` makes: time bounds and keys then read little more than what matches"),
    Option(WHEN, "startingOffsets", "starting_offsets", "earliest|JSON", values.parse_offsets,
           'earliest, or JSON: {"topicA":{"0":23,"1":-2}}', default="earliest", stream_default="latest"),
    Option(WHEN, "endingOffsets", "ending_offsets", "latest|JSON", values.parse_offsets, "latest, or JSON; exclusive",
           default="latest", no_stream=_NO_END),
    Option(WHEN, "startingTimestamp", "starting_timestamp", "TIME", values.parse_moment,
           "start at the first offset with timestamp ≥ this"),
    Option(WHEN, "endingTimestamp", "ending_timestamp", "TIME", values.parse_moment,
           "end before the first offset with timestamp ≥ this", no_stream=_NO_END),
    Option(WHEN, "startingOffsetsByTimestamp", "starting_offsets_by_timestamp", "JSON",
           values.parse_offsets_by_timestamp, "the same, per partition, as JSON"),
    Option(WHEN, "endingOffsetsByTimestamp", "ending_offsets_by_timestamp", "JSON", values.parse_offsets_by_timestamp,
           "the same, per partition, as JSON", no_stream=_NO_END),
    Option(WHEN, "startingOffsetsByTimestampStrategy", "start_at_latest_if_no_match", "error|latest",
           values.parse_strategy, "what to do where no offset matches: error or latest", default="error"),
    Option(WHEN, "endAt", "end_at_high_watermark", "end|highWatermark", values.parse_end_at,
           "end: read to the end of the files; highWatermark: to the offset that replication-offset-checkpoint, beside the"
           " partition's directory, lists for it", default="end", stream_default="",
           stream_without="highWatermark where that file is, else end"),

    Option(TRUST, "failOnDataLoss", "fail_on_data_loss", "true|false", values.parse_boolean,
           "true: offsets that the files do not hold, or no longer, are an error; false: a warning", default="true",
           views=_OF_LOGS),
    Option(TRUST, "mode", "mode", "FAILFAST|DROPMALFORMED", values.parse_mode,
           "FAILFAST: a damaged batch ends the query; DROPMALFORMED: it is skipped and reported", default="FAILFAST",
           views=_OF_LOGS),
    Option(TRUST, "checkCrcs", "check_crcs", "true|false", values.parse_boolean,
           "verify each batch's CRC before believing its header", default="true",
           views=(*_OF_LOGS, *values.OF_INDEXES),
           view_defaults=dict.fromkeys((values.BATCHES, *values.OF_INDEXES, values.TRANSACTIONS), "false")),
    Option(TRUST, "trustIndexes", "trust_indexes", "true|false", values.parse_boolean,
           "false: ignore index files and walk every segment", default="true"),
    Option(TRUST, "maxBatchBytes", "max_batch_bytes", "BYTES", values.parse_batch_bytes,
           "the most that one batch may decompress to", default="256m",
           views=_OF_LOGS),

    Option(CUTTING, "minPartitions", "min_partitions", "N", values.parse_positive,
           "split large segments into at least this many Spark partitions", without="one a segment", views=_OF_ROWS),
    Option(CUTTING, "maxRecordsPerPartition", "max_records_per_partition", "N", values.parse_positive,
           "split large segments so that none has more records", without="unlimited", views=_OF_ROWS),
    Option(CUTTING, "packBytes", "pack_bytes", "BYTES", values.parse_byte_size,
           "neighbouring small segments share a Spark partition up to this size", default="64m", views=_OF_ROWS),

    Option(PACE, "maxOffsetsPerTrigger", "max_offsets_per_trigger", "N", values.parse_positive,
           "the most offsets of a micro-batch, over all partitions (Spark 4.2 or later)", without="unlimited",
           stream_only=True),
    Option(PACE, "maxBytesPerTrigger", "max_bytes_per_trigger", "BYTES", values.parse_positive_bytes,
           "the most bytes of `.log` files of a micro-batch; a single larger batch is taken alone (Spark 4.2 or later)",
           without="unlimited", stream_only=True),
    Option(PACE, "minOffsetsPerTrigger", "min_offsets_per_trigger", "N", values.parse_positive,
           "a micro-batch waits until this many offsets are there (Spark 4.2 or later)", without="1", stream_only=True),
    Option(PACE, "maxTriggerDelay", "max_trigger_delay", "DURATION", values.parse_duration,
           "the longest that minOffsetsPerTrigger waits", default="15m", stream_only=True),
)
# fmt: on

_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_ALIASES = {
    "isolation.level": "isolationlevel",
    "kafka.isolation.level": "isolationlevel",
    "check.crcs": "checkcrcs",
    "kafka.check.crcs": "checkcrcs",
    "paths": "path",
}
_MEANINGLESS = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_MEANINGLESS_KEYS = ("groupidprefix",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All options of one read, parsed: a field for each entry of `OPTIONS`. Times are absolute epoch milliseconds.

    There are no defaults here: `parse_options` gives each field the value of the text in the table.

    storage: where the files of all paths are, zone maps too. It has the options of object stores.
    typed: the columns of keys and values, where these are not bytes (`schema_registry/resolving.py`).
    table: what makes rows of splits, where it is not the table of the view (`searching/`, `statistics/`).
    """

    storage: Storage
    typed: TypedColumns | None = None
    table: SplitTable | None = None

    paths: tuple[str, ...]
    view: str
    subscribe: tuple[str, ...] | None
    subscribe_pattern: str | None
    assign: frozenset[TopicPartition] | None
    topic: str | None
    partition: int | None
    tiered_keys: TierKeys | None
    keys: frozenset[str | bytes] | None  # key; all are bytes, or all are texts of typed keys
    read_committed: bool  # isolationLevel
    include_headers: bool
    include_metadata: bool
    include_control: bool
    include_tombstones: bool
    offset_map_bytes: int
    history: bool
    value_format: str
    key_format: str
    schemas: str | None
    value_schema: str
    key_schema: str
    schema_context: str
    value_mode: str
    corrupt_column: str  # columnNameOfCorruptRecord
    since: int | None
    until: int | None
    time_zone: str
    timestamp_disorder: int | None  # ms
    zone_maps: str | None  # absolute path of a directory
    starting_offsets: dict[TopicPartition, int] | int
    ending_offsets: dict[TopicPartition, int] | int
    starting_timestamp: int | None
    ending_timestamp: int | None
    starting_offsets_by_timestamp: dict[TopicPartition, int] | None
    ending_offsets_by_timestamp: dict[TopicPartition, int] | None
    start_at_latest_if_no_match: bool  # startingOffsetsByTimestampStrategy
    end_at_high_watermark: bool | None  # endAt; None: where it is known
    fail_on_data_loss: bool
    mode: str
    check_crcs: bool
    trust_indexes: bool
    max_batch_bytes: int
    min_partitions: int | None
    max_records_per_partition: int | None
    pack_bytes: int
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay: int  # ms

    @property
    def source(self) -> Source:
        paths, topics = self.paths, self.topics
        return Source(self.storage, paths, self.topic, self.partition, topics, self.end_at_high_watermark)

    @property
    def trust(self) -> Trust:
        return Trust(self.check_crcs, self.trust_indexes, self.max_batch_bytes)

    @property
    def policy(self) -> Policy:
        disorder = None if self.include_control else self.timestamp_disorder  # it is about data records alone
        reads_control = self.include_control or self.read_committed
        return Policy(self.trust, disorder, reads_control, self.mode == DROPMALFORMED, self.fail_on_data_loss)

    @property
    def raw_keys(self) -> frozenset[bytes] | None:
        """The only stored keys that are wanted. None: any, or those of `typed_keys`."""
        if self.keys is None or self.typed_keys is not None:
            return None
        return frozenset(key for key in self.keys if isinstance(key, bytes))

    @property
    def typed_keys(self) -> frozenset[str] | None:
        """The only keys that are wanted, as texts of typed values. None: any, or those of `raw_keys`."""
        return frozenset(key for key in self.keys or () if isinstance(key, str)) or None

    def with_keys(self, pushed: frozenset[bytes] | None) -> ReadOptions:
        """Returns the read of those rows that have one of the `pushed` keys too. None: all of them."""
        if pushed is None or self.typed_keys is not None:
            return self
        return replace(self, keys=intersect_sets(self.raw_keys, pushed))

    @property
    def topics(self) -> TopicSelection:
        return TopicSelection(self.subscribe, self.subscribe_pattern, self.assign)

    @property
    def times(self) -> TimeRange:
        return TimeRange(
            MIN_TIMESTAMP if self.since is None else self.since,
            TIMESTAMP_LIMIT if self.until is None else self.until,
        )

    @property
    def starting(self) -> OffsetLimit:
        by_timestamp = self.starting_offsets_by_timestamp
        return _make_limit("starting", self.starting_timestamp, by_timestamp, self.starting_offsets)

    @property
    def ending(self) -> OffsetLimit:
        return _make_limit("ending", self.ending_timestamp, self.ending_offsets_by_timestamp, self.ending_offsets)


def _make_limit(
    side: str,
    timestamp: int | None,
    by_timestamp: dict[TopicPartition, int] | None,
    offsets: Mapping[TopicPartition, int] | int,
) -> OffsetLimit:
    """Makes the limit where a scan starts or ends, by the precedence above. side: "starting" or "ending"."""
    if timestamp is not None:
        return OffsetLimit(f"{side}Timestamp", timestamp, by_time=True)
    if by_timestamp is not None:
        return OffsetLimit(f"{side}OffsetsByTimestamp", None, by_timestamp, by_time=True)
    if isinstance(offsets, int):
        return OffsetLimit(f"{side}Offsets", offsets)
    return OffsetLimit(f"{side}Offsets", None, offsets)


def parse_options(
    given: Mapping[str, str],
    now_ms: int | None = None,
    parameters: Sequence[str] = (),
    storage: Storage | None = None,
    is_stream: bool = False,
) -> tuple[ReadOptions, Warnings]:
    """Parses option names and texts, as Spark passes them. Returns ReadOptions, and warnings of one sentence each.

    now_ms: the moment that times ago are counted from; by default the present. parameters: other parameter names of the
    caller; the error about an unknown name may suggest one of them. storage: where the files are; by default, the local
    file system and the buckets that the options of object stores lead to. is_stream: the options are those of a stream,
    not of a batch read. Raises OptionError for an unknown, malformed
    or contradictory option. Raises UnsupportedError for an option that has a meaning, but is not built.
    """
    texts, of_stores, ignored = _sort_texts(given, parameters, is_stream)
    view = find_view(texts)
    _check_view(view, texts)
    if storage is None:
        storage = make_storage(make_settings(of_stores), parse_keys(texts.get("tieredkeys", "{}")))
    try:
        zone = times.zone(texts.get("timezone", _BY_KEY["timezone"].default or ""))
    except ValueError as error:
        raise OptionError(f"option 'timeZone': {error}", options=("timeZone",)) from error
    context = Context(zone, int(time.time() * 1000) if now_ms is None else now_ms, storage)
    values = {
        option.field: _parse_value(option, texts[key], context)
        if key in texts
        else _parse_default(key, is_stream, view)
        for key, option in _BY_KEY.items()
    }
    options = _with_keys(ReadOptions(**values, storage=storage))
    _check_conflicts(options)
    return options, _make_warnings(ignored)


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


def _with_keys(options: ReadOptions) -> ReadOptions:
    """Returns the options with text keys as the bytes that are stored, where keys are bytes or text in UTF-8."""
    if options.keys is None:
        return options
    if options.key_format in values.FORMATS_OF_TEXT:
        try:
            stored = frozenset(key.encode() if isinstance(key, str) else key for key in options.keys)
        except UnicodeEncodeError as error:
            raise OptionError(
                f"option 'key' is not text in UTF-8 ({error}); write its bytes as 0x00ff", options=("key",)
            ) from error
        return replace(options, keys=stored)
    if len({type(key) for key in options.keys}) > 1:
        raise OptionError(
            f"option 'key' mixes values and bytes: under keyFormat={options.key_format} a text is compared with the typed"
            " key, and 0x… or base64:… with the stored bytes; give all keys in one form",
            options=("key", "keyFormat"),
        )
    return options


def _check_conflicts(options: ReadOptions) -> None:
    choices = {"subscribe": options.subscribe, "subscribePattern": options.subscribe_pattern, "assign": options.assign}
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) > 1:
        raise OptionError(
            f"options {' and '.join(map(repr, chosen))} exclude each other; give one", options=tuple(chosen)
        )
    since, until = options.since, options.until
    if since is not None and until is not None and since > until:
        raise OptionError(
            f"option 'since' ({times.format_millis(since)}) is after option 'until' ({times.format_millis(until)})",
            options=("since", "until"),
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
