"""`scan` by two processes beside one: what processes could give where threads are used today (docs/speed.md, Threads).

Two things are measured. Processes that hand nothing over are the most that two processors give. Processes that hand
over their rows are a sketch of a reader with worker processes: each reads byte ranges as a task of Spark does, its
kernels write values and numbers into shared memory, and the caller makes Arrow batches of them without a copy, in
order. The sketch knows no errors and no damage, and a worker that ends is a failure.
"""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

import kafka_segment_source
from benchmarks.logs import Log, log
from benchmarks.measure import ROOT, alternate, seconds
from benchmarks.results import Row, Settings, row
from benchmarks.threads import GOAL, name_of, shapes
from kafka_segment_source.decoding import memory_blocks, row_builder
from kafka_segment_source.decoding.tables import RECORDS, Reading
from kafka_segment_source.scanning import read_split
from kafka_segment_source.storage.files import Bytes

TITLE = "scan with two processes"

COLUMNS = ["key", "value", "offset", "timestamp", "timestampType"]
_UNIT = 8 * 1024 * 1024  # bytes of records, plain, that a worker reads and hands over at once
_AHEAD = 2  # of these for each worker
_STEP = 256 * 1024  # sizes of shared blocks are multiples of it
_MOST_MESSAGE = 128 * 1024
_MOST_FILES = 64  # descriptors in a message


def rows(settings: Settings) -> Iterator[Row]:
    """For each codec and size: the times as fast as one process, with rows that are handed over and without. The start
    of a worker, until it has answered."""
    yield row("start of a worker", [seconds(_start_and_end) for _ in range(settings.runs)], "s", None)
    with _Worker() as first, _Worker() as second:
        workers = [first, second]
        for shape in shapes(settings):
            events = log(shape)
            for what, read in (("rows in shared memory", _read), ("nothing handed over", _count)):
                one, two = partial(_read_alone, events), partial(read, events, workers)
                pairs = alternate(one, two, 2 * settings.runs)
                ratios = [alone / both for alone, both in pairs]
                cpu = [_cpu_of(work, workers) / events.records * 1e9 for work in (one, two)]
                note = f"CPU {cpu[0]:.0f} ns a row with one, {cpu[1]:.0f} with two"
                yield row(f"{name_of(shape)}: {what}", ratios, "times as fast as one", GOAL, note)


def _read_alone(events: Log) -> int:
    return sum(batch.num_rows for batch in kafka_segment_source.scan(str(events.path), COLUMNS, threads=1))


def _cpu_of(work: partial[int], workers: Sequence[_Worker]) -> float:
    """CPU time of this process and the workers for one call, in s."""
    before = [time.process_time(), *(float(worker.ask(("cpu",))) for worker in workers)]
    work()
    after = [time.process_time(), *(float(worker.ask(("cpu",))) for worker in workers)]
    return sum(after) - sum(before)


def _start_and_end() -> None:
    with _Worker() as worker:
        worker.ask(("cpu",))


# ---- the caller ----


