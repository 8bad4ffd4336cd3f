"""Writes that once went wrong: each test names what was lost, doubled or hidden."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.errors import InvalidInput
from lakedex.table.snapshot import Snapshot
from lakedex.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CompactionOperation,
    CompactionPlan,
    RequestedReplace,
)
from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import GLOBAL, SCHEMA, Lab, row, source


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", GLOBAL)
def test_insert_that_drops_known_keys_looks_in_other_partitions(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index)
    lab.writer.upsert(source([row("a", "p", 5)]))
    dropping = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "drop"})
    dropping.insert(source([row("a", "q", 9), row("b", "q", 1), row("a", "r", 9)]))
    lab.holds([row("a", "p", 5), row("b", "q", 1)], "id = 'a'")
    failing = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "fail"})
    for version in (1, 9):
        with pytest.raises(InvalidInput, match="'a' is in the table already"):
            failing.insert(source([row("a", "r", version)]))


def test_an_overwrite_does_not_drop_the_keys_that_it_replaces(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.writer.upsert(source([row("a", "p", 5), row("b", "q", 1)]))
    dropping = lab.writer.with_options({"hoodie.datasource.insert.dup.policy": "drop"})
    dropping.insert_overwrite(source([row("a", "p", 1, 1.0)]))
    lab.holds([row("a", "p", 1, 1.0), row("b", "q", 1)])


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_rows_of_one_key_are_one_record_though_nobody_asked_to_combine_them(
    tmp_path: Path, kind: str, index: str
) -> None:
    lab = Lab(tmp_path, kind, index, **{"hoodie.combine.before.upsert": "false"})
    lab.writer.upsert(source([row("a", "p", 1)]))
    lab.writer.upsert(source([row("a", "p", 3, 3.0), row("a", "p", 2), row("b", "p", 1)]))
    lab.holds([row("a", "p", 3, 3.0), row("b", "p", 1)], "id = 'a'")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_overwrite_keeps_the_range_of_rows_that_came_meanwhile(
    tmp_path: Path, kind: str
) -> None:
    lab = Lab(tmp_path, kind)
    lab.writer.upsert(source([row("a", "p", 1)]))
    late = row("z", "p", 1000, 99.0)
    writer = lab.meanwhile(lambda: lab.writer.bulk_insert(source([late])))
    writer.insert_overwrite(source([row("b", "p", 5)]))
    lab.holds([row("b", "p", 5), late], "ver = 1000", "x > 50", "ver < 10")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_overwriting_the_older_place_of_a_key_leaves_its_index_entry(
    tmp_path: Path, kind: str
) -> None:
    # case B22: keys of replaced file groups
    lab = Lab(tmp_path, kind, "GLOBAL_RECORD_LEVEL_INDEX")
    lab.writer.upsert(source([row("a", "p", 1), row("c", "p", 1)]))
    lab.writer.insert_overwrite(source([row("a", "q", 2)]))
    lab.writer.insert_overwrite(source([row("b", "p", 2)]))
    lab.holds([row("a", "q", 2), row("b", "p", 2)], "id = 'a'", "id = 'c'")
    lab.writer.upsert(source([row("a", "q", 3), row("c", "p", 1)]))
    lab.holds([row("a", "q", 3), row("b", "p", 2), row("c", "p", 1)], "id = 'a'")


@pytest.mark.parametrize("index", GLOBAL)
def test_a_global_index_needs_no_partition_to_delete_a_key(tmp_path: Path, index: str) -> None:
    lab = Lab(tmp_path, "mor", index)
    lab.writer.upsert(source([row("a", "p", 1), row("b", "q", 1)]))
    lab.writer.delete(ArrowRowSource(pa.table({"id": ["a", "nobody"]})))
    lab.holds([row("b", "q", 1)], "id = 'a'")


def test_a_delete_looks_at_key_columns_only(tmp_path: Path) -> None:
    required = pa.schema([SCHEMA.field("id"), SCHEMA.field("p"), SCHEMA.field("ver")])
    required = required.append(pa.field("x", pa.float64(), nullable=False))
    lab = Lab(tmp_path, schema=required)
    lab.writer.upsert(source([row("a", "p", 1), row("b", "p", 1), row("c", "p", 1)], required))
    empty = {"id": ["a"], "p": ["p"], "x": pa.nulls(1, pa.float64())}
    lab.writer.delete(ArrowRowSource(pa.table(empty)))
    odd = {"id": ["b"], "p": ["p"], "ver": ["not a number"], "more": [1]}
    lab.writer.delete(ArrowRowSource(pa.table(odd)))
    lab.holds([row("c", "p", 1)])
    twice = pa.table([pa.array(["c"]), pa.array(["d"]), pa.array(["p"])], names=["id", "id", "p"])
    with pytest.raises(InvalidInput, match="the column id twice"):
        lab.writer.delete(ArrowRowSource(twice))


def test_delete_where_on_a_key_inside_a_struct(tmp_path: Path) -> None:
    inner = pa.struct([("id", pa.string()), ("region", pa.string())])
    schema = pa.schema([("s", inner), ("ver", pa.int64())])
    lab = Lab(tmp_path, "mor", schema=schema, key="s.id", partition="s.region")
    rows = [{"s": {"id": key, "region": "eu"}, "ver": 1} for key in "ab"]
    lab.writer.upsert(source(rows, schema))
    lab.writer.delete_where("s.id = 'a'")
    lab.holds(rows[1:])


def test_names_of_columns_on_their_way_are_reserved(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="__lakedex_delete' is reserved"):
        Lab(tmp_path, schema=SCHEMA.append(pa.field("__lakedex_delete", pa.bool_())))
    lab = Lab(tmp_path)
    more = SCHEMA.append(pa.field("__Lakedex_live", pa.bool_()))
    with pytest.raises(InvalidInput, match="__Lakedex_live' is reserved"):
        lab.writer.upsert(source([row("a", "p", 1)], more))


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_RECORD_LEVEL_INDEX"])
@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_new_rows_do_not_fill_groups_of_a_pending_service(
    tmp_path: Path, index: str, service: str
) -> None:
    lab = Lab(tmp_path, "mor", index)
    lab.writer.upsert(source([row("a", "p", 1)]))
    (current,) = Snapshot.open(lab.address.open()).slices
    assert current.base is not None
    place = (current.file_id, current.partition)
    if service == "compaction":
        operation = CompactionOperation(*place, current.base_instant, current.base.name, ())
        data = CompactionPlan((operation,)).encode()
    else:
        part = ClusteringSlice(*place, current.base.name, ())
        data = RequestedReplace("CLUSTER", ClusteringPlan((ClusteringGroup((part,)),))).encode()
    time = int(current.base_instant) + 1
    (Path(lab.path) / f".hoodie/timeline/{time}.{service}.requested").write_bytes(data)
    lab.writer.upsert(source([row("b", "p", 1)]))
    lab.holds([row("a", "p", 1), row("b", "p", 1)], "id = 'b'")


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_a_deleted_record_comes_back_beside_a_pending_compaction(
    tmp_path: Path, index: str
) -> None:
    lab = Lab(tmp_path, "mor", index)
    lab.writer.upsert(source([row("a", "p", 5), row("b", "p", 5)]))
    lab.writer.delete(source([row("a", "p", 0)]))
    (current,) = Snapshot.open(lab.address.open()).slices
    assert current.base is not None
    logs = tuple(log.name for log in current.logs)
    operation = CompactionOperation(
        current.file_id, current.partition, current.base_instant, current.base.name, logs
    )
    time = int(current.logs[-1].instant_time) + 2
    plan = Path(lab.path) / f".hoodie/timeline/{time}.compaction.requested"
    plan.write_bytes(CompactionPlan((operation,)).encode())
    lab.writer.upsert(source([row("a", "p", 1), row("b", "p", 6)]))
    lab.holds([row("a", "p", 1), row("b", "p", 6)], "id = 'a'", "ver = 1")
