"""Bad input is refused by an error that names it, and not a byte of the table changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

import lakedex
from lakedex.engine import LocalEngine
from lakedex.errors import InvalidInput
from lakedex.services.index_creating import create_index
from lakedex.storage.open import StorageAddress, open_storage
from lakedex.table.creation import TableSpec, create_table
from lakedex.table.own_properties import read_own_properties
from lakedex.write.row_source import ArrowRowSource
from lakedex.write.verbs import TableWriter
from tests.support.history import History, create, writer_of
from tests.support.row_model import arrow_rows, assert_holds, rows_in
from tests.support.write_lab import Lab, row, source
from tests.support.write_shapes import DELETED_COLUMN, Shape

SHAPES = [
    Shape("cow", "SIMPLE", "simple"),
    Shape("mor", "GLOBAL_RECORD_LEVEL_INDEX", "composite"),
]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def written(request, tmp_path_factory) -> tuple[History, Path]:
    """One table for all tests: none of them may change it."""
    shape = request.param
    path = tmp_path_factory.mktemp("bad") / "table"
    history = History(shape, rows=30)
    history.apply(history.insert(30)).write(shape, writer_of(create(shape, path)))
    assert_holds(str(path), history.model)
    return history, path


@pytest.fixture
def history(written) -> History:
    return written[0]


@pytest.fixture
def path(written) -> Path:
    return written[1]


def contents(path: Path) -> dict[str, str]:
    """Every file below a folder by the hash of its bytes."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in path.rglob("*")
        if file.is_file()
    }


def refuse(path: Path, verb: str, rows: pa.Table, *words: str) -> None:
    """A write of such rows fails with all these words and changes nothing."""
    before = contents(path)
    writer = writer_of(StorageAddress.of(str(path)))
    with pytest.raises(InvalidInput) as caught:
        getattr(writer, verb)(ArrowRowSource(rows))
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"
    assert contents(path) == before


def changed(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


VERBS = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]


@pytest.mark.parametrize("verb", VERBS)
def test_null_key(path, history, verb):
    rows = arrow_rows(history.shape, history.new_rows(3))
    for name in history.shape.key_fields:
        rows = changed(rows, name, pa.array([None] * 3, rows.schema.field(name).type))
    refuse(path, verb, rows, "id", "null")


def test_empty_key(path, history):
    rows = arrow_rows(history.shape, history.new_rows(3))
    rows = changed(rows, "id", pa.array(["a", "", "b"]))
    if history.shape.key_style == "composite":
        # One empty part of a composite key is a key; all parts absent are none.
        rows = changed(rows, "sub", pa.array([1, None, 2], pa.int32()))
    refuse(path, "upsert", rows, "id", "empty")


@pytest.mark.parametrize("verb", [*VERBS, "delete"])
def test_key_that_is_too_long_for_the_record_index(path, history, verb):
    if not history.shape.has_record_index:
        return
    rows = arrow_rows(history.shape, history.new_rows(2))
    rows = changed(rows, "id", pa.array(["short", "k" * 40_000]))
    refuse(path, verb, rows, "id", "row 1", "32767")


@pytest.mark.parametrize("verb", [*VERBS, "delete"])
@pytest.mark.parametrize("column", ["id", "city"])
def test_missing_key_or_partition_column(path, history, verb, column):
    rows = arrow_rows(history.shape, history.new_rows(3)).drop_columns([column])
    if verb == "delete" and column == "city" and history.shape.is_global:
        return  # a global index finds a key without its partition
    refuse(path, verb, rows, column)


def test_missing_ordering_column(path, history):
    rows = arrow_rows(history.shape, history.new_rows(3)).drop_columns(["ver"])
    refuse(path, "upsert", rows, "ver")


@pytest.mark.parametrize("verb", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_missing_column(path, history, verb):
    """Null would take the place of what the records have there."""
    rows = arrow_rows(history.shape, history.new_rows(3)).drop_columns(["n", "price"])
    refuse(path, verb, rows, "'n', 'price'", "hoodie.write.set.null.for.missing.columns")


@pytest.mark.parametrize(
    "option",
    [
        "hoodie.write.set.null.for.missing.columns",
        "hoodie.datasource.write.reconcile.schema",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop",
    ],
)
def test_missing_columns_are_null_where_that_is_meant(tmp_path, option):
    shape = Shape("mor", "SIMPLE", "hive")
    address = create(shape, tmp_path / "table")
    history = History(shape, rows=9)
    history.apply(history.insert(9)).write(shape, writer_of(address))
    rows = [history.changed(row)._replace(n=None) for row in history.sample(5)]
    history.model.upsert(rows)
    lacking = arrow_rows(shape, rows).drop_columns(["n", DELETED_COLUMN])
    writer_of(address, {option: "true"}).upsert(ArrowRowSource(lacking))
    found = rows_in(lakedex.open(address.url).to_arrow(), ["n", "ver"])
    assert found == history.model.answers(["n", "ver"])


def test_missing_field_of_a_struct(tmp_path):
    point = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    schema = pa.schema([pa.field("id", pa.string()), pa.field("at", point)])
    path = tmp_path / "table"
    create_table(open_storage(str(path)), TableSpec(name="t", schema=schema, record_key="id"))
    part = pa.table({"id": ["a"], "at": pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))})
    refuse(path, "upsert", part, "'at.y'")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("n", pa.array(["x", "y", "z"])),
        ("name", pa.array([True, False, True])),
        ("price", pa.array([[1.0], [2.0], [3.0]])),
        ("at", pa.array(["today", "now", "then"])),
        ("ver", pa.array([b"1", b"2", b"3"])),
    ],
)
def test_wrong_type(path, history, verb, column, values):
    rows = changed(arrow_rows(history.shape, history.new_rows(3)), column, values)
    refuse(path, verb, rows, column)


