"""Computes the CRC of a stored batch: CRC-32C for magic 2, CRC-32 for message sets."""

from __future__ import annotations

import zlib
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from kafka_segment_source import kafka_format


def _load_crc32c() -> Any:
    """Returns the function of the package crc32c.

    Importing the package takes 20 ms, or 80 ms where a directory of `sys.path` has many files: it looks up its own
    version, and loads a parser of command lines. So its compiled module is loaded alone.
    """
    package = find_spec("crc32c")
    compiled = None if package is None else PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if compiled is None or compiled.loader is None:  # another release of the package may have another layout
        from crc32c import crc32c  # noqa: PLC0415  # as above

        return crc32c
    module = module_from_spec(compiled)
    compiled.loader.exec_module(module)
    return module.crc32c


crc32c = _load_crc32c()
"""CRC-32C of bytes."""


def crc_of(batch: memoryview | bytes, magic: int) -> int:
    """Returns the CRC that the batch should have. `batch` is the whole batch with its header.

    A newer magic is treated as magic 2.
    """
    view = memoryview(batch)
    if magic >= kafka_format.MAGIC_V2:
        return int(crc32c(view[kafka_format.CRC_FROM :]))
    return zlib.crc32(view[kafka_format.MAGIC_AT :])


def crc_holds(batch: memoryview | bytes, magic: int, stored: int) -> bool:
    """Whether the batch has the CRC `stored` that its header states. `batch` is the whole batch with its header."""
    return crc_of(batch, magic) == stored
