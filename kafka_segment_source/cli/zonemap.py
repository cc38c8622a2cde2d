"""`kafkaseg zonemap`: makes or updates the zone maps of a log directory."""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.filesize import decimal
from rich.text import Text

from kafka_segment_source.cli.shared import (
    DAMAGED,
    count,
    follow,
    json_flag,
    paths_argument,
    paths_of,
    print_json,
    read_options,
    show,
    skipped_data,
    threads_option,
    warn,
)
from kafka_segment_source.keywords import DecodeOptions, option_names
from kafka_segment_source.zones.updates import ZoneMapSummary, update_zone_maps_locally


@click.command("zonemap", short_help="Zone maps, so that a time range reads what it needs.")
@paths_argument
@click.option("--to", "to", required=True, metavar="DIR", help="Directory of the zone maps; made if need be.")
@click.option("--keys", is_flag=True, help="Make key filters too, so that a read of some keys reads what it needs.")
@json_flag
@threads_option("Threads that decode segments.")
@read_options(*option_names(DecodeOptions))
def zonemap_command(
    paths: tuple[str, ...], to: str, keys: bool, as_json: bool, threads: int | None, **options: Any
) -> None:
    """Decode segments once and keep, for each 256 KiB, the lowest and highest timestamp.

    Kafka's index files cannot tell where a time range ends. With `--zone-maps DIR` (option zoneMaps) a read leaves out
    whatever holds no row of that time, late records or not. Run it again to take in what is new: only segments that are
    new or changed are decoded. A map that does not fit a file any more is never believed.

    With --keys each 256 KiB gets a filter of its keys too: some 2 bytes a key. A read with `--key K` (option key) then
    leaves out whatever cannot hold the key. Segments without filters are decoded once more.

    Exits with 1 if damage kept something from being mapped; the rest is.

    \b
    kafkaseg zonemap /var/kafka-logs --to /var/lib/kafkaseg
    kafkaseg plan orders-0 --since -2h --until -1h --zone-maps /var/lib/kafkaseg
    kafkaseg zonemap /var/kafka-logs --to /var/lib/kafkaseg --keys
    kafkaseg cat /var/kafka-logs --key order-4711 --zone-maps /var/lib/kafkaseg
    """
    with skipped_data(), follow("mapping") as on_progress:
        done = update_zone_maps_locally(
            paths_of(paths), to, keys=keys, threads=threads, on_progress=on_progress, **options
        )
    if as_json:
        print_json(done.to_dict())
    else:
        show(Text(_describe_update(done)))
    for damage in done.damage:
        warn(f"not mapped from there on: {damage}")
    if done.damage:
        sys.exit(DAMAGED)


def _describe_update(done: ZoneMapSummary) -> str:
    segments = f"{count(done.segments_mapped, 'segment')} mapped, {done.segments_kept:,} as they were"
    read = f"{decimal(done.bytes_read)} read"
    filters = f", {decimal(done.filter_bytes)} of key filters written" if done.filter_bytes else ""
    return f"{count(done.partitions, 'partition')}, {segments}: {count(done.zones, 'zone')}, {read}{filters}"
