"""times: moments and durations in every form, to whole milliseconds rounded up."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_segment_source import times

NOW = 1_773_133_200_000  # 2026-03-10T09:00:00Z
HOUR = 3_600_000
BERLIN = ZoneInfo("Europe/Berlin")

offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC) | offsets)


def exact_millis(moment: datetime) -> Fraction:
    """Epoch milliseconds by integer arithmetic on the parts of the difference."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return Fraction((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, 1000)


@given(moment=moments)
def test_iso_text_of_any_aware_datetime(moment: datetime) -> None:
    """A moment written as ISO-8601 with its offset is read as its milliseconds, fractions rounded up."""
    wanted = math.ceil(exact_millis(moment))

    assert times.parse_moment(moment.isoformat(), BERLIN, NOW) == wanted
    assert times.datetime_to_millis(moment) == wanted


@given(moment=st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))
def test_without_a_zone_the_default_holds(moment: datetime) -> None:
    """Text without a zone is taken in the default zone, daylight saving included."""
    assert times.parse_moment(moment.isoformat(" "), UTC, NOW) == math.ceil(exact_millis(moment.replace(tzinfo=UTC)))
    wanted = math.ceil(exact_millis(moment.replace(tzinfo=BERLIN).astimezone(UTC)))
    assert times.parse_moment(moment.isoformat(), BERLIN, NOW) == wanted


@given(millis=st.integers(-(2**63), 2**63 - 1))
def test_epoch_milliseconds_are_themselves(millis: int) -> None:
    """An integer with a sign is epoch milliseconds, to the ends of 64 bits: never a time ago. A bare one
    is, or is refused."""
    assert times.parse_moment(f"{millis:+d}", BERLIN, NOW) == millis
    assert times.parse_moment(times.millis_text(millis), BERLIN, NOW) == millis
    try:
        assert times.parse_moment(str(millis), BERLIN, NOW) == millis
    except ValueError:
        assert len(str(millis)) in (4, 6, 8, 10, 12, 14)


@pytest.mark.parametrize(
    ("text", "meant", "millis"),
    [
        ("2026", "2026-01-01", "1767222000000"),
        ("1970", "1970-01-01", "-3600000"),
        ("2099", "2099-01-01", "4070905200000"),
        ("202603", "2026-03-01", "1772319600000"),
        ("20260310", "2026-03-10", "1773097200000"),
        (" 20260310 ", "2026-03-10", "1773097200000"),
        ("2026031009", "2026-03-10T09", "1773129600000"),
        ("202603100930", "2026-03-10T09:30", "1773131400000"),
        ("20260310093015", "2026-03-10T09:30:15", "1773131415000"),
        ("1773133200", "2026-03-10T09:00:00Z", "1773133200000"),
        ("1000000000", "2001-09-09T01:46:40Z", "1000000000000"),
        ("9999999999", "2286-11-20T17:46:39Z", "9999999999000"),
        ("2026139999", "2034-03-16T16:39:59Z", "2026139999000"),
    ],
)
def test_numbers_that_read_as_something_else(text: str, meant: str, millis: str) -> None:
    """A year, a date without dashes and epoch seconds are refused; the error says three ways to write what is meant."""
    with pytest.raises(ValueError, match="as epoch milliseconds that is ") as caught:
        times.parse_moment(text, BERLIN, NOW)
    number = text.strip()
    assert str(caught.value).endswith(f"; write {meant} or {millis} if this is meant, +{number} if not")
    if number != "20260310093015":
        assert "that is 197" in str(caught.value)
    assert times.parse_moment(meant, BERLIN, NOW) == times.parse_moment(millis, BERLIN, NOW) == int(millis)
    assert times.parse_moment(f"+{number}", BERLIN, NOW) == int(number)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "0",
            "5",
            "401",
            "1000",
            "1969",
            "2100",
            "3000",
            "202600",
            "202613",
            "20260230",
            "20261301",
            "99999999",
            "-2026",
        ),
        *("123456789", "12345678901", "202602300000", "123456789012", str(NOW), "20260310250000", "1773133200000000"),
    ],
)
def test_numbers_that_are_milliseconds(text: str) -> None:
    """Any other number is taken, however small."""
    assert times.parse_moment(text, BERLIN, NOW) == int(text)