class _Worker:
    """A worker process. It ends when its connection does."""

    def __init__(self) -> None:
        self._end, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            command = [sys.executable, "-m", "benchmarks.processes", str(its_end.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[its_end.fileno()])
        self._blocks: dict[int, Bytes] = {}
        self._free: deque[int] = deque()  # numbers of blocks that nothing refers to any more

    def send(self, message: tuple[Any, ...]) -> None:
        self._end.send(pickle.dumps((self._take_free(), *message)))

    def ask(self, message: tuple[Any, ...]) -> Any:
        self.send(message)
        return self.receive()

    def receive(self) -> Any:
        answer, new, files = _receive(self._end)
        for (number, size), file in zip(new, files, strict=True):
            self._blocks[number] = _map(file, size)
        return answer

    def make_batch(self, columns: Sequence[_Column], schema: pa.Schema) -> pa.RecordBatch:
        """Makes a batch whose buffers are in shared memory. The worker gets a block back when none of it is left."""
        whole: dict[int, pa.Buffer] = {}
        for number in {place[0] for *_, places in columns for place in places if place is not None}:
            block = self._blocks[number]
            whole[number] = pa.foreign_buffer(block.ctypes.data, len(block), base=_Lease(number, self._free))
        arrays = []
        for kind, (count, nulls, offset, places) in zip(schema.types, columns, strict=True):
            buffers = [None if each is None else whole[each[0]].slice(each[1], each[2]) for each in places]
            arrays.append(pa.Array.from_buffers(kind, count, buffers, nulls, offset))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _take_free(self) -> list[int]:
        return [self._free.popleft() for _ in range(len(self._free))]

    def __enter__(self) -> _Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.close()
        self._process.wait(10)


class _Lease:
    """Is alive as long as a buffer of a block is."""

    def __init__(self, number: int, free: deque[int]) -> None:
        self._number = number
        self._free = free

    def __del__(self) -> None:
        self._free.append(self._number)


_Place = tuple[int, int, int] | None
"""Of a buffer: the number of its block, its start there and its size."""
_Column = tuple[int, int, int, list[_Place]]
"""An array: its length, the number of nulls, its offset, and the places of its buffers."""


def _read(events: Log, workers: Sequence[_Worker]) -> int:
    return sum(batch.num_rows for batch in read_by(workers, events))


def read_by(workers: Sequence[_Worker], events: Log) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a log whose byte ranges the workers read by turns."""
    count = -(-events.plain_bytes // _UNIT)
    plan = kafka_segment_source.plan(str(events.path), minPartitions=count)
    schema = plan.schema(COLUMNS)
    todo = deque(enumerate(plan.splits))
    begun: deque[_Worker] = deque()
    while todo or begun:
        while todo and len(begun) < _AHEAD * len(workers):
            number, split = todo.popleft()
            begun.append(workers[number % len(workers)])
            begun[-1].send(("read", [split], plan.options, schema))
        worker = begun.popleft()
        for columns in worker.receive():
            yield worker.make_batch(columns, schema)


def _count(events: Log, workers: Sequence[_Worker]) -> int:
    """How many rows the workers read, each half of the byte ranges."""
    plan = kafka_segment_source.plan(str(events.path))
    schema = plan.schema(COLUMNS)
    for number, worker in enumerate(workers):
        worker.send(("count", plan.splits[number :: len(workers)], plan.options, schema))
    return sum(int(worker.receive()) for worker in workers)


# ---- the worker ----


class _Memory:
    """Shared blocks of a worker."""

    def __init__(self) -> None:
        self.new: list[tuple[tuple[int, int], int]] = []  # (number, size) and the descriptor; the caller has none yet
        self._blocks: dict[int, Bytes] = {}
        self._numbers: dict[int, int] = {}  # by address
        self._free: list[int] = []

    def take(self, size: int) -> memory_blocks.Block:
        """Returns a block of `size` bytes, in the place of `memory_blocks.take_block`."""
        for number in reversed(self._free):
            if size <= len(self._blocks[number]) <= size + size // 4 + _STEP:
                self._free.remove(number)
                return memory_blocks.Block(self._blocks[number], size)
        number, whole = len(self._blocks), _round_up(max(size, 1), _STEP)
        file = os.memfd_create("kafkaseg")
        os.ftruncate(file, whole)
        self.new.append(((number, whole), os.dup(file)))  # the caller's
        self._blocks[number] = _map(file, whole)
        self._numbers[self._blocks[number].ctypes.data] = number
        return memory_blocks.Block(self._blocks[number], size)

    def give_back(self, numbers: list[int]) -> None:
        self._free += numbers

    def place(self, batch: pa.RecordBatch) -> list[_Column]:
        """Says where the buffers of a batch lie. Those outside of shared memory are copied."""
        outside: list[tuple[pa.Buffer, list[_Place], int]] = []
        columns: list[_Column] = []
        for array in batch.columns:
            places: list[_Place] = []
            for slot, buffer in enumerate(array.buffers()):
                places.append(None if buffer is None else self._find(buffer))
                if buffer is not None and places[slot] is None:
                    outside.append((buffer, places, slot))
            columns.append((len(array), array.null_count, array.offset, places))
        if outside:
            block = self.take(sum(_round_up(buffer.size, 64) for buffer, _, _ in outside))
            number, at = self._numbers[block.data.ctypes.data], 0
            for buffer, places, slot in outside:
                block.data[at : at + buffer.size] = np.frombuffer(buffer, np.uint8)
                places[slot] = (number, at, buffer.size)
                at += _round_up(buffer.size, 64)
        return columns

    def _find(self, buffer: pa.Buffer) -> _Place:
        for begin, number in self._numbers.items():
            if 0 <= buffer.address - begin < len(self._blocks[number]):
                return number, buffer.address - begin, buffer.size
        return None


def _work(end: socket.socket) -> None:
    """Answers messages until the connection ends."""
    memory = _Memory()
    while (message := _receive(end)) is not None:
        free, what, *arguments = message[:-1]
        memory.give_back(free)
        answer = _answer(memory, what, *arguments)
        new, memory.new = memory.new, []
        data = pickle.dumps((answer, [numbered for numbered, _ in new]))
        socket.send_fds(end, [data], [file for _, file in new])
        for _, file in new:
            os.close(file)


def _answer(memory: _Memory, what: str, *arguments: Any) -> object:
    if what == "cpu":
        return time.process_time()
    splits, options, schema = arguments
    reading = Reading(options.source, options.policy, options.content, RECORDS)
    take = memory.take if what == "read" else memory_blocks.take_block
    with mock.patch.object(row_builder, "take_block", take):
        batches = (batch for split in splits for batch in read_split(split, reading, schema))
        return [memory.place(batch) for batch in batches] if what == "read" else sum(map(len, batches))


# ---- both ----


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _receive(end: socket.socket) -> Any:
    """Waits for a message, and the descriptors that came with it. None: the connection has ended."""
    data, files, _, _ = socket.recv_fds(end, _MOST_MESSAGE, _MOST_FILES)
    return (*pickle.loads(data), files) if data else None


def _map(file: int, size: int) -> Bytes:
    """Maps a block, and closes its descriptor."""
    try:
        return np.frombuffer(mmap.mmap(file, size), np.uint8)
    finally:
        os.close(file)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        _work(connection)
