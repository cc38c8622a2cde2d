"""What an export needs of a table: how far it came, and one commit of files together with the next offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from kafka_segment_source.errors import OptionError
from kafka_segment_source.exporting.data_files import DataFile, Part
from kafka_segment_source.exporting.target_errors import TargetError
from kafka_segment_source.streams.positions import Positions, from_json, to_json

FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True)
class State:
    """How far a table came.

    positions: the next offset of each partition.
    topic_ids: of the topics, where known.
    """

    positions: Positions
    topic_ids: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """The state as every format keeps it."""
        return {"offsets": to_json(self.positions), "topicIds": dict(sorted(self.topic_ids.items()))}


def parse_state(value: object, where: str) -> State:
    """Reads what `State.to_json` made. Raises TargetError for anything else. where: names the table."""
    try:
        assert isinstance(value, dict)
        ids = value["topicIds"]
        assert isinstance(ids, dict)
        return State(from_json(value["offsets"]), {str(topic): str(topic_id) for topic, topic_id in ids.items()})
    except (AssertionError, KeyError, OptionError) as error:
        shown = json.dumps(value, default=str)[:200]
        raise TargetError(
            f"{where} does not say which offsets it holds: found {shown}, expected the offsets of an export"
        ) from error


class ExportTable(Protocol):
    """A table that an export adds to.

    where: what errors call it.
    keeps_parts: whether its files have the columns that the table is divided by.
    """

    where: str
    keeps_parts: bool

    def find_location(self) -> str:
        """Returns the path or URL that its files are below. `catalog:` if only the catalog knows."""

    def read_state(self) -> State | None:
        """Returns how far the table came, or None if there is none yet. Raises TargetError for a table of others.

        Nothing is written.
        """

    def finish_last_run(self) -> None:
        """Finishes what a run that died has begun, after `read_state`."""

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises TargetError if the table cannot take rows of this schema. Nothing is written."""

    def open_file(self, name: str) -> IO[bytes]:
        """Opens a new file of the table. It is no part of the table before it is committed."""

    def commit(self, files: Sequence[DataFile], state: State) -> None:
        """Adds files and the next offsets, in one step. Raises TargetError if somebody else changed the table."""


def describe_columns(columns: pa.Schema | pa.StructType, above: str = "") -> dict[str, str]:
    """Returns the types of columns in words, and of their fields: `value.customer` for a field of a struct."""
    described: dict[str, str] = {}
    for column in columns:
        name = above + column.name
        if pa.types.is_struct(column.type):
            described |= {name: "struct", **describe_columns(column.type, f"{name}.")}
        else:
            described[name] = _name_type(column.type)
    return described


def _name_type(kind: pa.DataType) -> str:
    """Names a type. Arrow names the elements of lists, and the views of bytes, in several ways."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_name_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_name_type(kind.key_type)}, {_name_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_name_type(field.type)}' for field in kind)}>"
    return str(kind).replace("large_", "").replace("_view", "")


def check_columns(there: Mapping[str, str], wanted: Mapping[str, str], where: str, can_add: bool) -> None:
    """Raises TargetError if a table lacks columns of the rows, or has them with another type.

    Both are from `describe_columns`. can_add: whether a user can add columns to the table.
    """
    missing = [name for name in wanted if name not in there]
    ways = "add it to the table, " if can_add else ""
    if missing and missing[0].partition(".")[0] in there:
        option = "keySchema" if missing[0].startswith("key.") else "valueSchema"
        raise TargetError(
            f"{where} has no field {', '.join(missing)}, which the schema has now:"
            f" {ways}give the schema of the earlier runs by option '{option}', or export to a new target"
        )
    if missing:
        raise TargetError(
            f"{where} has no column {', '.join(missing)}, which these options give:"
            f" {ways}leave out the option that adds it, or export to a new target"
        )
    other = [name for name in wanted if there[name] != wanted[name]]
    if other:
        raise TargetError(
            f"{where} has the column {other[0]} as {there[other[0]]}, and this run gives {wanted[other[0]]}: export to a"
            " new target"
        )


def name_parts(parts: Sequence[Part]) -> str:
    """The rules as a user writes them."""
    return (
        ", ".join(part.column if part.column == part.of else f"{part.column}({part.of})" for part in parts) or "nothing"
    )
