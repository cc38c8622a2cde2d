"""The CRCs of the batches in a buffer: CRC-32C for magic 2, CRC-32 for message sets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafka_segment_source import kafka_format
from kafka_segment_source.kernels import batch_headers, crc32
from kafka_segment_source.kernels.batch_headers import HeaderTable
from kafka_segment_source.logdir.checksums import crc32c
from kafka_segment_source.storage.files import Bytes

_FIELDS = [batch_headers.POSITION, batch_headers.SIZE, batch_headers.MAGIC, batch_headers.CRC]


def find_bad_crcs(data: Bytes, position: int, headers: HeaderTable) -> npt.NDArray[np.bool_]:
    """Marks the batches whose bytes do not have the CRC that their header states. Returns bool[n].

    data: their bytes. position: where data[0] lies in the file.
    """
    bad = np.zeros(headers.shape[1], np.bool_)
    view = memoryview(data)  # type: ignore[arg-type]  # arrays are buffers
    has_sets = False
    for column, (at, size, magic, stated) in enumerate(zip(*headers[_FIELDS].tolist(), strict=True)):
        if magic < kafka_format.MAGIC_V2:
            has_sets = True
        elif crc32c(view[at - position + kafka_format.CRC_FROM : at - position + size]) != stated:
            bad[column] = True
    if has_sets:  # a call of a library for each small message would take longer
        crc32.bad_crc32s(data, position, headers, bad)
    return bad
