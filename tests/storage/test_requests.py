"""What a read asks of a bucket: how many requests, how many at a time, and how many bytes. Counts, not times."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kafka_segment_source as kafkaseg
from benchmarks.logs import FIRST_TIMESTAMP, LAST_TIMESTAMP, Log, LogShape, log
from benchmarks.object_server import ObjectServer, Request
from kafka_segment_source.storage import ahead
from kafka_segment_source.storage.ahead import RANGE_BYTES, RANGES_AT_ONCE, RangeReader, map_ahead, run_together
from tests.cli.runner import answer, run
from tests.support.batches import data
from tests.support.logs import Segment, simple_log, simple_segment
from tests.support.waiting import wait_until

CHECKPOINTS = 4  # files of a log directory that each plan asks for
TRIES = 4
QUIET = 0.25  # s without a new request: all of a round trip are there


class WaveServer(ObjectServer):
    """Answers all requests that come together at once. waves: what each round trip asked for, LIST and HEAD too."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.waves: list[int] = []
        self._waiting: list[threading.Event] = []
        self._last = time.monotonic()
        self._lock = threading.Lock()
        threading.Thread(target=self._answer_waves, daemon=True).start()

    def before_answer(self, request: Request) -> None:
        turn = threading.Event()
        with self._lock:
            self._waiting.append(turn)
            self._last = time.monotonic()
        turn.wait()

    def _answer_waves(self) -> None:
        while True:
            time.sleep(QUIET / 10)
            with self._lock:
                if self._waiting and time.monotonic() - self._last > QUIET:
                    self.waves.append(len(self._waiting))
                    for turn in self._waiting:
                        turn.set()
                    self._waiting = []


class MeetingServer(ObjectServer):
    """Answers a request for a file of a segment only when `wanted` of them are under way, or after `patience`.

    met: so many were under way at a time. So a request may come late, on a slow machine.
    """

    wanted = 3
    patience = 1.0  # s

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.met = threading.Event()
        self._under_way = 0
        self._lock = threading.Lock()

    def before_answer(self, request: Request) -> None:
        if request.kind == "LIST" or request.key.endswith("checkpoint"):
            return
        with self._lock:
            self._under_way += 1
            if self._under_way >= self.wanted:
                self.met.set()
        self.met.wait(self.patience)
        with self._lock:
            self._under_way -= 1


class MeetingOfFour(MeetingServer):
    """Two copies of two partitions."""

    wanted = 4


