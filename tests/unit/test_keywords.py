"""keywords: Python values as option texts, and the types that an editor shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import get_type_hints

import pytest

from kafka_segment_source.errors import OptionError
from kafka_segment_source.keywords import (
    ByPartition,
    DecodeOptions,
    Duration,
    Flag,
    Keys,
    Moment,
    Names,
    Number,
    OffsetOptions,
    RebuildOptions,
    ScanOptions,
    StreamOptions,
    TopicOptions,
    check_names,
    option_names,
    option_texts,
)
from kafka_segment_source.option_table import OPTIONS
from kafka_segment_source.options import parse_options

NOW = 1_773_133_200_000  # 2026-03-10T09:00:00Z
HOUR = 3_600_000

TYPES = {  # by what an option takes
    "true|false": Flag,
    "N": Number,
    "BYTES": Number,
    "TOPICS": Names,
    "DURATION": Duration,
    "TIME": Moment,
    "JSON": ByPartition,
    "earliest|JSON": ByPartition,
    "latest|JSON": ByPartition,
    "KEY": Keys,
    "KEYS": get_type_hints(ScanOptions)["tieredKeys"],
    "DIRECTORY": get_type_hints(ScanOptions)["zoneMaps"],
}


def test_keywords_are_the_options() -> None:
    """`plan`, `scan` and `read`, and `read_stream`, take every option but path, each with the type of its values."""
    for keywords, options in (
        (ScanOptions, [option for option in OPTIONS if not option.stream_only]),
        (StreamOptions, [option for option in OPTIONS if not option.no_stream]),
    ):
        of_table = {option.name: TYPES.get(option.takes, str | None) for option in options if option.name != "path"}
        assert get_type_hints(keywords) == of_table | {"storage_options": Mapping[str, object] | None}


@pytest.mark.parametrize("some", [TopicOptions, DecodeOptions, OffsetOptions, RebuildOptions])
def test_other_functions_take_some_of_them(some: type) -> None:
    """Functions that take fewer options take them as a scan does."""
    assert get_type_hints(some).items() <= get_type_hints(ScanOptions).items()


def test_names_that_a_function_does_not_take() -> None:
    """An option of a scan that means nothing to another function is an error that says what it takes."""
    check_names(["SUBSCRIBE", "topic"], TopicOptions, "lists, which take")
    with pytest.raises(OptionError, match="option 'since' is not for lists, which take subscribe, subscribePattern, a"):
        check_names(["since"], TopicOptions, "lists, which take")
    assert option_names(DecodeOptions) == (*option_names(TopicOptions)[:-1], "maxBatchBytes", "storage_options")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (5, "5"),
        ("x", "x"),
        (datetime(2026, 3, 10, 9, tzinfo=UTC), str(NOW)),
        (datetime(2026, 3, 10, 11, tzinfo=timezone(timedelta(hours=2))), str(NOW)),
        (datetime(2026, 3, 10, 9, microsecond=1, tzinfo=UTC), str(NOW + 1)),
        (datetime(1970, 1, 21, 12, 32, 13, 200_000, tzinfo=UTC), "+1773133200"),
        (timedelta(hours=-2), "-7200000 ms"),
        (timedelta(seconds=10, microseconds=1), "10001 ms"),
        ({"a": {"0": 5}}, '{"a": {"0": 5}}'),
        ({"a": [0, 1]}, '{"a": [0, 1]}'),
    ],
)
def test_python_values(value: object, text: str) -> None:
    """Python values become the text that Spark would send."""
    assert option_texts("/x", {"any": value}) == {"path": "/x", "any": text}


def test_none_is_not_given() -> None:
    """A keyword of None counts as not given."""
    assert option_texts("/x", {"since": None}) == {"path": "/x"}


def test_a_naive_datetime_is_refused() -> None:
    """A datetime without a zone is refused, by the option's name, never guessed at."""
    with pytest.raises(OptionError, match=r"option 'since' is datetime.*without a zone"):
        option_texts("/x", {"since": datetime(2026, 3, 10)})


def test_datetimes_at_the_ends_of_the_calendar() -> None:
    """The first and the last datetime there are, in any zone, are times like others."""
    first = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-14)))
    day = 86_400_000
    assert int(option_texts("/x", {"since": first})["since"]) == -719_162 * day - 14 * HOUR
    assert int(option_texts("/x", {"since": last})["since"]) == 2_932_897 * day - 1000 + 14 * HOUR


def test_paths_of_every_kind() -> None:
    """Paths may be strings, path objects and lists of either."""
    assert option_texts(Path("/a"), {}) == {"path": "/a"}
    assert json.loads(option_texts([Path("/a"), "/b"], {})["path"]) == ["/a", "/b"]
    assert parse_options(option_texts(["/a"], {}), NOW)[0].source.paths == ("/a",)


def test_a_timedelta_is_a_time_ago_or_a_duration() -> None:
    """A negative one is a time ago for `since`, as `-2h` is. A positive one is a duration."""
    given = {"since": timedelta(hours=-2), "timestampDisorder": timedelta(seconds=10)}
    parsed, _ = parse_options(option_texts("/x", given), NOW)
    assert (parsed.bounds.since, parsed.bounds.disorder) == (NOW - 2 * HOUR, 10_000)


def test_a_time_in_the_future_is_refused() -> None:
    """The error says what to write."""
    with pytest.raises(OptionError, match=r"option 'since' is '7200000 ms': expected .* or a time ago \(-2h"):
        parse_options(option_texts("/x", {"since": timedelta(hours=2)}), NOW)


@pytest.mark.parametrize("names", [["orders", "payments"], ("orders", "payments"), "orders,payments"])
def test_several_topics(names: object) -> None:
    """`subscribe` takes a list, as well as Spark's text."""
    assert parse_options(option_texts("/x", {"subscribe": names}))[0].source.topics.subscribe == ("orders", "payments")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "option 'subscribe' is '': expected one topic name or more, separated by commas"),
        (["orders", 5], r"option 'subscribe' is \['orders', 5\]: expected topic names \(str\)"),
    ],
)
def test_what_is_no_list_of_topics(names: object, sentence: str) -> None:
    """An empty list, or one with something else in it."""
    with pytest.raises(OptionError, match=sentence):
        parse_options(option_texts("/x", {"subscribe": names}))


@pytest.mark.parametrize("path", [None, 5, b"/x", True, {"/x": 1}, ["/x", None], [b"/x"], [["/x"]]])
def test_what_is_no_path(path: object) -> None:
    """One sentence names what was given and what is expected."""
    with pytest.raises(
        OptionError, match=r"option 'path' is .*: expected a path \(str or os.PathLike\), or a list of pa"
    ):
        option_texts(path, {})  # type: ignore[arg-type]


def test_paths() -> None:
    """One path, or any iterable of paths."""
    assert option_texts(Path("/x"), {}) == {"path": "/x"}
    assert option_texts(["/x", Path("/y")], {}) == option_texts((each for each in ("/x", "/y")), {})  # type: ignore[arg-type]
