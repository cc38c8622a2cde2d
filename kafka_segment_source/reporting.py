"""Where this package says what a user should know and no return value carries: one logger, to standard error by
default.

And how it says the same of many things.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger("kafka_segment_source")

_MOST_SAID = 5


def few(sentences: Iterable[str]) -> list[str]:
    """The first of many sentences, the last of them with how many more there are like it."""
    said = list(sentences)
    more = len(said) - _MOST_SAID
    return said if more <= 0 else [*said[: _MOST_SAID - 1], f"{said[_MOST_SAID - 1]} (and {more:,} more like it)"]
