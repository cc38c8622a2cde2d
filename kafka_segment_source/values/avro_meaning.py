"""Avro as the meaning of a column: which writers there are, how rows name them, and what is said of rows that do not
fit."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_arrays import AvroDecoder, Ints, Naming, Rows
from kafka_segment_source.values.avro_columns import Wanted, make_columns
from kafka_segment_source.values.avro_program import Programs, make_programs
from kafka_segment_source.values.avro_schema import Type
from kafka_segment_source.values.headers import UnknownHeaders, choose_by_headers
from kafka_segment_source.values.misfits import Explanation, explain_by_detail, explain_by_reason, name_known

_EXPECTED_PREFIX = {
    avro.PREFIXED: "byte 0 and a schema id of 4 bytes, as Confluent's serializers write them",
    avro.SINGLE_OBJECT: "bytes c3 01 and a fingerprint of 8 bytes, as Avro's single objects begin",
}
_PREFIX_BYTES = {avro.PREFIXED: 5, avro.SINGLE_OBJECT: 10, avro.BARE: 0}


class Writer(NamedTuple):
    """A schema that values may have.

    key: its id or its fingerprint.
    type: None where nobody can decode its values, and `why` says that.
    guid: as the headers of newer clients have it, 16 bytes; None where it is not known.
    """

    key: int
    type: Type | None
    why: str = ""
    guid: bytes | None = None


@dataclass
class AvroMeaning:
    """Avro values of some writers, read as one schema. Tasks get the programs alone.

    whys: for each writer why its values cannot be read, "" where they can.
    source: where the schemas come from, in words, and up to where it was read.
    """

    arrow: pa.DataType
    spark: str
    programs: Programs
    naming: Naming
    whys: Sequence[str]
    reader: str
    source: str
    header_name: str = ""
    guids: Mapping[bytes, int] = field(default_factory=dict)

    def make_decoder(self, most_bytes: int) -> AvroColumnDecoder:
        return AvroColumnDecoder(self, most_bytes)


def make_avro_meaning(
    writers: Sequence[Writer], reader: Type, form: int, source: str, header_name: str = "", wanted: Wanted | None = None
) -> AvroMeaning:
    """Makes the meaning of a column. wanted: the fields of the reader that are wanted; None: all.

    Raises AvroError for a reader that cannot be a column.
    """
    columns = make_columns(reader, wanted)
    ordered = sorted(writers, key=lambda writer: writer.key)
    programs, whys = make_programs(
        [writer.type for writer in ordered], reader, columns, takes_rest=form == avro.PREFIXED
    )
    whys = [writer.why or why for writer, why in zip(ordered, whys, strict=True)]
    keys = np.array([writer.key for writer in ordered], np.int64)
    return AvroMeaning(
        columns.arrow,
        columns.spark,
        programs,
        Naming(form, keys, programs.starts),
        whys,
        reader.label,
        source,
        header_name,
        {writer.guid: place for place, writer in enumerate(ordered) if writer.guid is not None},
    )


class AvroColumnDecoder:
    """Decodes the rows of one column (a `ColumnDecoder`)."""

    def __init__(self, meaning: AvroMeaning, most_bytes: int) -> None:
        self._meaning = meaning
        self.header_name = meaning.header_name
        self._decoder = AvroDecoder(meaning.programs, meaning.naming, most_bytes)
        self._unknown = UnknownHeaders()

    def choose(self, headers: pa.Array) -> Ints:
        meaning = self._meaning
        ids = {int(key): place for place, key in enumerate(meaning.naming.keys.tolist())}
        return choose_by_headers(headers, self.header_name, ids, meaning.guids, self._unknown)

    def decode(self, rows: Rows, first: int, last: int, status: npt.NDArray[np.uint8]) -> tuple[pa.Array, int]:
        return self._decoder.decode(rows, first, last, status)

    def explain(self, rows: Rows, row: int, reason: int) -> Explanation:
        meaning, form = self._meaning, self._meaning.naming.form
        begin = int(rows.places[row])
        head = rows.source[begin : begin + min(int(rows.sizes[row]), _PREFIX_BYTES[form])].tobytes()
        if reason == avro.NO_PREFIX:
            found = f"{int(rows.sizes[row]):,} bytes that begin with {head.hex() or 'nothing'}"
            return explain_by_detail(found, _EXPECTED_PREFIX[form])
        chosen = int(rows.chosen[row]) if len(rows.chosen) else -1
        name, place = self._name_writer(head, chosen)
        if reason == avro.UNKNOWN_SCHEMA:
            return explain_by_detail(name, name_known(len(meaning.whys), meaning.source))
        why = meaning.whys[place] if place >= 0 else ""
        if reason == avro.UNRESOLVED and why:
            return explain_by_detail(f"{name}: {why}", f"a schema that can be read as {meaning.reader}")
        return explain_by_reason(reason, f"a value that can be read as {meaning.reader}", f"under {name}")

    def _name_writer(self, head: bytes, chosen: int) -> tuple[str, int]:
        """Returns what a message calls the schema of a row, and its place, -1 where it has none."""
        naming = self._meaning.naming
        if chosen < -1:
            return f"{self._unknown.name(chosen)} in the header {self.header_name!r}", -1
        if chosen >= 0:
            return f"schema id {int(naming.keys[chosen])}", chosen
        if naming.form == avro.BARE:
            return "the only schema", 0
        is_id = naming.form == avro.PREFIXED
        [key] = struct.unpack(">i" if is_id else "<q", head[1:5] if is_id else head[2:10])
        name = f"schema id {key}" if is_id else f"fingerprint {head[2:10].hex()}"
        places = np.flatnonzero(naming.keys == key)
        return name, int(places[0]) if len(places) else -1


def guid_bytes(guid: str | None) -> bytes | None:
    """The 16 bytes of a GUID."""
    return None if guid is None else uuid.UUID(guid).bytes
