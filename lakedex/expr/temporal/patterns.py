"""Conversion of dates and times to text and back, by Spark's patterns and by its lenient casts.

The casts accept `yyyy`, `yyyy-[m]m`, `yyyy-[m]m-[d]d`, then after a blank or `T` a time
`[h]h[:[m]m[:[s]s[.fraction]]]` with an optional time zone. Text that is not a date becomes null. A
time without a date, and time zones given by region, are rejected.

In a pattern (`yyyy-MM-dd HH:mm:ss`) a run of one letter is a field. Text in single quotes and all
other characters are literal, and two single quotes mean one. Only the fields listed here are
supported; every other letter is rejected by name, because the result might differ from Spark's.

Times are formatted field by field, one string column each, which are joined. Names are English.
Years follow Java's rule: `yyyy` pads to four digits and writes a plus sign before years with more
digits and a minus sign before negative ones; `yy` is the year modulo 100.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidDefinition, UnsupportedFeature
from lakedex.expr.arrays import MICROS_PER_DAY, MICROS_PER_SECOND, masked
from lakedex.expr.temporal.zones import LocalTime, days_from_civil, from_local, month_length

_LONGEST_RUN = {
    "y": 6,
    "u": 6,
    "M": 4,
    "L": 4,
    "d": 2,
    "H": 2,
    "h": 2,
    "m": 2,
    "s": 2,
    "S": 9,
    "E": 4,
    "a": 1,
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+|'")
_RESERVED = frozenset("[]{}#")
_SIGNIFICANCE = ("yyyy", "MM", "dd", "HH", "mm", "ss")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_HOUR = 3600 * MICROS_PER_SECOND
_MINUTE = 60 * MICROS_PER_SECOND
BLANKS = "\x00-\x20\x7f"
"""The characters that Spark trims from text before a cast: blanks and control characters."""
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
class Field:
    """One field of a pattern: its letter and the number of repetitions."""

    letter: str
    count: int


@lru_cache(maxsize=256)
def parse_pattern(pattern: str) -> tuple[str | Field, ...]:
    """Split a pattern into literal strings and fields.

    Raises:
        InvalidDefinition: A quote is not closed.
        UnsupportedFeature: A letter or a width is not implemented.

    Example:
        >>> parse_pattern("yyyy'y'")
        (Field(letter='y', count=4), 'y')
    """
    tokens: list[str | Field] = []
    for found in _TOKEN.finditer(pattern):
        text = found.group()
        if text == "'":
            raise InvalidDefinition(
                f"date pattern {pattern!r} has an open quote", position=found.start()
            )
        if text.startswith("'"):
            tokens.append(text[1:-1].replace("''", "'") or "'")
        elif found.group(1):
            tokens.append(_field(text, pattern))
        elif _RESERVED & set(text):
            raise UnsupportedFeature(f"date pattern {pattern!r} with optional or reserved signs")
        else:
            tokens.append(text)
    return tuple(tokens)


def sorts_as_time(pattern: str) -> bool:
    """Whether the formatted strings sort like the times, for the years 0 to 9999.

    True if the fields go from the year downwards without gaps, each of fixed width; the last one
    may be a fraction of a second. `MM-yyyy`, `yy` and `yyyy-dd` do not sort.

    Example:
        >>> sorts_as_time("yyyy-MM-dd"), sorts_as_time("dd.MM.yyyy"), sorts_as_time("yyyy-M")
        (True, False, False)
    """
    try:
        tokens = parse_pattern(pattern)
    except (InvalidDefinition, UnsupportedFeature):
        return False
    fields = [token.letter * token.count for token in tokens if isinstance(token, Field)]
    fields = [field.replace("u", "y").replace("L", "M") for field in fields]
    if len(fields) == len(_SIGNIFICANCE) + 1 and set(fields[-1]) == {"S"}:
        fields = fields[:-1]
    return bool(fields) and tuple(fields) == _SIGNIFICANCE[: len(fields)]


def _field(text: str, pattern: str) -> Field:
    letter = text[0]
    if len(text) > _LONGEST_RUN.get(letter, 0):
        raise UnsupportedFeature(f"field {text[:40]!r} of date pattern {pattern[:80]!r}")
    return Field(letter, len(text))


def format_time(time: LocalTime, pattern: str) -> pa.Array:
    """Format times as strings, null for rows without a time.

    Example:
        >>> from lakedex.expr.temporal.zones import local_time
        >>> day = local_time(pa.array([0], pa.date32()), "UTC")
        >>> format_time(day, "EEE d MMM yyyy, hh:mm a").to_pylist()
        ['Thu 1 Jan 1970, 12:00 AM']
    """
    pieces = [_piece(token, time) for token in parse_pattern(pattern)]
    if not any(isinstance(piece, pa.Array) for piece in pieces):
        text = "".join(piece.as_py() for piece in pieces)
        joined = pa.repeat(pa.scalar(text), len(time.micros))
    else:
        joined = pc.binary_join_element_wise(*pieces, "")
    return masked(joined, time.valid)


def year_text(years: np.ndarray, width: int = 4) -> pa.Array:
    """Format years like `yyyy`.

    Example:
        >>> year_text(np.array([5, 12345, -3])).to_pylist()
        ['0005', '+12345', '-0003']
    """
    digits = padded(np.abs(years), width)
    if (years >= 0).all() and (years < 10**width).all():
        return digits
    signed = pc.binary_join_element_wise("-", digits, "")
    plus = pc.binary_join_element_wise("+", digits, "")
    large = width >= 4
    return pc.case_when(
        pc.make_struct(pa.array(years < 0), pa.array((years >= 10**width) & large)),
        signed,
        plus,
        digits,
    )


def padded(values: np.ndarray, width: int) -> pa.Array:
    """Format numbers that are not negative as decimal digits, padded with zeros to `width`."""
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), width=width, padding="0")


def _piece(token: str | Field, time: LocalTime) -> pa.Array | pa.Scalar:
    if isinstance(token, str):
        return pa.scalar(token)
    return _FIELDS[token.letter](time, token.count)


def _year(time: LocalTime, count: int) -> pa.Array:
    year, _, _ = time.civil()
    if count == 2:
        return padded(np.abs(year) % 100, 2)
    return year_text(year, count)


def _month(time: LocalTime, count: int) -> pa.Array:
    _, month, _ = time.civil()
    if count <= 2:
        return padded(month, count)
    return _names(_MONTHS, month - 1, 3 if count == 3 else None)


def _weekday(time: LocalTime, count: int) -> pa.Array:
    return _names(_WEEKDAYS, (time.days + 3) % 7, None if count == 4 else 3)


def _names(names: list[str], index: np.ndarray, width: int | None) -> pa.Array:
    return pa.array([name[:width] for name in names]).take(pa.array(index))


def _half_day_hour(time: LocalTime, count: int) -> pa.Array:
    return padded((time.micros_of_day // _HOUR - 1) % 12 + 1, count)


def _half_of_day(time: LocalTime, count: int) -> pa.Array:
    return _names(["AM", "PM"], time.micros_of_day // (12 * _HOUR), None)


def _fraction(time: LocalTime, count: int) -> pa.Array:
    micros = time.micros_of_day % MICROS_PER_SECOND
    nanos = micros * 1_000
    return padded(nanos // 10 ** (9 - count), count)


def _clock(unit: int, modulo: int) -> Callable[[LocalTime, int], pa.Array]:
    return lambda time, count: padded(time.micros_of_day // unit % modulo, count)


_FIELDS: dict[str, Callable[[LocalTime, int], pa.Array]] = {
    "y": _year,
    "u": _year,
    "M": _month,
    "L": _month,
    "d": lambda time, count: padded(time.civil()[2], count),
    "H": _clock(_HOUR, 24),
    "h": _half_day_hour,
    "m": _clock(_MINUTE, 60),
    "s": _clock(MICROS_PER_SECOND, 60),
    "S": _fraction,
    "E": _weekday,
    "a": _half_of_day,
}


def iso_date_text(time: LocalTime) -> pa.Array:
    """Format dates like a cast to string: `yyyy-MM-dd`."""
    return format_time(time, "yyyy-MM-dd")


def iso_timestamp_text(time: LocalTime) -> pa.Array:
    """Format times like a cast to string: with a fraction without trailing zeros, if any."""
    seconds = format_time(time, "yyyy-MM-dd HH:mm:ss")
    micros = time.micros_of_day % MICROS_PER_SECOND
    if not micros.any():
        return seconds
    digits = pc.utf8_rtrim(padded(micros, 6), characters="0")
    with_fraction = pc.binary_join_element_wise(seconds, digits, ".")
    return pc.if_else(pa.array(micros > 0), with_fraction, seconds)


@dataclass(frozen=True, slots=True)
class ParsedTime:
    """Wall-clock microseconds, the rows that were parsed, and the time zone offset, if given."""

    local: np.ndarray
    valid: np.ndarray
    offset: np.ndarray | None = None
    has_offset: np.ndarray | None = None

    def instants(self, zone: str) -> np.ndarray:
        """The instants: by the offset of the text, else in the session time zone."""
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
        UnsupportedFeature: A time of day has no date, or a time zone is given by region.
    """
    refused = pc.match_substring_regex(text, pattern=_REFUSED)
    if pc.any(refused).as_py():
        sample = text.filter(refused)[0].as_py()
        raise UnsupportedFeature(f"cast of the text {sample!r} to a timestamp")
    return _assemble(pc.extract_regex(text, pattern=_CAST_TIME))


def parse_time(text: pa.Array, pattern: str) -> ParsedTime:
    """Parse text by a date pattern of numeric fields.

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
    local = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + _parsed_fraction(fields, names)
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


def _parsed_fraction(fields: pa.StructArray, names: set[str]) -> np.ndarray:
    if "S" not in names:
        return np.zeros(len(fields), np.int64)
    digits = pc.fill_null(pc.struct_field(fields, "S"), "")
    six = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, width=6, padding="0"), 0, 6)
    return _integers(six, 0)
