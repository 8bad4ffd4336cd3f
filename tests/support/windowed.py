"""Tables with a record index of the newest days, and writers that do not know of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lakedex
from lakedex.index.kinds.windowed.state import FOLDER, WindowState, digest_of, open_window
from lakedex.storage.open import StorageAddress
from lakedex.table.own_properties import OWN_COPY_PATH, OWN_PROPERTIES_PATH
from lakedex.write.verbs import TableWriter
from tests.support.history import writer_of
from tests.support.write_shapes import MOVES, Shape

OWN_FILES = (OWN_PROPERTIES_PATH, OWN_COPY_PATH, FOLDER)


@contextmanager
def stranger(shape: Shape, path: str) -> Iterator[TableWriter]:
    """A writer for which the table has no windowed index, as it has none for Hudi."""
    hidden = Path(path).parent / f"{Path(path).name}-hidden"
    for name in OWN_FILES:
        if (Path(path) / name).exists():
            (hidden / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(path) / name, hidden / name)
    index = "GLOBAL_SIMPLE" if shape.is_global else "SIMPLE"
    options = {"hoodie.index.type": index}
    if index in MOVES:
        options[MOVES[index]] = "true"
    yield writer_of(StorageAddress.of(path), options)
    # It wrote none of its own when all its rows were older than those of the table.
    for name in OWN_FILES[:2]:
        (Path(path) / name).unlink(missing_ok=True)
    for name in OWN_FILES:
        if (hidden / name).exists():
            shutil.move(hidden / name, Path(path) / name)
    shutil.rmtree(hidden, ignore_errors=True)


def state_of(path: str) -> WindowState:
    """The state of the index that counts."""
    snapshot = lakedex.open(path).snapshot
    state = open_window(snapshot.storage, snapshot.timeline.is_committed_write).state
    assert state is not None
    return state


def covered_partitions(path: str) -> set[str]:
    """The partitions all of whose slices the index knows as they are now."""
    state = state_of(path)
    slices = lakedex.open(path).snapshot.slices
    unknown = {
        each.partition
        for each in slices
        if each.id not in state.groups or state.groups[each.id].digest != digest_of(each.file_names)
    }
    return {each.partition for each in slices} - unknown
