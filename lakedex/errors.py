"""The exceptions of lakedex, grouped by what the caller can do about them.

Every error that lakedex raises on purpose is a `LakedexError`. Its subclasses differ in what the
caller can do next, and every message names the offending value.
"""

from __future__ import annotations


class LakedexError(Exception):
    """The base of every error that lakedex raises on purpose."""


class TableNotFound(LakedexError):
    """There is no Hudi table at the given path; check the path."""


class CorruptFile(LakedexError):
    """The content of a file violates its format; restore the file or repair the table.

    Example:
        >>> raise CorruptFile("t/a.hfile", 16, expected="magic DATABLK*", actual="XXXXXXXX")
        Traceback (most recent call last):
        lakedex.errors.CorruptFile: t/a.hfile at offset 16: expected magic DATABLK*, found XXXXXXXX
    """

    def __init__(self, path: str, offset: int, *, expected: str, actual: object) -> None:
        """Name the file, the byte offset, the expected content and the actual one."""
        self.path = path
        self.offset = offset
        self.expected = expected
        self.actual = actual
        super().__init__(f"{path} at offset {offset}: expected {expected}, found {actual}")


class TimelineDamaged(LakedexError):
    """Instants of the table are lost; `lakedex verify` lists them, `lakedex repair` rebuilds them.

    Example:
        >>> raise TimelineDamaged(".hoodie/timeline", "20261115183005287 is missing")
        Traceback (most recent call last):
        lakedex.errors.TimelineDamaged: .hoodie/timeline is damaged: 20261115183005287 is missing; \
put the files back, or let `lakedex repair` rebuild them from the data files
    """

    def __init__(self, path: str, problem: str, *, can_be_rebuilt: bool = True) -> None:
        """Name the folder of the timeline, what is missing, and whether a repair may help."""
        self.path = path
        self.problem = problem
        rest = "put the files back from a copy of the table"
        if can_be_rebuilt:
            rest = "put the files back, or let `lakedex repair` rebuild them from the data files"
        super().__init__(f"{path} is damaged: {problem}; {rest}")


class UnsafePath(LakedexError):
    """A path from metadata or from the caller would leave the table's own folder."""


class UnsupportedFeature(LakedexError):
    """The table or the call uses a feature that lakedex does not support; the message names it."""

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
    """A statement or predicate is not valid; `position` is an offset in its text."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        """Give the reason and, if known, the character of the text at which it occurs."""
        self.position = position
        super().__init__(message)


class IndexUnusable(LakedexError):
    """An index cannot be used; queries run without it, only a direct lookup in it fails."""


class StorageError(LakedexError):
    """A request to the store failed; the message names the path and the reason."""


class FileMissing(StorageError):
    """A requested file does not exist."""


class AlreadyExists(StorageError):
    """A create-if-absent failed: another writer created the file first."""


class VersionMismatch(StorageError):
    """A replace-if-unchanged failed: the file changed since it was read."""


class CommitConflict(LakedexError):
    """Another writer changed the same data first; nothing was written, retry."""


class ServicePends(CommitConflict):
    """A pending service covers the data of a write; nothing was written, let it finish first."""
