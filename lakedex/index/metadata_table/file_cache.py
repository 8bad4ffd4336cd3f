"""Small files of metadata tables, in memory for the snapshots to come.

A file of a metadata table is written once. A commit adds files beside those that are there, so the
first query after it needs to read what is new only. A file is known by its path and size and by
what its store tells of its content: one that was written anew under its old name is read anew.
Whoever looks for damage wants the bytes that the store has now, and forgets the table first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from lakedex.format.logfile import LogBlock
from lakedex.index.metadata_table.group_reader import CellFile, RawCells, Selection
from lakedex.storage import Storage
from lakedex.storage.source import MemorySource

MOST_FILE_BYTES = 256 << 10
"""Larger files are read in parts, as far as they are asked for."""
_MOST_BYTES = 64 << 20
_FEW_CELLS = 4_096
"""More cells than so many are found again quickly, beside what it takes to use them."""
_MOST_SELECTIONS = 32
_MOST_CELLS = 8_192
"""So many are kept of one file: decoded, one may take a kilobyte."""

_Place = tuple[int, tuple[str, ...] | None, tuple[tuple[bytes, bytes | None], ...] | None]


class FileVersion(NamedTuple):
    """One content of one file."""

    root: str
    path: str
    size_bytes: int
    stamp: str


class KeptFile(CellFile):
    """A file in memory, and what was found in it."""

    def __init__(self, source: MemorySource) -> None:
        """Decode nothing yet."""
        super().__init__(source, lambda _: True)
        self._found: OrderedDict[_Place, list[RawCells]] = OrderedDict()
        self._guard = threading.Lock()

    @property
    def held_bytes(self) -> int:
        """How much memory it takes, about."""
        readers = [*self._readers.values(), *([self._base] if self._base else [])]
        with self._guard:
            cells = [each for found in self._found.values() for each in found]
        held = sum(reader.held_bytes for reader in readers)
        return self._source.size + held + sum(each.held_bytes for each in cells)

    def base_cells(self, selection: Selection) -> list[RawCells]:
        """The selected cells of a base HFile."""
        return self._kept(-1, selection, lambda: super(KeptFile, self).base_cells(selection))

    def block_cells(self, block: LogBlock, selection: Selection) -> list[RawCells]:
        """The selected cells of one block of a log file."""
        read = super().block_cells
        return self._kept(block.offset, selection, lambda: read(block, selection))

    def _kept(
        self, at: int, selection: Selection, read: Callable[[], list[RawCells]]
    ) -> list[RawCells]:
        if selection.keys is not None:
            return read()
        place = (at, selection.prefixes, selection.ranges)
        found = self._found.get(place)
        if found is None:
            found = read()
            if _cell_count(found) <= _FEW_CELLS:
                for each in found:
                    each.records = {}
                self._keep(place, found)
        return found

    def _keep(self, place: _Place, found: list[RawCells]) -> None:
        with self._guard:
            self._found[place] = found
            count = sum(map(_cell_count, self._found.values()))
            while count > _MOST_CELLS or len(self._found) > _MOST_SELECTIONS:
                count -= _cell_count(self._found.popitem(last=False)[1])


def _cell_count(found: list[RawCells]) -> int:
    return sum(len(each.keys) for each in found)


class KeptFiles:
    """The files that this process used last, of all tables."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        """None yet."""
        self._most_bytes = most_bytes
        self._files: OrderedDict[FileVersion, KeptFile] = OrderedDict()
        self._sizes: dict[FileVersion, int] = {}
        self._used: set[FileVersion] = set()
        """Those that may have grown since they were measured."""
        self._guard = threading.Lock()

    def open(self, storage: Storage, path: str, size: int, stamp: str) -> CellFile | None:
        """A small file; None for one that is too large or of no known version."""
        if not stamp or not 0 < size <= MOST_FILE_BYTES:
            return None
        version = FileVersion(storage.root, path, size, stamp)
        with self._guard:
            if version in self._files:
                self._files.move_to_end(version)
                self._used.add(version)
                return self._files[version]
        data = storage.source(path, size).read(0, size)
        with self._guard:
            file = self._files.setdefault(version, KeptFile(MemorySource(data, path)))
            self._used.add(version)
            self._make_room()
            return file

    def has(self, root: str, path: str, size: int, stamp: str) -> bool:
        """Whether a file of that version is here."""
        return FileVersion(root, path, size, stamp) in self._files

    def forget(self, root: str | None = None) -> None:
        """Give up the files of one metadata table, or of all."""
        with self._guard:
            for version in [each for each in self._files if root in (None, each.root)]:
                self._give_up(version)

    def _make_room(self) -> None:
        """Give up files not used for longest; the last one stays, however large it became."""
        self._sizes.update((version, self._files[version].held_bytes) for version in self._used)
        self._used.clear()
        total = sum(self._sizes.values())
        while total > self._most_bytes and len(self._files) > 1:
            oldest = next(iter(self._files))
            total -= self._sizes[oldest]
            self._give_up(oldest)

    def _give_up(self, version: FileVersion) -> None:
        del self._files[version]
        self._sizes.pop(version, None)
        self._used.discard(version)


KEPT_FILES = KeptFiles()
"""Those of this process."""
