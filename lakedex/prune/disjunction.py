"""OR over different columns or expressions: each side is looked up in its own index.

Column statistics evaluate such a predicate as a whole. Exact lookups cannot: `city = 'oslo' OR
rider = 'ann'` fixes neither column, but each side fixes one; nor do ranges of one expression bound
another. A file that any side needs is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lakedex.expr.tree import And, Expr, Or, columns_of
from lakedex.index.contract import Answer, IndexedTable, IndexKind, Question, Stage
from lakedex.index.cost import Estimate

NAME = "each side of OR"
RANGES_NAME = "ranges of each side of OR"
_MOST_SIDES = 16


def lookups_for(predicate: Expr, kinds: Sequence[IndexKind]) -> tuple[IndexKind, ...]:
    """The kinds to consult about a predicate, with lookups of each side of an OR among them.

    Args:
        predicate: In normal form.
        kinds: In the order of their stages.
    """
    if not has_or(predicate):
        return tuple(kinds)
    keys, computed, stored = (
        tuple(kind for kind in kinds if kind.stage is stage)
        for stage in (Stage.KEYS, Stage.EXPRESSIONS, Stage.COLUMNS)
    )
    sides = [DisjunctionLookup(computed, (*keys, *stored))]
    if has_sides(predicate):
        sides.insert(0, DisjunctionLookup(keys))
    first = tuple(kind for kind in kinds if kind.stage <= Stage.KEYS)
    return (*first, *sides, *kinds[len(first) :])


def has_sides(predicate: Expr) -> bool:
    """Whether a predicate has an OR over different columns that every row must fulfil.

    Example:
        >>> from lakedex.expr.tree import Column, IsNull
        >>> a, b = IsNull(Column(("a",))), IsNull(Column(("b",)))
        >>> has_sides(And((a, Or((a, b))))), has_sides(And((a, b)))
        (True, False)
    """
    return bool(_disjunctions(predicate))


def has_or(predicate: Expr) -> bool:
    """Whether a predicate has an OR that every row must fulfil."""
    return bool(_disjunctions(predicate, fewest_columns=1))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of an OR, and the index that answers it soonest."""

    index: IndexKind
    name: str
    question: Question
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class DisjunctionLookup:
    """Asks indexes about each side of an OR."""

    required: tuple[IndexKind, ...]
    """The kinds without which there is nothing to consult."""
    others: tuple[IndexKind, ...] = ()
    """Kinds that may answer a side that these do not; the first one that does is consulted."""
    kind: str = "either"
    stage: Stage = Stage.KEYS
    describes_files: bool = False

    @property
    def _name(self) -> str:
        return RANGES_NAME if self.others else NAME

    def names(self, table: IndexedTable) -> list[str]:
        """One step for all sides, where there is an index to consult."""
        return [self._name] if any(kind.names(table) for kind in self.required) else []

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
        if self._name not in question.found:
            question.found[self._name] = self._find_sides(question)
        sides: list[_Side] | str = question.found[self._name]
        return sides

    def _find_sides(self, question: Question) -> list[_Side] | str:
        reason = f"the predicate has no OR over different columns of at most {_MOST_SIDES} sides"
        usable: list[list[_Side]] = []
        fewest = 1 if self.others else 2
        for disjunction in _disjunctions(question.predicate, fewest):
            questions = [
                replace(question, predicate=side, found={}) for side in disjunction.children
            ]
            answers = [self._answers(each, (*self.required, self)) for each in questions]
            alone = set.intersection(*({side.name for side in sides} for sides in answers))
            if self.others and alone:
                question.left_to.add(min(alone))
                reason = f"{min(alone)} is about all sides"
                continue
            found = [self._best(*each) for each in zip(questions, answers, strict=True)]
            sides = [side for side in found if side is not None]
            if len(sides) == len(found) and any(answers):
                usable.append(sides)
            else:
                reason = "no index answers one of the sides"
        if not usable:
            return reason
        return min(usable, key=lambda sides: sum(side.estimate.seconds for side in sides))

    def _best(self, question: Question, answers: list[_Side]) -> _Side | None:
        """The index that answers one side soonest; None where none does."""
        for kind in self.others:
            answers = answers or self._answers(question, (kind,))
        return min(answers, key=lambda side: side.estimate.seconds) if answers else None

    def _answers(self, question: Question, kinds: Sequence[IndexKind]) -> list[_Side]:
        found: list[_Side] = []
        for kind in kinds:
            for name in kind.names(question.table):
                if {name, kind.kind}.intersection(question.table.without):
                    continue
                estimate = kind.estimate(name, question)
                if isinstance(estimate, Estimate):
                    found.append(_Side(kind, name, question, estimate))
        return found


def _disjunctions(predicate: Expr, fewest_columns: int = 2) -> list[Or]:
    """The ORs over several columns that must be true for the predicate to be."""
    conjuncts = predicate.children if isinstance(predicate, And) else (predicate,)
    return [
        each
        for each in conjuncts
        if isinstance(each, Or)
        and len(each.children) <= _MOST_SIDES
        and len(columns_of(each)) >= fewest_columns
    ]
