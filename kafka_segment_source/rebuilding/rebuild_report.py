"""What a rebuild has done: the partitions that it wrote, and what it left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a rebuilt log does not hold, or holds unfinished.

    kind: `missing offsets`, `damage`, `torn end`, `unended transaction` or `open transaction`. The last one is kept, as
    a log may end so.
    first_offset, last_offset: inclusive; None where it is not known.
    path, position, bytes: where it is in the source, or None.
    why: one sentence.
    """

    kind: str
    first_offset: int | None
    last_offset: int | None
    why: str
    path: str | None = None
    position: int | None = None
    bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        names = {"first_offset": "firstOffset", "last_offset": "lastOffset"}
        return {names.get(field.name, field.name): getattr(self, field.name) for field in fields(self)}


def parse_left_out(values: Mapping[str, Any]) -> LeftOut:
    """Makes it again from what `LeftOut.to_dict` returned."""
    names = {"firstOffset": "first_offset", "lastOffset": "last_offset"}
    return LeftOut(**{names.get(name, name): value for name, value in values.items()})


@dataclass(frozen=True, slots=True)
class RebuiltPartition:
    """One partition of the target.

    directory: its path.
    topic_id: of its `partition.metadata`, or None.
    start_offset, end_offset: of its log, half-open.
    records: of data batches; None if wrappers of magic 0 or 1 do not say it.
    bytes: of its `.log` files.
    sources: the directories that it was read from.
    """

    topic: str
    partition: int
    directory: str
    topic_id: str | None
    start_offset: int
    end_offset: int
    segments: int
    batches: int
    records: int | None
    bytes: int
    sources: tuple[str, ...]
    left_out: tuple[LeftOut, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "directory": self.directory,
            "topicId": self.topic_id,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "sources": list(self.sources),
            "leftOut": [item.to_dict() for item in self.left_out],
        }


@dataclass(frozen=True)
class RebuildReport:
    """The result of `rebuild`. It is `rebuild.json` too.

    target: the directory that was written.
    partitions: by topic and partition.
    warnings: of the read, one sentence each.
    """

    target: str
    partitions: tuple[RebuiltPartition, ...]
    warnings: tuple[str, ...]

    @property
    def batches(self) -> int:
        return sum(partition.batches for partition in self.partitions)

    @property
    def records(self) -> int | None:
        """Of all partitions; None if one of them does not say it."""
        counts = [partition.records for partition in self.partitions if partition.records is not None]
        return sum(counts) if len(counts) == len(self.partitions) else None

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)

    @property
    def left_out(self) -> tuple[tuple[str, LeftOut], ...]:
        """What is left out, each with the name of its partition."""
        return tuple((f"{part.topic}-{part.partition}", item) for part in self.partitions for item in part.left_out)

    def to_dict(self) -> dict[str, Any]:
        """The report as `kafkaseg rebuild --json` prints it."""
        return {
            "target": self.target,
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "partitions": [partition.to_dict() for partition in self.partitions],
            "warnings": list(self.warnings),
        }
