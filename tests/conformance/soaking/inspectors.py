"""The inspectors: people who look at a broker's directory by the command line while it works.

In: the paths of the brokers' directories. Out: for each command, how often it ran and what it needlessly failed at. A
command may fail for a loss: on a topic with retention, what it was about to look at may go away before it does. Every
other error, a problem that `verify` claims, and a transaction whose state is called unknown are needless.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.conformance.soaking.topics import TOPICS

COMMANDS = ("ls", "offsets", "count", "transactions", "report", "verify", "segments", "batches", "plan")
_PAUSE = 0.2
_COMMAND_SECONDS = 120
_SAMPLES = 3  # of each command
_LOSING = "|".join(topic.name for topic in TOPICS if topic.loses)
_LOSS = re.compile(rf"(are gone|asks for)[^\n]*\b({_LOSING})-\d|\b({_LOSING})-\d[^\n]* (are gone|is gone)")
# a replica that was down may end before the other one begins
_APART = re.compile(rf"no (file|copy) holds the offsets \d+ to \d+ of (partition )?({_LOSING})-\d")


class Inspector(threading.Thread):
    """Runs one command after the other, each as a process of its own.

    paths: the log directories; scratch: where pages are written; is_up: whether the brokers run (an answer is right
    when they do not, too, but a killed broker's directory may need its recovery).
    """

    def __init__(self, name: str, paths: Sequence[Path], scratch: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.runs: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.needless: Counter[str] = Counter()
        self.samples: defaultdict[str, list[str]] = defaultdict(list)
        self._paths = [str(path) for path in paths]
        self._page = scratch / f"{name}.html"
        self._chance = random.Random(name)
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask it to come to an end."""
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.wait(_PAUSE):
                self._inspect(self._chance.choice(COMMANDS))
        except BaseException as error:
            self.failure = error

    def _inspect(self, command: str) -> None:
        arguments = [command, *self._flags(command), *self._what(command)]
        done = subprocess.run(
            [sys.executable, "-m", "kafka_segment_source.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
            check=False,
        )
        self.runs[command] += 1
        is_unknown = command == "transactions" and re.search(r"\bunknown\b", done.stdout) is not None
        if done.returncode == 0 and not is_unknown:
            return
        shown = [line for line in done.stdout.splitlines() if command == "verify" or "unknown" in line]
        said = "\n".join([done.stderr.strip(), *shown])
        if done.returncode == 1 and not is_unknown and self._is_excused(command, said):
            self.excused[command] += 1
            return
        self.needless[command] += 1
        if len(self.samples[command]) < _SAMPLES:
            self.samples[command].append(f"kafkaseg {' '.join(arguments)} → {done.returncode}\n{said[-1500:]}")

    def _is_excused(self, command: str, said: str) -> bool:
        if command == "verify":
            problems = [line for line in said.splitlines() if line.startswith("problem ")]
            return len(problems) == len(_APART.findall(said)) > 0
        return (_LOSS.search(said) or _APART.search(said)) is not None

    def _flags(self, command: str) -> list[str]:
        flags: dict[str, Callable[[], list[str]]] = {
            "offsets": lambda: ["--time", str(int((time.time() - self._chance.uniform(1, 60)) * 1000))],
            "report": lambda: ["--to", str(self._page)],
            "transactions": lambda: self._chance.choice([[], ["--state", "open"]]),
            "plan": lambda: ["--since", f"-{self._chance.randint(1, 60)}s"],
        }
        return flags[command]() if command in flags else []

    def _what(self, command: str) -> list[str]:
        """All of the directories, or one topic of them."""
        if command == "report" or self._chance.random() < 0.5:
            return self._paths
        return ["--subscribe", self._chance.choice(TOPICS).name, *self._paths]


def say_failures(inspectors: Sequence[Inspector]) -> list[str]:
    """A sentence for each command that failed needlessly."""
    needless = sum((each.needless for each in inspectors), Counter[str]())
    return [f"kafkaseg {command}: {count} needless errors" for command, count in sorted(needless.items())]


def describe(inspectors: Sequence[Inspector]) -> str:
    """How often each command ran, and samples of what it needlessly failed at."""
    runs, excused, needless = (
        sum((getattr(each, name) for each in inspectors), Counter[str]()) for name in ("runs", "excused", "needless")
    )
    lines = [
        f"  kafkaseg {command}: {runs[command]} runs, {excused[command]} excused, {needless[command]} needless"
        for command in sorted(runs)
    ]
    samples = [sample for each in inspectors for kept in each.samples.values() for sample in kept]
    return "\n".join(["inspected by", *lines, *samples])
