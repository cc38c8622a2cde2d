"""Whether a job's checkpoint and its target belong together. `etl_job.py` asks before it writes.

A micro-batch has the id of its checkpoint and a number. Spark's sinks leave out what they have already, by the number
alone (files) or by both (tables). So a new checkpoint beside a target with records loses records in files, which take
the numbers of the new checkpoint for old ones, and adds records again to a table. A target that lacks what the
checkpoint has finished never gets it.

What a target has, as far as Spark's sinks write it down:
    parquet  `_spark_metadata/NUMBER`; the id is in `_kafkaseg_checkpoint.json`, which this module writes
    delta    the transactions of the table, by id
    iceberg  the snapshots, with id and number; a property of the table, which this module sets, has the id when they
             are expired
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import max as max_of

from kafka_segment_source.errors import UsageError

NOTE = "_kafkaseg_checkpoint.json"  # readers of Parquet leave out names that begin with "_"
PROPERTY = "kafkaseg.checkpoint."  # the id of a checkpoint follows
# What the names of options begin with that say where the logs are, and which partitions are read
_SELECTING = ("subscribe", "assign", "topic", "partition", "tieredkeys", "aws_", "azure_", "google_", "fs.s3a.")

Offsets = dict[str, dict[str, int]]
"""The next offset by topic and partition, as `startingOffsets` has it."""


class MisfitError(UsageError):
    """The checkpoint and the target do not belong together: another run does not help."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says: the id of its query, or "", and the numbers of its last micro-batches, or -1."""

    id: str
    begun: int
    finished: int


@dataclass(frozen=True)
class Target:
    """What a target says of one checkpoint.

    last: the number of the last micro-batch that it has of this checkpoint, or -1. is_named: whether it names the
    checkpoint, so that it may have had more. has_records: whether it has records of whatever origin. lacks_list:
    whether it has Parquet files, and nothing that says which of them count.
    """

    last: int
    is_named: bool
    has_records: Callable[[], bool]
    lacks_list: bool = False


# ---- the rule ----


def find_misfit(checkpoint: Checkpoint, target: Target) -> str | None:
    """Returns what is wrong with a checkpoint and a target, in words. None if they belong together."""
    if checkpoint.begun == -1 or (checkpoint.finished == -1 and target.last == -1):
        return "the checkpoint is new, and the target has records already" if target.has_records() else None
    if target.last == -1:
        if target.is_named and not target.lacks_list:
            return None
        held = "has records of another checkpoint" if target.has_records() else "is empty"
        held = "has lost _spark_metadata, the list of its files" if target.lacks_list else held
        return f"the checkpoint says that records were written, and the target {held}"
    if target.last < checkpoint.finished:
        return f"the checkpoint has finished micro-batch {checkpoint.finished}, and the target ends with {target.last}"
    if target.last > checkpoint.begun:
        return f"the target has micro-batch {target.last}, and the checkpoint ends with {checkpoint.begun}"
    return None


def check_fit(
    spark: SparkSession, path: str, target: str, checkpoint: str, options: Mapping[str, str], sink: str
) -> None:
    """Raises MisfitError for a checkpoint and a target that do not belong together. It names the ways on."""
    state = read_checkpoint(spark, checkpoint)
    what = find_misfit(state, read_target(spark, target, sink, state))
    if what is None:
        return
    ends = read_ends(spark, target, sink)
    ways = "give the two that belong together"
    if ends and sink != "parquet":
        ways += ", or a new --checkpoint and once --from-target, to go on after the records of this target"
    ways += ", or a new --to and a new --checkpoint"
    if ends:
        start = json.dumps(complete_start(spark, path, options, ends))
        ways += f", with --starting-offsets '{start}' to begin after the records of this target"
    raise MisfitError(
        f"checkpoint {checkpoint!r} and target {target!r} do not belong together: {what}; nothing was written; {ways}"
    )


def find_start(
    spark: SparkSession, path: str, target: str, checkpoint: str, options: Mapping[str, str], sink: str
) -> str:
    """Returns startingOffsets for a new checkpoint: after the records that the target has.

    Raises MisfitError where the sink cannot go on with a new checkpoint, or the checkpoint has begun already.
    """
    if sink == "parquet":
        raise MisfitError(
            "--from-target is for tables: Spark's file sink takes the micro-batches of a new checkpoint for those that"
            " it has; give a new --to"
        )
    if read_checkpoint(spark, checkpoint).begun != -1:
        raise MisfitError(
            f"--from-target is for a new checkpoint, and {checkpoint!r} has begun: leave --from-target out, or give a"
            " new --checkpoint"
        )
    return json.dumps(complete_start(spark, path, options, read_ends(spark, target, sink)))


def complete_start(spark: SparkSession, path: str, options: Mapping[str, str], ends: Offsets) -> Offsets:
    """Returns the offsets to start at of the partitions that the options select, and of no other.

    A partition that the target has no records of begins with its first offset, which is written -2.
    """
    selecting = {name: text for name, text in options.items() if name.lower().startswith(_SELECTING)}
    segments = spark.read.format("kafkaseg").options(**selecting, view="segments").load(path)
    start: Offsets = {}
    for topic, partition in sorted(segments.select("topic", "partition").distinct().collect()):
        start.setdefault(topic, {})[str(partition)] = ends.get(topic, {}).get(str(partition), -2)
    return start


