"""Text in UTF-8 as the meaning of a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafka_segment_source.decoding.arrow import build_varying
from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints, Rows
from kafka_segment_source.values.misfits import Explanation, explain_by_reason


@dataclass(frozen=True)
class StringMeaning:
    """Text. It needs no schema."""

    arrow: pa.DataType = pa.string()  # a type is a frozen value
    spark: str = "string"

    def make_decoder(self, most_bytes: int) -> StringDecoder:
        return StringDecoder()


class StringDecoder:
    """Decodes the rows of one column (a `ColumnDecoder`)."""

    header_name = ""

    def choose(self, headers: pa.Array) -> Ints:
        return NONE_CHOSEN

    def decode(self, rows: Rows, first: int, last: int, status: npt.NDArray[np.uint8]) -> tuple[pa.Array, int]:
        sizes = rows.sizes[first:last]
        total = int(sizes[sizes > 0].sum(dtype=np.int64))
        status[first:last] = np.where(sizes < 0, avro.IS_NULL, avro.FITS)
        values = build_varying(rows.source, rows.places[first:last], sizes, last - first, total, pa.binary())
        return to_text(values, status[first:last]), last

    def explain(self, rows: Rows, row: int, reason: int) -> Explanation:
        return explain_by_reason(reason, "text in UTF-8")


def to_text(values: pa.Array, status: npt.NDArray[np.uint8]) -> pa.Array:
    """Makes text of bytes. What is not UTF-8 is null, and its status says so."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        for row, value in enumerate(values.to_pylist()):
            text = None
            if value is not None:
                try:
                    text = value.decode("utf-8")
                except UnicodeDecodeError:
                    status[row] = avro.BAD_UTF8
            texts.append(text)
        return pa.array(texts, pa.string())
