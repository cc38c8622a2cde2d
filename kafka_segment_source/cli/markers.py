"""Finds the control records among rows, and their types, with the names of Kafka's ControlRecordType.

Input: rows with the columns `key` and `metadata`. A row does not have the control bit of its batch. If its key may be a
control record's, the bit is read from the batch header in the file.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.store import Storage

NEEDED = ("key", "metadata")  # the columns that control_types reads


def control_types(rows: pa.RecordBatch, storage: Storage) -> list[str | None]:
    """The type of each row: COMMIT, ABORT or another for a control record, None for data.

    It opens the files that hold the rows. storage: where these are.
    """
    types: list[str | None] = [None] * rows.num_rows
    keys, metadata = rows["key"].to_pylist(), rows["metadata"].to_pylist()
    candidates = [
        row
        for row, key in enumerate(keys)
        if _type_of(key) is not None and metadata[row]["magic"] == kafka_format.MAGIC_V2
    ]
    for path, found in groupby(candidates, key=lambda row: metadata[row]["file_path"]):
        with InputFile(path, storage) as file:
            for row in found:
                if _is_control(file, metadata[row]):
                    types[row] = _type_of(keys[row])
    return types


def coordinator_epoch(value: bytes | None) -> int | None:
    """Reads the coordinator epoch from the value of a COMMIT or ABORT (`clients.EndTransactionMarker`).

    It is None if the value is null or too short.
    """
    if value is None or len(value) < kafka_format.END_MARKER_BYTES:
        return None
    return int.from_bytes(value[kafka_format.COORDINATOR_EPOCH_AT : kafka_format.END_MARKER_BYTES], "big", signed=True)


def _type_of(key: bytes | None) -> str | None:
    """The type that a key would have if it were a control record's; None if it cannot be one."""
    if key is None or len(key) < kafka_format.CONTROL_KEY_BYTES:
        return None
    number = int.from_bytes(key[2:4], "big", signed=True)
    return kafka_format.CONTROL_TYPES[number] if 0 <= number < len(kafka_format.CONTROL_TYPES) else None


def _is_control(file: InputFile, metadata: dict[str, Any]) -> bool:
    attributes = file.read_at(metadata["position"] + kafka_format.ATTRIBUTES_AT, 2)
    return bool(int.from_bytes(attributes, "big") & kafka_format.CONTROL_MASK)
