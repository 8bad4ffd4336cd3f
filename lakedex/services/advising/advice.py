"""Proposals about indexes and buckets, and the report that ranks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lakedex.prune.usage import TableUsage
from lakedex.table import Snapshot


@dataclass(frozen=True, slots=True)
class AdvisedTable:
    """A table, how queries used it, and its name in statements."""

    snapshot: Snapshot
    usage: TableUsage
    name: str

    @property
    def mean_bytes(self) -> float:
        """The mean size of a file slice."""
        slices = self.snapshot.slices
        return sum(each.size_bytes for each in slices) / max(1, len(slices))


@dataclass(frozen=True, slots=True)
class Proposal:
    """One index to create or to drop, or buckets to resize."""

    action: Literal["create", "drop", "resize"]
    table: str
    index: str
    kind: str
    columns: tuple[str, ...]
    statement: str
    """What to run."""
    queries: int
    """The counted queries that it concerns."""
    files_saved: float
    """Files that those queries read and would not have read, about; all of them together."""
    bytes_saved: float
    """The bytes of those files."""
    size_bytes: int
    """What the index would take, or takes."""
    bytes_per_change: float
    """What a write adds to the index for every row whose value changes."""
    build_seconds: float
    """What building it takes, by one task after the other."""
    reason: str
    bytes_read: int = 0
    """What a resize reads; 0 for other actions."""
    bytes_written: int = 0
    """What a resize writes, about."""

    @property
    def benefit(self) -> float:
        """Bytes that queries would not have read, for every byte of the index."""
        return self.bytes_saved / max(1, self.size_bytes)

    def as_dict(self) -> dict[str, Any]:
        """The proposal as plain values, for JSON."""
        return asdict(self) | {"columns": list(self.columns), "benefit": round(self.benefit, 3)}


@dataclass(frozen=True, slots=True)
class Advice:
    """Proposals, the best first; prints as a list with the statements to run."""

    proposals: tuple[Proposal, ...]
    notes: tuple[str, ...] = ()
    """What was looked at and not proposed, and why."""

    @property
    def statements(self) -> list[str]:
        """The statements of all proposals, in their order."""
        return [each.statement for each in self.proposals]

    def as_dict(self) -> dict[str, Any]:
        """The advice as plain values, for JSON."""
        return {
            "proposals": [each.as_dict() for each in self.proposals],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [] if self.proposals else ["no index to create or to drop, no buckets to resize"]
        for number, each in enumerate(self.proposals, start=1):
            lines += [f"{number}. {each.statement}", f"   {figures(each)}", f"   {each.reason}"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def figures(proposal: Proposal) -> str:
    """What a proposal brings and costs, on one line."""
    if proposal.action == "resize":
        return (
            f"reads {proposal.bytes_read:,} bytes and writes about {proposal.bytes_written:,}; "
            f"saves {proposal.bytes_saved:,.0f} bytes of a lookup by key, and "
            f"{proposal.files_saved:,.0f} files of a full read"
        )
    cost = f"{proposal.bytes_per_change:,.0f} bytes for every changed value"
    if proposal.action == "drop":
        return f"frees {proposal.size_bytes:,} bytes, and {cost} in writes"
    return (
        f"saves about {proposal.files_saved:,.0f} files ({proposal.bytes_saved:,.0f} bytes) in "
        f"{proposal.queries:,} queries; takes {proposal.size_bytes:,} bytes, and {cost} in writes"
    )


def ranked(proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """What to create by benefit for every byte, what to drop by its size, what to resize.

    Example:
        >>> ranked([])
        ()
    """
    creates = [each for each in proposals if each.action == "create"]
    drops = [each for each in proposals if each.action == "drop"]
    creates.sort(key=lambda each: -each.benefit)
    drops.sort(key=lambda each: -each.size_bytes)
    resizes = [each for each in proposals if each.action == "resize"]
    resizes.sort(key=lambda each: -each.bytes_read)
    return (*creates, *drops, *resizes)
