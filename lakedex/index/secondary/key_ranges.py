r"""Sets of index keys as ranges of bytes, and which of them hold the values of a range.

The keys of a secondary index lie in the order of their bytes, which is nearly that of the texts
they begin with. It differs in two places: the `$` that ends a text sorts after some characters
that may follow in a longer text (`a b` before `a$`), and `\`, `$` and NUL sort as `\`, by which
they are escaped. So the texts below or above a bound are one range for each byte of the bound, and
a few more for what sorts out of turn; most of them touch and become one.

Whole numbers are decimal digits, whose order is that of the numbers among texts of one sign and one
length: a range of numbers is a range of keys for each such class. Texts of other lengths lie
between them. A set of ranges may therefore hold keys that were not asked for, never too few.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakedex.format.hfile import KeyRange, after_prefix
from lakedex.index.metadata_table.keys import escape_secondary, secondary_prefix

KeyRanges = list[KeyRange]
"""Ranges in ascending order that do not touch."""

_ESCAPE = b"\\"
_END = b"$"
_ESCAPED = (b"\0", b"$", b"\\")
_FIRST = b"\x01"
"""Keys of texts come after those of null, which are the only ones that start with NUL."""
_LONGEST = 256
"""Bytes of a bound that are looked at: what follows hardly narrows a range."""


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
