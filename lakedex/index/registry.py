"""Every index kind, in the order in which the planner consults them.

A built-in kind is a package or a module in `lakedex.index.kinds` and one line here. Other packages
register theirs through the entry-point group `lakedex.index_kinds`, or by
`lakedex.indexes.register`.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points

import pyarrow as pa

from lakedex.config import TableConfig, keys
from lakedex.config.bucket_options import BucketOptions
from lakedex.config.option_check import did_you_mean
from lakedex.config.write_option_names import BUCKET_COUNT, BUCKET_EXPRESSIONS, BUCKET_RULE
from lakedex.errors import IndexUnusable, InvalidInput, UnsupportedFeature
from lakedex.filegroup import FileSliceId
from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import (
    Answer,
    IndexedTable,
    IndexKind,
    Question,
    Stage,
    StoredTable,
)
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index import FileIndex, FileIndexKind
from lakedex.index.file_index.definitions import (
    file_index_definitions,
    index_prefix,
    readable_file_indexes,
)
from lakedex.index.file_index.run import file_index_info
from lakedex.index.kinds.bitmap import BitmapKind
from lakedex.index.kinds.bloom_filters.kind import BloomFiltersKind
from lakedex.index.kinds.bucket.hashing_metadata import FOLDER as RINGS
from lakedex.index.kinds.bucket.hashing_metadata import HashingMetadata, has_rings
from lakedex.index.kinds.bucket.kind import BucketKind
from lakedex.index.kinds.bucket.partition_counts import FOLDER as COUNTS
from lakedex.index.kinds.bucket.partition_counts import (
    PartitionCounts,
    discard_partition_counts,
    load_partition_counts,
    store_partition_counts,
)
from lakedex.index.kinds.column_stats.kind import ColumnStatsKind
from lakedex.index.kinds.expression.kind import ExpressionKind
from lakedex.index.kinds.files.kind import FilesKind
from lakedex.index.kinds.ngram import NgramKind
from lakedex.index.kinds.partition_stats.kind import PartitionStatsKind
from lakedex.index.kinds.record_index.kind import RecordIndexKind
from lakedex.index.kinds.secondary.kind import SecondaryKind
from lakedex.index.kinds.windowed.kind import WindowedKind
from lakedex.index.maintenance import MaintainedIndex, MaintainRequest
from lakedex.index.metadata_kind import MetadataIndexKind
from lakedex.index.metadata_table import MetadataTable, metadata_partition
from lakedex.index.metadata_table.hashing import Int32s
from lakedex.index.request import CreateRequest
from lakedex.storage import split
from lakedex.storage.protocol import Storage
from lakedex.timeline import Action, Instant, Timeline

_ENTRY_POINTS = "lakedex.index_kinds"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_RESERVED = frozenset({"secondary_index", "secondary", "expr", "expr_index", "files"})
"""Names that would be taken for those of metadata partitions."""
_METADATA_KINDS: tuple[MetadataIndexKind, ...] = (
    FilesKind(),
    BucketKind(),
    RecordIndexKind(),
    WindowedKind(),
    ColumnStatsKind(),
    PartitionStatsKind(),
    BloomFiltersKind(),
    SecondaryKind(),
    ExpressionKind(),
)
_BUILT_IN_FILE_KINDS: tuple[FileIndexKind, ...] = (
    BitmapKind(),
    NgramKind(),
)
_LOCK = threading.RLock()
log = logging.getLogger("lakedex")


class _MissingKind:
    """Stands for kinds that a table has indexes of and that are not registered here."""

    kind = "missing"
    stage = Stage.FILTERS
    describes_files = True

    def names(self, table: IndexedTable) -> list[str]:
        """The indexes of such kinds."""
        known = file_index_kinds()
        definitions = readable_file_indexes(table.read.config)
        return sorted(name for name, each in definitions.items() if each.index_type not in known)

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """Why the index is not used."""
        return missing_kind(readable_file_indexes(question.table.read.config)[name])

    def lookup(self, name: str, question: Question) -> Answer | str:
        """Why the index is not used."""
        return missing_kind(readable_file_indexes(question.table.read.config)[name])


class _Registry:
    """The kinds of this process; entry points are loaded when it is first used."""

    def __init__(self) -> None:
        self._file_kinds = {each.kind: each for each in _BUILT_IN_FILE_KINDS}
        self._is_loaded = False

    def file_kinds(self) -> dict[str, FileIndexKind]:
        with _LOCK:
            if not self._is_loaded:
                self._is_loaded = True
                self._load()
            return dict(self._file_kinds)

    def add(self, kind: FileIndexKind) -> None:
        _check(kind)
        with _LOCK:
            known = self._file_kinds.get(kind.kind)
            if known is not None and type(known).__qualname__ != type(kind).__qualname__:
                raise InvalidInput(
                    f"the index kind {kind.kind!r} is registered already, by "
                    f"{type(known).__module__}.{type(known).__qualname__}"
                )
            self._file_kinds[kind.kind] = kind

    def _load(self) -> None:
        for point in entry_points(group=_ENTRY_POINTS):
            try:
                found = point.load()
                self.add(found() if isinstance(found, type) else found)
            except Exception as error:  # noqa: BLE001 - a broken package must not stop every query
                log.warning("the index kind %s cannot be loaded: %s", point.name, error)


_REGISTRY = _Registry()


def register(kind: FileIndexKind) -> FileIndexKind:
    """Make an index kind known to this process; registering it again replaces it.

    Args:
        kind: An instance of a subclass of `FileIndexKind`.

    Returns:
        The kind.

    Raises:
        InvalidInput: it is no kind, or its name is wrong or that of another one.
    """
    _REGISTRY.file_kinds()
    _REGISTRY.add(kind)
    return kind


def kinds() -> tuple[IndexKind, ...]:
    """Every kind, in the order in which the planner consults them."""
    found: tuple[IndexKind, ...] = (
        *(kind for kind in _METADATA_KINDS if isinstance(kind, IndexKind)),
        *_REGISTRY.file_kinds().values(),
        _MissingKind(),
    )
    return tuple(sorted(found, key=lambda kind: kind.stage))


def kinds_without_metadata() -> tuple[IndexKind, ...]:
    """Those that need no metadata table, in the same order."""
    own = {kind.kind for kind in _METADATA_KINDS if not kind.needs_metadata}
    return tuple(kind for kind in kinds() if kind.kind in own)


def metadata_kinds() -> tuple[MetadataIndexKind, ...]:
    """The kinds of index in the metadata table, and those that stand in for one."""
    return _METADATA_KINDS


def metadata_kind(name: str) -> MetadataIndexKind:
    """The kind of an index, by the name of its partition of the metadata table.

    Example:
        >>> metadata_kind("secondary_index_idx_rider").kind
        'secondary_index'

    Raises:
        InvalidInput: there is no partition of such a name.
    """
    partition = metadata_partition(name).kind
    return next(kind for kind in _METADATA_KINDS if kind.partition is partition)


def find_metadata_kind(name: str) -> MetadataIndexKind | None:
    """The same, or None for a partition that this version of lakedex does not know."""
    try:
        return metadata_kind(name)
    except InvalidInput:
        return None


def check_buckets(options: BucketOptions) -> None:
    """Refuse numbers of buckets by partition that are none.

    Raises:
        InvalidInput: a rule is no pattern with a number.
        UnsupportedFeature: a pattern may have another meaning here than in Java.
    """
    PartitionCounts(options.expressions, options.count, options.rule)


def store_buckets(storage: Storage, options: BucketOptions) -> None:
    """Leave for other engines what they read of the bucket index of a new table."""
    if options.expressions:
        store_partition_counts(
            storage, PartitionCounts(options.expressions, options.count, options.rule)
        )


def mark_rings(storage: Storage, timeline: Timeline, instants: Iterable[Instant]) -> None:
    """Mark the hashing metadata that some instants made, before these leave the timeline."""
    metadata = HashingMetadata(storage, timeline)
    partitions = {
        partition
        for each in instants
        if each.action is Action.REPLACECOMMIT
        for partition in timeline.commit_summary(each).replaced_file_ids
    }
    for partition in sorted(partitions) if partitions and has_rings(storage) else ():
        metadata.mark(partition)


def discard_buckets(storage: Storage, timeline: Timeline, instant: str) -> None:
    """Remove hashing metadata, and numbers of buckets, of a write that is taken back."""
    folders = storage.folders(keys.BUCKET_INDEX_FOLDER)
    if split(RINGS)[1] in folders:
        HashingMetadata(storage, timeline).discard(instant)
    if split(COUNTS)[1] in folders:
        discard_partition_counts(storage, instant)


def stored_bucket_settings(storage: Storage, timeline: Timeline) -> dict[str, str]:
    """The numbers of buckets as they are stored for all engines: settings, by Hudi's names."""
    found = load_partition_counts(storage, timeline)
    if found is None:
        return {}
    return {
        BUCKET_COUNT.name: str(found.default),
        BUCKET_EXPRESSIONS.name: found.expressions,
        BUCKET_RULE.name: found.rule,
    }


