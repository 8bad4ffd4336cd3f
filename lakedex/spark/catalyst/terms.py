"""What the translation of one Catalyst expression gives, and what it may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from lakedex.expr.tree import Expr, Unknown
from lakedex.spark.catalyst.wire import FilterNode


class NotUnderstood(Exception):
    """An expression that has no counterpart with exactly the same meaning; the text says what."""


@dataclass(frozen=True, slots=True)
class Term:
    """A translated expression."""

    expr: Expr
    type: pa.DataType | None = None
    """The type that Spark gives it, None for types without predicates."""
    failures: tuple[Expr, ...] = ()
    """Conditions under which Spark raises an error instead of giving a value."""

    @property
    def unknown(self) -> Unknown | None:
        """Itself, if it was not understood."""
        return self.expr if isinstance(self.expr, Unknown) else None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the meaning of an expression depends on besides its children."""

    columns: pa.Schema
    zone: str | None
    """The session's time zone, None when it has no counterpart here."""
    legacy_times: bool = False

    def check_zone(self, node: FilterNode) -> None:
        """Refuse an expression that was analysed under another time zone.

        Raises:
            NotUnderstood: Its zone is not the session's, or not known here.
        """
        if node.zone is not None and node.zone != self.zone:
            differs = "" if self.zone else ", which the JVM and lakedex know differently,"
            raise NotUnderstood(f"time zone {node.zone}{differs} in {node.kind}")


Rule = Callable[[FilterNode, list[Term], Surroundings], Term]
"""How expressions of one class are translated."""


def plain_type(term: Term, what: str) -> pa.DataType:
    """The type of a term.

    Raises:
        NotUnderstood: It has a type without predicates.
    """
    if term.type is None:
        raise NotUnderstood(f"{what} of a type that is not compared")
    return term.type


def failures_of(terms: list[Term]) -> tuple[Expr, ...]:
    """The failures of several terms, each once."""
    found = [failure for term in terms for failure in term.failures]
    return tuple(dict.fromkeys(found)) if found else ()