@given(moment=st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)), nanos=st.integers(0, 999_999_999))
@pytest.mark.parametrize("end", ["Z", "+00:00", ""])
@pytest.mark.parametrize("point", [".", ","])
def test_nine_digits_of_a_second(moment: datetime, nanos: int, end: str, point: str) -> None:
    """A fraction of a millisecond is rounded up, whatever digit it is in: Java's Instant prints nine."""
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    wanted = math.ceil(exact_millis(whole) + Fraction(nanos, 10**6))
    assert times.parse_moment(f"{whole:%Y-%m-%dT%H:%M:%S}".zfill(19) + f"{point}{nanos:09d}{end}", UTC, NOW) == wanted


@given(count=st.integers(0, 10**6), unit=st.sampled_from([("ms", 1), ("s", 1000), ("m", 60_000), ("h", HOUR)]))
def test_times_ago(count: int, unit: tuple[str, int]) -> None:
    """`-2h` is counted back from now, exactly."""
    name, factor = unit
    assert times.parse_moment(f"-{count}{name}", BERLIN, NOW) == NOW - count * factor


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-03-10T09:00:00Z", NOW),
        ("2026-03-10 09:00", NOW),
        ("2026-03-10", NOW - 9 * HOUR),
        ("20260310T090000Z", NOW),
        ("2026-03-10T09:00:00+02:00", NOW - 2 * HOUR),
        ("2026-03-10T09:00:00.0005Z", NOW + 1),
        ("2026-03-10T09:00:00.001Z", NOW + 1),
        ("2026-03-10T09:00:00.0000001Z", NOW + 1),
        ("2026-03-10T09:00:00.000000000Z", NOW),
        ("2026-03-10T09:00:00.0010001Z", NOW + 2),
        ("2026-03-10T09:00:00.0010000000Z", NOW + 1),
        ("2026-03-10T09:00:00.0005001Z", NOW + 1),
        ("2026-03-10T09:00:00.0009999999", NOW + 1),
        ("20260310T090000,000000001Z", NOW + 1),
        ("1969-12-31T23:59:59.9990001Z", 0),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_800_000),
        ("1969-12-31T23:59:59.9995Z", 0),
        (" 2026-03-10T09:00:00Z ", NOW),
        ("+1000", 1000),
        ("-1000", -1000),
        ("-2h", NOW - 2 * HOUR),
        ("-10 minutes", NOW - 10 * 60_000),
        ("-1 Hour", NOW - HOUR),
        ("-1h 30m", NOW - HOUR * 3 // 2),
        ("-1h30m", NOW - HOUR * 3 // 2),
        ("-2 weeks", NOW - 14 * 24 * HOUR),
        ("- 2 days", NOW - 48 * HOUR),
    ],
)
def test_forms_of_a_moment(text: str, wanted: int) -> None:
    """ISO-8601 in its usual forms, epoch milliseconds, and times ago."""
    assert times.parse_moment(text, UTC, NOW) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-13-01", "2026-03-10T25:00Z", "-", "-2", "-2 parsecs", "-h", "2h", "1e3", "--2h", "-2h!"],
)
def test_what_is_no_moment(text: str) -> None:
    """Anything else is refused with the three forms; a number with a sign alone is a number."""
    if text == "-2":
        assert times.parse_moment(text, UTC, NOW) == -2
        return
    with pytest.raises(ValueError, match="expected"):
        times.parse_moment(text, UTC, NOW)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0),
        ("1500", 1500),
        ("500ms", 500),
        ("2s", 2000),
        ("2 sec", 2000),
        ("2 seconds", 2000),
        ("10 minutes", 600_000),
        ("1 min", 60_000),
        ("3 mins", 180_000),
        ("1h", HOUR),
        ("1H", HOUR),
        ("1h 30m", HOUR * 3 // 2),
        ("1 day", 24 * HOUR),
        ("1w", 168 * HOUR),
    ],
)
def test_durations(text: str, wanted: int) -> None:
    """A number with a unit, several of them, or milliseconds."""
    assert times.parse_duration(text) == wanted


