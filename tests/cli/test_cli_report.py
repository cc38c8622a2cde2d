"""`kafkaseg report`: the page says what a scan says, needs nothing else, and escapes what it shows."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

import kafka_segment_source as kafkaseg
from kafka_segment_source.report.facts import Facts, collect_facts
from kafka_segment_source.report.page import make_page
from tests.cli.runner import answer, run
from tests.support.batches import data
from tests.support.logs import simple_log, simple_segment
from tests.support.rows import FIXTURES
from tests.support.rows import ORDERS as FIXTURE

ORDERS = FIXTURE / "data"
NOW = 1_800_000_000_000


@pytest.fixture(scope="module")
def facts() -> Facts:
    """Of the demonstration data."""
    return collect_facts(str(ORDERS), now=NOW)


@pytest.fixture(scope="module")
def page(facts: Facts) -> str:
    return make_page(facts)


def test_the_volume_is_that_of_the_batches(facts: Facts) -> None:
    """Records and bytes of each partition and slot of time are sums over view=batches."""
    expected: Counter[tuple[str, int, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    for row in kafkaseg.scan(ORDERS, view="batches", includeControl=False).read_all().to_pylist():
        slot = int(row["maxTimestamp"].timestamp()) // facts.width
        expected[row["topic"], row["partition"], slot] += row["count"]
        sizes[row["topic"], row["partition"]] += row["size"]
    found = {
        (*partition, slot): records
        for partition, each in facts.batches.partitions.items()
        for slot, (records, _) in each.slots.items()
    }
    assert found == expected
    assert {partition: each.size for partition, each in facts.batches.partitions.items()} == sizes
    total = kafkaseg.scan(ORDERS, columns=["offset"]).read_all().num_rows
    assert sum(found.values()) == total == sum(each.records for each in facts.batches.codecs.values())
    first = facts.start // 1000 // facts.width
    assert {slot - first for *_, slot in found} <= set(range(facts.slots))


def test_gaps_and_disorder_are_those_of_the_records(tmp_path: Path) -> None:
    """A gap of 5 offsets; a batch whose first record is 70 s older than the newest before it."""
    batches = [data(0, 1_700_000_000_000, 1_700_000_100_000), data(7, 1_700_000_030_000), data(8, 1_700_000_200_000)]
    directory = simple_log(simple_segment(batches)).write(tmp_path)
    [found] = collect_facts(str(directory), now=NOW).batches.partitions.values()
    assert (found.gaps, found.missing, found.lateness) == (1, 5, 70_000)


def test_markers_are_no_gaps_and_no_records() -> None:
    """A partition with aborts and commits that lost nothing: no gap, and the records of a scan."""
    path = FIXTURES / "transactions" / "data"
    facts = collect_facts(str(path), now=NOW)
    partitions = facts.batches.partitions
    assert {each.gaps for each in partitions.values()} == {0}
    expected = kafkaseg.scan(path, columns=["topic", "partition"]).read_all().to_pylist()
    counted = Counter((row["topic"], row["partition"]) for row in expected)
    assert {partition: each.records for partition, each in partitions.items()} == counted
    assert facts.states["open"] == len(facts.open) == 1
    assert facts.open[0]["firstOffset"] == 531


def test_what_retention_takes_next(facts: Facts) -> None:
    """The first segment of each partition that has a later one, with its newest record and seven days, as assumed."""
    newest: dict[str, int] = {}
    columns = ["topic", "partition", "timestamp", "metadata"]
    for row in kafkaseg.scan(ORDERS, columns=columns).read_all().to_pylist():
        if row["metadata"]["file_name"] == "00000000000000000000.log":
            name = f"{row['topic']}-{row['partition']}"
            newest[name] = max(newest.get(name, 0), round(row["timestamp"].timestamp() * 1000))
    assert {each.name: each.newest for each in facts.deletions} == newest
    assert all(each.due == each.newest + 7 * 86_400_000 and each.is_assumed for each in facts.deletions)
    assert [each.due for each in facts.deletions] == sorted(each.due for each in facts.deletions)


class Page(HTMLParser):
    """Collects the tags, and whatever a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(("#", "data:")):
                self.loads.append(value or "")


def test_the_page_stands_alone(page: str) -> None:
    """No script, and nothing to load: pictures are inside. Two of them, whose ids differ."""
    seen = Page()
    seen.feed(page)
    assert seen.tags["svg"] == 2
    assert not seen.tags["script"]
    assert seen.loads == []
    assert "url(http" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
    assert used <= set(ids)


def test_what_users_wrote_is_escaped(tmp_path: Path) -> None:
    """A path with markup in it is text on the page."""
    directory = simple_log(simple_segment([data(0, 1_700_000_000_000)])).write(tmp_path / "<script>alert(1)<")
    text = make_page(collect_facts(str(directory), now=NOW))
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;" in text


def test_a_log_without_timestamps_or_records_has_a_page(tmp_path: Path) -> None:
    """Nothing to draw is no error."""
    directory = simple_log(simple_segment([], base=0)).write(tmp_path)
    assert "No record has a timestamp." in make_page(collect_facts(str(directory), now=NOW))


