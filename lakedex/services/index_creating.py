"""CREATE INDEX: checks a name, a kind and its columns, then builds the index in one commit.

Everything that can be wrong is found before the table hears of it. What fails later is taken back:
a table never has half an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lakedex.config import write_option_names as names_of
from lakedex.config.metadata_options import RecordIndexScope
from lakedex.config.option_check import PREFIXES, did_you_mean
from lakedex.config.option_values import FlagOption
from lakedex.config.table_config import ASYNC_SECONDARY_PREFIX, COMPOSITE_PREFIX
from lakedex.errors import FileMissing, InvalidInput, UnsupportedFeature
from lakedex.index.definitions import ASYNC, COVERING, MAINTENANCE, IndexDefinition
from lakedex.index.file_index import FileIndexKind, IndexRequest
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.kinds.expression.target import PREFIX as EXPRESSION
from lakedex.index.kinds.secondary.key_encoding import is_indexable
from lakedex.index.kinds.secondary.pairs import PREFIX
from lakedex.index.registry import file_index_kinds
from lakedex.schema.field_paths import type_at
from lakedex.services.expression_creating import (
    EXPR,
    INDEX_OPTIONS,
    CheckedBySpark,
    add_expression_index,
    add_in_background,
    add_now,
    create_expression_index,
    refresh_expression_index,
    stored_expression,
)
from lakedex.services.expression_text import read_columns, with_spelled_function
from lakedex.services.file_index_creating import (
    FileIndexBuild,
    FileIndexBuilder,
    refresh_file_index,
)
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_names import (
    ONCE,
    check_index_name,
    find_dropped_index,
    find_index,
    find_plan,
    index_kind,
    indexed_path,
    require_absent,
)
from lakedex.services.indexing import (
    BackgroundBuild,
    adopt_plan,
    build_in_background,
    start_build,
    take_up_build,
)
from lakedex.services.plain_columns import columns_to_add, has_other_columns
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.write import operation as kinds
from lakedex.write.layout.order import column_names
from lakedex.write.result import WriteResult
from lakedex.write.row_size import stored_rows
from lakedex.write.target import StoredSchema
from lakedex.write.verbs import TableWriter

SECONDARY_INDEX: Final = "secondary_index"
_RECORD_INDEX, _COLUMN_STATS, _BLOOM = "record_index", "column_stats", "bloom_filters"
_SPOKEN = {_RECORD_INDEX: "record index", _BLOOM: "index bloom_filters"}
_AS_IT_IS = "identity"
_VERSION = 2
MOST_COLUMNS: Final = 16
"""Of one secondary index."""
_SYNC = "sync"
_WHY_SYNC = {
    _RECORD_INDEX: "writers find records by it, and secondary indexes lead through it",
    _COLUMN_STATS: "Hudi takes a file without statistics for one that it need not skip, and "
    "partition_stats are made of them; create an expression index with this option instead",
    _BLOOM: "upserts may find records by it; create one USING bloom_filters on an expression, or "
    "USING bitmap, instead",
}
_ATTEMPTS = 3
_MOST_ENTRIES_A_ROW = 4
"""A secondary index that is refreshed keeps the entries of rows that changed: so many at most."""
_FEW_ENTRIES = 10_000
_OLDER_EXPR = "func"
_PARTITIONED = "isPartitioned"
_OF_INDEX = {each.lower(): each for each in (*INDEX_OPTIONS, _OLDER_EXPR, _PARTITIONED)}
_IN_BACKGROUND = FlagOption("hoodie.metadata.index.async", "false")


def create_index(
    writer: TableWriter,
    name: str,
    columns: str | Sequence[str],
    *,
    using: str = "",
    options: Mapping[str, str] | None = None,
    if_missing: bool = False,
    wait: bool = True,
    check: CheckedBySpark | None = None,
) -> WriteResult | BackgroundBuild | FileIndexBuild | None:
    """Build an index of the rows that are there; every later write keeps it up to date.

    Args:
        writer: The table.
        name: What the index is called. `record_index`, `column_stats` and `bloom_filters` are
            indexes that a table has at most once.
        columns: The column, or the columns; or an expression such as `upper(name)`. A secondary
            index on several columns is one that lakedex alone knows.
        using: The kind; that of the name where it is one of these, else `secondary_index`.
        options: Hudi's write options for the build and all later writes. With
            `lakedex.covering=true` the entries of a secondary index name the file groups of their
            rows, so that a lookup takes one step; other engines do not see that. With
            `maintenance=async` writers leave a secondary, expression or bitmap index alone: queries
            read the file slices that are newer than its last refresh. `expr` is the function of an
            expression index, beside its arguments.
        if_missing: Do nothing when the index is there already.
        wait: Whether to build it now, in one commit. Otherwise, and with the option
            `hoodie.metadata.index.async`, it is built in the background while writers go on, and
            what is answered is a `BackgroundBuild`.
        check: Asks Spark about the function of an expression index, where there is a Spark.

    Returns:
        What the commit came to, or the build; None when there was nothing to do.

    Raises:
        InvalidInput: The name, a column or its type is wrong, or there is such an index; the table
            is as it was.
        UnsupportedFeature: The kind.
        CommitConflict: Another writer was first; the table is as it was.
    """
    wanted, function = read_columns(name, [str(each) for each in column_names(columns)])
    name, using = name if using else index_kind(name), index_kind(using)
    file_kind = file_index_kinds().get(using.lower())
    given = {**function, **_with_newer_names(name, options or {}, file_kind)}
    if MAINTENANCE in given:
        given[MAINTENANCE] = checked_maintenance(name, given[MAINTENANCE])
    chosen = with_spelled_function(wanted, given)
    is_async = file_kind is not None and chosen.pop(MAINTENANCE, "") == ASYNC
    now = wait and not _IN_BACKGROUND.value(chosen)
    create = partial(
        create_expression_index,
        writer,
        name,
        wanted,
        options={EXPR: _AS_IT_IS, **chosen},
        if_missing=if_missing,
        check=check,
    )
    if file_kind is not None:
        builder = FileIndexBuilder(file_kind, now, is_async)
        if file_kind.indexes_expressions:
            return create(using="", add=builder.add_expression)
        return _create_file_index(writer, name, wanted, chosen, builder, if_missing=if_missing)
    if EXPR in chosen or _is_of_values(writer, name, using, wanted):
        return (
            create(using=using, add=add_now) if now else create(using=using, add=add_in_background)
        )
    kind = _kind(name, using)
    return _create_of_columns(
        writer, name, wanted, kind, options=chosen, if_missing=if_missing, wait=wait
    )


def _create_file_index(
    writer: TableWriter,
    name: str,
    columns: list[str],
    options: Mapping[str, str],
    builder: FileIndexBuilder,
    *,
    if_missing: bool,
) -> WriteResult | FileIndexBuild | None:
    """Build a file index on columns as they are."""
    kind = builder.kind
    snapshot = writer.snapshot()
    there = find_index(snapshot, name)
    if there is not None:
        if if_missing:
            return None
        require_absent(snapshot, there)
    check_index_name(name)
    if EXPR in options:
        raise UnsupportedFeature(f"CREATE INDEX {name} USING {kind.kind} on an expression")
    request = IndexRequest(
        name=name,
        table=snapshot.config.name,
        columns=tuple(indexed_path(snapshot, each) for each in columns),
        schema=StoredSchema.of(snapshot).columns,
        options={key: value for key, value in options.items() if key in kind.options},
    )
    definition = kind.define(request)
    rest = {key: value for key, value in options.items() if key not in kind.options}
    return builder.add(writer, rest, definition)


def _with_newer_names(
    index: str, options: Mapping[str, str], file_kind: FileIndexKind | None = None
) -> dict[str, str]:
    """Options as Hudi names them now: RFC-63 and early releases call the function `func`.

    Capital and small letters of what is said of the index itself are the same.
    """
    given: dict[str, str] = {}
    names = dict(_OF_INDEX)
    if file_kind is not None and not file_kind.indexes_expressions:
        names = {each.lower(): each for each in (MAINTENANCE, *file_kind.options)}
    for option, value in options.items():
        known = names.get(option.lower(), option)
        if known not in names.values() and not option.startswith(PREFIXES):
            spelled = INDEX_OPTIONS if file_kind is None else tuple(names.values())
            hint = did_you_mean(option, spelled) or f"; there are {', '.join(spelled)}"
            raise InvalidInput(f"no option of an index is called {option!r}{hint}")
        if given.setdefault(known, value) != value:
            raise InvalidInput(f"the option {known} of index {index} is given twice")
    older = given.pop(_OLDER_EXPR, None)
    if older is not None and given.setdefault(EXPR, older) != older:
        raise InvalidInput(
            f"the function of index {index} is {given[EXPR]!r} by {EXPR}, and {older!r} by "
            f"{_OLDER_EXPR}"
        )
    return given


def _create_of_columns(
    writer: TableWriter,
    name: str,
    wanted: list[str],
    kind: str,
    *,
    options: Mapping[str, str],
    if_missing: bool,
    wait: bool,
) -> WriteResult | BackgroundBuild | None:
    chosen = dict(options)
    own = {**_covering(kind, chosen), **_maintenance(name, kind, chosen)}
    chosen |= {**_flags(kind, wanted), **_by_partition(kind, chosen)}
    snapshot = writer.snapshot()
    made: list[IndexDefinition] = []
    if kind != SECONDARY_INDEX:
        _check_key(snapshot, kind, wanted)
    there = find_index(snapshot, kind if kind != SECONDARY_INDEX else name)
    new = columns_to_add(snapshot, wanted) if there == _COLUMN_STATS else []
    if new:
        return _widen(writer.with_options(options), new, wait=wait)
    if there is not None:
        if if_missing:
            return None
        require_absent(snapshot, there)
    if kind == SECONDARY_INDEX:
        made.append(_definition(snapshot, name, wanted, own))
        _refuse_record_key(snapshot, made[0])
        chosen |= _record_index_options(writer.with_options(chosen), snapshot, name)
    if not wait or _IN_BACKGROUND.value(chosen):
        return build_in_background(writer, start_build(writer, chosen, made))
    asked = writer.with_options(chosen)
    return asked.add_index(made[0]) if made else asked.run(kinds.INDEX, None)


def resume_index(writer: TableWriter, name: str) -> BackgroundBuild:
    """Go on with an index that is in the making, or planned, and that nobody is at work on.

    Args:
        writer: The table.
        name: The index by the name of its metadata partition, or by that which it was given.

    Raises:
        InvalidInput: No such index is in the making.
        CommitConflict: Another process builds it.
    """
    snapshot = writer.snapshot()
    plan = find_plan(snapshot, name)
    if plan is not None:
        return build_in_background(writer, adopt_plan(writer, plan.instant))
    found = find_index(snapshot, name)
    return build_in_background(writer, take_up_build(writer, found or name))


def refresh_index(writer: TableWriter, name: str, *, rebuild: bool = False) -> None:
    """Bring a named index up to date.

    An index with `maintenance=async` and a bitmap index read the file slices that they do not
    cover. A secondary or expression index that writers maintain is built again, as after another
    engine forgot it. Other kinds are never behind their table: they have only to be there. An index
    that another engine dropped is built again as its definition says (case B62).

    Args:
        writer: The table.
        name: The index by the name of its metadata partition, or by that which it was given.
        rebuild: Whether to build an index with `maintenance=async` again from all data, which
            also removes the entries of rows that are gone.

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
    if there in file_index_definitions(snapshot.config):
        refresh_file_index(writer, there)
        return
    definition = snapshot.definitions.get(there)
    if definition is not None and definition.is_async and not rebuild:
        _catch_up(writer, snapshot, definition)
        return
    if there.startswith(EXPRESSION):
        refresh_expression_index(writer, there)
        return
    if definition is None or not there.startswith(PREFIX):
        return
    # What could not be built again must not be dropped.
    made = _same_definition(writer, snapshot, definition)
    drop_index(writer.address, there, writer.target().patience)
    writer.add_index(made)


