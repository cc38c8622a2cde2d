"""Options → the typed columns of a read: which schema keys and values are read as, and which schemas wrote them.

It runs on the driver, once a read. What it returns has programs and types, and no schema's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from kafka_segment_source.errors import OptionError, PathError, SchemaError, UnsupportedError
from kafka_segment_source.kernels import avro
from kafka_segment_source.option_values import AUTO, AVRO, BINARY, JSON, PROTOBUF, STRING
from kafka_segment_source.partition.logs import listed_logs
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Formats
from kafka_segment_source.schema import RECORD_COLUMNS
from kafka_segment_source.schema_registry import registry_messages
from kafka_segment_source.schema_registry.registry import Registry, name_place
from kafka_segment_source.schema_registry.registry_messages import Schema, split_subject
from kafka_segment_source.schema_registry.schema_rows import TOPIC
from kafka_segment_source.schema_registry.sources import read_given, read_text, read_topic
from kafka_segment_source.source import Source
from kafka_segment_source.storage.files import look_at
from kafka_segment_source.storage.paths import resolve_path
from kafka_segment_source.trust import Policy
from kafka_segment_source.values.avro_columns import NoFieldError, Wanted
from kafka_segment_source.values.avro_fingerprint import fingerprint
from kafka_segment_source.values.avro_matching import check_match
from kafka_segment_source.values.avro_meaning import AvroMeaning, Writer, guid_bytes, make_avro_meaning
from kafka_segment_source.values.avro_schema import AvroError, Type, parse_schema
from kafka_segment_source.values.json_meaning import JsonMeaning
from kafka_segment_source.values.json_types import (
    TEXT,
    JsonTypeError,
    choose_fields,
    looks_like_ddl,
    parse_ddl,
    parse_json_schema,
)
from kafka_segment_source.values.misfits import ENCRYPTED
from kafka_segment_source.values.protobuf_errors import NEEDS_PROTOBUF, ProtobufError
from kafka_segment_source.values.string_meaning import StringMeaning
from kafka_segment_source.values.typed import Meaning, TypedColumns

_LATEST = "latest"
_OF_KINDS = {registry_messages.AVRO: AVRO, registry_messages.JSON_SCHEMA: JSON, registry_messages.PROTOBUF: PROTOBUF}
_VERSION = re.compile(r"[0-9]{1,9}")
_MESSAGE = re.compile(r"(.+)#([A-Za-z_][\w.]*)", re.ASCII)
_OTHER = "it is a schema of another name"
_MOST_TOPICS = 10  # in a message


@dataclass
class Choice:
    """The schema that a column is read as.

    registered: None for that of a file, or for DDL.
    message: the message of Protobuf that the option names, "" for none.
    path: of the file, "" where there is none.
    """

    text: str
    registered: Schema | None = None
    message: str = ""
    path: str = ""


def make_typed_columns(
    formats: Formats, source: Source, policy: Policy, warnings: Warnings, wanted: Mapping[str, Wanted]
) -> TypedColumns:
    """Makes the typed columns of a read: keys and values, where they are not bytes.

    Raises OptionError for a schema that is not there or cannot be used, and what reading `_schemas` raises.
    """
    corrupt = formats.corrupt_column
    if corrupt in {column.name for column in RECORD_COLUMNS}:
        raise OptionError(
            f"option 'columnNameOfCorruptRecord' is {corrupt!r}, which is a column of every read",
            options=("columnNameOfCorruptRecord",),
        )
    known = Known(formats, source, policy, warnings, wanted)
    readers: dict[str, str] = {}
    forms = {"key": formats.key, "value": formats.value}
    meanings = {name: _make_meaning(name, form, known, readers) for name, form in forms.items() if form != BINARY}
    return TypedColumns(meanings, corrupt, readers, wanted)


@dataclass
class Known:
    """The schemas of a read, read once for keys and values."""

    formats: Formats
    source: Source
    policy: Policy
    warnings: Warnings
    wanted: Mapping[str, Wanted] = field(default_factory=dict)
    _registry: Registry | None = field(default=None)
    _is_read: bool = False

    def find(self) -> Registry | None:
        """Returns the schemas. None if no option names them and the paths hold no `_schemas`."""
        if not self._is_read:
            self._is_read = True
            try:
                given, source = self.formats.schemas, self.source
                self._registry = (
                    read_topic(Source(source.storage, source.paths), self.policy, self.warnings)
                    if given is None
                    else read_given(given, source.storage, self.policy, self.warnings)
                )
            except PathError:
                if self.formats.schemas is not None:
                    raise
        return self._registry

    def need(self, column: str) -> Registry:
        registry = self.find()
        if registry is None:
            raise OptionError(
                f"option '{column}Format' needs schemas, and topic {TOPIC} is not in"
                f" {', '.join(map(repr, self.source.paths))}: say where it is by option 'schemas', or give a schema by"
                f" option '{column}Schema'",
                options=("schemas",),
            )
        return registry

    def topics(self) -> list[str]:
        """The topics that are read."""
        return sorted({log.topic for log in listed_logs(self.source, needs_all=False)})


def _make_meaning(column: str, form: str, known: Known, readers: dict[str, str]) -> Meaning:
    if form == STRING:
        return StringMeaning()
    try:
        if form == JSON and _is_json_alone(column, known):
            return JsonMeaning(choose_fields(TEXT, known.wanted.get(column, {})), _find_encrypted(known))
        choice = find_choice(column, known)
        registered = choice.registered
        form = _OF_KINDS.get(registered.kind, form) if form == AUTO and registered is not None else form
        if form == AUTO:
            raise OptionError(
                f"option '{column}Format' is auto, which reads what the registry says of a subject:"
                f" {'it says nothing of a file' if registered is None else f'{name_place(registered.place)} is {registered.kind}'}",
                options=(f"{column}Format",),
            )
        if registered is not None and _OF_KINDS.get(registered.kind) != form:
            raise OptionError(
                f"{name_place(registered.place)} is a schema of {registered.kind}, and option '{column}Format' is {form}",
                options=(f"{column}Format",),
            )
        if registered is not None and registered.place.context == known.formats.context:
            readers[column] = f"id:{registered.id}" + (f"#{choice.message}" if choice.message else "")
        if form == PROTOBUF:
            return _make_protobuf(column, choice, known)
        if form == JSON:
            if looks_like_ddl(choice.text):  # it needs no registry
                return JsonMeaning(choose_fields(parse_ddl(choice.text), known.wanted.get(column, {})))
            parsed = parse_json_schema(choice.text)
            return JsonMeaning(choose_fields(parsed, known.wanted.get(column, {})), _find_encrypted(known))
        return _make_avro(column, parse_choice(choice, known), choice.registered, known)
    except NoFieldError as error:
        raise SchemaError(f"there is no such column inside {column!r}: {error}") from error
    except (AvroError, JsonTypeError, ProtobufError) as error:
        raise OptionError(
            f"option '{column}Schema': the schema cannot be used: {error}", options=(f"{column}Schema",)
        ) from error


def _make_protobuf(column: str, choice: Choice, known: Known) -> Meaning:
    """Makes the meaning of a column of Protobuf. Raises UnsupportedError where Google's library is not installed."""
    try:
        from kafka_segment_source.schema_registry import protobuf  # noqa: PLC0415  # its library is an extra
    except ImportError as error:
        raise UnsupportedError(NEEDS_PROTOBUF) from error
    asked = protobuf.Asked(column, choice.text, choice.registered, choice.message, choice.path)
    storage, context = known.source.storage, known.formats.context
    return protobuf.make_column(asked, known.find(), storage, context, known.wanted.get(column))


