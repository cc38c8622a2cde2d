"""`kafkaseg ls` and `report` beside a scan of all columns, and `ls` of many partitions. They read headers alone, and
`ls` only those at both ends of large segments."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from click.testing import CliRunner

import kafka_segment_source as kafkaseg
from benchmarks.full_scan import RECORDS
from benchmarks.logs import Log, LogShape, linked_partitions, log
from benchmarks.measure import ROOT, alternate, repeat
from benchmarks.results import Goal, Row, Settings, row
from benchmarks.views import bytes_read
from kafka_segment_source.cli import cli

TITLE = "ls and report"

_LARGE = 10**9  # bytes
_PARTITIONS = 500
_TIME, _BYTES, _MANY = Goal(most=0.05), Goal(most=0.01), Goal(most=1.0)


def rows(settings: Settings) -> Iterator[Row]:
    """A log of 1 GB with batches of 16 KB, and 500 partitions, with the start of the command."""
    large = log(LogShape(RECORDS[119], segments=8).of_bytes(_LARGE // (32 if settings.quick else 1)))
    stored = sum(path.stat().st_size for path in large.path.glob("*.log"))
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        commands = {
            "ls": (partial(_run, "ls", str(large.path)), _BYTES, _TIME),
            "ls --deep": (partial(_run, "ls", str(large.path), "--deep"), None, None),
            # it reads the header of each batch, and draws a page
            "report": (partial(_run, "report", str(large.path), "--to", str(Path(folder, "report.html"))), None, None),
        }
        for command, (work, most_bytes, most_time) in commands.items():
            name = f"{command}, batches of 16 KB"
            read = bytes_read(work)
            if read is not None:
                yield row(f"{name}: bytes read", read / stored, "of the log's", most_bytes, headline=True)
            pairs = alternate(work, partial(_scan, large), settings.runs)
            note = f"{min(ours for ours, _ in pairs) * 1e3:.0f} ms"
            ratios = [ours / theirs for ours, theirs in pairs]
            yield row(f"{name}: time", ratios, "of a full scan", most_time, note, headline=True)
    yield row(f"ls, {_PARTITIONS} partitions", _list_many(settings.runs), "s", _MANY, headline=True)


def _run(*arguments: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    if done.exit_code:
        raise RuntimeError(f"{arguments} ended with status {done.exit_code}: {done.output[-500:]}")


def _scan(events: Log) -> int:
    return sum(batch.num_rows for batch in kafkaseg.scan(events.path, threads=1))


def _list_many(runs: int) -> list[float]:
    """Seconds of `kafkaseg ls` as a command of its own, over partitions of three small segments each."""
    with linked_partitions(log(LogShape(300, segments=3, batch_bytes=1024)), _PARTITIONS) as root:
        command = [sys.executable, "-m", "kafka_segment_source.cli", "ls", str(root)]
        return repeat(partial(subprocess.run, command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL), runs)
