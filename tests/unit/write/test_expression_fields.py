"""Indexes on fields of structs, and filters of what is no text or depends on a time zone."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from lakedex.errors import LakedexError
from tests.support.index_lab import IndexLab
from tests.support.write_lab import Row, source

HOME = pa.struct([("city", pa.string()), ("since", pa.timestamp("us", "UTC"))])
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ver", pa.int64()),
        ("name", pa.string()),
        ("secs", pa.int64()),
        ("home", HOME),
    ]
)
START = dt.datetime(2022, 10, 1, tzinfo=dt.UTC)
ZONE = "lakedex.expression.time.zone"


def row(day: int, ver: int = 1, **changes: object) -> Row:
    at = START + dt.timedelta(days=day)
    home = {"city": f"C{day}", "since": at}
    return {
        "id": f"k{day}",
        "p": f"p{day % 2}",
        "ver": ver,
        "name": f"a-{day}",
        "secs": int(at.timestamp()),
        "home": home,
        **changes,
    }


class Homes(IndexLab):
    """A table of some days, a file for each, without ranges of its columns."""

    def __init__(self, root: Path, kind: str, *rows: Row, **options: str) -> None:
        bare = {"hoodie.metadata.index.column.stats.enable": "false"}
        super().__init__(root, kind, "GLOBAL_SIMPLE", schema=SCHEMA, **bare, **options)
        for each in rows:
            self.writer.bulk_insert(source([each], SCHEMA))


def test_filters_of_whole_numbers_and_of_times_in_the_zone_of_the_index(tmp_path):
    # case B7: time units and time zones
    zone = "Asia/Tokyo"
    days = [*map(row, range(4)), row(4, name="plain")]
    table = Homes(tmp_path, "cow", *days, **{ZONE: zone})
    table.index("secs", "secs", "bloom_filters")
    table.index("long", "length(name)", "bloom_filters")
    table.index("day", "secs", "bloom_filters", expr="from_unixtime", format="yyyy-MM-dd HH")
    table.index("part", "split(name, '-')[1]", "bloom_filters")
    config = table.writer.snapshot().config
    assert {"expr_index_secs", "expr_index_long"} < set(config.metadata_partitions)
    assert config.own_metadata_partitions == ("expr_index_own-day", "expr_index_own-part")
    first = int(START.timestamp())
    assert table.files(f"secs = {first}") == 1
    assert table.files(f"secs in ({first}, 0)") == 1
    assert table.files("length(name) = 5") == 1
    assert table.files("split(name, '-')[1] = '2'") == 2
    asked = "from_unixtime(secs, 'yyyy-MM-dd HH') = '2022-10-02 09'"
    assert table.files(asked, zone) == 1
    assert table.files("day = '2022-10-02 09'", zone) == 1
    assert table.files(asked, "UTC") == 5
    # A text without the asked part has no filter, which is as it should be.
    table.verified()
    table.writer.upsert(source([row(1, 2, secs=first - 1)], SCHEMA))
    assert table.files(asked, zone) == 0
    table.verified()


def test_fields_of_structs_are_indexed_where_hudi_does_not_see_it(tmp_path):
    table = Homes(tmp_path, "mor", row(0), row(1), row(2, home=None))
    table.index("city", "lower(home.city)")
    table.index("start", "home.city", "column_stats", expr="ltrim", trimString="C")
    table.index("day", "date_format(home.since, 'yyyy-MM-dd')")
    table.index("hour", "hour(home.since)", "bloom_filters")
    assert len(table.writer.snapshot().config.own_metadata_partitions) == 4
    assert table.files("lower(home.city) = 'c1'") == 1
    assert table.files("city is null") == 1
    assert table.files("ltrim('C', home.city) = '0'") == 1
    assert table.files("start = '1'") == 1
    assert table.files("day = '2022-10-02'") == 1
    assert table.files("hour(home.since) = 3") == 0
    # Each side of an OR is a matter of another index.
    assert table.files("city = 'c1' or start = '0' and id > ''") == 2
    assert table.files("day = '2022-10-02' or hour(home.since) = 3") == 1
    assert table.files("day = '2022-10-02' or name = 'a-0'") == 3
    moved = {"city": "Bern", "since": START + dt.timedelta(days=40)}
    table.writer.upsert(source([row(0, 2, home=moved)], SCHEMA))
    assert table.files("city = 'bern'") == 1
    assert table.files("day > '2022-11'") == 1
    table.verified()
    for wrong in ("upper(home.nothing)", "upper(home)", "upper(nothing.city)"):
        with pytest.raises(LakedexError, match=r"nothing|home"):
            table.index("wrong", wrong)
