"""A directory that a broker changes while it is listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_segment_source.errors import FileChangedError
from kafka_segment_source.logdir.listing import list_settled
from kafka_segment_source.storage import retrying
from kafka_segment_source.storage.store import LOCAL


@pytest.mark.parametrize(("changes", "is_settled"), [(0, True), (8, True), (9, False)])
def test_a_directory_that_changes(
    changes: int, is_settled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten listings are tried, and two in a row must agree."""
    (tmp_path / "00000000000000000000.log").write_bytes(b"x")
    names = (f"{number:020d}.log.swap" for number in itertools.count())

    def add_swap() -> None:
        (tmp_path / next(names)).touch()

    add_swap()
    listed = _after_each_listing(monkeypatch, changes, add_swap)
    monkeypatch.setattr(retrying, "wait", lambda _: None)
    if is_settled:
        assert len(list_settled(str(tmp_path), LOCAL)) == changes + 2
        assert len(listed) == changes + 2
    else:
        with pytest.raises(FileChangedError, match="changes faster than it is listed"):
            list_settled(str(tmp_path), LOCAL)
        assert len(listed) == 10


def _after_each_listing(monkeypatch: pytest.MonkeyPatch, times: int, change: Callable[[], None]) -> list[str]:
    """Changes something after each of the first listings. Returns a list to which each listing adds its directory."""
    listed: list[str] = []
    list_now = type(LOCAL).list

    def list_and_change(storage: object, directory: str) -> object:
        entries = list_now(LOCAL, directory)
        listed.append(directory)
        if len(listed) <= times:
            change()
        return entries

    monkeypatch.setattr(type(LOCAL), "list", list_and_change)
    return listed
