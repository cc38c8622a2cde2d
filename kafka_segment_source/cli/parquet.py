"""Writes rows into a Parquet file, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq


def check_output(kind: str, output: str | None) -> None:
    """Raises UsageError unless --format parquet and --output FILE are given together, or neither."""
    if (kind == "parquet") != (output is not None):
        raise click.UsageError(
            "--format parquet and --output FILE go together: Parquet goes into a file, and nothing else does"
        )


def write_parquet(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes a Parquet file and returns the number of rows.

    The file has another name until its last row is written. So the path has the whole file or none.
    """
    rows = 0
    unfinished = Path(f"{path}.unfinished")
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows
