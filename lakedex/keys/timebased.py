"""Partition folders that are formatted times (`hoodie.keygen.timebased.*`).

The column is a number of seconds (`UNIX_TIMESTAMP`), milliseconds, microseconds or another unit
(`SCALAR`), or text in one of the input patterns (`DATE_STRING`, `MIXED`). It is rounded to
milliseconds and written by the output pattern in the output zone. Without an output zone the
input zone counts, then the offset that stands in the text, then UTC (Hudi takes the zone of its
JVM there). As in Hudi null stands for the first unit after 1970-01-01 00:00.

Patterns are Joda's, as far as they mean the same as those of `expr.temporal`: `Y` (year of era) is
`y` for all years that folders may have, `Z` and `ZZ` at the end of an input pattern stand for a
zone offset. Letters that Joda has not, or that mean something else there, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import valid_mask
from lakedex.expr.temporal.patterns import Field, format_time, parse_pattern, parse_time
from lakedex.expr.temporal.zones import LocalTime, civil_from_days, from_local, to_local

_PART = re.compile(r"'[^']*'|[^']+|'")
_NOT_JODA = frozenset("uL")
_ZONE_AT_END = re.compile(r"(?<!Z)ZZ?\Z")
_OFFSET_TEXT = r"(?s)\A(?P<rest>.*?)(?:Z|(?P<sign>[+-])(?P<h>\d{2}):?(?P<m>\d{2}))\z"
_MINUTE_MICROS = 60_000_000
_NANOS_PER_MILLI = 1_000_000
_UNIT_NANOS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": _NANOS_PER_MILLI,
    "SECONDS": 10**9,
    "MINUTES": 60 * 10**9,
    "HOURS": 3600 * 10**9,
    "DAYS": 86_400 * 10**9,
}
_UNIT_OF_TYPE = {
    "UNIX_TIMESTAMP": "SECONDS",
    "EPOCHMILLISECONDS": "MILLISECONDS",
    "EPOCHMICROSECONDS": "MICROSECONDS",
}
_TEXT_TYPES = ("DATE_STRING", "MIXED")
_LAST_MILLIS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
_FIRST_MILLIS = -62_167_219_200_000  # 0000-01-01T00:00:00Z
_MICROS_PER_DAY = 86_400_000_000
_PLAIN_DELIMITERS = {",": ",", ";": ";", "|": "|", r"\|": "|"}


def output_pattern(text: str) -> str:
    """The pattern by which folders are written, in the form that `format_time` takes.

    Example:
        >>> output_pattern("YYYY/MM/dd")
        'yyyy/MM/dd'

    Raises:
        UnsupportedFeature: for fields that are not implemented.
        InvalidInput: for a pattern without any field.
    """
    pattern = _plain(text)
    if not any(isinstance(token, Field) for token in parse_pattern(pattern)):
        raise InvalidInput(f"the date pattern {text[:80]!r} has no field")
    return pattern


@dataclass(frozen=True, slots=True)
class DatePattern:
    """One input pattern; `has_offset` says that a zone offset ends the text."""

    text: str
    pattern: str
    has_offset: bool

    @classmethod
    def parse(cls, text: str) -> DatePattern:
        """Take a Joda pattern apart.

        Raises:
            UnsupportedFeature: for fields that are not implemented.
        """
        has_offset = _ends_in_zone(text)
        pattern = _plain(_ZONE_AT_END.sub("", text) if has_offset else text)
        parse_time(pa.array([], pa.string()), pattern)
        return cls(text, pattern, has_offset)

    def read(self, text: pa.Array, zone: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which texts fit, their instants and their own zone offsets, in microseconds."""
        if not self.has_offset:
            parsed = parse_time(text, self.pattern)
            instants = from_local(np.where(parsed.valid, parsed.local, 0), zone)
            return parsed.valid, instants, np.zeros(len(text), np.int64)
        fields = pc.extract_regex(text, pattern=_OFFSET_TEXT)
        ends_in_zone = pc.is_valid(fields).to_numpy(zero_copy_only=False)
        parsed = parse_time(pc.fill_null(pc.struct_field(fields, "rest"), ""), self.pattern)
        offsets = _offsets(fields)
        return parsed.valid & ends_in_zone, parsed.local - offsets, offsets


