"""Runs of file indexes as writers keep them: made, merged, without single files, and their size.

The size of an index that does not exist is estimated from the entries of some file slices. They are
encoded twice, those of half of the sample and of all: the difference is what one more file takes,
the rest is what a run takes by itself. Of a table of up to 24 file slices with few rows everything
is read.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import CorruptFile, LakedexError
from lakedex.filegroup import ReadContext
from lakedex.index.file_index.kind import FileIndex, with_file_numbers
from lakedex.index.file_index.run import (
    FILE,
    FILES,
    RunHead,
    encode_run,
    keys_of,
    list_runs,
    read_head,
    read_heads,
    write_run,
)
from lakedex.index.maintenance import Collector, CollectTask, FileRows, MaintainedIndex
from lakedex.index.size_estimate import SampledTable, SizeEstimate, rows_of_slices, spread_slices
from lakedex.storage.protocol import Storage

_MOST_BYTES = 64 << 20
"""So many bytes of entries are held before they are written as a run."""
_MOST_MERGED_BYTES = 128 << 20
_LEAST_RUNS = 2
_File = tuple[str, str, int]
log = logging.getLogger("lakedex")
_MOST_SLICES = 24
_MOST_ROWS = 400_000


@dataclass(frozen=True)
class MaintainedFileIndex(MaintainedIndex):
    """A file index that writers keep up to date: tasks write its runs by themselves."""

    index: FileIndex

    @property
    def name(self) -> str:
        """The full name of the index."""
        return self.index.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return self.index.sources

    def collector(self, task: CollectTask) -> FileIndexCollector:
        """The collector of one task."""
        return FileIndexCollector(task.storage, self.index)

    def joined(self, parts: Sequence[object]) -> None:
        """Nothing: the runs are there."""
        del parts


class FileIndexCollector(Collector):
    """Collects the entries of new data files, and writes them as runs."""

    def __init__(self, storage: Storage, index: FileIndex) -> None:
        """Start without entries."""
        self._storage = storage
        self._index = index
        self._parts: list[tuple[_File, pa.Table]] = []
        self._bytes = 0

    def add_file(self, file: FileRows) -> None:
        """Add the entries of a file."""
        index = self._index
        try:
            entries = index.entries(file.rows)
        except LakedexError as error:
            # The file is not described, so that every query reads it.
            place = f"{file.partition}/{file.file}"
            log.warning("%s does not describe %s: %s", index.name, place, error)
            return
        self._parts.append(((file.partition, file.file, file.size), entries))
        self._bytes += entries.nbytes
        if self._bytes >= _MOST_BYTES:
            self._write()

    def finish(self) -> None:
        """Write what was collected."""
        self._write()

    def _write(self) -> None:
        parts, self._parts, self._bytes = self._parts, [], 0
        if not parts:
            return
        index = self._index
        columns = zip(*(file for file, _ in parts), strict=True)
        files = pa.table([list(column) for column in columns], schema=FILES)
        entries = with_file_numbers([entries for _, entries in parts])
        try:
            data = _encoded(index, entries, files)
        except LakedexError as error:
            log.warning("%s does not describe %d files: %s", index.name, len(files), error)
        else:
            write_run(self._storage, index.definition, data)


def merge_runs(context: ReadContext, index: FileIndex, is_kept: Callable[[str, str], bool]) -> None:
    """Merge the smaller runs of an index into one; the caller holds the table's lock.

    The runs that it was merged from are ignored from then on and removed by the next merge: a
    reader that listed them before can still read them.

    Args:
        context: The table.
        index: The index.
        is_kept: Whether entries of a file stay, by its partition and name.
    """
    storage = context.storage
    runs = list_runs(storage, index.definition)
    heads = read_heads(storage, runs)
    live = {head.path for head in heads}
    chosen: list[RunHead] = []
    total = 0
    for head in sorted(heads, key=lambda head: head.size_bytes):
        total += head.size_bytes
        # Runs of a newer version belong to a newer release, which merges them.
        if total <= _MOST_MERGED_BYTES and head.version <= index.kind.version:
            chosen.append(head)
    if len(chosen) >= _LEAST_RUNS:
        fitting = index.readable_heads(context, chosen)
        data = _merged(context, index, fitting, is_kept, [head.name for head in chosen])
        write_run(storage, index.definition, data)
    for run in runs:
        if run.path not in live:
            storage.delete(run.path)


def forget_files(
    context: ReadContext, index: FileIndex, is_kept: Callable[[str, str], bool]
) -> None:
    """Remove the entries of some files; the caller holds the table's lock.

    Runs with one of them are written again without it. A run that cannot be read is deleted.
    """
    storage = context.storage
    heads = []
    for run in list_runs(storage, index.definition):
        try:
            head = read_head(storage, run.path, run.size_bytes)
            if head.version == index.kind.version:
                index.read_entries(storage, head)
        except CorruptFile:
            storage.delete(run.path)
        else:
            heads.append(head)
    replaced = {name for head in heads for name in head.replaces}
    for head in index.readable_heads(context, heads):
        if head.name not in replaced and not _kept(head, is_kept).all():
            data = _merged(context, index, [head], is_kept, [head.name])
            write_run(storage, index.definition, data)


def _merged(
    context: ReadContext,
    index: FileIndex,
    heads: Sequence[RunHead],
    is_kept: Callable[[str, str], bool],
    replaces: Sequence[str],
) -> bytes:
    """One run with what others have of the files that stay, each file once."""
    schema = index.entry_schema(context.schema)
    all_files, all_entries = [FILES.empty_table()], [with_file_numbers([schema.empty_table()])]
    seen, before = pa.array([], pa.string()), 0
    for head in heads:
        keys = keys_of(head.files)
        kept = _kept(head, is_kept) & ~_mask(pc.is_in(keys, value_set=seen)) & _first(keys)
        entries = index.read_entries(context.storage, head)
        numbers = entries[FILE].to_numpy()
        renumbered = (before + np.cumsum(kept)[numbers] - 1).astype(np.int32)
        entries = entries.set_column(0, FILE, pa.array(renumbered)).filter(pa.array(kept[numbers]))
        all_entries.append(entries)
        all_files.append(head.files.filter(pa.array(kept)))
        seen = pa.concat_arrays([seen, keys.filter(pa.array(kept))])
        before += int(kept.sum())
    files = pa.concat_tables(all_files).combine_chunks()
    return _encoded(index, pa.concat_tables(all_entries), files, replaces)


def _encoded(
    index: FileIndex, entries: pa.Table, files: pa.Table, replaces: Sequence[str] = ()
) -> bytes:
    encoded = index.encoded(entries.combine_chunks(), files.num_rows)
    kind = index.kind
    return encode_run(encoded, files, kind=kind.kind, version=kind.version, replaces=replaces)


def _kept(head: RunHead, is_kept: Callable[[str, str], bool]) -> npt.NDArray[np.bool_]:
    """Which files of a run stay."""
    named = (head.files[name].to_pylist() for name in ("partition", "name"))
    return np.array([is_kept(*place) for place in zip(*named, strict=True)], dtype=np.bool_)


def _first(keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Which keys are not a repetition of one before."""
    first = np.zeros(len(keys), dtype=np.bool_)
    first[np.unique(keys.dictionary_encode().indices.to_numpy(), return_index=True)[1]] = True
    return first


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    return values.to_numpy(zero_copy_only=False).astype(np.bool_)


