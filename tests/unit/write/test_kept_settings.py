"""Settings that a table keeps: what one writer changes, others that began before leave alone."""

from __future__ import annotations

import pyarrow as pa

import lakedex
from lakedex.config.metadata_options import zone_setting
from lakedex.services.index_creating import create_index
from lakedex.table.own_properties import read_own_properties, write_own_properties
from lakedex.write import operation as kinds
from lakedex.write.pipeline import run_write
from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import Lab, row, source

RETAINED = "hoodie.clean.commits.retained"
ZONE = {"lakedex.expression.time.zone": "Europe/Oslo"}
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)


def test_a_setting_that_is_changed_while_a_write_goes_on_stays(tmp_path):
    lab = Lab(tmp_path)
    lab.writer.insert(source([row("k1", "p1", 1)]))
    storage = lab.address.open()

    def change() -> None:
        write_own_properties(storage, {**read_own_properties(storage), RETAINED: "3"})

    lab.meanwhile(change).upsert(source([row("k1", "p1", 2)]))
    assert read_own_properties(storage)[RETAINED] == "3"
    lab.holds([row("k1", "p1", 2)])


def test_a_write_whose_options_are_older_than_an_index_keeps_its_time_zone(tmp_path):
    lab = Lab(tmp_path, schema=SCHEMA)
    rows = [{"id": "k1", "p": "p1", "ver": 1, "ts": 0}]

    def rows_of(version: int) -> ArrowRowSource:
        return ArrowRowSource(pa.Table.from_pylist([rows[0] | {"ver": version}], SCHEMA))

    lab.writer.insert(rows_of(1))
    begun = lab.writer.target()
    writer = lab.writer.with_options(ZONE)
    create_index(writer, "day", "date_format(ts, 'yyyy-MM-dd')")
    run_write(begun, kinds.UPSERT, rows_of(2))
    kept = read_own_properties(lab.address.open())
    assert kept[zone_setting("expr_index_day")] == "Europe/Oslo"
    lab.writer.upsert(rows_of(3))
    assert lakedex.open(lab.path).verify().ok
