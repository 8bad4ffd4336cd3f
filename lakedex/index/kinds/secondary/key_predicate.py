r"""Which keys of a secondary index a predicate selects: those of some values, or ranges.

Values lead to the file groups that hold them. Ranges and prefixes have to be looked for in all
file groups, as groups are chosen by hash, but in each only in the blocks of the range. Of an index
on several columns that holds for values of the leading columns, and a range of the next one.

The keys of a secondary index are in the order of their bytes, which is nearly that of the texts
they begin with. It differs in two places: the `$` that ends a text sorts after some characters
that may follow in a longer text (`a b` before `a$`), and `\`, `$` and NUL sort as `\`, by which
they are escaped. So the texts below or above a bound are one range for each byte of the bound, and
a few more for what sorts out of turn; most of them touch and become one.

Whole numbers are decimal digits, whose order is that of the numbers among texts of one sign and one
length: a range of numbers is a range of keys for each such class. Texts of other lengths are
between them. A set of ranges may therefore hold keys that do not match, never too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, takewhile

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.evaluate import evaluate
from lakedex.expr.normal_form import restrict_to_columns
from lakedex.expr.points import key_points, points
from lakedex.expr.tree import (
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Op,
    Or,
    StartsWith,
)
from lakedex.format.hfile import KeyRange, after_prefix
from lakedex.index.definitions import IndexDefinition
from lakedex.index.kinds.secondary.key_encoding import (
    encoded_literals,
    is_certain,
    is_counted,
    is_ordered,
    values_of_texts,
)
from lakedex.index.metadata_table.keys import (
    escape_secondary,
    secondary_prefix,
    values_of_secondary,
)
from lakedex.schema.field_paths import type_at

KeyRanges = list[KeyRange]
"""Ranges in ascending order that do not touch."""

_ESCAPE = b"\\"
_END = b"$"
_ESCAPED = (b"\0", b"$", b"\\")
_FIRST = b"\x01"
"""Keys of texts come after those of null, which are the only ones that start with NUL."""
_LONGEST = 256
"""Bytes of a bound that are looked at: what follows hardly narrows a range."""
MAX_VALUES = 10_000
_LEAST, _MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_ABOVE = (Op.GT, Op.GTE)
_BELOW = (Op.LT, Op.LTE)


def keys_of_value(value: str | None) -> KeyRange:
    """All keys of one value, or of null.

    Example:
        >>> keys_of_value("ann")
        (b'ann$', b'ann%')
    """
    return keys_from_start(secondary_prefix(value))


def keys_from_start(start: str) -> KeyRange:
    """All keys that start as those of some value do.

    Example:
        >>> keys_from_start("austin$ann$")
        (b'austin$ann$', b'austin$ann%')
    """
    return _starting_with(start.encode())


def keys_within(start: str, ranges: KeyRanges) -> KeyRanges:
    """Keys that begin with the values of some columns, and go on as keys in some ranges do.

    Example:
        >>> keys_within("austin$", [(b"a", b"b"), (b"x", None)])
        [(b'austin$a', b'austin$b'), (b'austin$x', b'austin%')]
    """
    before = start.encode()
    end = after_prefix(before)
    return [(before + first, end if last is None else before + last) for first, last in ranges]


def keys_of_prefix(prefix: str) -> KeyRange:
    """All keys of texts that start so.

    Example:
        >>> keys_of_prefix("an")
        (b'an', b'ao')
    """
    return _starting_with(escape_secondary(prefix).encode())


def keys_from(low: str) -> KeyRanges:
    """Keys of all texts that are not below a bound.

    Example:
        >>> keys_from("m")
        [(b'm', None)]
    """
    bound = low.encode()[:_LONGEST]
    start = _escaped(bound)
    ranges = [(start or _FIRST, after_prefix(start))]
    for at in range(len(bound)):
        before = _escaped(bound[:at])
        # Escaped bytes that are greater than this one start with a backslash, which is too.
        ranges.append((before + bytes([bound[at] + 1]), after_prefix(before)))
    return united(ranges)


def keys_up_to(high: str) -> KeyRanges:
    r"""Keys of all texts that are not above a bound.

    Example:
        >>> keys_up_to("b")
        [(b'\x01', b'b'), (b'b$', b'b%')]
        >>> keys_up_to(" ")
        [(b'\x01', b' '), (b' $', b' %'), (b'$', b'%'), (b'\\\x00', b'\\\x01')]
    """
    whole = high.encode()
    bound = whole[:_LONGEST]
    last = _escaped(bound)
    ranges = [_starting_with(last if len(bound) < len(whole) else last + _END)]
    for at in range(len(bound)):
        before, byte = _escaped(bound[:at]), bound[at : at + 1]
        ranges.append((before or _FIRST, before + byte))
        ranges.append(_starting_with(before + _END))
        ranges += [_starting_with(before + _ESCAPE + below) for below in _ESCAPED if below < byte]
    return united(ranges)


def keys_of_numbers(low: int, high: int) -> KeyRanges:
    """Keys of all whole numbers from one to another, both included.

    Example:
        >>> keys_of_numbers(7, 12)
        [(b'10', b'12%'), (b'7', b'9%')]
    """
    ranges = _same_sign(max(low, 0), high, "")
    ranges += _same_sign(max(-high, 1), -low, "-")
    return united(ranges)


def united(ranges: Iterable[KeyRange]) -> KeyRanges:
    """The keys that are in any of some ranges.

    Example:
        >>> united([(b"c", b"e"), (b"a", b"b"), (b"d", None)])
        [(b'a', b'b'), (b'c', None)]
    """
    merged: KeyRanges = []
    for start, stop in sorted(ranges, key=lambda each: each[0]):
        if stop is not None and start >= stop:
            continue
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            first, known = merged[-1]
            merged[-1] = (first, None if known is None or stop is None else max(known, stop))
        else:
            merged.append((start, stop))
    return merged


def common(left: KeyRanges, right: KeyRanges) -> KeyRanges:
    """The keys that are in both of two sets.

    Example:
        >>> common([(b"a", b"d")], [(b"b", b"c"), (b"cc", None)])
        [(b'b', b'c'), (b'cc', b'd')]
    """
    found: KeyRanges = []
    at = other = 0
    while at < len(left) and other < len(right):
        start = max(left[at][0], right[other][0])
        stop = _sooner(left[at][1], right[other][1])
        if stop is None or start < stop:
            found.append((start, stop))
        if stop == left[at][1]:
            at += 1
        else:
            other += 1
    return found


def _same_sign(low: int, high: int, sign: str) -> KeyRanges:
    """Numbers without their sign, one range for each number of digits."""
    ranges: KeyRanges = []
    while low <= high:
        last = min(high, 10 ** len(str(low)) - 1)
        ranges.append((f"{sign}{low}".encode(), after_prefix(f"{sign}{last}$".encode())))
        low = last + 1
    return ranges


def _escaped(text: bytes) -> bytes:
    """As `escape_secondary`, of bytes that may end in the middle of a character."""
    for each in (_ESCAPE, _END, b"\0"):
        text = text.replace(each, _ESCAPE + each)
    return text


def _starting_with(prefix: bytes) -> KeyRange:
    return prefix, after_prefix(prefix)


def _sooner(left: bytes | None, right: bytes | None) -> bytes | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


@dataclass(frozen=True, slots=True)
class KeyPredicate:
    """What is asked of an index: values where they are known, else ranges of keys."""

    columns: tuple[str, ...]
    """All columns of the index."""
    readable: Mapping[str, pa.DataType]
    """Those whose values can be read back from the keys, with their types."""
    starts: list[str] | None = None
    """What the keys of each value start with."""
    ranges: KeyRanges | None = None

    def matching(self, entries: pa.Table, predicate: Expr, time_zone: str) -> pa.Table:
        """Those of the entries found in ranges whose values the predicate can be true for."""
        if self.ranges is None or not len(entries) or not self.readable:
            return entries
        keys = entries["key"].combine_chunks()
        own = restrict_to_columns(predicate, *((name,) for name in self.readable))
        try:
            texts = dict(
                zip(self.columns, values_of_secondary(keys, len(self.columns)), strict=True)
            )
            values = [values_of_texts(texts[name], kind) for name, kind in self.readable.items()]
            rows = pa.record_batch(values, names=list(self.readable))
            return entries.filter(evaluate(own, rows, time_zone=time_zone))
        except (InvalidInput, UnsupportedFeature, ValueError):
            # A text that is none of its type, or a condition that is not evaluated: all may match.
            return entries


def key_predicate(
    definition: IndexDefinition, predicate: Expr, schema: pa.Schema
) -> KeyPredicate | str:
    """What a predicate asks of an index, or in words why nothing."""
    columns = definition.source_fields
    types = []
    for column in columns:
        kind = type_at(column, schema)
        if kind is None:
            return f"its column {column} is not in the table"
        types.append(kind)
    paths = [tuple(column.split(".")) for column in columns]
    if not is_certain(types[0]):
        return f"how it spells {types[0]} values is not sure"
    known, values = _known_points(predicate, paths, types)
    starts = _starts(values, columns, types)
    if isinstance(starts, str):
        return starts
    readable = {
        name: kind
        for name, kind in zip(columns, types, strict=True)
        if is_ordered(kind) and name in schema.names
    }
    if known == len(columns):
        return KeyPredicate(columns, readable, starts=starts)
    ranges: KeyRanges | None = None
    if is_ordered(types[known]):
        ranges = _ranges(predicate, paths[known], types[known])
    if ranges is None and not known:
        return _why_not(predicate, paths[0], types[0])
    count = len(starts) * (1 if ranges is None else len(ranges))
    if count > MAX_VALUES:
        return f"{count} ranges are too many to look up"
    within = [
        each
        for start in starts
        for each in ([keys_from_start(start)] if ranges is None else keys_within(start, ranges))
    ]
    return KeyPredicate(columns, readable, ranges=united(within))


def _why_not(predicate: Expr, path: tuple[str, ...], data_type: pa.DataType) -> str:
    found, column = points(predicate, path), ".".join(path)
    if found is not None:
        return f"{len(found)} values are too many to look up"
    if not is_ordered(data_type):
        return f"the predicate has no =, IN or IS NULL on {column}"
    return f"the predicate limits the values of {column} neither by =, IN nor by a range"


def _known_points(
    predicate: Expr, paths: Sequence[tuple[str, ...]], types: Sequence[pa.DataType]
) -> tuple[int, list[tuple[Literal, ...]]]:
    """Of how many leading columns the values are known, and these values together."""
    sure = len(list(takewhile(is_certain, types)))
    for count in range(sure, 0, -1):
        found = key_points(predicate, paths[:count], MAX_VALUES)
        if found is not None:
            return count, found
    return 0, [()]


def _starts(
    found: Sequence[tuple[Literal, ...]], columns: Sequence[str], types: Sequence[pa.DataType]
) -> list[str] | str:
    """What the keys with some values of leading columns start with, or which value does not fit."""
    texts: list[list[str | None]] = []
    for number, literals in enumerate(zip(*found, strict=True)):
        own = encoded_literals([literal.value for literal in literals], types[number])
        if own is None:
            return f"a value does not fit {columns[number]} ({types[number]})"
        texts.append(own)
    if not texts:
        return [""] * len(found)
    return [secondary_prefix(*values) for values in zip(*texts, strict=True)]


def _ranges(expr: Expr, column: tuple[str, ...], data_type: pa.DataType) -> KeyRanges | None:
    """Keys that rows must have for the predicate to be true; None when it does not say."""
    match expr:
        case And(children):
            parts = [_ranges(child, column, data_type) for child in children]
            known = [part for part in parts if part is not None]
            return reduce(common, known) if known else None
        case Or(children):
            parts = [_ranges(child, column, data_type) for child in children]
            known = [part for part in parts if part is not None]
            return united(chain(*known)) if len(known) == len(parts) else None
        case Literal(value):
            return None if value is True else []
        case _:
            return _ranges_of_leaf(expr, column, data_type)


def _ranges_of_leaf(
    expr: Expr, column: tuple[str, ...], data_type: pa.DataType
) -> KeyRanges | None:
    match expr:
        case StartsWith(Column(path), prefix) if path == column:
            is_text = pa.types.is_string(data_type) or pa.types.is_large_string(data_type)
            return [keys_of_prefix(prefix)] if is_text and prefix else None
        case IsNull(Column(path)) if path == column:
            return [keys_of_value(None)]
        case In(Column(path), values) if path == column:
            return _keys_of(values, data_type)
        case Compare(op, Column(path), Literal() as right) if path == column:
            return _compared(op, right, data_type)
        case _:
            return None


def _compared(op: Op, right: Literal, data_type: pa.DataType) -> KeyRanges | None:
    if op in (Op.EQ, Op.EQ_NULL_SAFE):
        return _keys_of((right,), data_type)
    if op not in (*_ABOVE, *_BELOW):
        return None
    texts = encoded_literals([right.value], data_type)
    if texts is None or texts[0] is None:
        return None if texts is None else []
    bound = texts[0]
    # Bounds are taken as included: rows that lie on one are sorted out by their values.
    if is_counted(data_type):
        above = op in _ABOVE
        limits = (int(bound), _MOST) if above else (_LEAST, int(bound))
        return keys_of_numbers(*limits)
    return keys_from(bound) if op in _ABOVE else keys_up_to(bound)


def _keys_of(values: tuple[Literal, ...], data_type: pa.DataType) -> KeyRanges | None:
    if len(values) > MAX_VALUES:
        return None
    texts = encoded_literals([value.value for value in values], data_type)
    if texts is None:
        return None
    return united(keys_of_value(text) for text in texts)
