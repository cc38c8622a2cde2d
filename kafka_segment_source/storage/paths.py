"""Turns a path, as users and Spark write it, into an absolute path of the local file system."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from urllib.parse import unquote

from kafka_segment_source.errors import PathError, UnsupportedError
from kafka_segment_source.storage import store


def local_path(path: str) -> str:
    """Returns the absolute local path of `file:/x`, `file:///x`, `~/x` or a relative path.

    A `%20` in `file:/a%20b` is kept as it is if a file has that name, or if a glob matches with it. Spark writes the
    paths of its tables in this way. Anywhere else it means a blank, as in a URI. Raises UnsupportedError for any other
    scheme, and PathError for a path with a NUL character.
    """
    if "\0" in path:
        raise _make_nul_error(path)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", path)
    if scheme is None or _is_there(path):  # a file name may have a colon
        return os.path.abspath(os.path.expanduser(path))
    if scheme[1].lower() != "file":
        raise UnsupportedError(f"path {path!r}: only local files are read so far, not {scheme[0]}")
    local = os.path.abspath(re.sub(r"^//(localhost)?(?=/)", "", path[scheme.end() :]))
    if "%" not in local or _is_there(local) or store.STORAGE.glob(local):
        return local
    unquoted = unquote(local)
    if "\0" in unquoted:
        raise _make_nul_error(path)
    return os.path.abspath(unquoted)


def _make_nul_error(path: str) -> PathError:
    return PathError(f"path {path!r} names no file: found a NUL character, which no file name has")


def _is_there(path: str) -> bool:
    with suppress(OSError, ValueError):  # a name too long for any file, or with a NUL in it
        return store.STORAGE.look_at(path) is not None
    return False
