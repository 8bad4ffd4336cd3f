"""Ranges of index keys: no value that was asked for is outside of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakedex.index.kinds.secondary.key_predicate import (
    KeyRanges,
    common,
    keys_from,
    keys_of_numbers,
    keys_of_prefix,
    keys_of_value,
    keys_up_to,
    united,
)
from lakedex.index.metadata_table.keys import escape_secondary, secondary_prefix

# Characters around the separator and the escape, and some whose UTF-8 and UTF-16 orders differ.
TEXTS = st.text(st.sampled_from("\0\x01 #$%A[\\]ab\u00e9\uffee\U0001f600"), max_size=5)
PLAIN = st.text(st.sampled_from("efgz\u00e9\uffee\U0001f600"), max_size=5)
NUMBERS = st.one_of(
    st.integers(-120, 120), st.integers(-(2**63), 2**63 - 1), st.sampled_from([-10, -9, 9, 10, 99])
)


def holds(ranges: KeyRanges, value: str | None, record_key: str = "k") -> bool:
    key = (secondary_prefix(value) + escape_secondary(record_key)).encode()
    return any(start <= key and (stop is None or key < stop) for start, stop in ranges)


@given(TEXTS, TEXTS, TEXTS)
def test_texts_of_a_range_are_in_it(bound, value, record_key):
    # cases B13, B14: values that share a prefix; escaping in secondary keys
    if value.encode() >= bound.encode():
        assert holds(keys_from(bound), value, record_key)
    if value.encode() <= bound.encode():
        assert holds(keys_up_to(bound), value, record_key)
    assert holds([keys_of_prefix(bound)], value, record_key) == value.startswith(bound)
    assert holds([keys_of_value(bound)], value, record_key) == (value == bound)


@given(PLAIN, PLAIN)
def test_ranges_of_ordinary_texts_hold_nothing_else(bound, value):
    assert holds(keys_from(bound), value) == (value.encode() >= bound.encode())
    assert holds(keys_up_to(bound), value) == (value.encode() <= bound.encode())


def test_null_is_in_no_range_and_long_bounds_are_cut():
    # case B15: null as secondary key
    for bound in ("", "\0", "a", "\U0010ffff"):
        assert not holds(keys_from(bound), None)
        assert not holds(keys_up_to(bound), None)
    long = "x" * 30_000
    assert holds(keys_up_to(long), long)
    assert holds(keys_from(long), long)
    assert not holds(common(keys_from(long), keys_up_to(long)), "xz")


@given(NUMBERS, NUMBERS, NUMBERS)
def test_numbers_of_a_range_are_in_it(one, other, value):
    low, high = min(one, other), max(one, other)
    ranges = keys_of_numbers(low, high)
    if low <= value <= high:
        assert holds(ranges, str(value))
    elif len(str(low)) == len(str(high)) == len(str(value)) and low * value > 0 < low * high:
        assert not holds(ranges, str(value))
    assert keys_of_numbers(high + 1, low) == []


KEYS = st.binary(max_size=2)
RANGES = st.lists(st.tuples(KEYS, st.one_of(KEYS, st.none())), max_size=4).map(united)


@given(RANGES, RANGES, KEYS)
def test_common_and_united_ranges(left, right, key):
    def has(ranges: KeyRanges) -> bool:
        return any(start <= key and (stop is None or key < stop) for start, stop in ranges)

    assert has(common(left, right)) == (has(left) and has(right))
    assert has(united([*left, *right])) == (has(left) or has(right))
    merged = united([*left, *right])
    stops = [stop for _, stop in merged[:-1]]
    assert all(
        stop is not None and stop < start
        for stop, (start, _) in zip(stops, merged[1:], strict=True)
    )
