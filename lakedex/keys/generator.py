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

A value of a partition column must not lead to a folder outside of its own level: empty names, `.`
and `..`, hidden names (`.hoodie`), control characters and backslashes are refused. A slash in a
value that is not url-encoded makes two folders of it, as in Hudi, where a reader can distinguish
them from two columns: in hive style, and where there is only one column. Elsewhere it is refused.
The slashes of a date pattern are intended levels, and slash-separated dates write `2026-01-05` as
`2026/01/05`. The JVM takes a colon in the first folder of a path for the end of a scheme, and Hudi
could not read the table any more.

In record keys and folder names a value is written as Java's text of the Avro value:

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

import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakedex.config import TableConfig, TableType
from lakedex.config.keys import (
    CONSISTENT_LOGICAL_TIMESTAMP,
    DROP_PARTITION_COLUMNS,
    NEW_PARTITION_FIELDS,
    POPULATE_META_FIELDS,
)
from lakedex.config.new_layout import NewLayout, check_slash_dates
from lakedex.config.table_config import (
    KeyGeneratorType,
    inferred_key_generator,
    parse_key_generator,
)
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.expr.temporal.patterns import iso_date_text
from lakedex.expr.temporal.zones import local_time
from lakedex.keys.partition_path import (
    DEFAULT_PARTITION,
    by_distinct,
    escape_path_value,
    with_hashed_folders,
    with_roots,
)
from lakedex.keys.timebased import TimeFormat
from lakedex.schema.conversions import java_number_text
from lakedex.schema.field_paths import type_at, values_at

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


def type_of(schema: pa.Schema, name: str, *, role: str) -> pa.DataType:
    """The type of a column or of a field inside one; `role` says what it is for.

    Example:
        >>> schema = pa.schema([("s", pa.struct([("id", pa.int32())]))])
        >>> str(type_of(schema, "s.id", role="record key"))
        'int32'

    Raises:
        InvalidInput: there is no such column.
    """
    found = type_at(name, schema)
    if found is None:
        columns = ", ".join(schema.names[:20])
        raise InvalidInput(f"there is no {role} column {name!r}; the columns are {columns}")
    return found


def values_of(rows: pa.Table, name: str, *, role: str) -> pa.Array:
    """The values of a column, or of a field inside one, as one array.

    Raises:
        InvalidInput: the rows have no such column.
    """
    type_of(rows.schema, name, role=role)
    return _whole(values_at(name, rows))


