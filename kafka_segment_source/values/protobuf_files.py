"""A `.proto` file and what it imports → the descriptor of a message.

Google's library resolves names and checks numbers. What every compiler knows need not be given: `google/protobuf/*`
comes with that library, `google/type/*` with googleapis-common-protos, and two files of Confluent's are here
(`ProtobufSchema.KNOWN_DEPENDENCIES` of the Schema Registry).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool

from kafka_segment_source.values.avro_schema import shorten
from kafka_segment_source.values.protobuf_errors import ProtobufError
from kafka_segment_source.values.protobuf_text import parse_file

_MOST_FILES = 1000
_MOST_DEPTH = 64  # of imports
_MOST_MESSAGES = 10_000  # of one file
_KNOWN = re.compile(r"(google/(?:protobuf|type)/\w+)\.proto", re.ASCII)
_OF_CONFLUENT = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',  # options alone, which are passed over
    "confluent/type/decimal.proto": (
        'syntax = "proto3"; package confluent.type;'
        " message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
    ),
}

Load = Callable[[str], str | None]
"""Returns the text of an import path, None where nobody has it."""


@dataclass(frozen=True)
class ProtobufFile:
    """A file with all that it imports.

    files: descriptors as bytes, each after those that it imports; the file itself comes last. package: "" for none.
    messages: for each message its full name, by its indexes as the Schema Registry counts them.
    ambiguous: indexes that name another message where a client counts the entries of maps too, as that of Python does.
    """

    files: tuple[bytes, ...]
    messages: Mapping[tuple[int, ...], str]
    ambiguous: frozenset[tuple[int, ...]]

    def find(self, name: str) -> Any:
        """Returns the descriptor of a message, and with it its pool."""
        return find_message(self.files, name)

    @property
    def first(self) -> str | None:
        """The name of the first message, which is that of a subject if nothing else is said."""
        return self.messages.get((0,))


def load_file(text: str, load: Load) -> ProtobufFile:
    """Parses a file and what it imports, and resolves its names. Raises ProtobufError."""
    made: dict[str, Any] = {}
    root = _add(text, "schema.proto", load, made, ())
    files = tuple(file.SerializeToString() for file in made.values())
    _make_pool(files)
    messages: dict[tuple[int, ...], str] = {}
    others: dict[tuple[int, ...], str] = {}
    _number(root.message_type, root.package, (), (), messages, others)
    if len(messages) > _MOST_MESSAGES:
        raise ProtobufError(f"it has more than {_MOST_MESSAGES:,} messages")
    ambiguous = frozenset(indexes for indexes, name in others.items() if messages.get(indexes, name) != name)
    return ProtobufFile(files, messages, ambiguous)


def find_message(files: Sequence[bytes], name: str) -> Any:
    """Returns the descriptor of a message. Raises ProtobufError if it is not there."""
    try:
        return _make_pool(files).FindMessageTypeByName(name)
    except KeyError as error:
        raise ProtobufError(f"it has no message {name}") from error


def _add(text: str, name: str, load: Load, made: dict[str, Any], inside: tuple[str, ...]) -> Any:
    if name in inside:
        raise ProtobufError(f"{shorten(name)} imports itself")
    if len(inside) > _MOST_DEPTH or len(made) > _MOST_FILES:
        raise ProtobufError(f"its imports are more than {_MOST_FILES:,}, or more than {_MOST_DEPTH} deep")
    parsed = parse_file(text, name)
    for needed in parsed.dependency:
        if needed in made:
            continue
        file = load(needed)
        if file is None:
            file = _OF_CONFLUENT.get(needed)
        if file is not None:
            _add(file, needed, load, made, (*inside, name))
        elif not _add_known(needed, made):
            raise ProtobufError(f"it imports {shorten(needed)}, which is not among its references or beside it")
    made[name] = parsed
    return parsed


def _add_known(name: str, made: dict[str, Any]) -> bool:
    """Adds a file that Google's packages have, and what it imports."""
    match = _KNOWN.fullmatch(name)
    if match is None:
        return False
    try:
        module = importlib.import_module(match.group(1).replace("/", ".") + "_pb2")
    except ImportError as error:
        if name.startswith("google/type/"):
            raise ProtobufError(f"it imports {name}: pip install googleapis-common-protos") from error
        return False
    _add_compiled(module.DESCRIPTOR, made)
    return True


def _add_compiled(file: Any, made: dict[str, Any]) -> None:
    for dependency in file.dependencies:
        _add_compiled(dependency, made)
    if file.name not in made:
        made[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)


def _make_pool(files: Sequence[bytes]) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        try:
            pool.AddSerializedFile(file)
        except (TypeError, ValueError, KeyError) as error:
            raise ProtobufError(shorten(str(error).rpartition("descriptor pool: ")[2])) from error
    return pool


def _number(  # two counts at once
    listed: Any,
    scope: str,
    place: tuple[int, ...],
    other: tuple[int, ...],
    messages: dict[tuple[int, ...], str],
    others: dict[tuple[int, ...], str],
) -> None:
    """Numbers messages as the registry does, which leaves out the entries of maps, and as descriptors do."""
    count = 0
    for at, message in enumerate(listed):
        name = f"{scope}.{message.name}" if scope else message.name
        others[(*other, at)] = name
        if message.options.map_entry:
            continue
        messages[(*place, count)] = name
        _number(message.nested_type, name, (*place, count), (*other, at), messages, others)
        count += 1
