"""options: every option's good and bad values, what its error says, and how options go together.

Whether an option is built is read from OPTIONS: one that is not is refused, one that is must have its values below.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.errors import OptionError, UnsupportedError, UsageError
from kafka_segment_source.keywords import option_texts
from kafka_segment_source.option_table import OPTIONS, Option
from kafka_segment_source.option_values import LATEST, RECORDS, TopicSelection
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.request import Content, Cutting, Formats, Pace, ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.storage.routed import RoutedStorage
from kafka_segment_source.storage.tiered.encryption import TierKeys
from kafka_segment_source.trust import Policy, Trust

NOW = 1_773_133_200_000  # 2026-03-10T09:00:00Z
HOUR = 3_600_000


def parse(**given: str) -> ReadOptions:
    return parse_options({"path": "/x"} | given, NOW)[0]


def parse_for(option: Option, **given: str) -> ReadOptions:
    """Parses options of the kind of read that has `option`."""
    view = {} if RECORDS in option.views else {"view": option.views[0]}
    return parse_options({"path": "/x"} | view | given, NOW, is_stream=option.stream_only)[0]


# Each option, with a text that is not its default and the value of its field that the text stands for
OTHER_VALUES: dict[str, tuple[str, object]] = {
    "path": ("/y", ("/y",)),
    "subscribe": ("a,b", ("a", "b")),
    "subscribePattern": ("a.*", "a.*"),
    "assign": ('{"a":[0]}', frozenset({("a", 0)})),
    "topic": ("a", "a"),
    "partition": ("3", 3),
    "tieredKeys": ('{"k":"/keys/k.pem"}', TierKeys((("k", "/keys/k.pem"),))),
    "key": ("a", frozenset({b"a"})),
    "isolationLevel": ("read_committed", True),
    "includeHeaders": ("true", True),
    "includeMetadata": ("true", True),
    "includeControl": ("true", True),
    "history": ("true", True),
    "includeTombstones": ("true", True),
    "offsetMapBytes": ("1m", 2**20),
    "since": ("+5", 5),
    "until": ("+6", 6),
    "timeZone": ("Europe/Berlin", "Europe/Berlin"),
    "timestampDisorder": ("10s", 10_000),
    "zoneMaps": ("/maps", "/maps"),
    "startingOffsets": ('{"a":{"0":3}}', {("a", 0): 3}),
    "endingOffsets": ('{"a":{"0":4}}', {("a", 0): 4}),
    "startingTimestamp": ("+5", 5),
    "endingTimestamp": ("+6", 6),
    "startingOffsetsByTimestamp": ('{"a":{"0":1773133200000}}', {("a", 0): NOW}),
    "endingOffsetsByTimestamp": ('{"a":{"0":1773133200000}}', {("a", 0): NOW}),
    "startingOffsetsByTimestampStrategy": ("latest", True),
    "endAt": ("highWatermark", True),
    "view": ("segments", "segments"),
    "failOnDataLoss": ("false", False),
    "mode": ("DROPMALFORMED", True),
    "checkCrcs": ("false", False),
    "trustIndexes": ("false", False),
    "maxBatchBytes": ("1k", 1024),
    "minPartitions": ("7", 7),
    "maxRecordsPerPartition": ("8", 8),
    "packBytes": ("1m", 2**20),
    "maxOffsetsPerTrigger": ("9", 9),
    "maxBytesPerTrigger": ("1k", 1024),
    "minOffsetsPerTrigger": ("10", 10),
    "maxTriggerDelay": ("1h", 3_600_000),
    "valueFormat": ("avro", "avro"),
    "keyFormat": ("string", "string"),
    "schemas": ("/schemas", "/schemas"),
    "valueSchema": ("id:7", "id:7"),
    "keySchema": ("3", "3"),
    "schemaContext": (".east", ".east"),
    "valueMode": ("permissive", "PERMISSIVE"),
    "columnNameOfCorruptRecord": ("bad", "bad"),
}


PARTS = {
    "source": Source,
    "topics": TopicSelection,
    "storage": RoutedStorage,
    "content": Content,
    "formats": Formats,
    "bounds": ReadBounds,
    "policy": Policy,
    "trust": Trust,
    "cutting": Cutting,
    "pace": Pace,
}
HOLDERS = {"topics": "source.topics", "storage": "source.storage", "trust": "policy.trust"}
"""Where parts are that are no fields of ReadOptions themselves."""
NOT_OPTIONS = ["content.proves_entries", "content.typed", "policy.disorder", "policy.reads_control"]
NOT_OPTIONS += ["policy.trust", "source.storage", "source.topics", "storage.local", "storage.settings"]
FOLLOWING = {
    "includeControl": {"reads_control"},
    "isolationLevel": {"reads_control"},
    "timestampDisorder": {"disorder"},
}
"""What else of the policy follows from an option."""


def get(options: ReadOptions, field: str) -> object:
    part, _, name = field.partition(".")
    return attrgetter(f"{HOLDERS.get(part, part)}.{name}")(options)


def leaves(value: object) -> dict[str, object]:
    """The values of all parts and their parts, by the path to each."""
    fields_of = getattr(value, "_fields", None) or [
        field.name for field in (fields(value) if isinstance(value, RoutedStorage) else ())
    ]
    held = {name: getattr(value, name) for name in fields_of}
    found = {f"{name}.{path}": leaf for name, part in held.items() for path, leaf in leaves(part).items()}
    return found or {"": value}


def test_every_option_has_its_own_field() -> None:
    """Each field of the parts of ReadOptions belongs to one option, and each option to one field."""
    held = [
        f"{part}.{name}"
        for part, kind in PARTS.items()
        for name in getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    ]
    assert sorted((*(option.field for option in OPTIONS), *NOT_OPTIONS)) == sorted(held)
    assert set(ReadOptions._fields) == PARTS.keys() - HOLDERS.keys()
    assert {option.name for option in OPTIONS} == OTHER_VALUES.keys()
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_value_arrives_in_its_field(option: Option) -> None:
    """A value that is not the default changes the field of its option, and no other but what follows from it."""
    text, value = OTHER_VALUES[option.name]
    usual, changed = parse_for(option), parse_for(option, **{option.name: text})
    assert get(changed, option.field) == value != get(usual, option.field)
    before, after = leaves(usual), leaves(changed)
    others = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    part, _, name = option.field.partition(".")
    own = f"{HOLDERS.get(part, part)}.{name}."
    assert {path.split(".")[1] for path in others if not path.startswith(own)} == FOLLOWING.get(option.name, set())


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_default_is_a_text_like_any_other(option: Option) -> None:
    """An option that is given its default is as good as not given; one without a default has no value."""
    if option.default:
        assert parse_for(option, **{option.name: option.default}) == parse_for(option)
    elif option.name != "path":
        assert option.default is None and get(parse_for(option), option.field) is None


def test_parsing_opens_nothing() -> None:
    """What buckets and tiers need is opened when a file is asked for."""
    given = {"path": "s3://bucket/logs", "zoneMaps": "s3://bucket/maps", "schemas": "gs://other/schemas"}
    options = parse(**given, aws_region="here", tieredKeys='{"k":"/keys/k.pem"}', valueFormat="avro")
    assert vars(options.source.storage).keys() == {field.name for field in fields(RoutedStorage)}


# Each option of the conventions: texts that are taken, and texts that are not with what the message expects
BOOLEAN = (["true", "false", "TRUE", " False "], ["yes", "1", "", "truee"], "expected true or false")
MOMENT = (
    ["2026-03-10T09:00:00Z", "2026-03-10", "1773133200000", "-1", "-2h", "-10 minutes"],
    ["yesterday", "2h", "", "2026-02-30", "12:00"],
    "expected ISO-8601",
)
REPEATED = ['{"a":{"0":3},"a":{"1":5}}', '{"a":{"0":3,"0":7}}', '{"a":{"0":3,"00":7}}', '{"a":{"0":3,"1":4,"01":4}}']
OFFSETS_BAD = [
    "",
    "middle",
    "5",
    "[]",
    '{"a":5}',
    '{"a":{"x":5}}',
    '{"a":{"-1":5}}',
    '{"a":{"0":"5"}}',
    '{"a":{"0":-3}}',
]
OFFSETS_BAD += REPEATED
OFFSETS_BAD += ['{"a":{"0":true}}', '{"a":{"0":1.5}}', '{"a":{"0":9223372036854775808}}', '{"a":{"0":null}}', "{"]
BY_TIMESTAMP = (
    ['{"a":{"0":1773133200000}}'],
    ["", "5", "earliest", '{"a":{"0":-1}}', '{"a":{"0":"x"}}', *REPEATED],
    'expected JSON like {"topicA":{"0":1773133200000}}',
)
POSITIVE = (["1", "12", " 7 "], ["0", "-1", "1.5", "", "many", "٣"], "expected a number")
VALUES: dict[str, tuple[list[str], list[str], str]] = {
    "subscribe": (["orders", "a, b", "a,b,"], ["", " ", ","], "expected one topic name or more, separated by commas"),
    "subscribePattern": (["orders.*", "a|b"], ["(", "[a", "*"], "expected a regular expression"),
    "assign": (
        ['{"a":[0,1],"b":[2]}'],
        ["", "a", "[]", "{}", '{"a":[]}', '{"a":0}', '{"a":[-1]}', '{"a":["0"]}', '{"a":[true]}', '{"a":[0.5]}',
         '{"a":[0],"a":[1]}'],
        'expected JSON like {"topicA":[0,1],"topicB":[2]}',
    ),
    "topic": (["orders", " orders "], ["", "  "], "expected a name"),
    "partition": (["0", "12", " 3 "], ["", "-1", "x", "1.0", "٣", "2147483648"], "expected a partition number"),
    "tieredKeys": (
        ["{}", '{"key1":"/etc/keys/tier.pem"}', '{"a":"x.pem","b":" ~/y.pem "}'],
        ["", "key1", "[]", '{"a":5}', '{"a":""}', '{"a":"-----BEGIN PRIVATE KEY-----"}'],
        "expected JSON of key ids",
    ),
    "since": MOMENT,
    "until": MOMENT,
    "timeZone": (["UTC", "Europe/Berlin", " utc ", "+01:00", "GMT+1", "UTC+1"], ["Mars/Olympus", "UTC+99", "", " "], ""),
    "startingOffsets": (["earliest", "EARLIEST", '{"a":{"0":23,"1":-2}}'], OFFSETS_BAD, "expected earliest, latest, or JSON like"),
    "endingOffsets": (["latest", "Latest", '{"a":{"0":23,"1":-1}}'], OFFSETS_BAD, "expected earliest, latest, or JSON like"),
    "startingTimestamp": MOMENT,
    "endingTimestamp": MOMENT,
    "startingOffsetsByTimestamp": BY_TIMESTAMP,
    "endingOffsetsByTimestamp": BY_TIMESTAMP,
    "startingOffsetsByTimestampStrategy": (["error", "LATEST"], ["", "earliest"], "expected error or latest"),
    "key": (["a", "", "0xff", '["a","b"]', "base64:AP8="], ["0xg", "[", "[]", "base64:?"], "expected"),
    "isolationLevel": (["read_uncommitted"], ["", "committed"], "expected read_uncommitted or read_committed"),
    "includeHeaders": BOOLEAN,
    "includeMetadata": BOOLEAN,
    "includeControl": BOOLEAN,
    "history": BOOLEAN,
    "includeTombstones": BOOLEAN,
    "offsetMapBytes": (["1", "64m", "1g"], ["", "0", "-1", "lots"], "expected bytes"),
    "minPartitions": POSITIVE,
    "maxRecordsPerPartition": POSITIVE,
    "timestampDisorder": (["10s", "5 minutes", "0", "1500"], ["", "-1s", "soon", "5 parsecs"], "expected a number with a unit"),
    "failOnDataLoss": BOOLEAN,
    "mode": (["FAILFAST", "dropmalformed"], ["PERMISSIVE", "", "x"], "expected FAILFAST or DROPMALFORMED"),
    "checkCrcs": BOOLEAN,
    "trustIndexes": BOOLEAN,
    "maxBatchBytes": (
        ["1", "268435456", "256m", "1g", "64 MiB", "10KB", "1048576b"],
        ["", "0", "-1", "2g", "1.5m", "lots", "1t", "٣"],
        "expected bytes",
    ),
    "packBytes": (["0", "64m", "1g"], ["", "-1", "lots"], "expected bytes"),
    "zoneMaps": (["/tmp/maps", "file:/tmp/maps", "~/maps"], ["", " "], "expected"),
    "endAt": (["end", "highWatermark"], ["", "middle"], "expected"),
    "view": (["records", "Batches", " timeindex "], ["", "record", "batches,segments"], "expected records, batches"),
    "maxOffsetsPerTrigger": POSITIVE,
    "maxBytesPerTrigger": (["1", "64m"], ["", "0", "-1", "lots"], "expected bytes"),
    "minOffsetsPerTrigger": POSITIVE,
    "maxTriggerDelay": (["15m", "1500"], ["", "-1s", "soon"], "expected a number with a unit"),
    "valueFormat": (["binary", "Avro", " string "], ["", "parquet"], "expected binary, string, avro"),
    "keyFormat": (["binary", "JSON"], ["", "bytes"], "expected binary, string, avro"),
    "schemas": (["/tmp/schemas", "~/schemas"], ["", " "], "expected"),
    "valueSchema": (["latest", "3", "id:7", "subject:a", "/tmp/a.avsc", "id bigint"], ["", " "], "expected a name"),
    "keySchema": (["latest", "3"], ["", " "], "expected a name"),
    "schemaContext": ([".", ".east"], ["", " "], "expected a name"),
    "valueMode": (["FAILFAST", "permissive"], ["", "DROPMALFORMED"], "expected FAILFAST or PERMISSIVE"),
    "columnNameOfCorruptRecord": (["_corrupt_record", "bad"], ["", " "], "expected a name"),
}  # fmt: skip


OPTION = {option.name: option for option in OPTIONS}


def test_the_conventions_options_are_the_tables() -> None:
    """The table of options holds exactly the options promised, and path."""
    assert [option.name for option in OPTIONS if option.name not in VALUES] == ["path"]
    assert set(VALUES) <= {option.name for option in OPTIONS}
    assert all(option.help for option in OPTIONS)


@pytest.mark.parametrize("name", VALUES)
def test_good_values(name: str) -> None:
    """A well-formed value is taken, under the option's name in any case."""
    for text in VALUES[name][0]:
        for key in (name, name.lower(), name.upper()):
            assert isinstance(parse_for(OPTION[name], **{key: text}), ReadOptions)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in VALUES for text in VALUES[name][1]])
