"""`kafkaseg plan`: shows what a read would cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from kafka_segment_source.cli.shared import (
    json_flag,
    name_flags_of_warning,
    parse,
    paths_argument,
    print_json,
    read_options,
    show,
)
from kafka_segment_source.planning.planner import make_plan


@click.command("plan", short_help="What a read would cost, and why.")
@paths_argument
@json_flag
@read_options(but=("view",))
def plan_command(paths: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show what a read would cost: segments kept and dropped, why, and the byte ranges.

    \b
    kafkaseg plan /var/kafka-logs --subscribe orders --since -2h
    kafkaseg plan orders-0 --since 2026-03-10T09:30 --timestamp-disorder 10s
    """
    plan = make_plan(*parse(paths, options))
    if as_json:
        print_json(plan.to_dict())
    else:
        show(replace(plan, warnings=tuple(map(name_flags_of_warning, plan.warnings))))
