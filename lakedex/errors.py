"""What can go wrong, by what the caller can do about it.

Every error that lakedex raises on purpose is a `LakedexError`. The children differ by what
the caller can do next, and every message names the offending thing.
"""

from __future__ import annotations


class LakedexError(Exception):
    """The base of every error that lakedex raises on purpose."""


class TableNotFound(LakedexError):
    """There is no Hudi table at the given place; check the path."""


class CorruptFile(LakedexError):
    """A file does not hold what its format promises; restore it or repair the table.

    Example:
        >>> raise CorruptFile("t/a.hfile", 16, expected="magic DATABLK*", actual="XXXXXXXX")
        Traceback (most recent call last):
        lakedex.errors.CorruptFile: t/a.hfile at offset 16: expected magic DATABLK*, found XXXXXXXX
    """

    def __init__(self, path: str, offset: int, *, expected: str, actual: object) -> None:
        """Name the file, the byte offset, what should stand there and what does."""
        self.path = path
        self.offset = offset
        self.expected = expected
        self.actual = actual
        super().__init__(f"{path} at offset {offset}: expected {expected}, found {actual}")


class TimelineDamaged(LakedexError):
    """Instants of the table are lost; `lakedex verify` names them, `lakedex repair` rebuilds them.

    Example:
        >>> raise TimelineDamaged(".hoodie/timeline", "20261115183005287 is missing")
        Traceback (most recent call last):
        lakedex.errors.TimelineDamaged: .hoodie/timeline is damaged: 20261115183005287 is missing; \
put the files back, or let `lakedex repair` rebuild them from the data files
    """

    def __init__(self, path: str, problem: str, *, can_be_rebuilt: bool = True) -> None:
        """Name the folder of the timeline, what it lacks, and whether a repair may help."""
        self.path = path
        self.problem = problem
        rest = "put the files back from a copy of the table"
        if can_be_rebuilt:
            rest = "put the files back, or let `lakedex repair` rebuild them from the data files"
        super().__init__(f"{path} is damaged: {problem}; {rest}")


class UnsafePath(LakedexError):
    """A path from metadata or from the caller would leave the table's own folder."""


class UnsupportedFeature(LakedexError):
    """The table uses something that lakedex refuses to guess at; the message names it."""

    def __init__(
        self, feature: str, *, table_version: int | None = None, instead: str | None = None
    ) -> None:
        """Name the feature, the table version that has it, and what to do instead."""
        self.feature = feature
        self.table_version = table_version
        version = "" if table_version is None else f" (table version {table_version})"
        advice = "" if instead is None else f"; {instead}"
        super().__init__(f"{feature} is not supported{version}{advice}")


class InvalidInput(LakedexError):
    """An argument is wrong: an unknown column, option or type; correct the call."""


class InvalidDefinition(LakedexError):
    """A statement or predicate cannot be understood; `position` points into its text."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        """Say what is wrong and, where known, at which character of the text."""
        self.position = position
        super().__init__(message)


class IndexUnusable(LakedexError):
    """An index cannot answer; queries run without it, only a direct question to it fails."""


class StorageError(LakedexError):
    """The store could not do what was asked; the message names path and reason."""


class FileMissing(StorageError):
    """A file that was asked for is not there."""


class AlreadyExists(StorageError):
    """A create-if-absent lost: somebody else made the file first."""


class VersionMismatch(StorageError):
    """A replace-if-unchanged lost: the file changed since it was read."""


class CommitConflict(LakedexError):
    """Another writer changed the same things first; nothing was changed, retry."""


class ServicePends(CommitConflict):
    """A planned service has what a write would change; nothing was changed, let it end first."""
