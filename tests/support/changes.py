"""Changes of the code on purpose: a defect that a test or a simulation must find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """In one file, text that stands there once, and the text that replaces it."""

    path: str
    old: str
    new: str

    def count(self, root: Path) -> int:
        """How often the text stands in the file below `root`. Anything but 1 is a defect of this change."""
        return (root / self.path).read_text(encoding="utf-8").count(self.old)

    def make(self, root: Path) -> None:
        """Changes the file below `root`. Raises ValueError if the text does not stand there once."""
        if (found := self.count(root)) != 1:
            raise ValueError(f"{self.path} has this {found} times, expected once: {self.old!r}")
        path = root / self.path
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


def change_package(file: str, old: str, new: str) -> Change:
    """Returns a change of a file of the package."""
    return Change(f"kafka_segment_source/{file}", old, new)
