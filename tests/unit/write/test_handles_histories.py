"""Random histories through the handles, against a model that takes one record at a time."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from hudi import HudiTable

from lakedex.index.metadata_table.hashing import shards_of
from lakedex.write.handles import write_groups
from tests.unit.write.handle_tables import HandTable, Job, Row

FLAG = "_hoodie_is_deleted"
TEXTS = ["", "a", "ü", "東京", "\U0001f600", "\uff5e", "x" * 3000]
ORDERINGS = {
    "int64": {"o1": pa.int64()},
    "int32": {"o1": pa.int32()},
    "float": {"o1": pa.float64()},
    "several": {"o1": pa.int64(), "o2": pa.float64()},
    "decimal": {"o1": pa.decimal128(12, 2)},
    "none": {},
}


def user_schema(ordering: dict) -> pa.Schema:
    return pa.schema(
        [
            ("id", pa.string()),
            ("p", pa.string()),
            *ordering.items(),
            ("text", pa.string()),
            ("price", pa.float32()),
            ("dec", pa.decimal128(20, 4)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("raw", pa.binary()),
            ("nothing", pa.string()),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("inner", pa.struct([("a", pa.int32()), ("b", pa.decimal128(9, 2))])),
            ("by_name", pa.map_(pa.string(), pa.field("value", pa.float64()))),
            (FLAG, pa.bool_()),
        ]
    )


def ordering_value(dice, kind):
    if pa.types.is_floating(kind):
        return dice.choice([None, math.nan, -1.0, 0.0, 2.5, 3.5])
    if pa.types.is_decimal(kind):
        return dice.choice([None, Decimal("-1.50"), Decimal("0.00"), Decimal("2.25"), Decimal(7)])
    return dice.choice([None, -1, 0, 1, 2, 3, 4])


def values(dice, key, ordering, *, flagged):
    def maybe(make):
        return make() if dice.random() < 0.8 else None

    return {
        "id": key,
        "p": "x",
        **{name: ordering_value(dice, kind) for name, kind in ordering.items()},
        "text": maybe(lambda: dice.choice(TEXTS)),
        "price": maybe(lambda: dice.choice([0.0, -0.0, 1.5, math.nan, -math.inf])),
        "dec": maybe(lambda: Decimal(dice.randint(-(10**9), 10**9)) / 10000),
        "day": maybe(lambda: dt.date(1960, 1, 1) + dt.timedelta(dice.randint(0, 40000))),
        "at": maybe(lambda: dt.datetime(1960, 1, 1, 0, 0, 0, dice.randint(0, 999999), dt.UTC)),
        "raw": maybe(lambda: dice.randbytes(dice.randint(0, 5))),
        "nothing": None,
        "tags": maybe(lambda: [dice.choice([None, *TEXTS]) for _ in range(dice.randint(0, 3))]),
        "inner": maybe(lambda: {"a": maybe(lambda: 7), "b": maybe(lambda: Decimal("1.25"))}),
        "by_name": maybe(lambda: [("k", maybe(lambda: -0.0)), ("l", 2.0)][: dice.randint(0, 2)]),
        FLAG: True if flagged else dice.choice([None, False]),
    }


class Model:
    """Every key's place, its base row and its newest log entry, as Hudi's readers merge them."""

    def __init__(self, ordering):
        self.ordering = ordering
        self.place, self.base, self.log = {}, {}, {}

    def rank(self, row):
        ranks = []
        for name in self.ordering:
            value = row[name]
            ranks.append((1, 0) if value is not None and value != value else (0, value or 0))
        return ranks

    def kind(self, row):
        if row.delete:
            return "certain"
        if not row.values[FLAG]:
            return "data"
        given = [(row.values[name], kind) for name, kind in self.ordering.items()]
        without = all(v is None or (v == 0 and pa.types.is_int32(kind)) for v, kind in given)
        return "certain" if without else "flagged"

    def visible(self, key):
        base, entry = self.base.get(key), self.log.get(key)
        if entry is None:
            return base
        kind, row = entry
        late = base is not None and kind != "certain" and self.rank(row) < self.rank(base)
        if late:
            return base
        return row if kind == "data" else None

    def rows(self):
        found = {key: self.visible(key) for key in self.place}
        return {key: row for key, row in found.items() if row is not None}

    def settle(self, file_id):
        """A new base file is about to be written: what is seen is what there is."""
        for key in [key for key, place in self.place.items() if place == file_id]:
            seen = self.visible(key)
            self.log.pop(key, None)
            self.base[key] = seen
            if seen is None:
                self.place.pop(key)
                self.base.pop(key)

    def merge(self, row, file_id):
        kind, old = self.kind(row), self.base.get(row.key)
        if old is not None:
            if kind == "certain" or self.rank(row.values) >= self.rank(old):
                self.base[row.key] = row.values if kind == "data" else None
        elif kind == "data":
            self.base[row.key] = row.values
        if self.base.get(row.key) is None:
            self.base.pop(row.key, None)
            self.place.pop(row.key, None)
        else:
            self.place[row.key] = file_id

    def append(self, row):
        kind = self.kind(row)
        if kind != "data" and self.visible(row.key) is None:
            return
        old = self.log.get(row.key)
        beaten = old is None or old[0] == "certain" or kind == "certain" or not self.ordering
        if beaten or self.rank(row.values) >= self.rank(old[1]):
            self.log[row.key] = (kind, row.values)


class History:
    """Plays tagging and assignment with dice, and keeps an index from the key notes alone."""

    def __init__(self, root, table_type, ordering, seed):
        self.dice = random.Random(seed)
        self.ordering = ORDERINGS[ordering]
        self.is_mor = table_type == "mor"
        self.table = HandTable(
            root, user_schema(self.ordering), table_type=table_type, ordering=self.ordering
        )
        self.model = Model(self.ordering)
        self.index = {}
        self.count = 0

    def step(self, *, flags=True):
        dice, model = self.dice, self.model
        slices = self.table.slices()
        jobs = {}
        known = sorted(model.place)
        for key in dice.sample(known, min(len(known), dice.randint(0, 12))):
            file_id = model.place[key]
            live = model.visible(key) is not None
            flagged = flags and dice.random() < 0.25
            row = values(dice, key, self.ordering, flagged=flagged)
            delete = dice.random() < 0.2
            if delete:
                row = dict.fromkeys(row)
            jobs.setdefault(file_id, []).append(Row(key, row, delete, file_id, live))
        is_log = {
            file_id: self.is_mor and bool(dice.random() < 0.8 or slices[file_id].logs)
            for file_id in jobs
        }
        small = [
            file_id
            for file_id, found in slices.items()
            if not is_log.get(file_id) and (not found.logs or dice.random() < 0.3)
        ]
        for _ in range(dice.randint(0, 3)):
            target = dice.choice([*small, f"group{self.count}-0"])
            is_log.setdefault(target, False)
            for _ in range(dice.randint(1, 6)):
                self.count += 1
                key = f"k{self.count}{dice.choice(TEXTS[1:6])}"
                row = values(dice, key, self.ordering, flagged=flags and dice.random() < 0.1)
                jobs.setdefault(target, []).append(Row(key, row))
        if jobs:
            self.run([Job(file_id, rows, is_log[file_id]) for file_id, rows in jobs.items()])

    def run(self, jobs):
        before = len(self.model.rows())
        instant = self.table.begin()
        result = write_groups(self.table.task(instant, jobs))
        self.table.complete(instant, result)
        for job in jobs:
            if not job.is_log:
                self.model.settle(job.file_id)
            for row in job.rows:
                self.model.append(row) if job.is_log else self.model.merge(row, job.file_id)
        change = sum(file.num_inserts - file.num_deletes for file in result.files)
        assert change == len(self.model.rows()) - before
        self.follow_notes(result)
        self.check_statistics(result)

    def follow_notes(self, result):
        for note in self.table.notes(result):
            shard = shards_of(pa.array([note["key"]]), 7)[0]
            assert note["bucket"] == shard % 3
            place = (note["partition"], note["file_id"])
            if note["is_delete"]:
                assert self.index.pop(note["key"]) == place
            else:
                assert note["key"] not in self.index
                self.index[note["key"]] = place

    def check_statistics(self, result):
        for stats in result.index_notes.get("column_stats", {}).values():
            assert stats["file"].to_pylist() == [file.name for file in result.files]
            assert stats["value_count"].to_pylist() == [file.num_writes for file in result.files]
        assert [bloom.file for bloom in result.index_notes.get("bloom_filters", ())] == [
            file.name for file in result.files if not file.is_log
        ]

    def check(self):
        read = self.table.read() if self.table.slices() else []
        rows = self.model.rows().values()
        # As Arrow spells them: numbers in their precision, times in their zone. NaN is text here.
        expected = pa.Table.from_pylist(list(rows), self.table.user).to_pylist()
        found = [own(row) for row in read]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert self.index == {
            row["_hoodie_record_key"]: (
                row["_hoodie_partition_path"],
                row["_hoodie_file_name"].partition("_")[0],
            )
            for row in read
        }
        numbers = [row["_hoodie_commit_seqno"] for row in read]
        assert len(set(numbers)) == len(numbers)


def own(row):
    meta = "_hoodie_"
    return {name: value for name, value in row.items() if not name.startswith(meta) or name == FLAG}


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize(("table_type", "seed"), [("cow", 1), ("mor", 2), ("mor", 3)])
def test_random_histories_read_back_as_the_model_says(tmp_path, table_type, ordering, seed):
    history = History(tmp_path / "t", table_type, ordering, seed)
    for _ in range(8):
        history.step()
        history.check()


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_hudi_rs_reads_the_same_rows(tmp_path, table_type):
    history = History(tmp_path / "t", table_type, "int64", 11)
    for _ in range(9):
        history.step(flags=False)
    history.check()
    read = pa.Table.from_batches(HudiTable(str(tmp_path / "t")).read()).to_pylist()
    found = {row["_hoodie_record_key"]: row["text"] for row in read}
    assert len(read) == len(found)
    assert found == {key: row["text"] for key, row in history.model.rows().items()}
