"""The report of a pruned query: what every step removed, and why the others did not.

`explain` also names the indexes that another engine dropped: to find that out commits are read, so
queries do not do it.

The shapes of a predicate are which column is compared how, not with what. They are kept beside the
table, so they have no constants, except those that determine the result of a function, such as the
format of `date_format`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Any, Final, NamedTuple

from lakedex.expr.tree import (
    Call,
    Cast,
    Column,
    Compare,
    Expr,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Op,
    StartsWith,
    children_of,
    columns_of,
    tree_text,
)
from lakedex.filegroup import FileSlice
from lakedex.index.metadata_table import metadata_partition
from lakedex.table import Snapshot

_MOST_SHAPES = 32
_MOST_NODES = 1_000
_LONGEST = 80
_CHOOSING = frozenset(
    [
        "date_format",
        "date_trunc",
        "trunc",
        "to_date",
        "to_timestamp",
        "from_unixtime",
        "unix_timestamp",
        "substr",
        "substring",
        "left",
        "right",
        "bucket",
    ]
)
"""Functions whose constants choose a form; they are no values of the table."""
_OPERATORS = {
    Op.EQ: "equal",
    Op.EQ_NULL_SAFE: "equal",
    Op.NE: "not equal",
    Op.LT: "range",
    Op.LTE: "range",
    Op.GT: "range",
    Op.GTE: "range",
}


class Shape(NamedTuple):
    """One comparison of a predicate."""

    column: str
    operator: str
    """`equal`, `in`, `range`, `not equal`, `null`, `not null`, `like` or `other`."""
    expression: str = ""
    """What is compared, where that is not the bare column: `upper(name)`."""
    values: int = 0
    """With how many constants it is compared."""


def shapes_of(predicate: Expr | None) -> tuple[Shape, ...]:
    """Every comparison of a column in a predicate, each once, in order.

    Example:
        >>> from lakedex.expr import parse_predicate
        >>> for shape in shapes_of(parse_predicate("a = 1 AND (upper(b) > 'X' OR a IN (2, 3))")):
        ...     print(shape.column, shape.operator, shape.expression, shape.values)
        a equal  1
        b range upper(b) 1
        a in  2
    """
    found: dict[tuple[str, str, str], int] = {}
    pending = [] if predicate is None else [predicate]
    for _ in range(_MOST_NODES):
        if not pending or len(found) >= _MOST_SHAPES:
            break
        node = pending.pop()
        compared = _compared(node)
        if compared is None:
            pending.extend(reversed(children_of(node)))
            continue
        subjects, operator = compared
        for subject in subjects:
            for column in columns_of(subject)[:1]:
                bare = isinstance(subject, Column)
                text = "" if bare else shorten(_text(subject), _LONGEST)
                key = (column.name, operator, text)
                found[key] = found.get(key, 0) + _constants(node)
    return tuple(Shape(*key, values) for key, values in found.items())


def _constants(node: Expr) -> int:
    return len(node.values) if isinstance(node, In) else int(not isinstance(node, Column))


def _text(expr: Expr, *, shows: bool = False) -> str:
    """What is compared, on one line; constants show only where they choose a form."""
    match expr:
        case Column():
            return tree_text(expr)
        case Literal():
            return tree_text(expr) if shows else "?"
        case Cast(child, kind):
            return f"cast({_text(child)}, {kind})"
        case Call(function, arguments):
            keeps = function.lower() in _CHOOSING
            return f"{function}({', '.join(_text(each, shows=keeps) for each in arguments)})"
        case _:
            return "?"


def _compared(node: Expr) -> tuple[list[Expr], str] | None:
    """The sides of a comparison that are no constants, and its operator."""
    match node:
        case Compare(op, left, right):
            return [side for side in (left, right) if not isinstance(side, Literal)], _OPERATORS[op]
        case In(child, _):
            return [child], "in"
        case IsNull(child):
            return [child], "null"
        case IsNotNull(child):
            return [child], "not null"
        case Like() | StartsWith():
            return [node.child], "like"
        case Column():
            return [node], "other"
        case _:
            return None


NO_INDEX: Final = frozenset({"partition_values", "constant"})
"""Kinds of steps without an index: they use paths, or the predicate itself."""


@dataclass(frozen=True, slots=True)
class Step:
    """One index that was consulted or not, and the reason."""

    index: str
    kind: str
    before: int
    after: int
    bytes_saved: int
    seconds: float
    reason: str
    used: bool = True
    estimated_seconds: float | None = None
    """The expected time of the lookup, where it could be estimated."""
    assumed: bool = False
    """Whether the index does not exist: the figures are what it would do."""

    def as_dict(self) -> dict[str, Any]:
        """The step as plain values, for JSON."""
        return {
            "index": self.index,
            "kind": self.kind,
            "used": self.used,
            "before": self.before,
            "after": self.after,
            "bytes_saved": self.bytes_saved,
            "seconds": round(self.seconds, 6),
            "estimated_seconds": _rounded(self.estimated_seconds),
            "reason": self.reason,
            "assumed": self.assumed,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a query would read of a table; prints as a table.

    `total` is the number of file slices before pruning, `files` are those left, `steps` has
    every index in the order in which they were consulted, unused ones included.
    """

    predicate: str
    total: int
    total_bytes: int
    files: tuple[FileSlice, ...]
    steps: tuple[Step, ...]
    listing: str = ""
    notes: tuple[str, ...] = field(default=())
    shapes: tuple[Shape, ...] = ()
    """How columns are compared in the predicate."""
    expected: int | None = None
    """How many slices would be left if the assumed indexes were there; None without any."""

    @property
    def bytes_left(self) -> int:
        """The bytes of the slices that are left to read."""
        return sum(file_slice.size_bytes for file_slice in self.files)

    @property
    def assumption(self) -> str:
        """What would be read with the assumed indexes, in words; empty without any."""
        if self.expected is None:
            return ""
        return f"with the assumed indexes it would read {self.expected:,} of {self.total:,}"

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        return {
            "predicate": self.predicate,
            "total": self.total,
            "left": len(self.files),
            "expected": self.expected,
            "total_bytes": self.total_bytes,
            "bytes_left": self.bytes_left,
            "listing": self.listing,
            "notes": list(self.notes),
            "steps": [step.as_dict() for step in self.steps],
            "files": [
                {
                    "partition": each.partition,
                    "file_id": each.file_id,
                    "base": each.base.name if each.base else None,
                    "logs": [log.name for log in each.logs],
                    "size_bytes": each.size_bytes,
                }
                for each in self.files
            ],
        }

    def __str__(self) -> str:
        lines = [
            f"{self.predicate or 'no predicate'}: reads {len(self.files)} of {self.total} "
            f"file slices, {self.bytes_left:,} of {self.total_bytes:,} bytes",
        ]
        width = max((len(step.index) for step in self.steps), default=0)
        for step in self.steps:
            change = f"{step.before:>7,} -> {step.after:<7,}" if step.used else " " * 18
            lines.append(f"  {step.index:<{width}}  {change}  {step.reason}")
        lines += [f"  note: {note}" for note in self.notes]
        if self.expected is not None:
            lines.append(f"  {self.assumption}")
        return "\n".join(lines)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def note_dropped(report: Report, snapshot: Snapshot) -> Report:
    """The report with a line for each index that would be there, had it not been dropped."""
    left = len(report.files)
    lines = [
        Step(
            name,
            metadata_partition(name).kind.value,
            before=left,
            after=left,
            bytes_saved=0,
            seconds=0.0,
            reason=f"{dropped}; {dropped.remedy}",
            used=False,
        )
        for name, dropped in sorted(snapshot.dropped_indexes.items())
    ]
    return replace(report, steps=(*report.steps, *lines)) if lines else report
