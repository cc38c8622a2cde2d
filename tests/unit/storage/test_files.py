"""files: reads at absolute positions, and clear errors where there is nothing to read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kafka_segment_source.errors import FileChangedError, PathError
from kafka_segment_source.storage.files import InputFile


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file of the bytes 0 to 99."""
    (tmp_path / "x.log").write_bytes(bytes(range(100)))
    return str(tmp_path / "x.log")


def test_read_at(path: str) -> None:
    """read_at gives the bytes asked for, and fewer only at the end of the file."""
    with InputFile(path) as file:
        assert file.read_at(10, 5) == bytes(range(10, 15))
        assert file.read_at(0, 2) == b"\x00\x01"
        assert file.read_at(98, 50) == bytes([98, 99])
        assert file.read_at(100, 1) == file.read_at(1000, 1) == b""


def test_read_into(path: str) -> None:
    """read_into fills the array, whole."""
    target = np.zeros(30, np.uint8)
    with InputFile(path) as file:
        file.read_into(60, target)
    assert target.tolist() == list(range(60, 90))


def test_a_file_that_shrank(path: str) -> None:
    """A file that ends before the bytes that were listed is an error that says where it ends now."""
    with InputFile(path) as file, pytest.raises(FileChangedError, match="its end at byte 100, expected 20 bytes more"):
        file.read_into(90, np.zeros(30, np.uint8))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """A file that was listed and is gone is an error of its own, which says what to do."""
    with pytest.raises(FileChangedError, match=r"is gone now.*; plan the read anew"):
        InputFile(str(tmp_path / "none.log"))


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """Whatever else keeps a file from being opened is a PathError with the system's reason."""
    with pytest.raises(PathError, match=r"cannot be read: .+"):
        InputFile(str(tmp_path))


def test_closed_after_use(path: str) -> None:
    """Leaving the context closes the file, after an error too."""
    with pytest.raises(KeyError), InputFile(path) as file:
        raise KeyError
    with pytest.raises(ValueError, match="closed"):
        file.read_at(0, 1)