def remove_outdated_rings(storage: Storage, timeline: Timeline, earliest: str) -> int:
    """Remove the hashing metadata that no reader as of an instant, or of a later one, needs.

    Args:
        storage: The table.
        timeline: Its timeline.
        earliest: The earliest instant that can still be read, restored or rolled back to.

    Returns:
        How many versions were removed.
    """
    if not has_rings(storage):
        return 0
    return HashingMetadata(storage, timeline).remove_before(earliest)


def is_named_index(name: str) -> bool:
    """Whether a partition of the metadata table is an index with a name and a definition.

    Example:
        >>> is_named_index("secondary_index_idx_rider"), is_named_index("record_index")
        (True, False)
    """
    return any(name.startswith(kind.prefixes) for kind in _METADATA_KINDS)


def built_together(name: str) -> tuple[str, ...]:
    """An index that a table has once, and those that are built and dropped with it.

    Example:
        >>> built_together("partition_stats"), built_together("record_index")
        (('column_stats', 'partition_stats'), ('record_index',))
    """
    whole = next((kind.kind for kind in _METADATA_KINDS if name in kind.derived), name)
    return (whole, *metadata_kind(whole).derived)


def kind_name(text: str) -> str:
    """The name of a kind that RFCs and early releases of Hudi call otherwise; all else as it is.

    Example:
        >>> kind_name("RECORD_LEVEL"), kind_name("col_stats"), kind_name("idx_city")
        ('record_index', 'column_stats', 'idx_city')
    """
    name = text.lower()
    return next((kind.kind for kind in _METADATA_KINDS if name in kind.aliases), text)


