"""Rows → Parquet files of about one size, each in the part of a table that its rows belong to (`by`)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_segment_source.errors import OptionError, UnsupportedError
from kafka_segment_source.exporting.target_errors import foreign_errors

_ROW_GROUP = 16 * 1024 * 1024  # bytes of rows in memory
_PIECES = 4  # a file has at least so many row groups, so that it ends near its size
_MOST_OPEN = 64  # files at once; with more parts than this, the largest file is closed early
_NAME = re.compile(r"kafkaseg-[0-9a-f]{32}\.parquet")
BY_RULES = "topic, partition, day(timestamp) or hour(timestamp)"  # as texts list them
_BY = re.compile(r"(topic|partition)|(day|hour)\(timestamp\)")


@dataclass(frozen=True)
class Part:
    """One rule of `by` (BY_RULES).

    column: the name in paths and partition values, as in `day=2026-03-10`.
    of: the column that it comes from.
    """

    column: str
    of: str

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the partition column."""
        return {"topic": pa.string(), "partition": pa.int32(), "day": pa.date32(), "hour": pa.string()}[self.column]

    def find_texts(self, rows: pa.RecordBatch) -> pa.Array:
        """Returns the value of each row, as paths have it."""
        if self.column == "day":
            return pc.strftime(rows["timestamp"], "%Y-%m-%d")
        if self.column == "hour":
            return pc.strftime(rows["timestamp"], "%Y-%m-%dT%H")
        return rows[self.of].cast(pa.string())


def parse_by(rules: Sequence[str]) -> tuple[Part, ...]:
    """Parses the rules of `by`. Raises OptionError for an unknown one, and for one that is given twice."""
    parts = []
    for rule in rules:
        known = _BY.fullmatch(rule.replace(" ", ""))
        if known is None:
            raise OptionError(f"by is {rule!r}: expected {BY_RULES}")
        parts.append(Part(known[1], known[1]) if known[1] else Part(known[2], "timestamp"))
    if len(set(parts)) < len(parts):
        raise OptionError(f"by names {', '.join(rules)}: each rule once")
    return tuple(parts)


def is_ours(name: str) -> bool:
    """Whether a file's name is one that `DataFiles` gives."""
    return _NAME.fullmatch(name.rpartition("/")[2]) is not None


@dataclass(frozen=True)
class DataFile:
    """A file that is whole.

    name: below the table.
    values: of the parts, by column.
    """

    name: str
    rows: int
    size: int
    values: Mapping[str, str]


class FilePlace(Protocol):
    """Where a table takes its files.

    where: what errors call it.
    """

    where: str

    def open_file(self, name: str) -> IO[bytes]:
        """Opens a new file of the table."""


@dataclass
class _Open:
    """A file that is being written.

    waiting: rows that do not fill a row group yet.
    """

    name: str
    values: Mapping[str, str]
    stream: IO[bytes]
    sink: _Counted
    writer: pq.ParquetWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0

    def flush(self) -> None:
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting))
            self.waiting, self.waiting_bytes = [], 0


class _Counted:
    """A stream that counts its bytes. pyarrow asks it for nothing else."""

    def __init__(self, stream: IO[bytes], where: str) -> None:
        self._stream = stream
        self._where = where
        self.size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        with foreign_errors(self._where):
            self._stream.write(data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """The stream is whole once it is closed."""

    def close(self) -> None:
        self.closed = True


class DataFiles:
    """Writes rows, and hands out the files that they are in.

    target_bytes: of a file.
    keeps_parts: whether the columns of `parts` stay in the files.
    """

    def __init__(
        self, place: FilePlace, schema: pa.Schema, parts: Sequence[Part], target_bytes: int, keeps_parts: bool
    ) -> None:
        self._place = place
        self._parts = parts
        self._target = target_bytes
        self._group = max(1, min(_ROW_GROUP, target_bytes // _PIECES))
        dropped = set() if keeps_parts else {part.column for part in parts}
        self._schema = pa.schema([column for column in schema if column.name not in dropped])
        self._open: dict[tuple[str, ...], _Open] = {}
        self._done: list[DataFile] = []

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cuts a batch into slices, after each of which the caller may write it and `take` the files."""
        rows_each = max(1, batch.num_rows * self._group // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, rows_each):
            yield batch.slice(start, rows_each)

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows."""
        if rows.num_rows:
            for values, some in self._divide(rows):
                self._add(values, some)

    @property
    def is_full(self) -> bool:
        """Whether a commit is due: some file has its size."""
        return bool(self._done)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written since the last `take`."""
        return not self._open and not self._done

    def take(self) -> list[DataFile]:
        """Closes all files, and returns them."""
        for key in list(self._open):
            self._close(key)
        done, self._done = self._done, []
        return done

    def abandon(self) -> None:
        """Lets go of what is open. Nobody refers to these files."""
        for opened in self._open.values():
            opened.sink.closed = True
        self._open.clear()

    def _divide(self, rows: pa.RecordBatch) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
        if not self._parts:
            yield (), rows
            return
        texts = [part.find_texts(rows) for part in self._parts]
        groups = pa.table(dict(zip("abcd", texts, strict=False))).group_by(list("abcd"[: len(texts)])).aggregate([])
        for values in zip(*(column.to_pylist() for column in groups.columns), strict=True):
            mask = pc.equal(texts[0], values[0])
            for text, value in zip(texts[1:], values[1:], strict=True):
                mask = pc.and_(mask, pc.equal(text, value))
            yield values, rows.filter(mask)

    def _add(self, values: tuple[str, ...], rows: pa.RecordBatch) -> None:
        opened = self._open.get(values)
        if opened is None:
            if len(self._open) >= _MOST_OPEN:
                self._close(max(self._open, key=lambda key: self._open[key].sink.size))
            opened = self._open[values] = self._begin(values)
        kept = rows.select(self._schema.names)
        opened.waiting.append(kept)
        opened.waiting_bytes += kept.nbytes
        opened.rows += kept.num_rows
        if opened.waiting_bytes >= self._group:
            opened.flush()
            if opened.sink.size >= self._target:
                self._close(values)

    def _begin(self, values: tuple[str, ...]) -> _Open:
        named = {part.column: value for part, value in zip(self._parts, values, strict=True)}
        folders = "".join(f"{column}={value}/" for column, value in named.items())
        name = f"{folders}kafkaseg-{uuid.uuid4().hex}.parquet"
        stream = self._place.open_file(name)
        sink = _Counted(stream, self._place.where)
        try:
            writer = pq.ParquetWriter(pa.PythonFile(sink, "w"), self._schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:  # a record of Avro may have no field
            raise UnsupportedError(f"{self._place.where} cannot have these columns: {error}") from error
        return _Open(name, named, stream, sink, writer)

    def _close(self, key: tuple[str, ...]) -> None:
        opened = self._open.pop(key)
        opened.flush()
        opened.writer.close()
        with foreign_errors(self._place.where):
            opened.stream.close()
        self._done.append(DataFile(opened.name, opened.rows, opened.sink.size, opened.values))
