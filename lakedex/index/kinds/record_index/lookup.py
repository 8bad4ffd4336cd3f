"""The record index as a pruner: from the key values in a predicate to file groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig
from lakedex.expr.points import key_points, points
from lakedex.expr.tree import And, Column, Expr, In, columns_of
from lakedex.filegroup import RECORD_KEY, FileSliceId, ReadContext
from lakedex.index.contract import (
    NEWEST_ONLY,
    NOT_LIVE,
    Answer,
    IndexedTable,
    Question,
    Stage,
)
from lakedex.index.cost import Estimate, lookup_seconds
from lakedex.index.kinds.record_index.completeness import PARTITION, check_seconds, why_incomplete
from lakedex.index.metadata_table import RECORD_INDEX_PAYLOAD
from lakedex.index.metadata_table.hashing import shards_of
from lakedex.index.metadata_table.keys import file_ids
from lakedex.keys import RecordKeyFormat, escape_path_value

MAX_KEYS = 200_000
"""More keys than this are no point lookup any more."""
_MANY_KEYS = 1_000
"""So many are not spelled before it is sure that they are looked up."""
_FEW_ENTRIES = 1_000
"""Of so few entries grouping them would take longer than to look at each place."""
_RAW_FILE_ID = 1
"""The `fileIdEncoding` of file ids that are no UUIDs and are stored as text."""

LOCATION_FIELDS: Final = (
    "partitionName",
    "fileIdHighBits",
    "fileIdLowBits",
    "fileIndex",
    "fileId",
    "fileIdEncoding",
)
"""The fields of an entry that say where its row is."""


class RecordIndex:
    """Prunes by `=` and IN on the record key."""

    kind = "record_index"
    stage = Stage.KEYS
    describes_files = False

    def names(self, table: IndexedTable) -> list[str]:
        """The record index, if the table has one."""
        known = table.is_live(PARTITION) or PARTITION in table.definitions
        return [PARTITION] if known else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Looking the keys up; a key is in one file group at most."""
        table = question.table
        fewest = _fewest_keys(question.predicate, _key_columns(table.read))
        if fewest and table.is_live(name) and table.is_latest:
            # Without the check, which reads the timeline, and without spelling many keys.
            least = lookup_seconds(table.metadata, PARTITION, fewest)
            if least > question.worth:
                return Estimate(least, most_left=fewest)
            if fewest >= _MANY_KEYS:
                seconds = locate_seconds(table, fewest)
                return Estimate(seconds, most_left=fewest, once=check_seconds(table))
        keys = _usable_keys(name, question)
        if isinstance(keys, str):
            return keys
        seconds = locate_seconds(table, len(keys))
        return Estimate(seconds, most_left=len(keys), once=check_seconds(table))

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The file groups that hold the keys which the predicate asks for."""
        table = question.table
        keys = _usable_keys(name, question)
        if isinstance(keys, str):
            return keys
        found = locate(table, pa.array(keys, pa.string()), question.partitions)
        if isinstance(found, str):
            return found
        question.locate(_key_columns(table.read))
        hits = question.mask_of(found)
        reason = f"{len(keys)} keys asked, {len(found)} file groups hold them"
        return Answer(hits, np.ones(len(hits), dtype=np.bool_), reason)


def locate_seconds(table: IndexedTable, keys: int) -> float:
    """What `locate` takes for so many keys."""
    return check_seconds(table) + lookup_seconds(table.metadata, PARTITION, keys)


def locate(
    table: IndexedTable, keys: pa.Array, partitions: Sequence[str]
) -> set[FileSliceId] | str:
    """The file groups of the given record keys, or why the index cannot be trusted."""
    problem = why_incomplete(table)
    if problem is not None:
        return problem
    found = distinct_locations(_entries(table, keys, partitions))
    strays = [each for each in found if each not in table.slice_ids]
    if strays:
        stray = min(strays)
        return f"an entry points to file group {stray.file_id}, which the snapshot does not have"
    return found


def question_keys(question: Question) -> list[str] | str:
    """The record keys that the predicate asks for, read off it once, or why there are none."""
    if "record_keys" not in question.found:
        question.found["record_keys"] = record_keys(question.predicate, question.table.read)
    keys: list[str] | str = question.found["record_keys"]
    return keys


def record_keys(predicate: Expr, read: ReadContext) -> list[str] | str:
    """The record keys that rows must have for the predicate to be true, or why unknown."""
    stored = points(predicate, (RECORD_KEY,))
    if stored is not None:
        return [str(literal.value) for literal in stored if literal.value is not None]
    fields = read.config.record_key_fields
    if not fields:
        return "the table has no record key columns"
    for field in fields:
        if field not in read.schema.names:
            return f"the record key {field} is no column"
        if not RecordKeyFormat.can_spell(read.schema.field(field).type):
            return f"how keys spell {read.schema.field(field).type} values ({field}) is not sure"
    rows = key_points(predicate, [(field,) for field in fields], MAX_KEYS)
    if rows is None:
        return f"the predicate has no = or IN on the record key ({', '.join(fields)})"
    values = [tuple(literal.value for literal in row) for row in rows]
    keys = key_format(read.config).keys(values)
    return "a key value has no sure spelling" if keys is None else keys


def _key_columns(read: ReadContext) -> frozenset[str]:
    return frozenset([RECORD_KEY, *read.config.record_key_fields])


def _fewest_keys(predicate: Expr, columns: frozenset[str]) -> int:
    """How many keys a predicate asks for at least, told from its lists; 0 if it names no key."""
    match predicate:
        case In(Column(path), values) if path[0] in columns:
            return len(values)
        case And(children):
            named = [_fewest_keys(child, columns) for child in children]
            return min((count for count in named if count), default=0)
        case _:
            return int(any(column.path[0] in columns for column in columns_of(predicate)))


def _usable_keys(name: str, question: Question) -> list[str] | str:
    if not question.table.is_live(name):
        return NOT_LIVE
    keys = question_keys(question)
    if isinstance(keys, str):
        return keys
    return keys if question.table.is_latest else NEWEST_ONLY


def key_format(config: TableConfig) -> RecordKeyFormat:
    """How the table spells record keys; one field may be spelled either way by some writers."""
    fields = config.record_key_fields
    if len(fields) > 1:
        return RecordKeyFormat(fields, names_fields=True)
    generator = f"{config.keygen_type or ''} {config.keygen_class or ''}".upper()
    plain = any(kind in generator for kind in ("SIMPLE", "NON_PARTITION", "NONPARTITION"))
    return RecordKeyFormat(fields, names_fields=False if plain else None)


def _entries(table: IndexedTable, keys: pa.Array, partitions: Sequence[str]) -> pa.Table:
    definition = table.definitions.get(PARTITION)
    if definition is None or not definition.is_partitioned:
        return table.metadata.lookup(PARTITION, keys)
    groups = [group.file_id for group in table.metadata.groups(PARTITION)]
    parts = []
    for partition in partitions:
        start = f"record-index-{escape_path_value(partition, for_file_name=True)}-"
        own = [name for name in groups if name.startswith(start) and name.count("-") == 4]
        if own:
            shards = shards_of(keys, len(own))
            parts += [
                table.metadata.lookup_in(
                    PARTITION, own[shard], keys.filter(pa.array(shards == shard))
                )
                for shard in np.unique(shards).tolist()
            ]
    return pa.concat_tables(parts) if parts else table.metadata.lookup(PARTITION, keys[:0])


def distinct_locations(records: pa.Table) -> set[FileSliceId]:
    """The file groups that record-index entries point to, each once."""
    payload = records[RECORD_INDEX_PAYLOAD].combine_chunks()
    places = pa.table({name: pc.struct_field(payload, name) for name in LOCATION_FIELDS})
    distinct = places
    if places.num_rows > _FEW_ENTRIES:
        distinct = places.group_by(list(LOCATION_FIELDS)).aggregate([])
    encoding = distinct["fileIdEncoding"].to_pylist()
    named = file_ids(*(_numbers(distinct[name]) for name in LOCATION_FIELDS[1:4]))
    raw = distinct["fileId"].to_pylist()
    partitions = distinct["partitionName"].to_pylist()
    return {
        FileSliceId(partitions[row] or "", raw[row] if kind == _RAW_FILE_ID else named[row])
        for row, kind in enumerate(encoding)
    }


def _numbers(column: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return column.fill_null(-1).combine_chunks().to_numpy(zero_copy_only=False).astype(np.int64)