def test_bad_values(name: str, text: str) -> None:
    """A malformed value is an error that names the option, the value and what was expected."""
    with pytest.raises(OptionError) as caught:
        parse_for(OPTION[name], **{name.lower(): text})
    said = str(caught.value)
    assert f"'{name}'" in said and VALUES[name][2] in said
    assert (repr(text) in said) == (name != "tieredKeys")  # it may hold a key by mistake


PARSED = [
    ({"subscribe": "a, b"}, lambda o: o.source.topics.subscribe, ("a", "b")),
    ({"subscribePattern": "a.*"}, lambda o: o.source.topics.pattern, "a.*"),
    ({"assign": '{"a":[0,1],"b":[2]}'}, lambda o: o.source.topics.assign, {("a", 0), ("a", 1), ("b", 2)}),
    ({"topic": " a "}, lambda o: o.source.topic, "a"),
    ({"partition": "07"}, lambda o: o.source.partition, 7),
    ({"since": "2026-03-10T09:00:00Z"}, lambda o: o.bounds.times.since, NOW),
    ({"since": "2026-03-10T10:00:00", "timeZone": "Europe/Berlin"}, lambda o: o.bounds.times.since, NOW),
    ({"since": "2026-03-10T10:00:00", "timeZone": " GMT+1 "}, lambda o: o.bounds.times.since, NOW),
    ({"since": "2026-03-10T09:00:00.000000001Z"}, lambda o: o.bounds.times.since, NOW + 1),
    ({"startingTimestamp": "2026-03-10T09:00:00.0010001Z"}, lambda o: o.bounds.starting.everywhere, NOW + 2),
    ({"endingTimestamp": "+20260310"}, lambda o: o.bounds.ending.everywhere, 20_260_310),
    ({"until": "-2h"}, lambda o: o.bounds.times.until, NOW - 2 * HOUR),
    ({"until": "0"}, lambda o: o.bounds.times.until, 0),
    ({"includeHeaders": "TRUE"}, lambda o: o.content.include_headers, True),
    ({"includeMetadata": "true"}, lambda o: o.content.include_metadata, True),
    ({"checkCrcs": "false"}, lambda o: o.policy.trust.check_crcs, False),
    ({"check.crcs": "false"}, lambda o: o.policy.trust.check_crcs, False),
    ({"kafka.check.crcs": "false"}, lambda o: o.policy.trust.check_crcs, False),
    ({"mode": "dropMalformed"}, lambda o: o.policy.drop_malformed, True),
    ({"maxBatchBytes": "64 MiB"}, lambda o: o.policy.trust.max_batch_bytes, 64 * 2**20),
    ({"maxBatchBytes": "10kb"}, lambda o: o.policy.trust.max_batch_bytes, 10 * 2**10),
    ({"isolation.level": "read_uncommitted"}, lambda o: o.source.paths, ("/x",)),
    ({"kafka.isolation.level": "READ_UNCOMMITTED"}, lambda o: o.source.paths, ("/x",)),
]


