"""Lines of `cat` beside a naive conversion of each record: `json` of Python, and an escape of each character."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source.cli.record_lines import Encoder, Encoding, json_lines, text_fields, text_lines

NAMED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
PIECES = [
    "a",
    '"',
    "\\",
    "\t",
    "\n",
    "\r",
    "\x00",
    "\x1b",
    "\x7f",
    "\x85",
    "é",
    "â",
    "\u2028",
    "\u2029",
    "\u2030",
    "😀",
]
pieces = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
texts = pieces.map(str.encode)
datas = st.none() | texts | texts | st.binary(max_size=4)
# ms: of the years 1 to 9999, and beyond them
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999) | st.sampled_from([-(2**62) // 1000, 2**62 // 1000])


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.lists(st.tuples(moments, datas, datas, st.lists(st.tuples(pieces, datas), max_size=2)), max_size=5))
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "topic": pa.array(["t"] * len(rows), pa.string()),
        "partition": pa.array(range(len(rows)), pa.int32()),
        "offset": pa.array([2**40 + at for at in range(len(rows))], pa.int64()),
        "timestamp": pa.array([row[0] * 1000 for row in rows], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "key": pa.array([row[1] for row in rows], pa.binary()),
        "value": pa.array([row[2] for row in rows], pa.binary()),
        "headers": pa.array([[{"key": k, "value": v} for k, v in row[3]] or None for row in rows], headers),
    }
    batch = pa.record_batch(columns)
    first = draw(st.integers(0, batch.num_rows))
    return batch.slice(first)


def to_moment(millis: int) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:
        return str(millis)
    return f"{moment:%m-%dT%H:%M:%S}".join([f"{moment.year:04}-", f".{moment.microsecond // 1000:03}Z"])


def to_json(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def to_field(data: bytes | None) -> str:
    if data is None:
        return "null"
    found = ""
    for character in data.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if code in range(0xDC80, 0xDD00):
            found += f"\\x{code - 0xDC00:02x}"
        elif character in NAMED:
            found += NAMED[character]
        elif code < 0x20 or code == 0x7F:
            found += f"\\x{code:02x}"
        elif code in range(0x80, 0xA0) or character in "\u2028\u2029":
            found += f"\\u{code:04x}"
        else:
            found += character
    return found


@given(batch=batches())
def test_json_lines(batch: pa.RecordBatch) -> None:
    lines = json_lines(batch, Encoder(Encoding.TEXT), batch.schema.names).to_pylist()
    moments = batch["timestamp"].cast(pa.int64()).to_pylist()
    for line, row, moment in zip(lines, batch.drop_columns("timestamp").to_pylist(), moments, strict=True):
        headers = row["headers"] and [{"key": each["key"], "value": to_json(each["value"])} for each in row["headers"]]
        wanted = {
            "topic": row["topic"],
            "partition": row["partition"],
            "offset": row["offset"],
            "timestamp": to_moment(moment // 1000),
            "key": to_json(row["key"]),
            "value": to_json(row["value"]),
            "headers": headers,
        }
        assert line == json.dumps(wanted, ensure_ascii=False) + "\n"


@given(batch=batches())
def test_text_lines(batch: pa.RecordBatch) -> None:
    fields = text_fields([])
    lines = text_lines(batch, Encoder(Encoding.TEXT), fields).to_pylist()
    moments = batch["timestamp"].cast(pa.int64()).to_pylist()
    for line, row, moment in zip(lines, batch.drop_columns("timestamp").to_pylist(), moments, strict=True):
        wanted = [f"t-{row['partition']}", str(row["offset"]), to_moment(moment // 1000)]
        assert line == "\t".join([*wanted, to_field(row["key"]), to_field(row["value"])]) + "\n"
