"""Collects what cannot be decoded, and says it once for each kind, with the first place and the number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_segment_source.internal_topics.messages import MessageError, NewerVersionError
from kafka_segment_source.reporting import add_more

T = TypeVar("T")


@dataclass
class Oddities:
    """The records of one view that were not decoded."""

    _found: dict[str, tuple[str, int]] = field(default_factory=dict)  # kind → first sentence, number

    def catch(self, decode: Callable[[], T], place: str, result: str) -> T | None:
        """Returns what `decode` returns, or None if the bytes are of a newer version or nothing that Kafka writes.

        place: where the record is. result: what becomes of it then, in a few words.
        """
        try:
            return decode()
        except NewerVersionError as error:
            self.note(f"{error}: {result}", f"{place} is a record {error}: {result}")
        except MessageError as error:
            self.note(result, f"{place} is a record that cannot be decoded ({error}): {result}")
        return None

    def note(self, kind: str, sentence: str) -> None:
        """Notes one record. kind: of which only the first sentence is said."""
        first, count = self._found.get(kind, (sentence, 0))
        self._found[kind] = first, count + 1

    def sentences(self) -> list[str]:
        """One sentence for each kind, in the order in which the kinds were met."""
        return [add_more(sentence, count - 1) for sentence, count in self._found.values()]
