"""Tables without key columns: every row has a key of its own, and later writes go by it."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput
from lakedex.write.row_source import ArrowRowSource
from tests.support.write_lab import Lab, row, source

KEY = "_hoodie_record_key"
NAMED = pa.schema([(KEY, pa.string()), ("id", pa.string()), ("p", pa.string()),
                   ("ver", pa.int64()), ("x", pa.float64())])  # fmt: skip


def stored(lab: Lab) -> list[tuple[str, str, float, str]]:
    rows = lakedex.open(lab.path).to_arrow(columns=["id", "p", "x", KEY]).to_pylist()
    return sorted(tuple(each.values()) for each in rows)


@pytest.mark.parametrize("partition", ["", "p"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_are_known_by_keys_of_their_own(tmp_path, kind, partition):
    lab = Lab(tmp_path, kind, key="", ordering="", partition=partition)
    assert "hoodie.table.recordkey.fields" not in lakedex.open(lab.path).snapshot.config.raw
    same = [row("a", "one", 1), row("a", "one", 1), row("b", "two", 1)]
    lab.writer.insert(source(same))
    lab.writer.bulk_insert(source(same))
    before = stored(lab)
    assert [each[:3] for each in before] == [("a", "one", 0.0)] * 4 + [("b", "two", 0.0)] * 2
    assert len({each[3] for each in before}) == len(same) * 2

    chosen = before[1][3]
    changed = {KEY: chosen, **row("a", "one", 2, 7.5)}
    lab.writer.upsert(source([changed, {KEY: None, **row("c", "two", 1, 1.5)}], NAMED))
    found = {each[3]: each[:3] for each in stored(lab)}
    assert found[chosen] == ("a", "one", 7.5)
    assert sorted(found.values())[-1] == ("c", "two", 1.5)
    assert len(found) == len(before) + 1

    gone = pa.table({KEY: [chosen], "p": ["one"]})
    lab.writer.delete(ArrowRowSource(gone))
    assert chosen not in {each[3] for each in stored(lab)}
    lab.writer.delete_where("id = 'b'", time_zone="UTC")
    assert [each[0] for each in stored(lab)] == ["a"] * 3 + ["c"]
    assert not lakedex.open(lab.path).verify().problems


def test_a_delete_without_keys_is_refused(tmp_path):
    lab = Lab(tmp_path, key="", ordering="", partition="")
    lab.writer.insert(source([row("a", "one", 1)]))
    with pytest.raises(InvalidInput, match="lack the record key column '_hoodie_record_key'"):
        lab.writer.delete(source([row("a", "one", 1)]))
    assert len(stored(lab)) == 1
