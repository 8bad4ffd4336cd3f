"""CREATE, REFRESH and DROP of file indexes, such as `USING bitmap`.

The files that are there are read before the table names the index, so that a build that fails
leaves nothing; those that were written meanwhile are read after. No commit is made: an index that
describes a part of the files is used for that part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from lakedex.errors import IndexUnusable, InvalidInput, LakedexError
from lakedex.index.definitions import ASYNC, MAINTENANCE, PINNED_ZONE, IndexDefinition
from lakedex.index.file_index import FileIndex, FileIndexKind
from lakedex.index.file_index.definitions import (
    file_index_definitions,
    file_index_properties,
    folder_of,
    index_prefix,
    with_folder,
)
from lakedex.index.file_index.kind import KIND_VERSION
from lakedex.index.file_index.maintenance import forget_files
from lakedex.index.registry import file_index, metadata_kind
from lakedex.index.request import NewIndex
from lakedex.storage.open import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import load_table_config, update_properties
from lakedex.txn.index_builds import (
    forget_builder,
    name_builder,
    remove_abandoned_indexes,
)
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.file_indexes import fill_file_index
from lakedex.write.result import WriteResult
from lakedex.write.verbs import TableWriter

_OPERATION = "INDEX"
_MOST_PASSES = 3


class FileIndexBuild:
    """A file index that is filled by a thread of this process; queries use what is there."""

    def __init__(self, name: str, fill: Callable[[], None]) -> None:
        """Start at once."""
        self.indexes = (name,)
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(fill,), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the build ended; `wait` raises its error, if there was one."""
        return not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False when so many seconds were not enough.

        Raises:
            LakedexError: why not all files were read; `refresh_index` goes on.
        """
        self._thread.join(seconds)
        if self._problem is not None:
            raise self._problem
        return self.is_done

    def _run(self, fill: Callable[[], None]) -> None:
        try:
            fill()
        except BaseException as problem:  # noqa: BLE001 - `wait` raises it
            self._problem = problem


@dataclass(frozen=True, slots=True)
class FileIndexBuilder:
    """How a new file index is built."""

    kind: FileIndexKind
    wait: bool
    """Whether to return when it is complete, or at once."""
    is_async: bool
    """Whether writers leave it alone (`maintenance=async`)."""

    def add_expression(
        self, writer: TableWriter, expression: NewIndex
    ) -> WriteResult | FileIndexBuild:
        """Build an index on an expression that was checked for an expression index."""
        known = expression.definition
        assert known is not None
        own = {KIND_VERSION: str(self.kind.version)}
        if expression.zone is not None:
            own[PINNED_ZONE] = expression.zone
        definition = replace(
            known,
            name=index_prefix(self.kind.kind) + metadata_kind(known.name).given_name(known.name),
            index_type=self.kind.kind,
            options={**known.options, **own},
        )
        return self.add(writer, expression.options, definition)

    def add(
        self, writer: TableWriter, options: Mapping[str, str], definition: IndexDefinition
    ) -> WriteResult | FileIndexBuild:
        """Build an index.

        Args:
            writer: The table.
            options: The write options.
            definition: The index, without a folder.
        """
        writer = writer.with_options(options)
        if self.is_async:
            definition = replace(definition, options={**definition.options, MAINTENANCE: ASYNC})
        index = FileIndex(self.kind, with_folder(definition))
        if not writer.target().options.metadata.enabled:
            raise IndexUnusable(
                f"the {self.kind.kind} index {definition.name} needs a metadata table "
                "(hoodie.metadata.enable=true): queries consult indexes only beside one"
            )
        if not self.wait:
            _define(writer, index.definition)
            return FileIndexBuild(definition.name, lambda: _fill(writer, index))
        _build(writer, index)
        return WriteResult(_OPERATION, None, indexes=(definition.name,))


def refresh_file_index(writer: TableWriter, name: str) -> None:
    """Read the files that an index does not describe; where it is damaged, build it again."""
    index = file_index(name, writer.snapshot().config)
    try:
        _fill(writer, index)
    except LakedexError:
        rebuild_file_index(writer, name)


def repair_file_index(writer: TableWriter, name: str, wrong: Collection[str]) -> None:
    """Read some files again, by their paths, and those of runs that cannot be read; no others."""
    index = file_index(name, writer.snapshot().config)
    context = writer.snapshot().read_context
    with open_lock(context.storage, writer.target().patience.lock):
        forget_files(context, index, lambda *place: "/".join(filter(None, place)) not in wrong)
    _fill(writer, index)


def rebuild_file_index(writer: TableWriter, name: str) -> None:
    """Drop all entries of an index, and read the data again."""
    index = file_index(name, writer.snapshot().config)
    drop_file_index(writer.address, name, writer.target().patience)
    _define(writer, index.definition)
    _fill(writer, index)


def drop_file_index(address: StorageAddress, name: str, patience: TransactionOptions) -> None:
    """Drop a file index, by its full name; its kind need not be registered."""
    _change(address.open(), patience, lambda known: {k: v for k, v in known.items() if k != name})


def _build(writer: TableWriter, index: FileIndex) -> None:
    storage = writer.address.open()
    name_builder(storage, index.definition)
    try:
        _fill(writer, index)
        _define(writer, index.definition)
    except BaseException:
        storage.delete_folder(folder_of(index.definition))
        raise
    finally:
        forget_builder(storage, index.definition)
    _fill(writer, index)


def _define(writer: TableWriter, definition: IndexDefinition) -> None:
    def added(known: Mapping[str, IndexDefinition]) -> dict[str, IndexDefinition]:
        if definition.name in known:
            raise InvalidInput(f"the table has the index {definition.name} already")
        return {**known, definition.name: definition}

    _change(writer.address.open(), writer.target().patience, added)


def _change(
    storage: Storage,
    patience: TransactionOptions,
    change: Callable[[Mapping[str, IndexDefinition]], Mapping[str, IndexDefinition]],
) -> None:
    """Change the list of file indexes under the lock, and remove the files of dropped ones."""
    with open_lock(storage, patience.lock):
        known = file_index_definitions(load_table_config(storage))
        left = change(known)
        gone = [each for name, each in known.items() if left.get(name) != each]
        config = update_properties(storage, file_index_properties(left))
        for each in gone:
            storage.delete_folder(folder_of(each))
        remove_abandoned_indexes(storage, config)


def _fill(writer: TableWriter, index: FileIndex) -> None:
    """Read what the index does not describe, again while writers add to that."""
    left = -1
    for _ in range(_MOST_PASSES):
        before = left
        left = fill_file_index(writer.engine, writer.address, writer.snapshot(), index)
        # Files that lack the column are never described, however often they are read.
        if left in (0, before):
            return
