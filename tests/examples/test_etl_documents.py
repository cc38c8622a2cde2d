"""The example of docs/etl.md that needs a log of its own: Avro."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

from tests.support.cases import takes_long
from tests.support.schema_logs import SchemaLog, write_values

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "etl.md").read_text(encoding="utf-8"), re.DOTALL)


def block_with(word: str, logs: Path, data: Path) -> str:
    """The example that has a word in it, with these paths."""
    (block,) = (block for block in BLOCKS if word in block)
    return str(block).replace("/var/kafka-logs", str(logs)).replace("/data/", f"{data}/")


def avro_order(number: int, item: str, schema_id: int = 7) -> bytes:
    """A value as a serializer of a schema registry writes it. Avro: a long is a zig-zag varint."""

    def long(value: int) -> bytes:
        value <<= 1
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    text = item.encode()
    return b"\x00" + struct.pack(">i", schema_id) + long(number) + long(len(text)) + text


@takes_long
def test_avro_values_and_those_that_do_not_fit(tmp_path: Path) -> None:
    """Orders and tombstones are told from values that are cut, of another schema, or not framed."""
    fields = [{"name": "orderId", "type": "long"}, {"name": "item", "type": "string"}]
    SchemaLog(tmp_path / "logs").register("orders-value", 7, {"type": "record", "name": "Order", "fields": fields})
    values = [
        avro_order(1, "bow saw"),
        b'{"orderId": 2}',
        avro_order(300, "käse"),
        avro_order(4, "cut")[:-2],
        None,
        avro_order(5, "other", schema_id=8),
        b"",
    ]
    write_values(tmp_path / "logs", values)
    script = f"""
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
{block_with("_corrupt_record IS NULL", tmp_path / "logs", tmp_path)}
print([tuple(row) for row in orders.select("offset", "value.orderId", "value.item").collect()])
print([row.offset for row in rejected.collect()])
"""
    told = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=300)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == [
        "[(0, 1, 'bow saw'), (2, 300, 'käse'), (4, None, None)]",
        "[1, 3, 5, 6]",
    ]
