"""The benchmark's own tools, without any timing: the logs are valid, goals are bounds, the README is rewritten."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import logs, readme, results, turn
from benchmarks.logs import CODECS, LogShape
from tests.support import index_writers, naive
from tests.support.batches import Written
from tests.support.cases import takes_long
from tests.support.index_writers import Append, IndexWriter


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKASEG_BENCH_DIR", str(tmp_path))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("headers", [False, True])
def test_logs_are_valid(codec: str, headers: bool) -> None:
    """The naive decoder, which checks CRCs and every length, finds all records, and the table tells where."""
    events = logs.log(LogShape(2_000, codec, 20, headers, segments=2, batch_bytes=1024))

    segments = sorted(events.path.glob("*.log"))
    batches = [(at, batch) for at, path in enumerate(segments) for batch in naive.decode_batches(path.read_bytes())]
    records = [record for _, batch in batches for record in batch.records]
    assert len(segments) == 2
    assert [record.offset for record in records] == list(range(events.records))
    assert {len(record.value or b"") for record in records} == {20}
    assert {len(record.headers) for record in records} == {2 if headers else 0}
    stamps = [[record.timestamp for record in batch.records] for _, batch in batches]
    told = [
        (at, batch.position, batch.size, batch.base_offset, batch.last_offset, min(times), max(times))
        for (at, batch), times in zip(batches, stamps, strict=True)
    ]
    assert events.batches.tolist() == [list(each) for each in told]


def test_disorder_is_as_declared() -> None:
    """No record is older than the newest before it by more than DISORDER, and some are older."""
    events = logs.log(LogShape(2_000, value_bytes=20, segments=1, batch_bytes=1024))

    stamps = np.array([record.timestamp for record in naive.decode_log(next(events.path.glob("*.log")).read_bytes())])
    assert 0 < (np.maximum.accumulate(stamps) - stamps).max() <= logs.DISORDER


@pytest.mark.parametrize("batch_bytes", [300, 1024, 5000])
def test_index_files_are_kafkas(batch_bytes: int) -> None:
    """Their entries are those of the tests' own model of Kafka 4.1."""
    events = logs.log(LogShape(2_000, value_bytes=119, segments=2, batch_bytes=batch_bytes))

    for number, path in enumerate(sorted(events.path.glob("*.log"))):
        rows = events.batches[events.batches[:, logs.SEGMENT] == number].tolist()
        written = tuple(
            Written(position, b"x" * size, 2, False, False, False, first, first, last, latest, ())
            for _, position, size, first, last, _, latest in rows
        )
        entries = index_writers.index_entries([Append(IndexWriter.PER_BATCH, written)], logs.INDEX_INTERVAL)
        base = int(path.stem)
        assert path.with_suffix(".index").read_bytes() == logs.writer.offset_index(entries[0], base)
        assert path.with_suffix(".timeindex").read_bytes() == logs.writer.time_index(entries[1], base)


def test_values_compress_as_real_ones_do() -> None:
    """Three- to sixfold by gzip and zstd, two- to fourfold by lz4 and snappy."""
    for codec, least, most in (("gzip", 3, 6), ("zstd", 3, 6), ("lz4", 2, 4), ("snappy", 2, 4)):
        events = logs.log(LogShape(4_000, codec, segments=1))
        assert least < events.plain_bytes / events.stored_bytes < most


def test_goals_and_medians() -> None:
    """A goal holds from its bound on; a row is the median with its quartiles."""
    found = results.row("scan", [1.0, 3.0, 2.0], "times", results.Goal(least=2))

    assert (found.figure, found.low, found.high, found.goal, found.holds) == (2.0, 1.5, 2.5, "≥ 2", True)
    assert results.row("scan", 2.1, "s", results.Goal(most=2)).holds is False
    assert results.row("scan", 2.1, "s").holds is None


def test_results_are_kept_by_group(tmp_path: Path) -> None:
    """A run of one group replaces that group and leaves the others."""
    path = tmp_path / "results.json"
    for name, figure in (("scan", 1.0), ("memory", 2.0), ("scan", 3.0)):
        results.save(path, {name: results.group_of([results.row("a", figure, "s")], 1.0, 0.0)})

    saved = results.load(path)["groups"]
    assert {name: group["rows"][0]["figure"] for name, group in saved.items()} == {"scan": 3.0, "memory": 2.0}


def test_readme_is_rewritten(tmp_path: Path) -> None:
    """Headline rows stand between the markers; all else stays, and a second time changes nothing."""
    path = tmp_path / "results.json"
    rows = [
        results.row("none, 119 B", [0.91, 0.93], "of the ceiling", results.Goal(least=0.9), headline=True),
        results.row("gzip, 20 B", 0.5, "of the ceiling"),
    ]
    results.save(path, {"spark": results.group_of(rows, 1.0, 0.0)})
    text = "# Title\n<!-- all:begin -->\nfigures of yesterday\n<!-- all:end -->\nend\n"

    once = readme.rewritten(text, "all", readme.all_figures(results.load(path)))
    assert once.startswith("# Title\n<!-- all:begin -->\nMedians of ")
    assert once.endswith("<!-- all:end -->\nend\n")
    assert "| full scan in Spark: none, 119 B | 0.92 of the ceiling | 0.92 – 0.93 | ≥ 0.9 | yes |" in once
    assert "yesterday" not in once
    assert "gzip" not in once
    assert readme.rewritten(once, "all", readme.all_figures(results.load(path))) == once


