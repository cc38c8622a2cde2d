"""A path as users and Spark write it → an absolute path of the local file system."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from kafka_segment_source.errors import UnsupportedError


def local_path(path: str) -> str:
    """The absolute local path of `file:/x`, `file:///x`, `~/x` or a relative path.

    Raises UnsupportedError for any other scheme.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", path)
    if scheme is None or os.path.lexists(path):  # a name may hold a colon
        return os.path.abspath(os.path.expanduser(path))
    if scheme[1].lower() != "file":
        raise UnsupportedError(f"path {path!r}: only local files are read so far, not {scheme[0]}")
    local = re.sub(r"^//(localhost)?(?=/)", "", path[scheme.end() :])
    return os.path.abspath(unquote(local) if "%" in local else local)
