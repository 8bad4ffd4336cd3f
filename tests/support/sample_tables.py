"""Small tables with every index and every column type, as both judges are asked to read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from tests.support.index_specs import ExpressionIndex, Index, SecondaryIndex
from tests.support.table_builder import TableBuilder

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ver", pa.int32()),
        ("n", pa.int64()),
        ("s", pa.string()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("price", pa.decimal128(10, 2)),
        ("big", pa.decimal128(25, 3)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("pair", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("p", pa.string()),
    ]
)
ALL_INDEXES: tuple[Index, ...] = (
    "column_stats",
    "partition_stats",
    "bloom_filters",
    "record_index",
    SecondaryIndex("idx_s", "s"),
    ExpressionIndex("idx_up", "s", "upper"),
    ExpressionIndex("idx_day", "ts", "date_format", {"format": "yyyy-MM-dd"}),
)
_FIRST = datetime(2024, 1, 1, tzinfo=UTC)
_TEXTS = ("plain", "with$dollar", "back\\slash", "", "ünïcode", "\U0001f600")


def make_rows(first: int, last: int, *, ver: int = 1, text: str | None = None) -> pa.Table:
    """Rows `first` to `last` - 1 without the partition column; every seventh has nulls."""
    numbers = range(first, last)
    return pa.table(
        {
            "id": [f"k{i:03d}" for i in numbers],
            "ver": [ver] * len(numbers),
            "n": [None if i % 7 == 3 else i * 10 for i in numbers],
            "s": [_text(i, text) for i in numbers],
            "f": [i / 4 for i in numbers],
            "d": [-i / 8 for i in numbers],
            "flag": [None if i % 7 == 3 else i % 2 == 0 for i in numbers],
            "raw": [bytes([i % 256, 255]) for i in numbers],
            "price": [Decimal(i) / 4 - 3 for i in numbers],
            "big": [Decimal(-i * 10**15) / 1000 for i in numbers],
            "day": [date(1969, 12, 25) + timedelta(days=i) for i in numbers],
            "ts": [_FIRST + timedelta(hours=i, microseconds=i) for i in numbers],
            "tags": [["a"] * (i % 3) for i in numbers],
            "pair": [{"x": i, "y": None if i % 2 else str(i)} for i in numbers],
        },
        schema=pa.schema([column for column in SCHEMA if column.name != "p"]),
    )


def in_partition(rows: pa.Table, partition: str) -> pa.Table:
    """The rows with the partition column, as updates need it."""
    return rows.append_column("p", pa.repeat(partition, len(rows)))


def new_builder(
    path: str | Path, table_type: str, indexes: Sequence[Index] = ALL_INDEXES, **options: object
) -> TableBuilder:
    """A builder for such rows."""
    settings = {"record_key": "id", "partition_by": "p", "ordering": "ver", **options}
    return TableBuilder(path, SCHEMA, table_type=table_type, indexes=indexes, **settings)


def changed_cow(path: str | Path, **options: object) -> TableBuilder:
    """Copy-on-write: four base files in three partitions, then updates, deletes and an insert.

    `k004` got the text `moved`; `k005` kept its row, as its update is older; `k011` and `k021`
    are gone.
    """
    builder = new_builder(path, "cow", **options)
    builder.commit([("a", make_rows(0, 10)), ("a", make_rows(10, 20)), ("b", make_rows(20, 30))])
    builder.commit(
        [("c", make_rows(30, 40))],
        updates=in_partition(_updates(), "a"),
        deletes=["k011", "k021"],
    )
    builder.finish()
    return builder


def changed_mor(path: str | Path, *, block: str = "avro", **options: object) -> TableBuilder:
    """Merge-on-read: the same changes in log files, then a second round of updates."""
    builder = new_builder(path, "mor", **options)
    builder.commit([("a", make_rows(0, 10)), ("a", make_rows(10, 20)), ("b", make_rows(20, 30))])
    builder.log_commit(in_partition(_updates(), "a"), ["k011", "k021"], block=block)
    builder.commit([("c", make_rows(30, 40))])
    again = in_partition(make_rows(30, 32, ver=2, text="again"), "c")
    builder.log_commit(again, ["k039"], block=block)
    builder.log_commit(deletes=["k022"])
    builder.finish()
    return builder


def sorted_rows(rows: pa.Table) -> list[dict]:
    """The rows of user columns in an order of their own, to be compared."""
    return sorted(rows.select(SCHEMA.names).to_pylist(), key=lambda row: row["id"])


def _updates() -> pa.Table:
    newer = make_rows(4, 5, ver=2, text="moved")
    older = make_rows(5, 6, ver=0, text="too late")
    return pa.concat_tables([newer, older])


def _text(number: int, text: str | None) -> str | None:
    if text is not None:
        return text
    return None if number % 7 == 3 else f"{number:03d}-{_TEXTS[number % len(_TEXTS)]}"


ORDERED_SCHEMA = pa.schema(
    [("id", pa.string()), ("day", pa.string()), ("seq", pa.int64()), ("name", pa.string())]
)


def ordered_table(
    path: Path,
    indexes: Sequence[Index],
    *,
    files: int = 120,
    partitions: int = 12,
    real_files: int | None = None,
) -> Path:
    """Files of two rows; `seq` and `name` grow from file to file, partitions are equally large.

    With `real_files` only the first ones are there; the others are in the metadata table only.
    """
    builder = TableBuilder(
        path,
        ORDERED_SCHEMA,
        record_key="id",
        partition_by="day",
        metadata="base",
        indexes=indexes,
        groups={"expr_index": 1},
    )
    each = files // partitions
    real = files if real_files is None else real_files
    if real < files:
        builder.commit(_ordered_files(range(real, files), each), phantom_files=True)
    builder.commit(_ordered_files(range(real), each))
    builder.finish()
    return path


def _ordered_files(numbers: range, a_partition: int) -> list[tuple[str, pa.Table]]:
    return [
        (
            f"d{number // a_partition:03}",
            pa.table(
                {
                    "id": [f"k{number}", f"m{number}"],
                    "seq": [2 * number, 2 * number + 1],
                    "name": [f"n{number:05}a", f"n{number:05}b"],
                }
            ),
        )
        for number in numbers
    ]
