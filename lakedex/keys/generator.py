"""The key generator of a table: record key and partition path of every row, by Arrow kernels.

SIMPLE, TIMESTAMP   one key column, its value as text; one partition column
COMPLEX             `a:1,b:x`, also for one key column: `id:k`; any number of levels
NON_PARTITION       as SIMPLE for one key column, as COMPLEX for several; no levels
CUSTOM              keys as NON_PARTITION; each partition column is `SIMPLE` or `TIMESTAMP`

Values are not escaped, so a composite key is built from values, never taken apart; null is
`__null__` and the empty string `__empty__`.

In tables without key columns every new row gets a key of its own, as in Hudi: `<when>_<part of the
input>_<random>_<number>`. Only the number differs within a part, so that keys compress to almost
nothing. Later writes name records by these keys, in the meta column.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig, TableType
from lakedex.config.keygen_type import (
    KeyGeneratorType,
    inferred_key_generator,
    parse_key_generator,
)
from lakedex.config.keys import (
    CONSISTENT_LOGICAL_TIMESTAMP,
    DROP_PARTITION_COLUMNS,
    NEW_PARTITION_FIELDS,
    POPULATE_META_FIELDS,
)
from lakedex.config.new_layout import NewLayout, check_slash_dates
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.keys.columns import type_of, values_of
from lakedex.keys.partition_level import PartitionLevel
from lakedex.keys.partition_path import with_hashed_folders, with_roots
from lakedex.keys.timebased import TimeFormat
from lakedex.keys.value_text import check_spellable, value_text

NULL_TEXT = "__null__"
EMPTY_TEXT = "__empty__"
_KEY_ROLE, _PARTITION_ROLE = "record key", "partition"
_ONE_KEY = (KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP)


def key_stamp(part: int) -> str:
    """What the keys of one part of an input begin with; no other part has the same."""
    now = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")[:-3]
    return f"{now}_{part}_{uuid.uuid4().hex[:8]}"


def automatic_keys(stamp: str, first: int, count: int) -> pa.Array:
    """Keys of some rows, numbered from `first`.

    Example:
        >>> automatic_keys("20260102030405678_0_abcd1234", 5, 2).to_pylist()
        ['20260102030405678_0_abcd1234_5', '20260102030405678_0_abcd1234_6']
    """
    numbers = pa.array(range(first, first + count), pa.int64()).cast(pa.string())
    return pc.binary_join_element_wise(stamp, numbers, "_")


@dataclass(frozen=True, slots=True)
class RecordKeyFormat:
    """The key fields of a table and whether their names stand in the key."""

    fields: tuple[str, ...]
    names_fields: bool | None = None
    """None where a one-field key may or may not carry its field's name."""

    def keys(self, rows: Iterable[tuple[object, ...]]) -> list[str] | None:
        """The record keys that rows with these key values may have; None if that is not sure.

        Example:
            >>> RecordKeyFormat(("a", "b"), True).keys([(1, "x"), (2, None)])
            ['a:1,b:x', 'a:2,b:__null__']
            >>> RecordKeyFormat(("a",), None).keys([(1,)])
            ['1', 'a:1']
        """
        if self.names_fields is False and len(self.fields) == 1:
            return _plain_keys([value for (value,) in rows])
        found: list[str] = []
        for row in rows:
            texts = [_text(value) for value in row]
            if any(text is None for text in texts):
                return None
            named = ",".join(
                f"{name}:{text}" for name, text in zip(self.fields, texts, strict=True)
            )
            if self.names_fields is not True and len(texts) == 1:
                if row[0] is None:
                    continue
                found.append(str(texts[0]) if row[0] != "" else "")
            if self.names_fields is not False:
                found.append(named)
        return found

    @staticmethod
    def can_spell(data_type: pa.DataType) -> bool:
        """Whether the text of every value of the type in a key is known for sure."""
        return bool(
            pa.types.is_string(data_type)
            or pa.types.is_large_string(data_type)
            or pa.types.is_integer(data_type)
            or pa.types.is_boolean(data_type)
        )


def _plain_keys(values: list[object]) -> list[str] | None:
    """Keys of one column, of which there may be very many."""
    found = [value if isinstance(value, str) else _text(value) for value in values]
    if any(text is None for text in found):
        return None
    return [str(text) for value, text in zip(values, found, strict=True) if value is not None]


