"""Random predicates: evaluation against a row-by-row reference, pruning against evaluation."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakedex.expr.bounds import exact_bounds, merge_by_group
from lakedex.expr.evaluate import evaluate, filter_table
from lakedex.expr.may_match import may_match
from lakedex.expr.tree import (
    Call,
    Compare,
    Literal,
    Not,
    Op,
    StartsWith,
)
from tests.support.file_statistics import (
    UNKNOWN,
    expression_bounds,
    random_files,
    replaced,
)
from tests.support.predicate_zoo import (
    DICE,
    FUNCTION_CASES,
    POOLS,
    ZONES,
    any_leaf,
    column,
    literal,
    random_leaf,
    random_rows,
    random_tree,
    table_of,
)
from tests.support.spark_reference import order_key, reference

QUICK = settings(max_examples=25, deadline=None)
PREDICATES = 40


def matching_files(files, predicate, zone="UTC"):
    """The files that hold a row for which the predicate is true."""
    return set(filter_table(files.table, predicate, time_zone=zone)["file"].to_pylist())


@QUICK
@given(DICE)
def test_evaluation_gives_what_a_row_by_row_reading_of_the_rules_gives(dice):
    table = table_of(random_rows(dice))
    for _ in range(PREDICATES):
        predicate = random_tree(dice, random_leaf)
        expected = [reference(predicate, row) for row in table.to_pylist()]
        assert evaluate(predicate, table).to_pylist() == expected, predicate


@QUICK
@given(DICE)
def test_no_file_with_a_matching_row_is_pruned(dice):
    # cases B1, B3, B4, B5, B6, B7, B20
    files = random_files(dice)
    for _ in range(PREDICATES):
        predicate, zone = random_tree(dice, any_leaf), dice.choice(ZONES)
        kept = set(np.flatnonzero(may_match(predicate, files.bounds, files.count, time_zone=zone)))
        assert matching_files(files, predicate, zone) <= kept, predicate


MANY = random_files(random.Random(20), 300)


@pytest.mark.parametrize("name", list(POOLS))
def test_no_comparison_of_a_column_prunes_one_of_many_files_wrongly(name):
    # cases B1, B3, B20
    constants = [literal(name, value) for value in POOLS[name][1]]
    leaves = [Compare(op, column(name), constant) for op in Op for constant in constants]
    if name == "s":
        leaves += [StartsWith(column(name), constant.value) for constant in constants]
    pairs = np.arange(300) // 2
    merged = {key: merge_by_group(value, pairs, 150) for key, value in MANY.bounds.items()}
    for leaf in leaves:
        for predicate in (leaf, Not(leaf)):
            matching = matching_files(MANY, predicate)
            assert matching <= set(np.flatnonzero(may_match(predicate, MANY.bounds, 300))), (
                predicate
            )
            slices = {file // 2 for file in matching}
            assert slices <= set(np.flatnonzero(may_match(predicate, merged, 150))), predicate


@pytest.mark.parametrize("zone", ZONES)
def test_no_comparison_of_a_function_prunes_one_of_many_files_wrongly(zone):
    # cases B6, B7, B11
    for subject, constants in FUNCTION_CASES:
        for op in (Op.EQ, Op.LT, Op.GTE):
            for constant in constants:
                predicate = Compare(op, subject, constant)
                kept = set(np.flatnonzero(may_match(predicate, MANY.bounds, 300, time_zone=zone)))
                assert matching_files(MANY, predicate, zone) <= kept, predicate


@QUICK
@given(DICE)
def test_no_slice_with_a_matching_row_is_pruned_by_merged_bounds(dice):
    # cases B1, B10, B20
    files = random_files(dice)
    groups = np.array([dice.randint(0, 2) for _ in range(files.count)])
    merged = {key: merge_by_group(entry, groups, 3) for key, entry in files.bounds.items()}
    for _ in range(PREDICATES):
        predicate = random_tree(dice, any_leaf)
        kept = set(np.flatnonzero(may_match(predicate, merged, 3)))
        assert {groups[file] for file in matching_files(files, predicate)} <= kept, predicate


@QUICK
@given(DICE)
def test_partition_values_prune_exactly_or_keep(dice):
    table = table_of(random_rows(dice, least=1))
    bounds = {column(name): exact_bounds(table[name].combine_chunks()) for name in POOLS}
    for _ in range(PREDICATES):
        predicate, zone = random_tree(dice, any_leaf), dice.choice(ZONES)
        kept = may_match(predicate, bounds, len(table), time_zone=zone).tolist()
        answers = evaluate(predicate, table, time_zone=zone).to_pylist()
        assert kept == [answer is True for answer in answers], predicate


@QUICK
@given(DICE)
def test_an_index_on_an_expression_keeps_every_file_with_a_matching_row(dice):
    # cases B11, B61: casts and functions in predicates; expression index and its bare column
    files = random_files(dice)
    for subject, constants in dice.sample(FUNCTION_CASES, 8):
        if subject.__class__ is Call and subject.function == "date_add":
            continue  # Python's dates end where this one goes on
        everything = evaluate(subject, files.table).combine_chunks()
        numbers = files.table["file"].to_numpy()
        values = [everything.filter(pa.array(numbers == file)) for file in range(files.count)]
        entries = []
        for array in values:
            given_values = [value for value in array.to_pylist() if value is not None]
            low = min(given_values, key=order_key, default=None)
            entries.append((low, max(given_values, key=order_key, default=None), array))
        bounds = {subject: expression_bounds(values[0].type, entries)}
        for op in Op:
            predicate = Compare(op, subject, dice.choice(constants))
            kept = set(np.flatnonzero(may_match(predicate, bounds, files.count)))
            assert matching_files(files, predicate) <= kept, predicate


@QUICK
@given(DICE)
def test_a_part_that_was_not_understood_never_prunes_a_possible_file(dice):
    # cases B5, B12: AND and OR with unindexed columns; predicates that the optimizer rewrote
    files = random_files(dice)
    for _ in range(PREDICATES // 3):
        predicate = random_tree(dice, lambda d: random_leaf(d) if d.random() < 0.7 else UNKNOWN)
        kept = set(np.flatnonzero(may_match(predicate, files.bounds, files.count)))
        for meaning in (True, False, None):
            read = replaced(predicate, Literal(meaning, pa.bool_()))
            assert matching_files(files, read) <= kept, predicate
