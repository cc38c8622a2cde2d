"""Reads from an S3 server with 0, 20 and 80 ms added latency: a full scan, planning `since`, and a window.

The server (`object_server.py`) is a process of its own on the same machine. It takes processor time from what is
measured, so the figures are ratios and numbers of requests.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

import kafka_segment_source
from benchmarks import sessions
from benchmarks.full_scan import RECORDS
from benchmarks.logs import FIRST_TIMESTAMP, Log, LogShape, cache_directory, log
from benchmarks.measure import alternate, repeat, seconds
from benchmarks.object_server import BUCKET, Remote, serving
from benchmarks.plain_scan import read
from benchmarks.results import Goal, Row, Settings, row
from benchmarks.windows import DECLARED, WINDOW, window_of
from kafka_segment_source.storage.ahead import RANGE_BYTES, RANGES_AT_ONCE

TITLE = "object stores"

LATENCIES = (0, 20, 80)  # ms
SCAN = Goal(most=1.15)  # of what is longer: the same bytes by the same client, or the local scan
PLAN = Goal(most=20)  # s, at 20 ms
DROPPED = Goal(most=1.2)  # requests
KEPT = Goal(most=2.2)
WINDOW_BYTES = Goal(most=1.2)  # of its own and 64 KiB a segment
_PARTITIONS = 100
_RECORDS = 24  # a small segment: three batches
_A_SEGMENT = 64 * 1024  # bytes that a plan may read of one


def rows(settings: Settings) -> Iterator[Row]:
    """Each kind at each latency."""
    with serving(cache_directory()) as server:
        yield from _plans(server, settings)
        yield from _windows(server, settings)
        yield from _scans(server, settings)
        yield from _scans_in_spark(server, settings)


def _scans(server: Remote, settings: Settings) -> Iterator[Row]:
    events, files = _scanned_log(settings)
    for latency in LATENCIES:
        server.set_latency(latency)
        runs = 2 if settings.quick else 3
        pairs = alternate(partial(_scan, server, events), partial(_fetch, server, events, files), runs)
        local = min(repeat(lambda: read(events), runs))
        counts = server.set_latency(latency)
        ratios = [scan / max(fetch, local) for scan, fetch in pairs]
        scan, fetch = min(scan for scan, _ in pairs), min(fetch for _, fetch in pairs)
        note = f"{scan:.2f} s; the same bytes {fetch:.2f} s, local {local:.2f} s; {counts['GET']} GETs in all runs"
        yield row(f"full scan, {latency} ms: time", ratios, "of the longer", SCAN, note, latency == LATENCIES[1])
        if latency == 0:
            yield _least(scan, server, events, files)
    server.set_latency(0)
    cpu = _cpu(partial(_scan, server, events))
    both = _cpu(partial(_fetch, server, events, files)) + _cpu(lambda: read(events))
    yield row("full scan: CPU of the client", cpu / both, "of both", Goal(most=1), f"{cpu:.2f} of {both:.2f} s")


def _least(scan: float, server: Remote, events: Log, files: list[tuple[str, int]]) -> Row:
    """The time of a scan over the least that the cores allow, which the server has a share of.

    The least: the processor time of the client's fetch, of the server, and of the local scan, on all cores.
    """
    server.set_latency(0)
    fetch = _cpu(partial(_fetch, server, events, files))
    serve = server.set_latency(0)["cpu_ms"] / 1000
    local = _cpu(lambda: read(events))
    cores = os.cpu_count() or 1
    least = (fetch + serve + local) / cores
    note = f"{scan:.2f} s; CPU of fetch {fetch:.2f} s, server {serve:.2f} s, local scan {local:.2f} s on {cores} cores"
    return row("full scan, 0 ms: time", scan / least, "of the least for all cores", SCAN, note)


def _scans_in_spark(server: Remote, settings: Settings) -> Iterator[Row]:
    """Two tasks at a time, each of one segment after another."""
    events, files = _scanned_log(settings)
    reader = sessions.spark().read.format("kafkaseg").options(**server.options)
    far, near = reader.load(_url(events.path)), sessions.segments(events)
    for latency in LATENCIES:
        server.set_latency(latency)
        runs = 2 if settings.quick else 3
        pairs = alternate(lambda: sessions.touch(far), lambda: sessions.touch(near), runs)
        fetch = min(repeat(partial(_fetch, server, events, files, 2), runs))
        ratios = [scan / max(fetch, local) for scan, local in pairs]
        scan, local = min(scan for scan, _ in pairs), min(local for _, local in pairs)
        note = f"{scan:.2f} s; the same bytes {fetch:.2f} s, local {local:.2f} s"
        yield row(f"full scan in Spark, {latency} ms: time", ratios, "of the longer", SCAN, note)


def _scanned_log(settings: Settings) -> tuple[Log, list[tuple[str, int]]]:
    """1 GB in eight segments; the names of their files, and their sizes."""
    events = log(LogShape(RECORDS[119], segments=8).of_bytes(10**9 // (32 if settings.quick else 1)))
    return events, [(path.name, path.stat().st_size) for path in sorted(events.path.glob("*.log"))]


def _scan(server: Remote, events: Log) -> int:
    batches = kafka_segment_source.scan(_url(events.path), storage_options=server.options)
    return sum(batch.num_rows for batch in batches)


def _fetch(server: Remote, events: Log, files: list[tuple[str, int]], tasks: int = 1) -> int:
    """Fetches the bytes of the log by the same client, with as many ranges in flight as some tasks have."""
    config: Any = server.options
    store: Any = S3Store(BUCKET, config=config, client_options={"allow_http": True})
    ranges = [
        (f"{_key(events.path)}/{name}", start, min(RANGE_BYTES, size - start))
        for name, size in files
        for start in range(0, size, RANGE_BYTES)
    ]
    with ThreadPoolExecutor(tasks * RANGES_AT_ONCE) as pool:
        return sum(pool.map(lambda each: len(obstore.get_range(store, each[0], start=each[1], length=each[2])), ranges))


def _plans(server: Remote, settings: Settings) -> Iterator[Row]:
    """Planning `since` over many small segments. It drops nine in ten of them, then none."""
    each = 10 if settings.quick else 100
    shape = LogShape(_RECORDS * each, segments=each, batch_bytes=1024)
    events = log(shape)
    root = _many(events)
    total = _PARTITIONS * len(list(events.path.glob("*.log")))
    at = events.batches[len(events.batches) * 9 // 10]
    for latency in LATENCIES:
        for name, since in (("since, a tenth is kept", int(at[FIRST_TIMESTAMP])), ("since, all is kept", 0)):
            server.set_latency(latency)
            plan = partial(kafka_segment_source.plan, _url(root), storage_options=server.options, since=since)
            kept = plan().segments_kept
            server.set_latency(latency)
            taken = [seconds(plan) for _ in range(1 if settings.quick else 2)]
            counts = server.set_latency(latency)
            requests = counts["GET"] / len(taken)
            note = f"{requests:.0f} GETs and {counts['LIST'] / len(taken):.0f} listings, {kept} kept"
            yield row(f"{total:,} segments, {name}, {latency} ms", taken, "s", PLAN if latency == 20 else None, note)
            if latency == 0:
                most = DROPPED.most * (total - kept) + KEPT.most * kept  # type: ignore[operator]
                yield row(f"{name}: requests", requests / most, "of 1.2 a dropped, 2.2 a kept", Goal(most=1), note)


def _many(events: Log) -> Path:
    """A log directory of partitions, each of them the same segments."""
    root = events.path.parent / "partitions"
    if not root.exists():
        making = root.with_name("making")
        shutil.rmtree(making, ignore_errors=True)
        for number in range(_PARTITIONS):
            shutil.copytree(events.path, making / f"events-{number}", copy_function=os.link)
        making.rename(root)
    return root


def _windows(server: Remote, settings: Settings) -> Iterator[Row]:
    smaller = 32 if settings.quick else 1
    stored = 400 * 2**20 // smaller
    events = log(LogShape(RECORDS[119], segments=8).of_bytes(stored))
    window = window_of(DECLARED, events, int(events.stored_bytes * WINDOW))
    segments = len(list(events.path.glob("*.log")))
    for latency in LATENCIES:
        server.set_latency(latency)
        plan = partial(kafka_segment_source.plan, _url(events.path), storage_options=server.options, **window.options)
        plan()
        counts = server.set_latency(latency)
        if latency == 0:
            allowed = segments * _A_SEGMENT
            figure = max(plan().bytes_to_read + counts["bytes"] - allowed, 0) / window.own_bytes
            note = (
                f"{window.own_bytes / 1e6:.2f} MB of its own, {counts['bytes'] / 1e6:.2f} MB for the plan of {segments}"
                f" segments, by {counts['GET']} GETs"
            )
            yield row("window of 0.5 %: bytes", figure, "of its own", WINDOW_BYTES, note)
            server.set_latency(latency)
        taken = [seconds(plan) for _ in range(settings.runs)]
        yield row(f"window of 0.5 %, {latency} ms: planning", [each * 1e3 for each in taken], "ms", None)


def _key(path: Path) -> str:
    return path.relative_to(cache_directory()).as_posix()


def _url(path: Path) -> str:
    return f"s3://{BUCKET}/{_key(path)}"


def _cpu(work: Any) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
