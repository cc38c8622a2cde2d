"""A probe in a process of its own: imports the package and reads a log, as a fresh worker does. Prints JSON."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """`python -m benchmarks.one_worker PATH`."""
    begin = time.perf_counter()
    import kafka_segment_source  # noqa: PLC0415  # what importing costs is measured too

    batches = iter(kafka_segment_source.scan(sys.argv[1], threads=1))
    found = next(batches).num_rows
    first = time.perf_counter() - begin
    found += sum(batch.num_rows for batch in batches)
    seconds = time.perf_counter() - begin
    print(json.dumps({"first": first, "seconds": seconds, "rows": found, "compiled": _compiled()}))


def _compiled() -> list[str]:
    """The kernels that were not on the disk."""
    from kafka_segment_source.kernels.machine_code import COMPILED  # noqa: PLC0415

    return COMPILED


if __name__ == "__main__":
    main()
