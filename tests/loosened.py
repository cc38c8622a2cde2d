"""Rules loosened on purpose, one at a time: a test must fail for each. `python -m tests.loosened [words of a rule]`.

Each entry of `LOOSENED` is a change to one line of the package, and the tests that should notice it. The change is made
in a copy of the repository, so nothing is changed here. The program prints a table: the rule, the change, and the test
that caught it. The exit status is 1 if a change was not caught, or if its line is no longer there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.changes import Change, change_package

ROOT = Path(__file__).parent.parent
SECONDS = 900
_TOGETHER = 2  # processes
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


_TRANSACTIONS = (
    "tests/unit/reading/test_committed.py tests/property/test_committed_rows.py"
    " tests/unit/partition/test_copy_chain.py tests/unit/reading/test_live_log.py"
    " tests/unit/reading/test_missing_segments.py tests/property/test_lost_segments.py"
)


_OFFSETS = (
    "tests/unit/decoding/test_offset_order.py tests/unit/decoding/test_belief.py"
    " tests/unit/reading/test_wrong_offsets.py tests/unit/partition/test_offset_proof.py"
    " tests/property/test_hurt_copies.py"
)


_TIERS = (
    "tests/unit/logdir/test_topic_choice.py"
    " tests/unit/storage/tiered/test_nameless_topics.py tests/unit/storage/tiered/test_tiered_storage.py"
    " tests/fuzz/test_tier_fuzz.py tests/storage/test_tier_faults.py"
    " tests/unit/partition/test_copy_chain.py"
)

_KEYS = (
    "tests/property/test_key_filters.py tests/unit/zones/test_key_filter_files.py tests/unit/test_key_option.py"
    " tests/property/test_kernels.py"
)

_IN_DOUBT = "tests/unit/partition/test_batches_in_doubt.py tests/property/test_misplaced_batches.py"
_GAPS = "tests/unit/partition/test_gaps_of_copies.py tests/property/test_misplaced_batches.py"
_SEAMS = "tests/unit/partition/test_seams.py"
_WRONG_OFFSETS = "tests/unit/partition/test_wrong_offsets_of_copies.py"
_MISPLACED = "tests/property/test_misplaced_batches.py"
_REPLICAS = "tests/property/test_replica_sets.py"


_STREAMS = "tests/unit/streams tests/property/test_streams.py"


@dataclass(frozen=True)
class Loosened:
    """A rule, the change of the line that states it, and the tests to run."""

    rule: str
    change: Change
    tests: str


def _of(file: str, tests: str, *changes: tuple[str, str, str]) -> list[Loosened]:
    return [Loosened(rule, change_package(file, old, new), tests) for rule, old, new in changes]


LOOSENED = [
    *_of(
        "reporting.py",
        "tests/cli/test_cli_use.py",
        (
            "warnings: of many, the first of each kind is shown",
            "sentence.kind if isinstance(sentence, Warned) else sentence",
            "sentence",
        ),
    ),
    *_of(
        "logdir/index_entries.py",
        "tests/unit/logdir/test_indexes.py",
        (
            "indexes: few entries of a time index are judged as many are",
            "if timestamp <= last_timestamp or not last_offset <= offset < offset_limit or not (timestamp or offset):",
            "if timestamp <= last_timestamp or not last_offset <= offset or not (timestamp or offset):",
        ),
    ),
    *_of(
        "batch_kinds.py",
        "tests/unit/decoding/test_batch_rows.py tests/unit/views tests/unit/planning/test_cuts.py",
        (
            "batches: only magic 0 and 1 have wrappers",
            "(magic < kafka_format.MAGIC_V2) & is_compressed(attributes)",
            "is_compressed(attributes)",
        ),
    ),
    *_of(
        "rebuilding/indexes.py",
        "tests/unit/test_rebuilding.py",
        (
            "rebuild: an offset entry comes after more than index.interval.bytes",
            "bisect_right(positions, self._indexed_at + INTERVAL, at)",
            "bisect_right(positions, self._indexed_at + INTERVAL - 1, at)",
        ),
        (
            "rebuild: a segment gets a last time entry",
            "        self._add_times(np.array([self._largest[0]]), np.array([self._largest[1]]))\n",
            "",
        ),
    ),
    *_of(
        "rebuilding/producer_table.py",
        "tests/unit/test_rebuilding.py",
        (
            "rebuild: another epoch forgets the batches of the one before",
            "        if epoch != self.epoch:\n",
            "        if False:\n",
        ),
        (
            "rebuild: a marker ends the transaction of its producer",
            "first, producer.first_open = producer.first_open, _NONE",
            "first, producer.first_open = producer.first_open, producer.first_open",
        ),
    ),
    *_of(
        "rebuilding/log_writer.py",
        "tests/property/test_rebuild.py tests/unit/test_rebuilding.py",
        (
            "rebuild: a gap that compaction does not explain is not between two names",
            "name = split.base_offset if is_explained else self._kept_end",
            "name = max(split.base_offset, self._kept_end)",
        ),
        (
            "rebuild: nor is one before an empty last segment",
            "return min(end, self.end)",
            "return end",
        ),
    ),
    *_of(
        "rebuilding/log_writer.py",
        "tests/unit/test_unended_transactions.py",
        (
            "rebuild: another copy may lack the marker of what was open",
            "self.has_transactions and (is_other_copy or has_gap)",
            "self.has_transactions and has_gap",
        ),
    ),
    *_of(
        "rebuilding/rebuild_run.py",
        "tests/unit/test_unended_transactions.py",
        (
            "rebuild: offsets that are missing behind the end are said",
            "        left_out += tuple(_list_missing_outside(job, writer, self.options.bounds.starting))\n",
            "",
        ),
    ),
    *_of(
        "rebuilding/pieces.py",
        "tests/unit/test_unended_transactions.py",
        (
            "rebuild: a time range takes the markers of its transactions",
            "is_extra = within & ~timely & is_control(chunk.headers) if adds_markers else np.zeros_like(within)",
            "is_extra = np.zeros_like(within)",
        ),
    ),
    *_of(
        "rebuilding/unended.py",
        "tests/unit/test_unended_transactions.py",
        (
            "rebuild: a transaction whose end nobody knows is left out",
            "ended &= ~(is_data",
            "ended &= (is_data | ~is_data) | ~(is_data",
        ),
    ),
    *_of(
        "rebuilding/epochs.py",
        "tests/unit/test_unended_transactions.py",
        ("rebuild: epochs never fall", "for at in (-1, -2) if", "for at in (-1,) if"),
    ),
    *_of(
        "rebuilding/rebuild_run.py",
        "tests/property/test_rebuild_kills.py",
        (
            "rebuild: an interrupted partition whose files changed begins again",
            'state["fingerprint"] != job.fingerprint',
            "False",
        ),
    ),
    *_of(
        "kernels/offset_map.py",
        "tests/property/test_latest.py",
        (
            "latest: the newest offset counts",
            "entries[entry, NEWEST] << _ONE) < (newest[i]",
            "entries[entry, NEWEST] << _ONE) > (newest[i]",
        ),
        ("latest: a tombstone is the newest too", "newest[count] |= np.uint64(TOMBSTONE)", "pass"),
        (
            "latest: the hash is of the last bytes too",
            "_WORD) >> np.uint64(8 * (_WORD - rest))",
            "_WORD) >> np.uint64(8 * (_WORD - rest) + 8)",
        ),
        ("latest: the whole hash is compared", "entries[entry, LOW_HASH] == low and", "True and"),
        ("latest: the whole hash of a guess is compared", "or entries[entry, LOW_HASH] != low or", "or"),
        (
            "latest: a record without a key is not noted",
            "if length < 0:\n            continue",
            "if False:\n            continue",
        ),
        ("latest: only records with a wanted offset stay", "if wanted[at] != offset:", "if False:"),
        ("latest: each slice belongs to one pass", "in_slice < state[FIRST_SLICE] or", "False or"),
        ("latest: slots that grow lose no key that is behind their end", "_put_anew(slots, aside[at])", "pass"),
        ("latest: slots that grow leave nothing where it was", "            slots[at] = 0\n", "            pass\n"),
    ),
    *_of(
        "latest/hashed_keys.py",
        "tests/property/test_latest.py",
        ("latest: records without a key are marked", "newest[keyed:count] = offset_map.NO_KEY", "pass"),
        ("latest: only groups of magic 2 are hashed in one call", "and not group.is_message_set:", "and True:"),
        ("latest: some keys alone are noted", "if self._wants_all_keys and not", "if not"),
        ("latest: hashes may begin within their memory", "len(column), column.offset * 8)", "len(column), 0)"),
    ),
    *_of(
        "latest/newest_records.py",
        "tests/property/test_latest.py",
        ("latest: a batch with a newest record stays", 'LAST_OFFSET], side="right")', "LAST_OFFSET])"),
        ("latest: a newest record that is gone is said", "if returned < len(wanted) and", "if False and"),
        ("latest: a split with a newest record is read again", "if first < after:", "if first + 1 < after:"),
    ),
    *_of(
        "searching/pattern.py",
        "tests/property/test_search.py",
        (
            "search: an assertion looks at other bytes, so each record is tried",
            "self.is_local = fixed or _ASSERTION.search(self._regex) is None",
            "self.is_local = True",
        ),
    ),
    *_of(
        "searching/blocks.py",
        "tests/property/test_search.py",
        (
            "search: the last headers of a block are in it",
            "return int(parts[2, -1]) + max(int(parts[3, -1]), 0)",
            "return end",
        ),
        (
            "search: with too many places the rest of the block may match",
            "end if count < _MOST_FOUND else int(places[-1]) + 1",
            "end",
        ),
        (
            "search: with too many places the batches behind them may have the text",
            "return (first < after) | (ends > self.known_to)",
            "return first < after",
        ),
        (
            "search: a piece has whole records",
            "bounds = np.append(starts[::step]",
            "bounds = np.append(starts[::step] + 1",
        ),
    ),
    *_of(
        "searching/match_rows.py",
        "tests/property/test_search.py",
        ("search: a place that is not asked for does not count", "            if is_wanted:", "            if True:"),
        ("search: a header has the name that is asked for", "if self._wanted.headers is not None:", "if False:"),
        (
            "search: only a CRC that is checked proves the bytes of a batch",
            "self._crcs_hold = source.trust.check_crcs",
            "self._crcs_hold = True",
        ),
        (
            "search: a record without a match is checked",
            "                if error is not None:",
            "                if False:",
        ),
    ),
    *_of(
        "kernels/text_search.py",
        "tests/property/test_search.py",
        ("search: a text at the end is found", "while at <= end - size:", "while at < end - size:"),
    ),
    *_of(
        "searching/every_copy.py",
        "tests/property/test_every_copy.py",
        (
            "every copy: what was aborted supersedes nothing",
            "elif record.is_transactional and not self._is_committed(file, record.offset):",
            "elif False:",
        ),
        ("every copy: below the log start is deleted", "elif record.offset < file.log_start:", "elif False:"),
        (
            "every copy: each copy supersedes by itself",
            "self._waiting[0].copy != piece.file.directory or not piece.file.is_live",
            "not piece.file.is_live",
        ),
    ),
    *_of(
        "searching/key_records.py",
        "tests/property/test_every_copy.py",
        ("every copy: a torn end is said", "if not _is_zero(source, end, file.size):", "if False:"),
        (
            "every copy: damage is said",
            "            for error, stop in damage.ends:",
            "            for error, stop in ():",
        ),
        (
            "every copy: the whole key counts",
            "[row_key == key for row_key in keys.to_pylist()]",
            "[True for _ in keys]",
        ),
    ),
    *_of(
        "searching/key_files.py",
        "tests/property/test_every_copy.py",
        ("every copy: files that are no segments are searched", "    if log.is_whole:", "    if False:"),
        (
            "every copy: what lies on the way to a tier is said",
            "        parents.update(above for path in searched for above in _between(root, path))",
            "        pass",
        ),
        (
            "every copy: a directory inside of a partition's is said",
            "        if entry.kind is Kind.DIRECTORY:",
            "        if False:",
        ),
        (
            "every copy: a path of dead directories hides no other path",
            "                continue\n        kept",
            "                pass\n        kept",
        ),
    ),
    *_of(
        "statistics/heavy.py",
        "tests/property/test_stats.py",
        (
            "stats: what is taken from a weight is its error",
            "return places, weights[places] - taken, taken",
            "return places, weights[places] - taken, 0",
        ),
        (
            "stats: errors add up",
            "        self.error += error\n        self._hashes.append",
            "        self._hashes.append",
        ),
    ),
    *_of(
        "statistics/blocks.py",
        "tests/property/test_stats.py",
        (
            "stats: the id of a schema is positive",
            "is_positive = (ids > 0) & (ids < 2**31)",
            "is_positive = ids < 2**31",
        ),
    ),
    *_of(
        "statistics/totals.py",
        "tests/property/test_stats.py",
        ("stats: memory is bounded", "if len(self.of) < MOST_IDS else self.others", "if True else self.others"),
    ),
    *_of(
        "cli/grep.py",
        "tests/cli/test_cli_grep.py",
        ("grep: skipped damage is an error", "if skipped and not (quiet and hit):", "if False:"),
        ("grep: no more records than were asked for", "        yield batch.slice(0, left)", "        yield batch"),
    ),
    *_of(
        "kernels/avro.py",
        "tests/unit/values tests/property/test_avro.py",
        ("avro: an id finds its own schema alone", "keys[np.uint64(low)] == key:", "True:"),
        ("avro: no bytes may be left over", "if at != end:", "if False:"),
        ("avro: a fixed value lies within its bytes", "if length > end - at:", "if length > end - at + 1:"),
        ("avro: a list has no more items than its bytes allow", "if count > (end - at) // least:", "if False:"),
        ("avro: items without bytes are few", "elif count > budget:", "elif count > budget + 1:"),
        ("avro: the size of a block is within the value", "if size < 0 or size > end - at:", "if False:"),
        ("avro: text is UTF-8", "if code == STRING and not _is_utf8(src, at, at + length):", "if False:"),
        ("avro: a number has 64 bits", "after - at == 10 and src[np.uint64(after - 1)] > 1:", "False:"),
        ("avro: a row that does not fit is taken back", "arena8[np.uint64(valid + i)] = 1", "pass"),
        ("avro: a branch is one of its union", "if value < 0 or value > 1:", "if False:"),
        ("avro: a decimal has the digits of its type", "return high < precision_high", "return True"),
    ),
    *_of(
        "values/avro_program.py",
        "tests/unit/values tests/property/test_avro.py",
        ("avro: a field of the reader needs a default", "if not missing.has_default:", "if False:"),
    ),
    *_of(
        "values/protobuf_rows.py",
        "tests/unit/values/test_protobuf_scan.py",
        (
            "protobuf: only the prefix of an id that is known is read",
            "if found_place is None:\n            return 0, avro.UNKNOWN_SCHEMA",
            "if found_place is None:\n            found_place = 0",
        ),
        (
            "protobuf: the key of a map is text",
            "isinstance(error, BadTextError | UnicodeDecodeError)",
            "isinstance(error, BadTextError)",
        ),
        ("protobuf: byte 0 begins a value", "if len(data) < _PREFIX or data[0] != 0:", "if len(data) < _PREFIX:"),
        (
            "protobuf: message indexes choose the message",
            'writer.whys.get(indexes, "other") == ""',
            "True",
        ),
        (
            "protobuf: the bytes behind the indexes are the message",
            "return read[1], reason",
            "return _PREFIX + 1, reason",
        ),
        ("protobuf: a large value is measured first", "self._sizes.check(data, self._most)", "pass"),
        (
            "protobuf: a required field is there",
            "REQUIRED if self._needs_check and not message.IsInitialized() else avro.FITS",
            "avro.FITS",
        ),
    ),
    *_of(
        "values/protobuf_columns.py",
        "tests/property/test_protobuf.py",
        (
            "protobuf: a field that is not there is null",
            "return lambda message: get(message) if message.HasField(name) else None",
            "return get",
        ),
        (
            "protobuf: unsigned numbers have a type for all of them",
            "(_UINT32, _FIXED32), (pa.int64()",
            "(_UINT32, _FIXED32), (pa.int32()",
        ),
    ),
    *_of(
        "values/protobuf_matching.py",
        "tests/unit/values/test_protobuf_scan.py",
        (
            "protobuf: a number of another type is refused",
            "raise _refuse(read, field, _NAMES",
            "continue\n                raise _refuse(read, field, _NAMES",
        ),
    ),
    *_of(
        "values/protobuf_files.py",
        "tests/unit/values/test_protobuf_scan.py",
        (
            "protobuf: indexes that are counted in two ways are refused",
            "if messages.get(indexes, name) != name",
            "if False",
        ),
    ),
    *_of(
        "values/protobuf_sizes.py",
        "tests/unit/values/test_protobuf_scan.py",
        (
            "protobuf: what a group holds is measured",
            "inside.append(field.message_type.fields_by_number if holds else {})",
            "inside.append(inside[-1])",
        ),
    ),
    *_of(
        "values/protobuf_text.py",
        "tests/unit/values/test_protobuf_scan.py",
        ("protobuf: a descriptor of an edition is refused", "_refuse_what_is_not_read(made)", "pass"),
    ),
    *_of(
        "values/json_meaning.py",
        "tests/unit/values/test_json.py tests/fuzz/test_json_fuzz.py",
        (
            "json: each value is one row",
            'if not np.array_equal(parsed["n"].to_numpy(), np.arange(len(values))):',
            "if False:",
        ),
        ("json: a list takes the memory of its items", "self._take(len(value) * of.parts[0].width)", "pass"),
        (
            "json: a batch has the memory of its columns",
            'int(np.searchsorted(takes, self._most, "right"))',
            "len(sizes)",
        ),
        (
            "json: a part that is not there is null",
            "        if value is None:\n",
            "        if value is None and not of.is_text:\n",
        ),
        ("json: a double is finite", "return found if _is_finite(found) else None", "return found"),
        ("json: text is UTF-8", 'text.encode("utf-8")', "pass"),
        ("json: a number of another type does not fit", "if type(value) is not int or not", "if not"),
    ),
    *_of(
        "spark/reader.py",
        "tests/unit/spark/test_reader.py",
        ("typed values in Spark: a small task needs no thread", "size >= _LEAST_AHEAD", "True"),
    ),
    *_of(
        "schema_registry/stream_schemas.py",
        "tests/spark/test_typed_values.py",
        ("typed stream: a restart keeps the schema of its checkpoint", "if before == now:", "if True:"),
    ),
    *_of(
        "values/avro_matching.py",
        "tests/unit/values tests/property/test_avro.py",
        (
            "avro: a record of another name is another type",
            "return not writer.name or _has_name(writer, reader)",
            "return True",
        ),
        (
            "avro: fixed values of another size are another type",
            'if writer.kind == "fixed" and writer.size != reader.size:',
            "if False:",
        ),
        (
            "avro: the same type comes before promotion",
            "if branch.kind == writer.kind and branch.name == writer.name and",
            "if",
        ),
        (
            "avro: milliseconds are those of the writer",
            'logical = writer.logical if "timestamp" in writer.logical else reader.logical',
            "logical = reader.logical",
        ),
    ),
    *_of(
        "schema_registry/registry.py",
        "tests/unit/values tests/unit/schema_registry",
        ("schemas: latest is a version that is not deleted", "if not version.is_deleted] or versions", "] or versions"),
        ("schemas: an id belongs to its context", "if of == context:", "if True:"),
        (
            "schemas: the first schema of an id counts",
            "first = made.by_id.setdefault((place.context, entry.schema.id), entry)",
            "first = made.by_id[place.context, entry.schema.id] = entry",
        ),
    ),
    *_of(
        "schema_registry/replay.py",
        "tests/unit/values tests/unit/schema_registry",
        ("schemas: a lost race of Redpanda does not count", "if key.sequence in (None, record.offset)]", "]"),
        ("schemas: a deleted subject has its later versions", "and place.version <= last:", ":"),
    ),
    *_of(
        "pruning/ranges.py",
        "tests/unit/pruning tests/unit/reading/test_data_loss.py tests/property/test_pruning.py",
        (
            "ranges: a segment is dropped only if the head of its time index is proven",
            "or not view.has_trusted_times:",
            "or False:",
        ),
        (
            "ranges: a manifest that reaches since drops nothing",
            "if stated is not None and stated < since:",
            "if stated is not None:",
        ),
        (
            "ranges: a segment is dropped only if no batch of its tail reaches since",
            "header.magic != kafka_format.MAGIC_V2 or header.max_timestamp >= since:",
            "header.magic != kafka_format.MAGIC_V2:",
        ),
        (
            "ranges: a last entry beyond the log says nothing of the tail",
            "    if last is None:\n        return None  # an",
            "    if False:\n        return None  # an",
        ),
        (
            "ranges: a segment before a gap is not dropped by its time index",
            "if latest is not None and not latest.hides_rows(view, bounds, gap_is_loss, has_copies):",
            "if latest is not None:",
        ),
        (
            "ranges: an end beyond the segment does not fill a gap",
            "if following is None or last.last_offset < following:",
            "if True:",
        ),
        (
            "ranges: an end beyond the segment is mended from another copy",
            "return (gap_is_loss or (has_copies and self.is_wrong)) and",
            "return gap_is_loss and",
        ),
        (
            "ranges: a message set in the tail proves nothing",
            "if header is None or header.magic != kafka_format.MAGIC_V2 or header.max_timestamp >= since:",
            "if header is None or header.max_timestamp >= since:",
        ),
        (
            "ranges: only an entry strictly below since says where to start",
            "slot = times.before(since)",
            "slot = times.before(since + 1)",
        ),
        (
            "ranges: an entry beyond the log is no place to start",
            "if next(view.headers_from(offset), None) is not None:",
            "if True:",
        ),
    ),
    *_of(
        "logdir/segment_view.py",
        "tests/unit/pruning tests/unit/reading/test_data_loss.py tests/property/test_pruning.py",
        (
            "ranges: a start position counts only if its batch begins at or before the offset",
            "if header is None or first_offset < header.base_offset:",
            "if header is None:",
        ),
        (
            "ranges: an end position counts only if its batch begins at or after the offset",
            "if header.base_offset >= end_offset and not may_have_risen(",
            "if not may_have_risen(",
        ),
        (
            "ranges: no batch before the first entry is later than it",
            "if header.max_timestamp > times.timestamps[0]:",
            "if False:",
        ),
    ),
    *_of(
        "batch_kinds.py",
        "tests/unit/pruning tests/property/test_until_and_cuts.py",
        ("disorder: a control batch is no witness", " & (attributes & kafka_format.CONTROL_MASK == 0)", ""),
        ("disorder: an empty batch is no witness", " & (count > 0)", ""),
    ),
    *_of(
        "pruning/disorder.py",
        "tests/unit/pruning tests/property/test_until_and_cuts.py",
        ("disorder: the scan ends D after until, not at until", "stop = times.until + disorder", "stop = times.until"),
        ("disorder: rows without a timestamp keep until from ending a scan", " or times.since < 0", ""),
        (
            "disorder: only a batch older than since - D settles what is before it",
            "<= header.max_timestamp < before:",
            "<= header.max_timestamp < before + 1:",
        ),
        ("disorder: a witness is proven by its CRC under checkCrcs=false too", ", strict=True)", ", strict=False)"),
    ),
    *_of(
        "zones/key_filters.py",
        _KEYS,
        ("key filters: a filter is of its zone's batches", "if header.identities == wanted:", "if True:"),
        ("key filters: a header has its checksum", 'seed != int.from_bytes(head[-8:], "little"):', "False:"),
        (
            "key filters: a row has its checksum",
            "if len(data) < group.row_bytes or _checksum(row, self.seed, position) != int.from_bytes(",
            "if len(data) < group.row_bytes or 0 > int.from_bytes(",
        ),
        ("key filters: a zone without a filter may hold any key", "[answer is not False for answer in known]", "known"),
        ("key filters: a filter that is none holds any key", "= self.counts == NO_FILTER", "= self.counts == -1"),
    ),
    *_of(
        "zones/key_making.py",
        _KEYS,
        ("key filters: a key is in the filter of its own zone", "if cell != self._present:", "if self._present < 0:"),
        ("key filters: too many keys make no filter", "< count * LEAST_BITS:", "< 0:"),
    ),
    *_of(
        "zones/updates.py",
        _KEYS,
        (
            "key filters: filters of zones that stay are kept",
            "to_bytes([*stay, *mapped.filters])",
            "to_bytes(mapped.filters)",
        ),
    ),
    *_of(
        "zones/update_plan.py",
        _KEYS,
        ("key filters: a zone stays only with its filter", "if all(with_filter):", "if True:"),
    ),
    *_of(
        "kernels/keys.py",
        _KEYS,
        (
            "keys: the hash is of the key's bytes",
            "hashes[count] = _xxh64(src, np.int64(ints[record_batches.KEY_AT, i]), length)",
            "hashes[count] = _xxh64(src, np.int64(ints[record_batches.VALUE_AT, i]), length)",
        ),
        ("keys: each byte of a key counts", "if same == length:", "if same > 0 or length == 0:"),
        ("keys: a key of another length is another key", "if places[number + 1] - start == length:", "if True:"),
    ),
    *_of(
        "decoding/batches.py",
        "tests/unit/decoding/test_damage.py",
        (
            "damage: a length that ends where a later batch begins may cover others",
            "self._search.find_swallowed(position, end) or end)",
            "end)",
        ),
    ),
    *_of(
        "decoding/records.py",
        "tests/unit/test_key_option.py",
        ("keys: what is damage beside a key is damage", "if damage is not None:", "if False:"),
    ),
    *_of(
        "values/typed_rows.py",
        "tests/unit/test_key_option.py",
        ("keys: a control record has no typed key", "data_only=content.include_control", "data_only=False"),
    ),
    *_of(
        "frames/dataset.py",
        "tests/unit/test_key_option.py",
        (
            "keys: a typed key is not its stored bytes",
            "keeps_bytes = self.options.formats.key in FORMATS_OF_TEXT",
            "keeps_bytes = True",
        ),
    ),
    *_of(
        "spark/pushdown.py",
        "tests/unit/spark",
        (
            "keys: a typed key pushed by Spark is not its stored bytes",
            "STRING: str}",
            'STRING: str, "avro": str, "json": str, "auto": str}',
        ),
    ),
    *_of(
        "internal_topics/share_records.py",
        "tests/unit/internal_topics/test_share_offsets.py",
        (
            "share groups: an update without a start keeps the one before",
            "start_offset=self.start_offset if update.start_offset is None else update.start_offset",
            "start_offset=update.start_offset",
        ),
        (
            "share groups: the count is that of the newest record",
            "delivery_complete_count=update.delivery_complete_count,",
            "delivery_complete_count=update.delivery_complete_count or self.delivery_complete_count,",
        ),
    ),
    *_of(
        "internal_topics/share_offsets.py",
        "tests/unit/internal_topics/test_share_offsets.py",
        ("share groups: a tombstone removes a state", "latest.pop(key, None)", "pass"),
    ),
    *_of(
        "spark/limit.py",
        "tests/unit/spark/test_limit.py",
        ("limit: the task has the splits behind the proof too", "return (plan.splits,)", "return (plan.splits[:1],)"),
        ("limit: batches outside the bounds prove nothing", "if not is_inside or (", "if ("),
        ("limit: a task reads no more than was asked for", "limit -= batch.num_rows", "pass"),
        ("limit: a key may be nowhere", " or options.content.keys is not None", ""),
    ),
    *_of(
        "spark/reader.py",
        "tests/unit/spark/test_limit.py",
        ("limit: none is taken under a filter", "if self._has_filters:", "if False:"),
    ),
    *_of(
        "spark/remembered.py",
        "tests/unit/spark",
        (
            "keys: a plan reads the keys of every filter before it",
            "super().push(_hull_of_filters(self._filters))",
            "super().push(new)",
        ),
    ),
    *_of(
        "frames/predicates.py",
        "tests/unit/test_frames.py tests/property/test_predicates.py",
        (
            "keys: no key between the literals may pass",
            "if any(_ask(predicate, schema, others)):",
            "if False:",
        ),
    ),
    *_of(
        "frames/polars_frame.py",
        "tests/property/test_predicates.py",
        ("keys: either side of an OR may pass", "return unite_sets(", "return intersect_sets("),
    ),
    *_of(
        "logdir/producer_snapshots.py",
        "tests/unit/reading/test_committed.py",
        (
            "transactions: two snapshots that contradict each other are not used",
            "if from_before <= transactions.items():",
            "if True:",
        ),
    ),
    *_of(
        "zones/pruning.py",
        "tests/unit/zones tests/unit/reading/test_data_loss.py tests/property/test_zone_maps.py",
        (
            "zones: the first batch of a run must be where the map has it",
            "if head is None or [head.base_offset, head.crc] != expected:",
            "if head is None:",
        ),
        (
            "zones: the last batch of a run must have its leader epoch",
            "tail.crc, tail.leader_epoch, tail.end] ==",
            "tail.crc, int(zones[zone_table.LAST_EPOCH, last]), tail.end] ==",
        ),
        (
            "zones: the last batch of a run must have its CRC",
            "[tail.last_offset, tail.crc,",
            "[tail.last_offset, int(zones[zone_table.LAST_CRC, last]),",
        ),
        (
            "zones: the end of a segment before a gap is read",
            "if shows_loss_at_end and _leaves_gap(view.segment, zones, last_zone, byte_range):",
            "if False:",
        ),
        (
            "zones: a piece sees the batch before one in doubt",
            "return start if is_borne_out else tail_at",
            "return start",
        ),
        (
            "zones: a row at since is wanted",
            "zones[zone_table.MAX_TIMESTAMP] >= times.since",
            "zones[zone_table.MAX_TIMESTAMP] > times.since",
        ),
    ),
    *_of(
        "transactions/committed.py",
        _TRANSACTIONS,
        (
            "transactions: a marker behind damage decides nothing",
            "fates[(next_gap < kafka_format.MAX_OFFSET) & (next_gap <= next_marker)] = UNKNOWN",
            "",
        ),
        (
            "transactions: an undecided batch is withheld",
            "keep[data] = fates == COMMITTED",
            "keep[data] = fates != ABORTED",
        ),
        (
            "transactions: nothing is asked about rows outside the bounds",
            "is_transactional_data(chunk.headers) & self._find_wanted(chunk.headers)",
            "is_transactional_data(chunk.headers)",
        ),
        (
            "transactions: without a marker a segment is missing",
            "if fate == OPEN:",
            "if False:",
        ),
        (
            "transactions: markers read ahead count only if the batches are still in the log",
            "            self._file.confirm()\n",
            "            pass\n",
        ),
    ),
    *_of(
        "views/transaction_walk.py",
        "tests/unit/views/test_transactions.py tests/simulation/test_simulation.py",
        (
            "transactions: the view walks again where a file was replaced",
            "            yield _CHANGED\n",
            "            pass\n",
        ),
        (
            "transactions: a gap behind the seam of two copies may have held the marker of what began before it",
            "            yield after._replace(gaps=(replay.seam, *after.gaps))\n",
            "            yield after\n",
        ),
    ),
    *_of(
        "views/transaction_replay.py",
        "tests/unit/views/test_transactions.py tests/simulation/test_simulation.py",
        (
            "transactions: what is open before a gap has ended",
            "if transaction.first_offset < self._last_gap:",
            "if False:",
        ),
        (
            "transactions: a wrapper of magic 0 or 1 shows no gap",
            "gaps = ends[is_v2 & (",
            "gaps = ends[(",
        ),
        (
            "transactions: what has ended before the view walks again is no row twice",
            "marker.offset >= max(self._task.start, self._shown_to)",
            "marker.offset >= self._task.start",
        ),
    ),
    *_of(
        "transactions/markers.py",
        _TRANSACTIONS,
        (
            "transactions: other control records end nothing",
            "if kind in (kafka_format.CONTROL_ABORT, kafka_format.CONTROL_COMMIT):",
            "if True:",
        ),
    ),
    *_of(
        "transactions/walk.py",
        _TRANSACTIONS,
        (
            "transactions: where a copy goes on after another, a gap may have held the marker",
            "yield stretch if void is None else stretch._replace(gaps=(*stretch.gaps, void))",
            "yield stretch",
        ),
    ),
    *_of(
        "transactions/producers.py",
        _TRANSACTIONS,
        (
            "transactions: what is open before missing offsets does not end the log",
            "            del self.open[producer_id]\n",
            "            pass\n",
        ),
    ),
    *_of(
        "partition/chain.py",
        "tests/unit/partition",
        ("chain: directories of two topics of one name are not one log", "if one != other:", "if False:"),
        (
            "chain: a hole between copies is said",
            "holes=tuple(holes),",
            "holes=(),",
        ),
        (
            "chain: a copy without a batch that begins behind the others shows that the log went on",
            "holes += [] if compacted else _find_hole_behind(copies, copies[last.copy])",
            "pass",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/property/test_hurt_copies.py",
        (
            "chain: but one that lies at a wrong place explains no batch that has lost records",
            "if not is_damage and (not is_moved or copy.has_batches_in(lacking)):",
            "if not is_damage and not is_moved:",
        ),
    ),
    *_of(
        "partition/holding.py",
        _REPLICAS,
        (
            "copies: a gap before a last batch, whose offset nothing proves, takes nothing from other copies",
            "end, gap = copy.tail.end, copy.unproven_gap or OffsetRange(copy.tail.end, copy.tail.end)",
            "end, gap = copy.tail.end, OffsetRange(copy.tail.end, copy.tail.end)",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "chain: what a file lacks before its first batch does not count against the others in it",
            "held = (OffsetRange(first, end), _rate_density(copy, segment, end, differing, start=first))",
            "held = (OffsetRange(first, end), _rate_density(copy, segment, end, differing))",
        ),
        (
            "chain: nor does it in a last file",
            "_rate_density(copy, segment, end, differing, start=gap.end if first == gap.start else first)",
            "_rate_density(copy, segment, end, differing)",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition",
        (
            "chain: of copies that both lack records, the one with fewer bytes holds the same offsets less well",
            "elif is_lacking and most < largest:",
            "elif False:",
        ),
        (
            "chain: so it does beside a whole copy that ends early",
            "holding = min(holding, THIN if other.copy.log.compacted else THINNER)",
            "holding = THIN",
        ),
        (
            "chain: beside a marked copy, fewer bytes may be those of a batch that moved",
            "holding = min(holding, THIN if other.copy.log.compacted else THINNER)",
            "holding = THINNER",
        ),
        (
            "chain: but a copy that has a record for every offset is whole, whatever the cleaner of the other one wrote",
            "is_lacking = _lacks_records(copy, common, knows_old=most >= least)",
            "is_lacking = most < least",
        ),
        (
            "chain: a copy with more bytes than a whole one may lack records",
            "if is_lacking and not _lacks_records(other.copy, common):",
            "if is_lacking and most < largest and not _lacks_records(other.copy, common):",
        ),
        (
            "chain: what damage left of a batch is not what compaction left",
            "is_damage = any(gap.start <= lacking.start and lacking.end <= gap.end for gap in gaps)",
            "is_damage = False",
        ),
        (
            "chain: nor is a batch that lies at a wrong place",
            "if not is_damage and (not is_moved or copy.has_batches_in(lacking)):",
            "if not is_damage:",
        ),
        (
            "chain: of batches of magic 0 and 1, bytes alone tell",
            "knows_old=most >= least)",
            "knows_old=True)",
        ),
        (
            "chain: bytes of later offsets do not explain damage",
            "if all(_lacks(other, reached) for other in others):",
            "if False:",
        ),
        (
            "chain: damage at the end of a copy is not hidden by the choice",
            "            return *before_end, (OffsetRange(tail.end), DAMAGED)\n",
            "            pass\n",
        ),
    ),
    *_of(
        "partition/chain.py",
        _IN_DOUBT,
        (
            "doubt: a batch in a file that the plan does not read is a loss, in a compacted log too",
            "holes += _find_misplaced(copies, near)",
            "holes += [] if compacted else _find_misplaced(copies, near)",
        ),
    ),
    *_of(
        "partition/twins.py",
        _IN_DOUBT,
        (
            "doubt: a batch in doubt of a later epoch contradicts the batches of another copy",
            "if _are_replaced_by(batch, [other for other in others if not other.has_lost])",
            "if False",
        ),
        (
            "doubt: a batch of an earlier epoch does not make up for one that was left out",
            "other.has_batches_in(stated) and not has_earlier_epoch(other, batch) for",
            "other.has_batches_in(stated) for",
        ),
    ),
    *_of(
        "partition/twins.py",
        _IN_DOUBT,
        (
            "doubt: a last batch behind damage contradicts another copy too",
            "for batch in (last, copy.header_behind()) if",
            "for batch in (copy.header_behind(),) if",
        ),
        (
            "doubt: so does a batch behind damage in an earlier file",
            "enumerate(surveyed.faults[:-1]) if fault is not None]",
            "enumerate(surveyed.faults[:-1]) if False]",
        ),
    ),
    *_of(
        "decoding/split.py",
        _GAPS,
        (
            "gaps: other copies are asked for what is missing between two batches",
            "asks_in_gaps=parent_of(segment.path) in log.unmarked if log.unmarked else False,",
            "asks_in_gaps=False,",
        ),
        (
            "gaps: a copy that is marked as compacted asks nobody",
            "asks_in_gaps=parent_of(segment.path) in log.unmarked if log.unmarked else False,",
            "asks_in_gaps=bool(log.copies),",
        ),
    ),
    *_of(
        "decoding/split_file.py",
        _GAPS,
        (
            "gaps: the gap before the batch behind the last wanted one is asked for too",
            "self._ask_before(self._reader.next_base)",
            "pass",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        _GAPS,
        (
            "gaps: a wanted batch behind a gap that nobody wants may be wrong",
            "is_wanted = (last >= wanted.start) & (expected < wanted.end)",
            "is_wanted = (base > wanted.start) & (expected < wanted.end)",
        ),
    ),
    *_of(
        "reading/mending.py",
        "tests/unit/partition/test_whole_beside_thinned.py",
        (
            "copies: not what compaction has left of it there",
            "same = [one for one in known if extent.holding == THIN and has_batch(surveyed_file, one)]",
            "same = [one for one in known if extent.holding == THIN]",
        ),
    ),
    *_of(
        "reading/mending.py",
        _GAPS,
        (
            "gaps: the batches on either side of a gap are looked at",
            "around = wanted if gap is None else _with_batches_beside(wanted, gap.gap)",
            "around = wanted",
        ),
        (
            "gaps: what a copy has is read from it, wherever others have more",
            'surveyed.preferred = "" if gap is None else gap.path',
            'surveyed.preferred = ""',
        ),
        (
            "gaps: a wrong batch that was read before, or in another piece of a segment, is said",
            "if (inside := offsets.intersect(read)) != inside.intersect(self._wanted)",
            "if False",
        ),
    ),
    *_of(
        "partition/divergence.py",
        _REPLICAS,
        (
            "contests: what bears a left-out batch out is used too",
            "if header.last_offset + 1 >= its_end or not",
            "if header.base_offset >= its_end or not",
        ),
    ),
    *_of(
        "logdir/probe.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a header has its place but for one bit",
            "if wrong_bits > 1 or",
            "if wrong_bits > 0 or",
        ),
    ),
    *_of(
        "logdir/probe.py",
        _REPLICAS,
        (
            "contests: another one of the offsets that are missing may be right",
            "first < header.base_offset < offsets.end:",
            "False:",
        ),
    ),
    *_of(
        "partition/orphans.py",
        _REPLICAS,
        (
            "missing: what a file without bytes had is named as far as its index goes",
            "end = min(latest + 1, _find_end_offset(log, len(starts) - 1))",
            "end = min(latest + 1, _find_end_offset(log, slot - 1))",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: older formats state no epoch",
            "if known is None or known.magic == MAGIC_V2:",
            "if True:",
        ),
        (
            "contests: no epoch lies below -1",
            "(last := self.last_batch) is not None and last.leader_epoch < UNKNOWN",
            "(last := self.last_batch) is not None and False",
        ),
    ),
    *_of(
        "partition/copy_tail.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: zeros before what is left of a batch are no preallocated room",
            "is_clean = surveyed.faults[-1] is None and not",
            "is_clean = not",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a damaged header is that of its twin but for one bit",
            "bit_count() <= 1",
            "bit_count() < 1",
        ),
        (
            "contests: a batch that the end of the file cuts has a twin too",
            "if segment.is_last:  # a batch that the end of the file cuts was not left out",
            "if False:",
        ),
    ),
    *_of(
        "partition/foreign_segments.py",
        "tests/unit/partition/test_foreign_segments.py",
        (
            "foreign: a batch that reaches over the begin of an epoch is compared",
            "return batch.base_offset == offset or (not batch.is_wrapper and batch.base_offset <= offset <= batch.last_offset)",
            "return batch.base_offset == offset",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "histories: without compaction a copy begins with its first batch",
            "    return max(copy.start, copy.first_offset_of(first))\n",
            "    return copy.start\n",
        ),
        (
            "histories: with compaction a copy begins with its file's name",
            "if first is None or copy.has_compacted_topic:",
            "if first is None:",
        ),
    ),
    *_of(
        "partition/left_out_batches.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "contests: a batch that was left out has the offsets that it states",
            "batches = [stray.batch for stray in strays if stray.batch.position != header.position]",
            "batches = []",
        ),
        (
            "contests: the file before has what a file's name leaves out",
            "if before is not None and before.size and surveyed.first_from(header.base_offset) == 0:",
            "if False:",
        ),
        (
            "contests: the file before bears out the epoch of a first batch",
            "before = surveyed.header(at - 1) if at else copy.batch_at(base_offset - 1)",
            "before = surveyed.header(at - 1) if at else None",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "twins: a copy whose history lost has what lies below",
            "is_stale = copy.has_lost and batch.base_offset >= copy.log.offsets.end",
            "is_stale = copy.has_lost",
        ),
        (
            "twins: a copy whose history lost holds nothing that a name hides",
            "is_behind = batch.base_offset >= segment.span.end  # no read of the segment meets it",
            "is_behind = False",
        ),
    ),
    *_of(
        "partition/left_out_batches.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a whole batch has its place where just as many offsets are missing",
            "if held == place.gap else None",
            "if False else None",
        ),
        (
            "contests: not where other bytes lie there too",
            "or whole.magic != MAGIC_V2 or whole.end != place.end:",
            "or whole.magic != MAGIC_V2:",
        ),
        (
            "contests: the last offset of a damaged batch may be what is damaged",
            "return header if is_certain else",
            "return header if True else",
        ),
        (
            "contests: a damaged batch has its place if its header states the next offset",
            "if whole is None and header is not None:",
            "if False:",
        ),
        (
            "contests: the batches around a left-out one bear out its epoch",
            "least <= header.leader_epoch <= after.leader_epoch",
            "True",
        ),
        (
            "contests: so does the first batch of the next file",
            "else copy.batch_at(surveyed.segment.span.end)",
            "else None",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: what an earlier leader wrote is no copy of a batch that was left out as damage",
            "for header in find_left_out_batches(stating):",
            "for header in ():",
        ),
        (
            "contests: a batch behind damage of its copy is compared too",
            "batch = next(bare.batches_in(OffsetRange(header.base_offset, header.last_offset + 1)), None)",
            "batch = bare.batch_at(header.base_offset)",
        ),
        (
            "contests: of one batch with two epochs, the epoch is what is damaged",
            "or batch.crc == header.crc:",
            "or False:",
        ),
    ),
    *_of(
        "partition/doubts.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a line that a later leader contradicts is no doubt",
            "_has_later_leader(third, other) and _has_end_of(third, copy) for third in copies if third is not copy",
            "False for third in copies",
        ),
        (
            "contests: it contradicts it if it has what the copy ends with",
            "0 <= batch.leader_epoch == last.leader_epoch",
            "True",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a damaged end is asked beside a last batch in doubt",
            "if (behind := copy.find_epoch_behind()) != UNKNOWN:",
            "if (behind := copy.find_epoch_behind()) != UNKNOWN and not may_lack_epoch(copy):",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: an epoch that its own line and the other copy contradict decides nothing",
            "is_wrong = is_same and batch.leader_epoch != other.leader_epoch == stated",
            "is_wrong = False",
        ),
    ),
    *_of(
        "reading/damaged_batches.py",
        "tests/unit/partition/test_contests.py",
        (
            "mending: behind the last batch of a survey, damage ends where the next sound batch begins",
            "is_end = batch.end == place.end or (_is_at_the_end(place, surveyed_file) and view.probe.proven(batch.end))",
            "is_end = batch.end == place.end",
        ),
        (
            "mending: offsets that were not surveyed do not count against a damaged batch",
            "batch.last_offset + 1).intersect(surveyed_file.offsets) == extent.offsets",
            "batch.last_offset + 1) == extent.offsets",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        _GAPS,
        (
            "gaps: a batch that another copy has at another offset is wrong",
            "if not is_twice:",
            "if False:",
        ),
        (
            "gaps: of two batches with other ends, the one behind a gap is wrong",
            "are_borne_out = [_is_borne_out(batch, surveys) for batch in pair]",
            "are_borne_out = [True, True]",
        ),
        (
            "gaps: two batches of one epoch with other ends contradict each other",
            "differs = has_other & (their_base <= last) & is_known & (has_other_ends | (has_other_epoch & (crc != their_crc)))",
            "differs = has_other & (their_base <= last) & is_known & has_other_epoch & (crc != their_crc)",
        ),
        (
            "gaps: the gap before a wrong batch is no work of compaction",
            "return OffsetRange(self.gap.start, self.offsets.end)",
            "return self.offsets",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        _GAPS,
        (
            "gaps: a batch that a third copy has at its place is right",
            "return batch.follows or any(beside.has(batch.header) for beside in surveys if beside is not batch.surveyed)",
            "return batch.follows",
        ),
    ),
    *_of(
        "partition/strays.py",
        _GAPS,
        (
            "over: a batch that is there twice may lie over one that no copy has",
            "is_torn = is_torn or is_over or (end < place.end and place.gap.is_empty)",
            "is_torn = is_torn or (end < place.end and place.gap.is_empty)",
        ),
    ),
    *_of(
        "partition/holding.py",
        _GAPS,
        (
            "over: so may one that another file of the copy has",
            "is_over = _has_other_batches_behind(copy, others)",
            "is_over = False",
        ),
        (
            "over: nothing says how long a last file without a batch of its own was",
            "if is_foreign and is_over:",
            "if False:",
        ),
    ),
    *_of(
        "partition/survey.py",
        _GAPS,
        (
            "over: a gap is no work of compaction where bytes are left of a batch",
            "unexplained = None if self.log.compacted else self._find_unexplained()",
            "unexplained = None",
        ),
    ),
    *_of(
        "inspection/copies.py",
        _GAPS,
        (
            "gaps: verify reads copies with gaps as a query does",
            "asks_in_gaps = not log.compacted and any(copy.has_gaps for copy in copies)",
            "asks_in_gaps = False",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "seams: batches from below the start of a copy lie over its own",
            "return is_foreign or any(map(copy.has_at_its_place, behind))",
            "return any(map(copy.has_at_its_place, behind))",
        ),
    ),
    *_of(
        "views/transaction_walk.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "seams: view=transactions knows no end where damage may hide it at the end of a file",
            "if follower.was_mended and has_hidden_end(split, replay.reached):",
            "if False:",
        ),
    ),
    *_of(
        "partition/holding.py",
        _SEAMS,
        (
            "seams: a first file of no bytes is still a file of its copy",
            "foreign = [batch for batch in behind if batch.last_offset < copy.log.segments[0].base_offset]",
            "foreign = [batch for batch in behind if batch.last_offset < copy.start]",
        ),
    ),
    *_of(
        "partition/chain.py",
        _SEAMS,
        (
            "seams: a copy that begins with bytes and no whole batch has lost them",
            "holes += _find_torn_starts(copies, chosen[0][1].start)",
            "pass",
        ),
        (
            "seams: a torn end before the start of the next copy is a loss, in a compacted log too",
            "if is_torn or not compacted:",
            "if not compacted:",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        _SEAMS,
        (
            "seams: a time may stand for an offset of a hole between two copies",
            "if hole is not None:",
            "if False:",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/partition/test_missing.py",
        (
            "emptied file: a time may stand for one of its offsets",
            "gone = [offset for offset in gone if below <= offset < start]",
            "gone = []",
        ),
    ),
    *_of(
        "reading/mending.py",
        _SEAMS,
        (
            "seams: a gap before a last batch that another copy fills in part is no work of compaction",
            "return is_inside and isinstance(lost.error, DataLossError) and not is_filled",
            "return is_inside and isinstance(lost.error, DataLossError)",
        ),
        (
            "gaps: what no copy has is no loss",
            "pieces += [held] if is_wanted and not (gap is not None and surveyed.is_known_gap(held)) else []",
            "pieces += [held] if is_wanted else []",
        ),
        (
            "seams: all gaps of a copy that is asked for one may be of compaction",
            "is_inside = any(lost.offsets.end <= file.batches[batch_headers.BASE_OFFSET, -1] for _, file in own)",
            "is_inside = False",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        _SEAMS,
        (
            "seams: of one batch at two offsets, the one with fewer gaps beside it is right",
            "for batch, twin in _choose_worse(pair, [_weigh(batch, surveys) for batch in pair]):",
            "for batch, twin in (pair, pair[::-1]):",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        "tests/unit/partition/test_conflicts.py",
        (
            "doubt: of batches of two leaders none is right because it follows the one before it",
            "if pair[0].header.leader_epoch != pair[1].header.leader_epoch:",
            "if False:",
        ),
        (
            "twins: batches without records may be alike",
            "(their_size[twins] == size) & (record_counts(one.batches) > 0)",
            "(their_size[twins] == size)",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        _SEAMS,
        (
            "seams: an index that ends behind its file bears out nothing",
            "if last is not None and last + 1 == self.next_offset:",
            "if last is not None and self.next_offset is not None and last + 1 >= self.next_offset:",
        ),
    ),
    *_of(
        "partition/twins.py",
        _SEAMS,
        (
            "seams: a batch at one place of two files is there twice",
            "is_other_file = copy.segment_of(batch.base_offset) != segment",
            "is_other_file = False",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "seams: a batch that moved may be anywhere in another copy",
            "for offsets in (OffsetRange(segment.base_offset), below)",
            "for offsets in (OffsetRange(segment.base_offset),)",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "seams: where the place of a batch is read, the other copies are asked for it",
            "yield from _find_of_other_segment(own, segment, moved, others, None if is_given else merge)",
            "yield from _find_of_other_segment(own, segment, moved, others, merge)",
        ),
        (
            "seams: a batch that moved, and states what another one has, may belong into a gap of its size",
            "yield from (gap for gap in gaps if not _is_known(gap, known))",
            "pass",
        ),
    ),
    *_of(
        "transactions/walk.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "seams: a gap behind damage of the copy with the rows, of which another one has nothing, may hide their marker",
            "may_lack = mended_at >= 0",
            "may_lack = False",
        ),
        (
            "seams: so may one at the end of a part with damage",
            "if mended_at >= 0 and has_hidden_end(split, reached):",
            "if False:",
        ),
    ),
    *_of(
        "transactions/voids.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "seams: a gap that the copy with the rows does not explain may hide their marker",
            "return next((void.start for void in voids if is_believed or not self._is_sound_around(void)), None)",
            "return None",
        ),
        (
            "seams: a gap where the copy with the rows is sound, and has nothing, hides no marker",
            "return next((void.start for void in voids if is_believed or not self._is_sound_around(void)), None)",
            "return next((void.start for void in voids), None)",
        ),
        (
            "seams: so may a gap before the way back to that copy",
            "since = reached if self._is_away() or self._is_back else stretch.void",
            "since = reached if self._is_away() else stretch.void",
        ),
        (
            "seams: nothing explains offsets where no batch follows in the same file",
            "return following is not None and following.base_offset >= gap.end",
            "return following is None or following.base_offset >= gap.end",
        ),
    ),
    *_of(
        "inspection/copies.py",
        _SEAMS,
        (
            "seams: verify takes a gap for compaction where a read does",
            "may_be_compaction = asks_in_gaps and all(loss.is_missing for loss in losses)",
            "may_be_compaction = asks_in_gaps and not losses",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        _IN_DOUBT,
        (
            "doubt: a mended read has no batch whose offsets another copy gives to another leader",
            "if relate_places(copy, batch.header, other_copy, twin.header) == DIFFERENT:",
            "if False:",
        ),
    ),
    *_of(
        "partition/conflicts.py",
        "tests/property/test_replica_sets.py",
        (
            "doubt: a wrong epoch alone is no conflict",
            "if relate_places(copy, batch.header, other_copy, twin.header) == DIFFERENT:",
            "if True:",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        _IN_DOUBT,
        (
            "doubt: a moved batch of another part of its file is lost",
            "yield from _find_of_other_part(split, own, moved, merge)",
            "pass",
        ),
    ),
    *_of(
        "reading/mending.py",
        _IN_DOUBT,
        (
            "doubt: rows that compaction took from the copy that is read instead are named",
            "if thinned else []",
            "if False else []",
        ),
    ),
    *_of(
        "partition/copy_tail.py",
        _IN_DOUBT,
        (
            "doubt: a last batch lies at or above the name of its file",
            "if header is None or not segment.base_offset <= header.base_offset <= header.last_offset < limit:",
            "if header is None or header.last_offset >= limit:",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/property/test_lost_segments.py",
        (
            "loss: an index entry inside a batch does not bear out its offset",
            "if last is not None and last + 1 == self.next_offset:",
            "if last is not None and last >= self._last_base:",
        ),
        (
            "loss: the gap before the only batch of a split shows no compaction either",
            "or (is_behind_gap and is_borne_out)",
            "or is_behind_gap",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/unit/reading/test_data_loss.py tests/unit/partition/test_copy_chain.py",
        (
            "loss: offsets missing before the next segment are an error",
            "or self._has_old_formats or gap.is_empty:",
            "or True:",
        ),
        (
            "loss: the gap before the last batch of a segment shows no compaction",
            "return None if is_compaction else gap",
            "return None if self._is_behind_gap else gap",
        ),
        (
            "loss: an index entry bears out the last batch of a segment",
            "return None if is_compaction else gap",
            "return gap",
        ),
        (
            "loss: a gap counts after a split that starts late in its segment too",
            "if split.start > 0 and self._has_gaps_before(file):",
            "if split.start > 0:",
        ),
    ),
    *_of(
        "kernels/arrow_buffers.py",
        "tests/property/test_row_builder.py",
        ("rows: what comes before the first null is not null", "validity[: row >> 3] = 0xFF", "pass"),
    ),
    *_of(
        "kernels/record_rows.py",
        "tests/property/test_row_builder.py",
        ("rows: the first timestamp beyond microseconds is told", "elif made[BEYOND_BATCH] < 0:", "else:"),
    ),
    *_of(
        "kernels/block_codecs.py",
        "tests/property/test_block_codecs.py",
        (
            "lz4: a short match begins inside the block",
            "count < 15 and offset <= op - begin:",
            "count < 15 and offset <= op:",
        ),
        (
            "lz4: any match begins inside the block",
            "if offset == 0 or offset > op - begin:",
            "if offset == 0 or offset > op:",
        ),
        ("lz4: a match has a distance", "if offset == 0 or offset > op - begin:", "if offset > op - begin:"),
        ("lz4: a block has 64 KiB at most", "or count > room - op:", "or count > dst.shape[0] - op:"),
        ("lz4: a block ends in literals", "if end - at <= _LAST_LITERALS or", "if"),
        ("lz4: what a batch may have counts", "if op < 0 or op - begin > limit:", "if op < 0:"),
        (
            "snappy: a copy begins inside the block",
            "offset > op - begin or count > stop - op:",
            "offset > op or count > stop - op:",
        ),
        ("snappy: the plain length is that of the block", "return op if op == stop else", "return op if op > 0 else"),
        ("snappy: what a batch may have counts", "or size > limit or", "or"),
        ("codecs: there is enough after a group", "and used < enough:", "and True:"),
    ),
    *_of(
        "decoding/memory_blocks.py",
        "tests/property/test_row_builder.py",
        ("rows: memory that a row refers to is not used again", "base=self)", "base=None)"),
    ),
    *_of(
        "kernels/batch_proof.py",
        "tests/property/test_kernels.py tests/unit/decoding/test_damage.py",
        (
            "proof: a batch with a wrong CRC is not in order",
            "if bad[b] or table[",
            "if table[",
        ),
        (
            "proof: only offsets that follow each other are in order",
            "!= before + 1 or",
            "< before + 1 or",
        ),
        (
            "proof: no offset may reach the next segment",
            "table[batch_headers.LAST_OFFSET, b] >= limit",
            "table[batch_headers.LAST_OFFSET, b] > limit",
        ),
    ),
    *_of(
        "kernels/batch_rules.py",
        "tests/unit/reading/test_data_loss.py tests/unit/partition/test_copy_chain.py",
        (
            "loss: skipped damage is no sign of compaction",
            "elif follows and base > next_offset:",
            "elif base > next_offset:",
        ),
    ),
    *_of(
        "kernels/batch_rules.py",
        "tests/property/test_header_rules.py",
        ("order: a batch that jumps over the next one is wrong", "or last >= limit or jumped)", "or last >= limit)"),
        (
            "selection: a wrapper states only its last offset",
            "> bounds[record_batches.LAST_OFFSET] and not is_wrapper",
            "> bounds[record_batches.LAST_OFFSET]",
        ),
        (
            "selection: only LogAppendTime has a lower bound of timestamps",
            "if latest > bounds[record_batches.LAST_TIMESTAMP] and is_append_time",
            "if latest > bounds[record_batches.LAST_TIMESTAMP]",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/unit/partition/test_survey.py",
        (
            "chain: the end of an old format's file is unknown, not void",
            "return UNKNOWN if source.is_end_undecided else VOID",
            "return VOID",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/unit/partition/test_missing.py",
        (
            "chain: an emptied file of a compacted copy is damage, not compaction",
            "emptied = None if segment.size or segment.is_last else _find_emptied(segment)",
            "emptied = None",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition/test_compacted_replicas.py",
        (
            "chain: bytes of a compacted copy do not say where a torn end begins",
            "return highest < offset",
            "return True",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/property/test_hurt_copies.py",
        (
            "chain: a batch at the torn end of a copy counts only at an offset that the segment can hold",
            "            if header.base_offset < limit:\n                highest",
            "            if True:\n                highest",
        ),
    ),
    *_of(
        "partition/doubts.py",
        "tests/unit/partition/test_seams.py",
        (
            "doubt: two batches that contradict their own line are no wrong epoch",
            "is_old = has_old_end(copy) and _has_old_batch_before(copy)",
            "is_old = False",
        ),
        (
            "doubt: a last batch that its own line does not have is replaced by one that the line means",
            "if is_old or (is_unnoted(copy) and _is_replaced(copy, copies)):",
            "if is_old:",
        ),
        (
            "doubt: nor does one that is not used count",
            "if last is None or last.base_offset >= copy.end:",
            "if last is None:",
        ),
        (
            "doubt: only where they are used",
            "if batch is None or batch.base_offset >= copy.end:",
            "if batch is None:",
        ),
        (
            "doubt: entries behind the last batch show that a leader wrote something",
            "latest.append(view.find_last_indexed())",
            "latest.append(None)",
        ),
    ),
    *_of(
        "logdir/segment_view.py",
        "tests/unit/partition/test_seams.py",
        (
            "loss: entries into zeros lead behind the log too",
            "found = inside[-1:].tolist()",
            "found = []",
        ),
    ),
    *_of(
        "logdir/index_entries.py",
        "tests/unit/partition/test_seams.py",
        (
            "loss: entries behind the log that are not in order say nothing",
            "return offsets if keep_offset_order(offsets, positions, last_offset, last_position).all() else offsets[:0]",
            "return offsets",
        ),
    ),
    *_of(
        "logdir/cut_segments.py",
        "tests/unit/reading/test_cut_segments.py",
        (
            "cut: an index that leads behind the end of a segment shows what is lost",
            "if not behind or not end <= behind[-1] < limit:",
            "if True:",
        ),
        (
            "cut: the index of files that the cleaner put together says nothing of the first of them",
            "if not behind or not end <= behind[-1] < limit:",
            "if not behind or not end <= behind[-1]:",
        ),
        (
            "cut: an entry of an offset that is there shows no loss, wherever it leads",
            "if not behind or not end <= behind[-1] < limit:",
            "if not behind or not behind[-1] < limit:",
        ),
        (
            "cut: the last entry inside must lead to a batch",
            "is_own = _leads_to_batch(entries, probe) if len(entries) else",
            "is_own = True if len(entries) else",
        ),
        (
            "cut: without an entry inside, the time index must lead behind the end too",
            "if len(entries) else has_time",
            "if len(entries) else True",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/unit/reading/test_cut_segments.py",
        (
            "cut: a segment that was cut is no error where no lost offset is wanted",
            "not split.index_size or self._find_wanted_behind().is_empty:",
            "not split.index_size:",
        ),
    ),
    *_of(
        "pruning/ranges.py",
        "tests/unit/reading/test_cut_segments.py",
        (
            "cut: the headers of a segment that was cut do not say what is newest in it",
            "and not newest.is_cut(view, bounds)",
            "",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/reading/test_cut_segments.py",
        (
            "cut: a starting timestamp may stand for an offset that was cut off",
            "(end >= start or view.find_lost_end(end) is None):",
            "True:",
        ),
        (
            "cut: so it may where the next file begins above its name",
            "if at < 1 or not _is_first_record(log, at, start, policy.trust):",
            "if True:",
        ),
        (
            "cut: where compaction took the first records of a batch, its records say whether one is before",
            "return min(rows_of(log, segment, header, trust), default=None) == offset",
            "return False",
        ),
        (
            "cut: a record of the batch may be before",
            "return min(rows_of(log, segment, header, trust), default=None) == offset",
            "return True",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/property/test_replica_sets.py",
        (
            "cut: compaction of another copy is no excuse",
            "source.check_lost_end()  # compaction of another copy may explain the gap, but not this",
            "pass",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/property/test_replica_sets.py",
        (
            "cut: what another copy has in the place of what was cut off is no proof",
            "if reached < segment.span.end and view.find_lost_end(reached) is not None:",
            "if False:",
        ),
    ),
    *_of(
        "planning/cuts.py",
        "tests/unit/planning/test_cuts.py",
        (
            "cuts: a batch whose records fit a piece is not cut",
            "if inside and 0 <= header.count <= most:",
            "if False:",
        ),
        (
            "cuts: one with more records is",
            "if inside and 0 <= header.count <= most:",
            "if inside and 0 <= header.count:",
        ),
    ),
    *_of(
        "zones/making.py",
        "tests/unit/reading/test_cut_segments.py",
        (
            "cut: a zone map does not lead past the end of a segment that was cut",
            "is_cut = error.position == split.segment_size",
            "is_cut = False",
        ),
    ),
    *_of(
        "transactions/walk.py",
        "tests/property/test_lost_segments.py",
        (
            "cut: a marker may be lost with the end of a segment",
            "if late:",
            "if False:",
        ),
    ),
    *_of(
        "partition/orphans.py",
        "tests/unit/partition/test_seams.py",
        (
            "loss: what a later leader replaced is not missing",
            "return None if last is None else min(last, orphan.end - 1)",
            "return last",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "moved: a batch that states more offsets than it has gives none of those behind",
            "yield from _find_under(split, own, segment, moved, others)",
            "yield from ()",
        ),
        (
            "moved: also where another copy alone shows it",
            "if not wanted.is_empty and (follows or any(other.has_at_its_place(batch) for other in others)):",
            "if not wanted.is_empty and follows:",
        ),
        (
            "moved: a read that does not want what lies behind is not told of it",
            "wanted = _offsets_of(batch).intersect(split.uncut or split.bounds.offsets)",
            "wanted = _offsets_of(batch)",
        ),
    ),
    *_of(
        "partition/missing.py",
        "tests/unit/partition/test_missing.py tests/unit/partition/test_seams.py",
        (
            "loss: a line that the last batch refutes is none",
            "if last is not None and _find_epoch_at_end(last) >= epoch:",
            "if False:",
        ),
        (
            "loss: a leader epoch behind the end of all copies is said",
            "has_others=bool(log.copies)",
            "has_others=False",
        ),
        (
            "loss: so are the entries of each copy",
            "for segment in copy.segments[-1:] if has_others else ():",
            "for segment in ():",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/partition/test_missing.py",
        (
            "loss: a missing record may be the one that a starting timestamp stands for",
            "list(check_missing(log, hard, log.offsets, policy))  # raises under failOnDataLoss",
            "list(hard)",
        ),
    ),
    *_of(
        "planning/selection.py",
        "tests/unit/partition/test_missing.py",
        (
            "loss: so is what is missing before an offset that a time stands for",
            "if bounds.starting.by_time:  # what is missing before the offset that was found may have had the time",
            "if False:",
        ),
        (
            "loss: what is missing behind the end is said of any wanted time",
            "elif self._wanted.end > segment.base_offset:  # what is missing behind may have the wanted times",
            "elif False:",
        ),
    ),
    *_of(
        "logdir/probe.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "probe: no offset follows the largest one",
            "or header.last_offset >= kafka_format.MAX_OFFSET:",
            "or False:",
        ),
    ),
    *_of(
        "kernels/batch_headers.py",
        "tests/unit/decoding/test_damage.py",
        (
            "headers: no offset follows the largest one",
            "if is_before or table[LAST_OFFSET, n] == kafka_format.MAX_OFFSET:",
            "if is_before:",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "copies: a last batch that was left out is compared with none",
            "return header.last_offset >= limit or is_left_out",
            "return header.last_offset >= limit",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/property/test_foreign_files.py",
        (
            "copies: a batch that reaches past the next segment's name is read from its own file",
            "segment = self.segment_of(header.base_offset)",
            "segment = self.segment_of(header.last_offset)",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/unit/reading/test_data_loss.py",
        (
            "gaps: batches that changed places show no compaction",
            "counts = not noted.skipped or not self._steps_back_before(file)",
            "counts = True",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/reading/test_data_loss.py",
        (
            "planning: offsets that are missing right before a starting timestamp are noticed",
            "return min(start, end)",
            "return start",
        ),
        (
            "planning: damage right before a starting timestamp is no gap if another copy has what is there",
            "return last.offsets.start if isinstance(last, Lost) else start",
            "return end",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/reading/test_wrong_offsets.py",
        (
            "planning: an end in doubt is an error where an answer needs it",
            "if self.fault is not None and not policy.drop_malformed:",
            "if False:",
        ),
    ),
    *_of(
        "partition/foreign_segments.py",
        "tests/property/test_foreign_files.py",
        (
            "copies: a foreign file is noticed by its first batch",
            "is_other = have_other_records(one, batch, other, twin)",
            "is_other = False",
        ),
        (
            "copies: the epoch of a foreign file does not excuse it",
            "is_other = have_other_records(one, batch, other, twin)",
            "is_other = batch.leader_epoch == twin.leader_epoch and have_other_records(one, batch, other, twin)",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/unit/partition/test_survey.py",
        (
            "chain: old formats before the place where reading began count too",
            "        self._has_old_formats = before._has_old_formats\n",
            "",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/property/test_replica_sets.py",
        (
            "copies: so is one against what compaction left of a batch there",
            "overlapping if is_in_place(copy, segment, batch, other)), None)",
            "overlapping if other.has_at_its_place(batch)), None)",
        ),
    ),
    *_of(
        "partition/twins.py",
        _WRONG_OFFSETS,
        (
            "copies: a batch that another copy has at its place too is not misplaced",
            "header = None if other in at_its_place else _find_twin(copy, segment, last, other, gap)",
            "header = _find_twin(copy, segment, last, other, gap)",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "copies: a last batch against one that another copy has at its place is wrong",
            "return next((batch for batch in overlapping if is_in_place(copy, segment, batch, other)), None)",
            "return None",
        ),
    ),
    *_of(
        "partition/holding.py",
        _WRONG_OFFSETS,
        (
            "holding: a segment holds nothing below its first batch, whatever its name says",
            "first = min(_find_first_offset(copy, segment), end)",
            "first = segment.base_offset",
        ),
        (
            "holding: a last segment holds nothing below its first batch, whatever its name says",
            "first = min(_find_first_offset(copy, segment), gap.start) if differing else segment.base_offset",
            "first = segment.base_offset",
        ),
        (
            "holding: a batch that was left out at the end of a log must be in another copy",
            "if any(find_lost_strays(copy, copy.log.segments[-1], copy.tail.strays, others)):",
            "if False:",
        ),
        (
            "holding: batches that were left out at the end of a log are no damage, if other copies have them",
            "if not copy.tail.is_torn and not is_over and not is_earlier_file:",
            "if False:",
        ),
    ),
    *_of(
        "partition/twins.py",
        _WRONG_OFFSETS,
        (
            "twins: another batch at the offsets that a batch states does not hold it",
            "is_held = is_stale or any(is_in_place(copy, segment, batch, other) for other in holders)",
            "is_held = any(other.has_batches_in(stated) for other in others)",
        ),
    ),
    *_of(
        "partition/twins.py",
        _MISPLACED,
        (
            "twins: a gap that another batch fills explains no batch that was left out there",
            "is_gap = not gap.is_empty and not any(other.has_batches_in(gap) for other in others)",
            "is_gap = not gap.is_empty",
        ),
        (
            "twins: a batch that is in another copy is not lost",
            "if not (is_explained or is_held or (is_first and is_elsewhere(copy, segment, batch, holders))):",
            "if not is_explained:",
        ),
    ),
    *_of(
        "partition/holding.py",
        _MISPLACED,
        (
            "holding: a copy holds nothing where its batch lies in another file",
            "for moved in find_moved(own.copy, near, [other.copy for other in others]):",
            "for moved in ():",
        ),
    ),
    *_of(
        "partition/copy_bytes.py",
        "tests/unit/partition/test_copy_bytes.py",
        (
            "copies: whole batches of other offsets are no bytes of a segment's offsets",
            "return sum(end - place.start for end, place in zip(ends, places, strict=True))",
            "return 0",
        ),
    ),
    *_of(
        "decoding/belief.py",
        "tests/unit/decoding/test_belief.py",
        (
            "belief: the batch that ends the wanted offsets is in doubt if one below it follows",
            "return bool(base[reaching] > before[reaching] + 1 and base[at] < min(end, base[reaching]))",
            "return bool(base[reaching] > before[reaching] + 1 and base[reaching] >= end and base[at] < end)",
        ),
    ),
    *_of(
        "inspection/copies.py",
        f"tests/cli/test_cli_copies.py {_MISPLACED}",
        (
            "verify: where copies hold all records together, a read has the last word",
            "found = _read_once(source, policy)",
            "found = []",
        ),
    ),
    *_of(
        "partition/chain.py",
        _WRONG_OFFSETS,
        (
            "chain: a first file without a byte is a loss, also where another copy begins later",
            "holes = [] if compacted else [*_cut_holes_before(chosen[0][1].start, logs)]",
            "holes = []",
        ),
    ),
    *_of(
        "decoding/belief.py",
        _WRONG_OFFSETS,
        (
            "belief: rows behind the place of a batch that moved wait for another copy",
            "return self._find_gap_for(good, wrong.column), error",
            "return wrong.column, error",
        ),
    ),
    *_of(
        "logdir/segments.py",
        _WRONG_OFFSETS,
        (
            "logs: a first file without a byte counts, of a copy that is not read too",
            "starts += [hole.offsets.start for hole in self.holes]",
            "pass",
        ),
        (
            "logs: hard evidence before the first file counts",
            "starts += [evidence.offsets.start for evidence in self.evidence if evidence.is_hard]",
            "pass",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        _WRONG_OFFSETS,
        (
            "moved: a batch of another segment is not passed over, nor one that no copy has",
            "yield from _find_of_other_segment(own, segment, moved, others, None if is_given else merge)",
            "pass",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        _MISPLACED,
        (
            "moved: a batch whose place the read has passed is damage, also where another copy has it",
            "yield from passed\n",
            "pass\n",
        ),
        (
            "moved: a batch behind the next segment's name is in no other file",
            "yield from join_batches(find_lost_strays(own, segment, own.strays_of(segment), copies))",
            "pass",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        _WRONG_OFFSETS,
        (
            "moved: the place of a batch is where another copy has it, whatever offset it states",
            "yield from _find_passed(split, known, own, twin)",
            "pass",
        ),
        (
            "moved: all of a file is read for batches of the next one",
            "if not segment.is_last:\n        own.survey(segment)",
            "if not segment.is_last:\n        pass",
        ),
    ),
    *_of(
        "partition/twins.py",
        _WRONG_OFFSETS,
        (
            "twins: what compaction left of a moved batch is at its place too",
            "any(_gives(other, copy, segment, batch) for other in others)\n    )",
            "any(other.has_at_its_place(batch) for other in others)\n    )",
        ),
        (
            "twins: the names of its segment say nothing of a moved batch",
            "unnamed = segment._replace(base_offset=0 if batch.is_wrapper else batch.base_offset, next_base_offset=None)",
            "unnamed = segment",
        ),
    ),
    *_of(
        "planning/time_lookup.py",
        "tests/unit/planning/test_time_lookup.py",
        (
            "search: a time is looked for in other copies from where the search was",
            "note_passed(source.next_offset)",
            "pass",
        ),
    ),
    *_of(
        "planning/cuts.py",
        _WRONG_OFFSETS,
        (
            "cuts: a batch that belongs into another piece is not passed over",
            "rest = split._replace(uncut=split.bounds.offsets) if cuts and split.copies else split",
            "rest = split",
        ),
    ),
    *_of(
        "planning/cuts.py",
        "tests/property/test_hurt_copies.py::test_cases_that_failed_once",
        (
            "cuts: no piece begins at the first batch of a file behind a gap and before damage",
            "reached = view.segment.base_offset - 1",
            "pass",
        ),
    ),
    *_of(
        "reading/mending.py",
        _WRONG_OFFSETS,
        (
            "mending: a file that could not be read where it looked sound is not searched there again",
            "extents = _note_failure(extents, *failed[surveyed_file.segment.path])",
            "pass",
        ),
        (
            "mending: damage behind the end of a copy counts unless another copy explains it",
            "return [Extent(offsets, DAMAGED, damage)] if is_lost else []",
            "return []",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "histories: a last batch whose epoch its own checkpoint does not know decides nothing",
            "is_doubtful = is_unnoted or (is_odd",
            "is_doubtful = (is_odd",
        ),
        (
            "histories: nor does one that is later than the batch before, which it does not know either",
            "is_unnoted = after is None and noted != UNKNOWN and max(first, noted) < epoch and _is_last(copy, batch)",
            "is_unnoted = after is None and first <= noted < epoch and noted != UNKNOWN and _is_last(copy, batch)",
        ),
        (
            "copies: a last batch that alone states another epoch than the last line is of that one",
            "if is_doubtful and is_led and batch.base_offset >= copy.epochs[-1][1] and _is_last(copy, batch):",
            "if False:",
        ),
        (
            "histories: an epoch in doubt does not make two batches the same one",
            "if batch.crc != twin.crc and not (_is_noted(low, batch) and _is_noted(high, twin)):",
            "if False:",
        ),
        (
            "histories: a batch that has the epoch of its checkpoint is not in doubt",
            "(is_odd and epoch != epoch_at(copy.epochs, batch.base_offset))",
            "is_odd",
        ),
        (
            "histories: the batch behind a stale end has a neighbour too",
            "None if batch is None else find_following(copy, batch)",
            "None",
        ),
        (
            "histories: behind a stale end the next batch stands in for a doubtful one",
            "yield _Witness(following, is_doubtful=False)",
            "pass",
        ),
        (
            "histories: damage where the other copy begins does not show that it follows",
            "return last is not None and first is not None and last.leader_epoch <= first.leader_epoch",
            "return last is None or first is None or last.leader_epoch <= first.leader_epoch",
        ),
    ),
    *_of(
        "partition/divergence.py",
        f"{_REPLICAS} tests/unit/partition/test_copy_chain.py",
        (
            "copies: checkpoints that differ prove nothing",
            "    if follow_each_other(one, other):\n",
            """    for offset in sorted({start for _, start in (*one.epochs, *other.epochs) if start < min(one_end, other_end)}):
        noted = epoch_at(one.epochs, offset), epoch_at(other.epochs, offset)
        if UNKNOWN not in noted and noted[0] != noted[1]:
            return Divergence(offset, offset, noted, True)
    if follow_each_other(one, other):