def _ends_in_zone(text: str) -> bool:
    return text.count("'") % 2 == 0 and _ZONE_AT_END.search(text) is not None


def _plain(text: str) -> str:
    pattern = _PART.sub(lambda part: _plain_part(part.group(), text), text)
    parse_pattern(pattern)
    return pattern


def _plain_part(part: str, pattern: str) -> str:
    """A part between quotes as it is, any other with the letters that `parse_pattern` knows."""
    if part.startswith("'"):
        return part
    wrong = _NOT_JODA & set(part)
    if wrong:
        raise UnsupportedFeature(f"field {min(wrong)!r} of date pattern {pattern[:80]!r}")
    return part.replace("Y", "y")


def _offsets(fields: pa.StructArray) -> np.ndarray:
    def number(name: str) -> np.ndarray:
        digits = pc.fill_null(pc.struct_field(fields, name), "")
        found: np.ndarray = (
            pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy()
        )
        return found

    minutes = number("h") * 60 + number("m")
    back = pc.fill_null(pc.equal(pc.struct_field(fields, "sign"), "-"), fill_value=False)
    signed = np.where(back.to_numpy(zero_copy_only=False), -minutes, minutes)
    return signed.astype(np.int64) * _MINUTE_MICROS


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How one partition column becomes a formatted time.

    Example:
        >>> options = {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd"}
        >>> TimeFormat.of(options).texts(pa.array([1_700_000_000]), "ts").to_pylist()
        ['2023/11/14']
    """

    pattern: str
    unit: str | None
    """The unit of numbers; None when the column is text."""
    inputs: tuple[DatePattern, ...] = ()
    input_zone: str | None = None
    output_zone: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TimeFormat:
        """The format that `hoodie.keygen.timebased.*` options define (names without prefix).

        Raises:
            InvalidInput: an option is missing or wrong.
            UnsupportedFeature: a pattern with fields that are not implemented.
        """
        given = {key: value.strip() for key, value in options.items() if value.strip()}
        kind = _required(given, "timestamp.type").upper()
        unit = _unit(kind, given)
        inputs: tuple[DatePattern, ...] = ()
        if unit is None:
            texts = _patterns(given)
            inputs = tuple(DatePattern.parse(text) for text in texts)
        both = given.get("timezone")
        zones = [both or given.get(key) for key in ("input.timezone", "output.timezone")]
        for zone in zones:
            if zone is not None:
                to_local(np.zeros(1, np.int64), zone)
        pattern = output_pattern(_required(given, "output.dateformat"))
        return cls(pattern, unit, inputs, *zones)

    def check(self, dtype: pa.DataType, column: str) -> None:
        """Refuse a column whose type does not go with the options.

        Raises:
            InvalidInput: naming the column, its type and what would fit.
        """
        number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype)
        if self.unit is None:
            fits, wanted = _is_text(dtype), "a text column for DATE_STRING"
        elif pa.types.is_date(dtype):
            fits, wanted = self.unit == "DAYS", "SCALAR with the unit DAYS for a date column"
        elif pa.types.is_timestamp(dtype):
            fits = self.unit == "MICROSECONDS" and dtype.unit == "us"
            wanted = "EPOCHMICROSECONDS for a timestamp column"
        else:
            fits, wanted = number or pa.types.is_decimal(dtype), "a column of numbers"
        if not fits:
            raise InvalidInput(
                f"partition column {column!r} is {dtype}; time-based folders want {wanted}"
            )

    def texts(self, values: pa.Array, column: str) -> pa.Array:
        """The formatted times of distinct values; never null.

        Raises:
            InvalidInput: a value that is no time, or one outside of the years 0 to 9999.
        """
        self.check(values.type, column)
        if self.unit is None:
            local = self._local_of_text(values, column)
        else:
            local = to_local(self._millis(values, column) * 1_000, self._zone())
        year, _, _ = civil_from_days(local // _MICROS_PER_DAY)
        _refuse((year >= 0) & (year <= 9999), values, column, "is not in the years 0 to 9999")
        return format_time(LocalTime(local, np.ones(len(local), np.bool_)), self.pattern)

    def _zone(self) -> str:
        return self.output_zone or "UTC"

    def _millis(self, values: pa.Array, column: str) -> np.ndarray:
        nanos = _UNIT_NANOS[self.unit or ""]
        numbers = _whole_numbers(values, column)
        most = min(_LAST_MILLIS * _NANOS_PER_MILLI // nanos, np.iinfo(np.int64).max)
        least = max(_FIRST_MILLIS * _NANOS_PER_MILLI // nanos, np.iinfo(np.int64).min)
        within = (numbers >= least) & (numbers <= most)
        _refuse(within, values, column, "is not in the years 0 to 9999")
        if nanos >= _NANOS_PER_MILLI:
            return numbers * (nanos // _NANOS_PER_MILLI)
        # Java rounds towards zero here.
        step = _NANOS_PER_MILLI // nanos
        millis: np.ndarray = np.where(numbers < 0, -(-numbers // step), numbers // step)
        return millis

    def _local_of_text(self, values: pa.Array, column: str) -> np.ndarray:
        text = pc.fill_null(values.cast(pa.string()), "")
        absent = ~valid_mask(values)
        micros = np.zeros(len(text), np.int64)
        offsets = np.zeros(len(text), np.int64)
        open_rows = ~absent
        for pattern in self.inputs:
            found, instants, own_offsets = pattern.read(text, self.input_zone or "UTC")
            take = open_rows & found
            micros[take], offsets[take] = instants[take], own_offsets[take]
            open_rows &= ~found
        wanted = " or ".join(pattern.text for pattern in self.inputs)
        _refuse(~open_rows, values, column, f"is no date in the form {wanted}")
        micros[absent] = 1_000
        millis = micros // 1_000 * 1_000
        zone = self.output_zone or self.input_zone
        return to_local(millis, zone) if zone else millis + offsets


def _whole_numbers(values: pa.Array, column: str) -> np.ndarray:
    """The values as whole numbers, cut off towards zero; null is 1."""
    dtype = values.type
    if pa.types.is_date(dtype):
        values = values.cast(pa.date32()).view(pa.int32())
    elif pa.types.is_timestamp(dtype):
        values = values.view(pa.int64())
    elif pa.types.is_floating(dtype):
        finite = pc.fill_null(pc.is_finite(values), fill_value=True)
        mask = finite.to_numpy(zero_copy_only=False)
        _refuse(mask, values, column, "is no time")
        values = pc.trunc(values)
    elif pa.types.is_decimal(dtype):
        values = pc.trunc(values)
    try:
        numbers: np.ndarray = pc.fill_null(values.cast(pa.int64()), 1).to_numpy()
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"partition column {column!r} holds a number too large: {error}"
        ) from None
    return numbers


def _refuse(good: np.ndarray, values: pa.Array, column: str, problem: str) -> None:
    if not good.all():
        value = values[int(np.argmin(good))].as_py()
        raise InvalidInput(f"partition column {column!r}: {value!r} {problem}")


def _required(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise InvalidInput(f"time-based partitions need the option hoodie.keygen.timebased.{name}")
    return given[name]


def _unit(kind: str, given: Mapping[str, str]) -> str | None:
    if kind in _TEXT_TYPES:
        return None
    if kind in _UNIT_OF_TYPE:
        return _UNIT_OF_TYPE[kind]
    if kind != "SCALAR":
        known = ", ".join([*_UNIT_OF_TYPE, *_TEXT_TYPES, "SCALAR"])
        raise InvalidInput(f"no timestamp.type is called {kind[:80]!r}; there are {known}")
    unit = given.get("timestamp.scalar.time.unit", "SECONDS").upper()
    if unit not in _UNIT_NANOS:
        known = ", ".join(_UNIT_NANOS)
        raise InvalidInput(f"no time unit is called {unit[:80]!r}; there are {known}")
    return unit


def _patterns(given: Mapping[str, str]) -> list[str]:
    delimiter = given.get("input.dateformat.list.delimiter.regex", ",")
    if delimiter not in _PLAIN_DELIMITERS:
        raise UnsupportedFeature(f"the delimiter {delimiter[:40]!r} between input date formats")
    text = _required(given, "input.dateformat")
    return [part.strip() for part in text.split(_PLAIN_DELIMITERS[delimiter]) if part.strip()]


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or dtype == pa.string_view()
