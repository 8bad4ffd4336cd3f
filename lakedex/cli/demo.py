"""`lakedex demo`: on a real table, the same queries with indexes and without."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lakedex.cli import console
from lakedex.cli.arguments import AsJson, StorageOptions, open_table, parse_storage_options
from lakedex.cli.console import FOUND_PROBLEMS, Column, print_json
from lakedex.cli.demo_queries import Comparison, Query, ask_hudi_rs, compare, queries_for
from lakedex.cli.demo_spark import QueryComparison, SparkDemo, demo_on_spark, what_spark_needs
from lakedex.cli.explain import print_report
from lakedex.cli.indexes import print_indexes
from lakedex.cli.show import overview, print_table
from lakedex.errors import InvalidInput

_PACKED = "cow_trips_all_indexes.zip"
_FOLDERS = (Path(__file__).parent, Path(__file__).parents[2] / "tests" / "golden")
"""Where the packed table is: beside this module in an installed package, or in a checkout."""
_QUERIES = (
    Query("one record key", "uuid = 'k0003'"),
    Query("one city, by a secondary index", "city = 'a$b'"),
    Query("a range of times", "ts > 1699000000"),
)
_COLUMNS = (
    Column(""),
    Column("file slices", is_number=True),
    Column("data bytes", is_number=True),
    Column("ms", is_number=True),
    Column("rows", is_number=True),
)


def demo(
    *,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Another table; by default a small one that Apache Hudi wrote.",
            show_default=False,
        ),
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Also make a table with Spark.")
    ] = True,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Unzip the table here and keep it.", show_default=False),
    ] = None,
    storage_option: StorageOptions = None,
    as_json: AsJson = False,
) -> None:
    """Show on a real table what indexes save, and that no row is lost by it.

    Then, where pyspark is installed, Spark jobs of this process make a table in a folder that
    goes away, upsert, index and cluster it; plain Spark SQL queries it with indexes and without.

    The exit code is 1 when a query with indexes finds other rows than a full scan, when hudi-rs,
    if it is installed, reads other record keys than lakedex, or when an index is wrong.
    """
    with _table_to_show(table, keep) as path:
        opened = open_table(path, storage_option)
        options = parse_storage_options(storage_option)
        queries = queries_for(opened) if table else list(_QUERIES)
        if not as_json:
            print_table(opened.snapshot, overview(opened.snapshot))
            print_indexes(opened.indexes(), title="indexes")
        for query in queries[:1]:
            # What is loaded and compiled once must not count as the first query's time.
            compare(path, options, query)
        found = [compare(path, options, query) for query in queries]
        judge = ask_hudi_rs(opened, path, options)
    is_good = all(each.same_rows for each in found) and judge.get("same_keys") is not False
    if not as_json:
        _print_answer(found, judge)
    wants_spark = spark and table is None
    missing = what_spark_needs() if wants_spark else None
    made = demo_on_spark() if wants_spark and missing is None else None
    if made is not None:
        is_good &= made.is_right and made.hudi_rs.get("same_keys") is not False
        is_good &= all(each.same_rows for each in made.queries)
    if as_json:
        answer: dict[str, Any] = {
            "comparisons": [each.as_dict() for each in found],
            "hudi_rs": judge,
            "spark": None if made is None else made.as_dict(),
        }
        print_json({**answer, "ok": is_good})
    elif made is not None:
        _print_made(made)
    elif missing is not None:
        console.say(f"To see a table created, changed and queried by Spark, add {missing}")
    if not is_good:
        raise typer.Exit(FOUND_PROBLEMS)


@contextmanager
def _table_to_show(table: str | None, keep: Path | None) -> Iterator[str]:
    if table is not None:
        if keep is not None:
            raise InvalidInput("--keep is for the table of the demo, not for one of yours")
        yield table
    elif keep is not None:
        path = _unzip(keep)
        console.note(f"the table is kept in {path}")
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="lakedex-demo-") as folder:
            yield _unzip(Path(folder))


def _unzip(folder: Path) -> str:
    with zipfile.ZipFile(_packed()) as archive:
        root = folder / archive.namelist()[0].partition("/")[0]
        if root.exists():
            raise InvalidInput(f"{root} exists already")
        archive.extractall(folder)
    return str(root)


def _packed() -> Path:
    for folder in _FOLDERS:
        if (folder / _PACKED).is_file():
            return folder / _PACKED
    raise InvalidInput(f"this installation of lakedex lacks {_PACKED}; pass --table PATH")


def _print_answer(found: list[Comparison], judge: dict[str, Any]) -> None:
    for each in found:
        _print_comparison(each)
    if any(each.pruned.seconds > each.full.seconds for each in found):
        console.say(
            "Some queries took longer with indexes: looking into them costs time, "
            "which pays where it saves enough reading.",
            console.QUIET,
        )
    if judge.get("same_keys"):
        console.say(f"hudi-rs reads {judge['rows']:,} rows with the same record keys", console.GOOD)
    elif "same_keys" in judge:
        console.say(f"hudi-rs reads {judge['rows']:,} rows with OTHER record keys", console.BAD)
    elif judge.get("problem"):
        console.say("hudi-rs gives no answer for this table", console.QUIET)
    if all(each.same_rows for each in found):
        console.say("every query found the same rows with indexes and without", console.GOOD)
    else:
        console.say("a query with indexes found other rows than a full scan", console.BAD)


def _print_made(made: SparkDemo) -> None:
    rows = [(what, outcome, f"{seconds:.2f}") for what, outcome, seconds in made.steps]
    columns = (Column("Spark jobs"), Column("rows and files"), Column("s", is_number=True))
    console.say("")
    console.table(columns, rows, title="a table made in a Spark session of this process")
    for each in made.queries:
        _print_asked(each)
    print_report(made.report)
    if made.hudi_rs.get("same_keys"):
        text = f"hudi-rs reads {made.hudi_rs['rows']:,} rows with the same record keys"
        console.say(text, console.GOOD)
    elif "same_keys" in made.hudi_rs:
        console.say("hudi-rs reads OTHER record keys of the table that was made", console.BAD)
    if made.is_right:
        console.say("every index entry agrees with the data", console.GOOD)
    else:
        console.say("the table that was made is not as it should be", console.BAD)


def _print_asked(each: QueryComparison) -> None:
    columns = (Column(""), Column("file slices", is_number=True), Column("ms", is_number=True))
    rows = [
        ("with indexes", f"{each.left} of {each.total}", f"{each.seconds * 1000:.0f}"),
        ("without", f"{each.total} of {each.total}", f"{each.seconds_without * 1000:.0f}"),
    ]
    console.say(f"{each.what}: SELECT ... WHERE {each.condition}", console.STRONG)
    console.table(columns, rows)
    verdict = ("  same rows", console.GOOD) if each.same_rows else ("  OTHER ROWS", console.BAD)
    console.say(*verdict)
    console.say("")


def _print_comparison(each: Comparison) -> None:
    rows = [
        (
            name,
            f"{len(run.report.files):,} of {run.report.total:,}",
            run.report.bytes_left,
            f"{run.seconds * 1000:.1f}",
            run.rows.num_rows,
        )
        for name, run in (("with indexes", each.pruned), ("without", each.full))
    ]
    console.table(_COLUMNS, rows, title=f"{each.query.what}: {each.query.text}")
    for step in each.pruned.report.steps:
        if step.after < step.before:
            console.say(f"  {step.index}: {step.before} to {step.after}, {step.reason}")
    verdict = ("  same rows", console.GOOD) if each.same_rows else ("  OTHER ROWS", console.BAD)
    console.say(*verdict)
    console.say("")
