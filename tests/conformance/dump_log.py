"""Kafka's own inspector against kafkaseg, over every fixture: `python -m tests.conformance.dump_log [directory …]`.

In: directories that hold `.log` files. Out: a summary for each directory, every batch that `DumpLogSegments` and
kafkaseg see differently, and one line with the result; exit status 1 if they differ. `--out FILE` keeps what the
inspector said as Parquet: after a fixture was made, in tests/fixtures/dump_log.parquet. Raises `DumpError` when a line
of it cannot be understood: a batch must not get lost in
parsing. The default directories are the fixtures and the demonstration data.

Of a record batch (magic 2) every field that the inspector prints is compared. Of a message set it prints one line for
each shallow entry, without a base offset and a count, which the format does not have: those are not compared here, but
by the rows that a real consumer saw (`tests/support/rows.py`). It gives up at zeros behind the last batch
(`preallocate=true`); what it printed of that file until then counts.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.conformance.our_batches import batches_of, differences
from tests.support.jars import KAFKA_2, KAFKA_4, Distribution, java_command

ROOT = Path(__file__).parents[2]
SAVED = ROOT / "tests" / "fixtures" / "dump_log.parquet"  # what 4.1.0 says of every fixture, for `make test`
DEFAULT_DIRECTORIES = (ROOT / "tests" / "fixtures", ROOT / "examples" / "data")

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("baseOffset", pa.int64()),
        ("lastOffset", pa.int64()),
        ("count", pa.int32()),
        ("baseSequence", pa.int32()),
        ("lastSequence", pa.int32()),
        ("producerId", pa.int64()),
        ("producerEpoch", pa.int32()),
        ("partitionLeaderEpoch", pa.int32()),
        ("isTransactional", pa.bool_()),
        ("isControl", pa.bool_()),
        ("deleteHorizonMs", pa.int64()),
        ("position", pa.int64()),
        ("timestampType", pa.string()),
        ("timestamp", pa.int64()),
        ("size", pa.int64()),
        ("magic", pa.int32()),
        ("compresscodec", pa.string()),
        ("crc", pa.int64()),
        ("isvalid", pa.bool_()),
    ]
)

_FILE = "Dumping "
_BATCH = re.compile(r"^(?:baseOffset|offset): ")
_PAIR = re.compile(r"(\w+): (\S+)")
_HORIZON = re.compile(r"OptionalLong\[(\d+)\]")
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")


class DumpError(ValueError):
    """A line of the inspector's that this module does not understand."""


def dump(logs: Sequence[Path], kafka: Distribution = KAFKA_4) -> tuple[pa.Table, dict[str, str]]:
    """Run the inspector over all the files; returns the batches, and for each file it gave up on what it said.

    It ends at the first file it dislikes: zeros after the last batch (`preallocate=true`) are such a thing to it,
    although they are legal. What it printed of that file until then is kept, and it is started again with the next one.
    """
    rows: list[dict[str, object]] = []
    given_up: dict[str, str] = {}
    waiting = list(map(str, logs))
    while waiting:
        done = _inspect(waiting, kafka)
        lines = done.stdout.splitlines()
        rows += parse(lines)
        if done.returncode == 0:
            break
        last = next(line for line in reversed(lines) if line.startswith(_FILE)).removeprefix(_FILE)
        given_up[last] = done.stderr.strip().splitlines()[0]
        waiting = waiting[waiting.index(last) + 1 :]
    return pa.Table.from_pylist(rows, schema=SCHEMA), given_up


def _inspect(files: Sequence[str], kafka: Distribution) -> subprocess.CompletedProcess[str]:
    tool = "kafka.tools.DumpLogSegments"
    command = java_command(kafka, tool, "--max-message-size", str(1 << 24), "--files", ",".join(files))
    return subprocess.run(command, check=False, capture_output=True, text=True)


