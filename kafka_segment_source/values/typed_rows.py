"""The rows of records with typed keys and values: chunks of one split → Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.arrow import RECORD_BUILDERS, to_record_batch
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.records import RecordColumns
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.wanted_keys import find_control, find_wanted
from kafka_segment_source.errors import MisfitError
from kafka_segment_source.kernels import avro, batch_headers, record_batches
from kafka_segment_source.request import Content
from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints, Rows
from kafka_segment_source.values.misfits import REASONS, REJECTED, Explanation
from kafka_segment_source.values.typed_keys import find_rows, read_keys

if TYPE_CHECKING:
    from kafka_segment_source.values.typed import TypedColumns

Status = npt.NDArray[np.uint8]

_PLACES = {
    "key": (record_batches.KEY_AT, record_batches.KEY_LENGTH),
    "value": (record_batches.VALUE_AT, record_batches.VALUE_LENGTH),
}


class ColumnDecoder(Protocol):
    """Decodes the keys or the values of rows."""

    header_name: str
    """The record header that may name the schema. "" where none does."""

    def choose(self, headers: pa.Array) -> Ints:
        """Returns what the headers of each row choose, as the kernel takes it."""

    def decode(self, rows: Rows, first: int, last: int, status: Status) -> tuple[pa.Array, int]:
        """Decodes rows from `first` on, and at most to `last`. Fills their status (`kernels.avro`).

        Returns their values, and the first row that is not decoded.
        """

    def explain(self, rows: Rows, row: int, reason: int) -> Explanation:
        """Says why a row does not fit."""


class TypedRows:
    """Decodes the wanted records of each chunk (a `RowMaker`)."""

    def __init__(self, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch) -> None:
        assert content.typed is not None
        typed = content.typed
        self._typed: TypedColumns = typed
        self._split = source.split
        self._schema = schema
        self._include_control = content.include_control
        keep = None
        if content.raw_keys is not None:
            keep = partial(find_wanted(content.raw_keys).keep, data_only=content.include_control)
        self._typed_keys = (
            None if content.typed_keys is None else read_keys(content.typed_keys, typed.meanings["key"].arrow)
        )
        self._decoder = source.decoder(content.include_control, "timestamp" in schema.names, scratch, keep)
        wants_corrupt = typed.corrupt_column in schema.names
        self._decoders = {
            name: meaning.make_decoder(2 * source.trust.max_batch_bytes)
            for name, meaning in typed.meanings.items()
            if name in schema.names or wants_corrupt or (name == "key" and self._typed_keys is not None)
        }
        made = {*self._decoders, typed.corrupt_column}
        self._plain = pa.schema([field for field in schema if field.name not in made])

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for records in self._decoder.decode(chunk):
            plain = to_record_batch(records, self._split, self._plain, RECORD_BUILDERS)
            offsets = records.longs[record_batches.OFFSET, : records.count]
            rows = {name: self._find_rows(records, name) for name in self._decoders}
            status = {name: np.zeros(records.count, np.uint8) for name in self._decoders}
            at = 0
            while at < records.count:
                end, made = self._decode(rows, status, at, records.count)
                self._check(records, rows, status, at, end)
                if self._typed.corrupt_column in self._schema.names:
                    take = self._take_rejected if self._typed.rejects else _take_corrupt
                    made[self._typed.corrupt_column] = take(records, rows, status, at, end)
                part = plain.slice(at, end - at)
                arrays = [made[name] if name in made else part.column(name) for name in self._schema.names]
                batch = _make_batch(arrays, self._schema, part)
                if self._typed_keys is not None:
                    batch = batch.filter(find_rows(made["key"], self._typed_keys))
                if batch.num_rows:
                    yield batch, int(offsets[end - 1])
                at = end

    def _decode(
        self, rows: dict[str, Rows], status: dict[str, Status], first: int, last: int
    ) -> tuple[int, dict[str | None, pa.Array]]:
        """Decodes the next rows of all typed columns. Returns the row after them, and their arrays by name."""
        made: dict[str | None, pa.Array] = {}
        for name, decoder in self._decoders.items():
            made[name], last = decoder.decode(rows[name], first, last, status[name])
        return last, {name: array.slice(0, last - first) for name, array in made.items()}

    def _find_rows(self, records: RecordColumns, name: str) -> Rows:
        at, length = _PLACES[name]
        n = records.count
        sizes = records.ints[length, :n]
        if self._include_control:
            sizes = np.where(find_control(records), -1, sizes).astype(np.int32)
        decoder = self._decoders[name]
        chosen = NONE_CHOSEN
        if decoder.header_name and records.ints[record_batches.HEADERS_COUNT, :n].any():
            chosen = decoder.choose(RECORD_BUILDERS["headers"](records, self._split))
        return Rows(records.source, records.ints[at, :n], sizes, chosen)

    def _check(
        self, records: RecordColumns, rows: dict[str, Rows], status: dict[str, Status], first: int, last: int
    ) -> None:
        """Counts the rows that do not fit, or raises MisfitError for the first one."""
        misfits = self._typed.misfits
        for name, of_rows in status.items():
            part = of_rows[first:last]
            if not (part > avro.IS_NULL).any():
                continue
            for reason in np.unique(part[part > avro.IS_NULL]).tolist():
                places = first + np.flatnonzero(part == reason)
                if self._typed.corrupt_column is None:
                    row = first + int(np.argmax(part > avro.IS_NULL))
                    raise self._make_error(records, name, rows[name], row, int(of_rows[row]))
                if misfits is not None:
                    describe = partial(self._describe, records, name, rows[name], int(places[0]), reason)
                    misfits.add(name, REASONS[reason], len(places), describe)

    def _describe(self, records: RecordColumns, name: str, rows: Rows, row: int, reason: int) -> str:
        """Says where a row is that does not fit, and what is known of it beside the reason."""
        detail = self._decoders[name].explain(rows, row, reason).detail
        offset = int(records.longs[record_batches.OFFSET, row])
        return f"offset {offset} of {self._split.topic}-{self._split.partition}" + (f": {detail}" if detail else "")

    def _take_rejected(
        self, records: RecordColumns, rows: dict[str, Rows], status: dict[str, Status], first: int, last: int
    ) -> pa.Array:
        """Makes the corrupt column of rejected rows: the bytes of key and value, and why they do not fit."""
        reasons: dict[int, list[str]] = {}
        for name, of_rows in status.items():
            for row in (first + np.flatnonzero(of_rows[first:last] > avro.IS_NULL)).tolist():
                explanation = self._decoders[name].explain(rows[name], row, int(of_rows[row]))
                reasons.setdefault(row, []).append(
                    f"{name}: found {explanation.found}, expected {explanation.expected}"
                )
        made: list[dict[str, object] | None] = [None] * (last - first)
        for row, why in reasons.items():
            sources = {name: _take_bytes(records, name, row) for name in _PLACES}
            made[row - first] = {**sources, "reason": "; ".join(why)}
        return pa.array(made, REJECTED)

    def _make_error(self, records: RecordColumns, name: str, rows: Rows, row: int, reason: int) -> MisfitError:
        explanation = self._decoders[name].explain(rows, row, reason)
        header = records.headers[:, records.ints[record_batches.BATCH, row]]
        return MisfitError(
            f"a {name} of {self._split.topic}-{self._split.partition} that does not fit",
            path=self._split.path,
            position=int(header[batch_headers.POSITION]),
            offset=int(records.longs[record_batches.OFFSET, row]),
            found=explanation.found,
            expected=explanation.expected,
        )


def _take_bytes(records: RecordColumns, name: str, row: int) -> bytes | None:
    at, length = _PLACES[name]
    begin, size = int(records.ints[at, row]), int(records.ints[length, row])
    return None if size < 0 else records.source[begin : begin + size].tobytes()


def _take_corrupt(
    records: RecordColumns, rows: dict[str, Rows], status: dict[str, Status], first: int, last: int
) -> pa.Array:
    """Makes the corrupt column: the bytes of a value that does not fit, or else of a key that does not."""
    corrupt: list[bytes | None] = [None] * (last - first)
    for name in ("key", "value"):
        if name in rows:
            of = rows[name]
            for row in (first + np.flatnonzero(status[name][first:last] > avro.IS_NULL)).tolist():
                begin, size = int(of.places[row]), int(of.sizes[row])
                corrupt[row - first] = of.source[begin : begin + size].tobytes()
    return pa.array(corrupt, pa.binary())


def _make_batch(arrays: list[pa.Array], schema: pa.Schema, plain: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else plain
