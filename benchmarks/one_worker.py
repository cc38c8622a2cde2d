"""A probe in a process of its own: imports the package and reads a log, as a fresh worker does. Prints JSON."""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    """`python -m benchmarks.one_worker PATH`."""
    begin = time.perf_counter()
    import kafka_segment_source  # noqa: PLC0415  # what importing costs is measured too

    found = sum(batch.num_rows for batch in kafka_segment_source.scan(sys.argv[1]))
    print(json.dumps({"seconds": time.perf_counter() - begin, "rows": found, "compiled": _compiled()}))


def _compiled() -> list[str]:
    """The functions that numba did not find in its cache, each with the types it was compiled for:
    helpers have several."""
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415

    modules = [module for name, module in sys.modules.items() if name.startswith("kafka_segment_source.kernels")]
    found = {id(each): each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return sorted(f"{each.__qualname__}{types}" for each in found.values() for types in each.stats.cache_misses)


if __name__ == "__main__":
    main()
