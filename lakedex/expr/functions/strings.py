"""String functions that return a string, and functions of regular expressions.

Upper and lower case follow the full Unicode mappings, as in Java: a few characters become several
(`ß` to `SS`), and a capital sigma at the end of a word becomes `ς`. Arrow maps single characters
only, so rows with such characters take a slower path.

Patterns must have the same meaning in Java and in RE2 (`java_regex`); others are rejected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.arrays import is_text
from lakedex.expr.functions.spec import Arguments, Constants, FunctionSpec, Order, always
from lakedex.expr.java_regex import LINE_ENDS, Translated, to_re2

_TEXT = always(pa.string())
_MAX_PADDED_BYTES = 128 << 20


def _trimmer(kernel: Callable[..., pa.Array]) -> Callable[[Arguments], pa.Array]:
    def evaluate(arguments: Arguments) -> pa.Array:
        characters = arguments.constant_text(1) if len(arguments) == 2 else " "
        if characters is None:
            return pa.nulls(arguments.length, pa.string())
        text = arguments.text(0)
        return kernel(text, characters=characters) if characters else text

    return evaluate


@lru_cache(maxsize=2)
def _multiple(method: str) -> str:
    """A regular expression for the characters that Arrow and Java map differently."""
    change = getattr(str, method)
    points = range(0x80, sys.maxunicode + 1)
    special = [chr(point) for point in points if len(change(chr(point))) != 1]
    special += ["Σ"] if method == "lower" else []
    return f"[{''.join(special)}]"


def _cased(kernel: Callable[..., pa.Array], method: str) -> Callable[[Arguments], pa.Array]:
    change = getattr(str, method)

    def evaluate(arguments: Arguments) -> pa.Array:
        text = arguments.text(0).cast(pa.string())
        result = kernel(text)
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return result
        special = pc.fill_null(
            pc.match_substring_regex(text, pattern=_multiple(method)), fill_value=False
        )
        if not pc.any(special).as_py():
            return result
        changed = [change(value) for value in text.filter(special).to_pylist()]
        return pc.replace_with_mask(result, special, pa.array(changed, pa.string()))

    return evaluate


def _substring(arguments: Arguments) -> pa.Array:
    text = arguments.text(0)
    start = arguments.constant_int(1)
    count = arguments.constant_int(2) if len(arguments) == 3 else sys.maxsize
    if start is None or count is None:
        return pa.nulls(arguments.length, pa.string())
    first = start - 1 if start > 0 else start
    stop: int | None = first + count
    if first < 0 <= first + count or first + count > 2**31 - 1:
        stop = None
    if count <= 0:
        first, stop = 0, 0
    return pc.utf8_slice_codeunits(text, start=first, stop=stop)


def _substring_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    # Only a cut that starts at the first character preserves the order of strings.
    keeps = is_text(types[0]) and constants[0] is ... and constants[1] in (0, 1)
    return Order() if keeps and all(value is not ... for value in constants[1:]) else None


def _left(arguments: Arguments) -> pa.Array:
    count = arguments.constant_int(1)
    if count is None:
        return pa.nulls(arguments.length, pa.string())
    return pc.utf8_slice_codeunits(arguments.text(0), start=0, stop=max(count, 0))


def _left_order(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    keeps = is_text(types[0]) and constants[0] is ... and constants[1] is not ...
    return Order() if keeps else None


def _right(arguments: Arguments) -> pa.Array:
    count = arguments.constant_int(1)
    if count is None:
        return pa.nulls(arguments.length, pa.string())
    if count <= 0:
        return pc.utf8_slice_codeunits(arguments.text(0), start=0, stop=0)
    return pc.utf8_slice_codeunits(arguments.text(0), start=-count)


def _concat(arguments: Arguments) -> pa.Array:
    pieces = [arguments.text(index).cast(pa.string()) for index in range(len(arguments))]
    return pc.binary_join_element_wise(*pieces, "", null_handling="emit_null")


def _replace(arguments: Arguments) -> pa.Array:
    text = arguments.text(0)
    old = arguments.constant_text(1)
    new = arguments.constant_text(2) if len(arguments) == 3 else ""
    if old is None or new is None:
        return pa.nulls(arguments.length, pa.string())
    return pc.replace_substring(text, pattern=old, replacement=new) if old else text


def _padding(arguments: Arguments) -> tuple[int, str] | None:
    width = arguments.constant_int(1)
    pad = arguments.constant_text(2) if len(arguments) == 3 else " "
    if width is None or pad is None:
        return None
    width = max(width, 0)
    if width * len(pad.encode()) * max(arguments.length, 1) > _MAX_PADDED_BYTES:
        raise InvalidInput(f"padding {arguments.length} texts to {width} characters is too much")
    return width, (pad * (width // len(pad) + 1))[:width] if pad else ""


def _rpad(arguments: Arguments) -> pa.Array:
    padding = _padding(arguments)
    if padding is None:
        return pa.nulls(arguments.length, pa.string())
    longer = pc.binary_join_element_wise(arguments.text(0).cast(pa.string()), padding[1], "")
    return pc.utf8_slice_codeunits(longer, start=0, stop=padding[0])


def _lpad(arguments: Arguments) -> pa.Array:
    padding = _padding(arguments)
    if padding is None:
        return pa.nulls(arguments.length, pa.string())
    width, pad = padding
    text = pc.utf8_slice_codeunits(arguments.text(0).cast(pa.string()), start=0, stop=width)
    missing = pc.fill_null(pc.subtract(width, pc.utf8_length(text)), 0).to_numpy()
    # There is one pad for each length that occurs; rows refer to it.
    lengths, inverse = np.unique(missing, return_inverse=True)
    pads = pa.array([pad[:length] for length in lengths.tolist()], pa.string())
    return pc.binary_join_element_wise(pads.take(pa.array(inverse)), text, "")


def _identity(arguments: Arguments) -> pa.Array:
    return arguments.array(0)


def _length(arguments: Arguments) -> pa.Array:
    array = arguments.array(0)
    if is_text(array.type):
        return pc.utf8_length(array).cast(pa.int32())
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return pc.binary_length(array).cast(pa.int32())
    return pc.utf8_length(arguments.text(0)).cast(pa.int32())


def _keeps(types: Sequence[pa.DataType], constants: Constants) -> Order | None:
    return Order()


_STRINGS = (
    FunctionSpec("upper", (1, 1), _TEXT, _cased(pc.utf8_upper, "upper"), portable=False),
    FunctionSpec("lower", (1, 1), _TEXT, _cased(pc.utf8_lower, "lower"), portable=False),
    FunctionSpec("trim", (1, 2), _TEXT, _trimmer(pc.utf8_trim)),
    FunctionSpec("ltrim", (1, 2), _TEXT, _trimmer(pc.utf8_ltrim)),
    FunctionSpec("rtrim", (1, 2), _TEXT, _trimmer(pc.utf8_rtrim)),
    FunctionSpec("length", (1, 1), always(pa.int32()), _length),
    FunctionSpec("substring", (2, 3), _TEXT, _substring, _substring_order),
    FunctionSpec("left", (2, 2), _TEXT, _left, _left_order),
    FunctionSpec("right", (2, 2), _TEXT, _right),
    FunctionSpec("concat", (1, 255), _TEXT, _concat),
    FunctionSpec("replace", (2, 3), _TEXT, _replace),
    FunctionSpec("lpad", (2, 3), _TEXT, _lpad),
    FunctionSpec("rpad", (2, 3), _TEXT, _rpad),
    FunctionSpec("reverse", (1, 1), _TEXT, lambda given: pc.utf8_reverse(given.text(0))),
    FunctionSpec("identity", (1, 1), lambda types: types[0], _identity, _keeps),
)


SPLIT_ITEM = "split[]"
"""`split(text, pattern)[n]`; a name that no SQL text can contain."""
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


_PATTERNS = (
    FunctionSpec("rlike", (2, 2), always(pa.bool_()), _rlike),
    FunctionSpec("regexp_extract", (2, 3), _TEXT, _regexp_extract),
    FunctionSpec("regexp_replace", (3, 3), _TEXT, _regexp_replace),
    FunctionSpec(SPLIT_ITEM, (3, 3), _TEXT, _split_item),
)

FUNCTIONS = (*_STRINGS, *_PATTERNS)