def test_null_in_a_required_column(path, history):
    rows = arrow_rows(history.shape, history.new_rows(3))
    at = rows.column_names.index("id")
    rows = rows.set_column(at, pa.field("id", pa.string()), [[None, "x", "y"]])
    refuse(path, "upsert", rows, "id")


def test_null_in_a_required_column_that_is_no_key(tmp_path):
    schema = pa.schema([pa.field("id", pa.string()), pa.field("must", pa.int64(), nullable=False)])
    path = tmp_path / "table"
    storage = open_storage(str(path))
    create_table(storage, TableSpec(name="t", schema=schema, record_key="id"))
    writer = TableWriter(StorageAddress.of(str(path)), LocalEngine(1), {})
    writer.insert(ArrowRowSource(pa.table({"id": ["a"], "must": [1]}, schema=schema)))
    before = contents(path)
    rows = pa.table({"id": ["b", "c"], "must": pa.array([2, None], pa.int64())})
    with pytest.raises(InvalidInput, match="must"):
        writer.upsert(ArrowRowSource(rows))
    assert contents(path) == before


@pytest.mark.parametrize(
    "value", ["..", ".", "../../evil", "a/../../b", "/etc", "a//b", "a\\..\\b", "a\x00b", "a/"]
)
def test_partition_value_that_leaves_its_folder(path, history, value):
    rows = arrow_rows(history.shape, history.new_rows(3))
    rows = changed(rows, "city", pa.array(["oslo", value, "oslo"]))
    refuse(path, "upsert", rows, "city")
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["table"]


def test_hidden_folder_of_the_table_is_no_partition(path, history):
    rows = arrow_rows(history.shape, history.new_rows(1))
    for name in history.shape.partition_fields:
        rows = changed(rows, name, pa.array([".hoodie"]))
    refuse(path, "upsert", rows, ".hoodie")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hoodie.index.typ": "BLOOM"}, ("hoodie.index.typ", "hoodie.index.type")),
        ({"hoodie.index.type": "BLOOMY"}, ("BLOOMY",)),
        ({"hoodie.index.type": "GLOBAL_BLOOM"}, ("GLOBAL_BLOOM",)),
        ({"hoodie.parquet.max.file.size": "many"}, ("hoodie.parquet.max.file.size", "many")),
        ({"hoodie.datasource.write.recordkey.field": "name"}, ("recordkey", "name")),
        ({"hoodie.table.name": "other"}, ("other", "judged")),
        ({"hoodie.datasource.write.operation": "delete"}, ("operation='delete'", "upsert")),
        ({"hoodie.parquet.max.file.size": 0}, ("hoodie.parquet.max.file.size='0'",)),
        ({"hoodie.index.type": None}, ("hoodie.index.type", "NoneType")),
    ],
)
def test_unknown_or_contradicting_option(path, history, options, words):
    # cases B29, B57: options that contradict the table
    before = contents(path)
    rows = arrow_rows(history.shape, history.new_rows(2))
    with pytest.raises(InvalidInput) as caught:
        TableWriter(StorageAddress.of(str(path)), LocalEngine(1), options).upsert(
            ArrowRowSource(rows)
        )
    for word in words:
        assert word in str(caught.value)
    assert contents(path) == before


def test_a_condition_that_is_no_condition(path, history):
    before = contents(path)
    writer = writer_of(StorageAddress.of(str(path)))
    for condition in ("nobody = 1", "n >", "n"):
        with pytest.raises(Exception) as caught:
            writer.delete_where(condition)
        assert type(caught.value).__name__ in ("InvalidInput", "InvalidDefinition")
        assert contents(path) == before


def test_partitions_that_are_not_there(path, history):
    before = contents(path)
    writer = writer_of(StorageAddress.of(str(path)))
    for name in ("nowhere", "..", "oslo/../rio"):
        with pytest.raises(InvalidInput, match="partition"):
            writer.delete_partitions([name])
        assert contents(path) == before