def _catch_up(writer: TableWriter, snapshot: Snapshot, definition: IndexDefinition) -> None:
    """Read what an index does not cover; build it again when most of its entries are outdated."""
    newer = newer_slices(snapshot, definition)
    if not newer:
        return
    if definition.name.startswith(PREFIX) and snapshot.metadata is not None:
        entries = snapshot.metadata.cell_count(definition.name)
        if entries > _MOST_ENTRIES_A_ROW * max(stored_rows(snapshot), _FEW_ENTRIES):
            refresh_index(writer, definition.name, rebuild=True)
            return
    for attempt in range(_ATTEMPTS):
        try:
            writer.refresh_async_index(definition.name)
        except FileMissing:
            # A clean removed a file that was about to be read; the next snapshot has others.
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _build_again(writer: TableWriter, snapshot: Snapshot, gone: IndexDefinition) -> None:
    columns = list(gone.source_fields)
    if gone.name.startswith(EXPRESSION):
        add_expression_index(writer, stored_expression(writer, snapshot, gone.name))
        return
    if gone.name.startswith(PREFIX):
        writer.add_index(_same_definition(writer, snapshot, gone))
        return
    flags = _flags(gone.name, columns)
    if gone.is_partitioned:
        flags = {names_of.PARTITIONED_RECORD_INDEX.name: "true"}
    if not flags:
        raise UnsupportedFeature(f"building the index {gone.name} again")
    writer.with_options(flags).run(kinds.INDEX, None)


