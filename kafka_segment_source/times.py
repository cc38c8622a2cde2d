"""Text, numbers and datetimes that name a moment or a duration → integer milliseconds. No I/O.

A moment is ISO-8601, epoch milliseconds, or a time ago (`-2h`, `-10 minutes`). Fractions of a millisecond are
rounded up: timestamps are whole milliseconds, so `t >= 12:00:00.0005` and `t >= 12:00:00.001` keep the same rows.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1000,
    "sec": 1000,
    "second": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "w": 604_800_000,
    "week": 604_800_000,
}
_DURATION = re.compile(r"(\d+)\s*([a-z]+)", re.IGNORECASE)
_EPOCH_MILLIS = re.compile(r"[+-]?\d+")
EXPECTED_MOMENT = "ISO-8601 (2026-03-10T09:30:00Z), epoch milliseconds, or a time ago (-2h, -10 minutes)"
EXPECTED_DURATION = "a number with a unit (500ms, 2s, 10 minutes, 1h) or milliseconds"


def zone(name: str) -> tzinfo:
    """The time zone of that name (`Europe/Berlin`, `UTC`); ValueError where there is none."""
    if name.upper() in ("UTC", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError; a bad key, the others
        raise ValueError(f"no time zone is called {name!r}") from error


def datetime_to_millis(moment: datetime) -> int:
    """Epoch milliseconds of an aware datetime, rounded up; ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone could mean any; give it one (tzinfo=timezone.utc)")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def parse_duration(text: str) -> int:
    """Milliseconds of `10 minutes`, `2h`, `1h 30m` or a plain number of milliseconds; never negative."""
    if text.strip().isascii() and text.strip().isdigit():
        return int(text)
    total = end = 0
    for match in _DURATION.finditer(text):
        number, unit = match.groups()
        if text[end : match.start()].strip():
            break
        factor = _UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s"))
        if factor is None:
            break
        total += int(number) * factor
        end = match.end()
    if end == 0 or text[end:].strip():
        raise ValueError(f"expected {EXPECTED_DURATION}")
    return total


def parse_moment(text: str, default_zone: tzinfo, now_ms: int) -> int:
    """Epoch milliseconds of a moment in one of the three forms; `now_ms` is what times ago are counted from.

    Beyond 64 bits: as early, or as late, as no timestamp can be.
    """
    text = text.strip()
    if _EPOCH_MILLIS.fullmatch(text):
        return max(MIN_TIMESTAMP, min(int(text), TIMESTAMP_LIMIT))
    if text.startswith("-"):
        return max(MIN_TIMESTAMP, now_ms - parse_duration(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"expected {EXPECTED_MOMENT}") from error
    return datetime_to_millis(moment if moment.tzinfo else moment.replace(tzinfo=default_zone))


def format_millis(timestamp: int) -> str:
    """A timestamp as ISO-8601 in UTC with milliseconds, or the bare number where no calendar reaches it."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(timestamp)
