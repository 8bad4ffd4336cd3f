"""Storage layouts (RFC-63, use case 2): folders say where files lie, indexes what is in them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiTable

import lakedex
from lakedex import ReadOptions
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.services.index_creating import create_index
from lakedex.services.partition_evolving import evolve_partitions
from lakedex.timeline import update_properties
from tests.support.write_lab import Lab, Row, source

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("org_id", pa.string()),
        ("datestr", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ver", pa.int64()),
    ]
)
TWO = "org_id,datestr"
TIMES = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMICROSECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM",
}
DAY = "date_format(ts, 'yyyy-MM-dd')"


def event(org: str, day: str, number: int = 0, ver: int = 1) -> Row:
    at = dt.datetime.fromisoformat(f"{day}T12:00:00+00:00") + dt.timedelta(minutes=number)
    key = f"{org}-{day}-{number}"
    return {"id": key, "org_id": org, "datestr": day, "ts": at, "ver": ver}


class Events(Lab):
    """Events of organisations, whose folders change."""

    def __init__(
        self, root: Path, kind: str = "cow", partition: str = TWO, **properties: str
    ) -> None:
        super().__init__(
            root,
            kind,
            "GLOBAL_SIMPLE",
            schema=SCHEMA,
            partition=partition,
            properties=properties,
        )

    def insert(self, *rows: Row) -> None:
        self.writer.bulk_insert(source(rows, SCHEMA))

    def upsert(self, *rows: Row) -> None:
        self.writer.upsert(source(rows, SCHEMA))

    def evolve(self, **how: object) -> None:
        evolve_partitions(self.address, self.writer.target().patience, **how)

    def folders(self) -> set[str]:
        return {each.partition for each in self.writer.snapshot().slices}

    def count_of_others(self) -> int:
        """How many rows another engine finds, which knows nothing of changed folders."""
        return sum(batch.num_rows for batch in HudiTable(self.path).read())

    def files(self, predicate: str) -> set[str]:
        """The folders that are read, after the rows were held against a full scan."""
        assert self.rows(predicate) == self.rows(predicate, indexes=False), predicate
        table = lakedex.open(self.path, options=ReadOptions(weighs_cost=False))
        return {each.partition for each in table.explain(predicate).files}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_one_query_prunes_old_and_new_folders_by_the_index(tmp_path, kind):
    table = Events(tmp_path, kind)
    days = ("2022-10-01", "2022-10-02")
    table.insert(*(event(org, day) for org in "123" for day in days))
    create_index(table.writer, "idx_day", DAY)
    table.evolve(by="org_id")
    table.insert(event("1", "2022-10-10"), event("1", "2022-10-11"), event("2", "2022-10-15"))
    assert {"org_id=1/datestr=2022-10-01", "org_id=1", "org_id=2"} < table.folders()
    assert table.files(f"{DAY} = '2022-10-11'") == {"org_id=1"}
    assert table.files(f"{DAY} = '2022-10-02'") == {f"org_id={o}/datestr=2022-10-02" for o in "123"}
    both = f"{DAY} between '2022-10-02' and '2022-10-10' and org_id = '1'"
    assert table.files(both) == {"org_id=1/datestr=2022-10-02", "org_id=1"}
    # Values of folders where they tell them, of old ones and of new ones.
    assert table.files("org_id = '3'") == {f"org_id=3/datestr={day}" for day in days}
    assert "org_id=1" in table.files("datestr = '2022-10-10' or datestr = '2022-10-01'")
    # A record of the old folders is found, and moves when it is written again.
    changed = event("1", "2022-10-01", ver=2)
    table.upsert(changed)
    assert table.rows("id = '1-2022-10-01-0'") == [changed]
    assert table.files(f"{DAY} = '2022-10-01' and org_id = '1'") >= {"org_id=1"}
    assert len(table.rows()) == 9
    assert table.count_of_others() == 9
    assert lakedex.open(table.path).verify().ok


def test_months_become_days(tmp_path):
    """The folders 2020-01 and 2023-01-01 of one table, made of times."""
    table = Events(tmp_path, partition="ts", **TIMES)
    months = ("2020-01-05", "2020-01-25", "2022-09-30", "2022-10-02", "2022-12-31")
    table.insert(*(event("1", day) for day in months))
    create_index(table.writer, "idx_day", DAY)
    table.evolve(date_format="yyyy-MM-dd")
    table.insert(*(event("1", day) for day in ("2023-01-01", "2023-01-02")))
    assert table.folders() == {
        "ts=2020-01", "ts=2022-09", "ts=2022-10", "ts=2022-12", "ts=2023-01-01", "ts=2023-01-02",
    }  # fmt: skip
    assert table.files(f"{DAY} > '2022-10-01'") == {
        "ts=2022-10", "ts=2022-12", "ts=2023-01-01", "ts=2023-01-02",
    }  # fmt: skip
    assert table.files(f"{DAY} = '2020-01-25'") == {"ts=2020-01"}


def test_months_become_days_in_a_column_of_texts(tmp_path):
    table = Events(tmp_path, partition="datestr")
    table.insert(*(event("1", day) | {"datestr": day[:7]} for day in ("2020-01-05", "2022-10-07")))
    create_index(table.writer, "idx_day", DAY)
    table.insert(*(event("1", day) for day in ("2023-01-01", "2023-01-02")))
    assert table.files(f"{DAY} > '2022-10-01' and {DAY} < '2023-01-02'") == {
        "datestr=2022-10",
        "datestr=2023-01-01",
    }
    assert table.files("datestr > '2022-10'") == {"datestr=2023-01-01", "datestr=2023-01-02"}


@pytest.mark.parametrize("from_the_start", [True, False])
def test_hashed_folders_stand_before_partitions(tmp_path, from_the_start):
    properties = {"lakedex.partition.hashed.folders": "256"} if from_the_start else {}
    table = Events(tmp_path, "mor", **properties)
    table.insert(*(event(org, "2022-10-01") for org in "123"))
    create_index(table.writer, "idx_day", DAY)
    if not from_the_start:
        table.evolve(hashed_folders=256)
    table.insert(*(event(org, "2022-10-02") for org in "123"))
    hashed = {each for each in table.folders() if not each.startswith("org_id")}
    assert len(hashed) == (6 if from_the_start else 3)
    assert len({each.partition("/")[0] for each in hashed}) > 1
    found = table.files("org_id = '2' and datestr = '2022-10-02'")
    assert [each.partition("/")[2] for each in found] == ["org_id=2/datestr=2022-10-02"]
    assert len(table.files(f"{DAY} = '2022-10-02'")) == 3
    table.upsert(event("2", "2022-10-02", ver=2), event("2", "2022-10-01", ver=2))
    assert len(table.rows()) == 6
    assert table.count_of_others() == 6
    assert lakedex.open(table.path).verify().ok


def test_folders_that_could_be_misread_are_refused(tmp_path):
    table = Events(tmp_path)
    before = Path(table.path, ".hoodie/hoodie.properties").read_bytes()
    for wrong in (
        {"by": TWO},
        {"by": "datestr,org_id"},
        {"by": ""},
        {"by": "id"},
        {"date_format": "yyyy"},
        {"by": "org_id", "hashed_folders": 16},
        {"hashed_folders": 1},
        {},
    ):
        with pytest.raises(InvalidInput):
            table.evolve(**wrong)
    assert Path(table.path, ".hoodie/hoodie.properties").read_bytes() == before
    roots = {"lakedex.partition.roots": "s3://a/b,s3://x/y"}
    with pytest.raises(InvalidInput, match=r"lakedex\.partition\.roots"):
        table.writer.with_options(roots).bulk_insert(source([event("1", "2022-10-01")], SCHEMA))
    one = Events(tmp_path / "one", partition="org_id")
    with pytest.raises(InvalidInput, match="take the folder for a value"):
        one.evolve(hashed_folders=16)
    table.evolve(by="org_id")
    table.evolve(by="org_id")
    with pytest.raises(UnsupportedFeature, match="second change"):
        table.evolve(by="datestr")
    local = Lab(tmp_path / "local", schema=SCHEMA, partition=TWO)
    with pytest.raises(UnsupportedFeature, match="a global index would do"):
        evolve_partitions(local.address, local.writer.target().patience, by="org_id")


def test_folders_of_columns_that_the_table_does_not_name_tell_nothing(tmp_path):
    """Somebody else changed the partition columns: no file is left out by its folder's name."""
    table = Events(tmp_path)
    table.insert(event("1", "2022-10-01"), event("2", "2022-10-01"))
    update_properties(table.address.open(), {"hoodie.table.partition.fields": "org_id"})
    table.insert(event("1", "2022-10-10"))
    assert len(table.folders()) == 3
    assert len(table.rows("org_id = '1'")) == 2
    assert "org_id=2" not in table.files("org_id = '1'")
