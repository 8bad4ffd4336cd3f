"""Every index kind, in the order in which the planner consults them.

A built-in kind is a package in `lakedex.index.kinds` and one line here. Other packages register
theirs through the entry-point group `lakedex.index_kinds`, or by `lakedex.indexes.register`.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import replace
from importlib.metadata import entry_points

from lakedex.config import TableConfig
from lakedex.errors import InvalidInput
from lakedex.index.catalog import IndexInfo
from lakedex.index.contract import Answer, IndexedTable, IndexKind, Question, Stage
from lakedex.index.cost import Estimate
from lakedex.index.definitions import IndexDefinition
from lakedex.index.file_index import FileIndex, FileIndexKind
from lakedex.index.file_index.definitions import file_index_definitions, readable_file_indexes
from lakedex.index.file_index.run import file_index_info
from lakedex.index.kinds.bitmap import BitmapKind
from lakedex.index.kinds.bloom_filters.lookup import BloomFilterIndex
from lakedex.index.kinds.column_stats.lookup import ColumnStatsIndex
from lakedex.index.kinds.expression import ExpressionIndex
from lakedex.index.kinds.ngram import NgramKind
from lakedex.index.kinds.partition_stats.lookup import PartitionStatsIndex
from lakedex.index.kinds.record_index import RecordIndex
from lakedex.index.kinds.secondary import SecondaryIndex
from lakedex.storage.protocol import Storage

_ENTRY_POINTS = "lakedex.index_kinds"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_RESERVED = frozenset({"secondary_index", "secondary", "expr", "expr_index", "files"})
"""Names that would be taken for those of metadata partitions."""
_METADATA_KINDS: tuple[IndexKind, ...] = (
    PartitionStatsIndex(),
    RecordIndex(),
    SecondaryIndex(),
    ExpressionIndex(),
    ColumnStatsIndex(),
    BloomFilterIndex(),
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
        *_METADATA_KINDS,
        *_REGISTRY.file_kinds().values(),
        _MissingKind(),
    )
    return tuple(sorted(found, key=lambda kind: kind.stage))


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
