"""Every batch of a `.log` as kafkaseg reads it, in the inspector's words, to be compared with `dump_log.py`.

In: paths of `.log` files. Out: a table of `dump_log.SCHEMA`. A batch that kafkaseg refuses is not in it: it raises
DataError. `isvalid` is therefore true in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafka_segment_source import kafka_format
from kafka_segment_source.bounds import ScanBounds
from kafka_segment_source.decoding.batches import BatchReader
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.storage.store import LOCAL
from kafka_segment_source.trust import Trust
from tests.support.rows import TESTS

_LARGEST = 1 << 30
_TYPES = ("CreateTime", "LogAppendTime")


def batches_of(logs: Iterable[Path], schema: pa.Schema) -> pa.Table:
    """The batches of all the files, in file order."""
    return pa.Table.from_pylist([row for path in logs for row in _batches(path)], schema=schema)


def _batches(path: Path) -> Iterator[dict[str, object]]:
    bases = sorted(int(log.stem) for log in path.parent.glob("*.log"))
    following = [base for base in bases if base > int(path.stem)]
    size = path.stat().st_size
    split = SegmentSplit(
        path=str(path),
        topic="any",
        partition=0,
        start=0,
        end=size,
        segment_size=size,
        base_offset=int(path.stem),
        next_base_offset=following[0] if following else None,
        bounds=ScanBounds(),
    )
    with InputFile(str(path), LOCAL) as file:
        reader = BatchReader(file, split, Trust(max_batch_bytes=_LARGEST), Damage(drop=False))
        for chunk in reader.chunks():
            for column in range(chunk.headers.shape[1]):
                yield {"file": str(path), **_row(chunk.headers[:, column])}


def _row(header: np.ndarray) -> dict[str, object]:
    attributes, magic = int(header[batch_headers.ATTRIBUTES]), int(header[batch_headers.MAGIC])
    kind = (
        _TYPES[bool(attributes & kafka_format.TIMESTAMP_TYPE_MASK)]
        if magic > kafka_format.MAGIC_V0
        else "NoTimestampType"
    )
    row: dict[str, object] = {
        "lastOffset": int(header[batch_headers.LAST_OFFSET]),
        "position": int(header[batch_headers.POSITION]),
        "timestampType": kind,
        "timestamp": int(header[batch_headers.MAX_TIMESTAMP]),
        "size": int(header[batch_headers.SIZE]),
        "magic": magic,
        "compresscodec": kafka_format.CODEC_NAMES[attributes & kafka_format.CODEC_MASK],
        "crc": int(header[batch_headers.CRC]),
        "isvalid": True,
    }
    return row if magic < kafka_format.MAGIC_V2 else {**row, **_of_record_batch(header, attributes)}


def _of_record_batch(header: np.ndarray, attributes: int) -> dict[str, object]:
    """What only magic 2 has; the inspector says nothing of it for a message set."""
    base, delta = (
        int(header[batch_headers.BASE_SEQUENCE]),
        int(header[batch_headers.LAST_OFFSET] - header[batch_headers.BASE_OFFSET]),
    )
    return {
        "baseOffset": int(header[batch_headers.BASE_OFFSET]),
        "count": int(header[batch_headers.COUNT]),
        "baseSequence": base,
        "lastSequence": base if base == kafka_format.NO_SEQUENCE else (base + delta) % 2**31,
        "producerId": int(header[batch_headers.PRODUCER_ID]),
        "producerEpoch": int(header[batch_headers.PRODUCER_EPOCH]),
        "partitionLeaderEpoch": int(header[batch_headers.LEADER_EPOCH]),
        "isTransactional": bool(attributes & kafka_format.TRANSACTIONAL_MASK),
        "isControl": bool(attributes & kafka_format.CONTROL_MASK),
        "deleteHorizonMs": int(header[batch_headers.BASE_TIMESTAMP])
        if attributes & kafka_format.DELETE_HORIZON_MASK
        else None,
    }


def differences(theirs: pa.Table, ours: pa.Table, root: Path = TESTS.parent) -> list[str]:
    """One line for each batch that only one of both has, or that they see differently.

    A field that the inspector never prints is not compared: 2.8 does not know delete horizons.
    """
    printed = [name for name in theirs.column_names if theirs[name].null_count < theirs.num_rows]
    lines = []
    mine = {(row["file"], row["position"]): row for row in ours.to_pylist()}
    kafkas = {(row["file"], row["position"]): row for row in theirs.to_pylist()}
    for place in sorted(mine.keys() | kafkas.keys()):
        one, other = kafkas.get(place), mine.get(place)
        where = f"{Path(place[0]).relative_to(root) if Path(place[0]).is_relative_to(root) else place[0]} at byte {place[1]}"
        if one is None or other is None:
            lines.append(f"{where}: only {'kafkaseg' if one is None else 'kafka-dump-log'} has a batch there")
        elif one != other:
            odd = {name: (one[name], other[name]) for name in printed if one[name] != other[name]}
            lines += [f"{where}: kafka-dump-log and kafkaseg say {odd}"] if odd else []
    return lines
