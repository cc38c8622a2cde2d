"""A folder that tables are written into: a local directory, or a part of a bucket.

Nothing of a log is ever written. An export writes here, below a path that the user names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import IO, Any

from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.storage.client_library import client_errors, load_library
from kafka_segment_source.storage.object_client import find_client
from kafka_segment_source.storage.paths import is_remote, resolve_path
from kafka_segment_source.storage.settings import Settings
from kafka_segment_source.storage.store import ServiceError


class Folder:
    """Files below one path, by names with `/` between their parts.

    uri: a path or a URL of a bucket.
    settings: the options of object stores; as an attribute, those of this bucket by object_store's names. Raises
    PathError for a path that cannot be a folder. All methods raise StorageError where the storage fails.
    """

    def __init__(self, uri: str, settings: Settings) -> None:
        self.path = resolve_path(uri)
        if is_remote(self.path):
            scheme, _, rest = self.path.partition("://")
            bucket, _, self._prefix = rest.partition("/")
            self._store: Any = find_client(f"{scheme}://{bucket}", settings)
            self.settings = settings.of_bucket(bucket.partition("@")[0])
        else:
            if os.path.exists(self.path) and not os.path.isdir(self.path):
                raise PathError(f"the target {uri!r} is a file, expected a directory")
            self._prefix = self.path.lstrip("/")  # of the whole file system, so that nothing is made before a file is
            self._store = load_library().store.LocalStore("/")
            self.settings = {}

    def open_new(self, name: str) -> IO[bytes]:
        """Opens a new file for writing. It is there once it is closed."""
        return self._call(name, lambda library, key: library.open_writer(self._store, key))  # type: ignore[no-any-return]

    def create(self, name: str, data: bytes) -> bool:
        """Writes a small file whole, and only if there is none of that name. Returns whether it was written."""

        def put(library: Any, key: str) -> bool:
            try:
                library.put(self._store, key, data, mode="create")
            except library.exceptions.AlreadyExistsError:
                return False
            return True

        return bool(self._call(name, put))

    def read(self, name: str) -> bytes | None:
        """Returns the bytes of a small file, or None if there is none."""

        def get(library: Any, key: str) -> bytes | None:
            try:
                return bytes(library.get(self._store, key).bytes())
            except FileNotFoundError:
                return None

        return self._call(name, get)  # type: ignore[no-any-return]

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""

        def head(library: Any, key: str) -> bool:
            try:
                library.head(self._store, key)
            except FileNotFoundError:
                return False
            return True

        return bool(self._call(name, head))

    def list(self, under: str) -> list[str]:
        """Returns the names of all files below a part of the folder, sorted."""

        def collect(library: Any, key: str) -> list[str]:
            pages: Iterator[Any] = library.list(self._store, prefix=key or None)
            cut = len(self._prefix) + 1 if self._prefix else 0
            return sorted(entry["path"][cut:] for page in pages for entry in page)

        return self._call(under, collect)  # type: ignore[no-any-return]

    def move(self, name: str, to: str) -> None:
        """Gives a file another name."""
        target = self._key(to)
        self._call(name, lambda library, key: library.rename(self._store, key, target))

    def delete(self, name: str) -> None:
        """Removes a file that this package wrote."""
        self._call(name, lambda library, key: library.delete(self._store, key))

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self._prefix, name) if part)

    def _call(self, name: str, action: Any) -> Any:
        library = load_library()
        try:
            return action(library, self._key(name))
        except (client_errors(), ServiceError, OSError) as error:
            where = f"{self.path}/{name}" if name else self.path
            raise StorageError(f"the target {where} cannot be read or written: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error, and the last of its causes as deltalake lists them.

    Other lines may be a request with its headers.
    """
    lines = re.sub("\\x1b\\[[0-9;]*m", "", str(error)).strip().splitlines() or [type(error).__name__]
    causes = [line.partition("↳")[2].strip() for line in lines if line.strip().startswith("↳")]
    return ": ".join([lines[0].strip(), *causes[-1:]])
