"""Several runs of a bitmap index become one, without the files that are gone.

The runs that it was made of are passed over from then on, and removed by the merge after: whoever
found them just before can still read them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakedex.errors import CorruptFile
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.bitmap.collect import write_run
from lakedex.index.kinds.bitmap.run import (
    FILES,
    NUMBERS,
    VALUE,
    Ints,
    RunHead,
    encode_run,
    flat_numbers,
    read_groups,
    read_head,
)
from lakedex.index.kinds.bitmap.store import list_runs, name_of, read_heads
from lakedex.storage.protocol import Storage

_MOST_BYTES = 128 << 20
_LEAST_RUNS = 2


def merge_runs(
    storage: Storage,
    definition: IndexDefinition,
    value_type: pa.DataType,
    is_kept: Callable[[str, str], bool],
) -> None:
    """Merge the smaller runs of an index; the caller holds the table's lock.

    Args:
        storage: The table.
        definition: The index.
        value_type: The type of its values; runs of another one are left out.
        is_kept: Asked with the partition and the name of a file whether to keep what is said of it.
    """
    runs = list_runs(storage, definition)
    heads = read_heads(storage, runs)
    live = {head.path for head in heads}
    chosen: list[RunHead] = []
    total = 0
    for head in sorted(heads, key=lambda head: head.size_bytes):
        total += head.size_bytes
        if total <= _MOST_BYTES:
            chosen.append(head)
    if len(chosen) >= _LEAST_RUNS:
        names = [name_of(head.path) for head in chosen]
        fitting = [head for head in chosen if head.type == value_type]
        write_run(storage, definition, _merged(storage, fitting, value_type, is_kept, names))
    for run in runs:
        if run.path not in live:
            storage.delete(run.path)


def forget_files(
    storage: Storage, definition: IndexDefinition, is_kept: Callable[[str, str], bool]
) -> None:
    """Take what is said of some files out of an index; the caller holds the table's lock.

    Runs that speak of one of them are written anew without it. A run that cannot be read goes.
    """
    heads = []
    for run in list_runs(storage, definition):
        try:
            head = read_head(storage, run.path, run.size_bytes)
            pairs_of(storage, head)
        except CorruptFile:
            storage.delete(run.path)
        else:
            heads.append(head)
    replaced = {name for head in heads for name in head.replaces}
    for head in heads:
        name = name_of(head.path)
        if name not in replaced and not _kept(head, is_kept).all():
            write_run(storage, definition, _merged(storage, [head], head.type, is_kept, [name]))


def pairs_of(storage: Storage, head: RunHead) -> tuple[pa.Array, Ints]:
    """All values of a run, each as often as there are files that hold it, and those files."""
    if not len(head.groups):
        return pa.array([], head.type), np.zeros(0, np.int64)
    table = read_groups(storage, head, range(len(head.groups)))
    lists = table[NUMBERS].combine_chunks()
    lengths = lists.value_lengths().to_numpy()
    rows = np.repeat(np.arange(len(lists)), lengths)
    return table[VALUE].combine_chunks().take(pa.array(rows)), flat_numbers(table[NUMBERS])


def _merged(
    storage: Storage,
    heads: list[RunHead],
    value_type: pa.DataType,
    is_kept: Callable[[str, str], bool],
    names: list[str],
) -> bytes:
    files, values, numbers = [FILES.empty_table()], [pa.array([], value_type)], [np.zeros(0, int)]
    before = 0
    for head in heads:
        kept = _kept(head, is_kept)
        own_values, own_numbers = pairs_of(storage, head)
        chosen = np.flatnonzero(kept[own_numbers])
        numbers.append(before + np.cumsum(kept)[own_numbers[chosen]] - 1)
        values.append(own_values.take(pa.array(chosen)))
        files.append(head.files.filter(pa.array(kept)))
        before += int(kept.sum())
    return encode_run(
        pa.concat_arrays(values),
        np.concatenate(numbers).astype(np.int64),
        pa.concat_tables(files).combine_chunks(),
        names,
    )


def _kept(head: RunHead, is_kept: Callable[[str, str], bool]) -> npt.NDArray[np.bool_]:
    """Which files of a run are kept."""
    named = (head.files[name].to_pylist() for name in ("partition", "name"))
    return np.array([is_kept(*place) for place in zip(*named, strict=True)], dtype=np.bool_)
