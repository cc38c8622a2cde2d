"""Decompression of Kafka's batches on one core: this package's against every library at hand, and its share of a scan.

Libraries that are not installed are left out; to compare more of them: pip install deflate zlib-ng python-snappy pyzstd
zstd backports.zstd.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from benchmarks import chunks
from benchmarks.logs import CODECS, LogShape, column_names, log
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source import kafka_format
from kafka_segment_source.decoding.compression import Plain, decompress
from kafka_segment_source.kernels import batch_headers
from tests.support import writer

TITLE = "decompression, one core"

FASTEST = Goal(least=0.90)
KERNEL = Goal(least=0.80)
_STORED = 16 * 2**20

Decompress = Callable[[memoryview, int], object]
_OUT = Plain()


def rows(settings: Settings) -> Iterator[Row]:
    """For each codec: against the fastest library, and decompression alone against the whole decode."""
    for codec in CODECS[1:]:
        yield from _codec(codec, 3 if settings.quick else 9)


def _codec(codec: str, runs: int) -> Iterator[Row]:
    events = log(LogShape(1, codec).of_bytes(_STORED))
    split = chunks.first_split(events)
    source = chunks.chunks(split, 1)
    data = source[0].data.data
    stored = [
        data[start + kafka_format.BATCH_OVERHEAD : start + size]
        for start, size in zip(
            source[0].headers[batch_headers.POSITION].tolist(),
            source[0].headers[batch_headers.SIZE].tolist(),
            strict=True,
        )
    ]
    ours: Decompress = partial(_ours, kafka_format.CODEC_NAMES.index(codec))
    plain = [bytes(ours(each, 0)) for each in stored]  # type: ignore[call-overload]  # buffers
    size = sum(map(len, plain))
    rivals = {name: rival for name, rival in _rivals(codec).items() if _agrees(rival, stored, plain)}
    pairs = [(each, len(one)) for each, one in zip(stored, plain, strict=True)]
    times = _in_turn({"ours": ours, **rivals}, pairs, runs)
    speeds = {name: size / statistics.median(measured) / 1e6 for name, measured in times.items()}
    best = max(rivals, key=speeds.__getitem__)
    ratios = [theirs / own for theirs, own in zip(times[best], times["ours"], strict=True)]
    listed = ", ".join(f"{name} {speed:.0f}" for name, speed in sorted(speeds.items(), key=lambda each: -each[1]))
    yield row(f"{codec}: of the fastest library", ratios, "of its speed", FASTEST, f"MB/s: {listed}", headline=True)

    if codec in ("lz4", "snappy"):
        kernel = chunks.kernel_of_codec(source, kafka_format.CODEC_NAMES.index(codec))
        works: dict[str, Decompress] = {
            "kernel": lambda *_: kernel(),
            "library": lambda *_: [ours(each, 0) for each in stored],
        }
        both = _in_turn(works, [pairs[0]], runs)
        ratios = [library / one for one, library in zip(both["kernel"], both["library"], strict=True)]
        note = f"{size / statistics.median(both['kernel']) / 1e6:.0f} MB/s"
        yield row(f"{codec}: all batches of a chunk in one call", ratios, "of the library's speed", KERNEL, note)

    columns = column_names(headers=False)
    whole = _in_turn(
        {
            "alone": lambda *_: [ours(each, 0) for each in stored],
            "whole": lambda *_: chunks.to_arrow(split, source, columns),
        },
        [pairs[0]],
        runs,
    )
    shares = [alone / both for alone, both in zip(whole["alone"], whole["whole"], strict=True)]
    yield row(f"{codec}: decompression alone, of decompression, decoding and Arrow", shares, "of the time")


def _in_turn(works: dict[str, Decompress], batches: list[tuple[memoryview, int]], runs: int) -> dict[str, list[float]]:
    """CPU times of each over all batches, one after the other in each run."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs + 1):
        for name, work in works.items():
            begin = time.process_time()
            for stored, size in batches:
                work(stored, size)
            times[name].append(time.process_time() - begin)
    return {name: measured[1:] for name, measured in times.items()}  # the first of each does not count


