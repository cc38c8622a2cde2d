"""Kafka's own log inspector on index files. `python -m tests.conformance.dump_index` saves what 4.1.0 says of fixtures.

Out: tests/fixtures/dump_index.parquet, one row an entry: file, and the numbers of its line in their order.
`tests/unit/views/test_index_views.py` compares the views with it. It prints other lines too, such as mismatches by the
rules of one version; these are left out.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conformance.dump_log import DEFAULT_DIRECTORIES, ROOT
from tests.support.jars import KAFKA_4, java_command

SAVED = ROOT / "tests" / "fixtures" / "dump_index.parquet"
SCHEMA = pa.schema([("file", pa.string()), ("entry", pa.list_(pa.int64()))])

_FILE = "Dumping "
_ENTRY = re.compile(
    r"offset: (\d+) position: (\d+)|timestamp: (-?\d+) offset: (\d+)"
    r"|version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)


def parse(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    """Turn what the inspector prints into one dictionary an entry, with the file's path from the repository."""
    file = ""
    for line in lines:
        if line.startswith(_FILE):
            file = line.removeprefix(_FILE).removeprefix(f"{ROOT}/")
        elif found := _ENTRY.fullmatch(line):
            yield {"file": file, "entry": [int(each) for each in found.groups() if each is not None]}


def dump(waiting: list[str]) -> Iterator[dict[str, object]]:
    """What the inspector says of the files. It ends at the first one that it dislikes, whose entries are left out."""
    while waiting:
        command = java_command(KAFKA_4, "kafka.tools.DumpLogSegments", "--files", ",".join(waiting))
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        if done.returncode == 0:
            yield from parse(lines)
            return
        at = max(number for number, line in enumerate(lines) if line.startswith(_FILE))
        last = lines[at].removeprefix(_FILE)
        print(f"the inspector gave up in {last}: {done.stderr.strip().splitlines()[0]}")
        yield from parse(lines[:at])
        waiting = waiting[waiting.index(last) + 1 :]


def main() -> None:
    """Dump every index file of the fixtures and the demonstration data, and write the entries."""
    paths = sorted(
        path
        for folder in DEFAULT_DIRECTORIES
        for path in folder.rglob("*")
        if path.suffix in (".index", ".timeindex", ".txnindex")
    )
    rows = list(dump([str(path) for path in paths]))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    pq.write_table(table, SAVED, compression="zstd")
    print(f"{table.num_rows} entries of {len(paths)} files")


if __name__ == "__main__":
    main()
