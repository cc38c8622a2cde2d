"""Copies of one partition as texts of one line: `"[0-7 e0] [8-9 e1 @24] [10-12 e1 !]"` are the batches of a segment.

A batch is its first and its last offset (one number if they are equal) and its leader epoch. `@24`: its baseOffset
states 24. `!`: one bit of its records is flipped. `(9)`: the offsets that compaction has left, with commas between
them. A record of offset N has the timestamp 1000 + 10 N, the key `kN` and the value `vN of eE`, E being its epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kafka_segment_source as kafkaseg
from kafka_segment_source.kafka_format import CLEANER_CHECKPOINT
from tests.support import writer
from tests.support.writer import Rec

_BATCH = re.compile(r"\[(\d+)(?:-(\d+))? e(\d+)(?: \(([\d,]*)\))?(?: @(\d+))?( !)?\]")


def encode_batches(text: str) -> bytes:
    """The bytes of the batches of a text."""
    parts = _BATCH.findall(text)
    assert _BATCH.sub("", text).strip() == "", text
    return b"".join(_encode(*part) for part in parts)


def _encode(first: str, last: str, epoch: str, kept: str, stated: str, hurt: str) -> bytes:
    base, end = int(first), int(last or first)
    offsets = [int(offset) for offset in kept.split(",")] if kept else range(base, end + 1)
    rows = [Rec(at - base, 1000 + 10 * at, b"k%d" % at, f"v{at} of e{epoch}".encode()) for at in offsets]
    data = writer.record_batch(rows, base_offset=base, leader_epoch=int(epoch), last_offset_delta=end - base)
    if stated:
        data = int(stated).to_bytes(8, "big") + data[8:]
    return data[:-3] + bytes([data[-3] ^ 4]) + data[-2:] if hurt else data


def write_copies(root: Path, *copies: Mapping[int, str], epochs: Sequence[str] = ()) -> list[str]:
    """Writes copies of partition t-0, each a text for each base offset. Returns their paths.

    epochs: the lines of the leader-epoch-checkpoint of each copy, as "0 0, 1 8"; no file for an empty text.
    """
    paths = []
    for number, segments in enumerate(copies):
        folder = root / f"copy{number}" / "t-0"
        folder.mkdir(parents=True)
        for base, text in segments.items():
            (folder / writer.segment_name(base)).write_bytes(encode_batches(text))
        lines = [line.strip() for line in epochs[number].split(",")] if epochs and epochs[number] else []
        if lines:
            (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        paths.append(str(folder.parent))
    return paths


def write_bytes(root: Path, *copies: dict[int, bytes]) -> list[str]:
    """Writes copies of partition t-0, each the bytes of each file by its base offset. Returns their paths."""
    paths = write_copies(root, *({} for _ in copies))
    for path, files in zip(paths, copies, strict=True):
        for base, data in files.items():
            Path(path, "t-0", writer.segment_name(base)).write_bytes(data)
    return paths


def mark(path: str) -> None:
    """Marks a copy as compacted."""
    Path(path, CLEANER_CHECKPOINT).write_text("0\n1\nt 0 1\n")


def offsets(paths: list[str], end: int | None = None, **options: Any) -> list[int]:
    """The offsets of a read, whose values are those of their offsets. end: the end of the read (exclusive)."""
    if end is not None:
        options["endingOffsets"] = {"t": {"0": end}}
    table = kafkaseg.scan(paths, ["offset", "value"], **options).read_all().to_pydict()
    for offset, value in zip(table["offset"], table["value"], strict=True):
        assert value.decode().startswith(f"v{offset} of ")
    found: list[int] = table["offset"]
    return found
