"""Real Hudi reads back values of every type that lakedex wrote, with data skipping as without."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import lakedex
from tests.interop.handing_over import (
    TYPES,
    Values,
    by_hudi,
    by_lakedex,
    hudi_writes,
    make_table,
    rows,
    source,
)

NO_SKIPPING = {"hoodie.enable.data.skipping": "false"}
LONG = "x" * 5000
TYPED = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int64()),
        ("p", pa.string()),
        ("flag", pa.bool_()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("small", pa.decimal128(10, 2)),
        ("large", pa.decimal128(25, 3)),
        ("s", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.int32())),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("nested", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
# One row per column and partition: values of different partitions shall be told apart by ranges.
VALUES: dict[str, list] = {
    "flag": [True, False, None, True],
    "i": [-(2**31), 2**31 - 1, 0, None],
    "l": [-(2**63), 2**63 - 1, 0, None],
    "f": [float("nan"), float("inf"), -0.0, None],
    "d": [-0.0, float("-inf"), float("nan"), None],
    "small": [Decimal("-12345678.91"), Decimal("0.00"), Decimal("99999999.99"), None],
    "large": [
        Decimal("-9999999999999999999999.999"),
        Decimal("0.001"),
        Decimal("1234567890123456789012.345"),
        None,
    ],
    "s": ["\U0001f600 non-BMP", LONG, "", None],
    "raw": [b"\x00\xff", b"", bytes(range(256)), None],
    "day": [date(1969, 12, 31), date(1600, 2, 29), date(2024, 2, 29), None],
    "ts": [
        datetime(1899, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        datetime(2024, 2, 29, 1, 2, 3, 456789, UTC),
        None,
    ],
    "local": [
        datetime(1850, 1, 1, 0, 0, 0, 1),
        datetime(1969, 12, 31, 23, 59, 59, 1),
        datetime(2024, 2, 29, 1, 2, 3, 456789),
        None,
    ],
    "tags": [[1, None, 3], [], [2**31 - 1], None],
    "pairs": [[("a", 1), ("b", None)], [], [("é", -1)], None],
    "nested": [{"x": 1, "y": None}, {"x": None, "y": "z"}, {"x": 3, "y": "q"}, None],
}
# Two engines give times and doubles in different clothes; as numbers and texts they are the same.
SHOWN = [
    *("id", "ver", "p", "flag", "i", "l", "cast(f as string) f", "cast(d as string) d"),
    *("small", "large", "s", "hex(raw) raw", "day", "unix_micros(ts) ts"),
    *("unix_micros(cast(local as timestamp)) local", "tags", "map_entries(pairs) pairs", "nested"),
]
TYPE_QUESTIONS = [
    *("not flag", "i = 0", "i > 100", "l < 0", "f = 0.0", "f > 1", "d < -1", "d >= 0"),
    *("small < 0", "small = 99999999.99", "large < 0", "large = 0.001"),
    *("s = '\U0001f600 non-BMP'", f"s = '{LONG}'", "s = ''"),
    *("day < date'1900-01-01'", "day = date'1969-12-31'"),
    "ts < timestamp'1900-01-01 00:00:00Z'",
    "ts = timestamp'1969-12-31 23:59:59.000001Z'",
    "local < timestamp_ntz'1900-01-01 00:00:00'",
    "local = timestamp_ntz'2024-02-29 01:02:03.456789'",
    *("nested.x > 2", "nested.y is null"),
    *(f"{name} is null" for name in ("d", "large", "s", "ts", "tags")),
]


def typed(ver: int, turn: int = 0) -> pa.Table:
    """Four rows in four partitions; another turn gives each the values of another one."""
    columns = {
        "id": [f"k{i}" for i in range(4)],
        "ver": [ver] * 4,
        "p": [f"p{i}" for i in range(4)],
    }
    columns |= {name: [*values[turn:], *values[:turn]] for name, values in VALUES.items()}
    return pa.table(columns, schema=TYPED)


@pytest.fixture(scope="module", params=TYPES)
def typed_table(request, tmp_path_factory) -> str:
    """All types in base files, and for merge-on-read in log files over them."""
    path = str(tmp_path_factory.mktemp("typed") / request.param)
    writer = make_table(path, request.param, TYPED)
    writer.upsert(source(typed(1, turn=1)))
    writer.upsert(source(typed(2)))
    return path


def test_values_of_every_type_come_back(spark, typed_table):
    expected = shown(typed(2))
    assert by_hudi(spark, typed_table, columns=SHOWN) == expected
    assert shown(lakedex.open(typed_table).to_arrow()) == expected
    types = dict(spark.read.format("hudi").load(typed_table).dtypes)
    assert {types[name] for name in ("ts", "local")} == {"timestamp", "timestamp_ntz"}


def test_filters_on_every_type_find_the_same_with_data_skipping(spark, typed_table):
    plain = spark.read.format("hudi").options(**NO_SKIPPING).load(typed_table).localCheckpoint()
    wrong = {}
    for question in TYPE_QUESTIONS:
        found = by_hudi(spark, typed_table, question, ["id"])
        wanted = sorted((row.id,) for row in plain.where(question).select("id").collect())
        ours = by_lakedex(typed_table, question, ["id"])
        if not found == wanted == ours:
            wrong[question[:80]] = (found, wanted, ours)
    assert not wrong


@pytest.mark.parametrize("writer", ["hudi", "lakedex"])
def test_where_hudi_fails_to_skip_whoever_wrote_the_ranges(spark, tmp_path, writer):
    # It takes bytes of partition_stats for an array, and wants a prefix between the bounds
    # (case B3).
    path = str(tmp_path / "t")
    table = rows(0, 4, 1).append_column("raw", pa.array([b"a", b"b", b"c", None]))
    if writer == "hudi":
        hudi_writes(spark, path, table, tmp_path)
    else:
        make_table(path, "cow", table.schema).upsert(source(table))
    with pytest.raises(Py4JJavaError, match="HeapByteBuffer cannot be cast"):
        by_hudi(spark, path, "raw = X'61'", ["id"])
    assert by_hudi(spark, path, "s like 's%'", ["id"]) == []
    for question, keys in (("raw = X'61'", ["k000"]), ("s like 's2%'", ["k002"])):
        wanted = [(key,) for key in keys]
        assert by_hudi(spark, path, question, ["id"], **NO_SKIPPING) == wanted
        assert by_lakedex(path, question, ["id"]) == wanted


@pytest.mark.parametrize("question", ["f = float('NaN')", "d = double('NaN')"])
def test_hudi_does_not_find_nan_within_infinite_bounds(spark, typed_table, question):
    # NaN is larger than infinity to Spark; what Hudi itself writes loses other rows (case B1).
    wanted = by_hudi(spark, typed_table, question, ["id"], **NO_SKIPPING)
    assert len(wanted) == 1
    assert by_hudi(spark, typed_table, question, ["id"]) == []
    assert by_lakedex(typed_table, question, ["id"]) == wanted


def shown(table: pa.Table) -> Values:
    """The rows in the clothes of `SHOWN`."""
    found = []
    for row in table.select(TYPED.names).to_pylist():
        values = dict(row)
        for name in ("f", "d"):
            values[name] = None if row[name] is None else JAVA_TEXT[str(row[name])]
        values["raw"] = None if row["raw"] is None else row["raw"].hex().upper()
        for name in ("ts", "local"):
            values[name] = None if row[name] is None else micros(row[name])
        pairs = row["pairs"]
        values["pairs"] = pairs and [{"key": key, "value": value} for key, value in pairs]
        found.append(tuple(values.values()))
    return sorted(found, key=lambda row: row[0])


JAVA_TEXT = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-0.0": "-0.0"}


def micros(at: datetime) -> int:
    delta = at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
