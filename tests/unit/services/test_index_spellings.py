"""Names of kinds and options of indexes that scripts for Hudi, old and new, use."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakedex
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.services.index_creating import create_index, refresh_index
from lakedex.services.index_dropping import drop_index
from lakedex.txn.transaction import TransactionOptions
from tests.support.write_lab import Lab, source

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ver", pa.int64())])
ROWS = [{"id": name, "p": name[0].lower(), "ver": 1} for name in ("Ann", "bob", "Cem")]


@pytest.fixture
def people(tmp_path) -> Lab:
    table = Lab(tmp_path, schema=SCHEMA)
    table.writer.insert(source(ROWS, SCHEMA))
    return table


def sizes(table: Lab, name: str) -> list[int]:
    found = lakedex.open(table.path).metadata(f"expr_index_{name}").to_pylist()
    return [len(each["BloomFilterMetadata"]["bloomFilter"]) for each in found]


def test_the_words_of_the_proposal_are_those_of_hudi_today(people):
    create_index(people.writer, "up", "id", using="col_stats", options={"func": "upper"})
    (made,) = [each for each in lakedex.open(people.path).indexes() if each.name == "expr_index_up"]
    assert (made.function, made.kind) == ("upper", "expr_index")
    definition = lakedex.open(people.path).snapshot.definitions["expr_index_up"]
    assert (definition.index_type, dict(definition.options)) == ("column_stats", {"expr": "upper"})
    assert len(people.rows("upper(id) = 'BOB'")) == 1
    create_index(people.writer, "cut", "id", options={"expr": "substring(ID, 1, 2)"})
    definition = lakedex.open(people.path).snapshot.definitions["expr_index_cut"]
    assert dict(definition.options) == {"expr": "substring", "pos": "1", "len": "2"}
    both = {"func": "upper", "expr": "lower"}
    with pytest.raises(InvalidInput, match="'lower' by expr, and 'upper' by func"):
        create_index(people.writer, "two", "id", using="column_stats", options=both)


@pytest.mark.parametrize(
    ("name", "using", "column", "made"),
    [
        ("record_level", "", "id", "record_index"),
        ("keys", "RECORD_LEVEL", "id", "record_index"),
        ("bloom", "BLOOM_FILTER", "id", "bloom_filters"),
        ("Bloom_Filter", "", "id", "bloom_filters"),
        ("up", "BLOOM_FILTER", "upper(id)", "expr_index_up"),
        ("stats", "Col_Stats", "lower(p)", "expr_index_stats"),
    ],
)
def test_kinds_of_the_proposals_are_those_of_hudi_today(people, name, using, column, made):
    create_index(people.writer, name, column, using=using)
    table = lakedex.open(people.path)
    assert made in {each.name for each in table.indexes()}
    assert table.verify().ok
    people.holds(ROWS, "id = 'bob'", "upper(id) = 'BOB'", "p = 'a'")
    other = {"record_index": "RECORD_LEVEL", "bloom_filters": "bloom_filter"}.get(made, made)
    drop_index(people.writer.address, other, TransactionOptions())
    assert made not in {each.name for each in lakedex.open(people.path).indexes()}


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"options": {"expr": "upper", "fromat": "y"}}, InvalidInput, "did you mean 'format'"),
        ({"options": {"expr": "upper", "colour": "1"}}, InvalidInput, "'colour'; there are expr"),
        ({"options": {"hoodie.index.nam": "a"}}, InvalidInput, "did you mean 'hoodie.index.name'"),
        ({"using": "colum_stats"}, UnsupportedFeature, "did you mean 'column_stats'"),
    ],
)
def test_misspelled_options_and_kinds_of_an_index(people, how, error, words):
    with pytest.raises(error, match=words):
        create_index(people.writer, "up", "p", **how)
    assert len(people.rows()) == len(ROWS)


def test_filters_are_as_large_as_their_options_say(people):
    given = {"expr": "lower", "fpp": "0.01", "numentries": "5000", "filtertype": "SIMPLE"}
    create_index(people.writer, "wide", "id", using="bloom_filters", options=given)
    create_index(people.writer, "plain", "lower(id)", using="bloom_filters")
    assert min(sizes(people, "wide")) > 10 * max(sizes(people, "plain"))
    definition = lakedex.open(people.path).snapshot.definitions["expr_index_wide"]
    assert dict(definition.options) == given
    before = sizes(people, "wide")
    refresh_index(people.writer, "wide")
    people.writer.upsert(source([ROWS[0] | {"ver": 2}], SCHEMA))
    assert {*sizes(people, "wide")} == {*before}
    people.holds([ROWS[0] | {"ver": 2}, *ROWS[1:]], "lower(id) = 'cem'", "lower(id) = 'x'")


@pytest.mark.parametrize(
    ("using", "name", "value"),
    [
        ("bloom_filters", "fpp", "1.5"),
        ("bloom_filters", "fpp", "x"),
        ("bloom_filters", "numentries", "0"),
        ("bloom_filters", "numentries", "99999999999"),
        ("bloom_filters", "filtertype", "lucene"),
        ("column_stats", "fpp", "0.1"),
    ],
)
def test_filters_that_cannot_be_are_refused_by_the_option(people, using, name, value):
    with pytest.raises(InvalidInput, match=name):
        create_index(people.writer, "i", "id", using=using, options={"expr": "lower", name: value})
    assert "expr_index_i" not in {each.name for each in lakedex.open(people.path).indexes()}


def test_capital_and_small_letters_of_a_name_are_the_same(people):
    create_index(people.writer, "Up", "upper(id)")
    with pytest.raises(InvalidInput, match="has the index expr_index_Up already"):
        create_index(people.writer, "UP", "lower(id)")
    assert len(people.rows("up = 'BOB'")) == 1
    refresh_index(people.writer, "up")
    drop_index(people.address, "UP", people.writer.target().patience)
    assert "expr_index_Up" not in {each.name for each in lakedex.open(people.path).indexes()}


def test_a_list_is_refused_with_what_to_do_instead(people):
    given = {"expr": "split", "pattern": "-"}
    with pytest.raises(UnsupportedFeature, match=r"split\(s, '-'\)\[0\]"):
        create_index(people.writer, "parts", "id", using="column_stats", options=given)