""",
        ),
        (
            "copies: a line that batches bear out decides",
            "for offset, epochs in stated:",
            "for offset, epochs in ():",
        ),
    ),
    *_of(
        "partition/histories.py",
        f"{_REPLICAS} tests/unit/partition/test_copy_chain.py",
        ("copies: the latest leader epoch wins", "key=lambda at: (-named[at], at))", "key=lambda at: (named[at], at))"),
        (
            "copies: a copy counts up to its own end",
            "ends[loser] = min(ends[loser], fence.end)",
            "settled.append(open_copies.remove(loser) or loser)",
        ),
    ),
    *_of(
        "storage/ahead.py",
        "tests/unit/storage/test_ahead.py",
        (
            "silence: an iterator that ends inside an item does not end the others",
            "return _map_one_by_one(action, items)",
            "return map(action, items)",
        ),
    ),
    *_of(
        "partition/chain.py",
        _SEAMS,
        (
            "seams: the order of the paths does not matter where no copy has a whole batch",
            "blank = min(logs, key=lambda log: (len(log.segments), log.directory))",
            "blank = logs[0]",
        ),
    ),
    *_of(
        "partition/twins.py",
        _SEAMS,
        (
            "seams: a header is that of a batch whose offsets alone are missing, whatever offset it states",
            "return any(_is_same(read, header) or (gap == missing and read[8:] == header[8:]) for read, gap in found)",
            "return any(_is_same(read, header) for read, gap in found)",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a batch of an epoch that the other checkpoint lacks between two lines is of another history",
            "if line is None or not 0 <= epoch_at(lines, batch.base_offset) < batch.leader_epoch < line[1][1]:",
            "if line is not None:",
        ),
        (
            "contests: a line stands against what is left of a copy too",
            "last = find_believed_last(bare) if bare_end >= bare.end else next(walk_backward(bare, bare_end), None)",
            "last = find_believed_last(bare) if bare_end >= bare.end else None",
        ),
        (
            "contests: compaction may have taken what noted an epoch",
            "if one.has_compacted_topic:",
            "if False:",
        ),
        (
            "contests: so it may where another copy is marked",
            "if one.has_compacted_topic:",
            "if one.log.compacted or other.log.compacted:",
        ),
        (
            "contests: so it may where a gap lies inside a file",
            "if beside is not None and beside.base_offset > batch.base_offset:",
            "if False:",
        ),
        (
            "contests: a batch bears the later line out",
            "if found is None and not is_borne_out(stating, its_end, line):",
            "if False:",
        ),
        (
            "contests: not if the copy has had the later leader too",
            "batch.base_offset < start or any(epoch >= line[1][1] for epoch, _ in bare.epochs[-1:]):",
            "batch.base_offset < start:",
        ),
        (
            "contests: not below what agrees",
            "if line is None or batch.base_offset < start or any(",
            "if line is None or any(",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: where no batch proves that copies agree, the one that begins first answers alone",
            "max(proven) if proven else min(divergence.agreed for _, divergence in losses)]",
            "max(proven) if proven else max(divergence.agreed for _, divergence in losses)]",
        ),
        (
            "contests: retention moves the first line to the log start",
            "start = later[0][1] if later and later[0] != winner.epochs[0] else 0",
            "start = later[0][1] if later else 0",
        ),
        (
            "contests: a damaged last batch may name the leader that counts",
            "yield replace(copy.last_epoch, behind=behind)",
            "pass",
        ),
    ),
    *_of(
        "partition/doubts.py",
        "tests/unit/partition/test_seams.py",
        (
            "doubt: a copy that ends with an epoch which another checkpoint lacks is named",
            "return explain_unnoted_end(copy, other, line)",
            "return None",
        ),
        (
            "doubt: a copy that names the later leader has kept that end",
            "        if not is_kept:\n",
            "        if True:\n",
        ),
    ),
    *_of(
        "partition/doubts.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: each copy that has lost its end is an error, not the first one alone",
            "            said.append(explain_doubt(copy, other, *line))\n",
            "            said.append(explain_doubt(copy, other, *line))\n            break\n",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_last_epochs.py",
        (
            "epochs: of a last one and the one before, which no line bears out, either may be right",
            "is_led = noted != UNKNOWN and first <= max(epoch, noted)",
            "is_led = noted != UNKNOWN",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        "tests/unit/partition/test_last_epochs.py",
        (
            "epochs: none later than that of a batch that follows in another copy",
            "if (before is None or epoch >= before.leader_epoch) and epoch <= most}",
            "if before is None or epoch >= before.leader_epoch}",
        ),
        (
            "epochs: a checkpoint that has one of the two shows which one is right",
            "return frozenset(possible & noted or possible)",
            "return frozenset(possible)",
        ),
        (
            "epochs: the later one of two may be the right one",
            "return last.leader_epoch in copy.last_epoch.possible and next(walk_backward(copy), None) != last",
            "return False",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_last_epochs.py",
        (
            "epochs: a last one below that of a common batch contradicts no line",
            "if falls_behind_common_batch(bare, last, stating):",
            "if False:",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_last_epochs.py",
        (
            "epochs: all copies are compared before one of them counts",
            "pairs = [find_divergence(one, one.end, other, other.end) for one, other in combinations(copies, 2)]",
            "pairs = (find_divergence(one, one.end, other, other.end) for one, other in combinations(copies, 2))",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_last_epochs.py",
        (
            "epochs: of several that are possible it has the earliest one at least",
            "leader_epoch=max(first, noted, copy.last_epoch.least)), False",
            "leader_epoch=max(first, noted)), False",
        ),
        (
            "epochs: where that of the checkpoint is believed, the batches at the end are compared by it",
            "if one.last_epoch.is_noted or other.last_epoch.is_noted:",
            "if False:",
        ),
        (
            "epochs: it is the batch before that is wrong if the other copy has it with another epoch",
            "return twin is not None and relate_batches(copy, before, other, twin) == SAME",
            "return True",
        ),
    ),
    *_of(
        "partition/contests.py",
        "tests/unit/partition/test_contests.py",
        (
            "contests: a batch behind damage is there",
            "batch = copy.batch_at(offset) or next(walk_backward(copy, offset + 1), None)",
            "batch = copy.batch_at(offset)",
        ),
        (
            "contests: where the copy that counts has nothing, nothing decides between two others",
            "if (agreed or 0) > offset or any(start >= offset for _, start in find_common_lines(counting, copy)):",
            "if True:",
        ),
        (
            "contests: a common batch behind shows which of them it had",
            "if (agreed or 0) > offset or any(start >= offset for _, start in find_common_lines(counting, copy)):",
            "if any(start >= offset for _, start in find_common_lines(counting, copy)):",
        ),
        (
            "contests: a common line behind shows which of them it had",
            "if (agreed or 0) > offset or any(start >= offset for _, start in find_common_lines(counting, copy)):",
            "if (agreed or 0) > offset:",
        ),
        (
            "contests: a copy that counts less does not decide, and one that counts as much shows it",
            "if not rivals or any(named[at] >= named[above] for at in rivals):",
            "if not rivals:",
        ),
        (
            "contests: nor does one that ends before",
            "if offset >= ends[above] or",
            "if",
        ),
        (
            "contests: a copy that is not used there is no rival",
            "for at, copy in enumerate(copies) if ends[at] > offset)",
            "for at, copy in enumerate(copies))",
        ),
        (
            "contests: a damaged batch behind is the same one too",
            "if behind is not None and has_damaged_twin(copy, behind):",
            "if False:",
        ),
        (
            "contests: a copy that is not read there may be the one that counts",
            "if named[above] > named[fence.winner] and _agree_there(counting, loser, offset, loser.end):",
            "if False:",
        ),
        (
            "contests: not if the one that it lost to counts as much as the third",
            "if named[above] > named[fence.winner] and _agree_there(",
            "if _agree_there(",
        ),
        (
            "contests: a damaged batch there is the same one too",
            "if held is not None and has_damaged_twin(counting, held):",
            "if False:",
        ),
        (
            "contests: a copy that the third one has not followed is no rival",
            "if differs is not None and min(batch.base_offset for batch in differs) <= offset:",
            "if False:",
        ),
        (
            "contests: one leader wrote both, so they have the same history below",
            "return 0 <= behind.leader_epoch == last.leader_epoch",
            "return False",
        ),
        (
            "contests: a batch that is not read stands against another one",
            "        _refuse_undecided(copies, fence, ends)\n",
            "",
        ),
        (
            "contests: what is shared behind shows which of the two a copy followed",
            "if rivals and not any(_agree_there(counting, copies[at], offset, ends[at]) for at in rivals):",
            "if rivals:",
        ),
        (
            "contests: one of several is enough",
            "if not any(_agree_there(counting, copies[at], offset, ends[at]) for at in rivals):",
            "if not all(_agree_there(counting, copies[at], offset, ends[at]) for at in rivals):",
        ),
    ),
    *_of(
        "partition/doubts.py",
        _SEAMS,
        (
            "seams: a checkpoint that names offsets behind the end of its files shows a lost end",
            "return copy.epochs[-1][1] > end or any(",
            "return any(",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "copies: the same bytes in a copy without a checkpoint show that the line is old",
            "if not other.epochs and batch is not None and batch == last._replace(position=batch.position):",
            "if False:",
        ),
    ),
    *_of(
        "logdir/segments.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "zones: the last segment of one copy, before another one, is read at its end",
            "return self.gap_is_loss(at) or (bool(self.copies) and self.segments[at].is_last)",
            "return self.gap_is_loss(at)",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "copies: a batch of the last line's epoch in another copy shows that the line is old",
            "is_later = batch is not None and relate_batches(copy, noted, other, batch) == CONFLICT",
            "is_later = False",
        ),
        (
            "copies: that batch shows no more than a later epoch",
            "is_stated=_STATED in shown, is_later",
            "is_stated=_STATED in shown or _LATER in shown, is_later",
        ),
        (
            "copies: not if another copy has that last batch with another epoch",
            "is_later = _LATER in shown and not copy.last_epoch.is_disputed",
            "is_later = _LATER in shown",
        ),
        (
            "copies: a line alone does not show that a checkpoint is old",
            "has_batch = batch is not None and relate_batches(copy, last, other, batch) == SAME",
            "has_batch = True",
        ),
        (
            "copies: a checkpoint that has the epoch for that offset shows it too",
            "if is_noted and (has_batch or has_damaged_twin(other, last)):",
            "if False:",
        ),
        (
            "copies: but not if it contradicts the batch before",
            "if before is None or epoch_at(other.epochs, before.base_offset) <= before.leader_epoch:",
            "if True:",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "copies: an earlier epoch than a checkpoint has does not decide alone",
            "elif has_old_end(copy):",
            "elif False:",
        ),
        (
            "copies: an epoch that a checkpoint may lack does not decide alone",
            "if _list_ends(fences) != _list_ends(others):",
            "if False:",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_copy_chain.py",
        (
            "copies: a line beyond the last batch decides nothing",
            "or is_borne_out(stating, its_end, line)):",
            "or True):",
        ),
    ),
    *_of(
        "planning/cuts.py",
        _WRONG_OFFSETS,
        (
            "cuts: no piece begins at a batch that reaches past the next segment",
            "    return header.last_offset < limit_of(view.segment.base_offset, view.segment.next_base_offset)",
            "    return True",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/reading/test_wrong_offsets.py",
        (
            "offsets: batches behind damage count for the end of a log",
            "if end.is_hidden and last.is_last:",
            "if False:",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "copies: a batch that was left out at the end of a segment may fill the gap up to the next one",
            "end = -1 if self.segment.is_last else self.segment.span.end",
            "end = -1",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/unit/partition/test_survey.py",
        (
            "copies: a gap whose batch lies elsewhere in the file is no work of compaction",
            "fault = self.faults[at] or self.find_left_out(gap)",
            "fault = self.faults[at]",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        _WRONG_OFFSETS,
        (
            "copies: a search without an index file goes on where the last one ended",
            "header = next(view.headers_from(offset, known=self._find_below(segment, offset)), None)",
            "header = next(view.headers_from(offset), None)",
        ),
        (
            "copies: one begins at its first file with bytes",
            "for segment in self.log.segments if segment.size), None)",
            "for segment in self.log.segments), None)",
        ),
        (
            "copies: damage that fits exactly before a batch does not put that batch in doubt",
            "return expected + wrong.last_offset - wrong.base_offset + 1 == header.base_offset",
            "return False",
        ),
    ),
    *_of(
        "partition/holding.py",
        _REPLICAS,
        (
            "copies: a gap whose last batch nothing proves explains no damage",
            "if gap is not None and gap.start <= offset < gap.end:",
            "if False:",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        _REPLICAS,
        (
            "histories: a last batch behind a gap does not take a checkpoint its word",
            "last = find_believed_last(copy) if gap is None else next(walk_backward(copy, gap.end), None)",
            "last = find_believed_last(copy)",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        _REPLICAS,
        (
            "copies: a wrong epoch below zero is not that of an old format",
            "(shown == SILENT and UNKNOWN in (batch.leader_epoch, twin.leader_epoch))",
            "(shown == SILENT and min(batch.leader_epoch, twin.leader_epoch) < 0)",
        ),
        (
            "copies: only a batch that is the same ends the comparison",
            "if shown == SAME:",
            "if shown in (SAME, SILENT):",
        ),
        (
            "copies: epochs grow along one history",
            "return DIFFERENT if 0 <= upper.leader_epoch < lower.leader_epoch else SILENT",
            "return SILENT",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        _REPLICAS,
        (
            "copies: a batch whose epoch its neighbours contradict decides nothing",
            "is_odd = (falls and (last == UNKNOWN or first <= last))",
            "is_odd = False",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "copies: a batch whose epoch is in doubt still has its place",
            "return DIFFERENT if batch.magic == twin.magic == MAGIC_V2 else SILENT",
            "return SILENT",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/property/test_hurt_copies.py",
        (
            "copies: damage goes before a gap behind batches of an old format",
            "after = UNKNOWN if end < following and",
            "after = VOID if end < following and",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition/test_copy_chain.py tests/unit/partition/test_offset_proof.py",
        (
            "copies: what lies before damage counts by itself",
            "for run in copy.sound_runs(segment):",
            "for run in ():",
        ),
    ),
    *_of(
        "transactions/walk.py",
        "tests/unit/partition/test_compacted_replicas.py",
        (
            "copies: a copy that has records of a transaction has its marker",
            "if own is not None:",
            "if False:",
        ),
    ),
    *_of(
        "reading/mending.py",
        "tests/unit/partition/test_compacted_replicas.py",
        (
            "copies: damage that is one batch of another copy is nothing else",
            "parts = [extent] if batch is None else narrow_damage(extent, batch)",
            "parts = [extent]",
        ),
        (
            "copies: a copy whose history lost has the damaged batch of the one that counts",
            "same = [one for one in known if extent.holding == THIN and has_batch(surveyed_file, one)]",
            "same = []",
        ),
    ),
    *_of(
        "transactions/walk.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "copies: no marker counts from where the history of its copy lost",
            "end = kafka_format.MAX_OFFSET if split.copies else split.served_to",
            "end = kafka_format.MAX_OFFSET",
        ),
    ),
    *_of(
        "decoding/belief.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "offsets: a batch that begins where damage states its end has its offset from both",
            "return skipped.end == position and (skipped.first, skipped.last + 1) == (expected, base)",
            "return False",
        ),
    ),
    *_of(
        "decoding/belief.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "offsets: a batch leaves room for the one before it",
            "if is_either else None",
            "if False else None",
        ),
        (
            "offsets: a range begins at a batch that the next one follows",
            "or self._read_following(headers, 0) == last + 1)",
            "or False)",
        ),
    ),
    *_of(
        "decoding/gaps.py",
        "tests/unit/reading/test_data_loss.py",
        (
            "loss: a jump is no compaction",
            "return before._has_old_formats or (has_gaps and counts)",
            "return before._has_old_formats or has_gaps",
        ),
    ),
    *_of(
        "reading/lost_offsets.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "offsets: torn bytes alone are no loss",
            "if copy.end > copy.start or copy.tail.damage is not None]",
            "if copy.log.segments]",
        ),
    ),
    *_of(
        "partition/chain_warnings.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "copies: a thinned copy of another history is named where a copy ends in damage",
            "{thinned if lost else ''}",
            "",
        ),
    ),
    *_of(
        "partition/holding.py",
        _REPLICAS,
        (
            "copies: one whose history lost comes after the others",
            "holding = min(sound_holding, SECOND) if own.copy.has_lost else sound_holding",
            "holding = sound_holding",
        ),
    ),
    *_of(
        "reading/mending.py",
        _WRONG_OFFSETS,
        (
            "offsets: a gap before a last batch, whose offset nothing proves, is no proof of compaction",
            "gap = copy.unproven_gap",
            "gap = None",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        _REPLICAS,
        (
            "histories: a last batch with a wrong offset decides nothing",
            "end = copy.tail.end  # a last batch",
            "end = MAX_OFFSET  # a last batch",
        ),
    ),
    *_of(
        "logdir/catalog.py",
        "tests/unit/partition/test_copy_chain.py",
        ("loss: paths of files ask for no other file", "is_whole=is_whole,", "is_whole=True,"),
    ),
    *_of(
        "reading/lost_offsets.py",
        "tests/cli/test_cli_copies.py",
        (
            "verify: a gap before an empty last segment is a loss",
            "surveyed.end = max(last_bases, default=start)",
            "pass",
        ),
    ),
    *_of(
        "streams/log_ends.py",
        _STREAMS,
        (
            "stream: ends at the high watermark",
            "end = stable = min(files_end, log.offsets.end)",
            "end = stable = files_end",
        ),
        ("stream: ends at the last stable offset", "log, start, max(stable, start)", "log, start, max(end, start)"),
        ("stream: a gap beside new files is waited for", "return max(start, missing.start), True", "return end, False"),
        (
            "stream: old files will not be followed by late ones",
            "max(changed) / 1e9 < LATE_SECONDS",
            "0 < LATE_SECONDS",
        ),
        (
            "stream: damage at the end is said",
            "if known.is_whole:",
            "if True:",
        ),
        (
            "stream: damage behind the end of all copies is said",
            "return (log.end, None) if log.end_damage is None else self._read_end(log, log.end)",
            "return log.end, None",
        ),
        (
            "stream: a torn batch or zeros end a log only if no whole batch follows",
            "is_whole = position >= segment.size or (is_unwritten and _was_unwritten(segment, known))",
            "is_whole = position >= segment.size or view.probe.is_legal_tail(position)",
        ),
        (
            "stream: zeros that were read are those of the same file and size",
            "return segment.version.is_same_file(known.version) and segment.version.size == known.version.size",
            "return True",
        ),
        (
            "stream: zeros that were read are not read again",
            "return segment.version.is_same_file(known.version) and segment.version.size == known.version.size",
            "return False",
        ),
        (
            "stream: a last file that is gone is a loss",
            "if not evidence.is_hard or missing.is_empty:",
            "if True:",
        ),
    ),
    *_of(
        "decoding/split.py",
        "tests/property/test_lost_segments.py",
        (
            "transactions: a file of a compacted log that its index shows to be gone may have held a marker",
            "lost_places=log.lost_places if log.compacted else (),",
            "lost_places=(),",
        ),
    ),
    *_of(
        "partition/orphans.py",
        "tests/property/test_lost_segments.py",
        (
            "transactions: so may one between two files, whose other records compaction may have removed",
            "is_between=harmless == _BY_COMPACTION",
            "is_between=False",
        ),
    ),
    *_of(
        "logdir/segment_view.py",
        "tests/unit/planning/test_hidden_ends.py",
        (
            "ends: what looks like a torn batch may hide whole ones",
            "is_hidden = behind + kafka_format.MAGIC_END <= segment.size",
            "is_hidden = behind < segment.size and not self.probe.is_legal_tail(behind)",
        ),
    ),
    *_of(
        "planning/offset_bounds.py",
        "tests/unit/planning/test_hidden_ends.py",
        (
            "ends: damage at the end of all copies leaves it in doubt",
            "return LogEnd(log.end, log.end_damage) if log.end < log.offsets.end else LogEnd(log.offsets.end)",
            "return LogEnd(min(log.end, log.offsets.end))",
        ),
    ),
    *_of(
        "exporting/export_run.py",
        "tests/unit/test_export.py",
        ("export: what comes before damage is committed", "except DataError:", "except ZeroDivisionError:"),
        ("export: damage behind the end is raised", "stream.check_end(end)", "pass"),
    ),
    *_of(
        "streams/stream.py",
        _STREAMS,
        (
            "stream: a position never goes back",
            "return OffsetRange(start, max(start, end)), is_late or lacks_end",
            "return OffsetRange(min(start, end), end), is_late or lacks_end",
        ),
        (
            "stream: what is withheld may have ended in missing offsets",
            "reach = span.files_end if span.is_withheld and end == span.end else end",
            "reach = end",
        ),
        (
            "stream: damage behind the end is raised once all before it was read",
            "if start is None or max(start, span.start) >= span.end:",
            "if start is None:",
        ),
        (
            "stream: damage behind the end is raised at once where nothing says whether the stream comes again",
            "if start is None or max(start, span.start) >= span.end:",
            "if start is not None and max(start, span.start) >= span.end:",
        ),
        (
            "stream: files that end below the position are a loss",
            "if span.files_end < begin.get(key, 0):",
            "if False:",
        ),
        (
            "stream: a fixed end does not move",
            "end = span.end if self._target is None else",
            "end = span.end if True else",
        ),
    ),
    *_of(
        "streams/piece_logs.py",
        _STREAMS,
        ("stream: files that begin above the position are a loss", "if first > offsets.start:", "if False:"),
    ),
    *_of(
        "streams/gone.py",
        _STREAMS,
        ("stream: what is gone is a loss", "        if gone:\n", "        if False:\n"),
    ),
    *_of(
        "planning/withheld_rows.py",
        _TRANSACTIONS,
        (
            "transactions: a plan says when an open one began",
            "format_millis(header.first_timestamp)",
            "format_millis(header.max_timestamp)",
        ),
        (
            "transactions: nobody is told to abort what may have ended",
            "    if missing is None:\n",
            "    if True:\n",
        ),
    ),
    *_of(
        "planning/open_transactions.py",
        _TRANSACTIONS,
        (
            "transactions: a small segment says nothing of missing offsets",
            "if events is None or events.end == segment.next_base_offset:",
            "if True:",
        ),
        (
            "transactions: index files tell of a missing end",
            "        if self.is_at_end:\n",
            "        if False:\n",
        ),
        (
            "transactions: no cleaner made a gap behind an open transaction",
            "        self.undecided += self.hidden.items()\n",
            "",
        ),
        (
            "transactions: a cleaner may have made a gap that the producer goes on behind",
            "                self.hidden.pop(producer_id, None)\n",
            "                pass\n",
        ),
        (
            "transactions: what the producer goes on with may lie behind the end of the read",
            "return [*self.producers.open.values(), *self.hidden.values()]",
            "return [*self.producers.open.values()]",
        ),
        (
            "transactions: a copy that begins later may not know what was open",
            "if directory in late and not _has_ended_before(latest_state, late[directory]):",
            "if False:",
        ),
        (
            "transactions: a copy that begins later counts where nothing from before is open",
            "if directory in late and not _has_ended_before(latest_state, late[directory]):",
            "if directory in late:",
        ),
    ),
    *_of(
        "partition/chain.py",
        _TRANSACTIONS,
        (
            "transactions: a disk that begins after its tier knows what was open",
            "for copy in copies if not is_shown(copy.log.directory)]",
            "for copy in copies]",
        ),
    ),
    *_of(
        "planning/open_transactions.py",
        _STREAMS,
        (
            "stream: remembered producers are proven by a batch",
            "if place != (memory.path, memory.last) or any(",
            "if any(",
        ),
        (
            "stream: damage that was skipped is looked at again",
            "any(self._look_at(*place[:2]) != place for place in memory.skipped)",
            "False",
        ),
        (
            "stream: events after the high watermark do not count yet",
            "offset = min(self.reached, self.log.offsets.end)",
            "offset = self.reached",
        ),
    ),
    *_of(
        "streams/log_watch.py",
        _STREAMS,
        (
            "stream: the last file is watched",
            "paths.update(segment.path for segment in log.segments if segment.is_last)",
            "pass",
        ),
        (
            "stream: the checkpoints are watched",
            "paths.update(parent_of(directory) for directory in directories)",
            "pass",
        ),
        (
            "stream: the checkpoints are compared",
            "if held is None or self._find_holding(path) != held:",
            "if held is None:",
        ),
    ),
    *_of(
        "streams/limits.py",
        _STREAMS,
        ("stream: shares add up to the limit", "[:rest]:", "[: rest + 1]:"),
    ),
    *_of(
        "inspection/summary.py",
        "tests/property/test_listing.py tests/unit/inspection/test_large_segments.py",
        (
            "ls: the records between both ends are counted by offsets",
            "records = found.end_offset - segment.base_offset",
            "records = found.records",
        ),
        (
            "ls: the time index tells the newest timestamp between both ends",
            "newest = max(found.newest, int(times.timestamps[-1]))",
            "newest = found.newest",
        ),
        (
            "ls: index files that do not fit are not believed",
            "if not len(offsets) or not len(times) or health != IndexHealth():",
            "if not len(offsets) or not len(times):",
        ),
        (
            "ls: an index entry that does not lead to a batch is not believed",
            "if found.faults or found.magics",
            "if found.magics",
        ),
    ),
    *_of(
        "inspection/contents.py",
        "tests/unit/inspection/test_large_segments.py",
        (
            "ls: gaps among batches that are not read explain a gap between segments",
            "deep=True) if summary.is_sampled else summary",
            "deep=False) if summary.is_sampled else summary",
        ),
    ),
    *_of(
        "inspection/verify.py",
        "tests/unit/inspection/test_inspection.py",
        (
            "verify: compaction behind a missing segment does not explain it",
            "or not check.gap_is_loss:",
            "or not all(one.gap_is_loss for one in checks):",
        ),
    ),
    *_of(
        "inspection/copies.py",
        "tests/cli/test_cli_copies.py",
        (
            "verify: a loss counts where no copy holds the records",
            "return not any(_overlap(loss, OffsetRange(finding.offset, finding.offset + 1)) for loss in losses)",
            "return True",
        ),
        ("verify: what another copy holds is no problem", "if finding.is_loss and is_held(finding)", "if False"),
    ),
    *_of(
        "data_loss.py",
        "tests/unit/reading/test_data_loss.py tests/unit/partition/test_missing.py",
        ("loss: lost offsets are an error", "if policy.fail_on_data_loss:", "if False:"),
    ),
    *_of(
        "partition/batch_pairs.py",
        f"{_SEAMS} tests/unit/partition/test_batch_pairs.py",
        (
            "seams: a batch is compared with the next one of the other copy, if none is beside it",
            "if twin_after is not None and twin.header.last_offset < batch.header.base_offset:",
            "if False:",
        ),
        (
            "seams: so it is where the other copy has it",
            "elif batch_after is not None and batch.header.last_offset < twin.header.base_offset:",
            "elif False:",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/property/test_hurt_copies.py",
        (
            "chain: any batches go before what damage hides",
            "rest = min(_rate_density(copy, segment, segment.span.end, differing), HIDDEN)",
            "rest = _rate_density(copy, segment, segment.span.end, differing)",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_whole_beside_thinned.py",
        (
            "elsewhere: a last batch that follows the one before the stray is right",
            "if may_follow and not _has_another(other, copy, segment, last):",
            "if False:",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "elsewhere: a file that is named after a later offset hides its batches",
            "(stated.end <= copy.tail.end and not copy.has_batches_in(stated))",
            "False",
        ),
        (
            "elsewhere: the last message may lie over the wrapper before it",
            "if first <= tail.expected and not tail.strays:",
            "if first <= tail.expected:",
        ),
        (
            "elsewhere: batches of a history that lost make up for none",
            "has_earlier_epoch(other, batch) for other in counting)",
            "has_earlier_epoch(other, batch) for other in others)",
        ),
        (
            "elsewhere: a batch of a replaced leader is no loss",
            "any(_replaces(other, copy, batch) for other in counting)",
            "False",
        ),
        (
            "elsewhere: a gap where another cleaning left the batch differently",
            "any(_is_rewritten_in(other, gap, copy, segment, batch) for other in counting)",
            "False",
        ),
        (
            "elsewhere: an earlier file where another cleaning left the batch differently",
            "(is_earlier and any(has_ends(other, batch) for other in counting))",
            "False",
        ),
        (
            "elsewhere: a batch without records is no loss",
            "is_explained = batch.count == 0 or is_gap",
            "is_explained = is_gap",
        ),
        (
            "elsewhere: a batch has not moved if its copy has all of it at its place",
            "if not is_in_place(copy, segment, batch, copy) and any(",
            "if not copy.has_at_its_place(batch) and any(",
        ),
        (
            "elsewhere: of a compacted copy, no other one is asked for a batch that moved in its file",
            "strays = copy.all_strays_of(segment) if copy.log.compacted else copy.strays_of(segment)",
            "strays = copy.strays_of(segment)",
        ),
    ),
    *_of(
        "partition/holding.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "elsewhere: the bytes of another file do not end a log",
            "is_earlier_file = is_foreign and _has_earlier_bytes(copy, others)",
            "is_earlier_file = False",
        ),
        (
            "elsewhere: a last file that holds what another one should is only named wrongly",
            "is_earlier_file = is_foreign and _has_earlier_bytes(copy, others)",
            "is_earlier_file = is_foreign",
        ),
        (
            "elsewhere: a first batch at a wrong place does not say where its file begins",
            "if surveyed is not None and surveyed.faults[0] is not None:",
            "if False:",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "elsewhere: damage right behind the first batch is looked for",
            "if None in headers:",
            "if False:",
        ),
        (
            "elsewhere: a last batch that no copy has is lost",
            "if damage is not None and (tail.damage is None or not is_held):",
            "if damage is not None and tail.damage is None:",
        ),
    ),
    *_of(
        "partition/strays.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "elsewhere: nothing says how many offsets a wrapper needs",
            "and not any(batch.is_wrapper for batch in batches)",
            "",
        ),
    ),
    *_of(
        "partition/chain_warnings.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "elsewhere: what is read from a compacted copy instead is said",
            "if any(_may_lack(reader, offsets) for reader, offsets in replaced):",
            "if False:",
        ),
        (
            "elsewhere: a copy that lacks records was compacted, with a mark or without",
            "return not there.is_empty and any(find_lacking(copy, there))",
            "return copy.log.compacted and not there.is_empty and any(find_lacking(copy, there))",
        ),
        (
            "elsewhere: so is a damaged end that another copy is read behind",
            "reader.has_lost or (reader.log.compacted and not copy.log.compacted)",
            "reader.has_lost",
        ),
        (
            "elsewhere: damage among batches of magic 2 is none of an old format",
            "batch is not None and batch.magic < MAGIC_V2 for batch in beside",
            "batch is None or batch.magic < MAGIC_V2 for batch in beside",
        ),
    ),
    *_of(
        "partition/chain_warnings.py",
        "tests/unit/partition/test_whole_beside_thinned.py",
        (
            "elsewhere: no copy lacks what lies behind its end",
            "there = offsets.intersect(OffsetRange(end=copy.end))",
            "there = offsets",
        ),
        (
            "elsewhere: a copy with a record for every offset has lost none, whatever marks it",
            "return not there.is_empty and any(find_lacking(copy, there))",
            "return not there.is_empty and (copy.log.compacted or any(find_lacking(copy, there)))",
        ),
    ),
    *_of(
        "partition/chain.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "seams: whole batches of a history that lost are bytes of a start",
            "if copy.start < start and copy.tail.end <= copy.start and not copy.tail.is_clean:",
            "if copy.start < start and copy.end <= copy.start and not copy.tail.is_clean:",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "epochs: the same batch with two epochs says nothing by them",
            "LastEpoch(possible != {last.leader_epoch}, possible)",
            "LastEpoch(False, possible)",
        ),
        (
            "epochs: one of two epochs of the same batch is right",
            "LastEpoch(possible != {last.leader_epoch}, possible)",
            "LastEpoch(possible != {last.leader_epoch})",
        ),
        (
            "epochs: one before that of the batch before is the wrong one",
            "if (before is None or epoch >= before.leader_epoch) and epoch <= most}",
            "if epoch <= most}",
        ),
    ),
    *_of(
        "partition/last_epochs.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "epochs: one of two last batches whose epochs contradict each other has the right one",
            "least = find_least_epoch(copy, end)",
            "least = UNKNOWN",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "epochs: a copy that lost counts by what is left of it",
            "named[loser] = find_latest_epoch(copies[loser], fence.end)",
            "named[loser] = find_latest_epoch(copies[loser])",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_batches_elsewhere.py",
        (
            "epochs: a common last batch proves nothing where the other copy goes on with an earlier leader",
            "if following is not None and 0 <= following.leader_epoch < twin.leader_epoch:",
            "if False:",
        ),
    ),
    *_of(
        "partition/twins.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "elsewhere: a wrong offset of the last file is none of the offsets that the copy has elsewhere",
            "(stated.end <= copy.tail.end and not copy.has_batches_in(stated))",
            "stated.end <= copy.tail.end",
        ),
    ),
    *_of(
        "partition/twins.py",
        _SEAMS,
        (
            "seams: a later leader kept the batches before its own",
            "return bool(holders) and not any(",
            "return bool(holders) or any(",
        ),
    ),
    *_of(
        "partition/doubts.py",
        _SEAMS,
        (
            "seams: a copy with other batches where its epoch began is no leader that wrote nothing",
            "if other.end > line[0] or not other.tail.is_clean or _has_lost_end(other, line[0]):",
            "if False:",
        ),
        (
            "seams: an index without its .log says that a leader wrote something",
            "if other.end > line[0] or not other.tail.is_clean or _has_lost_end(other, line[0]):",
            "if other.end > line[0] or not other.tail.is_clean:",
        ),
        (
            "seams: a checkpoint says nothing from where on its copy has lost",
            "line[0] >= min(copy.end, other.log.offsets.end)",
            "line[0] >= copy.end",
        ),
        (
            "seams: an end that its own checkpoint contradicts is said",
            "doubts = [explain_old_end(copy) for copy in copies if has_old_end(copy)]",
            "doubts = []",
        ),
    ),
    *_of(
        "partition/orphans.py",
        _SEAMS,
        (
            "seams: compaction takes no last file, also where another copy ends inside it",
            "harmless = _BY_COMPACTION if compacted and slot < len(starts) else None",
            "harmless = _BY_COMPACTION if compacted else None",
        ),
    ),
    *_of(
        "partition/histories.py",
        _SEAMS,
        (
            "seams: where nothing is compacted, the line of an epoch says where histories part",
            "if not copies[loser].has_compacted_topic:",
            "if False:",
        ),
        (
            "seams: any marked copy says that the topic is compacted",
            "if not copies[loser].has_compacted_topic:",
            "if not any(copies[at].log.compacted for at in (loser, winner)):",
        ),
    ),
    *_of(
        "partition/strays.py",
        "tests/unit/partition/test_old_formats_of_copies.py",
        (
            "moved: no gap before a wrapper has room for a batch",
            "OffsetRange(0, 0) if hides_first else place.gap",
            "place.gap",
        ),
    ),
    *_of(
        "reading/mending.py",
        _IN_DOUBT,
        (
            "doubt: what is gone without a trace explains no damaged batch",
            "if not is_unexplained:",
            "if True:",
        ),
        (
            "doubt: damage beside a compacted copy without a batch is said, of a compacted copy too",
            "if self.found[at][1].holding in ((VOID,) if is_compacted else (VOID, THIN))",
            "if not is_compacted and self.found[at][1].holding in (VOID, THIN)",
        ),
    ),
    *_of(
        "reading/moved_batches.py",
        _SEAMS,
        (
            "over: a gap before a batch that damage follows hides what the batch lies over, in a compacted copy too",
            "if not gap.is_empty and (not is_reached or is_over):",
            "if False:",
        ),
    ),
    *_of(
        "planning/cuts.py",
        _GAPS,
        (
            "gaps: no piece begins at a last batch behind one",
            "is_last = view.probe.may_be_last(header) and not split.asks_in_gaps",
            "is_last = view.probe.may_be_last(header)",
        ),
    ),
    *_of(
        "partition/divergence.py",
        _SEAMS,
        (
            "seams: a torn header at the end bears out a line of the checkpoint",
            "if offset == end == copy.tail.end:",
            "if False:",
        ),
    ),
    *_of(
        "partition/twins.py",
        _SEAMS,
        (
            "seams: a torn batch of a later leader contradicts another copy",
            "for batch in (last, copy.header_behind()) if",
            "for batch in (last,) if",
        ),
    ),
    *_of(
        "partition/orphans.py",
        "tests/unit/partition/test_old_formats_of_copies.py",
        (
            "missing: an earlier segment of the copy shows nothing of a file that is gone behind it",
            "if before is None or (parent_of(before.path) == directory and before.base_offset >= base_offset):",
            "if before is None or parent_of(before.path) == directory:",
        ),
    ),
    *_of(
        "partition/orphans.py",
        "tests/unit/partition/test_missing.py tests/unit/partition/test_copies_prove_nothing.py tests/unit/partition/test_seams.py",
        (
            "loss: an index without its .log between two segments is hard evidence",
            "if slot == 0 else _BY_COMPACTION if compacted else None",
            "if slot == 0 else _BY_COMPACTION",
        ),
        (
            "loss: an index without its .log reaches into what no copy holds",
            "evidence += _check_seams(log, orphans, start, compacted, last_bases)",
            "pass",
        ),
        (
            "loss: only a last file is empty in a copy of a running broker, also at a seam",
            "harmless = IN_A_COPY if base_offset == last_bases[directory] else None",
            "harmless = IN_A_COPY",
        ),
        (
            "loss: a file without bytes that another copy stands for is said",
            "evidence += _name_emptied(log, orphans, start)",
            "pass",
        ),
        (
            "loss: an index without its .log after the end is hard evidence",
            "harmless = None if is_after else",
            "harmless = _IF_EMPTY if is_after else",
        ),
        (
            "loss: the stale tail of a replaced leader is none",
            "if orphan.base_offset < orphan.end",
            "if True",
        ),
    ),
    *_of(
        "partition/missing.py",
        "tests/unit/partition/test_missing.py tests/unit/partition/test_copies_prove_nothing.py",
        (
            "loss: a leader epoch that began behind the end of the files is said",
            "noted = _find_last_epoch(log.directory, log.storage, log.segments, end) if not log.copies and log.is_whole else None",
            "noted = None",
        ),
        (
            "loss: a checkpoint beyond the end of the files is said",
            "if reach is None or reach.offset <= end:",
            "if True:",
        ),
    ),
    *_of(
        "planning/cuts.py",
        "tests/unit/planning tests/property/test_until_and_cuts.py",
        (
            "cuts: a piece keeps to its own offsets",
            "pieces.append(rest._replace(end=cut.end_before, bounds=rest.bounds._replace(offsets=left)))",
            "pieces.append(rest._replace(end=cut.end_before))",
        ),
        (
            "cuts: both pieces read a batch that is cut inside",
            "yield _Cut(offset, header.end if inside else header.position, header.position)",
            "yield _Cut(offset, header.position, header.position)",
        ),
        (
            "cuts: a compressed message set is cut after it, since it tells only its last offset",
            "cut = _Cut(header.last_offset + 1, header.end, header.end)",
            "pass",
        ),
        ("cuts: the largest piece is cut first", "counts[at] += 1", "counts[0] += 1"),
    ),
    *_of(
        "planning/plan.py",
        "tests/unit/test_scan_threads.py",
        ("threads: plain batches take one", "header is not None and header.is_compressed", "header is not None"),
        ("threads: a bucket takes one", "    if _is_far(split):", "    if False:"),
        (
            "threads: the newest records of a bucket take one",
            "not _is_far(split) if self.options.content.view == NEWEST",
            "True if self.options.content.view == NEWEST",
        ),
        ("threads: a default has a bound", "min(count_processors(), _MOST_BY_DEFAULT)", "count_processors()"),
        (
            "threads: headers alone take one",
            "<= 1 or reads_headers_only(self.options.content, self.options.policy.trust):",
            "<= 1:",
        ),
    ),
    *_of(
        "planning/planner.py",
        "tests/unit/planning tests/unit/zones/test_zone_pruning.py",
        (
            "cuts: minPartitions cuts",
            "if cutting.min_partitions is not None and len(kept) < cutting.min_partitions:",
            "if False:",
        ),
        ("cuts: maxRecordsPerPartition cuts", "if most is not None:", "if False:"),
        ("pack: up to 256 Spark partitions none is shared", "PACK_MORE_THAN = 256", "PACK_MORE_THAN = 8"),
        ("pack: more than 256 are shared", "PACK_MORE_THAN = 256", "PACK_MORE_THAN = 2**31"),
        (
            "pack: what was cut is not put together",
            "0 if asked else cutting.pack_bytes",
            "cutting.pack_bytes",
        ),
        ("pack: neighbours of a micro-batch share", "pack_more_than=0", "pack_more_than=PACK_MORE_THAN"),
    ),
    *_of(
        "planning/cuts.py",
        "tests/unit/planning",
        ("pack: no more than packBytes together", "if together and size + split.size <= pack_bytes:", "if together:"),
        (
            "pack: partitions of a topic do not share",
            "(before.topic, before.partition) == (split.topic, split.partition)",
            "before.topic == split.topic",
        ),
    ),
    *_of(
        "option_table.py",
        "tests/unit/planning",
        ("pack: packBytes is 64 MiB", 'default="64m"', 'default="1m"'),
    ),
    *_of(
        "logdir/segment_view.py",
        "tests/unit/partition/test_gaps_of_copies.py",
        (
            "offsets: a batch below the append before it is no place to begin",
            "if candidate > 0 and header.base_offset <= offsets.offsets[candidate - 1]:",
            "if False:",
        ),
    ),
    *_of(
        "logdir/segment_view.py",
        _OFFSETS,
        (
            "offsets: a read does not begin at a batch that may have fallen",
            "if not may_have_fallen(header, following) or (is_in_doubt and not overlaps(header, following)):",
            "if True:",
        ),
        (
            "offsets: a last batch below the one before it leaves the end in doubt",
            "if follows(last, before) and last.last_offset < limit:",
            "if follows(last, least) and last.last_offset < limit:",
        ),
        (
            "offsets: a last batch below the name of its file leaves the end in doubt",
            "[max(header.last_offset, least) for header in ends]",
            "[header.last_offset for header in ends]",
        ),
        (
            "offsets: a last batch beyond what its file can hold leaves the end in doubt",
            "if follows(last, before) and last.last_offset < limit:",
            "if follows(last, before):",
        ),
    ),
    *_of(
        "planning/cuts.py",
        _OFFSETS,
        (
            "offsets: a split is not cut at a batch in doubt",
            "if not _fits(view, header) or may_have_fallen(header, following) or may_have_risen(",
            "if False and may_have_risen(",
        ),
    ),
    *_of(
        "decoding/split_file.py",
        "tests/unit/partition/test_offset_proof.py",
        (
            "offsets: the batches at hand contradict what follows them",
            "self._reader.note_before(headers)",
            "pass",
        ),
    ),
    *_of(
        "kernels/batch_rules.py",
        _OFFSETS,
        (
            "offsets: another batch at the same offset is no repetition",
            "jumped = fills or (is_other and third == headers[batch_headers.LAST_OFFSET, b + 1] + 1)",
            "jumped = fills",
        ),
        (
            "offsets: behind damage, a batch that has fallen is told from one that has risen",
            "if jumped and b == 0 and is_behind_damage and n > 1:",
            "if False and n > 1:",
        ),
    ),
    *_of(
        "decoding/belief.py",
        _OFFSETS,
        (
            "offsets: a batch between a gap and damage is read from another copy",
            "if wrong is None and is_before_damage:",
            "if False:",
        ),
        (
            "offsets: a batch between damage and a gap is read from another copy",
            "if count > 1 and (wrong is None or (wrong.column == 1 and overlap(good))):",
            "if False:",
        ),
        (
            "offsets: a damaged batch states where the one before it ends",
            "if wrong is None and after is not None and is_misplaced(headers, count - 1, earlier, after):",
            "if False:",
        ),
        (
            "offsets: damaged batches leave the one between them its place",
            "if after is not None and is_misplaced(headers, 0, skipped.last, after):",
            "if False:",
        ),
        (
            "offsets: behind damage, the batch after the second one says which of two is wrong",
            "if is_misplaced(headers, 1, last, self._read_following(headers, 1)):",
            "if False:",
        ),
        (
            "offsets: the batch behind damage bears witness",
            "following, is_before_damage = later, is_before_damage and later != limit",
            "following, is_before_damage = limit, False",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/unit/partition/test_copy_view.py tests/unit/partition/test_copy_chain.py",
        (
            "chain: a segment with damage ends where its last batch does",
            "surveyed.faults[-1] is not None else last.last_offset + 1",
            "True else 0",
        ),
    ),
    *_of(
        "partition/divergence.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "histories: a last batch with a wrong epoch does not hide a line that contradicts its copy",
            "last = find_believed_last(bare)",
            "last = bare.last_batch",
        ),
    ),
    *_of(
        "partition/histories.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "histories: copies that note one epoch at one offset agree below it",
            "max(starts, default=0)",
            "0",
        ),
        (
            "histories: a damaged batch with the header of a sound one is the same",
            "if batch.last_offset < divergence.first and has_damaged_twin(winner, batch):",
            "if False:",
        ),
    ),
    *_of(
        "partition/batch_pairs.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "histories: a batch behind one that it contradicts is not compared",
            "if header.base_offset < end and not (fault is not None and _is_contradicted(copy, segment, at, fault)):",
            "if header.base_offset < end:",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/unit/partition/test_stale_ends.py",
        (
            "histories: the last whole batch of a copy answers, not that of its last file",
            "        for segment in reversed(earlier):",
            "        for segment in ():",
        ),
    ),
    *_of(
        "partition/chain.py",
        "tests/unit/partition/test_foreign_segments.py",
        (
            "chain: a file of another partition contradicts the other copy",
            "    refuse_foreign_segments(copies, near)",
            "    pass",
        ),
    ),
    *_of(
        "decoding/belief.py",
        "tests/unit/decoding/test_hostile.py",
        (
            "wrappers: one behind damage may begin below the last offset that the damage states",
            "if is_wrapper(headers[:, :1])[0]:",
            "if False:",
        ),
    ),
    *_of(
        "decoding/split_file.py",
        "tests/unit/partition/test_old_formats_of_copies.py",
        (
            "wrappers: where one begins is known only after it is unpacked",
            "firsts = {} if self._headers_only else decoder.find_first_offsets(chunk)",
            "firsts = {}",
        ),
    ),
    *_of(
        "partition/survey.py",
        "tests/unit/partition/test_old_formats_of_copies.py",
        (
            "wrappers: a survey knows where each begins",
            "return _note_first_offsets(made, firsts) if decodes else made",
            "return _note_first_offsets(made, {}) if decodes else made",
        ),
    ),
    *_of(
        "reading/mending.py",
        "tests/unit/partition/test_old_formats_of_copies.py",
        (
            "wrappers: a survey of a gap between messages unpacks them",
            "decodes = gap is None or gap.is_of_message_set",
            "decodes = gap is None",
        ),
    ),
    *_of(
        "partition/foreign_segments.py",
        "tests/unit/partition/test_foreign_segments.py",
        (
            "stale file: on a disk it is compared with one of its name, also where the sizes are equal",
            "if not is_in_store or sizes[base] != others[base]}",
            "if sizes[base] != others[base]}",
        ),
        (
            "stale file: it is compared where a checkpoint says that an epoch began",
            "return {start for start in starts if shared.start <= start < shared.end}",
            "return set()",
        ),
        (
            "stale file: a batch behind a gap may have a wrong offset, and shows no other history",
            "return is_named or (before is not None and before.last_offset == batch.base_offset - 1)",
            "return True",
        ),
    ),
    *_of(
        "reading/mending.py",
        _OFFSETS,
        (
            "offsets: a last batch with wrong offsets shows no gap",
            "if copy.has_misplaced_end and extent.holding != DAMAGED:",
            "if False:",
        ),
    ),
    *_of(
        "partition/twins.py",
        _OFFSETS,
        (
            "offsets: what the plan disproves is not read again",
            "is_cut = copy.policy.drop_malformed or (tail.damage is None and tail.before is None)",
            "is_cut = tail.damage is None and tail.before is None",
        ),
    ),
    *_of(
        "partition/copy_view.py",
        "tests/property/test_replica_sets.py::test_cases_that_failed_once",
        (
            "offsets: damage before a last batch that is left out is the end of its copy",
            "self._tail = replace(self._tail, position=position, damage=damage, is_torn=True)",
            "pass",
        ),
    ),
    *_of(
        "partition/copy_bytes.py",
        "tests/unit/partition/test_copy_bytes.py",
        (
            "offsets: bytes of a jump count for no offset",
            "if headers[0] is not None and headers[0].last_offset < limit:",
            "if headers[0] is not None:",
        ),
    ),
    *_of(
        "partition/copy_bytes.py",
        "tests/unit/partition/test_copy_bytes.py",
        (
            "copies: a batch of other offsets before a place is no byte behind it",
            "start.most if start.segment is end.segment else 0",
            "0",
        ),
    ),
    *_of(
        "inspection/copy_places.py",
        "tests/unit/inspection/test_copy_places.py",
        (
            "verify: in two compacted copies no batch lies over a part of another one",
            "odd = np.flatnonzero(overlaps & (others[:, at] != places).any(axis=0))",
            "odd = np.flatnonzero(overlaps & False)",
        ),
        (
            "verify: a batch of two compacted copies that lies at the same offsets is no problem",
            "odd = np.flatnonzero(overlaps & (others[:, at] != places).any(axis=0))",
            "odd = np.flatnonzero(overlaps)",
        ),
    ),
    *_of(
        "partition/twins.py",
        _OFFSETS,
        (
            "offsets: so is what compaction left of it in one of the two",
            "bool(fallen and others) and (fallen.items() <= others.items() or others.items() <= fallen.items())",
            "False",
        ),
        (
            "offsets: a last batch that another copy has elsewhere is left out",
            "header = None if other in at_its_place else _find_twin(copy, segment, last, other, gap)",
            "header = None",
        ),
    ),
    *_of(
        "partition/copy_tail.py",
        _OFFSETS,
        (
            "offsets: the only batch of a segment begins where its name says",
            "expected = segment.base_offset",
            "pass",
        ),
    ),
    *_of(
        "frames/predicates.py",
        "tests/unit/test_frames.py tests/property/test_predicates.py",
        (
            "frames: the last value that may pass is in the range",
            "return start, last + 1",
            "return start, last",
        ),
        (
            "frames: a range begins at the least value that may pass",
            "below = values[first - 1] if first else below",
            "below = values[first] if first < len(values) else below",
        ),
        (
            "frames: a partition is left out only where no row of it may pass",
            "if passes]",
            "if passes and partition == 0]",
        ),
        (
            "frames: what Arrow cannot say leaves nothing out",
            "return [True] * len(guarantees)",
            "return [False] * len(guarantees)",
        ),
    ),
    *_of(
        "frames/dataset.py",
        "tests/unit/test_frames.py tests/property/test_predicates.py",
        (
            "frames: the predicate is applied to every row that is read",
            "kept = batch if predicate is None else _filter_rows(batch, predicate)",
            "kept = batch",
        ),
    ),
    *_of(
        "frames/polars_frame.py",
        "tests/unit/test_frames.py tests/property/test_predicates.py",
        ("frames: the predicate of Polars is applied to every row", "if predicate is not None:", "if False:"),
        ("frames: a limit counts rows that pass", "wanted -= frame.height", "wanted -= batch.num_rows"),
    ),
    *_of(
        "spark/pushdown.py",
        "tests/unit/spark/test_pushdown.py",
        (
            "pushdown: a row of the same millisecond as a literal in microseconds is kept",
            "LessThan: at_or_after, LessThanOrEqual: after, EqualTo: after",
            "LessThan: micros // 1000, LessThanOrEqual: after, EqualTo: after",
        ),
        ("pushdown: NOT turns a comparison round", "GreaterThan: LessThanOrEqual,", "GreaterThan: LessThan,"),
        (
            "pushdown: IN keeps every value",
            "possible = possible.hull(bound(EqualTo((), value), value))",
            "possible = bound(EqualTo((), value), value)",
        ),
        ("pushdown: a literal of another type bounds nothing", "if type(value) is not int:", "if False:"),
        (
            "pushdown: <= keeps the value itself",
            "LessThan: value, LessThanOrEqual: value + 1",
            "LessThan: value, LessThanOrEqual: value",
        ),
    ),
    *_of(
        "partition/logs.py",
        "tests/unit/partition/test_copy_chain.py",
        (
            "copies: one that is gone is left out where offsets are searched again",
            "if look_at(directory, storage) is not None)",
            ")",
        ),
    ),
    *_of(
        "decoding/scratch.py",
        "tests/unit/decoding/test_scratch.py",
        ("arrays: two reads at a time have their own", "scratch = _kept.pop()", "scratch = _kept[0]"),
        ("arrays: large ones are not kept", "scratch.forget_large()", "pass"),
    ),
    *_of(
        "logdir/tiers.py",
        _TIERS,
        (
            "tiers: a topic without a name is not left out",
            "        if home in of_tier or faults\n",
            "        if False\n",
        ),
        (
            "tiers: no fixed number of manifests says what does not exist",
            "map_ahead(read, manifests[1:], storage",
            "map_ahead(read, manifests[1:16], storage",
        ),
        (
            "tiers: a partition without a name has that of its topic",
            "if names and names != [name_of(copy)]:",
            "if names != [name_of(copy)]:",
        ),
    ),
    *_of(
        "logdir/topic_choice.py",
        _TIERS,
        (
            "tiers: what is left of a deleted topic is no copy, where a local directory says so",
            "if len(uploaded) > 1 and len(local) == 1:",
            "if len(local) > 1:",
        ),
        (
            "tiers: without a local directory no topic counts as deleted",
            "if len(uploaded) > 1 and len(local) == 1:",
            "if len(uploaded) > 1:",
        ),
        (
            "tiers: a selection includes a topic without a name that it could mean",
            "if _list_possible(above, number, selection) or selection == TopicSelection():",
            "if selection == TopicSelection():",
        ),
        (
            "tiers: a pattern includes a topic without a name that it could mean",
            "return any(re.fullmatch(selection.pattern, above[at:]) for at in range(len(above)))",
            "return False",
        ),
        (
            "tiers: manifests that the storage does not give are its error",
            "if isinstance(place.tier.nameless.fault, StorageError):",
            "if False:",
        ),
        (
            "tiers: a disk with the same topic id says the name",
            "if place.tier is None or place.tier.nameless is None or place.tier.topic_id not in topics:",
            "if True:",
        ),
    ),
    *_of(
        "logdir/catalog.py",
        _TIERS,
        ("buckets: a copy whose objects are all gone is an empty one", "return bool(entries)", "return False"),
    ),
    *_of(
        "storage/files.py",
        _TIERS,
        (
            "tiers: a manifest that cannot be read is no directory that cannot be listed",
            'failure("listed" if path == listed else "read", path, error)',
            'failure("listed", path, error)',
        ),
    ),
    *_of(
        "storage/tiered/storage.py",
        _TIERS,
        ("tiers: a directory without a name answers to any", " or not partition.topic  #", "  #"),
    ),
    *_of(
        "storage/tiered/partition.py",
        _TIERS,
        (
            "tiers: an object that vanished is listed again",
            "except (FileNotFoundError, ReplacedError) as error:",
            "except ReplacedError as error:",
        ),
        (
            "tiers: damaged leader epochs leave those of the segments",
            "    if lineage or faults or segment is None:\n",
            "    if False:\n",
        ),
        (
            "tiers: a segment with a damaged manifest does not hide the lineage of its list",
            "if lineage and all(_is_in_lineage(segment, lineage) for segment in known[-1:]):",
            "if lineage and chain[-1:] == known[-1:]:",
        ),
        (
            "tiers: a list of the lineage has the epochs that begin in its gaps",
            "if lineage and all(_is_in_lineage(segment, lineage) for segment in known[-1:]):",
            "if False:",
        ),
    ),
    *_of(
        "epoch_checkpoint.py",
        _TIERS,
        ("epochs: a last line without its end was cut", 'if not data.endswith(b"\\n"):', "if False:"),
        ("epochs: the count of a checkpoint is that of its lines", "if count != [[str(len(entries))]]:", "if False:"),
    ),
    *_of(
        "partition/holding.py",
        _TIERS,
        (
            "tiers: bytes of another upload do not explain a segment of unknown size",
            "    if last.is_of_unknown_size:\n",
            "    if False:\n",
        ),
    ),
]


def caught_by(loosened: Loosened) -> str | None:
    """The test that fails for the change, with few cases or else with many, or None if all pass. Raises ValueError if
    its line is not there once."""
    with tempfile.TemporaryDirectory(prefix="kafkaseg-loosened-") as directory:
        copy = copy_to(Path(directory))
        loosened.change.make(copy)
        return _find_failure(loosened, copy, "few") or _find_failure(loosened, copy, "many")


def _find_failure(loosened: Loosened, copy: Path, cases: str) -> str | None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *loosened.tests.split()]
    environment = os.environ | {"PYTHONPATH": str(copy), "KAFKASEG_CASES": cases}
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode == 0:
        return None
    found = _FAILED.search(done.stdout)
    if found is None:
        raise ValueError(f"the tests did not run for {loosened.rule}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found[1]


def copy_to(directory: Path) -> Path:
    """The repository, its large files as links; with compiled kernels, which keep their file's time."""
    for name in ("kafka_segment_source", "pyspark_kafkaseg", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=lambda path, _: _left_out(Path(path)))
    for path in (*(ROOT / "tests" / "fixtures").iterdir(), ROOT / "examples", ROOT / "docs", ROOT / "benchmarks"):
        if path.is_dir() and path.name != "__pycache__":
            (directory / path.relative_to(ROOT)).symlink_to(path)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, directory)
    return directory


def _left_out(path: Path) -> list[str]:
    return [each.name for each in path.iterdir() if each.is_dir()] if path == ROOT / "tests" / "fixtures" else []


def main(words: list[str]) -> int:
    chosen = [each for each in LOOSENED if not words or any(word in each.rule for word in words)]
    missed = 0
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for loosened, result in zip(chosen, pool.map(_result, chosen), strict=True):
            missed += result.startswith("NOT")
            print(
                f"| {loosened.rule} | `{loosened.change.old.strip()}` → `{loosened.change.new.strip()}` | {result} |",
                flush=True,
            )
    print(f"{len(chosen)} rules loosened, {missed} of them not caught")
    return int(missed > 0)


def _result(loosened: Loosened) -> str:
    try:
        return caught_by(loosened) or "NOT CAUGHT"
    except ValueError as error:
        return f"NOT TRIED: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
