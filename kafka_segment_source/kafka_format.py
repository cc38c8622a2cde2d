"""Kafka's on-disk format: every offset, length, mask, magic, sentinel and file name, and nothing else.

All integers are big-endian. The sources are Kafka's own classes. `clients` is `org.apache.kafka.common.record`, and
`storage` is `org.apache.kafka.storage.internals.log`.

A `.log` file is a sequence of entries. Three fields have the same meaning in every version: bytes 0-7 (offset), 8-11
(size of the rest of the entry) and 16 (magic). So a walk needs 17 bytes to identify an entry
(`clients.FileLogInputStream`).

Record batch, magic 2, Kafka 0.11 and later (`clients.DefaultRecordBatch`), 61 bytes of header:

    =====  ====  ====================  =====================================================
    at     size  field                 remarks
    =====  ====  ====================  =====================================================
    0      i64   baseOffset            compaction keeps it: the first record left may be later
    8      i32   length                bytes after this field; at least 49
    12     i32   partitionLeaderEpoch  outside the CRC
    16     i8    magic                 2
    17     u32   crc                   CRC-32C of byte 21 to the end, as stored (compressed)
    21     i16   attributes            bits 0-2 codec, 3 timestampType, 4 transactional,
                                       5 control, 6 delete horizon in baseTimestamp
    23     i32   lastOffsetDelta       lastOffset = baseOffset + lastOffsetDelta
    27     i64   baseTimestamp         ms; origin of the deltas, not a minimum
    35     i64   maxTimestamp          ms
    43     i64   producerId            -1: none
    51     i16   producerEpoch
    53     i32   baseSequence          wraps to 0 after 2**31 - 1
    57     i32   recordsCount          0 is legal after compaction
    61     ...   records               plain, or one compressed block of the same bytes
    =====  ====  ====================  =====================================================

Record inside a batch (`clients.DefaultRecord`), integers zig-zag base-128:

    length · attributes i8 · timestampDelta · offsetDelta · keyLength (-1 null) · key ·
    valueLength (-1 null) · value · headersCount · [headerKeyLength · headerKey · headerValueLength
    (-1 null) · headerValue] ...

Message of a message set, magic 0 (Kafka 0.8, 0.9) and magic 1 (0.10) (`clients.LegacyRecord`):

    offset i64 · size i32 · crc u32 (CRC-32 from magic to the end) · magic i8 · attributes i8 ·
    [magic 1: timestamp i64] · keyLength i32 (-1 null) · key · valueLength i32 (-1 null) · value

Index files lie beside the `.log`. Their offsets are relative to the segment's base offset:

    OffsetIndex (`storage.OffsetIndex`), 8 bytes an entry: relativeOffset i32 · position i32
    TimeIndex (`storage.TimeIndex`), 12 bytes an entry: timestamp i64 · relativeOffset i32

Transaction files. Their offsets are absolute:

    TransactionIndex (`storage.AbortedTxn`), 34 bytes an entry: version i16 (0) · producerId i64 ·
    firstOffset i64 · lastOffset i64 (the ABORT marker) · lastStableOffset i64
    ProducerSnapshot (`storage.ProducerStateManager`), 10 bytes of header: version i16 (1) · crc u32
    (CRC-32C of byte 6 to the end) · count i32; 46 bytes a producer: producerId i64 · epoch i16 ·
    lastSequence i32 · lastOffset i64 · offsetDelta i32 · timestamp i64 · coordinatorEpoch i32 ·
    currentTxnFirstOffset i64 (-1: none open)
"""

import struct
from typing import Final

# Entry, any magic
BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LOG_OVERHEAD: Final = 12  # bytes of offset and length, which `length` does not count
MAGIC_AT: Final = 16
MAGIC_END: Final = 17  # the least bytes that identify an entry
MAGIC_V0: Final = 0
MAGIC_V1: Final = 1
MAGIC_V2: Final = 2
LARGEST_MAGIC: Final = 127  # magic is a signed byte

# Record batch, magic 2
LEADER_EPOCH_AT: Final = 12
CRC_AT: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORDS_COUNT_AT: Final = 57
BATCH_OVERHEAD: Final = 61  # RECORD_BATCH_OVERHEAD
MIN_BATCH_LENGTH: Final = BATCH_OVERHEAD - LOG_OVERHEAD
MIN_RECORD_BYTES: Final = 7  # six one-byte varints and the attributes byte
MIN_HEADER_BYTES: Final = 2  # two empty varint lengths

BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")  # the 61 bytes, field by field

# Message, magic 0 and 1
LEGACY_CRC_AT: Final = 12
LEGACY_ATTRIBUTES_AT: Final = 17
LEGACY_TIMESTAMP_AT: Final = 18
MIN_LENGTH_V0: Final = 14
MIN_LENGTH_V1: Final = 22

# attributes
CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

# compression.type by codec id (`clients.CompressionType`), with the names that kafka-dump-log prints
CODEC_NONE: Final = 0
CODEC_GZIP: Final = 1
CODEC_SNAPPY: Final = 2
CODEC_LZ4: Final = 3
CODEC_ZSTD: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_MESSAGE_SET_CODECS: Final = (CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4)
CODECS: Final = {  # by magic; only magic 2 may have zstd
    MAGIC_V0: _MESSAGE_SET_CODECS,
    MAGIC_V1: _MESSAGE_SET_CODECS,
    MAGIC_V2: (*_MESSAGE_SET_CODECS, CODEC_ZSTD),
}

# Sentinels
NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1
NO_PRODUCER: Final = -1
TIMESTAMP_TYPE_NONE: Final = -1  # NoTimestampType
TIMESTAMP_TYPE_CREATE: Final = 0  # CreateTime
TIMESTAMP_TYPE_LOG_APPEND: Final = 1  # LogAppendTime

# Snappy as Java writes it (xerial framing): a 16-byte header, then [length i32 · raw block] ...
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = 16

# Index entries
OFFSET_INDEX_ENTRY: Final = 8
TIME_INDEX_ENTRY: Final = 12
TRANSACTION_INDEX_ENTRY: Final = 34

# Key of a control record (`clients.ControlRecordType`): version i16 · type i16; longer keys are later versions
CONTROL_KEY_BYTES: Final = 4
CONTROL_TYPE_AT: Final = 2
CONTROL_ABORT: Final = 0
CONTROL_COMMIT: Final = 1
CONTROL_TYPES: Final = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)

# Value of an ABORT or COMMIT (`clients.EndTransactionMarker`): version i16 · coordinatorEpoch i32
COORDINATOR_EPOCH_AT: Final = 2
END_MARKER_BYTES: Final = 6

# ProducerSnapshot: one header, then one entry for each producer
SNAPSHOT_VERSION: Final = 1
SNAPSHOT_CRC_FROM: Final = 6
SNAPSHOT_HEADER: Final = struct.Struct(">hIi")  # version, crc, count
SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")

# Files of a segment (`storage.LogFileUtils`): 20 decimal digits, then one of these
LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"  # its digits are the offset (exclusive) up to which it has the producers
BASE_OFFSET_DIGITS: Final = 20
DELETED_SUFFIX: Final = ".deleted"  # follows another suffix; the broker removes the file a minute later
CLEANED_SUFFIX: Final = ".cleaned"  # output of a compaction that has not finished
SWAP_SUFFIX: Final = ".swap"  # output of a finished compaction, which will replace the segments that it was made from


def segment_file(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """Returns the name of a segment's file (`storage.LogFileUtils.filenamePrefixFromOffset`)."""
    return f"{base_offset:0{BASE_OFFSET_DIGITS}d}{suffix}"


# Checkpoints (`CheckpointFile`) are text: version, number of entries, then one line `topic partition offset` for each
# entry. They lie in the log directory, beside the partition directories.
CHECKPOINT_VERSION: Final = 0
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"  # all records below it were flushed
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CHECKPOINTS: Final = (
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CLEANER_CHECKPOINT,
)

# In the partition directory (`LeaderEpochCheckpointFile`): version, number of entries, lines of `epoch startOffset`
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"

# In the partition directory: `version: 0`, then `topic_id: <22 characters of base64>`
PARTITION_METADATA: Final = "partition.metadata"
TOPIC_ID_KEY: Final = "topic_id"

# Partition directories that hold dead or unfinished data (`storage.LocalLog`): <topic>-<partition>.<id>-delete ...
DEAD_DIRECTORY_SUFFIXES: Final = ("-delete", "-future", "-stray")
INTERNAL_TOPIC_PREFIX: Final = "__"

MAX_OFFSET: Final = 2**63 - 1
LARGEST_LOG: Final = 2**31 - 1  # bytes of a `.log`: positions in a segment are 32-bit