def _text(value: object) -> str | None:
    if value is None:
        return NULL_TEXT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value or EMPTY_TEXT
    return None


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """Spells the keys and partition paths of one table; it travels to workers as it is.

    Example:
        >>> generator = KeyGenerator(("a", "b"), named=True, levels=(PartitionLevel("p"),))
        >>> rows = pa.table({"a": [1, 2], "b": ["x", None], "p": ["eu", "us"]})
        >>> generator.keys(rows).to_pylist(), generator.partition_paths(rows).to_pylist()
        (['a:1,b:x', 'a:2,b:__null__'], ['eu', 'us'])
    """

    key_fields: tuple[str, ...]
    named: bool
    """Whether the names of the key columns stand in the key."""
    levels: tuple[PartitionLevel, ...] = ()
    hashed_folders: int = 0
    """Of how many folders one stands before each path; 0 for none."""
    roots: int = 0
    """Below how many other roots paths lie; 0 for the table's own."""

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> KeyGenerator:
        """The key generator of a table whose rows have this schema.

        Raises:
            InvalidInput: a column is missing, or its type cannot be spelled.
            UnsupportedFeature: the table has a generator of another kind.
        """
        fields = config.record_key_fields
        if config.raw.get(CONSISTENT_LOGICAL_TIMESTAMP, "").strip().lower() == "true":
            raise UnsupportedFeature(f"{CONSISTENT_LOGICAL_TIMESTAMP}=true")
        check_slash_dates(config)
        kind = key_generator_type(config)
        if kind in _ONE_KEY and len(fields) > 1:
            wanted = "CUSTOM" if kind is KeyGeneratorType.TIMESTAMP else "COMPLEX"
            raise InvalidInput(
                f"key generator {kind.value} takes one record key column, not "
                f"{', '.join(fields)}; {wanted} takes several"
            )
        new = NewLayout.of(config)
        levels = _levels(new.applied(config), kind)
        if config.hive_style_partitioning or len(config.partition_fields) == 1:
            levels = tuple(replace(level, takes_slashes=True) for level in levels)
        if levels and not (new.hashed_folders or new.roots):
            levels = (replace(levels[0], is_first=True), *levels[1:])
        for name in fields:
            check_spellable(_spelled_type(schema, name, _KEY_ROLE), name)
        for level in levels:
            level.check(_spelled_type(schema, level.field, _PARTITION_ROLE))
        if config.dropped_columns != tuple(level.field for level in levels if level.only_in_path):
            raise UnsupportedFeature(
                f"{DROP_PARTITION_COLUMNS}=true with {NEW_PARTITION_FIELDS}, as newer folders do "
                "not tell all columns; that"
            )
        named = kind is KeyGeneratorType.COMPLEX or len(fields) > 1
        return cls(fields, named, levels, new.hashed_folders, new.roots)

    @property
    def is_automatic(self) -> bool:
        """Whether the table has no key columns: new rows get keys of their own."""
        return not self.key_fields

    @property
    def takes_slashes(self) -> bool:
        """Whether a value may become several folders, so that paths differ in their depth."""
        return any(
            level.takes_slashes and not level.url_encoded and level.time is None
            for level in self.levels
        )

    @property
    def columns(self) -> frozenset[str]:
        """The columns that keys and partition paths are made of."""
        fields = (*self.key_fields, *(level.field for level in self.levels))
        return frozenset(name.partition(".")[0] for name in fields)

    def for_keys_only(self, given: Collection[str]) -> KeyGenerator:
        """Where a key says enough: the same, without partitions if their columns are not given."""
        if all(level.field.partition(".")[0] in given for level in self.levels):
            return self
        return replace(self, levels=())

    def keys(self, rows: pa.Table) -> pa.Array:
        """The record key of every row.

        Raises:
            InvalidInput: a key column is missing, or a key is null or empty; the row is named.
        """
        texts = [
            value_text(values_of(rows, name, role=_KEY_ROLE), name) for name in self.key_fields
        ]
        absent = [pc.fill_null(pc.equal(text, ""), fill_value=True) for text in texts]
        nothing = absent[0]
        for mask in absent[1:]:
            nothing = pc.and_(nothing, mask)
        at = pc.index(nothing, value=True).as_py()
        if at >= 0:
            what = "null" if texts[0][at].as_py() is None else "empty"
            names = ", ".join(self.key_fields)
            raise InvalidInput(f"record key column {names}: the value in row {at} is {what}")
        return _named(self.key_fields, texts) if self.named else texts[0]

    def partition_paths(self, rows: pa.Table) -> pa.Array:
        """The partition path of every row; the empty string in a table without partitions.

        Raises:
            InvalidInput: a partition column is missing, or a value gives no safe folder name.
        """
        if not self.levels:
            return pa.repeat(pa.scalar(""), rows.num_rows)
        names = [
            level.names(values_of(rows, level.field, role=_PARTITION_ROLE)) for level in self.levels
        ]
        paths = names[0] if len(names) == 1 else pc.binary_join_element_wise(*names, "/")
        if self.hashed_folders:
            paths = with_hashed_folders(paths, self.hashed_folders)
        return with_roots(paths, self.roots) if self.roots else paths


