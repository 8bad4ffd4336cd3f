"""The vectorised merge against a record-at-a-time model of Hudi's merge rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakedex.merge import ChangeSet, Entries, newest_per_key

KINDS = st.sampled_from(["data", "marked_delete", "tombstone", "unconditional"])
ENTRY = st.tuples(st.sampled_from("abcd"), st.integers(0, 3), KINDS)
BASE = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), max_size=5)


def model(base, log, *, event_time):
    """One record at a time, as Hudi's key-based buffer does it."""
    newest = {}
    for number, (key, ordering, kind) in enumerate(log):
        entry = (ordering, kind, number)
        old = newest.get(key)
        if old is None or not event_time:
            newest[key] = entry
        elif kind in ("tombstone", "unconditional"):
            if old[1] == "unconditional":
                continue
            if kind == "unconditional" or old[0] <= ordering:
                newest[key] = entry
        elif old[1] == "unconditional" or ordering >= old[0]:
            newest[key] = entry
    rows = []
    for key, ordering in base:
        change = newest.pop(key, None)
        loses = change and event_time and change[1] != "unconditional" and change[0] < ordering
        if change is None or loses:
            rows.append((key, ordering, -1))
        elif change[1] == "data":
            rows.append((key, change[0], change[2]))
    rows += [(key, e[0], e[2]) for key, e in newest.items() if e[1] == "data"]
    return sorted(rows)


def merged(base, log, *, event_time):
    kinds = np.array([kind for _, _, kind in log], dtype=object)
    keys = pa.array([key for key, _, _ in log], pa.string())
    values = pa.array([ordering for _, ordering, _ in log], pa.int64())
    rows = pa.table({"k": keys, "o": values, "n": pa.array(range(len(log)), pa.int64())})
    entries = Entries(
        keys,
        (values,) if event_time else (),
        kinds != "data",
        kinds == "unconditional",
        np.isin(kinds.astype(str), ["tombstone", "unconditional"]),
    )
    changes = ChangeSet(entries, newest_per_key(entries), rows, np.arange(len(log)))
    table = pa.table(
        {
            "k": pa.array([k for k, _ in base], pa.string()),
            "o": pa.array([o for _, o in base], pa.int64()),
            "n": pa.array([-1] * len(base), pa.int64()),
        }
    )
    parts = []
    for start in range(0, len(base), 2):
        part = table.slice(start, 2)
        parts.append(changes.apply(part, part["k"], [part["o"]] if event_time else []))
    result = pa.concat_tables([*parts, changes.inserts()])
    return sorted(zip(*(result[c].to_pylist() for c in "kon"), strict=True))


@settings(max_examples=400)
@given(BASE, st.lists(ENTRY, max_size=8))
def test_event_time_merge_equals_the_record_at_a_time_model(base, log):
    assert merged(base, log, event_time=True) == model(base, log, event_time=True)


@given(BASE, st.lists(ENTRY, max_size=8))
def test_commit_time_merge_equals_the_record_at_a_time_model(base, log):
    assert merged(base, log, event_time=False) == model(base, log, event_time=False)