def _is_json_alone(column: str, known: Known) -> bool:
    """Whether no schema is asked for, and none is there: then any JSON is its text."""
    if _find_text(column, known) != _LATEST:
        return False
    registry, context = known.find(), known.formats.context
    return registry is None or not any(
        registry.find_latest(context, f"{topic}-{column}") is not None for topic in known.topics()
    )


def _find_encrypted(known: Known) -> frozenset[int]:
    """The ids of the schemas whose values are encrypted as a whole."""
    registry, context = known.find(), known.formats.context
    return frozenset(
        () if registry is None else (schema.id for schema in registry.of_context(context) if schema.encrypts_values)
    )


def _make_avro(column: str, reader: Type, registered: Schema | None, known: Known) -> AvroMeaning:
    registry = known.find()
    make = partial(make_avro_meaning, reader=reader, wanted=known.wanted.get(column))
    if registry is None:
        return make([Writer(0, reader)], form=avro.BARE, source="the file")
    if not registry.by_id:
        return make(_make_nameless_writers(registry), form=avro.SINGLE_OBJECT, source=registry.words)
    context = known.formats.context if registered is None else registered.place.context
    writers = _make_writers(registry, context, reader, registered)
    return make(writers, form=avro.PREFIXED, source=registry.words, header_name=f"__{column}_schema_id")


# ---- the schema that values are read as ----


def _find_text(column: str, known: Known) -> str:
    """The schema that the option of a column names, without its message."""
    return _split_message(column, known)[0]


def _split_message(column: str, known: Known) -> tuple[str, str]:
    form, text = known.formats.of(column)
    match = _MESSAGE.fullmatch(text) if form in (PROTOBUF, AUTO) else None
    return (match.group(1), match.group(2)) if match else (text, "")


