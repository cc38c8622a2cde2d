"""`kafkaseg`: what is in a log directory and what a read of it would cost, on the command line, without Spark.

Every option of a read is a flag of the same name: `timestampDisorder` is `--timestamp-disorder`. Exit codes: 0 done,
1 the data is damaged or lost, 2 the question cannot be meant.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console

from kafka_segment_source.display import plan_table
from kafka_segment_source.errors import KafkaSegmentError, UsageError
from kafka_segment_source.options import OPTIONS
from kafka_segment_source.planning import plan

DAMAGED = 1
WRONG_USE = 2


def _flag(name: str) -> str:
    return "--" + re.sub(r"(?<!^)([A-Z])", r"-\1", name).lower()


def read_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command every option of a read that is built, under its own name, as text."""
    for option in reversed(OPTIONS):
        if option.name != "path" and option.parse is not None:
            default = f" [default: {option.default}]" if option.default else ""
            command = click.option(_flag(option.name), option.name, metavar="TEXT", help=option.help + default)(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kafka-segment-source")
def cli() -> None:
    """Read Kafka's own log segment directories, without a broker.

    Times are ISO-8601 (2026-03-10T09:30:00Z; without a zone: UTC), epoch milliseconds, or a time ago (-2h).
    """


@cli.command("plan")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@read_options
def plan_command(paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what a read would cost: segments kept and dropped, why, and the byte ranges.

    \b
    kafkaseg plan /var/kafka-logs --subscribe orders --since -2h
    kafkaseg plan orders-0 --since 2026-03-10T09:30 --until 2026-03-10T09:35 --timestamp-disorder 10s
    """
    found = plan(paths[0] if len(paths) == 1 else list(paths), **options)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        Console().print(plan_table(found))


def main() -> None:
    """The entry point: an error of this package is one sentence on standard error and an exit code."""
    try:
        cli.main(standalone_mode=False)
    except KafkaSegmentError as error:
        click.echo(f"kafkaseg: {error}", err=True)
        sys.exit(WRONG_USE if isinstance(error, UsageError) else DAMAGED)
    except click.ClickException as error:
        error.show()
        sys.exit(WRONG_USE)
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