@pytest.mark.parametrize(("texts", "of", "wanted"), PARSED, ids=[str(row[0]) for row in PARSED])
def test_what_values_mean(texts: dict[str, str], of: Any, wanted: object) -> None:
    """Text becomes the value it stands for."""
    assert of(parse(**texts)) == wanted


def test_defaults() -> None:
    """With a path alone: everything, uncommitted too, CRCs checked, damage an error, no added columns."""
    options = parse()
    assert (options.source.paths, options.source.topic, options.source.partition) == (("/x",), None, None)
    assert (options.source.topics.subscribe, options.source.topics.pattern, options.source.topics.assign) == (
        None,
        None,
        None,
    )
    assert not (options.bounds.times.has_since or options.bounds.times.has_until)
    assert (options.content.include_headers, options.content.include_metadata) == (False, False)
    assert (
        options.policy.trust.check_crcs,
        options.policy.drop_malformed,
        options.policy.trust.max_batch_bytes,
    ) == (
        True,
        False,
        256 * 2**20,
    )


def test_offsets_per_partition() -> None:
    """A map gives each partition its own number; a word holds for all of them."""
    options = parse(startingOffsets='{"a":{"0":23,"1":-2}}', endingOffsets="latest")
    assert (
        options.bounds.starting.at(("a", 0)),
        options.bounds.starting.at(("a", 1)),
        options.bounds.ending.at(("b", 9)),
    ) == (23, -2, -1)
    with pytest.raises(KeyError):
        options.bounds.starting.at(("b", 0))