def _agrees(rival: Decompress, stored: list[memoryview], plain: list[bytes]) -> bool:
    """Whether it reads what Kafka writes: some take no frame without a content size."""
    try:
        return all(bytes(rival(each, len(one))) == one for each, one in zip(stored[:3], plain[:3], strict=True))  # type: ignore[call-overload]
    except Exception as error:
        print(f"left out: {error!r}")
        return False


def _ours(codec: int, stored: memoryview, _: int) -> memoryview:
    """Into a buffer that is used again, as a scan does it."""
    _OUT.clear()
    decompress(codec, stored, _OUT, chunks.LIMIT)
    return _OUT.data[: _OUT.size].data


# --- every library that may be installed; each gets the stored bytes and, as an advantage, their plain size
# ------------


def _rivals(codec: str) -> dict[str, Decompress]:
    """Those installed, by name."""
    found: dict[str, Decompress] = {}
    for name, module, make in _RIVALS[codec]:
        try:
            found[name] = make(importlib.import_module(module))
        except (ImportError, AttributeError):
            continue
    arrow = pa.Codec(codec)
    raw_blocks = _xerial(lambda block: arrow.decompress(block, _snappy_size(block)))
    found["pyarrow"] = raw_blocks if codec == "snappy" else arrow.decompress
    return found


def _xerial(decompress_block: Callable[[memoryview], bytes]) -> Decompress:
    """A decompressor of raw blocks as one of the framing that Java writes."""

    def whole(stored: memoryview, _: int) -> bytes:
        at, parts = kafka_format.XERIAL_HEADER, []
        while at < len(stored):
            size = int.from_bytes(stored[at : at + 4], "big")
            parts.append(decompress_block(stored[at + 4 : at + 4 + size]))
            at += 4 + size
        return b"".join(parts)

    return whole


def _snappy_size(block: memoryview) -> int:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return size


def _zstandard(module: object) -> Decompress:
    once = module.ZstdDecompressor()  # type: ignore[attr-defined]
    return lambda stored, size: once.decompress(stored, max_output_size=size)


_RIVALS: dict[str, list[tuple[str, str, Callable[..., Decompress]]]] = {
    "gzip": [
        ("isal", "isal.isal_zlib", lambda m: lambda stored, size: m.decompress(stored, 31, size)),
        ("zlib", "zlib", lambda m: lambda stored, size: m.decompress(stored, 31, size)),
        ("zlib-ng", "zlib_ng.zlib_ng", lambda m: lambda stored, size: m.decompress(stored, 31, size)),
        ("deflate", "deflate", lambda m: m.gzip_decompress),
        ("cramjam", "cramjam", lambda m: lambda stored, size: m.gzip.decompress(stored, output_len=size)),
    ],
    "snappy": [
        ("cramjam", "cramjam", lambda m: _xerial(m.snappy.decompress_raw)),
        ("python-snappy", "snappy", lambda m: _xerial(m.uncompress)),
    ],
    "lz4": [
        ("lz4", "lz4.frame", lambda m: lambda stored, _: m.decompress(stored)),
        ("cramjam", "cramjam", lambda m: lambda stored, size: m.lz4.decompress(stored, output_len=size)),
    ],
    "zstd": [
        ("zstandard", "zstandard", _zstandard),
        ("pyzstd", "pyzstd", lambda m: lambda stored, _: m.decompress(stored)),
        ("backports.zstd", "backports.zstd", lambda m: lambda stored, _: m.decompress(stored)),
        ("compression.zstd", "compression.zstd", lambda m: lambda stored, _: m.decompress(stored)),
        ("zstd", "zstd", lambda m: lambda stored, _: m.decompress(bytes(stored))),
        ("cramjam", "cramjam", lambda m: lambda stored, size: m.zstd.decompress(stored, output_len=size)),
    ],
}
assert set(_RIVALS) == set(CODECS[1:]) <= {*writer.CODEC_IDS, "snappy"}
