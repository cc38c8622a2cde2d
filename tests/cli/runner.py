"""Runs `kafkaseg` in this process, as the script would, and copies log directories to be damaged."""

from __future__ import annotations

import json
import shutil
from inspect import signature
from pathlib import Path
from typing import Any

import click.testing

from kafka_segment_source.cli import cli
from tests.support.rows import ORDERS

LOGS = ORDERS / "data"
# click before 8.2 puts what is printed on standard error into standard output, unless it is told otherwise
_APART: Any = {"mix_stderr": False} if "mix_stderr" in signature(click.testing.CliRunner).parameters else {}


def run(*arguments: object, columns: int = 140) -> click.testing.Result:
    """What a command answers: exit_code, stdout and stderr."""
    runner = click.testing.CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"}, **_APART)
    return runner.invoke(cli, [str(argument) for argument in arguments], prog_name="kafkaseg")


def answer(*arguments: object, exit_code: int = 0) -> Any:
    """The JSON that a command prints."""
    result = run(*arguments)

    assert result.exit_code == exit_code, result.stderr or result.exception
    return json.loads(result.stdout)


def copy_of(directory: Path, to: Path) -> Path:
    """A partition directory, copied below `to`."""
    return Path(shutil.copytree(directory, to / directory.name))