def _kind(name: str, using: str) -> str:
    kind = using.lower() or (name.lower() if name.lower() in ONCE else SECONDARY_INDEX)
    if kind not in (*ONCE, SECONDARY_INDEX):
        kinds_here = (*ONCE, SECONDARY_INDEX, *file_index_kinds())
        known = ", ".join(kinds_here)
        hint = did_you_mean(kind, kinds_here)
        raise UnsupportedFeature(f"CREATE INDEX {name} of kind {kind!r} (only {known}{hint})")
    return kind


def _by_partition(kind: str, chosen: dict[str, str]) -> dict[str, str]:
    """Take the option out that says whether a record index is one for each partition."""
    value = chosen.pop(_PARTITIONED, None)
    if value is None:
        return {}
    if kind != _RECORD_INDEX or value.lower() not in ("true", "false"):
        raise InvalidInput(f"{_PARTITIONED}={value!r}: a {_RECORD_INDEX} has it, true or false")
    return {
        names_of.PARTITIONED_RECORD_INDEX.name: value.lower(),
        names_of.GLOBAL_RECORD_INDEX.name: "false" if value.lower() == "true" else "true",
    }


def _covering(kind: str, chosen: dict[str, str]) -> dict[str, str]:
    """Take the option of a covering index out of the chosen ones."""
    own = {COVERING: chosen.pop(COVERING).lower()} if COVERING in chosen else {}
    if own and (kind != SECONDARY_INDEX or own[COVERING] not in ("true", "false")):
        raise InvalidInput(f"{COVERING} is true or false, and for secondary indexes only")
    return own


