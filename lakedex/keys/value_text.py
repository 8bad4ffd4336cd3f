"""Column values as they stand in record keys and folder names: Java's text of the Avro value.

    whole numbers   decimal digits                  -7
    boolean         true, false
    text            itself
    date            ISO                             2024-01-02
    timestamp       the stored number               1704153600000000 (microseconds)
    decimal         BigDecimal.toString             1.50
    float, double   Double.toString, where it is sure which digits that gives

Java before 19 prints some doubles with more digits than are needed. Those are refused, because
a key that another engine spells otherwise would be a second record.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.expr.temporal.patterns import iso_date_text
from lakedex.expr.temporal.zones import local_time
from lakedex.schema.conversions import java_number_text

_SURE_DIGITS = {"float": 6, "double": 15}
_SMALLEST_PLAIN, _FIRST_SCIENTIFIC = 1e-3, 1e7
_STORED_UNITS = ("ms", "us")


def value_text(values: pa.Array, column: str) -> pa.Array:
    """The values as strings, null where they are null; `column` is named in errors.

    Example:
        >>> value_text(pa.array([True, None]), "flag").to_pylist()
        ['true', None]
        >>> value_text(pa.array([1.5, 100.0]), "price").to_pylist()
        ['1.5', '100.0']

    Raises:
        InvalidInput: the type cannot be spelled, or a double that Java might spell otherwise.
    """
    return _speller(values.type, column)(values, column)


def check_spellable(dtype: pa.DataType, column: str) -> None:
    """Refuse a column whose values cannot stand in a key or in a folder name.

    Raises:
        InvalidInput: binary, nested and other types.
    """
    _speller(dtype, column)


def _speller(dtype: pa.DataType, column: str) -> Callable[[pa.Array, str], pa.Array]:
    for test, speller in _SPELLERS:
        if test(dtype):
            return speller
    raise InvalidInput(
        f"column {column!r} of type {dtype} cannot be part of a record key or partition path"
    )


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or dtype == pa.string_view()


def _plain(values: pa.Array, column: str) -> pa.Array:
    return values.cast(pa.string())


def _date(values: pa.Array, column: str) -> pa.Array:
    return iso_date_text(local_time(values, "UTC"))


def _timestamp(values: pa.Array, column: str) -> pa.Array:
    return values.view(pa.int64()).cast(pa.string())


def _float(values: pa.Array, column: str) -> pa.Array:
    size = pc.abs(values)
    in_range = pc.or_kleene(
        pc.and_kleene(pc.greater_equal(size, _SMALLEST_PLAIN), pc.less(size, _FIRST_SCIENTIFIC)),
        pc.equal(size, 0.0),
    )
    text = java_number_text(values)
    digits = pc.utf8_trim(pc.replace_substring_regex(text, r"[-.]", ""), "0")
    few = pc.less_equal(pc.utf8_length(digits), _SURE_DIGITS[str(values.type)])
    sure = pc.fill_null(pc.and_kleene(in_range, few), fill_value=True)
    at = pc.index(sure, value=False).as_py()
    if at >= 0:
        raise InvalidInput(
            f"column {column!r}: {values[at].as_py()!r} in row {at} has no text that all engines "
            "agree on; use a text, whole-number or decimal column as key"
        )
    return text


_SPELLERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, str], pa.Array]], ...] = (
    (_is_text, _plain),
    (pa.types.is_signed_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_decimal, _plain),
    (lambda dtype: pa.types.is_timestamp(dtype) and dtype.unit in _STORED_UNITS, _timestamp),
    (pa.types.is_date, _date),
    (lambda dtype: str(dtype) in _SURE_DIGITS, _float),
)
