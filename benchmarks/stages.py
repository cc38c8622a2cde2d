"""Where a scan's CPU time goes, stage by stage, in nanoseconds a row: each stage by itself over the same chunks of a
log.

CPU time of one thread, so that it can be believed on a busy machine. `profile.py` tells the same by function.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import kafka_segment_source
from benchmarks import chunks
from benchmarks.logs import CODECS, LogShape, column_names, log
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.batches import CHUNK_BYTES, BatchReader, Chunk
from kafka_segment_source.decoding.compression import Plain, decompress
from kafka_segment_source.decoding.damage import Damage
from kafka_segment_source.decoding.payloads import Unpacker
from kafka_segment_source.decoding.scratch import Scratch
from kafka_segment_source.decoding.split import SegmentSplit
from kafka_segment_source.kernels import batch_headers
from kafka_segment_source.storage.files import InputFile
from kafka_segment_source.trust import Trust

TITLE = "stages of a scan, CPU time of one thread"

#: By value size: ns a row of a whole scan that are not the codec's.
ALONE = {119: Goal(most=60), 1024: Goal(most=250)}
_STORED = {codec: 2**26 if codec == "none" else 2**24 for codec in CODECS}  # about as many rows of each


def rows(settings: Settings) -> Iterator[Row]:
    """For each codec, 119-byte values; in the standard set with headers and for other sizes too."""
    kinds = ((119, False),) if settings.quick else ((119, False), (119, True), (20, False), (1024, False))
    for size, headers in kinds:
        for codec in CODECS if size in ALONE and not headers and not settings.quick else ("none", "lz4"):
            yield from _stages(codec, size, headers, 3 if settings.quick else 9)


def _stages(codec: str, size: int, headers: bool, runs: int) -> Iterator[Row]:
    events = log(LogShape(1, codec, size, headers, segments=1).of_bytes(_STORED[codec]))
    split = chunks.first_split(events)
    source = chunks.chunks(split, 2**30)
    groups = chunks.groups(split, source)
    stored = [
        (chunk.data.data[at + kafka_format.BATCH_OVERHEAD : at + size])
        for chunk in source
        for at, size in zip(
            (chunk.headers[batch_headers.POSITION] - chunk.position).tolist(),
            chunk.headers[batch_headers.SIZE].tolist(),
            strict=True,
        )
    ]
    number = kafka_format.CODEC_NAMES.index(codec)
    records, columns = chunks.Records.arrays(), column_names(headers)
    works: dict[str, Callable[[], object]] = {
        "read": lambda: _read(split),
        "walk": lambda: _walk(split, check_crcs=False),
        "checked": lambda: _walk(split, check_crcs=True),
        "decompressed": partial(_decompress, number, stored),
        "unpacked": lambda: _unpack(split, source),
        "found": lambda: [records.find(group) for group in groups],
        "arrow": lambda: chunks.to_arrow(split, source, columns),
        "whole": lambda: [*map(len, kafka_segment_source.scan(str(events.path), threads=1, includeHeaders=headers))],
    }
    if number in (kafka_format.CODEC_SNAPPY, kafka_format.CODEC_LZ4):
        works["decompressed"] = chunks.kernel_of_codec(source, number)
    taken = {name: [each / events.records * 1e9 for each in times] for name, times in _in_turn(works, runs).items()}
    taken["empty"] = [0.0] * runs
    stages = {
        "read": ("read", "empty"),
        "walk over headers": ("walk", "read"),
        "CRC and order": ("checked", "walk"),
        "decompression": ("decompressed", "empty"),
        "Python a batch, copy into the arena": ("unpacked", "decompressed"),
        "kernel": ("found", "empty"),
        "Arrow": ("arrow", "unpacked", "found"),
        "whole scan": ("whole", "empty"),
    }
    whole = statistics.median(taken["whole"])
    for name, (total, *parts) in stages.items():
        own = [each - sum(parts) for each, *parts in zip(taken[total], *(taken[part] for part in parts), strict=True)]
        kind = f"{codec}, {size} B{', headers' if headers else ''}"
        yield row(f"{kind}: {name}", own, "ns a row", note=f"{statistics.median(own) / whole:.0%}")
    if size in ALONE and not headers:
        rest = [all_of_it - codecs for all_of_it, codecs in zip(taken["whole"], taken["decompressed"], strict=True)]
        note = f"of {whole:.0f} ns"
        yield row(f"{kind}: without decompression", rest, "ns a row", ALONE[size], note, headline=True)


def _in_turn(works: dict[str, Callable[[], object]], runs: int) -> dict[str, list[float]]:
    """CPU times of each, one after the other in each run, so that a slow spell of the machine touches all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs + 1):
        for name, work in works.items():
            begin = time.process_time()
            work()
            times[name].append(time.process_time() - begin)
    return {name: measured[1:] for name, measured in times.items()}


def _read(split: SegmentSplit) -> None:
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    with InputFile(split.path, split.storage) as file:
        for position in range(split.start, split.end, CHUNK_BYTES):
            file.read_into(position, buffer[: min(CHUNK_BYTES, split.end - position)])


def _walk(split: SegmentSplit, check_crcs: bool) -> None:
    with InputFile(split.path, split.storage) as file:
        reader = BatchReader(file, split, Trust(check_crcs, max_batch_bytes=chunks.LIMIT), Damage(False))
        for _ in reader.chunks():
            pass


def _unpack(split: SegmentSplit, source: list[Chunk]) -> None:
    unpacker = Unpacker(split.path, chunks.LIMIT, Damage(False), Scratch().plain)
    for chunk in source:
        for _ in unpacker.groups(chunk, chunk.headers):
            pass


def _decompress(codec: int, stored: list[memoryview]) -> None:
    out = Plain()
    for each in stored if codec else ():
        out.clear()
        decompress(codec, each, out, chunks.LIMIT)
