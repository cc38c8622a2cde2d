"""What an export needs of a table: how far it came, and one commit of files together with the next offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa

from kafka_segment_source.errors import OptionError, UsageError
from kafka_segment_source.exporting.data_files import DataFile, Part
from kafka_segment_source.option_values import TopicPartition
from kafka_segment_source.streams.positions import Positions, from_json, to_json

FORMATS = ("parquet", "delta", "iceberg")


class TargetError(UsageError):
    """The target of an export does not fit: it is no table of exports, or it has changed meanwhile."""


@dataclass(frozen=True)
class State:
    """How far a table came. positions: the next offset of each partition. topic_ids: of the topics, where known."""

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
    """A table that an export adds to. keeps_parts: whether its files have the columns that the table is divided by."""

    keeps_parts: bool

    def read_state(self) -> State | None:
        """Returns how far the table came, or None if there is none yet. Raises TargetError for a table of others."""

    def check_schema(self, schema: pa.Schema) -> None:
        """Raises TargetError if the table cannot take rows of this schema."""

    def open_file(self, name: str) -> IO[bytes]:
        """Opens a new file of the table. It is no part of the table before it is committed."""

    def commit(self, files: Sequence[DataFile], state: State, before: State | None) -> None:
        """Adds files and the next offsets, in one step. Raises TargetError if somebody else changed the table."""


def check_columns(there: Mapping[str, str], wanted: Mapping[str, str], where: str) -> None:
    """Raises TargetError if a table lacks columns of the rows, or has them with another type. Types are in words."""
    missing = [name for name in wanted if name not in there]
    if missing:
        raise TargetError(
            f"{where} has no column {', '.join(missing)}, which these options give: add it to the table, leave out the"
            " option that adds it, or export to a new target"
        )
    other = [name for name in wanted if there[name] != wanted[name]]
    if other:
        raise TargetError(
            f"{where} has the column {other[0]} as {there[other[0]]}, and these options give {wanted[other[0]]}: export"
            " to a new target"
        )


def explain_race(where: str) -> TargetError:
    """The error of two exports into one table at a time."""
    return TargetError(f"{where} was changed by somebody else during this run: nothing was added; run it again")


def name_parts(parts: Sequence[Part]) -> str:
    """The rules as a user writes them."""
    return ", ".join(part.column if part.column == part.of else f"{part.column}({part.of})" for part in parts) or "none"


def key_text(key: TopicPartition) -> str:
    """`orders-0`."""
    return f"{key[0]}-{key[1]}"
