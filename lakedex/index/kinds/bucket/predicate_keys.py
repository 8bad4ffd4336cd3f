"""The hash keys that rows must have for a predicate to be true.

They follow from the record keys that a predicate names, be it in `_hoodie_record_key` or by values
of all record key fields, or of the hash fields alone. A value is spelled as key generators spell
it; where writers differ, each spelling is looked for:

    whole numbers, boolean, text   as they are; in a key of several fields null as `__null__`
                                   and the empty text as `__empty__`
    date                           2024-01-02, or as Flink has it the number of days
    decimal                        with all digits of its type

How timestamps and floating-point numbers stand in a key depends on the writer, and on its time
zone: of them nothing follows.

Of a composite key of which only the hash fields are known, the other fields do not matter, unless
the text in one of them looks like another field: `city:oslo,name:x,city:rome` has two hash keys.
Rows of such keys are in other buckets; `needs_plain_keys` says that they are not among these.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Final

import pyarrow as pa

from lakedex.expr.points import key_points, points
from lakedex.expr.tree import Expr, Literal
from lakedex.filegroup import RECORD_KEY, ReadContext
from lakedex.index.kinds.bucket.hashes import HashKeys, hash_keys
from lakedex.index.kinds.record_index.lookup import MAX_KEYS, key_format
from lakedex.keys import RecordKeyFormat
from lakedex.keys.generator import EMPTY_TEXT, NULL_TEXT
from lakedex.schema.field_paths import type_at

_ANY_VALUE: Final = "_"
"""Stands in keys for the value of a field that is no hash field."""
_EPOCH: Final = dt.date(1970, 1, 1)
_ISO_YEARS: Final = range(1000, 10_000)


@dataclass(frozen=True, slots=True)
class PredicateKeys:
    """The hash keys that rows must have."""

    keys: HashKeys
    needs_plain_keys: bool = False
    """Whether rows count only whose key has as many hash keys as there are hash fields."""

    def __len__(self) -> int:
        return len(self.keys.counts)


def keys_of_predicate(
    predicate: Expr, read: ReadContext, hash_fields: Sequence[str]
) -> PredicateKeys | str:
    """The hash keys that rows must have for the predicate to be true, or why they are unknown."""
    stored = points(predicate, (RECORD_KEY,))
    if stored is not None:
        texts = [str(literal.value) for literal in stored if literal.value is not None]
        return PredicateKeys(_hash_keys(texts, hash_fields))
    fields = read.config.record_key_fields
    if not fields:
        return "the table has no record key columns"
    reason = f"the predicate has no = or IN on the hash fields ({', '.join(hash_fields)})"
    for named in dict.fromkeys((fields, tuple(hash_fields))):
        found = key_points(predicate, [_path(name, read.schema) for name in named], MAX_KEYS)
        if found is None:
            continue
        needed = _of_values(found, named, read, hash_fields)
        if isinstance(needed, PredicateKeys):
            return needed
        reason = needed
    return reason


def names_keys(predicate: Expr, read: ReadContext) -> bool:
    """Whether a predicate limits any field of the record key, or the record key itself."""
    fields = read.config.record_key_fields
    paths = [(RECORD_KEY,), *(_path(name, read.schema) for name in fields)]
    return any(points(predicate, path) is not None for path in paths)


def _of_values(
    found: Sequence[tuple[Literal, ...]],
    named: Sequence[str],
    read: ReadContext,
    hash_fields: Sequence[str],
) -> PredicateKeys | str:
    """The hash keys of rows with these values of some fields, the hash fields among them."""
    fields = read.config.record_key_fields
    is_composite = len(fields) > 1
    if not is_composite:
        found = [row for row in found if row[0].value is not None]  # as no key of it is null
    columns: list[list[tuple[str, ...]]] = []
    for at, name in enumerate(named):
        kind = type_at(name, read.schema)
        if kind is None:
            return f"the record key {name} is no column"
        spelled = [_spellings(row[at].value, kind) for row in found]
        if not all(spelled):
            return f"how keys spell {kind} values ({name}) is not sure"
        columns.append(spelled)
    if not is_composite:
        return PredicateKeys(_hash_keys(_keys_of_one(columns[0], read), hash_fields))
    places = [named.index(name) if name in named else None for name in fields]
    texts = [
        ",".join(
            f"{name}:{_ANY_VALUE if at is None else choice[at] or EMPTY_TEXT}"
            for name, at in zip(fields, places, strict=True)
        )
        for row in zip(*columns, strict=True)
        for choice in product(*row)
    ]
    others = [type_at(name, read.schema) for name in fields if name not in named]
    return PredicateKeys(_hash_keys(texts, hash_fields), any(map(_may_name_fields, others)))


def _keys_of_one(column: Sequence[tuple[str, ...]], read: ReadContext) -> list[str]:
    """Record keys of one field, which some key generators name and others do not."""
    (name,) = read.config.record_key_fields
    texts = [text for choices in column for text in choices]
    is_named = key_format(read.config).names_fields
    plain = [] if is_named else texts
    if is_named is False:
        return plain
    return [*plain, *(f"{name}:{text or EMPTY_TEXT}" for text in texts)]


def _spellings(value: object, kind: pa.DataType) -> tuple[str, ...]:
    """How a value stands in keys; nothing where that is not sure."""
    if value is None:
        return (NULL_TEXT,)
    if pa.types.is_date(kind) and type(value) is dt.date and value.year in _ISO_YEARS:
        return (value.isoformat(), str((value - _EPOCH).days))
    if pa.types.is_decimal(kind) and isinstance(value, Decimal | int):
        return _decimal_text(value, kind)
    if RecordKeyFormat.can_spell(kind):
        if isinstance(value, bool):
            return (str(value).lower(),)
        if isinstance(value, int | str):
            return (str(value),)
    return ()


def _decimal_text(value: Decimal | int, kind: pa.DataType) -> tuple[str, ...]:
    try:
        return (str(pa.scalar(Decimal(value), kind).cast(pa.string())),)
    except pa.ArrowInvalid:
        return ()


def _may_name_fields(kind: pa.DataType | None) -> bool:
    """Whether a value may look like another field of a key: all but numbers and times."""
    tests = (
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_decimal,
        pa.types.is_timestamp,
        pa.types.is_floating,
    )
    return kind is None or not any(test(kind) for test in tests)


def _path(name: str, schema: pa.Schema) -> tuple[str, ...]:
    return (name,) if schema.get_field_index(name) >= 0 else tuple(name.split("."))


def _hash_keys(texts: Sequence[str], fields: Sequence[str]) -> HashKeys:
    return hash_keys(pa.array(texts, pa.string()), fields)
