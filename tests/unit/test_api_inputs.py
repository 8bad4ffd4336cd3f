"""What `lakedex.open` and `Table` make of odd arguments: an answer, or an error that names them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakedex
from lakedex.errors import InvalidInput
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("f", pa.float64())])
NAN = pa.scalar(float("nan"))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    builder = TableBuilder(
        tmp_path_factory.mktemp("odd") / "t",
        SCHEMA,
        record_key="id",
        indexes=("column_stats", "record_index"),
    )
    rows = [{"id": f"k{n}", "n": n, "f": n / 2} for n in range(4)]
    builder.commit([("", pa.Table.from_pylist([row], SCHEMA)) for row in rows])
    return lakedex.open(builder.finish())


@pytest.mark.parametrize("condition", [5, True, [], [("n", "=", 5)], b"n = 5"])
def test_a_filter_of_a_wrong_type_is_named(table, condition):
    for ask in (table.to_arrow, table.to_batches, table.files, table.explain):
        with pytest.raises(InvalidInput, match="a filter is SQL text"):
            ask(condition)


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("nope") == 5,
        pc.field("N") == 5,
        pc.field("n"),
        pc.field("n") == "text",
        pc.field("id").cast("int64") == 5,
        (pc.field("id") == "none of them") & (pc.field("n") == "text"),
    ],
    ids=str,
)
def test_an_arrow_filter_that_cannot_be_evaluated_is_named_whatever_is_pruned(table, condition):
    with pytest.raises(InvalidInput, match=r"the filter .* cannot be evaluated"):
        table.to_arrow(condition)
    with pytest.raises(InvalidInput, match=r"the filter .* cannot be evaluated"):
        list(table.to_batches(condition))


def test_an_sql_filter_that_cannot_be_evaluated_fails_though_all_is_pruned(table):
    for key in ("k1", "none of them"):
        with pytest.raises(lakedex.LakedexError, match="cast from double to string"):
            table.to_arrow(f"id = '{key}' and cast(f as string) = '0.5'")


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (pc.field("f") == NAN, 0),
        (pc.field("f") != NAN, 4),
        ((pc.field("f") < NAN) | (pc.field("n") == 1), 1),
        (pc.field(6) == 2, 1),
    ],
    ids=str,
)
def test_an_arrow_filter_may_name_columns_that_are_not_asked_for(table, condition, count):
    assert table.to_arrow(condition, columns=["id"]).num_rows == count


def test_rows_without_columns_are_still_counted(table):
    assert table.to_arrow(columns=[]).num_rows == 4
    assert table.to_arrow("n > 1", columns=[]).num_rows == 2
    assert sum(batch.num_rows for batch in table.to_batches(columns=[])) == 4


def test_columns_come_in_the_order_asked_for_from_any_iterable(table):
    assert table.to_arrow("n = 1", columns=["n", "id", "n"]).column_names == ["n", "id", "n"]
    assert table.to_arrow("n = 1", columns=(name for name in ["f", "id"])).num_columns == 2


@pytest.mark.parametrize("columns", ["id", 5, [5], [None], ["nope"], ["id", "st.a"]])
def test_columns_that_are_no_names_are_refused(table, columns):
    with pytest.raises(InvalidInput):
        table.to_arrow(columns=columns)


@pytest.mark.parametrize("time", [5, "", "soon"])
def test_a_time_that_is_none_is_refused(table, time):
    with pytest.raises(InvalidInput, match="is not a time"):
        table.to_arrow(as_of=time)
    with pytest.raises(InvalidInput, match="is not a time"):
        table.changes(time)
    with pytest.raises(InvalidInput, match="is not a time"):
        table.changes("earliest", time)


@pytest.mark.parametrize(
    "arguments", [{"keys": "abc"}, {"keys": [5]}, {"prefix": 5}, {"prefix": [5]}]
)
def test_keys_of_the_metadata_table_must_be_lists_of_text(table, arguments):
    with pytest.raises(InvalidInput, match=next(iter(arguments))):
        table.metadata("files", **arguments)


def test_keys_of_the_metadata_table_may_be_an_arrow_column(table):
    named = table.metadata("record_index", keys=["k3", "k1", "absent"])
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(["k3", "k1", "absent"], kind)
        assert table.metadata("record_index", keys=column).equals(named)
        assert table.metadata("record_index", keys=pa.chunked_array([column])).equals(named)
    assert table.metadata("record_index", keys=pa.chunked_array([], pa.string())).num_rows == 0
    for wrong in (pa.array([1]), pa.array(["k1", None])):
        with pytest.raises(InvalidInput, match="keys takes texts, none of them null"):
            table.metadata("record_index", keys=wrong)


def test_the_timeline_is_a_row_of_instants(table):
    assert [instant.requested_time for instant in table.timeline] == ["20240101000000010"]
    assert len(table.timeline) == 1
    assert repr(table.timeline).splitlines()[1:] == ["  20240101000000010 commit completed"]


def test_no_keys_and_no_prefixes_give_no_records(table):
    assert table.metadata("files", keys=[]).num_rows == 0
    assert table.metadata("files", prefix=[]).num_rows == 0
    with pytest.raises(InvalidInput, match="partition takes names, not 5"):
        table.metadata(5)


def test_read_options_take_any_collection_of_names(table):
    options = lakedex.ReadOptions(without_indexes=["record_index"])
    report = lakedex.open(table.path, options=options).explain("id = 'k1'")
    reasons = {step.index: step.reason for step in report.steps}
    assert reasons["record_index"] == "switched off by the caller"


@pytest.mark.parametrize(
    "wrong",
    [
        {"without_indexes": "all"},
        {"time_zone": None},
        {"expression_time_zone": 2},
        {"weighs_cost": "no"},
        {"counts_usage": None},
    ],
)
def test_read_options_of_a_wrong_type_are_named(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        lakedex.ReadOptions(**wrong)


@pytest.mark.parametrize("name", ["time_zone", "expression_time_zone"])
def test_time_zones_that_do_not_exist_are_named_at_once(table, name):
    for zone in ("Mars/Olympus", ""):
        if zone or name == "time_zone":
            with pytest.raises(InvalidInput, match=f"there is no time zone '{zone}'"):
                lakedex.open(table.path, options={name: zone})


@pytest.mark.parametrize("name", ["LAKEDEX_INDEX_COST", "LAKEDEX_INDEX_USAGE"])
def test_an_environment_variable_with_an_unknown_value_is_named(table, monkeypatch, name):
    monkeypatch.setenv(name, "ingore")
    with pytest.raises(InvalidInput, match=f"environment variable {name} is .*not 'ingore'"):
        lakedex.open(table.path).to_arrow("id = 'k1'")


@pytest.mark.parametrize("wrong", [None, 5, b"t"])
def test_a_path_of_a_wrong_type_is_named(wrong):
    with pytest.raises(InvalidInput, match="path of a table"):
        lakedex.open(wrong)


def test_options_of_a_wrong_type_are_named(table):
    with pytest.raises(InvalidInput, match="options must be ReadOptions"):
        lakedex.open(table.path, options="UTC")
    assert lakedex.open(table.path, options={"time_zone": "UTC", "weighs_cost": False}).files()
    with pytest.raises(InvalidInput, match="'without_index'; did you mean 'without_indexes'"):
        lakedex.open(table.path, options={"without_index": ["all"]})
    with pytest.raises(InvalidInput, match="'colum_stats'; did you mean 'column_stats'"):
        lakedex.open(table.path, options={"without_indexes": ["colum_stats"]})
    same = lakedex.ReadOptions(without_indexes={"COL_STATS", "my_index", "all"})
    assert same.without_indexes == {"column_stats", "my_index", "all"}


# case B79: filters that a scan does not know
def test_filters_that_are_not_understood_are_left_to_arrow_and_exclude_no_file(table):
    """Other engines get tables and readers: what they push down themselves stays with Arrow."""
    unknown = pc.match_substring_regex(pc.field("id"), "k[13]")
    for condition in (unknown, unknown & (pc.bit_wise_and(pc.field("n"), 1) == 1)):
        assert sorted(table.to_arrow(condition)["id"].to_pylist()) == ["k1", "k3"]
        assert table.to_reader(condition).read_all().num_rows == 2
        assert len(table.files(condition)) == len(table.files())
    assert type(table.to_reader()) is pa.RecordBatchReader
    both = unknown & (pc.field("n") > 2)
    assert table.to_arrow(both)["id"].to_pylist() == ["k3"]
    assert len(table.files(both)) <= len(table.files())