def with_values(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    """The rows with other values in a column, or in a field inside one.

    Example:
        >>> rows = pa.table({"s": [{"id": 1, "city": "rio"}, None]})
        >>> with_values(rows, "s.city", pa.array(["oslo", None]))["s"].to_pylist()
        [{'id': 1, 'city': 'oslo'}, None]
    """
    first, *rest = [name] if rows.schema.get_field_index(name) >= 0 else name.split(".")
    at = rows.schema.get_field_index(first)
    changed = _with_child(_whole(rows.column(at)), rest, values) if rest else values
    return rows.set_column(at, rows.schema.field(at), changed)


def _with_child(struct: pa.StructArray, path: list[str], values: pa.Array) -> pa.StructArray:
    children = struct.flatten()
    at = struct.type.get_field_index(path[0])
    children[at] = values if len(path) == 1 else _with_child(children[at], path[1:], values)
    is_there = pc.or_(struct.is_valid(), children[at].is_valid())
    return pa.StructArray.from_arrays(children, fields=list(struct.type), mask=pc.invert(is_there))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    plain = column.combine_chunks()
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


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
    """The number of other roots; 0 for the table's own root only."""

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


_MOST_BYTES = 255
_ADVICE = "set hoodie.datasource.write.partitionpath.urlencode=true when creating the table"
_PROBLEMS = (
    (r"[\x00-\x1f\x7f-\x{9f}\\\x{2028}\x{2029}]", "has a control character or a backslash"),
    (r"(?:\A|/)(?:/|\z)", "gives an empty or absolute folder name"),
    (r"(?:\A|/)\.", "gives a folder name that starts with a dot"),
    (r"\A[A-Za-z][A-Za-z0-9+.\-]*:(?:/|\z)", "gives a folder name that looks like a scheme"),
)
_COLON_IN_FIRST = r"\A[^/]*:"
_EMPTY_OR_DOTS = r"(?:\A|/)\.{0,2}(?:/|\z)"
_NAMED_BEHIND_SLASH = r"/[^/]*="


@dataclass(frozen=True, slots=True)
class PartitionLevel:
    """How one column becomes a level of the partition path.

    Example:
        >>> level = PartitionLevel("city", hive_style=True, url_encoded=True)
        >>> level.names(pa.array(["a/b", None])).to_pylist()
        ['city=a%2Fb', 'city=__HIVE_DEFAULT_PARTITION__']
    """

    field: str
    hive_style: bool = False
    url_encoded: bool = False
    time: TimeFormat | None = None
    """Set where the folder is a formatted time, not the value itself."""
    is_first: bool = False
    """Whether the path begins with it."""
    takes_slashes: bool = False
    """Whether a value with slashes may become several folders."""
    slash_dates: bool = False
    """Whether the dashes of a value become slashes."""

    only_in_path: bool = False
    """Whether files leave the column out, so that the path must have its value."""

    def check(self, dtype: pa.DataType) -> None:
        """Refuse a column of a type that gives no folder names.

        Raises:
            InvalidInput: naming the column and its type.
        """
        if self.slash_dates and not (pa.types.is_string(dtype) or pa.types.is_large_string(dtype)):
            raise InvalidInput(
                f"partition column {self.field!r} is {dtype}; slash-separated dates take a text "
                "column, as Hudi 1.2.0 cannot read others"
            )
        if self.only_in_path:
            self._check_told(dtype)
        if self.time is None:
            check_spellable(dtype, self.field)
        else:
            self.time.check(dtype, self.field)

    def _check_told(self, dtype: pa.DataType) -> None:
        """Refuse to leave a column out of files where folder names do not give its values back."""
        problem = None
        if self.time is not None:
            problem = "its folders are formatted times"
        elif "." in self.field:
            problem = "it is a field of a struct"
        elif pa.types.is_timestamp(dtype):
            problem = f"Hudi does not update such a column of type {dtype}"
        if problem is not None:
            raise InvalidInput(
                f"partition column {self.field!r} cannot be left out of the files "
                f"({DROP_PARTITION_COLUMNS}=true): {problem}"
            )

    def names(self, values: pa.Array) -> pa.Array:
        """The folder name of every value.

        Raises:
            InvalidInput: a value whose folder name would not be safe; column and value are named.
        """
        return by_distinct(values, self._names)

    def _names(self, values: pa.Array) -> pa.Array:
        texts = self._texts(values)
        # Harmless after a column's name, and still never intended.
        climbs = pc.is_in(texts, value_set=pa.array([".", ".."]))
        self._refuse(climbs, values, "stands for another folder")
        if self.url_encoded:
            texts = by_distinct(texts, _escaped)
        elif self.time is None:
            texts = self._with_slashes(texts, values)
        if self.hive_style:
            texts = pc.binary_join_element_wise(f"{self.field}=", texts, "")
        for pattern, problem in _PROBLEMS:
            self._refuse(pc.match_substring_regex(texts, pattern), values, problem)
        if self.is_first:
            problem = f"gives a folder name with a colon, which Hudi cannot read; {_ADVICE}"
            self._refuse(pc.match_substring_regex(texts, _COLON_IN_FIRST), values, problem)
        too_long = pc.greater(pc.binary_length(texts), _MOST_BYTES)
        self._refuse(too_long, values, f"gives a folder name of more than {_MOST_BYTES} bytes")
        return texts

    def _with_slashes(self, texts: pa.Array, values: pa.Array) -> pa.Array:
        """The texts of values that may become several folders, each of them a safe one."""
        has_slash = pc.match_substring(texts, "/")
        if self.slash_dates:
            problem = "has a slash; write slash-separated dates with dashes, as 2026-01-05"
            self._refuse(has_slash, values, problem)
            is_null = pc.equal(texts, DEFAULT_PARTITION)
            texts = pc.if_else(is_null, texts, pc.replace_substring(texts, "-", "/"))
            has_slash = pc.match_substring(texts, "/")
        elif not self.takes_slashes:
            self._refuse(has_slash, values, f"has a slash; {_ADVICE}")
        unsafe = pc.match_substring_regex(texts, _EMPTY_OR_DOTS)
        problem = "gives an empty or climbing folder name"
        self._refuse(pc.and_(has_slash, unsafe), values, problem)
        if self.hive_style:
            named = pc.match_substring_regex(texts, _NAMED_BEHIND_SLASH)
            problem = f"has '=' behind a slash, as the folder of another column has; {_ADVICE}"
            self._refuse(named, values, problem)
        return texts

    def _texts(self, values: pa.Array) -> pa.Array:
        if self.time is not None:
            return self.time.texts(values, self.field)
        texts = value_text(values, self.field)
        if self.only_in_path:
            lost = pc.is_in(texts, value_set=pa.array(["", DEFAULT_PARTITION]))
            problem = "would be read as null, as files leave the column out"
            self._refuse(lost, values, problem)
        texts = pc.fill_null(texts, "")
        return pc.if_else(pc.equal(texts, ""), DEFAULT_PARTITION, texts)

    def _refuse(self, bad: pa.Array, values: pa.Array, problem: str) -> None:
        at = pc.index(bad, value=True).as_py()
        if at >= 0:
            shown = repr(values[at].as_py())[:200]
            raise InvalidInput(f"partition column {self.field!r}: the value {shown} {problem}")


def _escaped(texts: pa.Array) -> pa.Array:
    return pa.array([escape_path_value(text) for text in texts.to_pylist()], pa.string())
