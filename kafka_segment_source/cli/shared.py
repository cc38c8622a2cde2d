"""Shared parts of the commands: exit codes, the flags of a read, JSON, a console, a progress bar."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from rich.console import Console, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from kafka_segment_source.data_loss import says_loss
from kafka_segment_source.errors import KafkaSegmentError, UsageError
from kafka_segment_source.keywords import STORAGE_OPTIONS, PathsLike, option_texts
from kafka_segment_source.option_table import CUTTING, OPTIONS
from kafka_segment_source.options import ReadOptions, parse_options
from kafka_segment_source.reporting import Advance, OnProgress, Warned, Warnings, logger

DAMAGED = 1
WRONG_USE = 2
INTERRUPTED = 130
_PIPE_WIDTH = 1000  # columns where the output is no terminal and COLUMNS is not set, so that no line is wrapped

_WORTH_A_BAR = 64 * 1024 * 1024  # bytes; fewer bytes are done before a user can read the bar
COMMANDS = (
    "ls",
    "plan",
    "cat",
    "grep",
    "count",
    "stats",
    "segments",
    "batches",
    "transactions",
    "groups",
    "topics",
    "schemas",
    "verify",
    "offsets",
    "zonemap",
    "export",
    "rebuild",
    "report",
    "demo",
    "completion",
)

_FLAGS = {option.name: "--" + re.sub(r"(?<!^)([A-Z])", r"-\1", option.name).lower() for option in OPTIONS}
_ON_COMMAND_LINE = _FLAGS | {"path": "PATH", "time": "--time"}
_CAMEL = "|".join(name for name in _FLAGS if not name.islower())
_NAMES = "|".join(_ON_COMMAND_LINE)
# The forms in which the package's messages name options, but never a part of a path
_NAMED_OPTIONS = re.compile(
    rf"(?<!storage )\b(?:the )?options? '(?P<quoted>{_NAMES})'(?: and '(?P<other>{_NAMES})')?"
    rf"|(?<![\w/.'-])(?P<given>{_CAMEL}|mode|view)=(?P<value>\w+)(?![\w/.'-])"
    rf"|(?<![\w/.'-])(?P<camel>{_CAMEL})(?![\w/.'=-])"
)

F = TypeVar("F", bound=Callable[..., Any])


class Fault(click.ClickException):
    """An error that ends a command: one sentence on standard error, and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class, and reads it from the instance

    def show(self, file: Any = None) -> None:
        click.echo(f"kafkaseg: {self.message}", err=True)


class Commands(click.Group):
    """The commands. Each is loaded from its own module when it is called. Errors of this package become Faults."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"kafka_segment_source.cli.{cmd_name}"), f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KafkaSegmentError as error:
            raise Fault(name_flags(str(error)), WRONG_USE if isinstance(error, UsageError) else DAMAGED) from error
        except KeyboardInterrupt as error:
            raise Fault("interrupted", INTERRUPTED) from error
        except (
            BrokenPipeError
        ):  # the reader of the pipe has closed it (`| head`); nothing more may be written, not even at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return None
        except OSError as error:
            raise Fault(str(error), DAMAGED) from error
        return result


def _complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leaves a path to the shell, which knows files. click completes an argument of text by nothing."""
    return [CompletionItem(incomplete, type="file")]


paths_argument = click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=_complete_path)
AS_A_SCAN = "one a processor, and four at most, for a compressed log on a disk; else 1"
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
_FORMATS = ("text", "jsonl", "parquet")


def threads_option(help_text: str, default: str = "1") -> Callable[[F], F]:
    """Adds `--threads`. default: in words."""
    return click.option("--threads", type=click.IntRange(min=1), metavar="N", help=f"{help_text} [default: {default}]")


def output_options(rows: str) -> Callable[[F], F]:
    """Adds the options of a command that prints rows: --format (as `kind`), --json, --output and --limit.

    rows: what a row is called, in the plural.
    """

    def add(command: F) -> F:
        for option in (
            click.option("-n", "--limit", type=click.IntRange(min=0), metavar="N", help=f"Stop after N {rows}."),
            click.option(
                "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="The Parquet file to write."
            ),
            click.option("--json", "as_json", is_flag=True, help="The same as --format jsonl."),
            click.option(
                "--format",
                "kind",
                type=click.Choice(_FORMATS),
                default=_FORMATS[0],
                show_default=True,
                help=f"How {rows} are printed.",
            ),
        ):
            command = option(command)
        return command

    return add


