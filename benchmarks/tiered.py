"""Windows of a tier of Aiven's format, compressed and encrypted, from an S3 server: bytes, requests, time.

Chunks have 4 MiB, as Aiven recommends. The tier is made of a generated log by the encoder of the tests. The same log,
read where it lies, is what the time is held against.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kafka_segment_source
from benchmarks.full_scan import RECORDS
from benchmarks.logs import Log, LogShape, cache_directory, log
from benchmarks.measure import alternate, seconds
from benchmarks.object_server import Remote, serving
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, row
from benchmarks.windows import DECLARED, WINDOW, window_of
from kafka_segment_source.storage.tiered.chunks import KEPT
from tests.support import tiered_encoder as encoder
from tests.support.tiers import KEY_FILE, KEYS

TITLE = "tiered storage"

CHUNK = 4 * 1024 * 1024
OVER = Goal(most=2)  # chunks a segment, beyond the bytes of the window
SCAN = Goal(most=2.5)  # of the local scan
LATENCY = 20  # ms


def rows(settings: Settings) -> Iterator[Row]:
    """The window, and all of it."""
    events = log(LogShape(RECORDS[119], segments=8).of_bytes(10**9 // (16 if settings.quick else 1)))
    store = _make_tier(events)
    with serving(cache_directory()) as server:
        yield _window(server, events, store)
        yield _scan(server, events, store, settings)


def _make_tier(events: Log) -> Path:
    """The tier of a log, beside it."""
    store = events.path.with_name(f"{events.path.name}.tier")
    if not store.exists():
        config = encoder.AivenConfig(chunk_size=CHUNK, compression=True, key=("key1", KEY_FILE.read_bytes()))
        segments = encoder.read_segments(events.path, active=True)
        encoder.write_objects(encoder.encode_aiven(segments, encoder.Names("events"), config), store)
    return store


def _options(server: Remote) -> dict[str, Any]:
    return {
        "tieredKeys": json.dumps({name: str(path) for name, path in KEYS.items()}),
        "storage_options": dict(server.options),
    }


def _url(store: Path) -> str:
    return f"s3://logs/{store.relative_to(cache_directory()).as_posix()}"


def _window(server: Remote, events: Log, store: Path) -> Row:
    window = window_of(DECLARED, events, int(events.stored_bytes * WINDOW))
    server.set_latency(LATENCY)
    KEPT.clear()
    plan = kafka_segment_source.plan(_url(store), **window.options, **_options(server))
    took = seconds(lambda: plan.to_reader(columns=["offset", "timestamp"]).read_all())
    counts = server.set_latency(0)
    stored = sum(path.stat().st_size for path in store.rglob("*.log"))
    over = max(counts["bytes"] - window.own_bytes, 0) / CHUNK / plan.segments_total
    note = (
        f"{counts['bytes'] / 1e6:.2f} MB for {window.own_bytes / 1e6:.2f} MB of the window, of {stored / 1e6:.0f} MB;"
        f" {counts['GET']} GETs, reading {took:.2f} s"
    )
    return row("window of 0.5 %: chunks beyond it", over, "a segment", OVER, note)


def _scan(server: Remote, events: Log, store: Path, settings: Settings) -> Row:
    server.set_latency(LATENCY)
    pairs = alternate(partial(_read_all, server, store), lambda: read(events), 2 if settings.quick else 3)
    server.set_latency(0)
    ratios = [tier / local for tier, local in pairs]
    tier, local = min(tier for tier, _ in pairs), min(local for _, local in pairs)
    return row("full scan: time", ratios, "of the local scan", SCAN, f"{tier:.2f} s; local {local:.2f} s")


def _read_all(server: Remote, store: Path) -> int:
    KEPT.clear()
    return sum(batch.num_rows for batch in kafka_segment_source.scan(_url(store), **_options(server)))
