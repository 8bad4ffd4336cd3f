"""Rows without an ordering value and keys that stand twice, with real Hudi beside lakedex."""

from __future__ import annotations

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import lakedex
from lakedex.errors import InvalidInput
from lakedex.storage.open import StorageAddress
from lakedex.table.creation import create_table
from lakedex.table.spec import TableSpec
from tests.interop.handing_over import (
    INDEXES,
    SCHEMA,
    TYPES,
    assert_holds,
    by_hudi,
    by_lakedex,
    hudi_writes,
    in_table,
    make_table,
    merged,
    rows,
    source,
    writer_of,
)

MARKED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))


def unversioned(table: pa.Table) -> pa.Table:
    return table.set_column(1, SCHEMA.field("ver"), pa.nulls(table.num_rows, pa.int64()))


def marked(table: pa.Table, *, gone: bool) -> pa.Table:
    return table.append_column(MARKED.field(5), pa.repeat(pa.scalar(gone), table.num_rows))


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_fails_on_rows_without_an_ordering_value_and_lakedex_refuses_them(
    spark, tmp_path, kind
):
    # A fact about Hudi 1.2.0, asserted so that a release that does better is noticed.
    path, late = str(tmp_path / "t"), unversioned(rows(0, 1, 1))
    writer = make_table(path, kind)
    writer.upsert(source(rows(0, 4, 1)))
    with pytest.raises(InvalidInput, match="the ordering column 'ver' is null"):
        writer.upsert(source(late))
    assert_holds(spark, path, in_table(rows(0, 4, 1)))

    def hudi_tries() -> None:
        hudi_writes(spark, path, late, tmp_path)
        by_hudi(spark, path)

    with pytest.raises(Py4JJavaError, match=r"NullPointerException|cannot be cast"):
        hudi_tries()


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_sees_marked_deletes_without_an_ordering_value(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    writer = make_table(path, kind, MARKED)
    writer.upsert(source(marked(rows(0, 8, 5), gone=False)))
    writer.upsert(source(marked(unversioned(rows(2, 4, 0)), gone=True)))
    expected = merged(rows(0, 8, 5), without=["k002", "k003"])
    assert_holds(spark, path, expected)


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_goes_on_after_every_copy_of_a_key_was_deleted(spark, tmp_path, kind):
    path = str(tmp_path / "t")
    writer = make_table(path, kind)
    writer.upsert(source(rows(0, 8, 1)))
    copies = pa.concat_tables([rows(2, 4, 1), rows(2, 4, 2), rows(2, 4, 3)])
    writer.insert(source(copies))
    assert len(by_hudi(spark, path)) == 14
    assert writer.delete(source(rows(2, 4, 1))).deleted == 8
    expected = merged(rows(0, 8, 1), without=["k002", "k003"])
    assert_holds(spark, path, expected)
    hudi_writes(spark, path, rows(2, 3, 1), tmp_path)
    assert_holds(spark, path, merged(rows(0, 8, 1), without=["k003"]))
    writer_of(path).delete(source(rows(0, 1, 1)))
    assert_holds(spark, path, merged(rows(0, 8, 1), without=["k000", "k003"]))


@pytest.mark.parametrize("kind", TYPES)
def test_hudi_compares_versions_inside_a_struct_as_well(spark, tmp_path, kind):
    path, inner = str(tmp_path / "t"), pa.struct([("ver", pa.int64())])
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("s", pa.string()), ("at", inner)])
    spec = TableSpec("t", schema, "id", "at.ver", "p", kind, INDEXES)
    create_table(StorageAddress.of(path).open(), spec)

    def versions(ver: int, *keys: str) -> pa.Table:
        told = [{"id": k, "p": "p", "s": f"{k}{ver}", "at": {"ver": ver}} for k in keys]
        return pa.Table.from_pylist(told, schema)

    def agree(*expected: str) -> None:
        wanted = [(text[0], text) for text in expected]
        assert by_lakedex(path, columns=("id", "s")) == wanted
        assert by_hudi(spark, path, columns=("id", "s")) == wanted

    writer = writer_of(path)
    writer.upsert(source(versions(5, "a", "b")))
    writer.upsert(source(versions(4, "a")))
    writer.upsert(source(versions(6, "b")))
    agree("a5", "b6")
    ordering = {"hoodie.datasource.write.precombine.field": "at.ver"}
    hudi_writes(spark, path, versions(7, "a"), tmp_path, **ordering)
    hudi_writes(spark, path, versions(3, "b", "c"), tmp_path, **ordering)
    agree("a7", "b6", "c3")
    writer.upsert(source(versions(6, "a", "c")))
    agree("a7", "b6", "c6")
    assert lakedex.open(path).verify().ok
