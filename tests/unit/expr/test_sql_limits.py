"""Predicates that are too much: refused in time, not understood for minutes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakedex.errors import InvalidDefinition, InvalidInput
from lakedex.expr import bind_predicate, evaluate, parse_predicate
from lakedex.expr.sql_lexer import MAX_TOKENS

BATCH = pa.table({"city": ["Oslo", None]})


def test_a_text_of_too_many_words_is_refused_where_they_are_too_many():
    text = "id in (1" + ",1" * MAX_TOKENS + ")"
    with pytest.raises(InvalidDefinition, match="more than 65536 words") as caught:
        parse_predicate(text)
    assert 0 < caught.value.position < len(text)


@pytest.mark.parametrize("function", ["lpad", "rpad"])
def test_padding_to_gigabytes_is_refused(function):
    tree = bind_predicate(
        parse_predicate(f"{function}(city, 2147483647, 'ab') = city"), BATCH.schema
    )
    with pytest.raises(InvalidInput, match="2147483647 characters is too much"):
        evaluate(tree, BATCH)


def test_a_very_long_unknown_name_is_shown_in_part():
    with pytest.raises(InvalidInput) as caught:
        bind_predicate(parse_predicate(f"`{'x' * 100_000}` = 1"), BATCH.schema)
    assert len(str(caught.value)) < 1000


def test_a_decimal_without_digits_is_refused_with_its_place():
    with pytest.raises(InvalidDefinition, match="no such decimal type at character 13"):
        parse_predicate("cast(city as decimal()) = 1")
