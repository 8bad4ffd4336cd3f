"""What CREATE INDEX accepts for a secondary index, and the record index that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakedex.config import write_option_names as names_of
from lakedex.config.metadata_options import RecordIndexScope
from lakedex.config.table_config import ASYNC_SECONDARY_PREFIX, COMPOSITE_PREFIX
from lakedex.errors import InvalidInput
from lakedex.index.definitions import ASYNC, COVERING, MAINTENANCE, IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import is_indexable
from lakedex.index.kinds.secondary.records import PREFIX
from lakedex.index.request import CreateRequest, NewIndex
from lakedex.schema.field_paths import type_at

_KIND = "secondary_index"
_RECORD_INDEX = "record_index"
_VERSION = 2
_MOST_COLUMNS: Final = 16


def define(request: CreateRequest) -> NewIndex:
    """The definition of an index on columns, with the options that build its record index.

    Raises:
        InvalidInput: a column or an option is wrong, or there can be no record index.
    """
    options = dict(request.options)
    own = _own_options(options)
    definition = _definition(request, request.columns, own)
    _refuse_record_key(request, definition)
    return NewIndex({**options, **_record_index_options(request, options)}, definition)


def extend(request: CreateRequest) -> None:
    """Check the options of a statement about an index that the table has."""
    _own_options(dict(request.options))


def rebuild(
    request: CreateRequest, name: str, definition: IndexDefinition | None
) -> NewIndex | None:
    """An index that the table has, as it is built again; None where it has no definition.

    Raises:
        InvalidInput: the table has no record index, or a column is gone.
    """
    del name
    if definition is None:
        return None
    if _record_index_options(request, {}):
        raise _needs_record_index(request)
    return NewIndex({}, _definition(request, definition.source_fields, definition.options))


def _own_options(options: dict[str, str]) -> dict[str, str]:
    """Take the options of the index itself out of some options."""
    own = {}
    if COVERING in options:
        own[COVERING] = options.pop(COVERING).lower()
        if own[COVERING] not in ("true", "false"):
            raise InvalidInput(f"{COVERING} is true or false, and for secondary indexes only")
    if options.pop(MAINTENANCE, "") == ASYNC:
        own[MAINTENANCE] = ASYNC
    CreateRequest.refuse_partitioned(options)
    return own


def _definition(
    request: CreateRequest, columns: Sequence[str], options: Mapping[str, str]
) -> IndexDefinition:
    """The definition, as Hudi writes it."""
    name = request.name
    paths = tuple(_column(request, each) for each in columns)
    if not paths or len(paths) > _MOST_COLUMNS:
        raise InvalidInput(
            f"the index {name} is on {len(paths)} columns, not on 1 to {_MOST_COLUMNS}"
        )
    if len({*paths}) != len(paths):
        raise InvalidInput(f"the index {name} has a column twice: {', '.join(paths)}")
    # Hudi would take several columns for one nested field, so that it does not see such an index.
    full = (COMPOSITE_PREFIX if len(paths) > 1 else PREFIX) + name
    if options.get(MAINTENANCE) == ASYNC:
        if options.get(COVERING) == "true":
            raise InvalidInput(
                f"the index {name} cannot have {COVERING} and {MAINTENANCE}={ASYNC}: entries that "
                "name file groups must follow every write; leave one of the two out"
            )
        full = ASYNC_SECONDARY_PREFIX + name
    return IndexDefinition(full, _KIND, "identity", paths, options, _VERSION)


def _column(request: CreateRequest, asked: str) -> str:
    path = request.path(asked)
    kind = type_at(path, request.schema)
    if kind is None or not is_indexable(kind):
        raise InvalidInput(
            f"column {path!r} of type {kind} cannot have a secondary index: only columns of "
            "single values can"
        )
    return path


def _refuse_record_key(request: CreateRequest, definition: IndexDefinition) -> None:
    """Refuse a secondary index on the record key: the record index does the same in one step."""
    config = request.config
    if {*definition.source_fields} != {*config.record_key_fields}:
        return
    keys, is_one = ", ".join(config.record_key_fields), len(config.record_key_fields) == 1
    advice = f"CREATE INDEX {_RECORD_INDEX} ON {config.name} ({keys})"
    if request.is_live(_RECORD_INDEX):
        advice = f"the table has {_RECORD_INDEX}, so that no other index on it is needed"
    raise InvalidInput(
        f"{'column' if is_one else 'columns'} {keys} {'is' if is_one else 'are'} the record key of "
        f"table {config.name}, whose index is {_RECORD_INDEX} and no secondary index: {advice}"
    )


def _record_index_options(request: CreateRequest, options: Mapping[str, str]) -> dict[str, str]:
    """The options that build a record index together with a secondary index; none if it exists.

    A secondary index maps values to record keys; the record index maps those to files (case B17).

    Raises:
        InvalidInput: an option forbids a record index, or it cannot be one over the whole table.
    """
    table, name = request.table, request.name
    resolved = request.resolve(options)
    if not request.is_live(_RECORD_INDEX) and _RECORD_INDEX in request.building:
        raise InvalidInput(
            f"the secondary index {name} needs the record index of table {table}, which is being "
            "built; wait until it is complete"
        )
    scope = resolved.metadata.record_index
    if scope is RecordIndexScope.GLOBAL:
        return {}
    if scope is RecordIndexScope.PARTITIONED or resolved.window is not None:
        kind = "for each partition" if scope is RecordIndexScope.PARTITIONED else "of newest days"
        raise InvalidInput(
            f"table {table} has a record index {kind}; the secondary index {name} "
            "needs one over the whole table"
        )
    # What the table keeps is `false` after any write without a record index, and forbids nothing.
    if names_of.GLOBAL_RECORD_INDEX.given({**request.given, **options}) is not None:
        raise _needs_record_index(request)
    return {names_of.GLOBAL_RECORD_INDEX.name: "true"}


def _needs_record_index(request: CreateRequest) -> InvalidInput:
    table, keys = request.table, ", ".join(request.config.record_key_fields)
    return InvalidInput(
        f"the secondary index {request.name} needs a record index, which table {table} does not "
        f"have: first CREATE INDEX {_RECORD_INDEX} ON {table} ({keys}), or let both be built with "
        f"the option {names_of.GLOBAL_RECORD_INDEX.name}=true"
    )
