"""One attempt at a write, and what all its stages know of it."""

from __future__ import annotations

from dataclasses import dataclass

from lakedex.txn.transaction import Transaction
from lakedex.write.context import Target
from lakedex.write.intake import IngestedRows
from lakedex.write.operation import Operation
from lakedex.write.result import StepClock


@dataclass(frozen=True)
class Attempt:
    """One attempt at a write."""

    target: Target
    operation: Operation
    taken: IngestedRows
    transaction: Transaction
    scratch: str
    clock: StepClock