@given(when=st.integers(-(10**20), 10**20))
@pytest.mark.parametrize("name", ["since", "until"])
def test_times_past_64_bits(name: str, when: int) -> None:
    """A time past 64 bits is as good as the last that fits: it never breaks arithmetic further on."""
    times = parse(**{name: f"{when:+d}"}).bounds.times
    assert -(2**63) <= times.since <= 2**63 and -(2**63) <= times.until <= 2**63
    if -(2**63) <= when < 2**63:
        assert (times.since if name == "since" else times.until) == when


@pytest.mark.parametrize("name", ["since", "until", "startingTimestamp", "endingTimestamp"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("20260310", "as epoch milliseconds that is 1970-01-01T05:37:40.310Z; write 2026-03-10 or 1773100800000 if"),
        ("2026", "as epoch milliseconds that is 1970-01-01T00:00:02.026Z; write 2026-01-01 or 1767225600000 if"),
        ("1773133200", "is 1970-01-21T12:32:13.200Z; write 2026-03-10T09:00:00Z or 1773133200000 if"),
    ],
)
def test_numbers_that_would_be_of_1970(name: str, text: str, said: str) -> None:
    """A date or epoch seconds in place of milliseconds is an error that says what to write instead."""
    with pytest.raises(OptionError) as caught:
        parse(**{name: text})
    assert str(caught.value).startswith(f"option '{name}' is '{text}': ") and said in str(caught.value)


