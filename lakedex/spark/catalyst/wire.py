"""The text that `FilterText.java` makes of Catalyst filters, as nodes.

Nodes stand after their children, so one pass from first to last meets every child before its
parent and nothing needs recursion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