def view_options(view: str, but: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of the options that a view takes on the command line. Options of Spark partitions are left out."""
    left_out = {"path", "view", *but}
    return tuple(
        option.name
        for option in OPTIONS
        if view in option.views and option.group != CUTTING and option.name not in left_out
    )


def read_options(*names: str, but: Sequence[str] = (), view: str | None = None) -> Callable[[F], F]:
    """Adds options of a read to a command, under their own names, as text: the named ones, or all except `but`.

    view: whose defaults the help shows. It adds `--storage-option` too, which every command that takes a path has.
    """

    def add(command: F) -> F:
        command = click.option(
            "--storage-option",
            STORAGE_OPTIONS,
            metavar="KEY=VALUE",
            multiple=True,
            callback=parse_pairs,
            help="An option of the object store, such as aws_region=eu-central-1; may be given several times."
            " Others of this machine can see a command line: leave secrets to the environment.",
        )(command)
        for option in reversed([option for option in OPTIONS if not option.stream_only]):
            wanted = option.name in names if names else option.name not in ("path", *but)
            if wanted:
                words = option.default_words if view is None else option.without or option.default_for(False, view)
                default = f" [default: {words}]" if words else ""
                command = click.option(
                    _FLAGS[option.name], option.name, metavar=option.takes, help=option.help + default
                )(command)
        return command

    return add


def parse_pairs(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    """Converts `KEY=VALUE` texts into a dict. The error has no value, as it may be a secret."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter("expected KEY=VALUE", context, parameter)
        pairs[name.strip()] = value
    return pairs or None


def parse(paths: tuple[str, ...], options: dict[str, Any]) -> tuple[ReadOptions, Warnings]:
    """Parses the options of a command line. Returns them and warnings, and raises the errors of parse_options."""
    return parse_options(option_texts(paths_of(paths), options))


def paths_of(arguments: tuple[str, ...]) -> PathsLike:
    """Converts the paths of a command line for the functions of the package."""
    return arguments[0] if len(arguments) == 1 else list(arguments)


def show(*parts: RenderableType) -> None:
    """Prints tables and texts, as wide as the terminal. A pipe gets no colours, and no blanks at the ends of lines."""
    out = Console(width=width(), highlight=False)
    with out.capture() as captured:
        for part in parts:
            out.print(part, soft_wrap=isinstance(part, Text))
    text = captured.get()
    click.echo(text if out.is_terminal else "\n".join(line.rstrip() for line in text.split("\n")), nl=False)


def width() -> int:
    """The columns to print in: those of the terminal, or _PIPE_WIDTH without a terminal and COLUMNS."""
    seen = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console().width if seen else _PIPE_WIDTH


def print_json(value: object) -> None:
    """Prints one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def to_json_line(value: object) -> str:
    """One JSON document on one line."""
    return json.dumps(value, ensure_ascii=False)


def count(number: int, what: str) -> str:
    """A number and a noun: `1 segment`, `2 segments`. The plural of the noun must end in s."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def warn(*messages: str) -> None:
    """Prints each sentence on standard error, with options as flags. It does not end the command."""
    for message in messages:
        click.echo(f"kafkaseg: {name_flags(message)}", err=True)


def name_flags(message: str) -> str:
    """Returns a message of the package with its options as they are written on a command line.

    `option 'topic'` becomes `--topic`, `mode=DROPMALFORMED` becomes `--mode DROPMALFORMED`, and `failOnDataLoss`
    becomes `--fail-on-data-loss`.
    """

    def name_flag(found: re.Match[str]) -> str:
        if found["given"]:
            return f"{_FLAGS[found['given']]} {found['value']}"
        names = [found[group] for group in ("quoted", "other", "camel") if found[group]]
        return " and ".join(_ON_COMMAND_LINE[name] for name in names)

    return _NAMED_OPTIONS.sub(name_flag, message)


def name_flags_of_warning(warning: str) -> str:
    """Returns a warning with its options as flags, of the same kind."""
    named = name_flags(warning)
    return Warned(named, warning.kind) if isinstance(warning, Warned) else named


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Shows a progress bar over `total` bytes on standard error, and removes it at the end.

    It shows nothing without a terminal or for less than _WORTH_A_BAR bytes.
    """
    if total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda _: None  # a disabled bar of an older rich prints an empty line
        return
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what is printed comes above the bar, and never into standard error
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


@contextmanager
def follow(what: str) -> Iterator[OnProgress]:
    """Shows the same bar for a function that calls back with the finished bytes and all bytes.

    A bar ends when all of its bytes are done. The next call begins another one.
    """
    with ExitStack() as stack:
        advance: Advance | None = None
        before = 0

        def on_progress(done: int, total: int) -> None:
            nonlocal advance, before
            if advance is None:
                advance, before = stack.enter_context(progress(what, total)), 0
            advance(done - before)
            before = done
            if done >= total:
                stack.close()
                advance = None

        yield on_progress


def warn_of_plan(warnings: Iterable[str]) -> None:
    """Prints the warnings of a plan. Those about lost offsets count in `skipped_data`."""
    for warning in warnings:
        if says_loss(warning):
            logger.warning("%s", warning)
        else:
            warn(warning)


@contextmanager
def skipped_data() -> Iterator[list[logging.LogRecord]]:
    """Collects the warnings of a read about skipped data. It prints each at once on standard error, and remarks too."""
    said: list[logging.LogRecord] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warn(record.getMessage())
            if not hasattr(record, "is_remark"):
                said.append(record)

    handler = Handler()
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
