"""Text to dates and times: Spark's lenient casts, and parsing by a pattern.

The casts take `yyyy`, `yyyy-[m]m`, `yyyy-[m]m-[d]d`, then after a blank or `T` a time
`[h]h[:[m]m[:[s]s[.fraction]]]` with an optional zone. Text that is no date gives null; a time
without a date, and zones given by region, are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import UnsupportedFeature
from lakedex.expr.arrays import MICROS_PER_DAY, MICROS_PER_SECOND
from lakedex.expr.temporal.civil import days_from_civil, month_length
from lakedex.expr.temporal.pattern import Field, parse_pattern
from lakedex.expr.temporal.zones import from_local

BLANKS = "\x00-\x20\x7f"
"""What Spark trims around text that is cast: blanks and control characters."""

_DATE = r"(?P<sign>[+-]?)(?P<y>\d{4,6})(?:-(?P<M>\d{1,2})(?:-(?P<d>\d{1,2})"
_CAST_DATE = rf"(?s)\A[{BLANKS}]*{_DATE}(?:[ T].*)?)?)?[{BLANKS}]*\z"
_TIME = r"(?P<H>\d{1,2})(?::(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<S>\d{0,9}))?)?)?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|(?:UTC|GMT)?(?P<zs>[+-])(?P<zh>\d{1,2})(?::?(?P<zm>\d{1,2}))?))?"
_CAST_TIME = rf"\A[{BLANKS}]*{_DATE}(?:[ T]{_TIME}{_ZONE})?)?)?[{BLANKS}]*\z"
_REFUSED = (
    rf"\A[{BLANKS}]*(?:T?\d{{1,2}}:|[+-]?\d{{4,6}}-\d{{1,2}}-\d{{1,2}}[ T]\d[\d:.]*"
    r" ?(?:[A-Za-z]+/[A-Za-z]|[+-]\d+:\d+:))"
)
_FIELD_REGEX = {
    "yyyy": r"(?P<y>\d{4})",
    "uuuu": r"(?P<y>\d{4})",
    "MM": r"(?P<M>\d{2})",
    "M": r"(?P<M>\d{1,2})",
    "dd": r"(?P<d>\d{2})",
    "d": r"(?P<d>\d{1,2})",
    "HH": r"(?P<H>\d{2})",
    "H": r"(?P<H>\d{1,2})",
    "mm": r"(?P<m>\d{2})",
    "m": r"(?P<m>\d{1,2})",
    "ss": r"(?P<s>\d{2})",
    "s": r"(?P<s>\d{1,2})",
}


@dataclass(frozen=True, slots=True)
class ParsedTime:
    """Wall-clock microseconds, which rows parsed, and the zone offset where the text had one."""

    local: np.ndarray
    valid: np.ndarray
    offset: np.ndarray | None = None
    has_offset: np.ndarray | None = None

    def instants(self, zone: str) -> np.ndarray:
        """The instants: by the text's own offset, else in the session zone."""
        instants = from_local(np.where(self.valid, self.local, 0), zone)
        if self.offset is None or self.has_offset is None:
            return instants
        return np.where(self.has_offset, self.local - self.offset, instants)


def cast_to_days(text: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Day numbers and validity of text cast to DATE."""
    parsed = _assemble(pc.extract_regex(text, pattern=_CAST_DATE))
    return parsed.local // MICROS_PER_DAY, parsed.valid


def cast_to_time(text: pa.Array) -> ParsedTime:
    """Text cast to TIMESTAMP.

    Raises:
        UnsupportedFeature: for a time of day without a date, and for zones given by region.
    """
    refused = pc.match_substring_regex(text, pattern=_REFUSED)
    if pc.any(refused).as_py():
        sample = text.filter(refused)[0].as_py()
        raise UnsupportedFeature(f"cast of the text {sample!r} to a timestamp")
    return _assemble(pc.extract_regex(text, pattern=_CAST_TIME))


def parse_time(text: pa.Array, pattern: str) -> ParsedTime:
    """Text read by a date pattern of numeric fields.

    Example:
        >>> parse_time(pa.array(["02.01.1970"]), "dd.MM.yyyy").local.tolist()
        [86400000000]
    """
    pieces = [_token_regex(token, pattern) for token in parse_pattern(pattern)]
    fields = pc.extract_regex(text, pattern=rf"(?s)\A{''.join(pieces)}\z")
    names = {field.name for field in fields.type}
    if "y" not in names:
        raise UnsupportedFeature(f"parsing by the date pattern {pattern!r}, which has no year")
    return _assemble(fields)


def _token_regex(token: str | Field, pattern: str) -> str:
    if isinstance(token, str):
        return "".join(f"\\x{{{ord(character):x}}}" for character in token)
    name = token.letter * token.count
    if token.letter == "S":
        return rf"(?P<S>\d{{{token.count}}})"
    if name not in _FIELD_REGEX:
        raise UnsupportedFeature(f"parsing the field {name!r} of date pattern {pattern!r}")
    return _FIELD_REGEX[name]


def _assemble(fields: pa.StructArray) -> ParsedTime:
    names = {field.name for field in fields.type}
    valid = pc.is_valid(fields).to_numpy(zero_copy_only=False)

    def number(name: str, default: int) -> np.ndarray:
        if name not in names:
            return np.full(len(fields), default, np.int64)
        text = pc.struct_field(fields, name)
        return _integers(text, default)

    year = number("y", 1970)
    if "sign" in names:
        negative = pc.equal(pc.struct_field(fields, "sign"), "-")
        year = np.where(pc.fill_null(negative, fill_value=False), -year, year)
    month, day = number("M", 1), number("d", 1)
    hour, minute, second = number("H", 0), number("m", 0), number("s", 0)
    valid &= (month >= 1) & (month <= 12) & (hour < 24) & (minute < 60) & (second < 60)
    safe_month = np.where(valid, month, 1)
    valid &= (day >= 1) & (day <= month_length(year, safe_month))
    days = days_from_civil(year, safe_month, day)
    seconds = hour * 3600 + minute * 60 + second
    local = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + _fraction(fields, names)
    if "zone" not in names:
        return ParsedTime(local, valid)
    named = pc.greater(pc.utf8_length(pc.struct_field(fields, "zone")), 0)
    has_offset = pc.fill_null(named, fill_value=False)
    back = pc.fill_null(pc.equal(pc.struct_field(fields, "zs"), "-"), fill_value=False)
    offset = (number("zh", 0) * 3600 + number("zm", 0) * 60) * MICROS_PER_SECOND
    valid &= (np.abs(offset) <= 18 * 3600 * MICROS_PER_SECOND) & (number("zm", 0) < 60)
    signed = np.where(back.to_numpy(zero_copy_only=False), -offset, offset)
    return ParsedTime(local, valid, signed, has_offset.to_numpy(zero_copy_only=False))


def _integers(text: pa.Array, default: int) -> np.ndarray:
    present = pc.greater(pc.utf8_length(text), 0)
    filled = pc.if_else(pc.fill_null(present, fill_value=False), text, str(default))
    numbers: np.ndarray = filled.cast(pa.int64()).to_numpy()
    return numbers


def _fraction(fields: pa.StructArray, names: set[str]) -> np.ndarray:
    if "S" not in names:
        return np.zeros(len(fields), np.int64)
    digits = pc.fill_null(pc.struct_field(fields, "S"), "")
    six = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, width=6, padding="0"), 0, 6)
    return _integers(six, 0)
