"""Figures with their goals: what a group of benchmarks yields, and how it is kept in JSON.

`results.json` beside this file is the committed run that the documents' figures come from. It names its machine; a run
on another machine, or with other versions, starts it again, a run of some groups replaces those groups.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).with_name("results.json")

Works = dict[str, Callable[[], Callable[[], object]]]
"""What `turn.py` measures, by name: each value writes its log, if there is none yet, and returns the work itself."""

_LIBRARIES = ("pyspark", "pyarrow", "numba", "numpy", "crc32c", "isal", "lz4", "zstandard", "cramjam")


@dataclass(frozen=True)
class Settings:
    """How much is measured. quick: small logs, few runs, to see that everything works; long: what takes an hour."""

    quick: bool = False
    long: bool = False

    @property
    def runs(self) -> int:
        """Runs, or pairs of runs, behind a median."""
        return 3 if self.quick else 5


@dataclass(frozen=True)
class Goal:
    """A bound on a figure, in its unit; both ends count as held."""

    least: float | None = None
    most: float | None = None

    def holds(self, figure: float) -> bool:
        """Whether the figure is inside."""
        return (self.least is None or figure >= self.least) and (self.most is None or figure <= self.most)

    def __str__(self) -> str:
        bounds = [
            f"≥ {self.least:g}" if self.least is not None else "",
            f"≤ {self.most:g}" if self.most is not None else "",
        ]
        return " and ".join(filter(None, bounds))


@dataclass(frozen=True)
class Row:
    """One figure: a median, between the quartiles `low` and `high` where it was measured several times.

    goal, holds: None where nothing was promised. headline: it is worth a line in docs/speed.md.
    """

    name: str
    figure: float
    unit: str
    goal: str | None = None
    holds: bool | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    headline: bool = False


def row(
    name: str,
    measured: Sequence[float] | float,
    unit: str,
    goal: Goal | None = None,
    note: str = "",
    headline: bool = False,
) -> Row:
    """A row of the median of what was measured."""
    figures = [measured] if isinstance(measured, int | float) else list(measured)
    figure = float(statistics.median(figures))
    low, high = _quartiles(figures)
    text, holds = (None, None) if goal is None else (str(goal), goal.holds(figure))
    return Row(name, figure, unit, text, holds, low, high, note, headline)


def _quartiles(figures: Sequence[float]) -> tuple[float | None, float | None]:
    if len(figures) < 2:
        return None, None
    quarters = statistics.quantiles(figures, n=4, method="inclusive")
    return quarters[0], quarters[-1]


# --- the machine, and the file ---------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "os": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "java": _java_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


def _cpu_model() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return "none"
    found = re.search(r'version "([^"]+)"', told)
    return found.group(1) if found else "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def load(path: Path) -> dict[str, Any]:
    """A file of results; an empty one where there is none."""
    return dict(json.loads(path.read_text())) if path.exists() else {"machine": {}, "groups": {}}


def save(path: Path, groups: dict[str, dict[str, Any]]) -> None:
    """Adds these groups (of `group_of`) to the file, in place of what it says of them."""
    here, known = machine(), load(path)
    kept = known["groups"] if known["machine"] == here else {}
    path.write_text(json.dumps({"machine": here, "groups": kept | groups}, indent=1, ensure_ascii=False) + "\n")


def group_of(rows: Sequence[Row], seconds: float, load_before: float) -> dict[str, Any]:
    """What the file says of one group; load_before: the machine's load average when it began, 0 on a quiet one."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(seconds),
        "load": round(load_before, 1),
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "rows": [_short(asdict(each)) for each in rows],
    }


def _short(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing, and numbers to four digits, so that the file can be read and compared."""
    said = {name: value for name, value in fields.items() if value not in (None, "", False) or name == "holds"}
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in said.items()}
