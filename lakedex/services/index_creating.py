"""CREATE INDEX: checks a name, a kind and its columns, then builds the index in one commit.

Everything that can be wrong is found before the table hears of it. What fails later is taken back:
a table never has half an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from lakedex.config import write_option_names as names_of
from lakedex.config.metadata_options import RecordIndexScope
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import META_COLUMNS
from lakedex.index.definitions import COVERING, IndexDefinition
from lakedex.index.secondary.pairs import PREFIX
from lakedex.index.secondary.spelling import is_indexable
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_names import (
    PREFIXES,
    find_dropped_index,
    find_index,
    require_absent,
)
from lakedex.services.indexing import (
    BackgroundBuild,
    build_in_background,
    start_build,
    take_up_build,
)
from lakedex.table import Snapshot
from lakedex.write import operation as kinds
from lakedex.write.layout.order import column_names
from lakedex.write.result import WriteResult
from lakedex.write.target import StoredSchema
from lakedex.write.verbs import TableWriter

SECONDARY_INDEX: Final = "secondary_index"
_RECORD_INDEX, _COLUMN_STATS, _BLOOM = "record_index", "column_stats", "bloom_filters"
_ONCE = (_RECORD_INDEX, _COLUMN_STATS, _BLOOM)
_LONGEST_NAME = 100
_VERSION = 2
_BY_EXPRESSION = "expr"


def create_index(
    writer: TableWriter,
    name: str,
    columns: str | Sequence[str],
    *,
    using: str = "",
    options: Mapping[str, str] | None = None,
    if_missing: bool = False,
    wait: bool = True,
) -> WriteResult | BackgroundBuild | None:
    """Build an index of the rows that are there; every later write keeps it up to date.

    Args:
        writer: The table.
        name: What the index is called. `record_index`, `column_stats` and `bloom_filters` are
            indexes that a table has at most once.
        columns: The column, or the columns.
        using: The kind; that of the name where it is one of these, else `secondary_index`.
        options: Hudi's write options for the build and all later writes. With
            `lakedex.covering=true` the entries of a secondary index name the file groups of their
            rows, so that a lookup takes one step; other engines do not see that.
        if_missing: Do nothing when the index is there already.
        wait: Whether to build it now, in one commit. Otherwise it is built in the background while
            writers go on, and what is answered is a `BackgroundBuild`.

    Returns:
        What the commit came to, or the build; None when there was nothing to do.

    Raises:
        InvalidInput: The name, a column or its type is wrong, or there is such an index; the table
            is as it was.
        UnsupportedFeature: The kind.
        CommitConflict: Another writer was first; the table is as it was.
    """
    chosen = dict(options or {})
    own = {COVERING: chosen.pop(COVERING).lower()} if COVERING in chosen else {}
    kind = _kind(name, using, chosen)
    if own and (kind != SECONDARY_INDEX or own[COVERING] not in ("true", "false")):
        raise InvalidInput(f"{COVERING} is true or false, and for secondary indexes only")
    wanted = [str(each) for each in column_names(columns)]
    chosen |= _flags(kind, wanted)
    asked = writer.with_options(chosen)
    snapshot = asked.snapshot()
    made: list[IndexDefinition] = []
    if kind != SECONDARY_INDEX:
        _check_key(snapshot, kind, wanted)
    there = find_index(snapshot, kind if kind != SECONDARY_INDEX else name)
    if there is not None:
        if if_missing:
            return None
        require_absent(snapshot, there)
    if kind == SECONDARY_INDEX:
        made.append(_definition(asked, snapshot, name, wanted, own))
    if not wait:
        if made:
            _check_live_record_index(snapshot, name)
        return build_in_background(writer, start_build(writer, chosen, made))
    return asked.add_index(made[0]) if made else asked.run(kinds.INDEX, None)


def resume_index(writer: TableWriter, name: str) -> BackgroundBuild:
    """Go on with an index that is in the making and that nobody is at work on.

    Args:
        writer: The table.
        name: The index by the name of its metadata partition, or by that which it was given.

    Raises:
        InvalidInput: No such index is in the making.
        CommitConflict: Another process builds it.
    """
    found = find_index(writer.snapshot(), name)
    return build_in_background(writer, take_up_build(writer, found or name))


def refresh_index(writer: TableWriter, name: str) -> None:
    """Build a secondary index anew, as after another engine forgot to keep it up to date.

    Other kinds of index are never behind their table: they have only to be there. An index that
    another engine dropped is built again as its definition says. # traps: B62.

    Raises:
        InvalidInput: There is no such index.
    """
    snapshot = writer.snapshot()
    there = find_index(snapshot, name)
    if there is None:
        gone = find_dropped_index(snapshot, name)
        if gone is not None:
            _build_again(writer, snapshot, gone)
            return
        present = ", ".join(snapshot.config.metadata_partitions) or "none"
        raise InvalidInput(f"table {snapshot.config.name} has no index {name!r}; it has {present}")
    definition = snapshot.definitions.get(there)
    if definition is None or not there.startswith(PREFIX):
        return
    (column,) = definition.source_fields
    own = there.removeprefix(PREFIX)
    # What could not be built again must not be dropped.
    made = _definition(writer, snapshot, own, [column], definition.options)
    drop_index(writer.address, there, writer.target().patience)
    writer.add_index(made)


def _build_again(writer: TableWriter, snapshot: Snapshot, gone: IndexDefinition) -> None:
    columns = list(gone.source_fields)
    if gone.name.startswith(PREFIX):
        own = gone.name.removeprefix(PREFIX)
        writer.add_index(_definition(writer, snapshot, own, columns, gone.options))
        return
    flags = _flags(gone.name, columns)
    if gone.is_partitioned:
        flags = {names_of.PARTITIONED_RECORD_INDEX.name: "true"}
    if not flags:
        raise UnsupportedFeature(f"building the index {gone.name} again")
    writer.with_options(flags).run(kinds.INDEX, None)


def _kind(name: str, using: str, options: Mapping[str, str]) -> str:
    kind = using.lower() or (name.lower() if name.lower() in _ONCE else SECONDARY_INDEX)
    if kind not in (*_ONCE, SECONDARY_INDEX):
        known = ", ".join((*_ONCE, SECONDARY_INDEX))
        raise UnsupportedFeature(f"CREATE INDEX {name} of kind {kind!r} (only {known})")
    if _BY_EXPRESSION in options:
        raise UnsupportedFeature(f"CREATE INDEX {name} on the expression {options['expr']!r}")
    return kind


def _flags(kind: str, columns: Sequence[str]) -> dict[str, str]:
    """The options by which writers keep an index that a table has once."""
    return {
        _RECORD_INDEX: {names_of.GLOBAL_RECORD_INDEX.name: "true"},
        _BLOOM: {names_of.BLOOM_FILTERS.name: "true"},
        _COLUMN_STATS: {
            names_of.COLUMN_STATS.name: "true",
            names_of.COLUMN_STATS_COLUMNS.name: ",".join(columns),
        },
    }.get(kind, {})


def _check_key(snapshot: Snapshot, kind: str, columns: list[str]) -> None:
    config = snapshot.config
    keys = list(config.record_key_fields)
    if kind == _RECORD_INDEX and columns != keys:
        raise InvalidInput(
            f"the record index of table {config.name} is on its key ({', '.join(keys)}), not on "
            f"{', '.join(columns)}"
        )


def _check_live_record_index(snapshot: Snapshot, name: str) -> None:
    """Two indexes of which one needs the other are not built in one go in the background."""
    if _RECORD_INDEX not in snapshot.config.metadata_partitions:
        raise InvalidInput(
            f"the secondary index {name} of table {snapshot.config.name} needs a record index that "
            "is whole; build that first"
        )


def _definition(
    writer: TableWriter,
    snapshot: Snapshot,
    name: str,
    columns: list[str],
    options: Mapping[str, str],
) -> IndexDefinition:
    """The definition of a new secondary index, as Hudi writes it."""
    _check_name(name)
    column = _column(snapshot, name, columns)
    _check_record_index(writer, snapshot, name)
    full = PREFIX + name
    return IndexDefinition(full, SECONDARY_INDEX, "identity", (column,), options, _VERSION)


def _check_name(name: str) -> None:
    plain = name.replace("_", "a")
    if not (plain.isascii() and plain.isalnum() and len(name) <= _LONGEST_NAME):
        raise InvalidInput(
            f"{name!r} is no name for an index: letters, digits and underscores, at most "
            f"{_LONGEST_NAME} of them"
        )
    if name.lower().startswith(PREFIXES) or name.lower() in (*_ONCE, "files", "partition_stats"):
        raise InvalidInput(f"{name!r} is no name for a secondary index, as it means something else")


def _column(snapshot: Snapshot, name: str, columns: list[str]) -> str:
    if len(columns) != 1:
        raise UnsupportedFeature(f"a secondary index ({name}) on {len(columns)} columns, not one,")
    known = StoredSchema.of(snapshot).columns
    asked = columns[0]
    found = [each for each in known.names if each == asked]
    found = found or [each for each in known.names if each.lower() == asked.lower()]
    table = snapshot.config.name
    if asked in META_COLUMNS:
        raise InvalidInput(f"the meta column {asked} of table {table} cannot be indexed")
    if len(found) != 1:
        raise InvalidInput(
            f"table {table} has no column {asked!r} to index; it has {', '.join(known.names)}"
        )
    kind: pa.DataType = known.field(found[0]).type
    if not is_indexable(kind):
        raise InvalidInput(
            f"column {found[0]!r} of type {kind} cannot have a secondary index: only columns of "
            "single values can"
        )
    return found[0]


def _check_record_index(writer: TableWriter, snapshot: Snapshot, name: str) -> None:
    """A secondary index leads to record keys; the record index from there to files. # B17."""
    scope = writer.target().options.metadata.record_index
    if scope is RecordIndexScope.GLOBAL:
        return
    table = snapshot.config.name
    if scope is RecordIndexScope.PARTITIONED:
        raise InvalidInput(
            f"table {table} has a record index for each partition; the secondary index {name} "
            "needs one over the whole table"
        )
    keys = ", ".join(snapshot.config.record_key_fields)
    raise InvalidInput(
        f"the secondary index {name} needs a record index, which table {table} does not have: "
        f"first CREATE INDEX record_index ON {table} ({keys}), or let both be built with the "
        f"option {names_of.GLOBAL_RECORD_INDEX.name}=true"
    )
