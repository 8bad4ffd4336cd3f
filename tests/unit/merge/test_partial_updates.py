"""Updates that hold only some columns, against a record-at-a-time model of Hudi's partial merge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.merge import ChangeSet, Entries, newest_per_key

ENTRY = st.tuples(
    st.sampled_from("ab"), st.integers(0, 3), st.sampled_from(["full", "x", "y", "delete"])
)


def model(base, log, *, event_time):
    """The newer version overrides column by column; the older one fills what it lacks."""
    newest: dict[str, dict] = {}
    for number, (key, ordering, kind) in enumerate(log):
        fields = {"full": "xy", "x": "x", "y": "y", "delete": ""}[kind]
        entry = {"o": ordering, "deleted": kind == "delete"} | dict.fromkeys(fields, number)
        old = newest.get(key)
        if old is None or old["deleted"] or entry["deleted"]:
            loses = old is not None and event_time and ordering < old["o"]
            newest[key] = old if loses else entry
        elif event_time and ordering < old["o"]:
            newest[key] = entry | old
        else:
            newest[key] = old | entry
    rows = []
    for key, ordering in base:
        change = newest.pop(key, None)
        if change is None or (event_time and change["o"] < ordering):
            rows.append((key, ordering, -1, -1))
        elif not change["deleted"]:
            rows.append((key, change["o"], change.get("x", -1), change.get("y", -1)))
    for key, change in newest.items():
        if not change["deleted"]:
            rows.append((key, change["o"], change.get("x"), change.get("y")))
    return sorted(rows, key=repr)


def merged(base, log, *, event_time):
    kinds = np.array([kind for _, _, kind in log], dtype=object)
    keys = pa.array([key for key, _, _ in log], pa.string())
    ordering = pa.array([o for _, o, _ in log], pa.int64())
    number = pa.array(range(len(log)), pa.int64())
    rows = pa.table({"k": keys, "o": ordering, "x": number, "y": number})
    is_delete = kinds == "delete"
    has = {name: (kinds == "full") | (kinds == name) | is_delete for name in "xy"}
    none = np.zeros(len(log), dtype=np.bool_)
    entries = Entries(keys, (ordering,) if event_time else (), is_delete, none, is_delete, has)
    changes = ChangeSet(entries, newest_per_key(entries), rows, np.arange(len(log)))
    table = pa.table(
        {
            "k": pa.array([k for k, _ in base], pa.string()),
            "o": pa.array([o for _, o in base], pa.int64()),
            "x": pa.array([-1] * len(base), pa.int64()),
            "y": pa.array([-1] * len(base), pa.int64()),
        }
    )
    applied = changes.apply(table, table["k"], [table["o"]] if event_time else [])
    result = pa.concat_tables([applied, changes.inserts()])
    return sorted(zip(*(result[c].to_pylist() for c in "koxy"), strict=True), key=repr)


BASE = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), unique_by=lambda row: row[0])


@settings(max_examples=300)
@given(BASE, st.lists(ENTRY, min_size=1, max_size=5), st.booleans())
def test_partial_updates_merge_column_by_column(base, log, event_time):
    lowest_first = log if not event_time else [entry for entry in log if entry[2] != "delete"]
    if lowest_first:
        found = merged(base, lowest_first, event_time=event_time)
        assert found == model(base, lowest_first, event_time=event_time)
