"""The rows of a column of Protobuf: how they name their message, and their decoding by Google's own parser.

Behind the prefix or the header, indexes say which message of its file a value is (`MessageIndexes` of Confluent's
serializers): a count and so many numbers, all zigzag varints, or the byte 0 for the first message. Values of any writer
are parsed as the chosen message, by the numbers of fields.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from kafka_segment_source.kernels import avro
from kafka_segment_source.values.avro_arrays import NONE_CHOSEN, Ints, Rows
from kafka_segment_source.values.headers import UnknownHeaders
from kafka_segment_source.values.misfits import (
    BAD_INDEXES,
    NOT_PROTOBUF,
    REQUIRED,
    Explanation,
    explain_by_detail,
    explain_by_reason,
    name_known,
)
from kafka_segment_source.values.protobuf_columns import (
    BadTextError,
    BeyondTimeError,
    Budget,
    ProtobufColumn,
    TooLargeError,
    make_columns,
    walk_messages,
)
from kafka_segment_source.values.protobuf_files import find_message
from kafka_segment_source.values.protobuf_sizes import Sizes

_PREFIX = 5  # bytes of the prefix, without indexes
_GUID_BYTES = 17
_MOST_INDEXES = 64
_MOST_ROWS = 8192  # that are parsed at once

if TYPE_CHECKING:
    from kafka_segment_source.values.protobuf_meaning import ProtobufMeaning

Status = npt.NDArray[np.uint8]


class ProtobufDecoder:
    """Decodes the rows of one column (a `ColumnDecoder`)."""

    def __init__(self, meaning: ProtobufMeaning, most_bytes: int) -> None:
        self._meaning = meaning
        self.header_name = meaning.header_name
        descriptor = find_message(meaning.files, meaning.message)
        self._columns: ProtobufColumn = make_columns(descriptor, meaning.wanted)
        self._parse = GetMessageClass(descriptor).FromString
        self._needs_check = any(field.is_required for field in _fields_of(descriptor))
        self._most = most_bytes
        self._sizes = Sizes(descriptor)
        self._block = max(most_bytes // self._sizes.per_byte, 1)
        self._chosen: list[tuple[int, tuple[int, ...] | None]] = []  # writers and indexes that headers name
        self._unknown = UnknownHeaders()
        self._verdicts: dict[bytes, bool] = {}  # by the first bytes of a value, with the index 0

    def choose(self, headers: pa.Array) -> Ints:
        """A header is byte 0 and an id, or byte 1 and a GUID, with the indexes behind it."""
        listed = headers.flatten()
        places = np.flatnonzero(pc.equal(listed.field("key"), self.header_name).to_numpy(zero_copy_only=False))
        if not len(places):
            return NONE_CHOSEN
        parents = pc.list_parent_indices(headers).to_numpy()
        values = listed.field("value").take(pa.array(places)).to_pylist()
        chosen = np.full(len(headers), -1, np.int32)
        known = {writer: at for at, writer in enumerate(self._chosen)}
        for place, value in zip(places.tolist(), values, strict=True):
            choice = self._read_header(value)
            if choice is None:
                chosen[parents[place]] = self._unknown.number(value)
                continue
            at = known.setdefault(choice, len(known))
            if at == len(self._chosen):
                self._chosen.append(choice)
            chosen[parents[place]] = at
        return chosen

    def _read_header(self, value: bytes | None) -> tuple[int, tuple[int, ...] | None] | None:
        place: int | None = None
        rest = b""
        if value is not None and len(value) >= _PREFIX and value[0] == 0:
            place, rest = self._meaning.ids.get(int.from_bytes(value[1:_PREFIX], "big")), value[_PREFIX:]
        elif value is not None and len(value) >= _GUID_BYTES and value[0] == 1:
            place, rest = self._meaning.guids.get(value[1:_GUID_BYTES]), value[_GUID_BYTES:]
        if place is None:
            return None
        indexes = read_indexes(rest)
        return place, None if indexes is None or indexes[1] != len(rest) else indexes[0]

    def decode(self, rows: Rows, first: int, last: int, status: Status) -> tuple[pa.Array, int]:
        ends = np.cumsum(np.maximum(rows.sizes[first:last], 0), dtype=np.int64)
        last = min(last, first + max(int(np.searchsorted(ends, self._block, "right")), 1), first + _MOST_ROWS)
        messages = [self._parse_row(rows, row, status) for row in range(first, last)]
        array, count = self._build(messages, status[first:last])
        return array, first + count

    def _parse_row(self, rows: Rows, row: int, status: Status) -> Any:
        """Parses one row, and fills its status. None for one that is null or does not fit."""
        size, begin = int(rows.sizes[row]), int(rows.places[row])
        if size < 0:
            status[row] = avro.IS_NULL
            return None
        data = rows.source[begin : begin + size].tobytes()
        at, reason = self._find_payload(data, int(rows.chosen[row]) if len(rows.chosen) else -1)
        if reason == avro.FITS:
            try:
                data = data[at:] if at else data
                self._sizes.check(data, self._most)
                message = self._parse(data)
                reason = REQUIRED if self._needs_check and not message.IsInitialized() else avro.FITS
            except TooLargeError:
                reason = avro.TOO_LARGE
            except DecodeError:
                reason = NOT_PROTOBUF
        status[row] = reason
        return message if reason == avro.FITS else None

    def _find_payload(self, data: bytes, chosen: int) -> tuple[int, int]:  # noqa: PLR0911  # one of each form
        """Returns where the message begins, and whether it is one to read."""
        meaning = self._meaning
        if meaning.is_bare:
            return 0, avro.FITS
        if chosen < -1:
            return 0, avro.UNKNOWN_SCHEMA
        if chosen >= 0:
            place, indexes = self._chosen[chosen]
            return 0, BAD_INDEXES if indexes is None else self._judge(place, indexes)
        head = data[: _PREFIX + 1]
        if head in self._verdicts:
            return _PREFIX + 1, avro.FITS
        if len(data) < _PREFIX or data[0] != 0:
            return 0, avro.NO_PREFIX
        found_place = meaning.ids.get(struct.unpack(">i", data[1:_PREFIX])[0])
        if found_place is None:
            return 0, avro.UNKNOWN_SCHEMA
        read = read_indexes(data, _PREFIX)
        if read is None:
            return 0, BAD_INDEXES
        reason = self._judge(found_place, read[0])
        if reason == avro.FITS and data[_PREFIX] == 0:
            self._verdicts[head] = True
        return read[1], reason

    def _judge(self, place: int, indexes: tuple[int, ...]) -> int:
        writer = self._meaning.writers[place]
        return avro.FITS if not writer.why and writer.whys.get(indexes, "other") == "" else avro.UNRESOLVED

    def _build(self, messages: list[Any], status: Status) -> tuple[pa.Array, int]:
        """Makes the array of messages, or of as many first ones as memory has room for. Returns how many these are."""
        try:
            return self._columns.build(messages, Budget(self._most)), len(messages)
        except TooLargeError:
            if len(messages) > 1:
                return self._build(messages[: len(messages) // 2], status)
            status[0] = avro.TOO_LARGE
        except (BeyondTimeError, BadTextError, UnicodeDecodeError, pa.ArrowException) as error:
            if len(messages) > 1:
                return self._build_apart(messages, status)
            status[0] = _find_reason(error)
        return self._columns.build([None], Budget(self._most)), 1

    def _build_apart(self, messages: list[Any], status: Status) -> tuple[pa.Array, int]:
        """Finds the rows that cannot be built, and builds the others together."""
        fitting: list[Any] = list(messages)
        for row, message in enumerate(messages):
            try:
                self._columns.build([message], Budget(self._most))
            except (BeyondTimeError, BadTextError, UnicodeDecodeError, pa.ArrowException) as error:
                fitting[row], status[row] = None, _find_reason(error)
            except TooLargeError:
                fitting[row], status[row] = None, avro.TOO_LARGE
        return self._build(fitting, status)

    def explain(self, rows: Rows, row: int, reason: int) -> Explanation:  # noqa: PLR0911  # one of each reason
        meaning = self._meaning
        begin, size = int(rows.places[row]), int(rows.sizes[row])
        head = rows.source[begin : begin + min(size, 512)].tobytes()
        expected = f"a value that can be read as message {meaning.message}"
        if meaning.is_bare:
            return explain_by_reason(reason, expected)
        if reason == avro.NO_PREFIX:
            return explain_by_detail(
                f"{size:,} bytes that begin with {head[:_PREFIX].hex() or 'nothing'}",
                "byte 0, a schema id of 4 bytes and message indexes, as Confluent's serializers write them",
            )
        chosen = int(rows.chosen[row]) if len(rows.chosen) else -1
        if chosen < -1:
            found = f"{self._unknown.name(chosen)} in the header {self.header_name!r}"
            return explain_by_detail(found, self._expect_known())
        place: int | None
        indexes: tuple[int, ...] | None
        if chosen >= 0:
            place, indexes = self._chosen[chosen]
            number = meaning.writers[place].key
        else:
            number = struct.unpack(">i", head[1:_PREFIX])[0]
            place, read = meaning.ids.get(number), read_indexes(head, _PREFIX)
            indexes = None if read is None else read[0]
        if place is None:
            return explain_by_detail(f"schema id {number}", self._expect_known())
        if reason == BAD_INDEXES or indexes is None:
            expected = "a count and so many numbers of messages"
            return explain_by_reason(BAD_INDEXES, expected, f"under schema id {number}")
        if reason != avro.UNRESOLVED:
            return explain_by_reason(reason, expected, f"under schema id {number}")
        writer = meaning.writers[place]
        why = writer.why or writer.whys.get(indexes, f"message {list(indexes)} of it is another one, or not there")
        return explain_by_detail(f"schema id {number}: {why}", expected)

    def _expect_known(self) -> str:
        return name_known(len(self._meaning.writers), self._meaning.source)


def read_indexes(data: bytes, at: int = 0) -> tuple[tuple[int, ...], int] | None:
    """Reads message indexes. Returns them, and where they end. None for bytes that are none."""
    read = _read_zigzag(data, at)
    if read is None or not 0 <= read[0] <= _MOST_INDEXES:
        return None
    count, at = read
    if count == 0:
        return (0,), at
    indexes = []
    for _ in range(count):
        read = _read_zigzag(data, at)
        if read is None or read[0] < 0:
            return None
        indexes.append(read[0])
        at = read[1]
    return tuple(indexes), at


def _read_zigzag(data: bytes, at: int) -> tuple[int, int] | None:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            return None
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:  # noqa: PLR2004  # the last byte of a number
            return (number >> 1) ^ -(number & 1), at
    return None


def _find_reason(error: Exception) -> int:
    if isinstance(error, BeyondTimeError):
        return avro.BEYOND_TIME
    is_text = isinstance(error, BadTextError | UnicodeDecodeError)  # the latter for keys of maps
    return avro.BAD_UTF8 if is_text else avro.TOO_LARGE


def _fields_of(descriptor: Any) -> list[Any]:
    return [field for message in walk_messages(descriptor) for field in message.fields]
