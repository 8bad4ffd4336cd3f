"""What a table must hold: a dictionary of rows, changed by the same verbs as the table.

The model says which row wins, by the rules that users are told: the larger ordering value wins,
equal values are won by the later write, a delete by key always wins. Where the index is global a
key stands once in the table, else once in each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

import lakedex
from lakedex import ReadOptions
from tests.support.write_shapes import DELETED_COLUMN, Place, Shape

KEY_COLUMN, PATH_COLUMN = "_hoodie_record_key", "_hoodie_partition_path"


class Row(NamedTuple):
    """One row, and the place that its partition columns lead to."""

    id: str
    sub: int
    ver: int
    name: str | None
    n: int | None
    price: float | None
    at: datetime | None
    ts: int
    region: str
    city: str | None
    gone: bool
    path: str

    def moved_to(self, place: Place, ts: int) -> Row:
        """The same row in another partition."""
        return self._replace(path=place.path, region=place.region, city=place.city, ts=ts)


class Model:
    """The rows of one table."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.live: dict[object, Row] = {}

    def key(self, row: Row) -> str:
        """The record key."""
        if self.shape.key_style == "composite":
            return f"id:{row.id},sub:{row.sub}"
        return row.id

    def identity(self, row: Row) -> object:
        """What can stand once only."""
        return self.key(row) if self.shape.is_global else (row.path, self.key(row))

    def copy(self) -> Model:
        """The same rows, to be changed on their own."""
        other = Model(self.shape)
        other.live = dict(self.live)
        return other

    def insert(self, rows: Iterable[Row]) -> None:
        """Rows whose keys are new."""
        for row in rows:
            assert self.identity(row) not in self.live, f"{row} is no new row"
            self.live[self.identity(row)] = row

    def upsert(self, rows: Iterable[Row]) -> None:
        """One row of each key, the one of the largest ordering value, against what is there."""
        best: dict[object, Row] = {}
        for row in rows:
            other = best.get(self.identity(row))
            if other is None or row.ver >= other.ver:
                best[self.identity(row)] = row
        for name, row in best.items():
            old = self.live.get(name)
            if old is not None and row.ver < old.ver:
                continue
            if row.gone:
                self.live.pop(name, None)
            else:
                self.live[name] = row

    def delete(self, rows: Iterable[Row]) -> None:
        """Whatever the ordering values."""
        for row in rows:
            self.live.pop(self.identity(row), None)

    def delete_where(self, test: Callable[[Row], bool]) -> None:
        """Every row that the test is true for."""
        self.live = {name: row for name, row in self.live.items() if not test(row)}

    def delete_partitions(self, paths: Collection[str]) -> None:
        """Every row of some partitions."""
        self.delete_where(lambda row: row.path in paths)

    def insert_overwrite(self, rows: Collection[Row]) -> None:
        """The rows take the place of all in their partitions."""
        self.delete_partitions({row.path for row in rows})
        self.insert(rows)

    def insert_overwrite_table(self, rows: Collection[Row]) -> None:
        """The rows take the place of all."""
        self.live = {}
        self.insert(rows)

    def answers(
        self, columns: Collection[str], test: Callable[[Row], bool] | None = None
    ) -> list[tuple[object, ...]]:
        """Path, key and the columns of the rows that pass a test, in order."""
        found = [
            (row.path, self.key(row), *(column_of(row, name) for name in columns))
            for row in self.live.values()
            if test is None or test(row)
        ]
        return sorted(found, key=_order)

    @property
    def columns(self) -> list[str]:
        """All columns of the table."""
        return list(self.shape.schema.names)


def column_of(row: Row, name: str) -> object:
    """A value of a row by the name of its column."""
    return row.gone if name == DELETED_COLUMN else getattr(row, name)


def arrow_rows(shape: Shape, rows: Collection[Row], columns: Collection[str] = ()) -> pa.Table:
    """Rows as a table of the shape's columns, or of some of them."""
    fields = [field for field in shape.schema if not columns or field.name in columns]
    arrays = [
        pa.array([column_of(row, field.name) for row in rows], field.type) for field in fields
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def rows_in(table: pa.Table, columns: Collection[str]) -> list[tuple[object, ...]]:
    """Path, key and columns of a table that a reader gave, in order."""
    lists = [_values(table[name]) for name in (PATH_COLUMN, KEY_COLUMN, *columns)]
    return sorted(zip(*lists, strict=True), key=_order)


def _values(column: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(column.type):
        # Readers differ in unit and in whether they say the zone; the moment is the same.
        micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
        return micros.cast(pa.timestamp("us", "UTC")).to_pylist()
    return column.to_pylist()


def _order(row: tuple[object, ...]) -> tuple[object, object]:
    return row[0], row[1]


def differences(found: list[tuple[object, ...]], expected: list[tuple[object, ...]]) -> str:
    """A few of the rows that are too many, too few or different; empty when there are none."""
    if found == expected:
        return ""
    mine, wanted = {row[:2]: row for row in found}, {row[:2]: row for row in expected}
    lines = [f"{len(found)} rows found, {len(expected)} expected"]
    if len(mine) != len(found):
        seen: set[object] = set()
        twice = [row[:2] for row in found if row[:2] in seen or seen.add(row[:2])]
        lines.append(f"stand twice: {twice[:3]}")
    lines += [f"missing: {wanted[name]}" for name in sorted(wanted.keys() - mine.keys())[:3]]
    lines += [f"too many: {mine[name]}" for name in sorted(mine.keys() - wanted.keys())[:3]]
    other = [name for name in wanted.keys() & mine.keys() if wanted[name] != mine[name]]
    lines += [f"differs: {mine[name]}\n expected {wanted[name]}" for name in sorted(other)[:3]]
    return "\n".join(lines)


def assert_holds(path: str, model: Model, *, verify: bool = True) -> None:
    """A table holds exactly the rows of the model, with and without its indexes."""
    for options in (ReadOptions(), ReadOptions(without_indexes={"all"})):
        table = lakedex.open(path, options=options)
        wanted = [PATH_COLUMN, KEY_COLUMN, *model.columns]
        found = rows_in(table.to_arrow(columns=wanted), model.columns)
        problem = differences(found, model.answers(model.columns))
        assert not problem, f"{options}: {problem}"
    assert table.snapshot.metadata_problem is None
    if verify:
        problems = table.verify().problems
        assert not problems, "\n".join(map(str, problems[:10]))


def at_noon(number: int) -> datetime:
    """A moment that fits a number of days."""
    return datetime.fromtimestamp(1_700_000_000 + 86_400 * number, UTC).replace(microsecond=123456)
