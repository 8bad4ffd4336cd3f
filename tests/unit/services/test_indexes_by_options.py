"""Indexes that write options ask for, as Hudi spells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakedex.errors import InvalidInput
from lakedex.services.inline import writer_with_services
from tests.support.secondary import Trips

SECONDARY = "hoodie.metadata.index.secondary.column"
EXPRESSION = "hoodie.metadata.index.expression.column"
FUNCTION = {"hoodie.metadata.index.expression.options": "expr='upper'"}
NAME = "hoodie.index.name"
RECORD_INDEX = {"hoodie.metadata.global.record.level.index.enable": "true"}


def test_an_option_makes_a_secondary_index_before_the_rows_come(tmp_path):
    trips = Trips(tmp_path / "t", "mor")
    rows = trips.rows(("k1", 1, "ann", "oslo"), ("k2", 1, "bob", "rio"))
    for options in ({SECONDARY: "rider"}, {SECONDARY: "RIDER", NAME: "idx_city"}):
        writer_with_services(trips.address, options=options).upsert(rows)
        writer_with_services(trips.address, options=options).upsert(rows)
    names = {each.name: each.columns for each in trips.table().indexes()}
    assert names["secondary_index_rider"] == names["secondary_index_idx_city"] == ("rider",)
    assert trips.found("rider = 'ann'") == ["k1"]
    trips.assert_whole()


def test_options_that_enable_the_record_index_make_both(tmp_path):
    trips = Trips(tmp_path / "t", properties={})
    no = dict.fromkeys(RECORD_INDEX, "false")
    with pytest.raises(InvalidInput, match="needs a record index"):
        writer_with_services(trips.address, options={SECONDARY: "rider", **no})
    writer = writer_with_services(trips.address, options={SECONDARY: "rider"})
    writer.upsert(trips.rows(("k1", 1, "ann", "oslo")))
    assert trips.table().metadata("secondary_index_rider")["key"].to_pylist() == ["ann$k1"]
    trips.assert_whole()


class _Refusing:
    """A Spark whose time zone database is another one."""

    def check(self, column: str, function: str, arguments: object) -> None:
        """Every function is fine."""

    def knows(self, zone: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({SECONDARY: "nobody"}, "no column 'nobody'"),
        ({SECONDARY: "rider", NAME: "a b"}, "no name for an index"),
        ({SECONDARY: "rider", EXPRESSION: "city", NAME: "one", **FUNCTION}, "of the name 'one'"),
        ({SECONDARY: "rider", EXPRESSION: "rider", **FUNCTION}, "of the name 'rider'"),
        (
            {
                EXPRESSION: "ts",
                "hoodie.metadata.index.expression.options": "expr='from_unixtime'",
                "lakedex.expression.time.zone": "Asia/Tokyo",
            },
            "other offsets for 'Asia/Tokyo'",
        ),
    ],
)
def test_what_is_wrong_with_them_leaves_nothing_behind(tmp_path, options, message):
    trips = Trips(tmp_path / "t")
    trips.writer.upsert(trips.rows(("k1", 1, "ann", "oslo")))
    before = sorted(Path(trips.path).rglob("*"))
    with pytest.raises(InvalidInput, match=message):
        writer_with_services(trips.address, options=options, check=_Refusing())
    assert sorted(Path(trips.path).rglob("*")) == before
