"""Which deleted keys a selection of the metadata table names: those that it reads, no others."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakedex.index.kinds.secondary.key_predicate import united
from lakedex.index.metadata_table.group_reader import Selection

TEXTS = st.text(st.sampled_from("\0$ab"), max_size=3)
KEYS = TEXTS.map(str.encode)
RANGES = st.lists(st.tuples(KEYS, st.one_of(KEYS, st.none())), max_size=4).map(united)


@given(st.lists(TEXTS), RANGES, st.lists(TEXTS, max_size=4))
def test_prefixes_and_ranges_choose_the_keys_that_they_hold(keys, ranges, prefixes):
    # case B13: values that share a prefix
    stored = pa.array(keys, pa.string())
    chosen = Selection(ranges=tuple(ranges)).chosen(stored).to_pylist()
    assert chosen == [
        key
        for key in keys
        if any(low <= key.encode() and (end is None or key.encode() < end) for low, end in ranges)
    ]
    chosen = Selection(prefixes=tuple(prefixes)).chosen(stored).to_pylist()
    assert chosen == [key for key in keys if key.startswith(tuple(prefixes))]
