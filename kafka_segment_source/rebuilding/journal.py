"""How far an interrupted rebuild came: the folder `.rebuild` of the target.

It has `request.json`, a folder of each unfinished partition, and a JSON file of each partition with its state after its
last whole segment. A partition that is done is moved out of it. In the end the folder is removed, after `rebuild.json`
was written.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from typing import Any

from kafka_segment_source.errors import PathError, StorageError
from kafka_segment_source.rebuilding.target_files import (
    list_names,
    make_directory,
    read_whole,
    remove_tree,
    remove_unfinished,
    rename,
    replace_file,
    written,
)
from kafka_segment_source.storage.paths import join_path, shorten_name

try:
    import fcntl
except ImportError:  # a system without file locks
    fcntl = None  # type: ignore[assignment]

FOLDER = ".rebuild"
REPORT = "rebuild.json"
_REQUEST = "request.json"
_LOCK = "lock"
_VERSION = 2


class Journal:
    """The state of one rebuild in its target. A context manager: it locks the target for this process.

    target: the directory, resolved. Raises PathError if the target holds anything but an interrupted rebuild of the
    same request, or one that has no whole segment yet, and if another process writes there.
    StorageError if its file system has no locks.
    """

    def __init__(self, target: str, request: Mapping[str, Any]) -> None:
        self.target = target
        self._folder = join_path(target, FOLDER)
        self._check(request)
        make_directory(self._folder)
        path = join_path(self._folder, _LOCK)
        with written(path):
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock_file(self._lock)
        except BlockingIOError as error:
            os.close(self._lock)
            raise PathError(f"another rebuild is writing to {target!r}: wait for it, or give another target") from error
        except OSError as error:
            os.close(self._lock)
            raise StorageError(
                f"{target!r} cannot be locked ({error.strerror}), so another rebuild could write there too:"
                " give a target on a file system that has locks"
            ) from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def agree(self, request: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the first run of this request found (moments of times ago), and notes it in the first run."""
        path = join_path(self._folder, _REQUEST)
        before = _parse(read_whole(path))
        if before is not None and before["request"] == request:
            return dict(before["found"])
        for name in list_names(self._folder):  # of another request, which has no whole segment
            if name not in (_LOCK, _REQUEST):
                remove_tree(join_path(self._folder, name))
        replace_file(path, json.dumps({"version": _VERSION, "request": request, "found": stated}).encode())
        return dict(stated)

    def folder_of(self, name: str) -> str:
        """The path of an unfinished partition directory."""
        return join_path(self._folder, name)

    def load(self, name: str) -> dict[str, Any] | None:
        """Returns the state of a partition, or None if it was not begun."""
        return _parse(read_whole(join_path(self._folder, f"{shorten_name(name)}.json")))

    def save(self, name: str, state: Mapping[str, Any]) -> None:
        """Notes the state of a partition."""
        replace_file(join_path(self._folder, f"{shorten_name(name)}.json"), json.dumps(state).encode())

    def finish_partition(self, name: str) -> None:
        """Moves a finished partition to its place."""
        if os.path.isdir(self.folder_of(name)):
            rename(self.folder_of(name), join_path(self.target, name))

    def finish(self, report: Mapping[str, Any]) -> None:
        """Writes the report and removes the folder."""
        remove_unfinished(self.target)
        replace_file(join_path(self.target, REPORT), (json.dumps(report, indent=2) + "\n").encode())
        remove_tree(self._folder)

    def finish_again(self) -> dict[str, Any] | None:
        """Returns the report of a run that died while it removed the folder, and removes the rest. None: none did."""
        report = _parse(read_whole(join_path(self.target, REPORT)))
        if report is not None:
            remove_tree(self._folder)
        return report

    def _check(self, request: Mapping[str, Any]) -> None:
        target = self.target
        if os.path.lexists(target) and not os.path.isdir(target):
            raise PathError(f"the target {target!r} is a file, expected a directory")
        names = list_names(target)
        before = _parse(read_whole(join_path(self._folder, _REQUEST)))
        if before is None:
            if names in ([], [FOLDER]):
                return
            if REPORT in names and FOLDER in names:  # a run died while it removed the folder
                remove_tree(self._folder)
            what = (
                "a finished rebuild" if REPORT in names else f"{names[0]!r} and more" if names[1:] else repr(names[0])
            )
            raise PathError(
                f"the target {target!r} holds {what}, expected an empty directory, or an interrupted rebuild"
            )
        states = [name for name in list_names(self._folder) if name.endswith(".json") and name != _REQUEST]
        has_progress = bool(states) or names != [FOLDER]
        if before["version"] != _VERSION or (before["request"] != request and has_progress):
            differing = [name for name in request if before["request"].get(name) != request[name]]
            differing += [name for name in before["request"] if name not in request]
            raise PathError(
                f"the target {target!r} holds an interrupted rebuild of another request, which differs in"
                f" {', '.join(dict.fromkeys(differing)) or 'its version'}: give the same paths and options, or an empty"
                " directory"
            )


def _lock_file(file: int) -> None:
    """Locks an open file for this process. Raises BlockingIOError if another one has it, and OSError without locks."""
    if fcntl is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _parse(data: bytes | None) -> dict[str, Any] | None:
    """Returns the JSON object in some bytes. Each file is replaced whole, so it is never a part."""
    return None if data is None else dict(json.loads(data))