def check_virtual_keys(config: TableConfig, schema: pa.Schema) -> None:
    """Refuse keys that Hudi's readers compute otherwise than its writers spell them.

    Where log files are merged without stored keys (`hoodie.populate.meta.fields=false`), a Hudi
    reader takes the plain value of a single key column: not `id:1`, which generator COMPLEX writes
    into delete blocks, and not the text that generators make of dates or decimals.

    Raises:
        UnsupportedFeature: naming the key generator or the column.
    """
    if config.populate_meta_fields or config.table_type is not TableType.MERGE_ON_READ:
        return
    fields = config.record_key_fields
    if len(fields) == 1 and key_generator_type(config) is KeyGeneratorType.COMPLEX:
        raise UnsupportedFeature(
            f"writing a merge-on-read table with {POPULATE_META_FIELDS}=false and key generator "
            "COMPLEX for one key column"
        )
    for name in fields:
        kind = _spelled_type(schema, name, _KEY_ROLE)
        if not RecordKeyFormat.can_spell(kind):
            raise UnsupportedFeature(
                f"writing a merge-on-read table with {POPULATE_META_FIELDS}=false and a record key "
                f"of type {kind} (column {name})"
            )


def key_generator_type(config: TableConfig) -> KeyGeneratorType:
    """The key generator that a table's properties name, else the one that fits its fields.

    Raises:
        UnsupportedFeature: the table names a generator that lakedex does not have.
    """
    named = config.keygen_type or config.keygen_class
    if named is not None:
        return parse_key_generator(named)
    custom = any(kind != "simple" for kind in config.partition_kinds)
    return inferred_key_generator(config.record_key_fields, config.partition_fields, custom=custom)


def _levels(config: TableConfig, kind: KeyGeneratorType) -> tuple[PartitionLevel, ...]:
    fields = config.partition_fields
    if kind is KeyGeneratorType.NON_PARTITION:
        if fields:
            raise InvalidInput(
                f"key generator NON_PARTITION has no columns, not {', '.join(fields)}"
            )
        return ()
    if kind in _ONE_KEY and len(fields) != 1:
        raise InvalidInput(
            f"key generator {kind.value} takes one partition column, not {len(fields)}"
        )
    kinds = config.partition_kinds if kind is KeyGeneratorType.CUSTOM else ()
    if kind is KeyGeneratorType.TIMESTAMP:
        kinds = ("timestamp",)
    levels = []
    for name, how in zip(fields, kinds or ("simple",) * len(fields), strict=True):
        if how not in ("simple", "timestamp"):
            raise InvalidInput(
                f"partition column {name!r}: {how!r} is neither SIMPLE nor TIMESTAMP"
            )
        time = TimeFormat.of(config.timebased_keygen) if how == "timestamp" else None
        levels.append(
            PartitionLevel(
                name,
                config.hive_style_partitioning,
                config.url_encode_partitioning,
                time,
                slash_dates=config.slash_separated_dates,
                only_in_path=config.drop_partition_columns,
            )
        )
    return tuple(levels)


def _spelled_type(schema: pa.Schema, name: str, role: str) -> pa.DataType:
    dtype = type_of(schema, name, role=role)
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def _named(names: tuple[str, ...], texts: list[pa.Array]) -> pa.Array:
    pieces: list[pa.Array | str] = []
    for number, (name, text) in enumerate(zip(names, texts, strict=True)):
        shown = pc.fill_null(pc.if_else(pc.equal(text, ""), EMPTY_TEXT, text), NULL_TEXT)
        pieces += [f"{',' if number else ''}{name}:", shown]
    return pc.binary_join_element_wise(*pieces, "")
