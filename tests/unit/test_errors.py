"""errors: whose fault it is, in which branch, and every field carried along."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from pathlib import Path

import pytest

import kafka_segment_source
from kafka_segment_source import errors
from kafka_segment_source.errors import DataError, KafkaSegmentError, OptionError, UsageError

USAGE = [errors.OptionError, errors.UnsupportedError, errors.SchemaError, errors.PathError]
DATA = [errors.CorruptRecordError, errors.UnsupportedFormatError]
FIELDS = {
    "path": "/a/0.log",
    "position": 61,
    "offset": 7,
    "inside": "byte 75 of the batch",
    "found": 1,
    "expected": "2",
}


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
    assert str(error) == "bad batch in /a/0.log at byte 61, offset 7, byte 75 of the batch: found 1, expected 2"

    error = errors.CorruptRecordError("bad batch", **{**FIELDS, "offset": None, "inside": None})
    assert str(error) == "bad batch in /a/0.log at byte 61: found 1, expected 2"


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy], ids=["pickle", "copy"])
def test_data_errors_cross_processes_whole(kind: type[DataError], again) -> None:  # type: ignore[no-untyped-def]
    """An executor's error arrives on the driver with its kind, its text and its fields."""
    error = again(kind("what", **FIELDS))

    assert type(error) is kind
    assert {name: getattr(error, name) for name in FIELDS} == FIELDS
    assert str(error) == str(kind("what", **FIELDS))


def traceback_of(error: KafkaSegmentError) -> Exception:
    """As Spark raises it: the text of a Python traceback between a summary and lines of Java, twice."""
    name = f"{type(error).__module__}.{type(error).__name__}"
    python = f'Traceback (most recent call last):\n  File "x.py", line 1, in f\n{name}: {error}\n'
    java = "\n\tat org.apache.spark.Task.run(Task.scala:1)\n"
    inner = f"kafka_segment_source.errors.PathError: first\n\nThe above exception was the direct cause\n{python}{java}"
    return RuntimeError(f"Job aborted: Lost task 0.0 (TID 0): PythonException: {inner}Caused by: {python}{java}")


TOLD: list[KafkaSegmentError] = [
    errors.PathError("path '/a' does not exist"),
    errors.OptionError("option 'since': found 'soon', expected a time", options=("since",)),
    errors.FileChangedError("file '/a' has shrunk"),
    errors.StorageError("file '/a b' cannot be read: No space left on device", errno=28, strerror="No space left on device", filename="/a b"),
    errors.StorageError("""path "/it's" cannot be listed: unheard of""", errno=None, strerror="unheard of", filename="/it's"),
    errors.StorageError("something else"),
    *(kind("a batch in pieces", **{**FIELDS, "found": "1", **more}) for kind in DATA for more in ({}, {"offset": None}, {"inside": None}, {"inside": "byte 3 after decompression", "path": "/in /a at byte/x"})),
]  # fmt: skip


@pytest.mark.parametrize("error", TOLD, ids=[f"{type(error).__name__}{n}" for n, error in enumerate(TOLD)])
def test_the_cause_of_a_text(error: KafkaSegmentError) -> None:
    """The class, the message and the fields come back out of Spark's text."""
    found = errors.cause_of(traceback_of(error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
    if isinstance(error, errors.StorageError):
        assert isinstance(found, errors.StorageError)
        assert (found.errno, found.strerror, found.filename) == (error.errno, error.strerror, error.filename)


def test_the_cause_of_an_exception() -> None:
    """Our own error, and one that another was raised from, come back themselves; anything else has no cause."""
    own = errors.PathError("path")
    other = RuntimeError("x")
    other.__cause__ = own
    assert errors.cause_of(own) is errors.cause_of(other) is own
    assert errors.cause_of(RuntimeError("kafka_segment_source.errors is a module")) is None


def test_the_cause_of_a_text_that_was_cut() -> None:
    """What is left of the message, as the base of all errors."""
    cut = RuntimeError("...\nkafka_segment_source.errors.CorruptRecordError: batch whose bytes do")
    error = errors.cause_of(cut)
    assert (type(error), str(error)) == (KafkaSegmentError, "batch whose bytes do")
    assert type(errors.cause_of(RuntimeError("kafka_segment_source.errors.NoSuchError: x"))) is KafkaSegmentError


def option_errors() -> list[tuple[str, ast.Call]]:
    """Each place of the package that makes an OptionError whose text names an option."""
    places = []
    for path in sorted(Path(errors.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "OptionError":
                text = ast.unparse(node.args[0])
                if re.search(r"(?<!storage )options? ('|{)(?!checkpointLocation)", text):
                    places.append((f"{path.name}:{node.lineno}", node))
    return places


OPTION_ERRORS = option_errors()


@pytest.mark.parametrize("call", [call for _, call in OPTION_ERRORS], ids=[place for place, _ in OPTION_ERRORS])
def test_an_option_error_has_its_options_as_a_field(call: ast.Call) -> None:
    """A program need not read the sentence."""
    assert [keyword.arg for keyword in call.keywords] == ["options"]


def test_the_options_of_an_error_are_those_of_its_sentence() -> None:
    """Also after pickling, and when Spark has made a text of it."""
    with pytest.raises(OptionError) as raised:
        kafka_segment_source.plan("examples", since="2026-03-11", until="2026-03-10")
    assert raised.value.options == ("since", "until")
    assert pickle.loads(pickle.dumps(raised.value)).options == ("since", "until")
    told = RuntimeError(f"kafka_segment_source.errors.OptionError: {raised.value}")
    again = errors.cause_of(told)
    assert isinstance(again, OptionError) and again.options == ("since", "until")
