"""How index keys are built: column stats, bloom filters, secondary keys, record locations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakedex.errors import InvalidInput
from lakedex.index.metadata_table.hashing import file_name_id, name_id
from lakedex.index.metadata_table.partitions import NON_PARTITIONED_KEY, PARTITION_STAT_MARK
from lakedex.schema.field_paths import flat

SECONDARY_SEPARATOR = "$"
SECONDARY_NULL = "\x00"
"""How a secondary key spells SQL null; a NUL inside a value is escaped, so they differ."""
_ODD_BYTES = (b"\\", b"$", b"\0")
_VALUE = r"(?:\\.|[^\\$])*"
"""A value in a secondary key, as a pattern."""


def column_stats_prefix(column: str, partition: str | None = None) -> str:
    """The start of all column-stats keys of a column, or of a column in one partition.

    Example:
        >>> column_stats_prefix("driver", "state=california")
        'AjpJ7N1gBZc=BaMjAAkjWw8='
    """
    if partition is None:
        return name_id(column)
    return name_id(column) + partition_id(partition)


def column_stats_key(column: str, partition: str, file_name: str) -> str:
    """The key of the statistics of one column in one file."""
    return column_stats_prefix(column, partition) + file_name_id(file_name)


def bloom_key(partition: str, file_name: str) -> str:
    """The key of a base file's bloom filter."""
    return partition_id(partition) + file_name_id(file_name)


def partition_id(partition: str) -> str:
    """The base64 hash of a partition path, that of a table without partitions included."""
    return name_id(partition or NON_PARTITIONED_KEY)


def expression_partition_id(partition: str) -> str:
    """What follows the column in the key of a partition's record of an expression index.

    Example:
        >>> name_id("ts") + expression_partition_id("p=p1")
        'oyTjviKHuhI=2CMHrhWVE9w=uQZe3qIrnTg='
    """
    return name_id(PARTITION_STAT_MARK) + partition_id(partition)


def partition_key(path: str) -> str:
    """How the metadata table spells a partition path.

    Example:
        >>> partition_key("city=Oslo"), partition_key("")
        ('city=Oslo', '.')
    """
    return path or NON_PARTITIONED_KEY


def escape_secondary(value: str | None) -> str:
    r"""A secondary value as it stands in a key, without the separator.

    Example:
        >>> escape_secondary("a$b")
        'a\\$b'
        >>> escape_secondary(None) == SECONDARY_NULL
        True
    """
    if value is None:
        return SECONDARY_NULL
    return value.replace("\\", "\\\\").replace("$", "\\$").replace("\x00", "\\\x00")


def secondary_prefix(*values: str | None) -> str:
    """What all keys of one secondary value start with; no key of another value does.

    Example:
        >>> secondary_prefix("rider-A")
        'rider-A$'
        >>> secondary_prefix("austin", "rider-A")
        'austin$rider-A$'
    """
    return "".join(escape_secondary(value) + SECONDARY_SEPARATOR for value in values)


def secondary_values(columns: Sequence[pa.Array]) -> pa.Array:
    r"""The starts of secondary keys, from the values of each column as texts.

    Example:
        >>> secondary_values([pa.array(["a$b", None])]).to_pylist()
        ['a\\$b$', '\x00$']
        >>> secondary_values([pa.array(["a"]), pa.array([""])]).to_pylist()
        ['a$$']
    """
    spelled = [escaped_secondary(texts).fill_null(SECONDARY_NULL) for texts in columns]
    # The empty last part puts the separator behind the last value too.
    return pc.binary_join_element_wise(*spelled, "", SECONDARY_SEPARATOR)


def secondary_keys(columns: Sequence[pa.Array], record_keys: pa.ChunkedArray) -> pa.Array:
    r"""The secondary index keys of rows, from their values as texts and their record keys.

    Example:
        >>> values, keys = pa.array(["a$b", None]), pa.chunked_array([["k1", "k2"]])
        >>> secondary_keys([values], keys).to_pylist()
        ['a\\$b$k1', '\x00$k2']
    """
    joined = pc.binary_join_element_wise(
        secondary_values(columns), escaped_secondary(record_keys), ""
    )
    return flat(joined)


