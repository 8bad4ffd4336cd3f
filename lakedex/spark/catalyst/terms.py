"""The nodes of the text that `FilterText.java` makes of filters, and the result of translating one.

Nodes stand after their children, so one pass from first to last meets every child before its parent
and nothing needs recursion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakedex.expr.coercion import Family, family
from lakedex.expr.tree import Expr, Unknown
from lakedex.spark import jvm_contract as contract


@dataclass(frozen=True, slots=True)
class FilterNode:
    """One Catalyst expression."""

    kind: str
    """Its class, such as `EqualTo`."""
    type_name: str
    """Its type as Spark writes it, such as `decimal(10,2)`."""
    children: tuple[int, ...] = ()
    """The positions of its children."""
    name: str = ""
    """Of a column, a struct field or an invoked function."""
    value: str | None = None
    """The exact text of a constant; None is SQL's null."""
    values: tuple[str | None, ...] = ()
    """The exact texts of a list of constants."""
    zone: str | None = None
    """The time zone that was fixed when the query was analysed."""
    mode: str = ""
    """LEGACY, ANSI or TRY."""
    switches: tuple[bool, ...] = ()
    """Its boolean parameters, in order."""
    escape: str = "\\"
    """The escape character of LIKE."""
    unreadable: bool = False
    """Whether a constant has no text form."""


@dataclass(frozen=True, slots=True)
class FilterText:
    """All nodes of a list of filters, and the positions of their conjuncts."""

    nodes: tuple[FilterNode, ...]
    roots: tuple[int | str, ...]
    """A position, or the reason why a conjunct was left out."""
    legacy_times: bool = False
    """Whether times are formatted and parsed by the rules of Spark 2."""


def read_filter_text(text: str) -> FilterText:
    """Read the text.

    Raises:
        ValueError: It is not of the agreed form.

    Example:
        >>> read_filter_text('{"nodes": [{"k": "Literal", "t": "int", "v": "5"}], "roots": [0]}')
        FilterText(nodes=(FilterNode(kind='Literal', type_name='int', ...),), roots=(0,), ...)
    """
    try:
        given = json.loads(text)
        nodes = tuple(
            _node(each, position) for position, each in enumerate(given[contract.FILTER_NODES])
        )
        roots = tuple(
            root if isinstance(root, str) else int(root) for root in given[contract.FILTER_ROOTS]
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a text of filters: {error!r}") from error
    if any(not 0 <= root < len(nodes) for root in roots if isinstance(root, int)):
        raise ValueError("a filter points at a node that is not there")
    return FilterText(nodes, roots, bool(given.get(contract.FILTER_LEGACY_TIMES, False)))


def _node(given: Mapping[str, Any], position: int) -> FilterNode:
    children = tuple(map(int, given.get(contract.NODE_CHILDREN, ())))
    if any(not 0 <= child < position for child in children):
        raise ValueError("a node points at a child that does not stand before it")
    return FilterNode(
        kind=str(given[contract.NODE_KIND]),
        type_name=str(given[contract.NODE_TYPE]),
        children=children,
        name=str(given.get(contract.NODE_NAME, "")),
        value=given.get(contract.NODE_VALUE),
        values=tuple(given.get(contract.NODE_VALUES, ())),
        zone=given.get(contract.NODE_ZONE),
        mode=str(given.get(contract.NODE_MODE, "")),
        switches=tuple(given.get(contract.NODE_SWITCHES, ())),
        escape=str(given.get(contract.NODE_ESCAPE, "\\")),
        unreadable=bool(given.get(contract.NODE_UNREADABLE, False)),
    )


_DECIMAL = "decimal("
_MOST_DIGITS = 38
_PLAIN: Mapping[str, pa.DataType] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(name: str) -> pa.DataType | None:
    """The Arrow type of a Spark type; None for types that predicates are not translated over.

    Strings with a collation, char and varchar, intervals and nested types are among those: a text
    in another collation is neither equal nor ordered as its bytes are.

    Example:
        >>> arrow_type("decimal(10,2)"), arrow_type("string collate UNICODE")
        (Decimal128Type(decimal128(10, 2)), None)
    """
    if not name.startswith(_DECIMAL):
        return _PLAIN.get(name)
    precision, _, scale = name.removeprefix(_DECIMAL).removesuffix(")").partition(",")
    if not precision.isdigit() or not scale.isdigit() or not 0 < int(precision) <= _MOST_DIGITS:
        return None
    return pa.decimal128(int(precision), int(scale))


def same_meaning(stored: pa.DataType, seen: pa.DataType) -> bool:
    """Whether values of a stored type are what Spark sees in a type of its own, unchanged.

    Example:
        >>> same_meaning(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"))
        True
        >>> same_meaning(pa.int32(), pa.int64())
        False
    """
    if stored == seen:
        return True
    kind = family(stored)
    if kind is not family(seen):
        return False
    if kind in (Family.TIMESTAMP, Family.TIMESTAMP_NTZ):
        # Spark would cut off what a nanosecond adds.
        return bool(stored.unit != "ns")
    return kind in (Family.STRING, Family.BINARY)


class NotTranslatable(Exception):
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
class TranslationContext:
    """What the meaning of an expression depends on besides its children."""

    columns: pa.Schema
    zone: str | None
    """The session's time zone, None when it has no counterpart here."""
    legacy_times: bool = False

    def check_zone(self, node: FilterNode) -> None:
        """Refuse an expression that was analysed under another time zone.

        Raises:
            NotTranslatable: Its zone is not the session's, or not known here.
        """
        if node.zone is not None and node.zone != self.zone:
            differs = "" if self.zone else ", which the JVM and lakedex know differently,"
            raise NotTranslatable(f"time zone {node.zone}{differs} in {node.kind}")


Rule = Callable[[FilterNode, list[Term], TranslationContext], Term]
"""How expressions of one class are translated."""


def plain_type(term: Term, what: str) -> pa.DataType:
    """The type of a term.

    Raises:
        NotTranslatable: It has a type without predicates.
    """
    if term.type is None:
        raise NotTranslatable(f"{what} of a type that is not compared")
    return term.type


def failures_of(terms: list[Term]) -> tuple[Expr, ...]:
    """The failures of several terms, each once."""
    found = [failure for term in terms for failure in term.failures]
    return tuple(dict.fromkeys(found)) if found else ()
