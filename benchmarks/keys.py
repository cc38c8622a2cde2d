"""One key in many segments: by key filters, and by decoding alone; what filters cost and how often they are wrong.

Each record has a key of its own, which is the most that filters have to hold. One key is in two segments.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c

import kafka_segment_source
from benchmarks.full_scan import RECORDS
from benchmarks.logs import ORIGIN, TOPIC, LogShape, cache_directory, index_files, log
from benchmarks.measure import alternate, repeat
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source import kafka_format
from kafka_segment_source.zones import key_filters
from kafka_segment_source.zones.updates import update_zone_maps_locally
from tests.support import writer

TITLE = "one key: by key filters, and without"

BYTES = Goal(most=1)  # % of the log, beyond the filters
PLAN = Goal(most=2)  # s for 10,000 segments
_SEGMENTS = 10_000
_BATCHES = 2  # a segment
_RECORDS = 110  # a batch, of some 150 bytes
_DIGITS = 10
_VALUE = bytes(range(97, 122)) * 5
_ASKED = b"order-" + b"9" * _DIGITS
_SIZE = 2**30


@dataclass(frozen=True)
class _Case:
    """A log whose records have a key each, and the directory of its maps."""

    path: Path
    maps: Path
    segments: int

    @property
    def stored_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.path.glob("*.log"))

    @property
    def filter_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.maps.glob("*.keys/*"))


def rows(settings: Settings) -> Iterator[Row]:
    """A look-up by filters, the filters themselves, and a look-up by decoding."""
    case = _case(_SEGMENTS // 10 if settings.quick else _SEGMENTS)
    shutil.rmtree(case.maps, ignore_errors=True)
    update_zone_maps_locally(case.path, case.maps, keys=True)
    try:
        yield from _look_up(case, settings)
        yield from _filters(case)
        yield from _making(case, settings)
    finally:
        shutil.rmtree(case.maps, ignore_errors=True)
    yield from _decode(settings)


def _look_up(case: _Case, settings: Settings) -> Iterator[Row]:
    asked = partial(kafka_segment_source.plan, str(case.path), key=_ASKED, zoneMaps=case.maps)
    plan = asked()
    found = plan.to_reader(["offset"]).read_all().num_rows
    assert found == 2, f"records of the key: {found}"
    name = f"one key in {case.segments:,} segments, present in 2"
    note = f"{plan.segments_kept} segments, {plan.bytes_to_read / 1e6:.2f} of {case.stored_bytes / 1e6:.0f} MB"
    yield row(f"{name}: bytes", 100 * plan.bytes_to_read / case.stored_bytes, "% of the log", BYTES, note, True)
    times = repeat(asked, settings.runs)
    yield row(f"{name}: plan", times, "s", PLAN, f"{min(times) / case.segments * 1e6:.0f} µs a segment", True)

    def read(**options: Any) -> None:
        kafka_segment_source.scan(str(case.path), key=_ASKED, **options).read_all()

    pairs = alternate(partial(read, zoneMaps=case.maps), read, settings.runs)
    note = f"{min(a for a, _ in pairs):.2f} of {min(b for _, b in pairs):.2f} s"
    yield row(f"{name}: time", [a / b for a, b in pairs], "of that without filters", None, note)


def _filters(case: _Case) -> Iterator[Row]:
    records = case.segments * _BATCHES * _RECORDS
    note = f"{case.filter_bytes / 1e6:.2f} MB for {records / 1e6:.2f} M keys, {case.filter_bytes / records:.2f} B a key"
    yield row("size of the filters", 100 * case.filter_bytes / case.stored_bytes, "% of the log", None, note)
    wrong = asked = 0
    for path in sorted(case.maps.glob("*.keys/*"))[:: max(case.segments // 500, 1)]:
        data = path.read_bytes()
        found = key_filters.parse_header(lambda position, count, data=data: data[position : position + count])
        for number in range(200):
            wrong += int(found.may_hold(key_filters.KeyQuery([b"absent-%d" % number])).sum())
            asked += 1
    yield row("false positives", 100 * wrong / asked, "% of absent keys", None, f"{wrong:,} of {asked:,}")


def _making(case: _Case, settings: Settings) -> Iterator[Row]:
    events = log(LogShape(RECORDS[119], segments=4).of_bytes(_SIZE // (16 if settings.quick else 1)))

    def make(keys: bool) -> None:
        shutil.rmtree(case.maps, ignore_errors=True)
        update_zone_maps_locally(events.path, case.maps, keys=keys)

    pairs = alternate(partial(make, True), partial(make, False), settings.runs)
    note = f"{events.stored_bytes / min(a for a, _ in pairs) / 1e6:.0f} MB/s of log"
    yield row("making maps with filters", [a / b for a, b in pairs], "of the time of maps alone", None, note)


def _decode(settings: Settings) -> Iterator[Row]:
    for codec in ("none", "lz4"):
        events = log(LogShape(RECORDS[119], codec, segments=4).of_bytes(_SIZE // (16 if settings.quick else 1)))

        def read(path: str = str(events.path), **options: Any) -> int:
            return sum(batch.num_rows for batch in kafka_segment_source.scan(path, **options))

        pairs = alternate(partial(read, key=_ASKED), read, settings.runs)
        note = f"{min(a for a, _ in pairs):.2f} of {min(b for _, b in pairs):.2f} s"
        yield row(
            f"one key without filters, {codec}", [a / b for a, b in pairs], "of a scan of all columns", None, note
        )


def _case(segments: int) -> _Case:
    folder = cache_directory() / f"keys-v1-{segments}s"
    path = folder / f"{TOPIC}-0"
    if not folder.is_dir():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        _write(unfinished / f"{TOPIC}-0", segments)
        unfinished.rename(folder)
    return _Case(path, cache_directory() / "key-filters", segments)


def _write(directory: Path, segments: int) -> None:
    """Writes segments of copies of one batch, each with its own offsets, keys and CRC."""
    directory.mkdir(parents=True)
    recs = [writer.Rec(n, ORIGIN, _ASKED, _VALUE) for n in range(_RECORDS)]
    batch = np.frombuffer(bytearray(writer.record_batch(recs)), np.uint8)
    whole = batch.tobytes()
    at = [whole.index(_ASKED) + len(_ASKED) - _DIGITS]
    while len(at) < _RECORDS:
        at.append(whole.index(_ASKED, at[-1]) + len(_ASKED) - _DIGITS)
    places = np.array(at)[:, None] + np.arange(_DIGITS)
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    offset = 0
    for segment in range(segments):
        base, parts, table = offset, [], []
        for number in range(_BATCHES):
            batch[places] = (offset + np.arange(_RECORDS))[:, None] // powers % 10 + ord("0")
            if number == 0 and segment in (segments // 8, segments * 7 // 8):
                batch[places[_RECORDS // 2]] = ord("9")
            struct.pack_into(">q", batch.data, kafka_format.BASE_OFFSET_AT, offset)
            checked = crc32c(memoryview(batch.data)[kafka_format.CRC_FROM :])
            struct.pack_into(">I", batch.data, kafka_format.CRC_AT, checked)
            table.append((0, number * len(batch), len(batch), offset, offset + _RECORDS - 1, ORIGIN, ORIGIN))
            parts.append(batch.tobytes())
            offset += _RECORDS
        index, times = index_files(np.array(table, np.int64), base)
        for suffix, data in ((".log", b"".join(parts)), (".index", index), (".timeindex", times)):
            (directory / writer.segment_name(base, suffix)).write_bytes(data)
