"""CREATE, REFRESH and DROP of bitmap indexes, `USING bitmap`.

The files that are there are read before the table hears of the index, so that a build that fails
leaves nothing; those that came meanwhile are read after. No commit is made: an index that knows a
part of the files is used for that part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from lakedex.config import keys
from lakedex.config.own_partitions import OWN_EXPRESSION_PREFIX, is_own_partition
from lakedex.errors import IndexUnusable, InvalidInput, LakedexError
from lakedex.index.definitions import ASYNC, MAINTENANCE, IndexDefinition
from lakedex.index.kinds.bitmap.definitions import (
    bitmap_definitions,
    bitmap_property,
    folder_of,
    new_definition,
)
from lakedex.index.kinds.bitmap.merging import forget_files
from lakedex.index.kinds.expression.target import PREFIX as EXPRESSION
from lakedex.index.kinds.expression.target import ExpressionTarget
from lakedex.storage.address import StorageAddress
from lakedex.storage.protocol import Storage
from lakedex.timeline import load_table_config, update_properties
from lakedex.txn.bitmap_builders import forget_builder, name_builder, remove_dead_bitmaps
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
    writer: TableWriter,
    options: Mapping[str, str],
    target: ExpressionTarget,
    *,
    wait: bool,
    is_async: bool = False,
) -> WriteResult | BitmapBuild:
    """Build a bitmap index on what was checked for an expression index of the same name.

    With `is_async` writers do not maintain it.
    """
    prefix = OWN_EXPRESSION_PREFIX if is_own_partition(target.name) else EXPRESSION
    writer = writer.with_options(options)
    definition = new_definition(target, target.name.removeprefix(prefix))
    if is_async:
        own = {**definition.options, MAINTENANCE: ASYNC}
        definition = replace(definition, options=own)
    if not writer.target().options.metadata.enabled:
        raise IndexUnusable(
            f"the bitmap index {definition.name} needs a metadata table "
            "(hoodie.metadata.enable=true): queries ask indexes only beside one"
        )
    if not wait:
        _define(writer, definition)
        return BitmapBuild(definition.name, lambda: _fill(writer, definition))
    storage = writer.address.open()
    name_builder(storage, definition)
    try:
        _fill(writer, definition)
        _define(writer, definition)
    except BaseException:
        storage.delete_folder(folder_of(definition))
        raise
    finally:
        forget_builder(storage, definition)
    _fill(writer, definition)
    return WriteResult(_OPERATION, None, indexes=(definition.name,))


def refresh_bitmap_index(writer: TableWriter, name: str) -> None:
    """Read the files that an index does not know; where it is broken, build it anew."""
    definition = bitmap_definitions(writer.snapshot().config)[name]
    try:
        _fill(writer, definition)
    except LakedexError:
        rebuild_bitmap_index(writer, name)


def mend_bitmap_index(writer: TableWriter, name: str, wrong: Collection[str]) -> None:
    """Read some files again, by their paths, and those of runs that cannot be read; no others."""
    definition = bitmap_definitions(writer.snapshot().config)[name]
    storage = writer.address.open()
    with open_lock(storage, writer.target().patience.lock):
        forget_files(storage, definition, lambda *place: "/".join(filter(None, place)) not in wrong)
    _fill(writer, definition)


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
    """Change the list of indexes under the lock; what none of them names goes away."""
    with open_lock(storage, patience.lock):
        known = bitmap_definitions(load_table_config(storage))
        left = change(known)
        gone = [each for name, each in known.items() if left.get(name) != each]
        config = update_properties(storage, {keys.BITMAP_INDEXES: bitmap_property(left)})
        for each in gone:
            storage.delete_folder(folder_of(each))
        remove_dead_bitmaps(storage, config)


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