@pytest.mark.parametrize("name", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
@pytest.mark.parametrize("seconds", [1_773_133_200, 20_260_310])
def test_seconds_of_a_partition(name: str, seconds: int) -> None:
    """So is one in a map of partitions, which takes nothing but milliseconds."""
    with pytest.raises(
        OptionError, match=f"partition a-1 has {seconds}, which as epoch milliseconds is 1970"
    ) as caught:
        parse(**{name: json.dumps({"a": {"0": NOW, "1": seconds}})})
    assert f"; write {NOW if seconds > 10**9 else NOW - 9 * HOUR} if 2026-03-10" in str(caught.value)


def test_a_repeated_key_is_named() -> None:
    """Of a key that is there twice one value would be lost: the error says which key."""
    with pytest.raises(OptionError, match="'t' is there twice"):
        parse(assign='{"t":[0],"t":[1]}')
    with pytest.raises(OptionError, match="topic 't' has partition 0 twice"):
        parse(startingOffsets='{"t":{"0":3,"00":7}}')
    with pytest.raises(OptionError, match="'0' is there twice"):
        parse_options(option_texts("/x", {"startingOffsets": {"t": {"0": 3, 0: 7}}}), NOW)


# --- names -----------------------------------------------------------------------------------------------------------

UNKNOWN = {
    "startingOffset": "startingOffsets",
    "starting_offsets": "startingOffsets",
    "chekCrcs": "checkCrcs",
    "Subscribed": "subscribe",
    "includeHeader": "includeHeaders",
    "timezones": "timeZone",
    "untill": "until",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_options(name: str) -> None:
    """An unknown option is an error that repeats the name as given and suggests the nearest."""
    with pytest.raises(OptionError, match=f"^option '{name}' is unknown; did you mean '{UNKNOWN[name]}'\\?$"):
        parse(**{name: "x"})


def test_unknown_options_far_from_all() -> None:
    """Where nothing is near, nothing is suggested."""
    with pytest.raises(OptionError, match=r"^option 'qqqq' is unknown$"):
        parse(qqqq="x")


def test_an_unknown_name_may_be_near_a_parameter() -> None:
    """A caller's own parameters are suggested as well."""
    with pytest.raises(OptionError, match=r"^option 'column' is unknown; did you mean 'columns'\?$"):
        parse_options({"path": "/x", "column": "[]"}, NOW, parameters=("columns",))
    with pytest.raises(OptionError, match="did you mean 'includeHeaders'"):
        parse_options({"path": "/x", "includeHeader": "true"}, NOW, parameters=("columns",))


def test_one_option_under_two_spellings() -> None:
    """The same option given twice is an error if the values differ, and fine if they do not."""
    with pytest.raises(OptionError, match="option 'checkCrcs' is given twice, as 'true' and 'false'"):
        parse(checkCrcs="true", CHECKCRCS="false")
    with pytest.raises(OptionError, match="option 'checkCrcs' is given twice"):
        parse(**{"checkCrcs": "true", "check.crcs": "false"})
    assert not parse(mode="FAILFAST", Mode="FAILFAST").policy.drop_malformed


MEANINGLESS = ["kafka.bootstrap.servers", "kafka.security.protocol", "groupIdPrefix", "fetchOffset.numRetries"]
MEANINGLESS += ["kafkaConsumer.pollTimeoutMs"]
OF_STREAMS = ["maxOffsetsPerTrigger", "minoffsetspertrigger", "maxTriggerDelay", "maxBytesPerTrigger"]


def test_options_without_a_meaning_here() -> None:
    """A broker's and a stream's options are accepted in a batch read, with one warning each that names them all."""
    options, warnings = parse_options(
        {"path": "/x", **dict.fromkeys(MEANINGLESS, "1"), **dict.fromkeys(OF_STREAMS, "x")}, NOW
    )
    assert options == parse()
    of_brokers, of_streams = warnings
    assert all(name in of_brokers for name in MEANINGLESS) and "ignored" in of_brokers
    assert all(name in of_streams for name in OF_STREAMS) and "are for streams" in of_streams
    assert parse_options({"path": "/x"}, NOW)[1] == []


def test_options_of_streams() -> None:
    """A stream has no end. It starts at the end of the logs, and ends where the high watermark is known."""
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(OptionError, match=f"option '{name}' is not for streams: a stream has no end"):
            parse_options({"path": "/x", name.lower(): "latest"}, NOW, is_stream=True)
    options = parse_options({"path": "/x"}, NOW, is_stream=True)[0]
    batch = parse()
    assert options == batch._replace(
        bounds=batch.bounds._replace(starting_offsets=LATEST), source=batch.source._replace(end_at_high_watermark=None)
    )
    assert parse_options({"path": "/x", "endAt": "end"}, NOW, is_stream=True)[0].source.end_at_high_watermark is False
    with pytest.raises(OptionError, match="option 'path' is missing"):
        parse_options({}, NOW, is_stream=True)


def test_zone_maps_elsewhere() -> None:
    """They may be in a bucket. What another file system holds is refused, by the option's name."""
    assert parse(zoneMaps="s3a://maps/a/").bounds.zone_maps == "s3://maps/a"
    with pytest.raises(UnsupportedError, match="option 'zoneMaps': path 'hdfs:/maps': HDFS is not read"):
        parse(zoneMaps="hdfs:/maps")


def test_read_committed_under_each_of_its_names() -> None:
    """Kafka's own names of the setting are taken as well."""
    for name in ("isolationLevel", "isolation.level", "kafka.isolation.level"):
        assert parse(**{name: "read_committed"}).content.read_committed


# --- together --------------------------------------------------------------------------------------------------------

TOGETHER: list[tuple[dict[str, str], str]] = [
    ({"subscribe": "a", "assign": '{"a":[0]}'}, "options 'subscribe' and 'assign' exclude each other; give one"),
    ({"subscribe": "a", "subscribePattern": "a"}, "options 'subscribe' and 'subscribePattern' exclude each other"),
    ({"assign": '{"a":[0]}', "subscribePattern": "a"}, "options 'subscribePattern' and 'assign' exclude each other"),
    (
        {"since": "2026-03-10T09:00:00.001Z", "until": "2026-03-10T09:00:00Z"},
        "option 'since' (2026-03-10T09:00:00.001Z) is after option 'until' (2026-03-10T09:00:00.000Z)",
    ),
]


@pytest.mark.parametrize(("texts", "said"), TOGETHER, ids=[str(list(row[0].items())) for row in TOGETHER])
def test_options_that_contradict(texts: dict[str, str], said: str) -> None:
    """Options that exclude each other, or leave nothing to read by a slip, are an error that names them."""
    with pytest.raises(OptionError) as caught:
        parse(**texts)
    assert str(caught.value).startswith(said)


def test_rules_of_batch_reads_are_not_of_parsing() -> None:
    """Other reads may start at the end: the texts mean what they say (see test_batch_rules)."""
    assert parse(startingOffsets="latest").bounds.starting.everywhere == -1
    assert parse(endingOffsets="earliest").bounds.ending.everywhere == -2


def test_an_empty_window_is_no_error() -> None:
    """since = until is an empty window, as it is for a filter."""
    assert parse(since="5", until="5").bounds.times.is_empty


def test_the_path_is_required() -> None:
    """No path, or an empty one, is an error that says what to give."""
    for given_options in ({}, {"path": ""}, {"path": "  "}):
        with pytest.raises(OptionError, match="option 'path' is missing: give load"):
            parse_options(given_options, NOW)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a/b", ("/a/b",)),
        ('["/a","/b c"]', ("/a", "/b c")),
        ("[abc]*", ("[abc]*",)),
        ('["/a", 5]', ('["/a", 5]',)),
        ("[]x", ("[]x",)),
        ('["/a", null]', ('["/a", null]',)),
        (" /a ", (" /a ",)),
    ],
)
def test_paths(text: str, paths: tuple[str, ...]) -> None:
    """Several paths arrive as a JSON list; what only looks like one is a path."""
    assert parse_options({"path": text}, NOW)[0].source.paths == paths
    if text.startswith("[") and len(paths) > 1:
        assert parse_options({"paths": text}, NOW)[0].source.paths == paths


