"""Which types of a writer fit to which of a reader, and what numbers are multiplied by: Avro's "Schema Resolution"."""

from __future__ import annotations

from kafka_segment_source.values.avro_schema import AvroError, Field, Type

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def check_match(writer: Type, reader: Type) -> None:
    """Raises AvroError if values of one type cannot be read as the other. The types inside them do not count."""
    if not _matches(writer, reader):
        raise AvroError(f"{writer.label} is not {reader.label}")


def _matches(writer: Type, reader: Type) -> bool:
    if writer.kind == reader.kind:
        if writer.kind == "fixed" and writer.size != reader.size:
            return False
        return not writer.name or _has_name(writer, reader)
    return reader.kind in _PROMOTED.get(writer.kind, ())


def _has_name(writer: Type, reader: Type) -> bool:
    """Whether the unqualified names are the same, or the reader has the writer's name as an alias."""
    return _last(writer.name) == _last(reader.name) or writer.name in reader.aliases


def find_branch(writer: Type, union: Type) -> Type | None:
    """Finds the branch of a reader's union for a writer's type: one of the same name or type, or else the first that
    fits."""
    for branch in union.branches:
        if branch.kind == writer.kind and branch.name == writer.name and _matches(writer, branch):
            return branch
    return next((branch for branch in union.branches if _matches(writer, branch)), None)


def find_field(of_writer: Field, reader: Type) -> Field | None:
    for field in reader.fields:
        if field.name == of_writer.name:
            return field
    return next((field for field in reader.fields if of_writer.name in field.aliases), None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def find_factor(writer: Type, reader: Type) -> int:
    """What a number is multiplied by: 1,000 for milliseconds that are shown as microseconds."""
    if not reader.logical.endswith(("timestamp-millis", "timestamp-micros")):
        return 1
    logical = writer.logical if "timestamp" in writer.logical else reader.logical
    return 1000 if logical.endswith("millis") else 1


def is_inside(wanted: Type, of: Type) -> bool:
    """Whether a type comes inside another one, at any depth."""
    seen: set[Type] = set()
    todo = [of]
    while todo:
        for inside in _parts(todo.pop()):
            if inside is wanted:
                return True
            if inside not in seen:
                seen.add(inside)
                todo.append(inside)
    return False


def _parts(of: Type) -> list[Type]:
    return [*(field.type for field in of.fields), *of.branches, *([] if of.items is None else [of.items])]