def test_no_rows_change_nothing(path, history):
    before = contents(path)
    writer = writer_of(StorageAddress.of(str(path)))
    empty = arrow_rows(history.shape, [])
    for verb in ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite"):
        result = getattr(writer, verb)(ArrowRowSource(empty))
        assert result.instant is None
    assert contents(path) == before


def test_a_second_table_on_one_path(path, history):
    before = contents(path)
    with pytest.raises(InvalidInput, match="table"):
        create(history.shape, path)
    other = TableSpec(name="other", schema=pa.schema([("x", pa.int32())]), record_key="x")
    with pytest.raises(InvalidInput, match="table"):
        create_table(open_storage(str(path)), other)
    assert contents(path) == before


class SlowStorage:
    """A storage whose owner is overtaken by another creator just before its first write."""

    def __init__(self, inner, overtake) -> None:
        self._inner = inner
        self._overtake = overtake

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def create(self, path: str, data: bytes, **how) -> None:
        overtake, self._overtake = self._overtake, lambda: None
        overtake()
        self._inner.create(path, data, **how)


def test_of_two_creators_at_once_the_winner_keeps_its_settings(tmp_path):
    # case B57: writers with different settings
    mine, other = Shape("cow", "BLOOM", "simple"), Shape("cow", "GLOBAL_SIMPLE", "simple")
    path = tmp_path / "table"

    def spec(shape: Shape) -> TableSpec:
        properties = {"hoodie.index.type": shape.index}
        return TableSpec(
            name="t", schema=shape.schema, record_key="id", ordering="ver", properties=properties
        )

    storage = open_storage(str(path))
    slow = SlowStorage(storage, lambda: create_table(storage, spec(other)))
    with pytest.raises(InvalidInput, match="table already"):
        create_table(slow, spec(mine))
    assert read_own_properties(storage)["hoodie.index.type"] == other.index


def test_a_partition_inside_the_folder_of_another_is_refused(tmp_path):
    """Values with slashes make folders in folders, and Hudi lists no partition in a partition."""
    lab = Lab(tmp_path)
    lab.writer.upsert(source([row("a", "x/y", 1)]))
    for value, outer in (("x", "p=x"), ("x/y/z", "p=x/y")):
        with pytest.raises(InvalidInput, match=f"folder of the partition '{outer}'"):
            lab.writer.upsert(source([row("b", value, 1)]))
    with pytest.raises(InvalidInput, match="folder of the partition 'p=k'"):
        lab.writer.upsert(source([row("c", "k", 1), row("d", "k/l", 1)]))
    lab.writer.delete(source([row("a", "x", 1)]))
    lab.holds([row("a", "x/y", 1)], "p = 'x/y'")


# case B76: indexes of records whose write failed
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_failed_write_leaves_no_entry_of_its_rows_in_any_index(kind, tmp_path):
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("k1", "a", 1), row("k2", "b", 1)]))
    create_index(lab.writer, "idx_x", "x")
    before = lab.rows()

    def fail() -> None:
        raise RuntimeError("the last of the files could not be written")

    later = [row("k1", "a", 2, 99), row("k3", "a", 2), row("k4", "b", 2)]
    with pytest.raises(RuntimeError, match="could not be written"):
        lab.meanwhile(fail).upsert(source(later))
    with pytest.raises(InvalidInput, match="ordering column"):
        lab.writer.upsert(source([*later, row("k5", "a", None)]))
    conditions = ("id = 'k3'", "id = 'k1'", "id IN ('k4', 'k5')", "x = 99", "x = 0")
    lab.holds(before, *conditions)
    metadata = lakedex.open(lab.path).snapshot.metadata
    assert sorted(metadata.scan("record_index")["key"].to_pylist()) == ["k1", "k2"]
    assert metadata.scan("secondary_index_idx_x").num_rows == len(before)
    lab.writer.upsert(source(later))
    lab.holds([before[1], *later], *conditions)


# case B73: a record index over a composite key
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_composite_record_key_is_looked_up_as_it_is_stored(kind, tmp_path):
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX", key="id,ver", ordering="x")
    rows = [row(f"k{number}", f"p{number}", number % 3) for number in range(6)]
    lab.writer.upsert(source(rows))
    options = {"without_indexes": ["column_stats", "partition_stats"], "weighs_cost": False}
    table = lakedex.open(lab.path, options=options)
    for number, expected in enumerate(rows):
        for condition in (
            f"_hoodie_record_key = 'id:k{number},ver:{number % 3}'",
            f"id = 'k{number}' AND ver = {number % 3}",
        ):
            assert lab.rows(condition) == lab.rows(condition, indexes=False) == [expected]
            assert len(table.files(condition)) == 1
    assert lab.rows("_hoodie_record_key = 'id:k3'") == []
