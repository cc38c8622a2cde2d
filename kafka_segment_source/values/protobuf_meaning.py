"""Protobuf as the meaning of a column: which writers there are, and what tasks need to decode rows.

It loads without Google's library, which is an extra. Decoding is in `protobuf_rows.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from kafka_segment_source.errors import UnsupportedError
from kafka_segment_source.values.avro_columns import Wanted
from kafka_segment_source.values.protobuf_errors import NEEDS_PROTOBUF

if TYPE_CHECKING:
    from kafka_segment_source.values.typed_rows import ColumnDecoder


class ProtobufWriter(NamedTuple):
    """A schema that values may have.

    key: its id.
    whys: by indexes why values of that message cannot be read, "" where they can; a message that is not there is
    another one.
    why: where it holds for all of them.
    guid: 16 bytes, None where it is not known.
    """

    key: int
    whys: Mapping[tuple[int, ...], str]
    why: str = ""
    guid: bytes | None = None


@dataclass
class ProtobufMeaning:
    """Values of one message of Protobuf. Tasks get descriptors, and no text.

    files, message, wanted: what the columns are made of (`protobuf_files.py`).
    is_bare: whether values are nothing but the message.
    source: where the schemas come from, in words.
    """

    arrow: pa.DataType
    spark: str
    files: tuple[bytes, ...]
    message: str
    wanted: Wanted
    is_bare: bool
    writers: Sequence[ProtobufWriter]
    source: str
    header_name: str = ""
    ids: Mapping[int, int] = field(default_factory=dict)
    guids: Mapping[bytes, int] = field(default_factory=dict)

    def make_decoder(self, most_bytes: int) -> ColumnDecoder:
        """Raises UnsupportedError where Google's library is not installed."""
        try:
            from kafka_segment_source.values.protobuf_rows import ProtobufDecoder  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise UnsupportedError(NEEDS_PROTOBUF) from error
        return ProtobufDecoder(self, most_bytes)
