"""files: reads at absolute positions, and clear errors where there is nothing to read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from kafka_segment_source.errors import FileChangedError, PathError, StorageError
from kafka_segment_source.storage import store
from kafka_segment_source.storage.files import InputFile, list_directory, look_at, write_atomically
from kafka_segment_source.storage.store import LOCAL


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file of the bytes 0 to 99."""
    (tmp_path / "x.log").write_bytes(bytes(range(100)))
    return str(tmp_path / "x.log")


def test_read_at(path: str) -> None:
    """read_at gives the bytes asked for, and fewer only at the end of the file."""
    with InputFile(path, LOCAL) as file:
        assert file.read_at(10, 5) == bytes(range(10, 15))
        assert file.read_at(0, 2) == b"\x00\x01"
        assert file.read_at(98, 50) == bytes([98, 99])
        assert file.read_at(100, 1) == file.read_at(1000, 1) == b""


def test_read_into(path: str) -> None:
    """read_into fills the array, whole."""
    target = np.zeros(30, np.uint8)
    with InputFile(path, LOCAL) as file:
        file.read_into(60, target)
    assert target.tolist() == list(range(60, 90))


def test_a_file_that_shrank(path: str) -> None:
    """A file that ends before the bytes that were listed is an error that says where it ends now."""
    with (
        InputFile(path, LOCAL) as file,
        pytest.raises(FileChangedError, match="its end at byte 100, expected 20 bytes more"),
    ):
        file.read_into(90, np.zeros(30, np.uint8))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """A file that was listed and is gone is an error of its own, which says what to do."""
    with pytest.raises(FileChangedError, match=r"is gone now.*; plan the read again"):
        InputFile(str(tmp_path / "none.log"), LOCAL)


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    """A directory in the place of a file is a wrong path, and the error says what is there."""
    with pytest.raises(PathError, match=r"cannot be read: it is a directory, not a regular file"):
        InputFile(str(tmp_path), LOCAL)


FAILURES = [
    errno.EIO,
    errno.ESTALE,
    errno.ENOSPC,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ETIMEDOUT,
    errno.EMFILE,
]


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Every operation of the storage fails with an errno."""

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number), "/some/other/name")

    for name in ("open", "list", "look_at", "replace"):
        monkeypatch.setattr(store.LocalStorage, name, fail)


@pytest.mark.parametrize("number", FAILURES)
def test_a_storage_that_fails(number: int, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing or full disk, a missing permission, a broken network: StorageError, with all that an OSError has."""
    failing(monkeypatch, number)
    operations = {
        f"file {path!r} cannot be read": [lambda: InputFile(path, LOCAL), lambda: look_at(path, LOCAL)],
        f"path {path!r} cannot be listed": [lambda: list_directory(path, LOCAL)],
        "path 'as given' cannot be listed": [lambda: list_directory(path, LOCAL, "as given")],
        f"file {path!r} cannot be written": [lambda: write_atomically(path, LOCAL, b"x")],
    }
    for what, calls in operations.items():
        for call in calls:
            with pytest.raises(StorageError) as caught:
                call()
            error = caught.value
            assert str(error) == f"{what}: {os.strerror(number)}"
            assert (error.errno, error.strerror) == (number, os.strerror(number))
            assert error.filename == ("as given" if "given" in what else path)


@pytest.mark.parametrize("number", [errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.EEXIST])
def test_a_path_that_leads_nowhere(number: int, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system says that the name is wrong, it is the user's error: PathError with the system's reason."""
    failing(monkeypatch, number)
    with pytest.raises(PathError, match=f"cannot be read: {os.strerror(number)}"):
        look_at(path, LOCAL)
    with pytest.raises(PathError, match=f"cannot be written: {os.strerror(number)}"):
        write_atomically(path, LOCAL, b"x")


def test_bytes_that_the_disk_does_not_give(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails after the file was opened."""
    with InputFile(path, LOCAL) as file:
        for name in ("read_at", "read_into", "version"):
            monkeypatch.setattr(store._LocalFile, name, _fail)
        for call in (lambda: file.read_at(0, 1), lambda: file.read_into(0, np.zeros(3, np.uint8)), file.version):
            with pytest.raises(StorageError, match=r"cannot be read: Input/output error"):
                call()


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_closed_after_use(path: str) -> None:
    """Leaving the context closes the file, after an error too."""
    with pytest.raises(KeyError), InputFile(path, LOCAL) as file:
        raise KeyError
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)