def _maintenance(name: str, kind: str, chosen: dict[str, str]) -> dict[str, str]:
    """Take the option of who maintains the index out of the chosen ones."""
    if MAINTENANCE not in chosen:
        return {}
    own = chosen.pop(MAINTENANCE)
    if own != ASYNC:
        return {}
    if kind != SECONDARY_INDEX:
        raise InvalidInput(f"the index {name} cannot have {MAINTENANCE}={ASYNC}: {_WHY_SYNC[kind]}")
    return {MAINTENANCE: own}


def checked_maintenance(name: str, value: str) -> str:
    """The value of the option that says who maintains an index, in small letters.

    Raises:
        InvalidInput: it is neither `sync` nor `async`.
    """
    if value.strip().lower() not in (ASYNC, _SYNC):
        raise InvalidInput(f"{MAINTENANCE} of index {name} is {_SYNC} or {ASYNC}, not {value!r}")
    return value.strip().lower()


def _widen(writer: TableWriter, columns: list[str], *, wait: bool) -> WriteResult:
    if not wait:
        raise UnsupportedFeature("adding a column to column_stats in the background")
    return writer.add_stat_columns(columns)


def _is_of_values(writer: TableWriter, name: str, using: str, columns: list[str]) -> bool:
    """Whether filters of a column's own values are meant, which are an index of their own."""
    if using.lower() != _BLOOM or name.lower() == _BLOOM:
        return False
    return has_other_columns(writer.snapshot(), columns)


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
    is_on_key = kind == _RECORD_INDEX or (kind == _BLOOM and columns)
    if is_on_key and columns != keys:
        raise InvalidInput(
            f"the {_SPOKEN[kind]} of table {config.name} is on its key ({', '.join(keys)}), not on "
            f"{', '.join(columns)}"
        )


