"""Column values as the keys of a secondary index spell them: the text of what Spark stores.

    text            itself
    whole numbers   decimal digits                      -7
    date            days since 1970-01-01               19724
    timestamp       microseconds since then             1704153600000000
    float, double   Java's text of the number           1.0E10

These are the types that Hudi indexes. The others are encoded by lakedex alone:

    decimal         all digits of its scale             1.50
    boolean         true, false
    binary          two hexadecimal digits a byte       00ff

Java before 19 prints some floats with more digits than are needed, so that one value may have two
texts. Such an index is kept up to date, but not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lakedex.errors import InvalidInput
from lakedex.expr.temporal.zones import timestamp_micros
from lakedex.schema.conversions import java_number_text

_HEX_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_Encoder = Callable[[pa.Array], pa.Array]


def encoded(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The values as texts, null where they are null.

    Example:
        >>> encoded(pa.array([7, None])).to_pylist()
        ['7', None]
        >>> encoded(pa.array([b"a", None, b""])).to_pylist()
        ['61', None, '']

    Raises:
        InvalidInput: values of that type cannot be indexed.
    """
    whole = values
    if isinstance(values, pa.ChunkedArray):
        whole = values.combine_chunks()
    encoder = _encoder(whole.type)
    if encoder is None:
        raise InvalidInput(f"values of type {whole.type} cannot be encoded in a secondary index")
    return encoder(whole)


def is_indexable(data_type: pa.DataType) -> bool:
    """Whether a column of that type can have a secondary index.

    Example:
        >>> is_indexable(pa.int64()), is_indexable(pa.list_(pa.int64()))
        (True, False)
    """
    return _encoder(data_type) is not None


def is_certain(data_type: pa.DataType) -> bool:
    """Whether equal values have one text, whichever engine wrote them."""
    return is_indexable(data_type) and not pa.types.is_floating(data_type)


def encoded_literals(values: Sequence[object], data_type: pa.DataType) -> list[str | None] | None:
    """Constants of a predicate as the index spells them; None when one does not fit the type.

    Example:
        >>> encoded_literals([1, None], pa.int32())
        ['1', None]
        >>> encoded_literals(["x"], pa.int32()) is None
        True
    """
    try:
        array = pa.array(values, data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    texts: list[str | None] = encoded(array).to_pylist()
    return texts


def is_ordered(data_type: pa.DataType) -> bool:
    """Whether the values of a range can be found by their texts.

    Texts compare as the bytes that they are stored as, and so do hexadecimal digits. Whole numbers,
    days and microseconds are in order among texts of one length. Decimals are left out: their
    texts may have exponents.

    Example:
        >>> is_ordered(pa.string()), is_ordered(pa.date32()), is_ordered(pa.decimal128(4, 2))
        (True, True, False)
    """
    return _is_text(data_type) or _is_binary(data_type) or is_counted(data_type)


def is_counted(data_type: pa.DataType) -> bool:
    """Whether the texts are whole numbers, without exception."""
    return (
        pa.types.is_signed_integer(data_type)
        or pa.types.is_date32(data_type)
        or (pa.types.is_timestamp(data_type) and data_type.unit == "us")
    )


def values_of_texts(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    r"""Values from their texts, for types that are ordered.

    Example:
        >>> values_of_texts(pa.array(["1", None]), pa.date32()).to_pylist()
        [datetime.date(1970, 1, 2), None]
        >>> values_of_texts(pa.array(["61ff", ""]), pa.binary()).to_pylist()
        [b'a\xff', b'']
    """
    if _is_binary(data_type):
        return _bytes_of_digits(texts).cast(data_type)
    if not is_counted(data_type):
        return texts.cast(data_type)
    whole = pa.int32() if pa.types.is_date32(data_type) else pa.int64()
    return texts.cast(whole).cast(data_type)


def _encoder(data_type: pa.DataType) -> _Encoder | None:
    return next((encoder for test, encoder in _ENCODERS if test(data_type)), None)


def _plain(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _days(values: pa.Array) -> pa.Array:
    return values.cast(pa.date32()).cast(pa.int32()).cast(pa.string())


def _micros(values: pa.Array) -> pa.Array:
    missing = np.asarray(values.is_null())
    return pa.array(timestamp_micros(values), pa.int64(), mask=missing).cast(pa.string())


def _hexadecimal(values: pa.Array) -> pa.Array:
    """Twice as many characters as bytes, made for the whole column at once."""
    wide = values.cast(pa.binary()).cast(pa.large_binary())
    count = len(wide)
    offsets = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + count + 1]
    data = np.frombuffer(wide.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    text = _HEX_DIGITS[data].tobytes()
    starts = pa.py_buffer(((offsets - offsets[0]) * 2).tobytes())
    whole = pa.Array.from_buffers(pa.large_string(), count, [None, starts, pa.py_buffer(text)])
    missing = pa.array(np.asarray(wide.is_null()))
    empty = pa.nulls(count, pa.large_string())
    return pa.compute.if_else(missing, empty, whole).cast(pa.string())


def _bytes_of_digits(texts: pa.Array) -> pa.Array:
    """The other way round."""
    wide = texts.fill_null("").cast(pa.large_string())
    offsets = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    digits = np.frombuffer(wide.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    halves = np.where(digits > ord("9"), digits - (ord("a") - 10), digits - ord("0"))
    data = pa.py_buffer((halves[::2] << 4 | halves[1::2]).astype(np.uint8).tobytes())
    starts = pa.py_buffer(((offsets - offsets[0]) // 2).tobytes())
    whole = pa.Array.from_buffers(pa.large_binary(), len(wide), [None, starts, data])
    return pa.compute.if_else(texts.is_null(), pa.scalar(None, whole.type), whole)


def _is_text(data_type: pa.DataType) -> bool:
    return pa.types.is_string(data_type) or pa.types.is_large_string(data_type)


def _is_binary(data_type: pa.DataType) -> bool:
    return (
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
    )


_ENCODERS: tuple[tuple[Callable[[pa.DataType], bool], _Encoder], ...] = (
    (_is_text, _plain),
    (pa.types.is_signed_integer, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_decimal, _plain),
    (pa.types.is_date, _days),
    (pa.types.is_timestamp, _micros),
    (lambda kind: kind in (pa.float32(), pa.float64()), java_number_text),
    (_is_binary, _hexadecimal),
)
