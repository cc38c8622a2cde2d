"""Converts text, numbers and datetimes of a moment or a duration to integer milliseconds. It does no I/O.

A moment is ISO-8601, epoch milliseconds, or a time ago (`-2h`, `-10 minutes`). Fractions of a millisecond are rounded
up. Timestamps are whole milliseconds, so `t >= 12:00:00.0005` and `t >= 12:00:00.001` keep the same rows.

A bare number is epoch milliseconds, unless it can also mean something else. It can be a year (`2026`). It can be a
month, day, hour, minute or second without dashes (`202603`, `20260310`, … `20260310093000`) of the years 1970 to 2099.
It can be epoch seconds (any ten digits). As milliseconds, all but the longest are of 1970 or 1976. So these numbers are
refused. A number with a sign is always milliseconds: `+2026` is 2026 ms after the start of 1970.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from kafka_segment_source.bounds import MIN_TIMESTAMP, TIMESTAMP_LIMIT

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_IN_UTC = _EPOCH.replace(tzinfo=None)
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
_EPOCH_MILLIS = re.compile(r"[+-]?\d+", re.ASCII)
_BELOW_MICROS = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)  # digits that datetime ignores
_EPOCH_SECONDS = re.compile(r"[1-9]\d{9}", re.ASCII)
_COMPACT_DATE = re.compile(r"((?:19[7-9]|20\d)\d)" + r"(\d\d)?" * 5, re.ASCII)
_OFFSET_ZONE = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d\d?)(?::(\d\d?)(?::(\d\d))?)?|(\d\d)(\d\d)(\d\d)?)", re.ASCII | re.IGNORECASE
)
_LARGEST_MINUTE = 59  # also the largest second
_LARGEST_ZONE_SECONDS = 18 * 3600  # Java's limit
EXPECTED_MOMENT = "ISO-8601 (2026-03-10T09:30:00Z), epoch milliseconds, or a time ago (-2h, -10 minutes)"
EXPECTED_DURATION = "a number with a unit (500ms, 2s, 10 minutes, 1h) or milliseconds"


def zone(name: str) -> tzinfo:
    """Returns the time zone of that name, as Spark's session time zone takes it. Raises ValueError if there is none.

    The name is a region (`Europe/Berlin`), `UTC`, `GMT` or `Z`, or an offset: `+1`, `-08`, `+01:00`, `+01:00:30`. An
    offset may have `UTC`, `GMT` or `UT` before it. Blanks around the name are ignored.
    """
    text = name.strip()
    if text.upper() in ("UTC", "Z", "GMT", "UT"):
        return UTC
    offset = _OFFSET_ZONE.fullmatch(text)
    if offset is not None:
        return _parse_offset_zone(name, offset)
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # it loads sysconfig, and UTC needs none of it

    try:
        return ZoneInfo(text)
    # ZoneInfoNotFoundError is a KeyError; an invalid key raises one of the others
    except (KeyError, ValueError, OSError) as error:
        raise _make_zone_error(name) from error


def _parse_offset_zone(name: str, offset: re.Match[str]) -> tzinfo:
    """Returns the zone of a match of `_OFFSET_ZONE` in `name`. Raises ValueError if it is more than 18 hours from
    UTC."""
    sign, *parts = offset.groups(default="0")
    hours, minutes, seconds = (max(int(part), int(other)) for part, other in zip(parts[:3], parts[3:], strict=True))
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > _LARGEST_MINUTE or seconds > _LARGEST_MINUTE or total > _LARGEST_ZONE_SECONDS:
        raise _make_zone_error(name)
    return timezone(timedelta(seconds=-total if sign == "-" else total))


def _make_zone_error(name: str) -> ValueError:
    return ValueError(f"no time zone is called {name!r}; expected a region (Europe/Berlin), an offset (+01:00) or UTC")


def datetime_to_millis(moment: datetime) -> int:
    """Returns the epoch milliseconds of an aware datetime, rounded up. Raises ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError("a datetime without a zone could mean any; give it one (tzinfo=timezone.utc)")
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def parse_duration(text: str) -> int:
    """Returns the milliseconds of `10 minutes`, `2h`, `1h 30m` or a plain number of milliseconds. It is never
    negative."""
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
    """Returns the epoch milliseconds of a moment in one of the three forms. Times ago are counted from `now_ms`.

    A number beyond 64 bits gives the lowest bound or the highest one.
    """
    text = text.strip()
    if _EPOCH_MILLIS.fullmatch(text):
        meant = other_meaning(text)
        if meant is not None:
            raise ValueError(
                f"as epoch milliseconds that is {format_millis(int(text))};"
                f" write {meant} or {parse_moment(meant, default_zone, now_ms)} if this is meant, +{text} if not"
            )
        return max(MIN_TIMESTAMP, min(int(text), TIMESTAMP_LIMIT))
    if text.startswith("-"):
        return max(MIN_TIMESTAMP, now_ms - parse_duration(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"expected {EXPECTED_MOMENT}") from error
    millis = datetime_to_millis(moment if moment.tzinfo else moment.replace(tzinfo=default_zone))
    on_a_millisecond = moment.microsecond % 1000 == 0
    return millis + 1 if on_a_millisecond and _BELOW_MICROS.search(text) else millis


def other_meaning(number: str) -> str | None:
    """Returns the ISO-8601 text of a bare number that can be read as a date or as epoch seconds, or None.

    A number with a sign gives None, as it is milliseconds.
    """
    compact = _COMPACT_DATE.fullmatch(number)
    if compact is not None:
        parts = [part for part in compact.groups() if part is not None]
        day = "-".join([*parts[:3], *["01"] * (3 - len(parts))])
        iso = "T".join([day, ":".join(parts[3:])] if parts[3:] else [day])
        with suppress(ValueError):
            datetime.fromisoformat(iso)
            return iso
    if _EPOCH_SECONDS.fullmatch(number):
        return (_EPOCH + timedelta(seconds=int(number))).isoformat().replace("+00:00", "Z")
    return None


def millis_text(millis: int) -> str:
    """Returns the text that `parse_moment` reads as exactly these epoch milliseconds."""
    return str(millis) if other_meaning(str(millis)) is None else f"+{millis}"


def format_millis(timestamp: int) -> str:
    """Returns a timestamp as ISO-8601 in UTC with milliseconds, or the bare number if a calendar cannot express it."""
    try:
        return (_EPOCH_IN_UTC + timedelta(milliseconds=timestamp)).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return str(timestamp)
