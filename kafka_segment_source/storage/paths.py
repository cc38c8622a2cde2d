"""Turns a path, as users and Spark write it, into the one form that this package uses. Joins and splits such paths.

A local path is absolute. A path in a bucket is `s3://bucket/key`, `gs://bucket/key`, `az://container/key` or
`abfss://container@account.dfs.core.windows.net/key`. No path but that of the root directory ends in a slash.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress

from kafka_segment_source.errors import PathError, UnsupportedError
from kafka_segment_source.storage.secrets import IN_HOST, IN_QUERY, find_secret_in_url, hide_secrets
from kafka_segment_source.storage.store import LOCAL, Storage

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Schemes as users write them, with the one that is used
_BUCKETS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfss",
    "abfss": "abfss",
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REMOTE = ("s3://", "gs://", "az://", "abfss://")
_HADOOP = ("hdfs", "webhdfs", "swebhdfs", "viewfs")
_BLOB_DRIVER = ("wasb", "wasbs")


def is_remote(path: str) -> bool:
    """Whether a path, in the form of this package, is in a bucket."""
    return path.startswith(_REMOTE)


def resolve_path(path: str, storage: Storage = LOCAL) -> str:
    """Returns the path that `s3a://b/x`, `file:/x`, `file:///x`, `~/x` or a relative path stands for.

    A `%20` in `file:/a%20b` is kept as it is if a file has that name, or if a glob matches with it. Spark writes the
    paths of its tables in this way. Anywhere else it means a blank, as in a URI. In a bucket, keys are as they are
    written.

    Raises UnsupportedError for any other scheme. Raises PathError for a path with a NUL character, and for a URL
    without a bucket or with credentials.
    """
    if "\0" in path:
        raise _make_nul_error(path)
    scheme = _SCHEME.match(path)
    if scheme is not None and scheme[1].lower() in _BUCKETS and path[scheme.end() :].startswith("//"):
        return _resolve_url(path, _BUCKETS[scheme[1].lower()], path[scheme.end() + 2 :])
    if scheme is None or _is_there(path, storage):  # a file name may have a colon
        return os.path.abspath(os.path.expanduser(path))
    if scheme[1].lower() != "file":
        raise UnsupportedError(_explain_scheme(path, scheme[1]))
    local = os.path.abspath(re.sub(r"^//(localhost)?(?=/)", "", path[scheme.end() :]))
    if "%" not in local or _is_there(local, storage) or storage.glob(local):
        return local
    from urllib.parse import unquote  # noqa: PLC0415  # few paths are URIs, and it loads ipaddress

    unquoted = unquote(local)
    if "\0" in unquoted:
        raise _make_nul_error(path)
    return os.path.abspath(unquoted)


def find_real_path(path: str) -> str:
    """Resolves a path, and every link of a local one."""
    resolved = resolve_path(path)
    return resolved if is_remote(resolved) else os.path.realpath(resolved)


def is_inside(path: str, directory: str) -> bool:
    """Whether a path is that of a directory, or of something below it. Both are resolved."""
    return path == directory or path.startswith(join_path(directory, ""))


def _make_nul_error(path: str) -> PathError:
    return PathError(f"path {path!r} names no file: found a NUL character, which no file name has")


def _resolve_url(path: str, scheme: str, rest: str) -> str:
    bucket, _, key = rest.partition("/")
    has_account = "@" in bucket
    if scheme == "abfss" and not has_account:
        scheme = "az"  # the account is an option
    secret = find_secret_in_url(path)
    if secret == IN_HOST:
        raise PathError(
            f"a path of the scheme {scheme!r} has a colon or '@' in its bucket's name: credentials are options, such as"
            " aws_access_key_id, and no part of a path"
        )
    if not bucket or bucket.startswith("@") or bucket.endswith("@"):
        raise PathError(f"path {hide_secrets(path)!r} names no bucket: expected {scheme}://bucket/key")
    if secret == IN_QUERY:
        raise PathError(
            f"path {hide_secrets(path)!r} has a signature after '?': that is an option, such as azure_storage_sas_token,"
            " and no part of a path"
        )
    if any(part in (".", "..") or _CONTROL.search(part) for part in key.split("/")):
        raise PathError(
            f"path {path!r} has a part that is '.' or '..', or a control character: no key has such a"
            " part that can be read"
        )
    return "/".join((f"{scheme}://{bucket}", *(part for part in key.split("/") if part)))


def _explain_scheme(path: str, scheme: str) -> str:
    path = hide_secrets(path)
    if scheme.lower() in _HADOOP:
        return (
            f"path {path!r}: HDFS is not read, as no client for it installs from pip alone; mount it (its NFS gateway, or"
            " FUSE), and give the path of the mount"
        )
    if scheme.lower() in _BLOB_DRIVER:
        return f"path {path!r}: write it as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/…, the same data is there"
    return f"path {path!r}: expected s3://, s3a://, gs://, az://, abfss://, file: or a local path, not {scheme}:"


def _is_there(path: str, storage: Storage) -> bool:
    with suppress(OSError, ValueError):  # a name too long for any file, or with a NUL in it
        return storage.look_at(path) is not None
    return False


def split_remote(path: str) -> tuple[str, str]:
    """Returns the URL of the bucket of a path, and the key in it, which may be empty."""
    scheme, _, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key


_LONGEST_NAME = 200  # bytes; file systems take 255, and a suffix follows


def shorten_name(name: str) -> str:
    """Returns a name of a file that leaves room for a suffix: a long one is cut, and its hash says the rest."""
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    return f"{name[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def join_path(directory: str, name: str) -> str:
    """Returns the path of a name in a directory."""
    return f"{directory}{name}" if directory.endswith("/") else f"{directory}/{name}"


def name_apart(directories: Iterable[str]) -> dict[str, str]:
    """Names directories by the parts of their paths that they do not all begin with. A single one needs no name: "".

    `/disks/a/logs` and `/disks/b/logs` are `a/logs` and `b/logs`. If one directory contains all the others, the names
    are the whole paths.
    """
    paths = sorted(set(directories))
    if len(paths) <= 1:
        return dict.fromkeys(paths, "")
    parts = [path.split("/") for path in paths]
    differ = (at for at, names_of in enumerate(zip(*parts, strict=False)) if len(set(names_of)) > 1)
    shared = next(differ, min(map(len, parts)))
    names = {path: "/".join(names_of[shared:]) for path, names_of in zip(paths, parts, strict=True)}
    return names if all(names.values()) else {path: path for path in paths}


def join_name(directory: str, name: str) -> str:
    """Joins a name from `name_apart` and the name of something in that directory."""
    return join_path(directory, name) if directory else name


def parent_of(path: str) -> str:
    """Returns the directory that a path is in. That of a bucket, or of the root directory, is itself."""
    head, _, _ = path.rpartition("/")
    if head.endswith(":/"):
        return path
    return head or "/"


def name_of(path: str) -> str:
    """Returns the last name of a path."""
    return path.rpartition("/")[2]