def name_prefixes() -> tuple[str, ...]:
    """What stands before the given name in the full names of indexes, of every kind."""
    prefixes = [prefix for kind in _METADATA_KINDS for prefix in kind.prefixes]
    return (*prefixes, *map(index_prefix, file_index_kinds()))


def reserved_names() -> frozenset[str]:
    """The names of partitions of the metadata table that a table has once."""
    parts = (kind.partition for kind in _METADATA_KINDS if not kind.is_named)
    return frozenset(part.value for part in parts if part is not None)


def unnamed_indexes() -> tuple[str, ...]:
    """The indexes of the metadata table that a table has once, in the order they are built in.

    Example:
        >>> unnamed_indexes()
        ('files', 'column_stats', 'bloom_filters', 'record_index', 'partition_stats')
    """
    once = (kind for kind in _METADATA_KINDS if kind.partition is not None and not kind.is_named)
    return tuple(kind.kind for kind in sorted(once, key=lambda kind: kind.build_order))


def commit_notes(
    maintained: Sequence[MaintainedIndex],
    new: Sequence[MaintainedIndex],
    timeline: Timeline,
    definitions: Mapping[str, IndexDefinition],
) -> dict[str, str]:
    """What a commit says in its metadata of indexes that it keeps up to date or builds."""
    notes: dict[str, str] = {}
    for kind in _METADATA_KINDS:
        notes |= kind.commit_note(maintained, new, timeline, definitions)
    return notes


