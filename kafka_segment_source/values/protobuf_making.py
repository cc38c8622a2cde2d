"""The descriptor of a message → the meaning of a column, with Google's library."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_segment_source.values.avro_columns import Wanted
from kafka_segment_source.values.protobuf_columns import make_columns
from kafka_segment_source.values.protobuf_files import find_message
from kafka_segment_source.values.protobuf_meaning import ProtobufMeaning, ProtobufWriter


def make_protobuf_meaning(  # what a column is made of
    files: tuple[bytes, ...],
    message: str,
    writers: Sequence[ProtobufWriter] | None,
    source: str,
    header_name: str = "",
    wanted: Wanted | None = None,
) -> ProtobufMeaning:
    """Makes the meaning of a column. writers: None for bare values.

    Raises ProtobufError for a message that cannot be a column, and NoFieldError for a wanted field that it does not
    have.
    """
    columns = make_columns(find_message(files, message), wanted)
    return ProtobufMeaning(
        columns.arrow,
        columns.spark,
        files,
        message,
        wanted or {},
        writers is None,
        writers or [],
        source,
        header_name,
        {writer.key: place for place, writer in enumerate(writers or [])},
        {writer.guid: place for place, writer in enumerate(writers or []) if writer.guid is not None},
    )