def test_damage_is_on_the_page(tmp_path: Path) -> None:
    """A batch that is none is left out of the sums and named, and the rest is there."""
    directory = simple_log(simple_segment([data(0, 1_700_000_000_000), data(1, 1_700_000_001_000)])).write(tmp_path)
    [log] = directory.glob("*.log")
    content = bytearray(log.read_bytes())
    content[16] = 77
    log.write_bytes(content)
    text = make_page(collect_facts(str(directory), now=NOW))
    assert str(log) in text.partition('id="damage"')[2]
    assert "Nothing was found" not in text


@pytest.mark.parametrize("name", ["transactions", "compacted", "message-sets", "live"])
def test_every_fixture_has_a_page(name: str) -> None:
    """Old formats, transactions, compaction and preallocated files: the sums are those of `ls`."""
    facts = collect_facts(str(FIXTURES / name / "data"), now=NOW)
    assert make_page(facts).endswith("</html>")
    listed = {(each.topic, each.partition): each.summary.size for each in facts.listing.partitions}
    assert facts.batches.partitions.keys() <= listed.keys()
    assert "batches" not in facts.errors


def test_the_command(tmp_path: Path) -> None:
    """It writes the page and says so in a line; a wrong place and a wrong path are one sentence."""
    page = tmp_path / "report.html"
    done = run("report", ORDERS, "--to", page)
    assert (done.exit_code, done.stdout) == (0, f"{page}: {round(page.stat().st_size / 1000)} kB, 4 partitions\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    summary = answer("report", ORDERS, "--to", page, "--json")
    assert summary == {"path": str(page), "bytes": page.stat().st_size, "partitions": 4, "warnings": []}
    lost = run("report", ORDERS, "--to", tmp_path / "no" / "report.html")
    assert (lost.exit_code, lost.stderr.count("\n")) == (1, 1)
    assert "cannot be written: No such file or directory" in lost.stderr
    wrong = run("report", tmp_path / "nothing", "--to", page)
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """Of 105 partitions with two segments of two records, from offset 10 on; the last ones hold most bytes."""
    path = tmp_path_factory.mktemp("many")
    for number in range(105):
        at = 1_700_000_000_000 + number * 1000
        first, second = (simple_segment([data(base, at, at, payload=10 + number)]) for base in (10, 12))
        simple_log(first, second, partition=number).write(path)
    return collect_facts(str(path), now=NOW)


@pytest.fixture(scope="module")
def page_of_many(many: Facts) -> str:
    return make_page(many)


def test_what_of_many_partitions_is_shown(many: Facts, page_of_many: str) -> None:
    """All are counted. The picture and the table say how many they leave out. Offsets are those of `kafkaseg ls`."""
    page = page_of_many

    assert "<b>210</b>segments of 105 partitions<" in page
    assert "the 40 with most bytes of 105." in page and "The 100 with most bytes; 5 smaller ones are left out." in page
    drawn = {int(number) for number in re.findall(r">orders-(\d+)</text>", page.split('id="partitions"')[0])}
    assert drawn >= set(range(65, 105)) and not drawn & set(range(60))
    listed = answer("ls", many.paths[0], "--json")["partitions"]
    spans = {f"{each['startOffset']} – {each['endOffset'] - 1}" for each in listed}
    assert spans == {"10 – 13"} and page.count('<td class="n">10 – 13<') == 100


def test_copies_are_no_partitions(tmp_path: Path) -> None:
    """Two directories of one partition are one, and it is said."""
    for name in ("a", "b"):
        shutil.copytree(ORDERS / "orders-0", tmp_path / name / "orders-0")
    facts = collect_facts([str(tmp_path / "a"), str(tmp_path / "b")], now=NOW)
    assert "<b>12</b>segments of 1 partition in 2 directories<" in make_page(facts)


@pytest.mark.parametrize("name", ["page", "page_of_many"])
def test_time_axes_are_one_below_the_other(name: str, request: pytest.FixtureRequest) -> None:
    """Both pictures are as wide, and time begins and ends at the same place in them."""
    page = request.getfixturevalue(name)
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    widths = {re.search(r'viewBox="0 0 ([\d.]+) ', picture)[1] for picture in pictures}  # type: ignore[index]
    spans = {
        re.search(r'id="[^"]*axes_1".*?d="M ([\d.]+) [\d.]+ *\n?L ([\d.]+) ', picture, re.DOTALL).groups()  # type: ignore[union-attr]
        for picture in pictures
    }
    assert (len(pictures), len(widths), len(spans)) == (2, 1, 1)
    ticks = [re.findall(r'id="[^"]*xtick_\d+".*?<use [^>]*x="([\d.]+)"', picture, re.DOTALL) for picture in pictures]
    assert set(ticks[1]) == set(ticks[0]) != set()


def test_libraries_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The extra to install is in the sentence."""
    monkeypatch.setattr("kafka_segment_source.cli.report.find_spec", lambda name: None if name == "jinja2" else name)
    done = run("report", ORDERS, "--to", tmp_path / "report.html")
    assert done.exit_code == 2
    assert done.stderr == "kafkaseg: report needs jinja2: pip install jinja2\n"


def test_statistics_are_opt_in(facts: Facts, page: str) -> None:
    """With them, the page has what `stats` says of each topic. Without, it reads headers alone."""
    found = collect_facts(str(ORDERS), now=NOW, with_stats=True)
    with_stats = make_page(found)

    assert facts.stats is None and 'id="records"' not in page
    assert found.stats is not None and [each.topic for each in found.stats] == ["orders", "payments"]
    assert 'id="records"' in with_stats and "customer-0169" in with_stats