def stat_indexes(request: MaintainRequest) -> list[MaintainedIndex]:
    """What notes the ranges of the columns of a request."""
    found = (
        kind.maintained(kind.kind, request) for kind in _METADATA_KINDS if kind.has_stat_columns
    )
    return [each for each in found if each is not None]


def range_key(table: IndexedTable, column: str) -> tuple[str, str] | None:
    """The live index with the ranges of a column, and the name of the column there."""
    live = table.read.config.metadata_partitions
    keys = (kind.range_key(column, live, table.definitions) for kind in _METADATA_KINDS)
    return next((key for key in keys if key is not None), None)


def reshardable_indexes() -> frozenset[str]:
    """The indexes that a table has once and whose number of file groups can change.

    Example:
        >>> sorted(reshardable_indexes())
        ['record_index']
    """
    return frozenset(kind.kind for kind in _METADATA_KINDS if kind.is_reshardable)


def kinds_by_name() -> tuple[str, ...]:
    """The kinds of index that CREATE INDEX makes under the name of the kind itself.

    Example:
        >>> kinds_by_name()
        ('record_index', 'column_stats', 'bloom_filters')
    """
    return tuple(kind.kind for kind in _METADATA_KINDS if kind.is_creatable and not kind.is_named)


def indexes_outside_metadata(table: StoredTable) -> list[tuple[IndexInfo, MetadataIndexKind]]:
    """The indexes of these kinds that a table has outside of its metadata table."""
    return [(info, kind) for kind in _METADATA_KINDS for info in kind.outside_metadata(table)]


def find_records(
    metadata: MetadataTable, name: str, definition: IndexDefinition | None, keys: pa.Array
) -> pa.Table:
    """The records of some keys of an index, read from the blocks that may hold them.

    Raises:
        InvalidInput: there is no index of such a name.
    """
    return metadata_kind(name).find_records(metadata, name, definition, keys)


def key_shards(
    definitions: Callable[[], Mapping[str, IndexDefinition] | None],
    name: str,
    keys: pa.Array,
    count: int,
) -> Int32s | None:
    """The file groups, among `count`, of keys of an index whose groups share no key.

    None for indexes of other kinds, and where there is no definition.
    """
    kind = metadata_kind(name)
    known = definitions() if kind.is_of_keys else None
    return None if known is None else kind.key_shards(known.get(name), keys, count)


def live_file_groups(
    metadata: MetadataTable, live: Collection[str]
) -> frozenset[FileSliceId] | None:
    """The file groups that have rows, as one of the live indexes says; None if none does."""
    for kind in _METADATA_KINDS:
        groups = kind.live_file_groups(metadata) if kind.kind in live else None
        if groups is not None:
            return groups
    return None


def indexes_behind(
    timeline: Timeline, definitions: Mapping[str, IndexDefinition]
) -> frozenset[str]:
    """The indexes that queries must not use, as another engine wrote to the table only."""
    return frozenset().union(*(kind.behind(timeline, definitions) for kind in _METADATA_KINDS))


def kept_notes(timeline: Timeline, definitions: Mapping[str, IndexDefinition]) -> dict[str, str]:
    """What a commit that changes no rows says of the indexes that are right after it."""
    notes: dict[str, str] = {}
    for kind in _METADATA_KINDS:
        notes |= kind.kept_note(timeline, definitions)
    return notes


