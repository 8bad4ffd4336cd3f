"""CREATE, REFRESH and DROP of bitmap indexes, `USING bitmap`.

The files that are there are read before the table hears of the index, so that a build that fails
leaves nothing; those that came meanwhile are read after. No commit is made: an index that knows a
part of the files is used for that part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from lakedex.config import keys
from lakedex.config.own_partitions import OWN_EXPRESSION_PREFIX, is_own_partition
from lakedex.errors import IndexUnusable, InvalidInput, LakedexError
from lakedex.index.bitmap.definitions import (
    ROOT,
    bitmap_definitions,
    bitmap_property,
    folder_of,
    new_definition,
)
from lakedex.index.definitions import IndexDefinition
from lakedex.index.expression.target import PREFIX as EXPRESSION
from lakedex.index.expression.target import ExpressionTarget
from lakedex.storage.address import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import load_table_config, update_properties
from lakedex.txn.lock import open_lock
from lakedex.txn.transaction import TransactionOptions
from lakedex.write.bitmap_runs import fill_bitmap
from lakedex.write.result import WriteResult
from lakedex.write.verbs import TableWriter

_OPERATION = "INDEX"
_MOST_PASSES = 3


class BitmapBuild:
    """A bitmap index that is filled by a thread of this process; queries use what is there."""

    def __init__(self, name: str, fill: Callable[[], None]) -> None:
        """Start at once."""
        self.indexes = (name,)
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(fill,), daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the build ended, well or not; `wait` tells which."""
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
        except BaseException as problem:  # noqa: BLE001 - it is told by `wait`
            self._problem = problem


def add_bitmap_index(
    writer: TableWriter, options: Mapping[str, str], target: ExpressionTarget, *, wait: bool
) -> WriteResult | BitmapBuild:
    """Build a bitmap index on what was checked for an expression index of the same name."""
    prefix = OWN_EXPRESSION_PREFIX if is_own_partition(target.name) else EXPRESSION
    writer = writer.with_options(options)
    definition = new_definition(target, target.name.removeprefix(prefix))
    if not writer.target().options.metadata.enabled:
        raise IndexUnusable(
            f"the bitmap index {definition.name} needs a metadata table "
            "(hoodie.metadata.enable=true): queries ask indexes only beside one"
        )
    if not wait:
        _define(writer, definition)
        return BitmapBuild(definition.name, lambda: _fill(writer, definition))
    try:
        _fill(writer, definition)
    except BaseException:
        writer.address.open().delete_folder(folder_of(definition))
        raise
    _define(writer, definition)
    _fill(writer, definition)
    return WriteResult(_OPERATION, None)


def refresh_bitmap_index(writer: TableWriter, name: str) -> None:
    """Read the files that an index does not know; where it is broken, build it anew."""
    definition = bitmap_definitions(writer.snapshot().config)[name]
    try:
        _fill(writer, definition)
    except LakedexError:
        rebuild_bitmap_index(writer, name)


def rebuild_bitmap_index(writer: TableWriter, name: str) -> None:
    """Forget all that an index knows, and read the data again."""
    definition = bitmap_definitions(writer.snapshot().config)[name]
    drop_bitmap_index(writer.address, name, writer.target().patience)
    _define(writer, definition)
    _fill(writer, definition)


def drop_bitmap_index(address: StorageAddress, name: str, patience: TransactionOptions) -> None:
    """Take a bitmap index away, by its whole name."""
    _change(address.open(), patience, lambda known: {k: v for k, v in known.items() if k != name})


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
    """Change the list of indexes under the lock; folders that none of them names go away."""
    with open_lock(storage, patience.lock):
        left = change(bitmap_definitions(load_table_config(storage)))
        update_properties(storage, {keys.BITMAP_INDEXES: bitmap_property(left)})
        used = {folder_of(each) for each in left.values()}
        for folder in storage.folders(ROOT):
            # A build that goes on there reads its files again once it is in the list.
            if f"{ROOT}/{folder}" not in used:
                storage.delete_folder(f"{ROOT}/{folder}")


def _fill(writer: TableWriter, definition: IndexDefinition) -> None:
    """Read what the index does not know, again while writers add to that."""
    left = -1
    for _ in range(_MOST_PASSES):
        before, left = (
            left,
            fill_bitmap(writer.engine, writer.address, writer.snapshot(), definition),
        )
        # Files that lack the column are never known, however often they are read.
        if left in (0, before):
            return
