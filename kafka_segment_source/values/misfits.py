"""Keys and values that do not fit to their schema: why, in words, and how many.

Under FAILFAST the first one ends the read. Under PERMISSIVE they are counted, and said once at the end of a read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from kafka_segment_source.kernels import avro
from kafka_segment_source.reporting import few, logger

NOT_JSON = 100  # beside those of `kernels.avro`
OTHER_TYPE = 101
NOT_PROTOBUF = 102
BAD_INDEXES = 103
REQUIRED = 104

REASONS = {
    avro.NO_PREFIX: "bytes that do not begin as its schema's number does",
    avro.UNKNOWN_SCHEMA: "a schema that is not known",
    avro.CUT: "bytes that end too early",
    avro.LEFT_OVER: "bytes left over",
    avro.BAD_UTF8: "text that is not UTF-8",
    avro.BAD_NUMBER: "a number that is too long",
    avro.BAD_LENGTH: "a length beyond its end",
    avro.BAD_BRANCH: "a branch that its union does not have",
    avro.BAD_SYMBOL: "a symbol that its enum does not have",
    avro.UNKNOWN_SYMBOL: "a symbol that the reader's enum does not have",
    avro.BAD_BOOLEAN: "a boolean that is neither 0 nor 1",
    avro.TOO_MANY_ITEMS: f"more than {avro.MOST_EMPTY_ITEMS:,} items without bytes",
    avro.TOO_DEEP: f"more than {avro.DEPTH} lists inside one another",
    avro.TOO_PRECISE: "a decimal of more digits than its type has",
    avro.BEYOND_TIME: "a timestamp that microseconds cannot hold",
    avro.UNRESOLVED: "a schema or a type that cannot be read as the chosen schema",
    avro.TOO_LARGE: "a value that takes more memory than one batch may",
    NOT_JSON: "bytes that are not JSON",
    OTHER_TYPE: "JSON of another type",
    NOT_PROTOBUF: "bytes that are not a message of Protobuf, or text in it that is not UTF-8",
    BAD_INDEXES: "message indexes that are none",
    REQUIRED: "a message without a field that is required",
}

ENCRYPTED = "its values are encrypted as a whole (ENCRYPT_PAYLOAD)"
"""What is said of a schema whose rules encrypt each value."""

REJECTED = pa.struct([("key", pa.binary()), ("value", pa.binary()), ("reason", pa.string())])
"""What the corrupt column has of a row that does not fit, where rows are rejected."""


class Explanation(NamedTuple):
    """Why a value does not fit: what was found, and what was expected.

    detail: what `found` says beside the words of the reason.
    """

    found: str
    expected: str
    detail: str


def explain_by_reason(reason: int, expected: str, detail: str = "") -> Explanation:
    """Explains a value in the words of REASONS. detail: is added to them."""
    return Explanation(REASONS[reason] + (f", {detail}" if detail else ""), expected, detail)


def explain_by_detail(found: str, expected: str) -> Explanation:
    """Explains a value by what was found in it, without the words of the reason."""
    return Explanation(found, expected, found)


def name_known(count: int, source: str) -> str:
    """What a message calls the schemas that are known. source: where they come from."""
    return f"the only schema in {source}" if count == 1 else f"one of the {count:,} schemas in {source}"


class Misfits:
    """Counts what does not fit, by column and reason. Several threads may count.

    fate: what becomes of it.
    """

    def __init__(self, fate: str = "null") -> None:
        self._fate = fate
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def add(self, column: str, reason: str, count: int, first: Callable[[], str]) -> None:
        """Counts rows. first: says where the first of them is."""
        with self._lock:
            if (column, reason) not in self._first:
                self._first[column, reason] = first()
            self._counts[column, reason] += count

    def report(self) -> None:
        """Writes a sentence for each reason to the log."""
        for sentence in few(
            f"{count:,} {column}{' does not fit, and is' if count == 1 else 's do not fit, and are'} {self._fate}: {reason} (the first at {self._first[column, reason]})"
            for (column, reason), count in self._counts.most_common()
        ):
            logger.warning("%s", sentence)