def find_choice(column: str, known: Known) -> Choice:
    """Finds the schema that the option of a column names. Raises OptionError, which says what to write."""
    text, message = _split_message(column, known)
    form, _ = known.formats.of(column)
    if looks_like_ddl(text):
        return Choice(text)
    prefix, colon, rest = text.partition(":")
    context = known.formats.context
    if text != _LATEST and not _VERSION.fullmatch(text) and not (colon and prefix in ("id", "subject")):
        path = resolve_path(text, known.source.storage)
        if form == JSON and look_at(path, known.source.storage) is None:
            raise OptionError(
                f"option '{column}Schema' is {text!r}: it is no file that is there, and no list of columns such as"
                " id bigint, tags array<string>",
                options=(f"{column}Schema",),
            )
        return Choice(read_text(path, known.source.storage, f"{column}Schema"), message=message, path=path)
    registry = known.need(column)
    schema: Schema | None
    if prefix == "id" and colon:
        schema = registry.find_id(context, int(rest)) if _VERSION.fullmatch(rest) else None
    elif prefix == "subject" and colon:
        schema = registry.find_latest(*split_subject(rest, context))
    else:
        schema = _choose_by_topic(column, text, registry, known)
    if schema is None:
        raise OptionError(
            f"option '{column}Schema' is {text!r}, which {registry.words} does not have: in context {context!r} it has"
            f" {registry.name_subjects(context)}",
            options=(f"{column}Schema",),
        )
    return Choice(schema.text, schema, message)


def parse_choice(choice: Choice, known: Known) -> Type:
    """Parses a schema of Avro that was chosen. Raises AvroError."""
    registry = known.find()
    if choice.registered is None or registry is None:
        return parse_schema(choice.text)
    return _parse(choice.registered, registry)


def _choose_by_topic(column: str, text: str, registry: Registry, known: Known) -> Schema | None:
    """Finds the newest version, or that of number `text`, of the subject of the topics that are read."""
    context = known.formats.context
    topics = known.topics()
    choices = {}
    for topic in topics:
        subject = f"{topic}-{column}"
        schema = (
            registry.find_latest(context, subject)
            if text == _LATEST
            else registry.find_version(context, subject, int(text))
        )
        if schema is None:
            version = "" if text == _LATEST else f" version {text}"
            raise OptionError(
                f"{registry.words} has no subject {subject}{version} in context {context!r}, but"
                f" {registry.name_subjects(context)}: name the topics to read by option 'subscribe', or what their"
                f" {column}s are by option '{column}Schema', as subject:NAME",
                options=("subscribe",),
            )
        choices[subject] = schema
    if len({(schema.kind, schema.text) for schema in choices.values()}) > 1:
        named = ", ".join(list(choices)[:_MOST_TOPICS]) + (" and others" if len(choices) > _MOST_TOPICS else "")
        raise OptionError(
            f"the topics that are read have {column}s of several schemas ({named}): name one topic by option"
            f" 'subscribe', or one schema by option '{column}Schema', as subject:NAME",
            options=("subscribe",),
        )
    return next(iter(choices.values()), None)


def _parse(schema: Schema, registry: Registry) -> Type:
    references = [reference.text for reference in registry.find_references(schema)]
    try:
        return parse_schema(schema.text, references)
    except AvroError as error:
        raise AvroError(f"{name_place(schema.place)}: {error}") from error


# ---- the schemas that values were written with ----


def _make_writers(registry: Registry, context: str, reader: Type, registered: Schema | None) -> list[Writer]:
    """Makes a writer of each schema that can be read as the chosen one. The others say why they cannot."""
    names = _names_of(reader)
    made = []
    for schema in registry.of_context(context):
        kind, why = None, ""
        if schema.kind != registry_messages.AVRO:
            why = f"it is a schema of {schema.kind}"
        elif schema.encrypts_values:
            why = ENCRYPTED
        elif registered is not None and schema.id == registered.id:
            kind = reader
        elif names and not any(name in schema.text for name in names):
            why = _OTHER
        else:
            kind, why = _parse_writer(schema, registry, reader)
        made.append(Writer(schema.id, kind, why, guid_bytes(schema.guid)))
    return made


def _names_of(reader: Type) -> Sequence[str]:
    """The names that the text of a schema has if it can be read as this one. Most registries have many others."""
    if reader.kind in ("record", "enum", "fixed"):
        return [name.rpartition(".")[2] for name in (reader.name, *reader.aliases)]
    return []


def _parse_writer(schema: Schema, registry: Registry, reader: Type) -> tuple[Type | None, str]:
    try:
        parsed = _parse(schema, registry)
        if "union" not in (parsed.kind, reader.kind):
            check_match(parsed, reader)
    except (AvroError, OptionError) as error:
        return None, str(error)
    return parsed, ""


def _make_nameless_writers(registry: Registry) -> list[Writer]:
    made = {}
    for registered in registry.by_place.values():
        parsed = _parse(registered.schema, registry)
        made[fingerprint(parsed)] = Writer(fingerprint(parsed), parsed)
    return list(made.values())
