"""Rows without an ordering value: refused, but for deletes, which then need none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput
from lakedex.write.intake import unversioned_deletes
from tests.support.write_lab import SCHEMA, Lab, row, source

MARKED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
VERBS = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"]
INDEXES = ["SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"]


def marked(key: str, version: int | None, *, gone: bool = False) -> dict:
    return row(key, "p", version) | {"_hoodie_is_deleted": gone}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_row_without_ordering_value_is_refused(tmp_path: Path, kind: str, verb: str) -> None:
    # Hudi takes such a row and fails later: merging it, or in every reader of its log.
    lab = Lab(tmp_path, kind)
    lab.writer.upsert(source([row("a", "p", 5)]))
    for rows in (
        [row("a", "p", None)],
        [row("b", "p", None)],
        [row("b", "p", 7), row("b", "p", None)],
    ):
        with pytest.raises(InvalidInput, match="the ordering column 'ver' is null in 1 of"):
            getattr(lab.writer, verb)(source(rows))
    lab.holds([row("a", "p", 5)])


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", INDEXES)
def test_a_marked_delete_without_ordering_value_deletes_whatever_is_there(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index, schema=MARKED)
    lab.writer.upsert(source([marked(key, 5) for key in "abcd"], MARKED))
    changes = [
        marked("a", None, gone=True),
        marked("b", 9),
        marked("b", None, gone=True),
        marked("c", 4, gone=True),
        marked("e", None, gone=True),
    ]
    result = lab.writer.upsert(source(changes, MARKED))
    assert result.deleted == 2
    lab.holds([row("c", "p", 5), row("d", "p", 5)])
    lab.writer.upsert(source([marked("a", 1)], MARKED))
    lab.holds([row("a", "p", 1), row("c", "p", 5), row("d", "p", 5)])


@pytest.mark.parametrize("combine", ["false", "true"])
@pytest.mark.parametrize("verb", ["insert", "bulk_insert"])
def test_a_marked_delete_among_new_rows_is_no_row(tmp_path: Path, verb: str, combine: str) -> None:
    # Rows that are looked through first and those that are not go the same way.
    lab = Lab(tmp_path, "cow", schema=MARKED)
    writer = lab.writer.with_options({"hoodie.combine.before.insert": combine})
    rows = [marked("a", 5), marked("b", None, gone=True)]
    assert getattr(writer, verb)(source(rows, MARKED)).inserted == 1
    lab.holds([row("a", "p", 5)])


def test_commit_time_ordering_needs_no_value(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ordering=())
    lab.writer.upsert(source([row("a", "p", 5)]))
    lab.writer.upsert(source([row("a", "p", None)]))
    lab.holds([row("a", "p", None)])


def test_of_several_ordering_columns_a_delete_has_all_or_none() -> None:
    rows = pa.table(
        {"u": [1, None, None], "v": [None, None, 3], "_hoodie_is_deleted": [True, True, False]}
    )
    with pytest.raises(InvalidInput, match="'u' is null in 1 of 3 rows"):
        unversioned_deletes(rows, ["u", "v"])
    assert unversioned_deletes(rows.slice(1, 1), ["u", "v"]).tolist() == [True]
    with pytest.raises(InvalidInput, match="'v' is null in 1 of 1 rows"):
        unversioned_deletes(rows.slice(0, 1), ["u", "v"])
    assert unversioned_deletes(rows, []).tolist() == [False] * 3


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_an_ordering_field_may_lie_inside_a_struct(tmp_path: Path, kind: str, index: str) -> None:
    inner = pa.struct([("ver", pa.int64()), ("sub", pa.int32())])
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("s", inner)])
    lab = Lab(tmp_path, kind, index, schema=schema, ordering=("s.ver", "s.sub"))

    def versions(*rows: tuple[str, str, int, int]) -> list[dict]:
        return [{"id": key, "p": p, "s": {"ver": ver, "sub": sub}} for key, p, ver, sub in rows]

    lab.writer.upsert(
        source(versions(("a", "p", 5, 1), ("a", "p", 4, 9), ("b", "p", 5, 1)), schema)
    )
    lab.writer.upsert(source(versions(("a", "p", 5, 0), ("b", "p", 5, 2)), schema))
    lab.writer.upsert(source(versions(("c", "p", 1, 1)), schema))
    expected = versions(("a", "p", 5, 1), ("b", "p", 5, 2), ("c", "p", 1, 1))
    lab.holds(expected)
    if index.startswith("GLOBAL"):
        # A partition move that comes too late, and one that does not.
        lab.writer.upsert(source(versions(("a", "q", 4, 0), ("b", "q", 6, 0)), schema))
        expected = versions(("a", "p", 5, 1), ("b", "q", 6, 0), ("c", "p", 1, 1))
        lab.holds(expected)
    without = [{"id": "d", "p": "p", "s": None}]
    with pytest.raises(InvalidInput, match=r"the ordering column 's\.ver' is null in 1 of 1 rows"):
        lab.writer.upsert(source(without, schema))
    lab.writer.delete(source([{"id": "c", "p": "p", "s": None}], schema))
    lab.holds(expected[:2])


def test_a_record_that_is_not_moved_keeps_its_partition_inside_a_struct(tmp_path: Path) -> None:
    inner = pa.struct([("city", pa.string()), ("n", pa.int32())])
    schema = pa.schema([("id", pa.string()), ("ver", pa.int64()), ("s", inner)])
    stays = {"hoodie.record.index.update.partition.path": "false"}
    lab = Lab(tmp_path, "mor", "RECORD_INDEX", schema=schema, partition="s.city", properties=stays)
    cities = [("a", 1, "oslo"), ("b", 1, "rio"), ("c", 1, None)]
    rows = [{"id": key, "ver": ver, "s": {"city": city, "n": 1}} for key, ver, city in cities]
    lab.writer.upsert(source(rows, schema))
    changes = [
        {"id": "a", "ver": 2, "s": {"city": "lima", "n": 2}},
        {"id": "b", "ver": 2, "s": None},
        {"id": "c", "ver": 2, "s": {"city": "lima", "n": 2}},
    ]
    lab.writer.upsert(source(changes, schema))
    changes[0]["s"] = {"city": "oslo", "n": 2}
    changes[1]["s"] = {"city": "rio", "n": None}
    changes[2]["s"] = {"city": None, "n": 2}
    lab.holds(changes, "s.city = 'oslo'", "s.city is null")
