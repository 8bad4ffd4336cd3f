"""The base class of index kinds whose records are in the metadata table.

Besides Hudi's kinds it is that of the windowed record index, which has the records of a record
index in files of its own. Everything that differs between kinds is a method here: services find a
kind through the registry, and name none. The package of a kind has a module for each part of its
life, such as `lookup.py` and `check.py`; those that queries do not need are imported when used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import ClassVar

from lakedex.index.catalog import IndexInfo
from lakedex.index.definitions import IndexDefinition
from lakedex.index.metadata_table import Kind
from lakedex.index.verification.check import Check, Subject
from lakedex.storage.protocol import Storage
from lakedex.timeline import Timeline


class MetadataIndexKind:
    """A kind of index whose records are in the metadata table."""

    kind: ClassVar[str]
    """Its name in reports of queries, and in `without_indexes`."""
    partition: ClassVar[Kind | None]
    """What the metadata table calls its partitions; None for an index outside of it."""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """What stands before the given name in the full names of indexes; a longer prefix before the
    one that it begins with. Empty for a kind that a table has once, under the name of the kind."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """How RFCs and early releases of Hudi spell the kind."""
    is_creatable: ClassVar[bool] = True
    """Whether CREATE INDEX makes indexes of this kind."""
    serves_queries_only: ClassVar[bool] = False
    """Whether an index that helps no query is of no use."""

    @property
    def is_named(self) -> bool:
        """Whether a table can have several of them, each with a name and a definition."""
        return bool(self.prefixes)

    def given_name(self, name: str) -> str:
        """The name that an index was given, from its full name."""
        prefix = next((each for each in self.prefixes if name.startswith(each)), "")
        return name.removeprefix(prefix)

    def check(self, name: str, subject: Subject) -> Check:
        """The check by which `verify` compares an index with the data: `start` in `check.py`.

        Raises:
            LakedexError: the index cannot be read.
        """
        start: Callable[[str, Subject], Check] = self._part("check").start
        return start(name, subject)

    def outside_metadata(self, storage: Storage, timeline: Timeline) -> list[IndexInfo]:
        """The indexes of this kind that a table has outside of the metadata table."""
        del storage, timeline
        return []

    def behind(
        self, timeline: Timeline, definitions: Mapping[str, IndexDefinition]
    ) -> frozenset[str]:
        """The indexes that queries must not use, as another engine wrote to the table only."""
        del timeline, definitions
        return frozenset()

    def _part(self, name: str) -> ModuleType:
        """A module of the kind's package that queries do not need, imported when it is used."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")