def test_the_pages_have_the_committed_figures() -> None:
    """What `python -m benchmarks.readme` would write is there."""
    saved = results.load(results.COMMITTED)
    for page, parts in readme.PARTS.items():
        text = (readme.ROOT / page).read_text(encoding="utf-8")
        for name, figures in parts.items():
            assert readme.rewritten(text, name, figures(saved)) == text


def test_what_a_user_feels(tmp_path: Path) -> None:
    """A line for each codec; what was not measured is left empty, and out of the README's paragraph."""
    path = tmp_path / "results.json"
    alone = [results.row("lz4, 119 B", 106.4, "ns of CPU a row"), results.row("lz4, 20 B", 55.0, "ns of CPU a row")]
    in_spark = [
        results.row("lz4, 119 B: CPU", 612.0, "ns a row"),
        results.row("lz4, 119 B: CPU of the ceiling", 501.0, "ns a row"),
    ]
    memory = [results.row("lz4, 119 B, 1000 MB", 181.0, "MiB")]
    groups = {"scan": alone, "spark": in_spark, "memory": memory}
    results.save(path, {name: results.group_of(rows, 1.0, 0.0) for name, rows in groups.items()})
    lines = readme.felt_figures(results.load(path)).splitlines()
    assert "| lz4 | 612 | 501 | 106 |  | 181 MiB |" in lines
    assert "| zstd |  |  |  |  |  |" in lines
    front = readme.front_figures(results.load(path))
    assert "takes 106 to 106 ns of CPU without Spark" in front
    assert "Kafka source" not in front


def test_readme_without_markers_is_an_error() -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="must have one"):
        readme.rewritten("# Title\n", "all", "")


def test_a_row_of_pairs_is_their_median_ratio() -> None:
    """Each pair gives one ratio, so a slow spell of the machine touches both of its sides."""
    pairs = [({"CPU": cpu, "time": 2.0}, {"CPU": cpu / 2, "time": 3.0}) for cpu in (1.0, 10.0, 4.0)]
    cpu, time = turn.rows_of("a scan", pairs)

    assert (cpu.name, cpu.figure, cpu.low, cpu.high) == ("a scan: CPU", 0.5, 0.5, 0.5)
    assert (time.name, time.figure) == ("a scan: time", 1.5)
    assert cpu.note == "4000 and 2000 ms; 0.50 to 0.50"


@pytest.mark.skipif(
    shutil.which("git") is None or not (turn.ROOT / ".git").exists(), reason="an unpacked release has no commits"
)
def test_two_versions_take_turns(tmp_path: Path) -> None:
    """Each process imports its own version of the package, and nothing of the commit's is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "benchmarks.turn", "HEAD", "planning", "--quick", "--pairs", "1", "--only", "no b"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, cwd=turn.ROOT, env=environment, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "no bounds: CPU" in done.stdout
    assert "no bounds: time" in done.stdout
    assert list(temporary.iterdir()) == []


def test_a_version_that_cannot_do_a_work_says_so(tmp_path: Path) -> None:
    """The error of the work is in the answer, and the process goes on."""
    shutil.copytree(turn.ROOT / turn.PACKAGE, tmp_path / turn.PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / turn.PACKAGE / "queries.py").write_text("def plan(*_, **__): raise TypeError('older')\nscan = plan\n")

    with turn.Worker(tmp_path, results.Settings(quick=True)) as worker:
        for _ in range(2):
            with pytest.raises(turn.WorkError, match="TypeError: older"):
                worker.measure("planning", "no bounds")


def test_groups_with_works_name_them() -> None:
    """Each has a work at least, and only what is asked for is measured."""
    for group in turn.WITH_WORKS:
        assert list(turn.names_of(group, results.Settings(quick=True), "")), group
    assert list(turn.names_of("scan", results.Settings(quick=True), "zstd")) == ["zstd, 119 B"]


@takes_long
def test_groups_run(tmp_path: Path) -> None:
    """Those that need no Spark, with the least data: each of them measures all of its rows."""
    groups = ["kernels", "codecs", "values", "stages", "scan", "threads", "processes", "planning"]
    groups += ["latest", "grep", "listings"]
    command = [sys.executable, "-m", "benchmarks", *groups, "--quick", "--output", str(tmp_path / "results.json")]
    done = subprocess.run(command, cwd=turn.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert set(results.load(tmp_path / "results.json")["groups"]) == set(groups)
