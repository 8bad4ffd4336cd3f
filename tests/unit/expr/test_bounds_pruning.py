"""Clear cases of pruning: what must be pruned, and what must not be, and why."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakedex.expr.bounds import ColumnBounds, exact_bounds, merge_by_group
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    In,
    IsNotNull,
    IsNull,
    Like,
    Literal,
    Not,
    Op,
    Or,
    StartsWith,
    Unknown,
)

NAN = float("nan")
MICROS = pa.timestamp("us", "UTC")


def bounds(kind, pairs, nulls=None, counts=None, known=None):
    low, high = zip(*pairs, strict=True)
    count = len(pairs)
    return ColumnBounds(
        kind,
        pa.array(low, kind),
        pa.array(high, kind),
        np.array(nulls or [0] * count, np.int64),
        np.array(counts or [10] * count, np.int64),
        np.array(known or [True] * count, np.bool_),
    )


def prune(predicate, entries, zone="UTC"):
    count = len(next(iter(entries.values())))
    return may_match(predicate, entries, count, time_zone=zone).tolist()


def compare(op, subject, value, kind):
    return Compare(op, subject, Literal(value, kind))


A = Column(("a",), pa.int64())
THREE = {A: bounds(pa.int64(), [(1, 3), (5, 5), (7, 9)])}
S = Column(("s",), pa.string())
D = Column(("d",), pa.float64())
Z = Column(("z",), MICROS)


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (Op.EQ, 5, [False, True, False]),
        (Op.EQ, 4, [False, False, False]),
        (Op.NE, 5, [True, False, True]),
        (Op.LT, 5, [True, False, False]),
        (Op.LTE, 5, [True, True, False]),
        (Op.GT, 5, [False, False, True]),
        (Op.GTE, 5, [False, True, True]),
        (Op.EQ_NULL_SAFE, 8, [False, False, True]),
        (Op.LT, None, [False, False, False]),
    ],
)
def test_each_comparison_prunes_the_files_out_of_its_range(op, value, expected):
    predicate = compare(op, A, value, pa.int64())
    assert prune(predicate, THREE) == expected


def test_a_constant_on_the_left_prunes_as_on_the_right():
    predicate = Compare(Op.GT, Literal(5, pa.int64()), A)
    assert prune(predicate, THREE) == [True, False, False]


@pytest.mark.parametrize("extra", [0, 20])
def test_in_prunes_by_each_value_and_not_in_by_single_values(extra):
    padding = tuple(Literal(100 + value, pa.int64()) for value in range(extra))
    values = (Literal(5, pa.int64()), Literal(4, pa.int64()), *padding)
    assert prune(In(A, values), THREE) == [False, True, False]
    assert prune(Not(In(A, values)), THREE) == [True, False, True]
    with_null = (*values, Literal(None, pa.int64()))
    assert prune(In(A, with_null), THREE) == [False, True, False]
    assert prune(Not(In(A, with_null)), THREE) == [False, False, False]


def test_or_with_an_unindexed_column_keeps_and_and_prunes():
    # case B5: unindexed column
    free = compare(Op.EQ, Column(("x",), pa.int64()), 1, pa.int64())
    low = compare(Op.LT, A, 5, pa.int64())
    assert prune(Or((low, free)), THREE) == [True, True, True]
    assert prune(And((low, free)), THREE) == [True, False, False]
    assert prune(Not(And((low, Unknown("?")))), THREE) == [True, True, True]
    assert prune(Not(Or((low, Unknown("?")))), THREE) == [False, True, True]


def test_null_tests_need_known_null_counts():
    # case B4: unknown null count
    entries = {A: bounds(pa.int64(), [(1, 2)] * 4, [0, -1, 3, 10], [10] * 4)}
    assert prune(IsNull(A), entries) == [False, True, True, True]
    assert prune(IsNotNull(A), entries) == [True, True, True, False]
    null = Literal(None, pa.int64())
    assert prune(Compare(Op.EQ_NULL_SAFE, A, null), entries) == [False, True, True, True]
    assert prune(Not(Compare(Op.EQ_NULL_SAFE, A, null)), entries) == [True, True, True, False]


def test_a_file_without_an_entry_is_always_kept():
    # case B4: unknown null count
    entries = {A: bounds(pa.int64(), [(None, None)], [0], [0], [False])}
    for predicate in (IsNull(A), IsNotNull(A), compare(Op.EQ, A, 1, pa.int64())):
        assert prune(predicate, entries) == [True]


def test_zeros_of_an_all_null_column_match_nothing():
    entries = {A: bounds(pa.int64(), [(0, 0)], [10], [10])}
    assert prune(compare(Op.EQ, A, 0, pa.int64()), entries) == [False]
    assert prune(Not(compare(Op.EQ, A, 1, pa.int64())), entries) == [False]
    assert prune(IsNull(A), entries) == [True]
    different = Not(compare(Op.EQ_NULL_SAFE, A, 1, pa.int64()))
    assert prune(different, entries) == [True]


def test_a_log_without_rows_matches_nothing():
    entries = {A: bounds(pa.int64(), [(None, None)], [0], [0])}
    for predicate in (IsNull(A), IsNotNull(A), compare(Op.NE, A, 1, pa.int64())):
        assert prune(predicate, entries) == [False]


def test_missing_bounds_of_long_strings_keep_the_file_and_distrust_its_null_count():
    # case B2: absent stats
    entries = {S: bounds(pa.string(), [(None, None)], [0], [10])}
    assert prune(compare(Op.EQ, S, "x", pa.string()), entries) == [True]
    assert prune(IsNull(S), entries) == [True]


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (Op.EQ, 9.0, [False, False, True]),
        (Op.EQ, NAN, [True, True, True]),
        (Op.LT, 1.0, [False, True, True]),
        (Op.LT, -9.0, [False, False, True]),
        (Op.GT, 9.0, [True, True, True]),
        (Op.GTE, 9.0, [True, True, True]),
        (Op.NE, 2.0, [True, True, True]),
        (Op.LT, -math.inf, [False, False, True]),
    ],
)
def test_floats_prune_downwards_only_and_never_across_zero(op, value, expected):
    # case B1: NaN
    entries = {D: bounds(pa.float64(), [(2.0, 2.0), (-5.0, -1.0), (0.0, 0.0)])}
    assert prune(compare(op, D, value, pa.float64()), entries) == expected


def test_negated_float_comparisons_keep_files_that_may_hide_a_nan():
    # case B1: NaN
    entries = {D: bounds(pa.float64(), [(2.0, 3.0), (NAN, NAN), (2.0, NAN)])}
    assert prune(Not(compare(Op.LT, D, 5.0, pa.float64())), entries) == [True] * 3
    assert prune(compare(Op.EQ, D, 1.0, pa.float64()), entries) == [False, True, True]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("ab", [True, True, False]),
        ("abd", [False, True, False]),
        ("b", [False, True, True]),
        ("", [True, True, True]),
        ("z", [False, False, False]),
    ],
)
def test_prefixes_prune_by_the_cut_bounds(prefix, expected):
    # case B3: prefix
    entries = {S: bounds(pa.string(), [("ab", "abc"), ("abd", "bb"), ("b", "c")])}
    assert prune(StartsWith(S, prefix), entries) == expected
    assert prune(Like(S, f"{prefix}%"), entries) == expected
    assert prune(Like(S, f"{prefix}%x"), entries) == expected


def test_negated_prefixes_prune_only_where_every_string_has_the_prefix():
    # case B3: prefix
    entries = {S: bounds(pa.string(), [("ab", "abc"), ("abd", "bb")])}
    assert prune(Not(StartsWith(S, "ab")), entries) == [False, True]
    assert prune(Not(Like(S, "ab%")), entries) == [False, True]
    assert prune(Not(Like(S, "ab%c")), entries) == [True, True]
    assert prune(Like(S, "abc"), entries) == [True, False]
    assert prune(Like(S, "ab\\x"), entries) == [True, True]


def test_strings_beyond_the_basic_plane_are_bounded_in_both_orders():
    # cases B3, B20: prefix predicates; UTF-8 and UTF-16 order of keys
    letter, private = "\U0001d49c", "\uffff"
    # By UTF-16 the letter sorts before the private character, by UTF-8 after it.
    utf16 = {S: bounds(pa.string(), [(letter, private), ("a" + letter, "a" + private)])}
    assert prune(compare(Op.EQ, S, "\ue000", pa.string()), utf16) == [True, False]
    assert prune(compare(Op.LT, S, "b", pa.string()), utf16) == [True, True]
    assert prune(compare(Op.GT, S, "b", pa.string()), utf16) == [True, False]
    assert prune(compare(Op.EQ, S, "c", pa.string()), utf16) == [True, False]
    single = {S: bounds(pa.string(), [(letter, letter)])}
    assert prune(compare(Op.NE, S, letter, pa.string()), single) == [True]


def test_binary_bounds_are_not_used_but_null_counts_are():
    y = Column(("y",), pa.binary())
    entries = {y: bounds(pa.binary(), [(b"a", b"b"), (None, None)], [0, 10])}
    assert prune(compare(Op.EQ, y, b"z", pa.binary()), entries) == [True, False]
    assert prune(IsNull(y), entries) == [False, True]


def test_decimals_of_another_scale_are_compared_by_value():
    # case B8: decimal scale
    n = Column(("n",), pa.decimal128(10, 2))
    wide = bounds(pa.decimal128(30, 15), [(Decimal("12.34"), Decimal("99.99"))])
    narrow = bounds(pa.decimal128(10, 1), [(Decimal("12.3"), Decimal("99.9"))])
    below = compare(Op.LT, n, Decimal("12.34"), pa.decimal128(10, 2))
    assert prune(below, {n: wide}) == [False]
    assert prune(below, {n: narrow}) == [True]


def test_milliseconds_that_bound_microseconds_are_widened():
    # case B7: time units and zones
    base = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    entries = {Z: bounds(pa.timestamp("ms", "UTC"), [(base, base)])}
    inside = base + dt.timedelta(microseconds=900)
    assert prune(compare(Op.EQ, Z, inside, MICROS), entries) == [True]
    outside = base + dt.timedelta(microseconds=1001)
    assert prune(compare(Op.EQ, Z, outside, MICROS), entries) == [False]
    unzoned = Column(("z",), pa.timestamp("us"))
    naive = dt.datetime(2030, 1, 1)
    assert prune(compare(Op.EQ, unzoned, naive, pa.timestamp("us")), entries) == [True]


def test_bounds_of_a_narrower_type_hold_after_the_column_was_widened():
    # case B9: type widening
    entries = {A: bounds(pa.int32(), [(1, 3)])}
    assert prune(compare(Op.EQ, A, 9, pa.int64()), entries) == [False]
    text = {S: bounds(pa.int32(), [(1, 3)])}
    assert prune(compare(Op.EQ, S, "9", pa.string()), text) == [True]


def instants(*times):
    return [dt.datetime.fromisoformat(f"{time}+00:00") for time in times]


def test_functions_that_keep_order_carry_bounds():
    # case B11: index on f(ts)
    first, second = instants("2020-06-01", "2021-06-01")
    entries = {Z: bounds(MICROS, [(first, first), (second, second)])}
    year = compare(Op.EQ, Call("year", (Z,)), 2020, pa.int32())
    assert prune(year, entries) == [True, False]
    assert prune(year, entries, "Europe/Berlin") == [True, False]
    day = compare(Op.GT, Cast(Z, pa.date32()), dt.date(2021, 1, 1), pa.date32())
    assert prune(day, entries) == [False, True]
    month = compare(Op.EQ, Call("month", (Z,)), 1, pa.int32())
    assert prune(month, entries) == [True, True]
    null = IsNotNull(Call("year", (Z,)))
    assert prune(null, {Z: bounds(MICROS, [(first, first)], [10])}) == [False]


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("yyyy-MM-dd", "2020-06-01", [True, False, True]),
        ("yyyy-MM", "2020-06", [True, False, True]),
        ("MM-yyyy", "06-2020", [True, True, True]),
        ("yyyy-dd", "2020-01", [True, True, True]),
        ("yy-MM-dd", "20-06-01", [True, True, True]),
    ],
)
def test_only_formats_that_sort_as_time_carry_bounds_and_only_for_four_digit_years(
    pattern, value, expected
):
    # case B6: formats
    micros = [1_590_969_600_000_000, 1_622_505_600_000_000, 253_402_387_200_000_000]
    times = pa.array(micros, pa.int64()).view(MICROS)
    entry = bounds(pa.int64(), [(value, value) for value in micros])
    entries = {
        Z: ColumnBounds(MICROS, times, times, entry.null_count, entry.value_count, entry.known)
    }
    call = Call("date_format", (Z, Literal(pattern, pa.string())))
    assert prune(compare(Op.EQ, call, value, pa.string()), entries) == expected


def test_clocks_that_go_back_widen_what_is_carried():
    # case B7: time units and zones
    # At 01:00 UTC Berlin goes from 03:00 back to 02:00, so 02:50 lies outside f(min) to f(max).
    low, high = instants("2021-10-31T00:40:00", "2021-10-31T01:10:00")
    entries = {Z: bounds(MICROS, [(low, high)])}
    call = Call("date_format", (Z, Literal("yyyy-MM-dd HH:mm", pa.string())))
    late = compare(Op.EQ, call, "2021-10-31 02:59", pa.string())
    assert prune(late, entries, "Europe/Berlin") == [True]
    assert prune(late, entries, "UTC") == [False]


def test_arithmetic_that_wraps_carries_nothing():
    i = Column(("i",), pa.int32())
    entries = {i: bounds(pa.int32(), [(1, 2), (1, 2**31 - 1)])}
    call = Call("+", (i, Literal(1, pa.int32())))
    assert prune(compare(Op.LT, call, 0, pa.int32()), entries) == [False, True]


def test_an_index_on_an_expression_answers_for_it_and_not_for_its_column():
    # case B61: expression index
    upper = Call("upper", (S,))
    used = set()
    entries = {upper: bounds(pa.string(), [("ADA", "BOB"), ("X", "Z")])}
    by_expression = compare(Op.EQ, upper, "BOB", pa.string())
    assert may_match(by_expression, entries, 2, used=used).tolist() == [True, False]
    assert used == {upper}
    used.clear()
    by_column = compare(Op.EQ, S, "bob", pa.string())
    assert may_match(by_column, entries, 2, used=used).tolist() == [True, True]
    assert used == set()
    # Upper case of other characters depends on the engine that built the index.
    other = compare(Op.EQ, upper, "ÖL", pa.string())
    assert may_match(other, entries, 2).tolist() == [True, True]


def test_an_index_on_a_function_that_is_not_known_here_still_answers():
    call = Call("soundex", (S,))
    entries = {call: bounds(pa.string(), [("A100", "B200"), ("X", "Z")])}
    assert prune(compare(Op.EQ, call, "B100", pa.string()), entries) == [True, False]
    other = compare(Op.EQ, Call("soundex", (Column(("t",), pa.string()),)), "B", pa.string())
    assert prune(other, entries) == [True, True]


def test_partition_values_are_evaluated_and_not_estimated():
    entries = {
        S: exact_bounds(pa.array(["2020", "x", None])),
        D: exact_bounds(pa.array([NAN, 0, 1])),
    }
    assert prune(compare(Op.EQ, Cast(S, pa.int32()), 2020, pa.int32()), entries) == [
        True,
        False,
        False,
    ]
    assert prune(Not(Like(S, "2%")), entries) == [False, True, False]
    assert prune(IsNull(S), entries) == [False, False, True]
    assert prune(compare(Op.GT, D, 0.5, pa.float64()), entries) == [True, False, True]


def test_slices_are_as_wide_as_their_files():
    # case B10: loose bounds
    files = bounds(
        pa.int64(),
        [(1, 3), (7, 9), (0, 0), (None, None), (4, 4), (None, None)],
        [0, 0, 10, 0, 0, -1],
        [10, 10, 10, 0, 10, 10],
    )
    slices = merge_by_group(files, np.array([0, 0, 0, 0, 1, 2]), 4)
    assert slices.minimum.to_pylist() == [1, 4, None, None]
    assert slices.maximum.to_pylist() == [9, 4, None, None]
    assert slices.null_count.tolist() == [10, 0, -1, -1]
    assert slices.value_count.tolist() == [30, 10, 10, -1]
    assert slices.known.tolist() == [True, True, True, False]


def test_a_file_without_bounds_leaves_its_slice_without():
    files = bounds(pa.string(), [("a", "b"), (None, None)])
    merged = merge_by_group(files, np.array([0, 0]), 1)
    assert merged.minimum.to_pylist() == [None]
    assert prune(compare(Op.EQ, S, "z", pa.string()), {S: merged}) == [True]


def test_two_columns_are_compared_by_both_ranges():
    b = Column(("b",), pa.int64())
    entries = {**THREE, b: bounds(pa.int64(), [(4, 6)] * 3)}
    assert prune(Compare(Op.GT, A, b), entries) == [False, True, True]
    assert prune(Compare(Op.EQ, A, b), entries) == [False, True, False]
