"""`kafkaseg export`: what it prints, and its exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_segment_source.cli import shared
from tests.cli.runner import LOGS, answer, run
from tests.support.schema_logs import TYPED_LOGS


def test_what_was_done(tmp_path: Path) -> None:
    """One line a table; a second run says that nothing is new."""
    first = run("export", LOGS, "--to", tmp_path / "{topic}", columns=80)
    second = run("export", LOGS, "--to", tmp_path / "{topic}", columns=80)

    assert first.exit_code == second.exit_code == 0, first.stderr
    lines = first.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path}/orders: 4,000 records added in 1 file, ")
    assert lines[1].startswith(f"{tmp_path}/payments: 2,000 records added in 1 file, ")
    assert second.stdout == f"{tmp_path}/orders: nothing new\n{tmp_path}/payments: nothing new\n"


def test_a_dry_run(tmp_path: Path) -> None:
    """What a run would read, by partition, in 80 columns."""
    result = run("export", LOGS, "--to", tmp_path / "table", "--dry-run", "--subscribe", "orders", columns=80)

    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"{tmp_path}/table: a run would read 176.8 kB, 4,000 offsets, into a new table",
        "partition  from offset  to offset (exclusive)",
        "orders-0             0                  1,164",
        "orders-1             0                  1,476",
        "orders-2             0                  1,360",
    ]
    assert not list(tmp_path.iterdir())


def test_json(tmp_path: Path) -> None:
    [told] = answer("export", LOGS, "--to", tmp_path, "--subscribe", "payments", "--by", "day(timestamp)", "--json")

    assert told["end"] == {"payments": {"0": 2000}}
    assert (told["target"], told["rows"], told["rejected"], told["commits"]) == (str(tmp_path), 2000, 0, 1)
    assert [path.name for path in tmp_path.glob("day=*")] == ["day=2026-03-10"]


def test_rejected_rows(tmp_path: Path) -> None:
    """How many there are, and why, once."""
    read = ("export", TYPED_LOGS, "--subscribe", "orders", "--value-format", "json", "--value-schema", "a bigint")
    result = run(*read, "--to", tmp_path / "good", "--rejected", tmp_path / "bad")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("; 37 records rejected\n")
    assert result.stderr == (
        "kafkaseg: 37 values do not fit, and are rejected: text that is not UTF-8 (the first at offset 0 of orders-0)\n"
    )
    result = run(*read, "--to", tmp_path / "good", "--rejected", tmp_path / "bad", "--value-mode", "PERMISSIVE")
    assert result.exit_code == 2
    assert result.stderr == "kafkaseg: --value-mode does not go with rejected, which says what becomes of misfits\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--by", "week(timestamp)"), "by is 'week(timestamp)': expected topic, partition, day(timestamp) or hour"),
        (("--target-bytes", "0"), "target_bytes is '0'"),
        (("--catalog-option", "type=sql"), "catalog is for format iceberg alone, and the format is parquet"),
        (("--rejected", "x"), "rejected needs --value-format or --key-format: without one, every row fits"),
        (("--until", "-1h"), "No such option '--until'"),
        (("--format", "iceberg"), "an Iceberg table is named CATALOG.NAMESPACE.TABLE"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    result = run("export", LOGS, "--to", tmp_path.name, *arguments)

    assert result.exit_code == 2
    assert words in result.stderr


def test_a_bar_for_each_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar never goes back."""
    bars: list[list[int]] = []

    class Bar:
        def __init__(self, what: str, total: int) -> None:
            assert what == "exporting"
            bars.append([total])

        def __enter__(self) -> Any:
            return bars[-1].append

        def __exit__(self, *_: object) -> None:
            """Is removed."""

    monkeypatch.setattr(shared, "progress", Bar)
    assert run("export", LOGS, "--to", tmp_path / "{topic}").exit_code == 0
    assert [bar[0] for bar in bars] == [sum(bar[1:]) for bar in bars]
    assert len(bars) == 2
    assert min(min(bar) for bar in bars) >= 0
