"""Record keys and partition paths of rows: as Hudi spelled them, as a model does, or refused."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakedex
from lakedex.config import TableConfig
from lakedex.errors import InvalidInput, UnsupportedFeature
from lakedex.filegroup import partition_layout
from lakedex.keys.generator import KeyGenerator
from lakedex.keys.partition_path import DEFAULT_PARTITION, PartitionValue, escape_path_value
from lakedex.storage import LocalStorage
from lakedex.storage.paths import normalise
from lakedex.timeline.properties_file import load_table_config
from tests.support.golden import golden_names

TIMEBASED = "hoodie.keygen.timebased."
HIVE = "hoodie.datasource.write.hive_style_partitioning"
SLASH_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"


def config(keys="id", partitions="", kind=None, **more: str) -> TableConfig:
    props = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": keys,
        "hoodie.table.partition.fields": partitions,
        **({"hoodie.table.keygenerator.type": kind} if kind else {}),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return TableConfig.from_properties(props, "hoodie.properties")


def timed(rows: pa.Table, **options: str) -> list[str]:
    names = {f"{TIMEBASED}{name.replace('_', '.')}": value for name, value in options.items()}
    table = config(partitions="ts", kind="TIMESTAMP", **names)
    return KeyGenerator.of(table, rows.schema).partition_paths(rows).to_pylist()


@pytest.mark.parametrize("name", golden_names())
def test_keys_and_paths_are_those_that_hudi_wrote(golden, name):
    path = golden(name).path
    rows = lakedex.open(path).to_arrow()
    table = load_table_config(LocalStorage(path))
    generator = pickle.loads(pickle.dumps(KeyGenerator.of(table, rows.schema)))
    assert generator.keys(rows).equals(rows["_hoodie_record_key"].combine_chunks())
    assert generator.partition_paths(rows).equals(rows["_hoodie_partition_path"].combine_chunks())


@pytest.mark.parametrize(
    ("kind", "keys", "partitions", "expected"),
    [
        ("SIMPLE", "id", "p", "1"),
        (None, "id", "p", "1"),
        ("COMPLEX", "id", "p", "id:1"),  # case B28: complex keys with one field
        (None, "id", "p,q", "id:1"),
        (None, "id,s", "", "id:1,s:x:y,z"),  # case B51: keys with a colon or a comma
        ("NON_PARTITION", "id", "", "1"),
        ("CUSTOM", "id", "p:SIMPLE", "1"),
        ("CUSTOM", "id,p", "q:simple", "id:1,p:a"),
        ("SIMPLE", "n.k", "p", "7"),
    ],
)
def test_the_generator_decides_whether_names_stand_in_the_key(kind, keys, partitions, expected):
    rows = pa.table({"id": [1], "s": ["x:y,z"], "p": ["a"], "q": ["b"], "n": [{"k": 7}]})
    generator = KeyGenerator.of(config(keys, partitions, kind), rows.schema)
    assert generator.keys(rows).to_pylist() == [expected]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (-7, pa.int32(), "-7"),
        (True, pa.bool_(), "true"),
        (1.0, pa.float64(), "1.0"),
        (0.001, pa.float64(), "0.001"),
        (1.1, pa.float32(), "1.1"),
        (dt.date(2024, 1, 2), pa.date32(), "2024-01-02"),
        (dt.date(1, 1, 1), pa.date32(), "0001-01-01"),
        (dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC"), "1000000"),
        (dt.datetime(1969, 12, 31), pa.timestamp("us"), "-86400000000"),
        (Decimal("1.50"), pa.decimal128(9, 2), "1.50"),
        # As BigDecimal.toString of Java 17 prints them.
        (Decimal("0.0000001"), pa.decimal128(20, 10), "1.000E-7"),
        (Decimal("0"), pa.decimal128(20, 10), "0E-10"),
        ("é", pa.large_string(), "é"),
        ("é", pa.string_view(), "é"),
        ("é", pa.dictionary(pa.int8(), pa.string()), "é"),
    ],
)
def test_values_are_spelled_as_java_does(value, dtype, expected):
    rows = pa.table({"id": pa.array([value], dtype), "p": pa.array([value], dtype)})
    generator = KeyGenerator.of(config(partitions="p"), rows.schema)
    assert generator.keys(rows).to_pylist() == [expected]
    assert generator.partition_paths(rows).to_pylist() == [expected]


@pytest.mark.parametrize("value", [1e7, 1e-4, 0.1 + 0.2, float("nan"), float("inf"), -1e300])
def test_a_double_that_engines_may_spell_differently_is_refused(value):
    rows = pa.table({"id": [1.5, value]})
    with pytest.raises(InvalidInput, match=r"'id': .* in row 1"):
        KeyGenerator.of(config(), rows.schema).keys(rows)


@pytest.mark.parametrize(
    ("keys", "columns", "words"),
    [
        ("id", {"id": ["a", None]}, "id: the value in row 1 is null"),
        ("id", {"id": ["a", ""]}, "id: the value in row 1 is empty"),
        ("a,b", {"a": ["x", None], "b": ["", ""]}, "a, b: the value in row 1 is null"),
        ("id", {"other": [1]}, "no record key column 'id'"),
        ("s.x", {"s": [{"y": 1}]}, "no record key column 's.x'"),
        ("id", {"id": [b"x"]}, "'id' of type binary"),
        ("id", {"id": [[1]]}, "'id' of type list"),
    ],
)
def test_bad_keys_are_refused_by_name(keys, columns, words):
    rows = pa.table(columns)
    with pytest.raises(InvalidInput, match=words):
        KeyGenerator.of(config(keys), rows.schema).keys(rows)


def test_rows_that_lack_a_key_column_later_are_refused():
    generator = KeyGenerator.of(
        config("a", "p"), pa.schema([("a", pa.int32()), ("p", pa.string())])
    )
    with pytest.raises(InvalidInput, match="partition column 'p'"):
        generator.partition_paths(pa.table({"a": [1]}))


HOSTILE = [
    "..",
    ".",
    "/etc",
    "a//b",
    "a/",
    "a/../b",
    "a/./b",
    "a/.hoodie",
    "../../evil",
    ".hoodie",
    "a\\b",
    "a\0b",
    "a\nb",
    "s3:",
    "x" * 300,
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("hive", ["true", "false"])
def test_a_value_cannot_choose_its_folder(value, hive):
    rows = pa.table({"id": [1, 2], "p": ["fine", value]})
    style = {HIVE: hive}
    if hive == "true" and value in (".hoodie", "s3:"):
        pytest.skip("harmless behind the name of its column")
    with pytest.raises(InvalidInput, match="partition column 'p': the value"):
        KeyGenerator.of(config(partitions="p", **style), rows.schema).partition_paths(rows)


def paths_of(rows, partitions, **properties):
    table = config(partitions=partitions, **properties)
    return KeyGenerator.of(table, rows.schema).partition_paths(rows).to_pylist()


def test_slashes_make_folders_where_they_can_be_told_from_columns():
    """As Hudi writes them: in hive style, and in plain folders of one column."""
    rows = pa.table({"id": [1, 2], "p": ["2026/01/05", "x"], "q": ["a", "b/c"]})
    hive = {HIVE: "true"}
    assert paths_of(rows, "p") == ["2026/01/05", "x"]
    assert paths_of(rows, "p", **hive) == ["p=2026/01/05", "p=x"]
    assert paths_of(rows, "p,q", **hive) == ["p=2026/01/05/q=a", "p=x/q=b/c"]
    layout = partition_layout(config(partitions="p,q", **hive))
    types = {"p": pa.string(), "q": pa.string()}
    for path, row in zip(paths_of(rows, "p,q", **hive), rows.to_pylist(), strict=True):
        values = layout.values(path, types)
        assert {name: values[name].value for name in types} == {"p": row["p"], "q": row["q"]}
        assert all(value.known for value in values.values())
    with pytest.raises(InvalidInput, match=r"'2026/01/05' has a slash; set .*urlencode=true"):
        paths_of(rows, "p,q")
    other = pa.table({"id": [1], "p": ["a/q=b"], "q": ["c"]})
    for partitions in ("p", "p,q"):
        with pytest.raises(InvalidInput, match=r"'a/q=b' has '=' behind a slash"):
            paths_of(other, partitions, **hive)


def test_dashes_of_slash_separated_dates_are_slashes():
    rows = pa.table({"id": [1, 2, 3], "p": ["2026-01-05", None, "soon"], "q": ["a", "b", "c"]})
    slashes = {SLASH_DATES: "true"}
    paths = paths_of(rows, "p", **slashes)
    assert paths == ["2026/01/05", "__HIVE_DEFAULT_PARTITION__", "soon"]
    layout = partition_layout(config(partitions="p", **slashes))
    assert [layout.texts(path)["p"] for path in paths] == ["2026-01-05", None, "soon"]
    text, day = (layout.values(paths[0], {"p": kind})["p"] for kind in (pa.string(), pa.date32()))
    assert not text.known
    assert text.bounds == ("2026-01-05", "2026/01/05"), "other writers may store either"
    assert day == PartitionValue(dt.date(2026, 1, 5), known=True)
    wrong = [
        ("p", {HIVE: "true"}, rows, "does not go with .*hive_style_partitioning=true"),
        ("p,q", {}, rows, r"other than one partition column \(p, q\)"),
        ("p", {}, pa.table({"id": [1], "p": ["2026/01/05"]}), "with dashes, as 2026-01-05"),
        ("p", {}, pa.table({"id": [1], "p": ["a--b"]}), "empty or climbing"),
        ("p", {}, pa.table({"id": [1], "p": ["a-..-b"]}), "empty or climbing"),
        ("p", {}, pa.table({"id": [1], "p": [dt.date(2026, 1, 5)]}), "take a text column"),
    ]
    for partitions, properties, given_rows, words in wrong:
        with pytest.raises(InvalidInput, match=words):
            paths_of(given_rows, partitions, **slashes, **properties)


@pytest.mark.parametrize("hive", ["true", "false"])
def test_a_colon_that_hudi_would_take_for_a_scheme_is_refused_with_the_way_out(hive):
    rows = pa.table({"id": [1, 2], "p": ["x", "10:30"], "q": ["a:b", "c"]})
    style = {"hoodie.datasource.write.hive_style_partitioning": hive}
    with pytest.raises(InvalidInput, match=r"'p'.*'10:30' gives .* a colon.* set .*urlencode=true"):
        KeyGenerator.of(config(partitions="p,q", **style), rows.schema).partition_paths(rows)
    encoded = config(
        partitions="p", **style, **{"hoodie.datasource.write.partitionpath.urlencode": "true"}
    )
    found = KeyGenerator.of(encoded, rows.schema).partition_paths(rows).to_pylist()
    assert found[1].endswith("10%3A30")
    # Behind a slash a colon ends no scheme.
    behind = KeyGenerator.of(config(partitions="q,p", **style), rows.schema)
    assert behind.partition_paths(rows.slice(1)).to_pylist()[0].endswith("10:30")


@given(
    st.lists(st.one_of(st.none(), st.text(max_size=8)), min_size=1), st.booleans(), st.booleans()
)
def test_paths_follow_the_model_or_are_refused(values, hive, encode):
    rows = pa.table({"id": list(range(len(values))), "p": pa.array(values, pa.string())})
    table = config(
        partitions="p",
        **{
            "hoodie.datasource.write.hive_style_partitioning": str(hive).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(encode).lower(),
        },
    )
    expected = [
        ("p=" if hive else "")
        + ((escape_path_value(value) if encode else value) if value else DEFAULT_PARTITION)
        for value in values
    ]
    try:
        found = KeyGenerator.of(table, rows.schema).partition_paths(rows).to_pylist()
    except InvalidInput:
        assert any(
            path.startswith(".") or "/" in path or ":" in path or _unsafe(path) for path in expected
        )
        return
    assert found == expected
    assert all(normalise(f"{path}/x.parquet") for path in found)
    layout = partition_layout(table)
    told = [layout.texts(path)["p"] for path in found]
    assert told == [value or None for value in values]


def _unsafe(path: str) -> bool:
    try:
        normalise(path)
    except Exception:  # noqa: BLE001
        return True
    return False


@given(
    st.lists(st.tuples(st.integers(-5, 5) | st.none(), st.text(max_size=3) | st.none()), min_size=1)
)
def test_composite_keys_follow_the_model(pairs):
    rows = pa.table(
        {
            "a": pa.array([a for a, _ in pairs], pa.int32()),
            "b": pa.array([b for _, b in pairs], pa.string()),
        }
    )
    generator = KeyGenerator.of(config("a,b"), rows.schema)
    if any(a is None and not b for a, b in pairs):
        with pytest.raises(InvalidInput):
            generator.keys(rows)
        return
    texts = {None: "__null__", "": "__empty__"}
    assert generator.keys(rows).to_pylist() == [
        f"a:{texts.get(a, a)},b:{texts.get(b, b)}" for a, b in pairs
    ]


@given(st.lists(st.integers(-62_000_000_000, 253_000_000_000), min_size=1))
def test_unix_times_are_formatted_as_the_calendar_says(seconds):
    rows = pa.table({"id": seconds, "ts": seconds})
    found = timed(rows, timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy/MM/dd/HH")
    epoch = dt.datetime(1970, 1, 1)
    times = [epoch + dt.timedelta(seconds=value) for value in seconds]
    assert found == [f"{t.year:04}/{t.month:02}/{t.day:02}/{t.hour:02}" for t in times]


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (
            [1_700_000_000_123, None],
            {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyyMMdd'T'HHmmss.SSS"},
            ["20231114T221320.123", "19700101T000000.001"],
        ),
        (
            pa.array([-1, 1_700_000_000_123_456], pa.timestamp("us", "UTC")),
            # Java cuts off towards zero: a microsecond before 1970 is 1970.
            {
                "timestamp_type": "EPOCHMICROSECONDS",
                "output_dateformat": "YYYY-MM-dd HH.mm.ss.SSSSSS",
            },
            ["1970-01-01 00.00.00.000000", "2023-11-14 22.13.20.123000"],
        ),
        (
            pa.array([19_000], pa.date32()),
            {
                "timestamp_type": "SCALAR",
                "timestamp_scalar_time_unit": "days",
                "output_dateformat": "EEE d MMM yyyy",
            },
            ["Sat 8 Jan 2022"],
        ),
        (
            [1_700_000_000.9],
            {
                "timestamp_type": "UNIX_TIMESTAMP",
                "output_dateformat": "yyyy-MM-dd hh a",
                "timezone": "America/New_York",
            },
            ["2023-11-14 05 PM"],
        ),
        (
            ["2024-03-31T23:30:00+0200", "2024-03-31T23:30:00-05:00", "2024-03-31T23:30:00Z", None],
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": "yyyy-MM-dd'T'HH:mm:ssZ",
                "output_dateformat": "yyyy-MM-dd HH",
                "output_timezone": "GMT",
            },
            ["2024-03-31 21", "2024-04-01 04", "2024-03-31 23", "1970-01-01 00"],
        ),
        (
            # Without an output zone the zone of the text counts.
            ["2024-03-31T23:30:00-05:00"],
            {
                "timestamp_type": "MIXED",
                "input_dateformat": "yyyy-MM-dd'T'HH:mm:ssZZ",
                "output_dateformat": "yyyy-MM-dd HH",
            },
            ["2024-03-31 23"],
        ),
        (
            ["02.01.2024", "2024/01/03"],
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": "dd.MM.yyyy;yyyy/MM/dd",
                "input_dateformat_list_delimiter_regex": ";",
                "input_timezone": "GMT+8:00",
                "output_timezone": "UTC",
                "output_dateformat": "yyyyMMddHH",
            },
            ["2024010116", "2024010216"],
        ),
    ],
)
def test_time_based_folders(values, options, expected):
    rows = pa.table({"id": list(range(len(values))), "ts": values})
    assert timed(rows, **options) == expected


UNIX = {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy"}
TEXT = {"timestamp_type": "DATE_STRING", "output_dateformat": "yyyy", "input_dateformat": "yyyy"}


@pytest.mark.parametrize(
    ("values", "options", "error", "words"),
    [
        ([1], {}, InvalidInput, "timebased.timestamp.type"),
        ([1], {"timestamp_type": "UNIX_TIMESTAMP"}, InvalidInput, "output.dateformat"),
        ([1], {**UNIX, "timestamp_type": "JULIAN"}, InvalidInput, "JULIAN"),
        ([1], {**UNIX, "timezone": "Mars/Olympus"}, InvalidInput, "Mars/Olympus"),
        ([1], {**UNIX, "output_dateformat": "yyyy-ww"}, UnsupportedFeature, "ww"),
        ([1], {**UNIX, "output_dateformat": "uuuu"}, UnsupportedFeature, "'u'"),
        ([1], {**UNIX, "output_dateformat": "'x'"}, InvalidInput, "no field"),
        ([1], {**UNIX, "output_dateformat": "'.'yyyy"}, InvalidInput, "dot"),
        ([1], {**UNIX, "output_dateformat": "yyyy//MM"}, InvalidInput, "empty"),
        ([2**62], UNIX, InvalidInput, "years 0 to 9999"),
        ([float("nan")], UNIX, InvalidInput, "no time"),
        (["2024"], UNIX, InvalidInput, "a column of numbers"),
        ([dt.datetime(2024, 1, 1)], UNIX, InvalidInput, "EPOCHMICROSECONDS"),
        ([dt.date(2024, 1, 1)], UNIX, InvalidInput, "DAYS"),
        ([1], TEXT, InvalidInput, "text column"),
        (["2024-13"], {**TEXT, "input_dateformat": "yyyy-MM"}, InvalidInput, "'2024-13'"),
        ([""], TEXT, InvalidInput, "''"),
        (
            ["x"],
            {**TEXT, "input_dateformat_list_delimiter_regex": "(a+)+"},
            UnsupportedFeature,
            "a+",
        ),
    ],
)
def test_bad_time_options_and_values_are_refused_by_name(values, options, error, words):
    rows = pa.table({"id": [1], "ts": values})
    with pytest.raises(error, match=words.replace("+", r"\+")):
        timed(rows, **options)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (config("a,b", "p", "SIMPLE"), InvalidInput, "COMPLEX"),
        (config("a", "p,q", "SIMPLE"), InvalidInput, "one partition column"),
        (config("a", "p", "NON_PARTITION"), InvalidInput, "NON_PARTITION"),
        (config("a", "p:year", "CUSTOM"), InvalidInput, "'year'"),
        (config("a", "p", "GLOBAL_DELETE"), UnsupportedFeature, "GLOBAL_DELETE"),
        (
            config("a", "p", hoodie__table__keygenerator__class="com.evil.Code"),
            UnsupportedFeature,
            "com.evil.Code",
        ),
    ],
)
def test_generators_that_do_not_fit_are_refused(table, error, words):
    schema = pa.schema([(name, pa.string()) for name in "abpq"])
    with pytest.raises(error, match=words):
        KeyGenerator.of(table, schema)


def test_no_rows_have_no_keys():
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    generator = KeyGenerator.of(config(partitions="p"), schema)
    assert len(generator.keys(schema.empty_table())) == 0
    assert len(generator.partition_paths(schema.empty_table())) == 0
