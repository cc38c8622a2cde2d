"""Hurt tiers: from a number to a store of Aiven's format with damage in one object, and what a scan of it may answer.

The damage is blind (bytes), or knows the format: values of the manifest, the list of chunk sizes, the parts of the
merged index object. The statements, for objects of any bytes:

1. FAILFAST returns all rows, or ends with an error of ours.
2. DROPMALFORMED with failOnDataLoss=false returns some of the rows, in order, or ends with an error of ours.
3. Damage of the `.indexes` alone costs no row, in any mode.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

import kafka_segment_source as kafkaseg
from kafka_segment_source.errors import KafkaSegmentError
from tests.fuzz.mutations import EXTREMES
from tests.support import tiered_encoder as encoder
from tests.support.rows import OFFSET, TIMESTAMP, TOPIC, Row, read_answer, scanned
from tests.support.tiers import KEY_FILE, KEYS, TIERED

TIERED_KEYS = {name: str(path) for name, path in KEYS.items()}
_ODD: tuple[Any, ...] = (*EXTREMES, 2**63, 2**70, 1e300, None, True, "", "2", "x" * 1000, [], {}, [[]], "AAAA")


@cache
def rows() -> list[Row]:
    """The rows of the tier before it is hurt."""
    answer = read_answer(TIERED / "local-tier" / "expected.read_uncommitted.parquet")
    return [row for row in answer if row[TOPIC] == "kept" and row[OFFSET] < 384]


@cache
def stores() -> tuple[dict[str, bytes], ...]:
    """The objects of sound tiers: plain, compressed, encrypted."""
    segments = encoder.read_segments(TIERED / "local-tier" / "data" / "kept-0")[:4]
    key = ("key1", KEY_FILE.read_bytes())
    configs = (
        encoder.AivenConfig(),
        encoder.AivenConfig(compression=True),
        encoder.AivenConfig(compression=True, key=key),
        encoder.AivenConfig(index="variable", key=key),
    )
    return tuple(encoder.encode_aiven(segments, encoder.Names("kept"), config) for config in configs)


def hurt(number: int) -> tuple[dict[str, bytes], str]:
    """The objects of case `number`, and the key of the one that is hurt."""
    chance = random.Random(number)
    objects = dict(chance.choice(stores()))
    suffix = chance.choice(("rsm-manifest", "rsm-manifest", "rsm-manifest", "log", "indexes"))
    key = chance.choice([each for each in objects if each.endswith(suffix)])
    change = chance.choice((_change_json, _change_json, _change_sizes, _change_bytes))
    objects[key] = (change if suffix == "rsm-manifest" else _change_bytes)(chance, objects[key])
    return objects, key


def _change_bytes(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
        lambda: data[:at] + chance.randbytes(20) + data[at + 20 :],
        lambda: data[: max(at, 1)],
        lambda: data[:at] + chance.randbytes(5) + data[at:],
        lambda: data[:at] + data[at + 7 :] or b"{",
        lambda: data + data[at:],
    )
    return chance.choice(changes)()


def _change_json(chance: random.Random, data: bytes) -> bytes:
    content = json.loads(data)
    place: Any = content
    while True:
        name = chance.choice(list(place))
        if not isinstance(place[name], dict) or not place[name] or chance.random() < 0.1:
            break
        place = place[name]
    if chance.random() < 0.2:
        del place[name]
    else:
        place[name] = chance.choice(_ODD)
    return json.dumps(content).encode()


def _change_sizes(chance: random.Random, data: bytes) -> bytes:
    content = json.loads(data)
    index = content["chunkIndex"]
    if "transformedChunks" not in index:
        index[chance.choice(list(index))] = chance.choice(EXTREMES)
    else:
        sizes = zstandard.ZstdDecompressor().decompress(base64.b64decode(index["transformedChunks"]))
        made = zstandard.ZstdCompressor().compress(_change_bytes(chance, sizes))
        index["transformedChunks"] = base64.b64encode(made).decode()
    return json.dumps(content).encode()


def check(number: int, root: Path) -> str:
    """Reads case `number` in every mode. Returns what became of it. Raises AssertionError if a statement is false."""
    objects, key = hurt(number)
    store = encoder.write_objects(objects, root / str(number))
    outcome = "all rows"
    try:
        found = scanned(store, tieredKeys=TIERED_KEYS)
        assert found == rows(), f"case {number} ({key}): FAILFAST returned {len(found)} of {len(rows())} rows"
    except KafkaSegmentError as error:
        outcome = type(error).__name__
    assert outcome == "all rows" or not key.endswith(".indexes"), f"case {number} ({key}): {outcome}"
    try:
        found = scanned(store, tieredKeys=TIERED_KEYS, mode="DROPMALFORMED", failOnDataLoss=False)
        remaining = iter(rows())
        assert all(row in remaining for row in found), f"case {number} ({key}): rows that are not in the log"
    except KafkaSegmentError:
        assert outcome != "all rows", f"case {number} ({key}): DROPMALFORMED fails where FAILFAST does not"
    _check_a_window(number, store)
    if outcome in ("all rows", "CorruptRecordError"):
        kafkaseg.verify(store, tieredKeys=TIERED_KEYS)
    return outcome


def _check_a_window(number: int, store: Path) -> None:
    """A window by time has no row that it should not have, and FAILFAST leaves none out that is not damaged."""
    since = rows()[random.Random(number).randrange(len(rows()))][TIMESTAMP]
    try:
        found = scanned(store, tieredKeys=TIERED_KEYS, since=since, mode="DROPMALFORMED", failOnDataLoss=False)
    except KafkaSegmentError:
        return
    remaining = iter([row for row in rows() if row[TIMESTAMP] >= since])
    assert all(row in remaining for row in found), f"case {number}: a window has other rows"
