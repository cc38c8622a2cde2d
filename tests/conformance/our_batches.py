"""Every batch of a `.log` as view=batches gives it, in the inspector's words, to be compared with `dump_log.py`.

In: paths of `.log` files. Out: a table of `dump_log.SCHEMA`. With `check_crcs`, a batch with a wrong CRC is a
DataError. `isvalid` is therefore true in every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import kafka_segment_source as kafkaseg
from tests.support.rows import TESTS

_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_OF_RECORD_BATCHES = (
    *("baseOffset", "count", "baseSequence", "producerId", "producerEpoch"),
    *("partitionLeaderEpoch", "isTransactional", "isControl"),
)


def batches_of(logs: Iterable[Path], schema: pa.Schema, check_crcs: bool = True) -> pa.Table:
    """The batches of all the files, in file order.

    Each file is read by itself, without the broker's checkpoints: a read leaves out what lies below the log start.
    """
    with TemporaryDirectory() as scratch:
        rows = [row for path in logs for row in _batches(path, Path(scratch), check_crcs)]
    return pa.Table.from_pylist(rows, schema=schema)


def _batches(path: Path, scratch: Path, check_crcs: bool) -> Iterator[dict[str, object]]:
    alone = scratch / "any-0" / path.name
    alone.parent.mkdir(exist_ok=True)
    alone.write_bytes(path.read_bytes())
    for row in kafkaseg.scan(alone, view="batches", checkCrcs=check_crcs, maxBatchBytes="1g").read_all().to_pylist():
        yield {"file": str(path), **_in_their_words(row)}
    alone.unlink()


def _in_their_words(row: dict[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {
        "lastOffset": row["lastOffset"],
        "position": row["position"],
        "timestampType": _TYPES[row["timestampType"]],
        "timestamp": _millis(row["maxTimestamp"], -1),
        "size": row["size"],
        "magic": row["magic"],
        "compresscodec": row["compresscodec"],
        "crc": row["crc"],
        "isvalid": True,
    }
    if row["magic"] < 2:  # the inspector says nothing more of a message set
        return found
    base = row["baseSequence"]
    last = base if base == -1 else (base + row["lastOffset"] - row["baseOffset"]) % 2**31
    horizon = _millis(row["deleteHorizon"], None)
    return {
        **found,
        **{name: row[name] for name in _OF_RECORD_BATCHES},
        "lastSequence": last,
        "deleteHorizonMs": horizon,
    }


def _millis(moment: Any, absent: int | None) -> int | None:
    return absent if moment is None else round(moment.timestamp() * 1000)


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
