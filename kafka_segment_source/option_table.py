"""The options of a read: each has one entry in `OPTIONS`.

The table is the source for the defaults of a read, the flags of the command line and the documentation. It says which
options a stream has, and which only a stream has. Other rules for one kind of read are elsewhere: those of a batch read
are in `planning/batch_queries.py`, those of a stream in `streams/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka_segment_source import option_values as values
from kafka_segment_source.option_values import Context

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
