"""Where the schemas of a read are: a topic `_schemas`, an export of it, or files.

- A directory or a bucket that holds the topic, or its partition directory alone, whatever the topic is called.
- An export: a file with a record a line, key and value as JSON with a tab between them, as kafka-console-consumer
  prints them (`--property print.key=true`).
- A file `.avsc` or `.proto`, or a directory of such files. A file whose name is a number has the schema of that id.
  Others of Avro are known by their fingerprints, and others of Protobuf by their names, for those that import them.
"""

from __future__ import annotations

import re

from kafka_segment_source.errors import OptionError, PathError
from kafka_segment_source.internal_topics.log_records import LogRecord, TopicRead, plan_topic, read_records, take_effect
from kafka_segment_source.internal_topics.oddities import Oddities
from kafka_segment_source.option_values import TopicSelection
from kafka_segment_source.partition.logs import listed_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.schema_registry.registry import Registry
from kafka_segment_source.schema_registry.registry_messages import (
    AVRO,
    DEFAULT_CONTEXT,
    PROTOBUF,
    Schema,
    SubjectVersion,
    make_guid,
)
from kafka_segment_source.schema_registry.replay import Registered, replay
from kafka_segment_source.schema_registry.schema_rows import TOPIC
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import InputFile, list_directory, look_at
from kafka_segment_source.storage.paths import join_path, name_of
from kafka_segment_source.storage.store import Kind, Storage
from kafka_segment_source.times import format_millis
from kafka_segment_source.trust import Policy

_MOST_FILE = 256 * 1024 * 1024  # bytes of an export
_SUFFIXES = {".avsc": AVRO, ".proto": PROTOBUF}
_NUMBER = re.compile(r"[0-9]{1,10}")
_MICROS = 1000


def read_topic(source: Source, policy: Policy, warnings: Warnings, topic: str = TOPIC) -> Registry:
    """Reads the topic. Raises PathError if the source does not hold it. What it has lost is a warning."""
    read = TopicRead(source, policy.with_crcs()._replace(fail_on_data_loss=False))
    plan = plan_topic(topic, read, warnings)
    oddities = Oddities()
    state = replay(take_effect(read_records(plan, read.until), []), oddities)
    warnings += oddities.sentences()
    return _make_registry(state.everything(), topic, state.last, warnings)


def _make_registry(everything: list[Registered], words: str, last: LogRecord | None, warnings: Warnings) -> Registry:
    if last is not None and last.timestamp >= 0:
        words += f", read to offset {last.offset} of {format_millis(last.timestamp // _MICROS)}"
    elif last is not None:
        words += f", read to offset {last.offset}"
    registry = Registry.of(words, everything)
    warnings += registry.warnings
    return registry


def read_given(path: str, storage: Storage, policy: Policy, warnings: Warnings) -> Registry:
    """Reads the schemas at the path of option 'schemas'."""
    entry = look_at(path, storage)
    if entry is None:
        raise PathError(f"option 'schemas' is {path!r}: there is nothing")
    if entry.kind is Kind.FILE:
        if path.endswith(tuple(_SUFFIXES)):
            return _read_files([path], storage)
        return _read_export(path, storage, warnings)
    files = [entry.name for entry in list_directory(path, storage) if entry.name.endswith(tuple(_SUFFIXES))]
    if files:
        return _read_files([join_path(path, name) for name in sorted(files)], storage)
    logs = listed_logs(Source(storage, (path,), topics=TopicSelection(pattern=".*")), needs_all=False)
    topics = {log.topic for log in logs}
    topic = TOPIC if TOPIC in topics or len(topics) != 1 else next(iter(topics))
    return read_topic(Source(storage, (path,)), policy, warnings, topic)


def read_text(path: str, storage: Storage, what: str) -> str:
    """Reads a file of text. Raises OptionError if it is not there, or not UTF-8. what: the option that names it."""
    entry = look_at(path, storage)
    if entry is None or entry.kind is not Kind.FILE:
        raise OptionError(f"option {what!r} is {path!r}: there is no such file", options=(what,))
    with InputFile(path, storage) as file:
        data = file.read_all(_MOST_FILE + 1)
    if len(data) > _MOST_FILE:
        raise OptionError(f"option {what!r} is {path!r}: it has more than {_MOST_FILE:,} bytes", options=(what,))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OptionError(f"option {what!r} is {path!r}: it is not text in UTF-8", options=(what,)) from error


def _read_export(path: str, storage: Storage, warnings: Warnings) -> Registry:
    records = []
    for at, line in enumerate(read_text(path, storage, "schemas").splitlines()):
        key, tab, value = line.partition("\t")
        if tab:
            records.append(LogRecord(name_of(path), 0, at, -1, key.encode(), value.encode()))
    oddities = Oddities()
    state = replay(iter(records), oddities)
    if not state.by_place:
        raise OptionError(
            f"option 'schemas' is {path!r}: expected a line for each record, with key, tab and value",
            options=("schemas",),
        )
    warnings += oddities.sentences()
    return _make_registry(state.everything(), name_of(path), None, warnings)


def _read_files(paths: list[str], storage: Storage) -> Registry:
    registered: list[Registered] = []
    for path in paths:
        stem, dot, suffix = name_of(path).rpartition(".")
        number = int(stem) if _NUMBER.fullmatch(stem) else -1
        text = read_text(path, storage, "schemas")
        place = SubjectVersion(DEFAULT_CONTEXT, stem, 1)
        schema = Schema(place, number, make_guid(text), _SUFFIXES[dot + suffix], text, (), False, "")
        record = LogRecord(name_of(path), 0, len(registered), -1, None, None)
        registered.append(Registered(schema, record, is_deleted=False))
    registry = Registry(f"{len(paths):,} files", is_of_files=True)
    for entry in registered:
        registry.by_place[entry.schema.place] = entry
        if entry.schema.id >= 0:
            registry.by_id[DEFAULT_CONTEXT, entry.schema.id] = entry
    return registry
