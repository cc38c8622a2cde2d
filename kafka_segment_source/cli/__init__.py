"""`kafkaseg`: shows the content of a log directory, the cost of a read, its records and its health, without Spark.

Each command has its own module. Every option of a read is a flag of the same name: `timestampDisorder` is
`--timestamp-disorder`. Exit codes: 0 done; 1 the data is damaged or lost, or the storage fails; 2 wrong use; 130
interrupted. `grep` has those of grep: 0 found; 1 not found; 2 an error.
"""

from __future__ import annotations

import click

from kafka_segment_source.cli.shared import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kafka-segment-source", prog_name="kafkaseg", message="%(prog)s %(version)s")
def cli() -> None:
    """Read Kafka's own log segment directories, without a broker.

    PATH is a partition directory (orders-0), a log directory that holds many, a .log file, or a glob. Nothing is
    ever written there, and a broker may be running.

    Times are ISO-8601 (2026-03-10T09:30:00Z; without a zone: UTC), epoch milliseconds, or a time ago (-2h).

    \b
    At an incident:
      kafkaseg ls LOGS                                    what is there
      kafkaseg plan LOGS --subscribe orders --since -2h   what a read would cost
      kafkaseg cat LOGS --subscribe orders --since -10m   the records
      kafkaseg grep -F 4711 LOGS                          where something is
      kafkaseg offsets LOGS --time 2026-03-10T09:30       where to go on from
      kafkaseg verify LOGS                                whether it is whole
    After a loss:
      kafkaseg rebuild DISKS --to DIR                     a clean log directory
    Before the next one:
      kafkaseg zonemap LOGS --to DIR                      for --zone-maps DIR
    Each day:
      kafkaseg export LOGS --to DIR                       what is new, as a table

    \b
    Exit codes: 0 done; 1 data is damaged or lost, or the storage fails;
    2 wrong use; 130 interrupted. Those of grep: 0 found; 1 not found; 2 an error.
    """


def main() -> None:
    """The entry point of the script `kafkaseg`."""
    cli(prog_name="kafkaseg")
