"""Functions of regular expressions: rlike, regexp_extract, regexp_replace and parts of split.

Patterns must have the same meaning in Java and in RE2 (`java_regex`); others are rejected.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.functions.spec import Arguments, FunctionSpec, always
from lakedex.expr.java_regex import LINE_ENDS, Translated, to_re2

SPLIT_ITEM = "split[]"
"""`split(text, pattern)[n]`; a name that no SQL text can contain."""
_TEXT = always(pa.string())
_WHOLE = "g0"


def _regexp_extract(arguments: Arguments) -> pa.Array:
    pattern = arguments.constant_text(1)
    group = arguments.constant_int(2) if len(arguments) == 3 else 1
    if pattern is None or group is None:
        return pa.nulls(arguments.length, pa.string())
    text = arguments.text(0).cast(pa.string())
    found = _extracting(pattern, group)
    _check_ends(text, found)
    part = pc.struct_field(pc.extract_regex(text, pattern=found.text), f"g{group}")
    # Without a match, and for a group that is not part of it, the result is an empty string.
    return pc.if_else(text.is_valid(), pc.fill_null(part, ""), pa.scalar(None, pa.string()))


@lru_cache(maxsize=64)
def _extracting(pattern: str, group: int) -> Translated:
    found = to_re2(pattern, lambda number: f"(?P<g{number}>" if number == group else "(?:")
    if not 0 <= group <= found.groups:
        raise InvalidInput(f"regexp_extract: {pattern!r} has no group {group}")
    if group in found.repeated:
        raise UnsupportedFeature(f"regexp_extract of a group in a repetition of {pattern!r}")
    if group:
        return found
    text = f"(?P<{_WHOLE}>{found.text})"
    return Translated(text, found.groups, found.may_be_empty, found.asks_for_end, found.repeated)


def _regexp_replace(arguments: Arguments) -> pa.Array:
    pattern, new = arguments.constant_text(1), arguments.constant_text(2)
    if pattern is None or new is None:
        return pa.nulls(arguments.length, pa.string())
    text = arguments.text(0).cast(pa.string())
    found = _dividing(pattern, "regexp_replace")
    _check_ends(text, found)
    return pc.replace_substring_regex(
        text, pattern=found.text, replacement=_replacement(new, found)
    )


def _replacement(text: str, pattern: Translated) -> str:
    """The replacement in RE2's form, from Java's form, in which `$1` is a group."""
    if "\\" in text:
        raise UnsupportedFeature(f"regexp_replace by {text!r} with a backslash")
    first, *rest = text.split("$")
    found = first
    for part in rest:
        digit, after = part[:1], part[1:2]
        if digit not in "123456789" or not digit or after.isdigit():
            raise UnsupportedFeature(f"regexp_replace by {text!r} with that '$'")
        if int(digit) > pattern.groups or int(digit) in pattern.repeated:
            raise UnsupportedFeature(f"regexp_replace by {text!r}, whose group is none or repeats")
        found += f"\\{part}"
    return found


def _split_item(arguments: Arguments) -> pa.Array:
    pattern, place = arguments.constant_text(1), arguments.constant_int(2)
    if pattern is None or place is None:
        return pa.nulls(arguments.length, pa.string())
    if place < 0:
        raise UnsupportedFeature(f"part {place} of split")
    text = arguments.text(0).cast(pa.string())
    found = _dividing(pattern, "split")
    _check_ends(text, found)
    parts = pc.split_pattern_regex(text, pattern=found.text)
    is_there = pc.greater(pc.list_value_length(parts), place)
    if arguments.certain and pc.any(pc.invert(is_there)).as_py():
        raise UnsupportedFeature(f"part {place} of a string that has fewer parts")
    starts = pc.add(parts.offsets[:-1], place)
    return parts.values.take(pc.if_else(is_there, starts, pa.scalar(None, starts.type)))


@lru_cache(maxsize=64)
def _dividing(pattern: str, name: str) -> Translated:
    found = to_re2(pattern)
    if found.may_be_empty:
        raise UnsupportedFeature(f"{name} by {pattern!r}, which matches the empty string,")
    return found


def _check_ends(text: pa.Array, pattern: Translated) -> None:
    """Reject strings of several lines if the pattern contains `$`."""
    if not pattern.asks_for_end:
        return
    if pc.any(pc.match_substring_regex(text, pattern=f"[{LINE_ENDS}]")).as_py():
        raise UnsupportedFeature("a '$' in the pattern for a string of several lines")


def _rlike(arguments: Arguments) -> pa.Array:
    pattern = arguments.constant_text(1)
    if pattern is None:
        return pa.nulls(arguments.length, pa.bool_())
    text = arguments.text(0).cast(pa.string())
    translated = _translated(pattern)
    _check_ends(text, translated)
    return pc.match_substring_regex(text, pattern=translated.text)


@lru_cache(maxsize=64)
def _translated(pattern: str) -> Translated:
    return to_re2(pattern)


FUNCTIONS = (
    FunctionSpec("rlike", (2, 2), always(pa.bool_()), _rlike),
    FunctionSpec("regexp_extract", (2, 3), _TEXT, _regexp_extract),
    FunctionSpec("regexp_replace", (3, 3), _TEXT, _regexp_replace),
    FunctionSpec(SPLIT_ITEM, (3, 3), _TEXT, _split_item),
)
