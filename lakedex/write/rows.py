"""The form of rows on their way through a write.

Columns: the record key, the partition path, a mark for deletes that are not conditional, then the
table's own columns in order. After tagging four more stand behind them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

KEY: Final = "_hoodie_record_key"
PARTITION: Final = "_hoodie_partition_path"
DELETE: Final = "__lakedex_delete"
"""True: the key goes away whatever its ordering value; other columns may be null."""
FILE_ID: Final = "__lakedex_file_id"
"""The file group that holds the key's place; null for one that has none yet."""
LIVE: Final = "__lakedex_live"
"""Whether the key is in the table now; False for a place whose record was deleted by a log."""
TWICE: Final = "__lakedex_twice"
"""Whether the file group is known to hold the key more than once, as after a plain insert."""
ELSEWHERE: Final = "__lakedex_elsewhere"
"""Whether other file groups are known to hold the key too, which are written with this one."""
TARGET: Final = "__lakedex_target"
"""The file group that a row goes to, where a bucket says so; it is not put out with the rows."""

LEADING = (
    pa.field(KEY, pa.string()),
    pa.field(PARTITION, pa.string()),
    pa.field(DELETE, pa.bool_()),
)
TAGS = (
    pa.field(FILE_ID, pa.string()),
    pa.field(LIVE, pa.bool_()),
    pa.field(TWICE, pa.bool_()),
    pa.field(ELSEWHERE, pa.bool_()),
)
