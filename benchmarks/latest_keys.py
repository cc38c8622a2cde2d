"""A log whose records have given keys, written at the speed of the disk: for the newest record of each key."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import crc32c
import numpy as np

from benchmarks.logs import ORIGIN, TOPIC, cache_directory
from kafka_segment_source import kafka_format
from tests.support import writer

KEY_BYTES = 12
_VALUE = b"v" * 89  # 119 bytes a record, with its key and its own fields
_A_BATCH = 128  # records
_A_SEGMENT = 8192  # batches


def write_keys(records: int, keys: int) -> Path:
    """Writes a log of `records` records with keys drawn at random from `keys` ones, or finds that of an earlier run.

    Returns the partition's directory. There are no index files.
    """
    path = cache_directory() / f"keys-{records}r-{keys}k" / f"{TOPIC}-0"
    if path.exists():
        return path
    unfinished = path.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    some = [writer.Rec(number, ORIGIN, b"\xff" * KEY_BYTES, _VALUE) for number in range(_A_BATCH)]
    template = np.frombuffer(bytearray(writer.record_batch(some)), np.uint8)
    marks = np.flatnonzero((template[:-1] == 0xFF) & (template[1:] == 0xFF))
    places = np.array([at for at in marks.tolist() if bytes(template[at : at + KEY_BYTES]) == b"\xff" * KEY_BYTES])
    places = places[np.append(True, np.diff(places) > 1)]
    places = places[places > kafka_format.BATCH_OVERHEAD]
    assert len(places) == _A_BATCH
    spread = places[:, None] + np.arange(KEY_BYTES)
    chance = np.random.default_rng(0)
    batches = -(-records // _A_BATCH)
    for first in range(0, batches, _A_SEGMENT):
        with (unfinished / writer.segment_name(first * _A_BATCH)).open("wb") as file:
            for number in range(first, min(first + _A_SEGMENT, batches)):
                names = np.char.zfill(chance.integers(0, keys, _A_BATCH).astype("S"), KEY_BYTES)
                template[spread] = names.view(np.uint8).reshape(_A_BATCH, KEY_BYTES)
                batch = template.tobytes()
                crc = crc32c.crc32c(batch[kafka_format.ATTRIBUTES_AT :])
                head = struct.pack(">q", number * _A_BATCH) + batch[8 : kafka_format.CRC_AT] + struct.pack(">I", crc)
                file.write(head + batch[kafka_format.ATTRIBUTES_AT :])
    unfinished.rename(path)
    return path