@pytest.fixture
def serve() -> Iterator[Callable[..., ObjectServer]]:
    """Makes servers of directories, and stops them."""
    made: list[ObjectServer] = []

    def make(directory: Path, kind: type[ObjectServer] = ObjectServer) -> ObjectServer:
        made.append(kind(directory))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Eight segments of 0.9 MB, with the index files of a broker."""
    monkeypatch.setenv("KAFKASEG_BENCH_DIR", str(tmp_path))
    return log(LogShape(50_000, segments=8))


def small_log(directory: Path, partitions: int, segments: int) -> Path:
    """Partitions of small segments with index files. Record n of each has the timestamp 1000 + n."""
    for partition in range(partitions):
        made = [_small_segment(base) for base in range(0, 10 * segments, 10)]
        simple_log(*made, partition=partition).write(directory)
    return directory


def _small_segment(base: int) -> Segment:
    batches = [data(offset, 1000 + offset) for offset in range(base, base + 10)]
    return simple_segment(batches, index=[(base + 5, 5)], timeindex=[(1005 + base, base + 5), (1009 + base, base + 9)])


def of_segments(server: ObjectServer) -> list[str]:
    """The files of segments that were asked for, once a request."""
    return [each.key for each in server.requests if each.kind == "GET" and not each.key.endswith("checkpoint")]


def test_planning_since_of_small_segments(tmp_path: Path, serve: Callable[..., ObjectServer]) -> None:
    """A segment that is left out costs one request, one that is kept two, where its files are small."""
    root = small_log(tmp_path / "logs", 4, 20)
    server = serve(tmp_path)
    plan = kafkaseg.plan("s3://logs/logs", storage_options=server.options, since=1000 + 155)

    kept, dropped = plan.segments_kept, len(plan.dropped)
    assert (kept, dropped) == (20, 60)
    here = kafkaseg.plan(root, since=1000 + 155)
    assert [(each.start, each.end) for each in plan.splits] == [(each.start, each.end) for each in here.splits]
    cost: dict[bool, int] = {True: 0, False: 0}
    names = {Path(split.path).with_suffix("").as_posix().removeprefix("s3:/logs/") for split in plan.splits}
    for key in of_segments(server):
        cost[key.rpartition(".")[0] in names] += 1
    assert cost[True] <= 2.2 * kept + 4  # the segment of each partition in which `since` lies needs its .index too
    assert 0 < cost[False] <= 1.2 * dropped
    others = len(server.requests) - cost[True] - cost[False]
    assert others <= 2 * 4 + CHECKPOINTS + 3  # a listing and the leader epochs of each partition, the path itself
    assert plan.requests == len(server.requests)


def test_planning_since_of_larger_segments(events: Log, serve: Callable[..., ObjectServer]) -> None:
    """The proofs of a segment that is left out take both index files, the head, the tail and the batches before the
    tail, which bear out the offset of the last. A later segment takes one request."""
    server = serve(events.path.parent)
    since = int(events.batches[len(events.batches) // 2, FIRST_TIMESTAMP])
    plan = kafkaseg.plan(f"s3://logs/{events.path.name}", storage_options=server.options, since=since)

    assert plan.to_dict()["splits"] == [
        {**each, "path": f"s3://logs/{each['path'].removeprefix(str(events.path.parent))[1:]}"}
        for each in kafkaseg.plan(events.path, since=since).to_dict()["splits"]
    ]
    assert len(of_segments(server)) <= 5 * (len(plan.dropped) + 1) + 1 * plan.segments_kept + 2


def test_a_window_takes_four_round_trips(events: Log, serve: Callable[..., Any]) -> None:
    """After the listing, a plan of a window under timestampDisorder waits at most four times.

    A busy machine may tear a wave in two, so the fewest of some tries count.
    """
    middle = events.batches[len(events.batches) * 55 // 100]
    window = {
        "since": int(middle[FIRST_TIMESTAMP]),
        "until": int(middle[LAST_TIMESTAMP]) + 20,
        "timestampDisorder": "10ms",
    }
    server = serve(events.path.parent, WaveServer)
    here = kafkaseg.plan(events.path, **window)
    listing = 2  # a HEAD of the path with what is below it, its names
    fewest = 100
    for _ in range(TRIES):
        server.waves.clear()
        server.requests.clear()
        plan = kafkaseg.plan(f"s3://logs/{events.path.name}", storage_options=server.options, **window)
        assert [(each.start, each.end) for each in plan.splits] == [(each.start, each.end) for each in here.splits]
        assert server.waves[:listing] == [2, 1]
        fewest = min(fewest, len(server.waves) - listing)
        if fewest <= 4:
            break
    assert fewest <= 4
    asked = sum(each.size for each in server.requests if each.key.endswith((".log", "index")))
    assert asked <= len(of_segments(server)) * 64 * 1024


def run_zone_maps(path: str, tmp_path: Path, **options: Any) -> object:
    """All but where the maps are."""
    done = kafkaseg.update_zone_maps_locally(path, tmp_path / f"maps-{path.startswith('s3')}", **options)
    return done.to_dict()


WORKS: dict[str, Callable[..., object]] = {
    "ls": lambda path, _, **options: [each.summary for each in kafkaseg.list_partitions(path, **options).partitions],
    "verify": lambda path, _, **options: kafkaseg.verify(path, **options).to_dict(),
    "zone maps": run_zone_maps,
    "last stable offset": lambda path, _, **options: (
        kafkaseg.plan(path, isolationLevel="read_committed", **options).bytes_to_read
    ),
}


@pytest.mark.parametrize("name", WORKS)
def test_several_segments_are_read_at_a_time(name: str, tmp_path: Path, serve: Callable[..., Any]) -> None:
    """By all that reads many of them. What comes out is what comes out of a disk."""
    root = small_log(tmp_path / "logs", 2, 8)
    server = serve(tmp_path, MeetingServer)
    far = WORKS[name]("s3://logs/logs", tmp_path, storage_options=server.options)
    assert server.met.is_set()
    here = WORKS[name](str(root), tmp_path)
    assert json.dumps(far, default=str).replace("s3://logs", str(tmp_path)) == json.dumps(here, default=str)


def test_copies_are_compared_at_the_same_time(tmp_path: Path, serve: Callable[..., Any]) -> None:
    """The ends of two copies of two partitions."""
    paths = [small_log(tmp_path / name, 2, 8) for name in ("one", "two")]
    server = serve(tmp_path, MeetingOfFour)
    plan = kafkaseg.plan([f"s3://logs/{path.name}" for path in paths], storage_options=server.options)
    assert server.met.is_set()
    assert [split.start_offset for split in plan.splits] == [
        split.start_offset for split in kafkaseg.plan(paths).splits
    ]


def test_a_padded_index_is_not_read_whole(tmp_path: Path, serve: Callable[..., ObjectServer]) -> None:
    """Of 10 MiB, the first blocks are read."""
    root = small_log(tmp_path / "logs", 1, 3)
    for name in ("index", "timeindex"):
        for path in root.glob(f"orders-0/*.{name}"):
            with path.open("r+b") as file:
                file.truncate(10 * 1024 * 1024)
    server = serve(tmp_path)
    options = {"since": 1000 + 25, "until": 1000 + 28}
    plan = kafkaseg.plan("s3://logs/logs", storage_options=server.options, **options)

    assert plan.bytes_to_read == kafkaseg.plan(root, **options).bytes_to_read
    asked = [each.size for each in server.requests if each.key.endswith("index")]
    assert asked and max(asked) <= 128 * 1024


def test_reading_fetches_ranges_ahead(tmp_path: Path, serve: Callable[..., ObjectServer]) -> None:
    """A large segment is read in ranges of 4 MiB, several at a time, and each byte once. The next but one waits."""
    segments = [[data(at, 1000 + at, payload=900_000) for at in range(base, base + 20)] for base in (0, 20, 40)]
    root = simple_log(*map(simple_segment, segments)).write(tmp_path / "logs")
    server = serve(tmp_path)
    plan = kafkaseg.plan("s3://logs/logs", storage_options=server.options)
    server.requests.clear()
    server.latency = 0.05
    reader = plan.to_reader(["offset"])
    first = reader.read_next_batch()
    wait_until(lambda: len(server.requests) >= 2)
    assert len(server.requests) <= 2 * (RANGES_AT_ONCE + 2)
    second = reader.read_next_batch()
    wait_until(lambda: len({each.key for each in server.requests}) == 2)  # the first has no range left to ask for
    assert len(server.requests) <= 2 * (RANGES_AT_ONCE + 2)
    assert first.num_rows + second.num_rows < 20
    assert first.num_rows + second.num_rows + sum(batch.num_rows for batch in reader) == 60
    sizes = [path.stat().st_size for path in root.rglob("*.log")]
    assert sum(each.size for each in server.requests) == sum(sizes)
    assert len(server.requests) == sum(-(-size // RANGE_BYTES) for size in sizes)


def test_small_segments_are_read_by_one_request_each(tmp_path: Path, serve: Callable[..., ObjectServer]) -> None:
    """The next ones are under way while one is read."""
    small_log(tmp_path / "logs", 2, 30)
    server = serve(tmp_path)
    plan = kafkaseg.plan("s3://logs/logs", storage_options=server.options)
    server.requests.clear()
    reader = plan.to_reader(["offset"])
    reader.read_next_batch()
    wait_until(lambda: len(server.requests) > 10)
    reader.read_all()
    assert sorted(of_segments(server)) == sorted(split.path.removeprefix("s3://logs/") for split in plan.splits)
    assert len(server.requests) == len(plan.splits)


def test_the_plan_shows_its_requests(tmp_path: Path, serve: Callable[..., ObjectServer]) -> None:
    """As a table and as JSON. A local plan has none."""
    root = small_log(tmp_path / "logs", 1, 3)
    server = serve(tmp_path)
    flags = [word for name, text in server.options.items() for word in ("--storage-option", f"{name}={text}")]
    found = answer("plan", "s3://logs/logs", "--json", *flags)
    assert found["requests"] == len(server.requests) > 0
    shown = run("plan", "s3://logs/logs", *flags, columns=120).stdout
    assert f"planned by {found['requests']} requests" in shown
    assert json.loads(run("plan", str(root), "--json").stdout)["requests"] == 0
    assert "requests" not in run("plan", str(root)).stdout


# ---- threads ----


def test_results_come_in_order_and_errors_in_their_place() -> None:
    """The first error ends it, after the results before it."""

    def work(item: int) -> int:
        time.sleep(0.002 * (5 - item % 5))
        if item == 7:
            raise ValueError(item)
        return item

    results = map_ahead(work, range(20), 4)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(ValueError, match="7"):
        next(results)


def test_at_once_limits_what_is_begun() -> None:
    """No more items are begun than asked for, and the rest is left out if the caller ends early."""
    begun = []
    results = map_ahead(lambda item: begun.append(item) or item, range(100), 5)  # type: ignore[func-returns-value]
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 6
    done: list[int] = []
    alone = map_ahead(done.append, range(3), 1)
    next(alone)
    assert done == [0]  # one by one, when asked for


def test_nested_work_ends() -> None:
    """Levels inside each other do not wait for each other's threads."""

    def inner(item: int) -> int:
        found: list[int] = []
        run_together(lambda: found.extend(map_ahead(lambda at: at, range(3), 64)), lambda: None)
        return item + sum(found)

    def outer(item: int) -> int:
        return sum(map_ahead(inner, range(item, item + 70), 64))

    assert list(map_ahead(outer, range(70), 64)) == [sum(range(at + 3, at + 73)) for at in range(70)]


def test_a_range_reader_has_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins RANGES_AT_ONCE pieces, and the next when one is used up. Bytes are those of the file."""
    monkeypatch.setattr(ahead, "RANGE_BYTES", 10)
    whole = bytes(range(100))
    fetched: list[int] = []

    def fetch(position: int, count: int) -> bytes:
        fetched.append(position)
        return whole[position : position + count]

    reader = RangeReader(fetch, 3, 98)
    for start, count in ((3, 15), (14, 20), (30, 1), (31, 65), (90, 8)):
        target = bytearray(count)
        assert reader.read_into(start, memoryview(target)) == count
        assert bytes(target) == whole[start : start + count]
        assert max(fetched) < start + count + 10 * (RANGES_AT_ONCE + 2)
    assert sorted(fetched) == list(range(3, 98, 10))
    assert reader.read_into(0, memoryview(bytearray(4))) == 0  # outside
    reader.close()