# ---- what is there ----


def read_checkpoint(spark: SparkSession, path: str) -> Checkpoint:
    """Reads the directory that Spark keeps for a query."""
    files = _Files(spark, path)
    text = files.read("metadata")
    return Checkpoint(json.loads(text)["id"] if text else "", files.last("offsets"), files.last("commits"))


def read_target(spark: SparkSession, target: str, sink: str, checkpoint: Checkpoint) -> Target:
    """Reads what a target says of a checkpoint."""
    if sink == "parquet":
        return _read_directory(_Files(spark, target), checkpoint)
    frame = _load(spark, target, sink)
    if frame is None:
        return Target(-1, False, lambda: False)
    last, is_named = (_read_delta if sink == "delta" else _read_iceberg)(spark, target, checkpoint.id)
    return Target(last, is_named, lambda: bool(frame.head(1)))


def _read_directory(files: _Files, checkpoint: Checkpoint) -> Target:
    number = files.last("_spark_metadata")
    note = files.read(NOTE)
    is_named = note is not None and checkpoint.id in json.loads(note)
    # a run that died in its first micro-batch leaves files that no list has
    has_records = number >= 0 or (checkpoint.begun == -1 and files.has_data())
    lacks_list = number == -1 and files.has_data()
    return Target(number if note is None or is_named else -1, is_named, lambda: has_records, lacks_list)


def _read_delta(spark: SparkSession, target: str, query: str) -> tuple[int, bool]:
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, target)
    none = spark._jvm.scala.Option.empty()
    found = log.update(False, none, none).transactions().get(query)
    return (int(found.get()) if found.isDefined() else -1), found.isDefined()


def _read_iceberg(spark: SparkSession, target: str, query: str) -> tuple[int, bool]:
    numbers = spark.sql(
        "SELECT max(int(summary['spark.sql.streaming.epochId']))"
        f" FROM {target}.snapshots JOIN {target}.history USING (snapshot_id)"
        f" WHERE is_current_ancestor AND summary['spark.sql.streaming.queryId'] = '{query}'"
    ).collect()
    properties = [name for name, _ in spark.sql(f"SHOW TBLPROPERTIES {target}").collect()]
    return (-1 if numbers[0][0] is None else numbers[0][0]), PROPERTY + query in properties


def read_ends(spark: SparkSession, target: str, sink: str) -> Offsets:
    """Returns the offset after the last record that a target has of each partition. Empty without any."""
    frame = _load(spark, target, sink)
    if frame is None or not {"topic", "partition", "offset"} <= set(frame.columns):
        return {}
    ends: Offsets = {}
    found = frame.groupBy("topic", "partition").agg(max_of("offset") + 1).orderBy("topic", "partition")
    for topic, partition, end in found.collect():
        ends.setdefault(topic, {})[str(partition)] = end
    return ends


def _load(spark: SparkSession, target: str, sink: str) -> DataFrame | None:
    if sink == "iceberg":
        return spark.table(target) if spark.catalog.tableExists(target) else None
    if sink == "delta":
        return spark.read.format("delta").load(target) if _Files(spark, target).names("_delta_log") else None
    return spark.read.parquet(target) if _Files(spark, target).has_data() else None


# ---- what is written down ----


def note_checkpoint(spark: SparkSession, target: str, checkpoint: str, sink: str, query: str) -> None:
    """Writes into the target which checkpoint writes to it, where the sink does not keep it itself.

    query: the id of the checkpoint. A run that dies before this is found by the numbers of its micro-batches.
    """
    if sink == "parquet":
        files = _Files(spark, target)
        if files.read(NOTE) is None:
            files.write(NOTE, json.dumps({query: checkpoint}))
    elif sink == "iceberg" and not _read_iceberg(spark, target, query)[1]:
        place = checkpoint.replace("\\", "\\\\").replace("'", "\\'")
        spark.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ('{PROPERTY}{query}' = '{place}')")


class _Files:
    """A directory in any file system that Spark knows."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = self._path(path)
        self._system = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def names(self, name: str = "") -> list[str]:
        """Returns the names in a directory below, or in this one. None are in one that is not there."""
        path = self._path(self._root, name) if name else self._root
        return (
            [str(each.getPath().getName()) for each in self._system.listStatus(path)]
            if self._system.exists(path)
            else []
        )

    def last(self, name: str) -> int:
        """Returns the largest number that a file of a log of Spark's has as its name; -1 without any."""
        numbers = (each.removesuffix(".compact") for each in self.names(name))
        return max((int(each) for each in numbers if each.isdecimal()), default=-1)

    def has_data(self) -> bool:
        """Whether a stream has written here, or anything is here that readers of Parquet would read."""
        return self.last("_spark_metadata") >= 0 or any(not each.startswith(("_", ".")) for each in self.names())

    def read(self, name: str) -> str | None:
        """Returns the text of a file; None if it is not there."""
        path = self._path(self._root, name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Writes a file whole: under another name first."""
        draft = self._path(self._root, f"_{name}.new")
        stream = self._system.create(draft, True)
        stream.write(bytearray(text, "utf-8"))
        stream.close()
        self._system.rename(draft, self._path(self._root, name))

    def _path(self, *parts: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(*parts)
