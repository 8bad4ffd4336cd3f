"""Histories of a table: commits of every kind, with the model of what they must leave.

A history is the same for the same shape, seed and size, so that one process can write it and
another one say what must come out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakedex.engine import Engine, LocalEngine
from lakedex.services.clustering import cluster_table
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import TableSpec, create_table
from lakedex.write.result import WriteResult
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.row_model import Model, Row, arrow_rows, at_noon
from tests.support.write_shapes import DAY_MS, FIRST_DAY_MS, WRITE_OPTIONS, Place, Shape

Test = Callable[[Row], bool]
# The byte order of some keys is not the order of their UTF-16 units (case B20), and some have
# the characters that composite keys are put together with (case B51).
ODD_KEYS = ("k{:05d}", "k{:05d}", "k{:05d}\U0001f600", "k{:05d}\uffee", "k{:05d},b:1", "ü k{:05d}")
CONDITIONS: tuple[tuple[str, Test], ...] = (
    ("n >= 930", lambda row: row.n is not None and row.n >= 930),
    ("name = 'name-3' and n < 200", lambda row: row.name == "name-3" and (row.n or 999) < 200),
    ("n is null and price > 50.0", lambda row: row.n is None and (row.price or 0.0) > 50.0),
    ("id like 'k0001%'", lambda row: row.id.startswith("k0001")),
)


@dataclass(frozen=True)
class Commit:
    """One write: a verb of the writer and what it is given."""

    verb: str
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()
    condition: str = ""
    partitions: tuple[str, ...] = ()
    kind: str = ""
    strategy: str = ""

    def write(self, shape: Shape, writer: TableWriter) -> WriteResult:
        """Do it."""
        if self.verb == "cluster":
            return cluster_table(writer, self.columns, self.strategy)
        if self.verb == "delete_where":
            return writer.delete_where(self.condition)
        if self.verb == "delete_partitions":
            return writer.delete_partitions(list(self.partitions))
        source = ArrowRowSource(arrow_rows(shape, self.rows, self.columns))
        result: WriteResult = getattr(writer, self.verb)(source)
        return result


def create(
    shape: Shape, path: str | Path, properties: Mapping[str, str] | None = None
) -> StorageAddress:
    """A new, empty table of a shape."""
    address = StorageAddress.of(str(path))
    spec = TableSpec(
        name="judged",
        schema=shape.schema,
        table_type=shape.table_type,
        record_key=shape.key_fields,
        partition_by=shape.partition_fields,
        ordering=("ver",),
        properties=shape.properties | dict(properties or {}),
    )
    create_table(address.open(), spec)
    return address


def writer_of(
    address: StorageAddress,
    options: Mapping[str, str] | None = None,
    engine: Engine | None = None,
) -> TableWriter:
    """A writer that makes several files in each partition."""
    return TableWriter(address, engine or LocalEngine(1), WRITE_OPTIONS | dict(options or {}))


@dataclass
class History:
    """Makes commits one after the other; `model` is what the table must hold after them."""

    shape: Shape
    seed: int = 1
    rows: int = 600
    model: Model = field(init=False)
    removed: dict[str, Row] = field(init=False, default_factory=dict)
    """The last version of rows that are not in the table any more, by key."""

    def __post_init__(self) -> None:
        self.model = Model(self.shape)
        self._random = random.Random(f"{self.shape} {self.seed}")
        self._clock = 1000
        self._next_key = 0

    def commits(self, count: int = 16) -> Iterator[Commit]:
        """So many commits of every kind; the model is changed with each of them."""
        kinds = [
            self.updates,
            self.late_changes,
            self.deletes,
            self.moves,
            self.marked_deletes,
            self.reinserts,
            self.overwrite,
            self.mixture,
            self.conditional,
            self.bulk_insert,
            self.repeated_keys,
            self.drop_partition,
            self.reinserts,
            self.moves,
            self.mixture,
            self.cluster,
        ]
        self._random.shuffle(kinds)
        yield self.apply(self.insert(self.rows))
        for number in range(count - 1):
            make = kinds[number % len(kinds)]
            yield self.apply(make(max(12, self.rows // 12)))

    def apply(self, commit: Commit) -> Commit:
        """Change the model by a commit."""
        before = dict(self.model.live)
        model = self.model
        if commit.verb == "cluster":
            return commit
        if commit.verb == "delete_where":
            model.delete_where(dict(CONDITIONS)[commit.condition])
        elif commit.verb == "delete_partitions":
            model.delete_partitions(commit.partitions)
        elif commit.verb == "bulk_insert":
            model.insert(commit.rows)
        else:
            getattr(model, commit.verb)(commit.rows)
        for name, row in before.items():
            if name not in model.live:
                self.removed[model.key(row)] = row
        for row in model.live.values():
            self.removed.pop(model.key(row), None)
        return commit

    # Rows.

    def new_rows(self, count: int) -> list[Row]:
        """Rows of keys that were never there."""
        return [self.fresh(*self._new_key()) for _ in range(count)]

    def _new_key(self) -> tuple[str, int]:
        self._next_key += 1
        number = self._next_key
        return ODD_KEYS[number % len(ODD_KEYS)].format(number), number % 10

    def fresh(self, key: str, sub: int, place: Place | None = None) -> Row:
        """A new version of a key, later than all before it."""
        draw = self._random
        self._clock += 1
        place = place or draw.choice(self.shape.places)
        number = draw.randrange(1000)
        return Row(
            id=key,
            sub=sub,
            ver=self._clock,
            name=None if number % 11 == 0 else f"name-{number % 7}",
            n=None if number % 13 == 0 else number,
            price=None if number % 17 == 0 else draw.randrange(10_000) / 100,
            at=at_noon(number),
            ts=self._ts(place),
            region=place.region,
            city=place.city,
            gone=False,
            path=place.path,
        )

    def _ts(self, place: Place) -> int:
        return FIRST_DAY_MS + place.day * DAY_MS + self._random.randrange(DAY_MS)

    def sample(self, count: int) -> list[Row]:
        """Some rows of the table, each key once."""
        by_key = {self.model.key(row): row for row in self.model.live.values()}
        names = sorted(by_key)
        return [by_key[name] for name in self._random.sample(names, min(count, len(names)))]

    def changed(self, row: Row) -> Row:
        """A later version at the same place."""
        place = next(place for place in self.shape.places if place.path == row.path)
        return self.fresh(row.id, row.sub, place)

    def late(self, row: Row) -> Row:
        """Another version that comes too late."""
        return self.changed(row)._replace(ver=row.ver - 1 - self._random.randrange(5))

    def moved(self, row: Row) -> Row:
        """A later version in another partition, where there is another one."""
        others = [place for place in self.shape.places if place.path != row.path]
        return self.fresh(row.id, row.sub, self._random.choice(others or self.shape.places))

    # Commits.

    def insert(self, count: int) -> Commit:
        return Commit("insert", tuple(self.new_rows(count)), kind="insert")

    def bulk_insert(self, count: int) -> Commit:
        return Commit("bulk_insert", tuple(self.new_rows(count * 2)), kind="bulk insert")

    def updates(self, count: int) -> Commit:
        rows = [self.changed(row) for row in self.sample(count)]
        same = [self.changed(row)._replace(ver=row.ver) for row in self.sample(3)]
        return self._upsert([*rows, *same, *self.new_rows(count // 2)], "updates")

    def late_changes(self, count: int) -> Commit:
        """Changes that lose, some of them moves and deletes, beside some that win."""
        chosen = self.sample(count)
        rows = [self.late(row) for row in chosen]
        third = len(rows) // 3
        for at in range(third):
            rows[at] = self.moved(chosen[at])._replace(ver=rows[at].ver)
        if self.shape.marks_deletes:
            rows[third : 2 * third] = [row._replace(gone=True) for row in rows[third : 2 * third]]
        rows += [self.changed(row) for row in self.sample(count // 3)]
        return self._upsert(rows, "late changes")

    def deletes(self, count: int) -> Commit:
        rows = self.sample(count)
        unknown = self.new_rows(3)
        columns = (*self.shape.key_fields, *self.shape.partition_fields)
        return Commit("delete", (*rows, *unknown), columns, kind="delete")

    def marked_deletes(self, count: int) -> Commit:
        if not self.shape.marks_deletes:
            return self.deletes(count)
        rows = [self.changed(row)._replace(gone=True) for row in self.sample(count)]
        rows += [self.late(row)._replace(gone=True) for row in self.sample(count // 3)]
        return self._upsert([*rows, *self.new_rows(5)], "marked deletes")

    def moves(self, count: int) -> Commit:
        rows = [self.moved(row) for row in self.sample(count)]
        return self._upsert([*rows, *self.new_rows(count // 2)], "moves")

    def reinserts(self, count: int) -> Commit:
        """Keys that were deleted come back, at their old place or elsewhere."""
        names = sorted(self.removed)
        chosen = self._random.sample(names, min(count, len(names)))
        rows = [self.removed[name] for name in chosen]
        rows = [
            self.changed(row) if number % 2 else self.moved(row) for number, row in enumerate(rows)
        ]
        return self._upsert([*rows, *self.new_rows(count)], "re-inserts")

    def overwrite(self, count: int) -> Commit:
        """A partition with some of its keys again, of whatever ordering value, and new ones."""
        path = self._random.choice(sorted({row.path for row in self.model.live.values()}))
        place = next(place for place in self.shape.places if place.path == path)
        inside = [row for row in self.model.live.values() if row.path == path]
        kept = [self.late(row) for row in inside if self._random.random() < 0.6]
        fresh = [row.moved_to(place, self._ts(place)) for row in self.new_rows(count)]
        return Commit("insert_overwrite", (*kept, *fresh), kind="overwrite")

    def cluster(self, count: int) -> Commit:
        """The same rows in other files."""
        del count
        strategy = self._random.choice(("linear", "zorder", "hilbert"))
        columns = ("n", "name", "price", "at")[: self._random.randrange(1, 5)]
        return Commit("cluster", columns=columns, strategy=strategy, kind=f"cluster {strategy}")

    def conditional(self, count: int) -> Commit:
        del count
        condition, _ = self._random.choice(CONDITIONS)
        return Commit("delete_where", condition=condition, kind="delete where")

    def drop_partition(self, count: int) -> Commit:
        paths = sorted({row.path for row in self.model.live.values()})
        if len(paths) < 2:
            return self.deletes(count)
        return Commit(
            "delete_partitions", partitions=(self._random.choice(paths),), kind="drop partition"
        )

    def repeated_keys(self, count: int) -> Commit:
        """Several versions of a key in one batch, the latest not last."""
        rows = []
        for row in self.sample(count // 2):
            first, second, third = (self.changed(row) for _ in range(3))
            rows += [first, third, second]
        for row in self.new_rows(5):
            rows += [self.changed(row), row]
        return self._upsert(rows, "repeated keys")

    def mixture(self, count: int) -> Commit:
        chosen = self.sample(count)
        third = max(1, len(chosen) // 3)
        rows = [self.changed(row) for row in chosen[:third]]
        rows += [self.moved(row) for row in chosen[third : 2 * third]]
        rows += [self.late(row) for row in chosen[2 * third :]]
        rows += self.new_rows(count)
        self._random.shuffle(rows)
        return self._upsert(rows, "mixture")

    def _upsert(self, rows: list[Row], kind: str) -> Commit:
        return Commit("upsert", tuple(rows), kind=kind)


def write_history(
    history: History,
    address: StorageAddress,
    count: int = 16,
    options: Mapping[str, str] | None = None,
) -> TableWriter:
    """Write so many commits of a history."""
    writer = writer_of(address, options)
    for commit in history.commits(count):
        commit.write(history.shape, writer)
    return writer
