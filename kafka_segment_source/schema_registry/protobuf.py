"""A schema of Protobuf that was chosen, and the schemas that wrote values → the meaning of a column.

Writers are known by id and message. A value is read if its message has the name of the chosen one, and no field whose
number has there a type that its bytes cannot have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_segment_source.errors import OptionError
from kafka_segment_source.reporting import name_some
from kafka_segment_source.schema_registry import registry_messages
from kafka_segment_source.schema_registry.registry import Registry, name_place
from kafka_segment_source.schema_registry.registry_messages import DEFAULT_CONTEXT, Schema, SubjectVersion
from kafka_segment_source.schema_registry.sources import read_text
from kafka_segment_source.storage.paths import join_path, name_of, parent_of
from kafka_segment_source.storage.store import Storage
from kafka_segment_source.values.avro_columns import Wanted
from kafka_segment_source.values.avro_meaning import guid_bytes
from kafka_segment_source.values.misfits import ENCRYPTED
from kafka_segment_source.values.protobuf_columns import make_columns
from kafka_segment_source.values.protobuf_errors import ProtobufError
from kafka_segment_source.values.protobuf_files import Load, ProtobufFile, load_file
from kafka_segment_source.values.protobuf_making import make_protobuf_meaning
from kafka_segment_source.values.protobuf_matching import check_match
from kafka_segment_source.values.protobuf_meaning import ProtobufMeaning, ProtobufWriter

_MOST_NAMED = 10  # messages in an error
_OTHER = "it has no message of that name"
_AMBIGUOUS = "its message indexes name one message as the registry counts them, and another as clients of Python do"


@dataclass(frozen=True)
class Asked:
    """The schema that a column is read as.

    registered: None for that of a file at `path`.
    message: "" for none.
    """

    column: str
    text: str
    registered: Schema | None
    message: str
    path: str


def make_column(
    asked: Asked, registry: Registry | None, storage: Storage, schema_context: str, wanted: Wanted | None
) -> ProtobufMeaning:
    """Makes the meaning of a column. Raises ProtobufError, NoFieldError, OptionError."""
    if asked.registered is None or registry is None:
        file = load_file(asked.text, _load_beside(asked, registry, storage))
        registered = None
    else:
        registered = asked.registered
        file = _load_registered(registered, registry)
    name = _choose_message(asked, file)
    if registry is None or not registry.by_id:
        return make_protobuf_meaning(file.files, name, None, "the file", wanted=wanted)
    context = schema_context if registered is None else registered.place.context
    reader = file.find(name)
    make_columns(reader)  # a schema that cannot be used is said before all others are parsed
    writers = [_make_writer(schema, registry, name, reader) for schema in registry.of_context(context)]
    header = f"__{asked.column}_schema_id"
    return make_protobuf_meaning(file.files, name, writers, registry.words, header, wanted)


def _choose_message(asked: Asked, file: ProtobufFile) -> str:
    names = sorted(file.messages.values())
    if asked.message:
        if asked.message not in names:
            raise ProtobufError(f"it has no message {asked.message}, but {name_some(names, _MOST_NAMED)}")
        return asked.message
    outer = [name for indexes, name in file.messages.items() if len(indexes) == 1]
    if not outer or (asked.registered is None and len(outer) > 1):
        raise ProtobufError(
            f"it has the messages {name_some(outer, _MOST_NAMED)}: name one by option '{asked.column}Schema', as"
            f" {name_of(asked.path) or asked.path}#{outer[0]}"
            if outer
            else "it has no message"
        )
    return outer[0]


# ---- imports ----


def _load_beside(asked: Asked, registry: Registry | None, storage: Storage) -> Load:
    """Imports of a file: from the files of option 'schemas', or from the directory that the file is in."""

    def load(name: str) -> str | None:
        if registry is not None and registry.is_of_files:
            return _find_by_name(name, registry)
        if not asked.path or name.startswith("/") or ".." in name.split("/") or "\\" in name or "://" in name:
            return None
        try:
            return read_text(join_path(parent_of(asked.path), name), storage, f"{asked.column}Schema")
        except OptionError:
            return None  # it may be one that every compiler knows; if not, the caller says that it is not there

    return load


def _find_by_name(name: str, registry: Registry) -> str | None:
    registered = registry.by_place.get(SubjectVersion(DEFAULT_CONTEXT, name_of(name).removesuffix(".proto"), 1))
    return None if registered is None else registered.schema.text


def _load_registered(schema: Schema, registry: Registry) -> ProtobufFile:
    imports: Mapping[str, Schema] = registry.find_imports(schema)

    def load(name: str) -> str | None:
        if name in imports:
            return imports[name].text
        return _find_by_name(name, registry) if registry.is_of_files else None

    try:
        return load_file(schema.text, load)
    except ProtobufError as error:
        raise ProtobufError(f"{name_place(schema.place)}: {error}") from error


# ---- writers ----


def _make_writer(schema: Schema, registry: Registry, name: str, reader: Any) -> ProtobufWriter:
    whys: dict[tuple[int, ...], str] = {}
    why = ""
    if schema.kind != registry_messages.PROTOBUF:
        why = f"it is a schema of {schema.kind}"
    elif schema.encrypts_values:
        why = ENCRYPTED
    elif name.rpartition(".")[2] not in schema.text and "{" in schema.text:
        why = _OTHER
    else:
        try:
            file = _load_registered(schema, registry)
            for indexes, message in file.messages.items():
                if message == name:
                    whys[indexes] = _AMBIGUOUS if indexes in file.ambiguous else ""
                    check_match(file.find(name), reader)
                elif indexes in file.ambiguous:
                    whys[indexes] = _AMBIGUOUS
                elif len(whys) < _MOST_NAMED * 10:
                    whys[indexes] = f"it is message {message}, which option 'valueSchema' can name, as latest#{message}"
        except (ProtobufError, OptionError) as error:
            whys, why = {}, str(error)
        else:
            if name not in file.messages.values():
                why = _OTHER
    return ProtobufWriter(schema.id, whys, why, guid_bytes(schema.guid))
