"""The results of `verify`. A finding is a problem or a note, with its place and its meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem or note.

    problem: False for a note, which is about something legal that is worth knowing.
    path: the file that it is about.
    position: bytes from the start of the file, or None.
    offset: Kafka offset, or None.
    is_loss: whether records from `offset` on cannot be read from this copy. Another copy may hold them.
    """

    problem: bool
    path: str
    what: str
    meaning: str
    position: int | None = None
    offset: int | None = None
    is_loss: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The finding as `kafkaseg verify --json` prints it."""
        return {
            "path": self.path,
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "meaning": self.meaning,
        }
