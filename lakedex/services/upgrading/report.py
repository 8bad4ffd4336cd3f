"""What an upgrade did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class UpgradeReport:
    """What an upgrade came to; the numbers are those of the call that finished it."""

    table: str
    from_version: int
    to_version: int
    instants: int = 0
    """The files of the active timeline that were written anew."""
    archived: int = 0
    """The archived instants that were written anew."""
    compacted: int = 0
    """The file slices whose log files were merged into a base file."""
    indexes: tuple[str, ...] = ()
    """The metadata partitions that were built."""
    dropped: tuple[str, ...] = ()
    """The indexes that the table no longer has."""
    rolled_back: tuple[str, ...] = ()
    """The instants of dead writers that were rolled back."""
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return self.from_version != self.to_version

    def as_dict(self) -> Mapping[str, Any]:
        """The report in plain values."""
        return asdict(self)