@pytest.mark.parametrize("text", ["", " ", "h", "2x", "2h x", "x 2h", "-2h", "1.5h", "2h3", "٣h x"])
def test_what_is_no_duration(text: str) -> None:
    """Unknown units, fractions, signs and rests are refused with what was expected."""
    with pytest.raises(ValueError, match="expected a number with a unit"):
        times.parse_duration(text)


@pytest.mark.parametrize(
    "name", ["UTC", "utc", "Z", "GMT", "UT", " UTC ", "Europe/Berlin", "America/New_York", "\tAsia/Kolkata "]
)
def test_zones_by_name(name: str) -> None:
    """Zones go by their usual names, UTC in any case, blanks around them or not."""
    offset = datetime(2026, 1, 1, tzinfo=times.zone(name)).utcoffset()
    hours = {"Europe/Berlin": 1, "America/New_York": -5, "Asia/Kolkata": 5.5}.get(name.strip(), 0)
    assert offset == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("+01:00", 3600),
        ("-08", -28_800),
        ("+1", 3600),
        ("+1:00", 3600),
        ("+01:0", 3600),
        ("+1:5", 3900),
        ("-9:30", -34_200),
        ("+0100", 3600),
        ("+010000", 3600),
        ("+01:00:30", 3630),
        ("-00:30", -1800),
        ("+00:00", 0),
        ("+18", 64_800),
        ("-18:00", -64_800),
        ("GMT+1", 3600),
        ("UTC+1", 3600),
        ("UTC+01:30", 5400),
        ("UTC+9:5", 32_700),
        ("UT-3", -10_800),
        (" gmt+01:00 ", 3600),
        ("GMT0", 0),
        ("Etc/GMT+1", -3600),
    ],
)
def test_zones_by_offset(name: str, seconds: int) -> None:
    """Offsets as Spark 4.3 took them as spark.sql.session.timeZone; `Etc/GMT+1` is west of Greenwich, as everywhere."""
    assert datetime(2026, 7, 1, tzinfo=times.zone(name)).utcoffset() == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "name",
    [
        *("Europe/Brelin", "", "../../etc/passwd", "/etc/localtime", "Europe", "\0", "x" * 500),
        *(
            "+19",
            "+18:01",
            "+01:60",
            "+01:00:60",
            "+930",
            "UTC0",
            "UTC+",
            "UTC+99",
            "GMT+1:",
            "+",
            "01:00",
            "+٣",
            "PST+1",
        ),
    ],
)
def test_what_is_no_zone(name: str) -> None:
    """Any other name is one ValueError that repeats it, whatever the zone database makes of it."""
    with pytest.raises(ValueError, match="no time zone is called") as caught:
        times.zone(name)
    assert repr(name) in str(caught.value) and "+01:00" in str(caught.value)


def test_a_naive_datetime_is_refused() -> None:
    """A datetime without a zone is not guessed at."""
    with pytest.raises(ValueError, match="without a zone"):
        times.datetime_to_millis(datetime(2026, 1, 1))


@given(millis=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_format_is_the_inverse_of_parsing(millis: int) -> None:
    """A timestamp shown in an error can be given back as an option."""
    assert times.parse_moment(times.format_millis(millis), BERLIN, NOW) == millis


@pytest.mark.parametrize("millis", [2**63 - 1, -(2**63), 253_402_300_800_000])
def test_format_where_no_calendar_reaches(millis: int) -> None:
    """Beyond year 9999 or before year 1 the bare number is shown."""
    assert times.format_millis(millis) == str(millis)
