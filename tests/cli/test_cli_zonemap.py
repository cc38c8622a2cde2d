"""`kafkaseg zonemap`: maps made, kept up, and used by `plan` and `cat`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_segment_source.planning import planner
from tests.cli.runner import LOGS, answer, copy_of, run
from tests.support.rows import LOG_DIRECTORIES, MESSAGE_SETS

WINDOW = ("--since", "2026-03-10T09:30Z", "--until", "2026-03-10T09:35Z")


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    return tmp_path / "maps"


def test_what_was_done(maps: Path) -> None:
    """One line of sums; as JSON for scripts; one file a partition."""
    result = run("zonemap", LOGS, "--to", maps)

    assert result.exit_code == 0, result.stderr
    assert result.stdout == "4 partitions, 24 segments mapped, 0 as they were: 24 zones, 347.1 kB read\n"
    assert sorted(path.name for path in maps.iterdir()) == [
        *(f"orders-{n}.parquet" for n in range(3)),
        "payments-0.parquet",
    ]
    told = answer("zonemap", LOGS, "--to", maps, "--json", "--subscribe", "orders")
    assert (told["partitions"], told["zones"], told["damage"]) == (3, 18, [])


@pytest.mark.parametrize("name", [*LOG_DIRECTORIES, *MESSAGE_SETS])
def test_every_real_log_can_be_mapped(name: str, maps: Path) -> None:
    """Live and preallocated, compacted, transactional, magic 0 to 2: exit code 0."""
    logs = {**LOG_DIRECTORIES, **MESSAGE_SETS}[name]
    assert answer("zonemap", logs, "--to", maps, "--json")["zones"] > 0


def test_a_plan_with_and_without(maps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan without names the command; after it the plan is smaller, and warns of nothing."""
    monkeypatch.setattr(planner, "WORTH_SAYING", 1)
    before = answer("plan", LOGS, *WINDOW, "--json")
    assert f"`kafkaseg zonemap {LOGS} --to DIR` and then zoneMaps=DIR" in before["warnings"][0]
    run("zonemap", LOGS, "--to", maps)

    after = answer("plan", LOGS, *WINDOW, "--json", "--zone-maps", maps)

    assert after["warnings"] == []
    assert after["bytesToRead"] + after["bytesSavedByZoneMaps"] == before["bytesToRead"]
    assert after["bytesToRead"] < before["bytesToRead"] * 0.6
    counts = [run("cat", LOGS, *WINDOW, *more).stdout for more in ((), ("--zone-maps", maps))]
    assert counts[0] == counts[1] and counts[0].count("\n") > 100


def test_key_filters(maps: Path) -> None:
    """Made with --keys; `plan` and `cat` of a key read less, and the rows are those of a whole read."""
    made = run("zonemap", LOGS, "--to", maps, "--keys")
    assert made.exit_code == 0 and made.stdout.endswith("of key filters written\n")
    asked = (LOGS, "--key", "customer-0347", "--subscribe", "orders")
    told = answer("plan", *asked, "--json", "--zone-maps", maps)
    assert 0 < told["bytesToRead"] < told["bytesTotal"] / 2 and told["warnings"] == []
    assert told["bytesSavedByKeyFilters"] == told["bytesTotal"] - told["bytesToRead"]
    whole, through = run("cat", *asked), run("cat", *asked, "--zone-maps", maps)
    assert whole.stdout == through.stdout and whole.stdout.count("customer-0347") == 11
    assert run("cat", *asked[:1], "--key", "0xzz").exit_code == 2
    assert "no record matches" in run("cat", *asked[:1], "--key", "nobody", "--zone-maps", maps).stderr


def test_damage_is_said_and_costs_no_other_segment(tmp_path: Path, maps: Path) -> None:
    """Exit code 1, a sentence on standard error, and the rest is mapped."""
    folder = copy_of(LOGS / "orders-0", tmp_path)
    path = folder / f"{174:020d}.log"
    path.write_bytes(path.read_bytes()[:5000] + b"???" + path.read_bytes()[5003:])

    result = run("zonemap", folder, "--to", maps)

    assert result.exit_code == 1
    assert result.stdout.startswith("1 partition, 6 segments mapped")
    assert result.stderr.count("\n") == 1
    assert "kafkaseg: not mapped from there on: batch" in result.stderr and str(path) in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "hdfs://name/maps"], "HDFS is not read"),
        (["--to", "/dev/null/maps"], "cannot be written: "),
        (["--to", "{tmp}", "--subscribe", "nothing"], "names topic 'nothing'"),
        ([], "Missing option '--to'"),
    ],
)
def test_wrong_use(arguments: list[str], said: str, tmp_path: Path) -> None:
    """Exit code 2 and a sentence."""
    result = run("zonemap", LOGS / "orders-0", *(each.format(tmp=tmp_path) for each in arguments))

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_map_that_is_made_again(maps: Path) -> None:
    """A damaged map is made again, and standard error says so."""
    run("zonemap", LOGS / "payments-0", "--to", maps)
    path = maps / "payments-0.parquet"
    path.write_bytes(path.read_bytes()[:-9])

    result = run("zonemap", LOGS / "payments-0", "--to", maps)

    assert result.exit_code == 0
    assert "is made again: it is damaged" in result.stderr
    assert "6 segments mapped" in result.stdout