def test_a_list_without_a_path() -> None:
    """load([]) is told that it gave no path, and an empty path in a list is pointed at."""
    for given_path in ("[]", " [ ] ", option_texts([], {})["path"]):
        with pytest.raises(OptionError, match="option 'path' is an empty list: no path was given"):
            parse_options({"path": given_path}, NOW)
    with pytest.raises(OptionError, match="one of its paths is empty"):
        parse_options(option_texts(["/a", ""], {}), NOW)


@given(texts=st.dictionaries(st.sampled_from([option.name for option in OPTIONS]), st.text(max_size=12), max_size=3))
def test_any_text(texts: Mapping[str, str]) -> None:
    """Whatever text an option is given, it is taken or refused by an error of ours."""
    with contextlib.suppress(UsageError):
        parse_options(texts, NOW)


def test_a_view_has_its_own_defaults_and_options() -> None:
    """Batches come with control batches and without CRCs. An option that a view does not take is refused in words."""
    batches, _ = parse_options({"path": "/x", "VIEW": "Batches"})
    assert (batches.content.view, batches.content.include_control, batches.policy.trust.check_crcs) == (
        "batches",
        True,
        False,
    )
    records, _ = parse_options({"path": "/x"})
    assert (records.content.view, records.content.include_control, records.policy.trust.check_crcs) == (
        "records",
        False,
        True,
    )
    asked, _ = parse_options({"path": "/x", "view": "batches", "checkCrcs": "true", "includeControl": "false"})
    assert (asked.content.include_control, asked.policy.trust.check_crcs) == (False, True)
    with pytest.raises(OptionError, match=r"option 'since' is not for view=segments, which takes path, subscribe"):
        parse_options({"path": "/x", "view": "segments", "since": "0"})
    with pytest.raises(OptionError, match="option 'includeHeaders' is not for view=batches"):
        parse_options({"path": "/x", "view": "batches", "includeHeaders": "true"})
    with pytest.raises(OptionError, match="option 'view' is not for streams: a stream gives records"):
        parse_options({"path": "/x", "view": "batches"}, is_stream=True)
