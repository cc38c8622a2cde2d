"""private: a directory in which other users could put files, or which they have made, is not used."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kafka_segment_source.storage.private import make_private_directory


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The path that the directory named kafkaseg-test has in a temporary directory of its own."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"kafkaseg-test-{os.getuid()}"


def test_it_is_made_and_found_again(taken: Path) -> None:
    """Only its user may read it, list it or write to it."""
    assert make_private_directory("kafkaseg-test") == taken
    assert taken.stat().st_mode & 0o777 == 0o700
    assert make_private_directory("kafkaseg-test") == taken


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722, 0o755])
def test_one_that_others_can_open_is_not_believed(mode: int, taken: Path) -> None:
    """Compiled code is loaded from it, and pushed filters are read from it."""
    taken.mkdir()
    taken.chmod(mode)
    assert make_private_directory("kafkaseg-test") is None


@pytest.mark.parametrize("kind", ["link", "file"])
def test_something_else_of_its_name(kind: str, taken: Path) -> None:
    """A link may lead to a directory of somebody else."""
    if kind == "link":
        taken.symlink_to(taken.parent)
    else:
        taken.touch()
    assert make_private_directory("kafkaseg-test") is None
