"""Column stats in several file groups: Hudi finds the entries of a column in all of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from tests.interop.reading import ask
from tests.support.write_lab import Lab, source

FILES, GROUPS = 20, 4
SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ver", pa.int64())]
    + [(f"c{number}", pa.int64()) for number in range(12)]
)
COUNT = {"hoodie.metadata.index.column.stats.file.group.count": str(GROUPS)}


def row(at: int, version: int) -> dict[str, object]:
    same = {f"c{number}": number for number in range(1, 12)}
    return {"id": f"k{at:02}", "p": f"p{at:02}", "ver": version, "c0": 10 * at + version, **same}


@pytest.fixture(scope="module", params=["cow", "mor"])
def table(request, tmp_path_factory) -> str:
    lab = Lab(tmp_path_factory.mktemp("groups"), request.param, schema=SCHEMA, properties=COUNT)
    lab.writer.insert(source([row(at, 1) for at in range(FILES)], SCHEMA))
    lab.writer.upsert(source([row(at, 2) for at in range(4)], SCHEMA))
    return lab.path


def test_hudi_prunes_by_every_file_group(spark, table):
    assert len(lakedex.open(table).snapshot.metadata.groups("column_stats")) == GROUPS
    for at in range(FILES):
        value = row(at, 2 if at < 4 else 1)["c0"]
        answer = ask(spark, table, f"c0 = {value}")
        assert (answer.ids, answer.files) == ([f"k{at:02}"], 1), at
        assert len(lakedex.open(table).files(f"c0 = {value}")) == 1
    assert ask(spark, table, "c0 = 101", skipping=False).files == FILES
    assert ask(spark, table, "c7 > 100").files == 0