def estimate_file_index(index: FileIndex, table: SampledTable, tasks: int) -> SizeEstimate | None:
    """What an index would take; None where the table has no rows.

    How many files a lookup reads is not estimated: it is NaN.

    Args:
        index: The index.
        table: The table.
        tasks: How many tasks would build the index, each of which writes a run.

    Raises:
        LakedexError: the index cannot be computed.
    """
    started = time.perf_counter()
    chosen = spread_slices(table.slices, _MOST_SLICES)
    parts, rows = [], 0
    for part in rows_of_slices(table.read, chosen, index.sources):
        parts.append(index.entries(part))
        rows += part.num_rows
        if rows >= _MOST_ROWS:
            break
    if not rows:
        return None
    files, count = len(table.slices) * table.growth, len(parts)
    whole, half = _run_bytes(index, parts), _run_bytes(index, parts[: count // 2])
    a_file = max(0.0, (whole - half) / (count - count // 2))
    a_run = max(0.0, whole - a_file * count)
    return SizeEstimate(
        rows=round(sum(part.num_rows for part in parts) / count * files),
        size_bytes=round(min(tasks, files) * a_run + files * a_file),
        bytes_per_change=a_file * count / rows,
        seconds=(time.perf_counter() - started) / count * files,
        files_per_value=math.nan,
        bytes_per_write=_run_bytes(index, parts[:1]),
        sampled_rows=rows,
    )


def _run_bytes(index: FileIndex, parts: list[pa.Table]) -> int:
    """The bytes of a run that describes some files."""
    if not parts:
        return 0
    names = [f"{number:064}" for number in range(len(parts))]
    files = pa.table([[""] * len(parts), names, [0] * len(parts)], schema=FILES)
    entries = with_file_numbers(parts).combine_chunks()
    encoded = index.encoded(entries, len(parts))
    return len(encode_run(encoded, files, kind=index.kind.kind, version=index.kind.version))
