"""errors: whose fault it is, in which branch, and every field carried along."""

from __future__ import annotations

import copy
import pickle

import pytest

from kafka_segment_source import errors
from kafka_segment_source.errors import DataError, KafkaSegmentError, UsageError

USAGE = [errors.OptionError, errors.UnsupportedError, errors.SchemaError, errors.PathError]
DATA = [errors.CorruptRecordError, errors.CorruptIndexError, errors.UnsupportedFormatError]
FIELDS = {"path": "/a/0.log", "position": 61, "offset": 7, "found": 1, "expected": "2"}


@pytest.mark.parametrize("kind", USAGE)
def test_usage_errors_are_value_errors_too(kind: type[UsageError]) -> None:
    """What the caller got wrong can be caught as ours, as a usage error and as Python's ValueError."""
    assert issubclass(kind, (UsageError)) and issubclass(kind, ValueError) and issubclass(kind, KafkaSegmentError)
    assert not issubclass(kind, DataError)


@pytest.mark.parametrize("kind", DATA)
def test_data_errors_are_not_usage_errors(kind: type[DataError]) -> None:
    """Damaged files are nobody's wrong argument."""
    assert issubclass(kind, DataError) and issubclass(kind, KafkaSegmentError) and not issubclass(kind, ValueError)


def test_the_docstring_draws_every_error() -> None:
    """The tree in the module's docstring names every error there is, and no other."""
    drawn = {word for word in str(errors.__doc__).split() if word.endswith("Error") and word.isalpha()}
    there = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}

    assert drawn - {"ValueError", "OSError"} == there


def test_a_failing_storage_is_an_os_error() -> None:
    """It can be caught as Python's OSError, is nobody's wrong argument, and crosses processes with all its fields."""
    error = errors.StorageError("file '/a' cannot be read: No", errno=5, strerror="No", filename="/a")
    for each in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(each, OSError) and isinstance(each, KafkaSegmentError)
        assert not isinstance(each, (UsageError, DataError))
        assert (str(each), each.errno, each.strerror, each.filename) == ("file '/a' cannot be read: No", 5, "No", "/a")


def test_message_says_what_where_found_and_expected() -> None:
    """A data error's text names file, byte, offset and both values; an unknown offset is left out."""
    error = errors.CorruptRecordError("bad batch", **FIELDS)
    assert str(error) == "bad batch in /a/0.log at byte 61, offset 7: found 1, expected 2"

    error = errors.CorruptRecordError("bad batch", **{**FIELDS, "offset": None})
    assert str(error) == "bad batch in /a/0.log at byte 61: found 1, expected 2"


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_data_errors_cross_processes_whole(kind: type[DataError], again) -> None:  # type: ignore[no-untyped-def]
    """An executor's error arrives on the driver with its kind, its text and its fields."""
    error = again(kind("what", **FIELDS))

    assert type(error) is kind
    assert {name: getattr(error, name) for name in FIELDS} == FIELDS
    assert str(error) == str(kind("what", **FIELDS))
