"""Joda's date patterns, as far as they mean the same as the patterns of `expr.temporal`.

`Y` (year of era) is `y` for all years that folders may have, `Z` and `ZZ` at the end of an input
pattern stand for a zone offset. Letters that Joda has not, or that mean something else there,
are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.temporal.patterns import Field, parse_pattern, parse_time
from lakedex.expr.temporal.zones import from_local

_PART = re.compile(r"'[^']*'|[^']+|'")
_NOT_JODA = frozenset("uL")
_ZONE_AT_END = re.compile(r"(?<!Z)ZZ?\Z")
_OFFSET_TEXT = r"(?s)\A(?P<rest>.*?)(?:Z|(?P<sign>[+-])(?P<h>\d{2}):?(?P<m>\d{2}))\z"
_MINUTE_MICROS = 60_000_000


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
