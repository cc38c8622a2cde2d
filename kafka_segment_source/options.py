"""Options: `parse_options` turns their texts into `ReadOptions`, by the table of `option_table.py`.

Input: texts, because Spark passes strings. Output: a frozen value. OptionError or UnsupportedError is raised before any
file is opened. Names are case-insensitive, as Spark's are.

Three options can say where a scan starts. As in Spark's kafka source (`KafkaSourceProvider`), the first that is given
counts, and the same holds for where it ends:

1. startingTimestamp
2. startingOffsetsByTimestamp
3. startingOffsets

`since` and `until` keep rows by their timestamp; the options above cut at an offset. All of them apply together.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from kafka_segment_source import option_values as values
from kafka_segment_source import times
from kafka_segment_source.errors import OptionError, PathError, UnsupportedError
from kafka_segment_source.option_table import OPTIONS, Option
from kafka_segment_source.option_values import Context, TopicSelection
from kafka_segment_source.reporting import Warnings
from kafka_segment_source.request import Content, Cutting, Formats, Pace, ReadBounds
from kafka_segment_source.source import Source
from kafka_segment_source.storage.routed import make_storage
from kafka_segment_source.storage.settings import Settings, looks_like_setting, make_settings, suggest
from kafka_segment_source.trust import Policy, Trust

_BY_KEY = {option.name.lower(): option for option in OPTIONS}
_PLACES = {key: option.field.split(".") for key, option in _BY_KEY.items()}
_ALIASES = {
    "isolation.level": "isolationlevel",
    "kafka.isolation.level": "isolationlevel",
    "check.crcs": "checkcrcs",
    "kafka.check.crcs": "checkcrcs",
    "paths": "path",
}
_MEANINGLESS = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_MEANINGLESS_KEYS = ("groupidprefix",)


class ReadOptions(NamedTuple):
    """All options of one read, parsed, in the values that functions take. Times are absolute epoch milliseconds.

    Without a value for a part, nothing is asked. The defaults of users are those of the table.

    source: where the files are, and which partitions of them are wanted.
    content: what a row is.
    formats: what keys and values are said to be.
    bounds: from when to when.
    policy: what is believed, and what happens with damage and loss.
    cutting: how Spark partitions are cut.
    pace: how much a stream takes at a time.
    """

    source: Source
    content: Content = Content()
    formats: Formats = Formats()
    bounds: ReadBounds = ReadBounds()
    policy: Policy = Policy()
    cutting: Cutting = Cutting()
    pace: Pace = Pace()


def parse_options(
    given: Mapping[str, str],
    now_ms: int | None = None,
    parameters: Sequence[str] = (),
    is_stream: bool = False,
) -> tuple[ReadOptions, Warnings]:
    """Parses option names and texts, as Spark passes them. Returns ReadOptions, and warnings of one sentence each.

    now_ms: the moment that times ago are counted from; by default the present. parameters: other parameter names of
    the caller; the error about an unknown name may suggest one of them. is_stream: the options are those of a stream,
    not of a batch read. Nothing is opened: the storage of the source finds its buckets and tiers when it is asked.

    Raises OptionError for an unknown, malformed or contradictory option. Raises UnsupportedError for an option that has
    a meaning, but is not built.
    """
    texts, of_stores, ignored = _sort_texts(given, parameters, is_stream)
    view = find_view(texts)
    _check_view(view, texts)
    settings = make_settings(of_stores)
    try:
        zone = times.zone(texts.get("timezone", _BY_KEY["timezone"].default or ""))
    except ValueError as error:
        raise OptionError(f"option 'timeZone': {error}", options=("timeZone",)) from error
    context = Context(zone, int(time.time() * 1000) if now_ms is None else now_ms)
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for key, (part, field) in _PLACES.items():
        parts[part][field] = (
            _parse_value(_BY_KEY[key], texts[key], context) if key in texts else _parse_default(key, is_stream, view)
        )
    options = _put_together(parts, settings)
    _check_conflicts(options)
    return options, _make_warnings(ignored)


def _put_together(parts: Mapping[str, Mapping[str, Any]], settings: Settings) -> ReadOptions:
    """Makes the values of a read. parts: by the first word of `Option.field`, the parsed values by its second word."""
    formats, bounds = Formats(**parts["formats"]), ReadBounds(**parts["bounds"])
    content, trust = Content(**parts["content"]), Trust(**parts["trust"])
    content = content._replace(
        keys=_store_keys(content.keys, formats.key),
        proves_entries=content.view in values.OF_INDEXES and trust.check_crcs,
    )
    return ReadOptions(
        Source(make_storage(settings, **parts["storage"]), topics=TopicSelection(**parts["topics"]), **parts["source"]),
        content,
        formats,
        bounds,
        Policy(
            trust,
            disorder=None if content.include_control else bounds.disorder,  # it is about data records alone
            reads_control=content.include_control or content.read_committed,
            **parts["policy"],
        ),
        Cutting(**parts["cutting"]),
        Pace(**parts["pace"]),
    )


def find_view(given: Mapping[str, str]) -> str:
    """Returns the view that option texts ask for, by its name in `VIEWS`. Raises OptionError for an unknown one."""
    text = next((text for name, text in given.items() if name.lower() == "view"), values.RECORDS)
    try:
        return values.parse_view(text, Context(UTC, 0))
    except ValueError as error:
        raise OptionError(f"option 'view' is {text!r}: {error}", options=("view",)) from error


def _check_view(view: str, keys: Iterable[str]) -> None:
    """Raises OptionError for an option that the view does not take. keys: of the given options, in lower case."""
    for key in keys:
        if view not in _BY_KEY[key].views:
            taken = ", ".join(option.name for option in OPTIONS if view in option.views and option.name != "view")
            raise OptionError(
                f"option {_BY_KEY[key].name!r} is not for view={view}, which takes {taken}",
                options=(_BY_KEY[key].name,),
            )


def _sort_texts(
    given: Mapping[str, str], parameters: Sequence[str], is_stream: bool
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Sorts texts: by lower-case key for options of the table, by name for those of object stores, and the names of
    options without meaning here."""
    texts: dict[str, str] = {}
    of_stores: dict[str, str] = {}
    ignored: list[str] = []
    for name, text in given.items():
        key = _ALIASES.get(name.lower(), name.lower())
        if key in _BY_KEY:
            if is_stream and _BY_KEY[key].no_stream:
                raise OptionError(
                    f"option {_BY_KEY[key].name!r} is not for streams: {_BY_KEY[key].no_stream}",
                    options=(_BY_KEY[key].name,),
                )
            if _BY_KEY[key].stream_only and not is_stream:
                ignored.append(name)
                continue
            if key in texts and texts[key] != text:
                values_given = "" if key == "tieredkeys" else f", as {texts[key]!r} and {text!r}"
                raise OptionError(
                    f"option {_BY_KEY[key].name!r} is given twice{values_given}", options=(_BY_KEY[key].name,)
                )
            texts[key] = text
        elif looks_like_setting(key):
            of_stores[name] = text
        elif key.startswith(_MEANINGLESS) or key in _MEANINGLESS_KEYS:
            ignored.append(name)
        else:
            known = {key: option.name for key, option in _BY_KEY.items()} | {name: name for name in parameters}
            near = get_close_matches(key, known, n=1, cutoff=0.4)
            hint = f"; did you mean {known[near[0]]!r}?" if near else suggest(key)
            raise OptionError(f"option {name!r} is unknown{hint}", options=(name,))
    return texts, of_stores, ignored


