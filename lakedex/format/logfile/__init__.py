"""Hudi's log files: blocks of changes to a base file.

`read_blocks` finds the blocks without reading their contents, `effective_blocks` selects those that
are valid, and the `decode_*` functions read one block. The `encode_*` functions create blocks.
"""

from __future__ import annotations

from lakedex.format.logfile.blocks import (
    ROLLBACK_COMMAND,
    BlockKind,
    HeaderKey,
    LogBlock,
    effective_blocks,
    read_blocks,
)
from lakedex.format.logfile.deletes import (
    DeleteRecords,
    OrderingValues,
    decode_delete_block,
    encode_delete_content,
)
from lakedex.format.logfile.records import (
    count_records,
    decode_avro_block,
    decode_avro_blocks,
    decode_matching,
    decode_parquet_block,
    hfile_of,
)
from lakedex.format.logfile.virtual import (
    NamedLog,
    decode_virtual_block,
    encode_virtual_content,
)
from lakedex.format.logfile.writer import (
    empty_init_block,
    encode_avro_content,
    encode_avro_contents,
    encode_block,
    encode_parquet_content,
    encode_rollback_block,
)

__all__ = [
    "ROLLBACK_COMMAND",
    "BlockKind",
    "DeleteRecords",
    "HeaderKey",
    "LogBlock",
    "NamedLog",
    "OrderingValues",
    "count_records",
    "decode_avro_block",
    "decode_avro_blocks",
    "decode_delete_block",
    "decode_matching",
    "decode_parquet_block",
    "decode_virtual_block",
    "effective_blocks",
    "empty_init_block",
    "encode_avro_content",
    "encode_avro_contents",
    "encode_block",
    "encode_delete_content",
    "encode_parquet_content",
    "encode_rollback_block",
    "encode_virtual_content",
    "hfile_of",
    "read_blocks",
]