def parse(lines: Iterable[str]) -> Iterator[dict[str, object]]:
    """Turn what the inspector prints without `--print-data-log` into one dictionary a batch."""
    file = None
    for line in lines:
        if line.startswith(_FILE):
            file = line.removeprefix(_FILE)
        elif _BATCH.match(line):
            yield {"file": file, **parse_batch(line)}


def parse_batch(line: str) -> dict[str, object]:
    """One batch line, in the inspector's own names."""
    words = dict(_PAIR.findall(line))
    kind = next((name for name in _TIMESTAMP_TYPES if name in words), None)
    if kind is None or "crc" not in words:
        raise DumpError(f"not a batch line: {line!r}")
    words |= {"timestampType": kind, "timestamp": words[kind]}
    if "offset" in words:  # a shallow entry of a message set: its own offset is its last
        words["lastOffset"] = words["offset"]
    words["compresscodec"] = words["compresscodec"].lower()  # NONE in 2.8, none in 4.1
    return {field.name: _value(words.get(field.name), field.type) for field in SCHEMA if field.name != "file"}


def _value(word: str | None, kind: pa.DataType) -> object:
    if word is None or word == "OptionalLong.empty":
        return None
    if pa.types.is_boolean(kind):
        return word == "true"
    if pa.types.is_integer(kind):
        horizon = _HORIZON.fullmatch(word)
        return int(horizon.group(1) if horizon else word)
    return word


def summary(batches: pa.Table) -> str:
    """One line for each partition directory."""
    folders = [str(_short(Path(name).parent)) for name in batches["file"].to_pylist()]
    table = batches.append_column("folder", pa.array(folders))
    lines = []
    for folder in sorted(set(folders)):
        mine = table.filter(pc.equal(table["folder"], folder))
        lines.append(f"{folder}: {_facts(mine)}")
    return "\n".join(lines)


def _short(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _facts(mine: pa.Table) -> str:
    segments = len(set(mine["file"].to_pylist()))
    codecs = ",".join(sorted(set(mine["compresscodec"].to_pylist())))
    magics = ",".join(map(str, sorted(set(mine["magic"].to_pylist()))))
    control = pc.sum(mine["isControl"].fill_null(False)).as_py()
    broken = mine.num_rows - pc.sum(mine["isvalid"]).as_py()
    return (
        f"{segments} segments, {mine.num_rows} batches ({control} control, {broken} invalid), magic {magics}, {codecs}"
    )


def read_saved() -> pa.Table:
    """What the inspector of 4.1.0 said of every fixture, as it was saved."""
    table = pq.read_table(SAVED)
    names = [str(ROOT / name) for name in table["file"].to_pylist()]
    return table.set_column(0, "file", pa.array(names))


def main() -> None:
    """Dump, compare, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="*", type=Path, default=DEFAULT_DIRECTORIES)
    parser.add_argument("--out", type=Path, help="a file for the batches that the inspector printed")
    parser.add_argument("--kafka-2", action="store_true", help="use the inspector of 2.8 instead of that of 4.1")
    arguments = parser.parse_args()
    logs = sorted(path.resolve() for folder in arguments.directory for path in folder.rglob("*.log"))
    batches, given_up = dump(logs, KAFKA_2 if arguments.kafka_2 else KAFKA_4)
    if arguments.out:
        names = pa.array([str(_short(Path(name))) for name in batches["file"].to_pylist()])
        pq.write_table(batches.set_column(0, "file", names), arguments.out, compression="zstd")
    print(summary(batches))
    for file, reason in given_up.items():
        print(f"the inspector gave up in {_short(Path(file))}: {reason}")
    different = differences(batches, batches_of(logs, SCHEMA))
    print("\n".join(different), end="\n" if different else "")
    kafka = (KAFKA_2 if arguments.kafka_2 else KAFKA_4).version
    agreed = "agree on all of them" if not different else f"differ in {len(different)}"
    print(f"{batches.num_rows} batches of {len(logs)} segments: kafka-dump-log {kafka} and kafkaseg {agreed}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
