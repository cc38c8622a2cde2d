"""`python -m benchmarks [group …] [--quick] [--long] [--kafka]`: each goal with its figure, and whether it holds.

The standard set takes about twenty minutes on two cores and saves its figures in results.json beside this file, from
which `python -m benchmarks.readme` writes those of the documents. The quick set takes two or three minutes, checks that
everything works, and saves into the cache directory: its figures mean little.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import results
from benchmarks.logs import cache_directory
from benchmarks.printing import figure, table
from benchmarks.results import Settings

#: Group → module, in the order in which they run: what needs no Spark first.
GROUPS = {
    "kernels": "kernels",
    "codecs": "codecs",
    "values": "typed_values",
    "stages": "stages",
    "scan": "plain_scan",
    "threads": "threads",
    "processes": "processes",
    "planning": "planning",
    "scale": "scale",
    "windows": "windows",
    "frames": "frames",
    "latest": "latest",
    "grep": "searches",
    "lines": "lines",
    "listings": "listings",
    "exports": "exports",
    "rebuild": "rebuilds",
    "object-stores": "object_stores",
    "tiered": "tiered",
    "zone-maps": "zone_maps",
    "keys": "keys",
    "spark": "full_scan",
    "tiny": "tiny_segments",
    "views": "views",
    "streams": "streams",
    "cold-start": "cold_start",
    "memory": "memory",
}
OPTIONAL = {"kafka": "spark_kafka", "conf": "spark_conf"}


def main() -> int:
    """Runs the groups asked for; the exit status is 0 whatever the figures, 1 if a group failed to measure them."""
    arguments = _arguments()
    settings = Settings(quick=arguments.quick, long=arguments.long)
    chosen = arguments.group or [*GROUPS, *(["kafka"] if arguments.kafka else [])]
    output = arguments.output or (cache_directory() / "results-quick.json" if settings.quick else results.COMMITTED)
    logging.getLogger("kafka_segment_source").setLevel(logging.ERROR)  # plans warn of what is measured here
    console = Console(width=None if sys.stdout.isatty() else 130, highlight=False)
    failed: list[str] = []
    for name in chosen:
        module = importlib.import_module(f"benchmarks.{(GROUPS | OPTIONAL)[name]}")
        load, begin = os.getloadavg()[0], time.monotonic()
        found = []
        try:
            for row in module.rows(settings):
                found.append(row)
                console.print(f"[dim]{name}: {row.name}: {figure(row)}[/dim]", soft_wrap=True)
        except Exception:  # one group that fails does not cost the others' twenty minutes
            console.print_exception()
            failed.append(name)
            continue
        seconds = time.monotonic() - begin
        results.save(output, {name: results.group_of(found, seconds, load)})
        console.print(table(f"{module.TITLE} ({seconds:.0f} s)", found))
    if "benchmarks.sessions" in sys.modules:
        sys.modules["benchmarks.sessions"].stop()
    console.print(f"failed: {', '.join(failed)}" if failed else f"saved in {output}")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    known = [*GROUPS, *OPTIONAL]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure what design.md promises.",
        epilog="`python -m benchmarks.turn COMMIT [group …]` compares the work tree with a commit, by paired runs.",
    )
    parser.add_argument("group", nargs="*", help=f"of {', '.join(known)} (default: all but the last two)")
    parser.add_argument("--quick", action="store_true", help="small logs and few runs, to see that everything works")
    parser.add_argument(
        "--long", action="store_true", help="with 100,000 segments of a partition too, and a million of 10,000"
    )
    parser.add_argument("--kafka", action="store_true", help="with Spark's Kafka source and a broker (downloads jars)")
    parser.add_argument("--output", type=Path, help="JSON file to save into (default: results.json beside the suite)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.group if name not in known]
    if unknown:
        parser.error(f"there is no group {unknown[0]!r} (there are {', '.join(known)})")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
