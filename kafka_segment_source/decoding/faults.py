"""Faults of a batch or a record: status codes of the kernels → errors. All error messages about them are here.

An error names the file, the byte position, what was found and what was expected. It names the offset where that is
known. An error about a record also names the place inside the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.errors import CorruptRecordError, DataError, UnsupportedFormatError
from kafka_segment_source.kernels import batch_headers, message_sets, record_batches

_LONGEST_VARINT = 10  # bytes
_CONTINUES = 0x80  # this bit of a varint's byte means that another byte follows

# The reason why a walk over headers stopped → what is wrong, what was expected
_OF_HEADERS = {
    batch_headers.BAD_LENGTH: (
        "batch of impossible length",
        f"at least {kafka_format.MIN_LENGTH_V0} bytes, {kafka_format.MIN_BATCH_LENGTH} for magic 2",
    ),
    batch_headers.BAD_MAGIC: ("batch of unknown magic", "0, 1 or 2"),
    batch_headers.BAD_COUNT: ("batch with a negative count", "0 records or more"),
    batch_headers.BAD_LAST_OFFSET: (
        "batch of impossible offsets",
        "baseOffset ≥ 0, lastOffsetDelta ≥ 0, and their sum below 2^63 - 1",
    ),
    batch_headers.ZEROS: ("zeros where a batch should be", "a batch or the end of the log"),
}

# Status of a record kernel → what is wrong, what was expected
_OF_RECORDS = {
    record_batches.BAD_VARINT: (
        "record with an unreadable varint",
        "a varint inside the record, of at most 32 (timestamps 64) bits",
    ),
    record_batches.BAD_RECORD_LENGTH: ("record of impossible length", "a length inside the batch"),
    record_batches.BAD_FIELD_LENGTH: (
        "key, value or header of impossible length",
        "-1 (null) or a length inside the record",
    ),
    record_batches.RECORD_NOT_USED_UP: ("record with bytes left over", "0 bytes left over"),
    record_batches.BATCH_NOT_USED_UP: ("batch with bytes left over after its last record", "0 bytes left over"),
    record_batches.BAD_HEADERS_COUNT: ("record with an impossible number of headers", "0 or as many as fit the record"),
    record_batches.BAD_OFFSET_DELTA: ("record out of order", "offset deltas that grow from 0 to lastOffsetDelta"),
    record_batches.TOO_MANY_HEADERS: ("record with too many headers", "at most {most_headers} (maxBatchBytes)"),
    message_sets.TRUNCATED: ("message cut short", "a whole message"),
    message_sets.BAD_MESSAGE_LENGTH: ("message of impossible length", "at least 14 bytes, 22 for magic 1"),
    message_sets.BAD_MESSAGE_MAGIC: ("message of impossible magic inside a wrapper", "0 or 1"),
    message_sets.BAD_MESSAGE_CRC: (
        "message inside a wrapper whose bytes do not have the CRC that it states",
        "the CRC stated",
    ),
    message_sets.EMPTY_WRAPPER: ("wrapper without a message inside", "at least one whole message"),
    message_sets.NESTED_WRAPPER: ("wrapper inside a wrapper", "plain messages"),
    message_sets.BAD_WRAPPER_OFFSET: (
        "wrapper that ends before its last message",
        "an inner offset up to the wrapper's own",
    ),
    message_sets.BAD_MESSAGE_OFFSET: ("message out of order", "offsets that grow up to the wrapper's own"),
}
_OF_WHOLE_BATCHES = (
    message_sets.EMPTY_WRAPPER,
    message_sets.BAD_WRAPPER_OFFSET,
)  # these have no place inside the batch


@dataclass(frozen=True, slots=True)
class Faults:
    """Makes the errors of one file. Each has a byte position. `offset` is the batch's; None where it is not proven."""

    path: str

    # ---- batches ----

    def bad_crc(self, position: int, offset: int, found: int, stated: int) -> DataError:
        what = "batch whose bytes do not have the CRC that its header states"
        return self._make_corrupt_error(what, position, offset, f"0x{found:08x}", f"0x{stated:08x}")

    def out_of_order(self, position: int, offsets: tuple[int, int], allowed: tuple[int, int]) -> DataError:
        """offsets, allowed: the first and the last offset, both inclusive. `allowed` may have none: what follows, in
        this file or in the next one, begins at its first offset."""
        first, last = allowed
        expected = f"offsets from {first} to {last}" if first <= last else f"no batch before offset {first}"
        found = f"{offsets[0]} to {offsets[1]}"
        return self._make_corrupt_error("batch out of order", position, offsets[0], found, expected)

    def too_large(self, position: int, size: int, most: int) -> DataError:
        return self._make_corrupt_error(
            "batch larger than maxBatchBytes", position, None, f"{size} bytes", f"at most {most}"
        )

    def cut_short(self, position: int, size: int, needed: int) -> DataError:
        return self._make_corrupt_error("batch cut short", position, None, f"{size} bytes", f"{needed} bytes")

    def cut_segment(self, position: int, end: int, indexed: int) -> DataError:
        """position, end: of the end of the file, and the offset after its last batch. indexed: the last offset that its
        index has."""
        index_path = self.path.removesuffix(kafka_format.LOG_SUFFIX) + kafka_format.INDEX_SUFFIX
        expected = f"batches up to offset {indexed} at least, by {index_path}"
        return self._make_corrupt_error("segment cut short", position, end, "the end of the file", expected)

    def bad_header(self, position: int, stopped_by: int, found: int) -> DataError:
        """stopped_by, found: the report of `walk_headers`."""
        what, expected = _OF_HEADERS[stopped_by]
        return self._make_corrupt_error(
            what, position, None, "zeros" if stopped_by == batch_headers.ZEROS else found, expected
        )

    def newer_magic(self, position: int, offset: int, magic: int) -> DataError:
        _, expected = _OF_HEADERS[batch_headers.BAD_MAGIC]
        what = "batch of a magic that this version does not read"
        return UnsupportedFormatError(
            what, path=self.path, position=position, offset=offset, found=magic, expected=expected
        )

    # ---- what a batch holds ----

    def bad_block(self, header: npt.NDArray[np.int64], found: object, expected: object) -> DataError:
        """The codec refuses a compressed block. header: the batch's column of a header table."""
        return self._make_corrupt_error("batch that cannot be decompressed", *_find_place(header), found, expected)

    def bad_codec(self, header: npt.NDArray[np.int64], is_proven: bool) -> DataError:
        """The codec is not allowed for the batch's magic.

        is_proven: the batch has the CRC that it states, so a newer Kafka may have written it.
        """
        codec = int(header[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK)
        found = (
            f"codec {codec} ({kafka_format.CODEC_NAMES[codec]})"
            if codec < len(kafka_format.CODEC_NAMES)
            else f"codec {codec}"
        )
        *names, last = (
            kafka_format.CODEC_NAMES[codec] for codec in kafka_format.CODECS[int(header[batch_headers.MAGIC])]
        )
        expected = f"{', '.join(names)} or {last}"
        position, offset = _find_place(header)
        if not is_proven:
            return self._make_corrupt_error("batch of unknown codec", position, offset, found, expected)
        what = "batch of a codec that this version does not read"
        return UnsupportedFormatError(
            what, path=self.path, position=position, offset=offset, found=found, expected=expected
        )

    def bad_record(
        self,
        header: npt.NDArray[np.int64],
        report: npt.NDArray[np.int64],
        limits: npt.NDArray[np.int64],
        source: npt.NDArray[np.uint8],
        payload: npt.NDArray[np.int64],
    ) -> DataError:
        """report: from a record kernel. limits, source: what it was given. payload: start and end of the batch in
        `source`."""
        status, at, found = report[: record_batches.FOUND + 1].tolist()
        what, expected = _OF_RECORDS[status]
        if status == record_batches.BAD_VARINT:
            found = _show_varint(source[at : at + min(found, _LONGEST_VARINT)])
        elif status == message_sets.BAD_MESSAGE_CRC:
            stated = source[at + kafka_format.LEGACY_CRC_AT : at + kafka_format.MAGIC_AT].tobytes()
            found, expected = f"0x{found:08x}", f"0x{stated.hex()}"
        elif status == record_batches.TOO_MANY_HEADERS:
            expected = expected.format(most_headers=limits[record_batches.HEADERS])
        inside = None if status in _OF_WHOLE_BATCHES else _describe_place(header, int(at - payload[0]))
        return self._make_corrupt_error(what, *_find_place(header), found, expected, inside)

    def beyond_microseconds(self, header: npt.NDArray[np.int64], offset: int, millis: int, most: int) -> DataError:
        what = "timestamp that Spark's microseconds cannot hold (leave the column timestamp out, or bound it by until)"
        return self._make_corrupt_error(
            what, int(header[batch_headers.POSITION]), offset, f"{millis} ms", f"at most {most} ms"
        )

    def short_control_key(self, header: npt.NDArray[np.int64], length: int) -> DataError:
        expected = f"{kafka_format.CONTROL_KEY_BYTES} bytes, version and type"
        return self._make_corrupt_error(
            "control record whose key is too short", *_find_place(header), f"{max(length, 0)} bytes", expected
        )

    def _make_corrupt_error(
        self, what: str, position: int, offset: int | None, found: object, expected: object, inside: str | None = None
    ) -> DataError:
        return CorruptRecordError(
            what,
            path=self.path,
            position=position,
            offset=offset,
            inside=inside,
            found=found,
            expected=expected,
        )


def _find_place(header: npt.NDArray[np.int64]) -> tuple[int, int]:
    return int(header[batch_headers.POSITION]), int(header[batch_headers.BASE_OFFSET])


def _describe_place(header: npt.NDArray[np.int64], at: int) -> str:
    """Describes the place of byte `at` of a batch's plain records, for an error message."""
    if header[batch_headers.ATTRIBUTES] & kafka_format.CODEC_MASK != kafka_format.CODEC_NONE:
        return f"byte {at} after decompression"
    return f"byte {at + (kafka_format.BATCH_OVERHEAD if header[batch_headers.MAGIC] == kafka_format.MAGIC_V2 else 0)} of the batch"


def _show_varint(data: npt.NDArray[np.uint8]) -> str:
    """The bytes of a wrong varint in hex: up to the first byte that ends a varint, or all of them."""
    ends = np.flatnonzero(data < _CONTINUES)
    return data[: ends[0] + 1 if len(ends) else len(data)].tobytes().hex(" ") or "no bytes"
