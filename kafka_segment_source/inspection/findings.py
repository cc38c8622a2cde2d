"""What `verify` says: a finding is something wrong, or a note, with where it is and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say.

    problem: False for a note, which is about something legal that is worth knowing; path: the file it is about;
    position: bytes from its start, offset: Kafka offset, None where there is none to name.
    """

    problem: bool
    path: str
    what: str
    meaning: str
    position: int | None = None
    offset: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As `kafkaseg verify --json` prints it."""
        return {
            "path": self.path,
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "meaning": self.meaning,
        }
