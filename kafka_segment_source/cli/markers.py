"""Which rows are control records, and what they say, in the words of Kafka's ControlRecordType.

Comes in: rows with the columns `key` and `metadata`. A row does not tell whether its batch is a control batch: that bit
is read from the batch's header in its file, only where the key could be a control record's.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pyarrow as pa

from kafka_segment_source import format as fmt
from kafka_segment_source.storage.files import InputFile

NEEDED = ("key", "metadata")  # columns


def control_types(rows: pa.RecordBatch) -> list[str | None]:
    """COMMIT, ABORT and the like for control records, None for data, a row each. Opens the files that hold them."""
    types: list[str | None] = [None] * rows.num_rows
    keys, metadata = rows["key"].to_pylist(), rows["metadata"].to_pylist()
    candidates = [
        row for row, key in enumerate(keys) if _type_of(key) is not None and metadata[row]["magic"] == fmt.MAGIC_V2
    ]
    for path, found in groupby(candidates, key=lambda row: metadata[row]["file_path"]):
        with InputFile(path) as file:
            for row in found:
                if _is_control(file, metadata[row]):
                    types[row] = _type_of(keys[row])
    return types


def coordinator_epoch(value: bytes | None) -> int | None:
    """What the value of a COMMIT or ABORT says (`clients.EndTransactionMarker`); None if it says nothing."""
    if value is None or len(value) < fmt.END_MARKER_BYTES:
        return None
    return int.from_bytes(value[fmt.COORDINATOR_EPOCH_AT : fmt.END_MARKER_BYTES], "big", signed=True)


def _type_of(key: bytes | None) -> str | None:
    """What a key names, were it a control record's."""
    if key is None or len(key) < fmt.CONTROL_KEY_BYTES:
        return None
    number = int.from_bytes(key[2:4], "big", signed=True)
    return fmt.CONTROL_TYPES[number] if 0 <= number < len(fmt.CONTROL_TYPES) else None


def _is_control(file: InputFile, metadata: dict[str, Any]) -> bool:
    attributes = file.read_at(metadata["position"] + fmt.ATTRIBUTES_AT, 2)
    return bool(int.from_bytes(attributes, "big") & fmt.CONTROL_MASK)
