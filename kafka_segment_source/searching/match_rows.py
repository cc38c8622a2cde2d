"""The rows of a search: chunks of one split → the records that match, as Arrow batches.

A search for a text looks at no record of a batch whose CRC proves its bytes, and which has the text nowhere in them.
However these bytes are divided, no record of them matches. All other records are checked by the kernels, as in a read,
whether they match or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_segment_source.decoding.arrow import RECORD_BUILDERS, to_record_batch
from kafka_segment_source.decoding.batches import Chunk
from kafka_segment_source.decoding.payloads import Group
from kafka_segment_source.decoding.record_rows import keep_wanted
from kafka_segment_source.decoding.records import RecordColumns, to_microseconds
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split_file import SplitFile
from kafka_segment_source.decoding.tables import MakeRows, RowMaker
from kafka_segment_source.errors import MisfitError
from kafka_segment_source.kernels.record_batches import HEADERS_COUNT, OFFSET
from kafka_segment_source.request import Content
from kafka_segment_source.searching.blocks import Places, find_places, leave_out_batches, may_match, take_records
from kafka_segment_source.searching.hits import FIELD, HEADER, HIT_COLUMNS, KEY, VALUE, Wanted
from kafka_segment_source.searching.pattern import Mask
from kafka_segment_source.values.misfits import NOT_JSON, REASONS
from kafka_segment_source.values.plain_values import to_plain

_OF_HIT = {column.name: column.arrow_type for column in HIT_COLUMNS}


def make_rows(wanted: Wanted) -> MakeRows:
    """Returns what makes the row maker of an open split."""
    return partial(FieldRows if wanted.field is not None else PartRows, wanted)


class PartRows:
    """Finds the records whose key, value or headers match (a `RowMaker`)."""

    def __init__(
        self, wanted: Wanted, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch
    ) -> None:
        self._wanted = wanted
        self._split = source.split
        self._schema = schema
        self._plain = pa.schema([field for field in schema if field.name not in _OF_HIT])
        keep = keep_wanted(content.raw_keys)
        self._decoder = source.decoder(content.include_control, "timestamp" in schema.names, scratch, keep)
        self._text = None if wanted.inverted else wanted.pattern.text
        self._crcs_hold = source.trust.check_crcs

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for group in self._decoder.groups(chunk):
            if self._text is None:
                yield from self._rows_of(group, None)
                continue
            places = find_places(group, self._text)
            # the CRC of a message is checked where it is decoded
            has_proof = self._crcs_hold and not group.is_message_set
            left = leave_out_batches(group, places) if has_proof else group
            if left is not None:
                yield from self._rows_of(left, places)

    def _rows_of(self, group: Group, places: Places | None) -> Iterator[tuple[pa.RecordBatch, int]]:
        """places: of the text; None for another pattern."""
        for records in self._decoder.decode_group(group):
            last = int(records.longs[OFFSET, records.count - 1])
            if "timestamp" in self._schema.names:
                _, error = to_microseconds(self._split.path, records)  # of those that do not match too, as in a read
                if error is not None:
                    raise error
            batch = self._search(records, places)
            if batch is not None:
                yield batch, last

    def _search(self, records: RecordColumns, places: Places | None) -> pa.RecordBatch | None:
        if self._wanted.pattern.is_local and not self._wanted.inverted:
            rows = places.may_match(records) if places is not None else may_match(records, self._wanted.pattern)
            if not len(rows):
                return None
            if len(rows) < records.count:
                records = take_records(records, rows)
        matches = self._find_matches(records)
        if self._wanted.inverted:
            chosen = take_records(records, np.flatnonzero(~matches.mask))
            matches = _Matches(chosen.count, self._build(chosen, VALUE) if "text" in self._schema.names else None)
        else:
            chosen = take_records(records, np.flatnonzero(matches.mask))
        if not chosen.count:
            return None
        plain = to_record_batch(chosen, self._split, self._plain, RECORD_BUILDERS)
        return matches.add_to(plain, self._schema, self._wanted)

    def _find_matches(self, records: RecordColumns) -> _Matches:
        """Finds the first place of each record that matches."""
        matches = _Matches(records.count)
        for place, is_wanted in ((KEY, self._wanted.key), (VALUE, self._wanted.value)):
            if is_wanted:
                array = self._build(records, place)
                matches.note(place, self._wanted.pattern.find(array), array)
        if self._wanted.headers != () and records.ints[HEADERS_COUNT, : records.count].any():
            self._find_in_headers(records, matches)
        return matches

    def _find_in_headers(self, records: RecordColumns, matches: _Matches) -> None:
        lists = self._build(records, "headers")
        names, values = lists.flatten().flatten()
        has_match = self._wanted.pattern.find(values)
        if self._wanted.headers is not None:
            has_match &= pc.is_in(names, pa.array(self._wanted.headers, pa.string())).to_numpy(zero_copy_only=False)
        rows, first = np.unique(pc.list_parent_indices(lists).to_numpy()[has_match], return_index=True)
        at = np.full(records.count, -1, np.int64)
        at[rows] = np.flatnonzero(has_match)[first]
        places = pa.array(at, mask=at < 0)
        matches.note(HEADER, at >= 0, values.take(places), names.take(places))

    def _build(self, records: RecordColumns, name: str) -> pa.Array:
        return RECORD_BUILDERS[name](records, self._split)


class FieldRows:
    """Finds the records of which a field of the typed key or value matches (a `RowMaker`)."""

    def __init__(
        self, wanted: Wanted, source: SplitFile, content: Content, schema: pa.Schema, scratch: Scratch
    ) -> None:
        assert content.typed is not None and wanted.field is not None
        table = content.typed.table
        self._wanted = wanted
        self._field = wanted.field
        self._schema = schema
        names = [name for name in schema.names if name not in _OF_HIT]
        places = ("offset", "metadata") if wanted.field.is_json else ()  # to say where a value is not JSON
        inner = table.arrow_schema(dict.fromkeys((*names, wanted.field.column, *places)))
        self._split = source.split
        self._typed = content.typed
        self._maker: RowMaker = table.load_maker()(source, content, inner, scratch)

    def rows(self, chunk: Chunk) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch, last in self._maker.rows(chunk):
            texts = self._find_texts(batch)
            has_match = self._wanted.pattern.find(texts)
            rows = np.flatnonzero(~has_match if self._wanted.inverted else has_match)
            if not len(rows):
                continue
            texts = texts.take(pa.array(rows))
            matches = _Matches(len(rows), texts if self._wanted.inverted else None)
            if not self._wanted.inverted:
                names = pa.repeat(pa.scalar(self._field.name), len(rows))
                matches.note(FIELD, np.ones(len(rows), np.bool_), texts, names)
            yield matches.add_to(batch.take(pa.array(rows)), self._schema, self._wanted), last

    def _find_texts(self, batch: pa.RecordBatch) -> pa.Array:
        array = batch.column(self._field.column)
        if not self._field.is_json:
            return text_of(array, self._field.path)
        texts: list[bytes | None] = []
        for row, value in enumerate(array.to_pylist()):
            matches = None
            try:
                matches = None if value is None else follow_path(value, self._field.path)
            except ValueError:
                self._note_misfit(batch, row)
            texts.append(_to_text(matches))
        return pa.array(texts, pa.binary())

    def _note_misfit(self, batch: pa.RecordBatch, row: int) -> None:
        """Raises MisfitError for a value that is not JSON, or counts it (valueMode=PERMISSIVE)."""
        name, offset = self._field.column, batch.column("offset")[row].as_py()
        where = f"{self._split.topic}-{self._split.partition}"
        if self._typed.corrupt_column is None:
            raise MisfitError(
                f"a {name} of {where} that does not fit",
                path=self._split.path,
                position=batch.column("metadata")[row].as_py()["position"],
                offset=offset,
                found=REASONS[NOT_JSON],
                expected="JSON",
            )
        if self._typed.misfits is not None:
            self._typed.misfits.add(name, REASONS[NOT_JSON], 1, lambda: f"offset {offset} of {where}")


def text_of(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """Returns the text of a field in each row of a typed column, as binary. Strings and bytes are as they are, all else
    is JSON, as `kafkaseg cat --json` prints it. It is null where the field or what it is in is null."""
    texts = pc.struct_field(array, list(path)) if path else array
    if pa.types.is_binary(texts.type) or pa.types.is_string(texts.type):
        return texts.view(pa.binary())
    return pa.array([_to_text(value) for value in to_plain(texts, _decode)], pa.binary())


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _to_text(value: Any) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def follow_path(text: str, path: tuple[str, ...]) -> Any:
    """Follows a path in a text of JSON: names of members, and numbers of items.

    Returns what is there, or None where the path leads to null or to nothing. Raises ValueError for what is not JSON.
    """
    try:
        value: Any = json.loads(text)
    except RecursionError as error:
        raise ValueError("lists inside one another") from error
    for name in path:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


class _Matches:
    """Which rows match, and where: one place for each row."""

    def __init__(self, count: int, shown: pa.Array | None = None) -> None:
        """shown: the column `text` of an inverted search, in which no row has a place."""
        self.mask: Mask = np.zeros(count, np.bool_)
        self._count = count
        self._shown = shown
        self._parts: list[tuple[str, Any, pa.Array, pa.Array | None]] = []

    def note(self, place: str, matches: Mask, texts: pa.Array, names: pa.Array | None = None) -> None:
        """Notes the rows that match in a place, and in none before. texts, names: for each row."""
        rows = np.flatnonzero(matches & ~self.mask)
        if len(rows):
            chosen = pa.array(rows)
            self._parts.append((place, rows, texts.take(chosen), None if names is None else names.take(chosen)))
            self.mask |= matches

    def add_to(self, plain: pa.RecordBatch, schema: pa.Schema, wanted: Wanted) -> pa.RecordBatch:
        """Returns the rows of the matching records with the columns of `schema`."""
        made = {name: self._make_column(name, wanted) for name in schema.names if name in _OF_HIT}
        arrays = [made[name] if name in made else plain.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else plain

    def _make_column(self, name: str, wanted: Wanted) -> pa.Array:
        kind = _OF_HIT[name]
        if not self._parts:
            return self._shown.cast(kind) if name == "text" and self._shown is not None else pa.nulls(self._count, kind)
        pieces = [_make_piece(name, wanted, *part) for part in self._parts]
        order = np.argsort(np.concatenate([rows for _, rows, _, _ in self._parts]))
        return pa.concat_arrays([piece.cast(kind) for piece in pieces]).take(pa.array(order))


def _make_piece(name: str, wanted: Wanted, place: str, rows: Any, texts: pa.Array, names: pa.Array | None) -> pa.Array:
    if name == "place":
        return pa.repeat(pa.scalar(place, pa.string()), len(rows))
    if name == "name":
        return pa.nulls(len(rows), pa.string()) if names is None else names
    if name == "text":
        return texts
    starts, sizes = wanted.pattern.locate(texts)
    return pa.array(starts if name == "start" else sizes)
