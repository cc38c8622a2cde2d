"""Zone maps: a window of 0.5 % of a CreateTime log with late records, and what making the maps costs.

One batch of five hundred comes late, by up to 2 % of the log's span, as from clients that were offline. The bytes to
read are compared with those of the zones that hold a batch of the window, which is the least that zones of that size
allow.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kafka_segment_source
from benchmarks import sessions
from benchmarks.full_scan import RECORDS
from benchmarks.logs import (
    FIRST_TIMESTAMP,
    LAST_TIMESTAMP,
    ORIGIN,
    POSITION,
    RECORDS_A_MS,
    SEGMENT,
    SIZE,
    Log,
    LogShape,
    cache_directory,
    log,
)
from benchmarks.measure import alternate, repeat
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, row
from kafka_segment_source.zones import making as zone_making
from kafka_segment_source.zones.update_plan import plan_updates
from kafka_segment_source.zones.updates import ZoneMapSummary, finish_update, parse_update

TITLE = "zone maps: a window of 0.5 % of a log with late records, and their making"

WINDOW = 0.005
WHERE = 0.55  # of the log's span
LATE_EVERY = 500  # batches
LATE = 0.02  # of the log's span, at most
BYTES = Goal(most=1.2)  # of the zones with matching rows
SPEED = Goal(least=0.8)  # of a scan that decodes timestamps alone
_LOG, _SEGMENT = 2**30, 256 * 2**20
_SIZES = (64 * 1024, 256 * 1024, 1024 * 1024)


@dataclass(frozen=True)
class _Case:
    """A log, the window as options, and the directory for its zone maps."""

    events: Log
    since: int
    until: int
    maps: Path

    @property
    def bounds(self) -> dict[str, Any]:
        return {"since": self.since, "until": self.until}


def rows(settings: Settings) -> Iterator[Row]:
    """Times and bytes of the window, with and without; then sizes of zones; then the making."""
    case = _case(settings)
    try:
        for codec in ("lz4", "none"):
            it = case if codec == "none" else _case(settings, codec)
            _make(it, zone_making.ZONE_BYTES)
            yield from _times(it, codec, settings)
        yield from _bytes(case)
        yield from _sizes(case, settings)
        yield from _making(case, settings)
    finally:
        shutil.rmtree(case.maps, ignore_errors=True)


def _case(settings: Settings, codec: str = "none") -> _Case:
    smaller = 16 if settings.quick else 1
    shape = LogShape(RECORDS[119], codec, segments=_LOG // _SEGMENT).of_bytes(_LOG // smaller)
    span = shape.records // RECORDS_A_MS
    events = log(
        LogShape(
            shape.records, codec, segments=shape.segments, late_every=LATE_EVERY, late_ms=max(1, round(span * LATE))
        )
    )
    since = ORIGIN + round(span * WHERE)
    return _Case(events, since, since + round(span * WINDOW), cache_directory() / "zone-maps")


def _make(case: _Case, cell: int) -> ZoneMapSummary:
    """The maps of a log, from nothing, as `kafkaseg zonemap` makes them."""
    shutil.rmtree(case.maps, ignore_errors=True)
    done = ZoneMapSummary()
    for update in plan_updates(*parse_update(str(case.events.path), {}), str(case.maps)):
        mapped = [zone_making.map_segment(split, 2**28, cell=cell) for split in update.splits]
        finish_update(update, mapped, done)
    return done


def _zones_with_rows(case: _Case, cell: int) -> int:
    """Bytes of the zones in which a batch of the window is, by what was written."""
    batches = case.events.batches
    zone = batches[:, SEGMENT] * 2**40 + batches[:, POSITION] // cell
    inside = (batches[:, LAST_TIMESTAMP] >= case.since) & (batches[:, FIRST_TIMESTAMP] < case.until)
    wanted = set(zone[inside].tolist())
    return int(
        sum(size for number, size in zip(zone.tolist(), batches[:, SIZE].tolist(), strict=True) if number in wanted)
    )


def _bytes(case: _Case) -> Iterator[Row]:
    least = _zones_with_rows(case, zone_making.ZONE_BYTES)
    ways: dict[str, dict[str, Any]] = {
        "zoneMaps": {"zoneMaps": case.maps},
        "neither": {},
        "timestampDisorder": {"timestampDisorder": f"{case.events.shape.late_ms + 10}ms"},
    }
    for name, options in ways.items():
        plan = kafka_segment_source.plan(str(case.events.path), **case.bounds, **options)
        goal = BYTES if name == "zoneMaps" else None
        note = f"{plan.bytes_to_read / 1e6:.2f} of {case.events.stored_bytes / 1e6:.0f} MB, {len(plan.splits)} ranges"
        yield row(
            f"bytes: {name}", plan.bytes_to_read / least, "of the zones with rows", goal, note, name == "zoneMaps"
        )


def _times(case: _Case, codec: str, settings: Settings) -> Iterator[Row]:
    mapped = {**case.bounds, "zoneMaps": case.maps}
    counts = {read(case.events, **mapped), read(case.events, **case.bounds)}
    assert len(counts) == 1, f"rows with and without zone maps: {counts}"
    pairs = alternate(lambda: read(case.events, **mapped), lambda: read(case.events, **case.bounds), settings.runs)
    note = f"{min(with_maps for with_maps, _ in pairs) * 1e3:.0f} of {min(plain for _, plain in pairs) * 1e3:.0f} ms"
    yield row(f"time, {codec}, without Spark", [a / b for a, b in pairs], "of that without maps", None, note)

    frames = []
    for options in (mapped, case.bounds):
        reader = sessions.spark().read.format("kafkaseg")  # a reader keeps every option that it was given
        named = {name: str(value) for name, value in options.items()}
        frames.append(reader.options(**named).load(str(case.events.path)))
    pairs = alternate(lambda: sessions.touch(frames[0]), lambda: sessions.touch(frames[1]), 3)
    note = f"{min(a for a, _ in pairs):.2f} of {min(b for _, b in pairs):.2f} s"
    yield row(f"time, {codec}, in Spark", [a / b for a, b in pairs], "of that without maps", None, note)


def _sizes(case: _Case, settings: Settings) -> Iterator[Row]:
    """What larger and smaller zones would cost: why they are what they are."""
    for cell in _SIZES:
        done = _make(case, cell)
        plan = kafka_segment_source.plan(str(case.events.path), **case.bounds, zoneMaps=case.maps)
        times = repeat(
            lambda: kafka_segment_source.plan(str(case.events.path), **case.bounds, zoneMaps=case.maps), settings.runs
        )
        size = sum(path.stat().st_size for path in case.maps.iterdir())
        note = f"{done.zones:,} zones, map of {size / 1e3:.0f} kB, planning {min(times) * 1e3:.1f} ms"
        yield row(f"zones of {cell // 1024} KiB: bytes", plan.bytes_to_read / 1e6, "MB", None, note)


def _making(case: _Case, settings: Settings) -> Iterator[Row]:
    for codec in ("none", "lz4"):
        it = case if codec == "none" else _case(settings, codec)
        pairs = alternate(
            lambda it=it: _make(it, zone_making.ZONE_BYTES),
            lambda it=it: kafka_segment_source.scan(str(it.events.path), ["timestamp"], 1).read_all(),
            settings.runs,
        )
        made = min(a for a, _ in pairs)
        note = f"{it.events.stored_bytes / made / 1e6:.0f} MB/s of log, {it.events.records / made / 1e6:.1f} M rows/s"
        yield row(f"making, {codec}", [b / a for a, b in pairs], "of scan(timestamp)", SPEED, note, codec == "none")