def meant_kind(request: CreateRequest) -> MetadataIndexKind:
    """The kind that a CREATE INDEX statement is about, of those in the metadata table.

    Raises:
        UnsupportedFeature: there is no such kind.
    """
    default = default_kind().kind
    by_name = kinds_by_name()
    name = request.name.lower()
    asked = request.using.lower() or (name if name in by_name else default)
    # Statements about expressions name another kind, or none: that kind comes first.
    for kind in sorted(_METADATA_KINDS, key=lambda kind: not kind.indexes_expressions):
        if kind.accepts(request, asked):
            return kind
    known = (*by_name, default, *file_index_kinds())
    hint = did_you_mean(asked, known)
    raise UnsupportedFeature(
        f"CREATE INDEX {request.name} of kind {asked!r} (only {', '.join(known)}{hint})"
    )


def advising_kinds() -> list[MetadataIndexKind]:
    """The kinds that suggest indexes, in the order in which the planner consults them."""
    return [kind for kind in kinds() if isinstance(kind, MetadataIndexKind) and kind.is_suggested]


def default_kind() -> MetadataIndexKind:
    """The kind of an index on columns for which a statement names none."""
    return next(kind for kind in _METADATA_KINDS if kind.is_default)


def expression_kind() -> MetadataIndexKind:
    """The kind that checks and defines expressions."""
    return next(kind for kind in _METADATA_KINDS if kind.indexes_expressions)


def index_options() -> tuple[str, ...]:
    """What a CREATE INDEX statement may say of the index itself, beside write options."""
    first = expression_kind()
    others = (option for kind in _METADATA_KINDS for option in kind.options)
    return tuple(dict.fromkeys([*first.options, *others]))


def file_index_kinds() -> dict[str, FileIndexKind]:
    """The kinds of file indexes, by name."""
    return _REGISTRY.file_kinds()


def file_indexes(config: TableConfig) -> dict[str, FileIndex]:
    """The file indexes of a table whose kinds are registered here, by name.

    Raises:
        CorruptFile: the property that defines them is damaged.
    """
    known = file_index_kinds()
    return {
        name: FileIndex(known[each.index_type], each)
        for name, each in file_index_definitions(config).items()
        if each.index_type in known
    }


def file_index(name: str, config: TableConfig) -> FileIndex:
    """A file index of a table, by its full name.

    Raises:
        IndexUnusable: its kind is not registered here.
    """
    definition = file_index_definitions(config)[name]
    kind = file_index_kinds().get(definition.index_type)
    if kind is None:
        raise IndexUnusable(f"the index {name} cannot be used: {missing_kind(definition)}")
    return FileIndex(kind, definition)


def list_file_indexes(storage: Storage, config: TableConfig) -> list[IndexInfo]:
    """The file indexes of a table for SHOW INDEXES, those of unknown kinds too."""
    known = file_index_kinds()
    infos = []
    for definition in file_index_definitions(config).values():
        info = file_index_info(definition, storage)
        if definition.index_type not in known:
            info = replace(info, problem=missing_kind(definition))
        infos.append(info)
    return infos


def missing_kind(definition: IndexDefinition) -> str:
    """What to say of an index whose kind is not registered here."""
    return (
        f"its kind {definition.index_type!r} is not installed here: install the package that "
        "has it, or call lakedex.indexes.register"
    )


def _check(kind: object) -> None:
    if not isinstance(kind, FileIndexKind):
        raise InvalidInput(
            f"an index kind is an instance of a subclass of lakedex.indexes.FileIndexKind, not "
            f"{kind!r}"
        )
    name = getattr(kind, "kind", None)
    taken = _RESERVED | {each.kind for each in _METADATA_KINDS}
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in taken:
        raise InvalidInput(
            f"{name!r} is no name for an index kind: small letters, digits and underscores, at "
            "most 50 of them, and not the name of a built-in kind"
        )
    version: object = kind.version
    if not isinstance(version, int) or version < 1:
        raise InvalidInput(f"the version of the index kind {name} is {version!r}, not 1, 2, ...")
