"""CREATE INDEX and REFRESH INDEX: a kind checks the statement, then the index is built.

Everything that can be wrong is found before the table changes. What fails later is rolled back: a
table never has half an index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from lakedex.config.option_check import PREFIXES, did_you_mean
from lakedex.config.option_values import FlagOption
from lakedex.errors import FileMissing, InvalidInput, UnsupportedFeature
from lakedex.index.definitions import ASYNC, MAINTENANCE, IndexDefinition
from lakedex.index.expressions import (
    EXPR,
    CheckedBySpark,
    read_columns,
    with_spelled_function,
)
from lakedex.index.file_index import FileIndexKind, IndexRequest
from lakedex.index.file_index.definitions import file_index_definitions
from lakedex.index.registry import (
    expression_kind,
    file_index_kinds,
    index_options,
    kind_name,
    meant_kind,
    metadata_kind,
)
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.services.file_index_creating import (
    FileIndexBuild,
    FileIndexBuilder,
    refresh_file_index,
)
from lakedex.services.index_dropping import drop_index
from lakedex.services.index_names import (
    check_index_name,
    find_dropped_index,
    find_index,
    find_plan,
    require_absent,
)
from lakedex.services.indexing import (
    BackgroundBuild,
    adopt_plan,
    build_in_background,
    start_build,
    take_up_build,
)
from lakedex.table import Snapshot
from lakedex.table.index_coverage import newer_slices
from lakedex.write import operation as kinds
from lakedex.write.assign import stored_rows
from lakedex.write.layout.order import column_names
from lakedex.write.result import WriteResult
from lakedex.write.verbs import TableWriter
from lakedex.write.write_schema import StoredSchema

_SYNC = "sync"
_ATTEMPTS = 3
_MOST_ENTRIES_A_ROW = 4
"""An index that keeps outdated entries is built again when it has more of them than this."""
_FEW_ENTRIES = 10_000
_OLDER_EXPR: Final = "func"
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
        name: What the index is called. Some, such as `record_index`, are indexes that a
            table has at most once.
        columns: The column, or the columns; or an expression such as `upper(name)`. A secondary
            index on several columns is one that lakedex alone knows.
        using: The kind; that of the name where it is one of these, else a secondary index.
        options: Hudi's write options for the build and all later writes. With
            `lakedex.covering=true` the entries of a secondary index name the file groups of their
            rows, so that a lookup takes one step; other engines do not see that. With
            `maintenance=async` writers leave a secondary, expression or bitmap index alone: queries
            read the file slices that are newer than its last refresh. `expr` is the function of an
            expression index, beside its arguments.
        if_missing: Do nothing when the index is there already.
        wait: Whether to build it now, in one commit. Otherwise, and with the option
            `hoodie.metadata.index.async`, it is built in the background while writers go on, and
            the result is a `BackgroundBuild`.
        check: Checks the function of an expression index, where there is a Spark.

    Returns:
        What the commit came to, or the build; None when there was nothing to do.

    Raises:
        InvalidInput: The name, a column or its type is wrong, or there is such an index; the table
            is as it was.
        UnsupportedFeature: The kind.
        CommitConflict: Another writer was first; the table is as it was.
    """
    named, function = read_columns(name, [str(each) for each in column_names(columns)])
    name, using = name if using else kind_name(name), kind_name(using)
    file_kind = file_index_kinds().get(using.lower())
    given = {**function, **_with_newer_names(name, options or {}, file_kind)}
    if MAINTENANCE in given:
        given[MAINTENANCE] = checked_maintenance(name, given[MAINTENANCE])
    chosen = with_spelled_function(named, given)
    now = wait and not _IN_BACKGROUND.value(chosen)
    snapshot = writer.snapshot()
    request = _request(writer, snapshot, name, named, using=using, options=chosen, check=check)
    if file_kind is not None:
        if if_missing and find_index(snapshot, name) is not None:
            return None
        return _create_file_index(writer, snapshot, request, file_kind, wait=now)
    kind = meant_kind(request)
    there = find_index(snapshot, name if kind.is_named else kind.kind)
    if there is not None:
        more = kind.extend(request)
        if more is not None:
            return build_index(writer, more, wait=wait)
        if if_missing:
            return None
        require_absent(snapshot, there)
    if kind.is_named:
        check_index_name(name)
    return build_index(writer, kind.define(request), wait=now)


def _request(
    writer: TableWriter,
    snapshot: Snapshot,
    name: str,
    columns: Sequence[str],
    *,
    using: str = "",
    options: Mapping[str, str] | None = None,
    check: CheckedBySpark | None = None,
) -> CreateRequest:
    """A statement about an index of a table, as kinds of index see it."""
    return CreateRequest(
        name=name,
        using=using,
        columns=tuple(columns),
        options=options or {},
        config=snapshot.config,
        read_schema=cache(lambda: StoredSchema.of(snapshot).columns),
        read_definitions=lambda: snapshot.definitions,
        resolve=lambda more: writer.with_options(more).target().options,
        given=writer.options,
        building=[each for build in snapshot.builds for each in build.names],
        spark=check,
    )