def escaped_secondary(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    r"""Texts as they stand in secondary keys, null where they are null.

    Example:
        >>> escaped_secondary(pa.array(["a$b", "plain", None])).to_pylist()
        ['a\\$b', 'plain', None]
    """
    if not _has_odd_bytes(text):
        return text
    return pc.replace_substring_regex(text, r"([\\$\x00])", r"\\\1")


def _has_odd_bytes(text: pa.Array | pa.ChunkedArray) -> bool:
    """Whether anything has to be escaped; one look at all bytes is much less than a pattern."""
    chunks = text.chunks if isinstance(text, pa.ChunkedArray) else [text]
    for chunk in chunks:
        wide = chunk if pa.types.is_large_string(chunk.type) else chunk.cast(pa.string())
        _, offsets, data = wide.buffers()
        if data is None or not len(wide):
            continue
        width = np.int64 if pa.types.is_large_string(wide.type) else np.int32
        bounds = np.frombuffer(offsets, width)
        start, stop = int(bounds[wide.offset]), int(bounds[wide.offset + len(wide)])
        content = bytes(memoryview(data)[start:stop])
        if any(odd in content for odd in _ODD_BYTES):
            return True
    return False


def record_keys_of_secondary(keys: pa.Array, columns: int = 1) -> pa.Array:
    r"""The record keys behind secondary keys, unescaped: what follows the values of the columns.

    Example:
        >>> record_keys_of_secondary(pa.array(["a\\$b$k\\$1"])).to_pylist()
        ['k$1']
    """
    return _unescaped(pc.struct_field(_parts_of_secondary(keys, columns), "key"))


def values_of_secondary(keys: pa.Array, columns: int = 1) -> list[pa.Array]:
    r"""The values in secondary keys, column by column: each ends at a bare `$`; unescaped.

    Example:
        >>> [values] = values_of_secondary(pa.array(["a\\$b$k1", "\x00$k2", "$k3"]))
        >>> values.to_pylist()
        ['a$b', None, '']
    """
    parts = _parts_of_secondary(keys, columns)
    found = []
    for number in range(columns):
        stored = pc.struct_field(parts, f"value{number}")
        is_null = pc.equal(stored, SECONDARY_NULL)
        found.append(pc.if_else(is_null, pa.scalar(None, pa.string()), _unescaped(stored)))
    return found


def placed_values_of_secondary(keys: pa.Array, columns: int = 1) -> pa.Array:
    r"""What decides on the file groups of secondary keys: their values, as they stand there.

    Null where a text is no secondary key.

    Example:
        >>> placed_values_of_secondary(pa.array(["a\\$b$k1", "k2"])).to_pylist()
        ['a\\$b$', None]
    """
    pattern = rf"(?s)^(?P<value>(?:{_VALUE}\$){{{columns}}})"
    return pc.struct_field(pc.extract_regex(keys, pattern), "value")


def _parts_of_secondary(keys: pa.Array, columns: int) -> pa.Array:
    values = "".join(rf"(?P<value{number}>{_VALUE})\$" for number in range(columns))
    parts = pc.extract_regex(keys, rf"(?s)^{values}(?P<key>.*)$")
    if parts.null_count:
        bad = keys.filter(parts.is_null())[0].as_py()
        raise InvalidInput(f"{bad!r} is no secondary index key: it has too few separators")
    return parts


def _unescaped(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(text, r"(?s)\\(.)", r"\1")


def file_ids(
    high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], index: npt.NDArray[np.int64]
) -> list[str]:
    """File ids from the two halves of their UUID and the number behind it.

    Meant for distinct locations: there are as many as file groups, not as records.

    Example:
        >>> file_ids(np.array([-3028210305608236519]), np.array([-6999689196997566334]),
        ...          np.array([0]))
        ['d5f9a2c5-6d0b-4219-9edc-1bc2e2d22082-0']
    """
    names = []
    for h, l_, number in zip(high.tolist(), low.tolist(), index.tolist(), strict=True):
        text = f"{h & 0xFFFFFFFFFFFFFFFF:016x}{l_ & 0xFFFFFFFFFFFFFFFF:016x}"
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        names.append(uuid if number < 0 else f"{uuid}-{number}")
    return names