def _definition(
    snapshot: Snapshot,
    name: str,
    columns: list[str],
    options: Mapping[str, str],
) -> IndexDefinition:
    """The definition of a new secondary index, as Hudi writes it."""
    check_index_name(name)
    found = tuple(_column(snapshot, each) for each in columns)
    if not found or len(found) > MOST_COLUMNS:
        raise InvalidInput(
            f"the index {name} is on {len(found)} columns, not on 1 to {MOST_COLUMNS}"
        )
    if len({*found}) != len(found):
        raise InvalidInput(f"the index {name} has a column twice: {', '.join(found)}")
    # Hudi would take several columns for one nested field: it is not told of such an index.
    full = (COMPOSITE_PREFIX if len(found) > 1 else PREFIX) + name
    if options.get(MAINTENANCE) == ASYNC:
        if options.get(COVERING) == "true":
            raise InvalidInput(
                f"the index {name} cannot have {COVERING} and {MAINTENANCE}={ASYNC}: entries that "
                "name file groups must follow every write; leave one of the two out"
            )
        full = ASYNC_SECONDARY_PREFIX + name
    return IndexDefinition(full, SECONDARY_INDEX, "identity", found, options, _VERSION)


def _same_definition(
    writer: TableWriter, snapshot: Snapshot, known: IndexDefinition
) -> IndexDefinition:
    """The definition of an index that is built again as it was."""
    own = known.name.removeprefix(COMPOSITE_PREFIX).removeprefix(ASYNC_SECONDARY_PREFIX)
    own = own.removeprefix(PREFIX)
    if _record_index_options(writer, snapshot, own):
        raise _needs_record_index(snapshot, own)
    return _definition(snapshot, own, list(known.source_fields), known.options)


def _column(snapshot: Snapshot, asked: str) -> str:
    found = indexed_path(snapshot, asked)
    kind = type_at(found, StoredSchema.of(snapshot).columns)
    if kind is None or not is_indexable(kind):
        raise InvalidInput(
            f"column {found!r} of type {kind} cannot have a secondary index: only columns of "
            "single values can"
        )
    return found


def _refuse_record_key(snapshot: Snapshot, definition: IndexDefinition) -> None:
    """Refuse a secondary index on the record key: the record index does the same in one step."""
    config = snapshot.config
    if {*definition.source_fields} != {*config.record_key_fields}:
        return
    keys, is_one = ", ".join(config.record_key_fields), len(config.record_key_fields) == 1
    advice = f"CREATE INDEX {_RECORD_INDEX} ON {config.name} ({keys})"
    if _RECORD_INDEX in config.metadata_partitions:
        advice = f"the table has {_RECORD_INDEX}, so that no other index on it is needed"
    raise InvalidInput(
        f"{'column' if is_one else 'columns'} {keys} {'is' if is_one else 'are'} the record key of "
        f"table {config.name}, whose index is {_RECORD_INDEX} and no secondary index: {advice}"
    )


def _record_index_options(writer: TableWriter, snapshot: Snapshot, name: str) -> dict[str, str]:
    """The options that build a record index together with a secondary index; none if it exists.

    A secondary index maps values to record keys; the record index maps those to files (case B17).

    Raises:
        InvalidInput: An option forbids a record index, or it cannot be one over the whole table.
    """
    table, target = snapshot.config.name, writer.target()
    if _RECORD_INDEX not in snapshot.config.metadata_partitions and any(
        _RECORD_INDEX in build.names for build in snapshot.builds
    ):
        raise InvalidInput(
            f"the secondary index {name} needs the record index of table {table}, which is being "
            "built; wait until it is complete"
        )
    scope = target.options.metadata.record_index
    if scope is RecordIndexScope.GLOBAL:
        return {}
    if scope is RecordIndexScope.PARTITIONED or target.options.window is not None:
        kind = "for each partition" if scope is RecordIndexScope.PARTITIONED else "of newest days"
        raise InvalidInput(
            f"table {table} has a record index {kind}; the secondary index {name} "
            "needs one over the whole table"
        )
    # What the table keeps is `false` after any write without a record index, and forbids nothing.
    if names_of.GLOBAL_RECORD_INDEX.given(writer.options) is not None:
        raise _needs_record_index(snapshot, name)
    return {names_of.GLOBAL_RECORD_INDEX.name: "true"}


def _needs_record_index(snapshot: Snapshot, name: str) -> InvalidInput:
    table, keys = snapshot.config.name, ", ".join(snapshot.config.record_key_fields)
    return InvalidInput(
        f"the secondary index {name} needs a record index, which table {table} does not have: "
        f"first CREATE INDEX {_RECORD_INDEX} ON {table} ({keys}), or let both be built with the "
        f"option {names_of.GLOBAL_RECORD_INDEX.name}=true"
    )