@cache
def _parse_default(key: str, is_stream: bool, view: str) -> Any:
    """Returns the value of an option that is not given. It depends on no context."""
    text = _BY_KEY[key].default_for(is_stream, view)
    return None if text is None else _parse_value(_BY_KEY[key], text, Context(UTC, 0))


def _parse_value(option: Option, text: str, context: Context) -> Any:
    try:
        return option.parse(text, context)
    except UnsupportedError as error:
        raise UnsupportedError(f"option {option.name!r}: {error}") from error
    except (OptionError, PathError):
        raise  # its message names the option already, or must not repeat the text
    except ValueError as error:
        raise OptionError(f"option {option.name!r} is {text!r}: {error}", options=(option.name,)) from error


def _store_keys(keys: frozenset[str | bytes] | None, key_format: str) -> frozenset[str | bytes] | None:
    """Returns text keys as the bytes that are stored, where keys are bytes or text in UTF-8."""
    if keys is None:
        return None
    if key_format in values.FORMATS_OF_TEXT:
        try:
            return frozenset(key.encode() if isinstance(key, str) else key for key in keys)
        except UnicodeEncodeError as error:
            raise OptionError(
                f"option 'key' is not text in UTF-8 ({error}); write its bytes as 0x00ff", options=("key",)
            ) from error
    if len({type(key) for key in keys}) > 1:
        raise OptionError(
            f"option 'key' mixes values and bytes: under keyFormat={key_format} a text is compared with the typed"
            " key, and 0x… or base64:… with the stored bytes; give all keys in one form",
            options=("key", "keyFormat"),
        )
    return keys


def _check_conflicts(options: ReadOptions) -> None:
    topics, bounds, pace = options.source.topics, options.bounds, options.pace
    choices = {"subscribe": topics.subscribe, "subscribePattern": topics.pattern, "assign": topics.assign}
    chosen = [name for name, value in choices.items() if value is not None]
    if len(chosen) > 1:
        raise OptionError(
            f"options {' and '.join(map(repr, chosen))} exclude each other; give one", options=tuple(chosen)
        )
    since, until = bounds.since, bounds.until
    if since is not None and until is not None and since > until:
        raise OptionError(
            f"option 'since' ({times.format_millis(since)}) is after option 'until' ({times.format_millis(until)})",
            options=("since", "until"),
        )
    least, most = pace.least_offsets, pace.most_offsets
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' ({least}) is above option 'maxOffsetsPerTrigger' ({most})",
            options=("minOffsetsPerTrigger", "maxOffsetsPerTrigger"),
        )


def _make_warnings(ignored: list[str]) -> Warnings:
    of_streams = {name for name in ignored if name.lower() in _BY_KEY}
    of_brokers = set(ignored) - of_streams
    warnings = Warnings()
    if of_brokers:
        warnings.add(
            "these options mean nothing when segments are read without a broker, and were ignored:"
            f" {', '.join(sorted(of_brokers))}"
        )
    if of_streams:
        warnings.add(f"these options are for streams, and were ignored: {', '.join(sorted(of_streams))}")
    return warnings
