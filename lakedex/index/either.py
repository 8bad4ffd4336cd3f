"""OR over different columns: each side is looked up in an index of its own.

Statistics answer such a predicate as a whole. Exact lookups cannot: `city = 'oslo' OR
rider = 'ann'` fixes neither column, but each side fixes one. What any side needs is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from lakedex.expr.tree import And, Expr, Or, columns_of
from lakedex.index.answer import Answer, IndexedTable, IndexKind, Question
from lakedex.index.cost import Estimate

NAME = "each side of OR"
_MOST_SIDES = 16


def has_sides(predicate: Expr) -> bool:
    """Whether a predicate has an OR over different columns that every row must fulfil.

    Example:
        >>> from lakedex.expr.tree import Column, IsNull
        >>> a, b = IsNull(Column(("a",))), IsNull(Column(("b",)))
        >>> has_sides(And((a, Or((a, b))))), has_sides(And((a, b)))
        (True, False)
    """
    return bool(_disjunctions(predicate))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an OR, and the index that answers it soonest."""

    index: IndexKind
    name: str
    question: Question
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class EitherIndex:
    """Asks exact indexes about each side of an OR."""

    exact: tuple[IndexKind, ...]
    without: Collection[str] = ()
    """Names and kinds of indexes that must not be asked."""
    kind: str = "either"

    def names(self, table: IndexedTable) -> list[str]:
        """One step for all sides, where there is an index to ask."""
        return [NAME] if any(kind.names(table) for kind in self.exact) else []

    def estimate(self, name: str, question: Question) -> Estimate | str:
        """What the lookups of all sides take together."""
        sides = self._sides(question)
        if isinstance(sides, str):
            return sides
        once = {side.name: side.estimate.once for side in sides}
        again = sum(side.estimate.seconds - side.estimate.once for side in sides)
        left = [side.estimate.most_left for side in sides]
        known = [count for count in left if count is not None]
        most_left = sum(known) if len(known) == len(left) else None
        return Estimate(again + sum(once.values()), most_left, sum(once.values()))

    def lookup(self, name: str, question: Question) -> Answer | str:
        """The slices that any side needs."""
        sides = self._sides(question)
        if isinstance(sides, str):
            return sides
        keep = np.zeros(len(question.slices), dtype=np.bool_)
        reasons = []
        for side in sides:
            answer = side.index.lookup(side.name, side.question)
            if isinstance(answer, str):
                return f"{side.name}: {answer}"
            keep |= answer.keep
            reasons.append(f"{side.name}: {answer.reason}")
        return Answer(keep, np.ones(len(keep), dtype=np.bool_), "; ".join(reasons))

    def _sides(self, question: Question) -> list[_Side] | str:
        """The sides of the OR that is answered soonest, each with its index; found once."""
        if NAME not in question.found:
            question.found[NAME] = self._find_sides(question)
        sides: list[_Side] | str = question.found[NAME]
        return sides

    def _find_sides(self, question: Question) -> list[_Side] | str:
        reason = f"the predicate has no OR over different columns of at most {_MOST_SIDES} sides"
        usable: list[list[_Side]] = []
        for disjunction in _disjunctions(question.predicate):
            found: list[_Side] = []
            for child in disjunction.children:
                side = self._best(Question(child, question.slices, question.table))
                if isinstance(side, str):
                    reason = side
                    break
                found.append(side)
            else:
                usable.append(found)
        if not usable:
            return reason
        return min(usable, key=lambda sides: sum(side.estimate.seconds for side in sides))

    def _best(self, question: Question) -> _Side | str:
        """The index that answers one side soonest, or why none does."""
        reason = "no index answers one of the sides"
        found: list[_Side] = []
        for kind in (*self.exact, self):
            for name in kind.names(question.table):
                if {name, kind.kind}.intersection(self.without):
                    continue
                estimate = kind.estimate(name, question)
                if isinstance(estimate, Estimate):
                    found.append(_Side(kind, name, question, estimate))
        return min(found, key=lambda side: side.estimate.seconds) if found else reason


def _disjunctions(predicate: Expr) -> list[Or]:
    """The ORs over different columns that must be true for the predicate to be."""
    conjuncts = predicate.children if isinstance(predicate, And) else (predicate,)
    return [
        each
        for each in conjuncts
        if isinstance(each, Or) and len(each.children) <= _MOST_SIDES and len(columns_of(each)) > 1
    ]
