"""view=latest: the newest record of each key, against a scan of keys and offsets, and the memory of its map."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import kafka_segment_source
from benchmarks.latest_keys import write_keys
from benchmarks.measure import alternate, probe
from benchmarks.peak import peak
from benchmarks.results import Goal, Row, Settings, Works, row

TITLE = "the newest record of each key"

_RECORDS, _KEYS = 10_000_000, 1_000_000
_TIME = Goal(most=2)
_MEMORY = Goal(most=round(64 + 32 * _KEYS / 2**20))  # MiB


def rows(settings: Settings) -> Iterator[Row]:
    """Ten million records of a million keys; a process of its own for the memory."""
    records, keys = _size_of(settings)
    path = str(write_keys(records, keys))
    pairs = alternate(lambda: read(path, view="latest"), lambda: read(path, columns=["key", "offset"]), settings.runs)
    note = f"{records:,} records, {keys:,} keys: {min(one for one, _ in pairs):.2f} of {min(o for _, o in pairs):.2f} s"
    yield row("view=latest", [one / other for one, other in pairs], "of a scan of keys", _TIME, note, headline=True)
    told = probe("latest", path)
    note = f"{told['latest']:.0f} MiB at the peak, {told['scan']:.0f} MiB after a scan"
    yield row("memory of view=latest", told["latest"] - told["scan"], "MiB beyond a scan", _MEMORY, note, headline=True)


def works(settings: Settings) -> Works:
    """view=latest."""
    return {"view=latest": lambda: partial(read, str(write_keys(*_size_of(settings))), view="latest")}


def _size_of(settings: Settings) -> tuple[int, int]:
    """Records and keys."""
    return (_RECORDS // 20, _KEYS // 20) if settings.quick else (_RECORDS, _KEYS)


def read(path: str, **options: Any) -> int:
    return sum(batch.num_rows for batch in kafka_segment_source.scan(path, **options))


def main() -> None:
    """`python -m benchmarks.latest PATH`: peaks of memory in MiB, as JSON."""
    [path] = sys.argv[1:]
    found = {}
    for name, options in (("scan", {"columns": ["key", "offset", "value"]}), ("latest", {"view": "latest"})):
        read(path, **options)
        found[name] = peak()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