def build_index(
    writer: TableWriter, new: NewIndex, *, wait: bool = True
) -> WriteResult | BackgroundBuild:
    """Build an index in one commit, or in the background."""
    asked = writer.with_options(new.options)
    if new.more_columns:
        if not wait:
            raise UnsupportedFeature("adding a column to an index in the background")
        return asked.add_stat_columns(new.more_columns)
    made = [] if new.definition is None else [new.definition]
    if not wait:
        return build_in_background(writer, start_build(writer, new.options, made))
    if new.definition is None:
        return asked.run(kinds.INDEX, None)
    return asked.add_index(new.definition, new.settings)


def file_index_definition(request: CreateRequest, kind: FileIndexKind) -> IndexDefinition:
    """The definition of a file index on columns, without a folder.

    Raises:
        InvalidInput: a column or an option is wrong; the message says what to do.
    """
    return kind.define(
        IndexRequest(
            name=request.name,
            table=request.table,
            columns=tuple(map(request.path, request.columns)),
            schema=request.schema,
            options={key: value for key, value in request.options.items() if key in kind.options},
        )
    )


def _create_file_index(
    writer: TableWriter,
    snapshot: Snapshot,
    request: CreateRequest,
    kind: FileIndexKind,
    *,
    wait: bool,
) -> WriteResult | FileIndexBuild:
    """Build an index that describes single files, on columns or on an expression."""
    there = find_index(snapshot, request.name)
    if there is not None:
        require_absent(snapshot, there)
    check_index_name(request.name)
    options = dict(request.options)
    is_async = options.pop(MAINTENANCE, "") == ASYNC
    builder = FileIndexBuilder(kind, wait, is_async)
    if kind.indexes_expressions:
        new = expression_kind().define(replace(request, using="", options=options))
        return builder.add_expression(writer, new)
    if EXPR in options:
        raise UnsupportedFeature(f"CREATE INDEX {request.name} USING {kind.kind} on an expression")
    definition = file_index_definition(request, kind)
    rest = {key: value for key, value in options.items() if key not in kind.options}
    return builder.add(writer, rest, definition)


def resume_index(writer: TableWriter, name: str) -> BackgroundBuild:
    """Go on with an index that is being built, or planned, and that no process works on.

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

    An index with `maintenance=async` and a file index read the file slices that they do not cover.
    Another index with a name is built again, as after a write of an engine that does not maintain
    it. Indexes that a table has once are never behind: they have only to be there. An index that
    another engine dropped is built again as its definition says (case B62).

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
            new = _same_index(writer, snapshot, gone.name, gone)
            if new is not None:
                build_index(writer, new)
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
    if not metadata_kind(there).is_named:
        return
    # What could not be built again must not be dropped.
    new = rebuilt_index(writer, snapshot, there)
    if new is not None:
        drop_index(writer.address, there, writer.target().patience)
        build_index(writer, new)


def rebuilt_index(writer: TableWriter, snapshot: Snapshot, name: str) -> NewIndex | None:
    """An index of the metadata table as it is built again; None where there is nothing to build.

    Raises:
        LakedexError: it cannot be built again.
    """
    return _same_index(writer, snapshot, name, snapshot.definitions.get(name))


def _same_index(
    writer: TableWriter, snapshot: Snapshot, name: str, definition: IndexDefinition | None
) -> NewIndex | None:
    kind = metadata_kind(name)
    request = _request(writer, snapshot, kind.given_name(name), ())
    return kind.rebuild(request, name, definition)


def _catch_up(writer: TableWriter, snapshot: Snapshot, definition: IndexDefinition) -> None:
    """Read what an index does not cover; build it again when most of its entries are outdated."""
    newer = newer_slices(snapshot, definition)
    if not newer:
        return
    keeps_outdated = metadata_kind(definition.name).leaves_outdated_entries
    if keeps_outdated and snapshot.metadata is not None:
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


def _with_newer_names(
    index: str, options: Mapping[str, str], file_kind: FileIndexKind | None = None
) -> dict[str, str]:
    """Options as Hudi names them now: RFC-63 and early releases call the function `func`.

    Capital and small letters of what is said of the index itself are the same.
    """
    given: dict[str, str] = {}
    names = {each.lower(): each for each in (*index_options(), _OLDER_EXPR)}
    if file_kind is not None and not file_kind.indexes_expressions:
        names = {each.lower(): each for each in (MAINTENANCE, *file_kind.options)}
    for option, value in options.items():
        known = names.get(option.lower(), option)
        if known not in names.values() and not option.startswith(PREFIXES):
            spelled = index_options() if file_kind is None else tuple(names.values())
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


def checked_maintenance(name: str, value: str) -> str:
    """The value of the option that says who maintains an index, in small letters.

    Raises:
        InvalidInput: it is neither `sync` nor `async`.
    """
    if value.strip().lower() not in (ASYNC, _SYNC):
        raise InvalidInput(f"{MAINTENANCE} of index {name} is {_SYNC} or {ASYNC}, not {value!r}")
    return value.strip().lower()
