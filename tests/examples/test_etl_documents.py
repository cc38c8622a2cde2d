"""The examples of docs/etl.md that need logs of their own: tables without Spark, and Avro."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.growing_log import GrowingPartition, list_rows
from tests.support.schema_logs import SchemaLog, write_values

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "etl.md").read_text(encoding="utf-8"), re.DOTALL)


def block_with(word: str, logs: Path, data: Path) -> str:
    """The example that has a word in it, with these paths."""
    (block,) = (block for block in BLOCKS if word in block)
    return str(block).replace("/var/kafka-logs", str(logs)).replace("/data/", f"{data}/")


class DiedError(Exception):
    """Ends a run, as a kill does."""


def dies_after(count: int, real: Any) -> Any:
    """The function, but it raises after that many calls. Where count is even, the last of them was not made."""
    calls = []

    def dying(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == count and count % 2 == 0:
            raise DiedError
        result = real(*arguments, **named)
        if len(calls) == count:
            raise DiedError
        return result

    return dying


def read_delta(data: Path) -> Any:
    return pytest.importorskip("deltalake").DeltaTable(str(data / "lake" / "events")).to_pyarrow_table()


def read_iceberg(data: Path) -> Any:
    catalogs = pytest.importorskip("pyiceberg.catalog")
    catalog = catalogs.load_catalog("lake", type="sql", uri=f"sqlite:///{data}/catalog.db")
    return catalog.load_table("kafka.events").scan().to_arrow()


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pyiceberg.*")
@pytest.mark.parametrize(
    ("library", "commit", "read"),
    [
        ("deltalake", "deltalake.write_deltalake", read_delta),
        ("pyiceberg", "pyiceberg.table.Transaction.commit_transaction", read_iceberg),
    ],
)
def test_a_table_without_spark_holds_each_record_once(
    library: str, commit: str, read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs grow between runs, and runs die before or after any of their commits."""
    pytest.importorskip(library)
    data = tmp_path / "data"
    data.mkdir()
    logs = tmp_path / "logs"
    partitions = [GrowingPartition(logs / f"t-{n}") for n in range(2)]
    code = compile(block_with(f"from {library}", logs, data), "docs/etl.md", "exec")
    module, _, name = commit.rpartition(".")
    holder = (
        pytest.importorskip(module) if library == "deltalake" else pytest.importorskip("pyiceberg.table").Transaction
    )
    deaths = 0
    for count in (1, 2, 2, 1):
        for each in partitions:
            each.write(9)
        with monkeypatch.context() as patch:
            patch.setattr(holder, name, dies_after(count, getattr(holder, name)))
            try:
                exec(code, {})
            except DiedError:
                deaths += 1
    assert deaths == 4
    for _ in range(2):  # the second one finds nothing new
        exec(code, {})
        found = read(data)
        rows = zip(*(found[name].to_pylist() for name in ("partition", "offset", "value")), strict=True)
        assert sorted(rows) == list_rows(partitions)


# ---- Avro ----


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
